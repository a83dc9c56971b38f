//! From a Service and port that a rule names to a backend: which port of the Service is meant, how the backend is named,
//! and where its addresses come from.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway_model::{Backend, BackendKey, BackendTraffic, Endpoint, Origin, PortProtocol, ServiceName};
use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::balance::Balance;
use crate::diagnostic::{Diagnostic, Severity};
use crate::endpoints::{self, PortChoice};
use crate::external::{self, ExternalName};
use crate::inputs::Inputs;
use crate::object::{Kind, ObjectKey};
use crate::options::ExternalNames;
use crate::pool;
use crate::service::KeptService;
use crate::transport::{Transport, is_port_of};

/// A Service and port that some rule forwards to, what is spoken there, and who gets a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendRef {
    /// Its name in the configuration.
    pub key: BackendKey,
    /// The Service, the InferencePool or the ServiceImport; without namespace where a URL names another host.
    pub service: ObjectKey,
    /// As the rule wrote it.
    pub port: Arc<str>,
    /// What is spoken there.
    pub transport: Transport,
    /// Who gets a request.
    pub balance: Balance,
    /// How its endpoints are used, where that is not as everywhere.
    pub traffic: Option<Arc<BackendTraffic>>,
    /// Where its addresses come from.
    pub via: Via,
    /// The URL that names it: its host is asked where there is no such Service.
    pub by_url: Option<Arc<ByUrl>>,
}

/// A URL that names a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByUrl {
    /// A name or an address.
    pub host: Arc<str>,
    /// What it is asked for.
    pub purpose: Purpose,
}

/// What a filter names a backend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It gets copies of requests.
    Copies,
    /// Requests wait for its word.
    Word,
    /// Tokens are verified with the keys that it publishes.
    Keys,
    /// It is the web application firewall that the operator named.
    Firewall,
    /// It sees requests and responses, and may change them.
    Extension,
}

impl Purpose {
    /// What happens as long as it has no endpoint.
    pub fn without(self) -> &'static str {
        match self {
            Self::Copies => "it gets no copies of requests",
            Self::Word => "requests that wait for its word are answered 500",
            Self::Keys => "its token keys cannot be fetched, and requests that need them are answered 503",
            Self::Extension => "its failureMode decides about requests that it must see",
            Self::Firewall => "requests that the web application firewall must see are answered 500",
        }
    }
}

/// What stands for the Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Via {
    /// Its endpoints.
    #[default]
    Endpoints,
    /// Its cluster address, where it has one.
    ClusterAddress,
    /// Nothing: it is an InferencePool, and its Pods are the endpoints.
    Pool,
    /// Nothing: it is a ServiceImport, and the endpoints of its slices are those of a set of clusters.
    Import,
}

/// Where the addresses of a Service and port come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// From its slices.
    Slices(PortChoice),
    /// From the addresses of a name.
    External(ExternalName),
    /// It is this one: the cluster address, or that of the firewall, which the operator gave.
    Cluster(SocketAddr),
    /// From the Pods of the InferencePool.
    Pool,
}

/// Why a reference leads to no backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// The Service does not exist.
    NoService,
    /// It has no such port, but these.
    NoPort {
        /// Names and numbers, for people.
        known: String,
    },
    /// It is of type ExternalName, and such are refused.
    External,
}

impl BackendRef {
    /// `port` of `service`, as a rule wrote them.
    pub fn new(service: ObjectKey, port: Arc<str>, transport: &Transport, balance: &Balance) -> Self {
        let key = BackendKey(format!("{service}:{port}{}{}", transport.suffix(), balance.suffix()).into());
        let (transport, balance) = (transport.clone(), balance.clone());
        Self { key, service, port, transport, balance, traffic: None, via: Via::default(), by_url: None }
    }

    /// An InferencePool, spoken to in the clear.
    #[must_use]
    pub fn of_pool(pool: ObjectKey, balance: &Balance) -> Self {
        let key = BackendKey(format!("InferencePool/{pool}{}", balance.suffix()).into());
        let own = Self::new(pool, Arc::default(), &Transport::Plain, balance);
        Self { key, via: Via::Pool, ..own }
    }

    /// A port of a ServiceImport.
    #[must_use]
    pub fn of_import(import: ObjectKey, port: Arc<str>, transport: &Transport, balance: &Balance) -> Self {
        let own = Self::new(import, port, transport, balance);
        Self { key: BackendKey(format!("ServiceImport/{}", own.key).into()), via: Via::Import, ..own }
    }

    /// What a URL names: the Service, where it exists, else whatever the name stands for.
    pub fn of_url(service: ObjectKey, port: u16, transport: &Transport, by_url: ByUrl) -> Self {
        // What is said about one that cannot be reached depends on the purpose, so each purpose has a backend of its own.
        let mark = match by_url.purpose {
            Purpose::Copies => "copies",
            Purpose::Word => "host",
            Purpose::Keys => "keys",
            Purpose::Firewall => "firewall",
            Purpose::Extension => "extension",
        };
        let key = BackendKey(format!("{service}:{port}{};{mark}={}", transport.suffix(), by_url.host).into());
        let own = Self::new(service, port.to_string().into(), transport, &Balance::default());
        Self { key, by_url: Some(Arc::new(by_url)), ..own }
    }

    /// The Service, if it is one by its name or its address.
    pub fn by_service(&self) -> Option<&ObjectKey> {
        (!self.service.namespace.is_empty()).then_some(&self.service)
    }

    /// The address by which a URL names it.
    pub fn by_address(&self) -> Option<IpAddr> {
        self.by_url.as_ref()?.host.parse::<IpAddr>().ok().map(|address| address.to_canonical())
    }

    /// What names it in the cookies of sessions: Service and port, whatever the cookies are like.
    pub fn tag(&self) -> String {
        // FNV-1a: clients keep it, so it must be the same in every version.
        let bytes = format!("{}:{}", self.service, self.port);
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        format!("{:016x}", bytes.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// The first port of a Service, spoken to as without annotations. `None` where the Service does not exist, has no
    /// port or is refused.
    pub fn first_port(service: &ObjectKey, inputs: Inputs<'_>) -> Option<Self> {
        let port = inputs.resources.services.get(service)?.object.ports.first()?.port.to_string();
        let reference = Self::new(service.clone(), port.into(), &Transport::default(), &Balance::default());
        reference.target(inputs).is_ok().then_some(reference)
    }

    /// The same with endpoints that are used as `policy` says, by which backends are told apart.
    pub fn used(mut self, policy: &ObjectKey, traffic: BackendTraffic) -> Self {
        self.key = BackendKey(format!("{};traffic={policy}", self.key).into());
        self.traffic = traffic.kept();
        self
    }

    /// How its endpoints are used, and which of them are preferred.
    fn traffic(&self) -> Option<Arc<BackendTraffic>> {
        let (distribution, health) = (self.balance.distribution, self.balance.health.clone());
        // A policy and an annotation never meet: one is for routes, the other for Ingresses.
        let traffic = self.traffic.as_ref().or(self.balance.traffic.as_ref());
        if distribution.is_none() && health.is_none() {
            return traffic.cloned();
        }
        BackendTraffic { distribution, health, ..BackendTraffic::of(traffic).clone() }.kept()
    }

    /// The same with another address.
    pub fn via(mut self, via: Via) -> Self {
        if via == Via::ClusterAddress {
            self.key = BackendKey(format!("{};cluster-address", self.key).into());
        }
        self.via = via;
        self
    }

    /// Where its addresses come from.
    pub fn target(&self, inputs: Inputs<'_>) -> Result<Target, ResolveError> {
        if self.via == Via::Pool {
            let exists = inputs.resources.gateway.pools.contains_key(&self.service);
            return if exists { Ok(Target::Pool) } else { Err(ResolveError::NoService) };
        }
        let protocol = self.transport.port_protocol();
        if self.via == Via::Import {
            let import =
                inputs.resources.gateway.imports.get(&self.service).ok_or(ResolveError::NoService)?;
            let ports = &*import.object.spec.ports;
            return match service_port(ports, &self.port, protocol) {
                Some(port) => Ok(Target::Slices(choice(port, protocol))),
                None => Err(ResolveError::NoPort { known: known_ports(ports) }),
            };
        }
        let service = match (inputs.resources.services.get(&self.service), &self.by_url) {
            (Some(service), _) => service,
            (None, Some(by_url)) if by_url.purpose == Purpose::Firewall => return self.given(by_url),
            (None, Some(by_url)) if !self.stays_inside() => {
                return self.external(&by_url.host, &[]).map_err(|_| ResolveError::NoService);
            }
            (None, _) => return Err(ResolveError::NoService),
        };
        let ports = &*service.object.ports;
        if let Some(name) = service.object.external_name.as_deref() {
            return match inputs.options.trust.external.names {
                _ if self.stays_inside() => Err(ResolveError::External),
                ExternalNames::Refused => Err(ResolveError::External),
                ExternalNames::Resolved => self.external(name, ports),
            };
        }
        if let Some(port) = service_port(ports, &self.port, protocol) {
            let cluster =
                (self.via == Via::ClusterAddress).then(|| cluster_address(&service.object, port, inputs));
            return Ok(cluster
                .flatten()
                .map_or_else(|| Target::Slices(choice(port, protocol)), Target::Cluster));
        }
        // A headless Service may have no ports: the number is then the pods' own.
        match (ports, self.port.parse()) {
            ([], Ok(number)) => {
                Ok(Target::Slices(PortChoice { name: "".into(), number: Some(number), protocol }))
            }
            _ => Err(ResolveError::NoPort { known: known_ports(ports) }),
        }
    }

    /// Whether only the endpoints of a Service are asked: keys that come in the clear from elsewhere may be forged on the way.
    fn stays_inside(&self) -> bool {
        let purpose = self.by_url.as_ref().map(|by_url| by_url.purpose);
        purpose == Some(Purpose::Keys) && self.transport == Transport::Plain
            || purpose == Some(Purpose::Firewall)
    }

    /// The address that the operator gave. No range is too special for it: a sidecar listens on loopback.
    fn given(&self, by_url: &ByUrl) -> Result<Target, ResolveError> {
        let address = by_url.host.parse::<IpAddr>().ok().zip(self.port.parse().ok());
        let (address, port) = address.ok_or(ResolveError::NoService)?;
        Ok(Target::Cluster(SocketAddr::new(address.to_canonical(), port)))
    }

    fn external(&self, name: &str, ports: &[ServicePort]) -> Result<Target, ResolveError> {
        let own = service_port(ports, &self.port, self.transport.port_protocol());
        let own = own.and_then(|port| match &port.target_port {
            Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
            _ => u16::try_from(port.port).ok(),
        });
        let port = own.or_else(|| self.port.parse().ok());
        let port = port.ok_or_else(|| ResolveError::NoPort { known: known_ports(ports) })?;
        let name = name.to_ascii_lowercase().trim_end_matches('.').into();
        Ok(Target::External(ExternalName { name, port }))
    }
}

/// The port by its number or name; else, as ingress-nginx does, by its target port. Of two with the same number the one of
/// the protocol counts, as a Service for DNS has them.
fn service_port<'a>(ports: &'a [ServicePort], port: &str, protocol: PortProtocol) -> Option<&'a ServicePort> {
    let fitting = || ports.iter().filter(|it| is_port_of(protocol, it.protocol.as_deref()));
    let by_name = |it: &&ServicePort| it.name.as_deref() == Some(port) || it.port.to_string() == port;
    let by_target = |it: &&ServicePort| match &it.target_port {
        Some(IntOrString::Int(number)) => number.to_string() == port,
        Some(IntOrString::String(name)) => name == port,
        None => false,
    };
    fitting().find(by_name).or_else(|| fitting().find(by_target))
}

/// The address of the Service in the cluster, which a headless one has not.
fn cluster_address(service: &KeptService, port: &ServicePort, inputs: Inputs<'_>) -> Option<SocketAddr> {
    let ip = endpoints::usable(service.cluster_address?, inputs.options).ok()?;
    Some(SocketAddr::new(ip, u16::try_from(port.port).ok()?))
}

/// What a port says that it speaks.
fn app_protocol<'s>(ports: &'s [ServicePort], port: &str, protocol: PortProtocol) -> Option<&'s str> {
    service_port(ports, port, protocol)?.app_protocol.as_deref()
}

fn choice(port: &ServicePort, protocol: PortProtocol) -> PortChoice {
    let number = match &port.target_port {
        Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
        Some(IntOrString::String(_)) => None,
        None => u16::try_from(port.port).ok(),
    };
    PortChoice { name: port.name.as_deref().unwrap_or_default().into(), number, protocol }
}

fn known_ports(ports: &[ServicePort]) -> String {
    let text = |port: &ServicePort| {
        let number = match port.protocol.as_deref() {
            None | Some("TCP") => port.port.to_string(),
            Some(protocol) => format!("{}/{protocol}", port.port),
        };
        match &port.name {
            Some(name) if !name.is_empty() => format!("{name} ({number})"),
            _ => number,
        }
    };
    if ports.is_empty() { "none".to_owned() } else { ports.iter().map(text).collect::<Vec<_>>().join(", ") }
}

/// Makes that of an InferencePool.
fn build_of_pool(reference: &BackendRef, inputs: Inputs<'_>) -> Option<(Backend, Vec<Diagnostic>)> {
    let key = &reference.service;
    let pool = inputs.resources.gateway.pools.get(key)?;
    let spec = &pool.object.spec;
    let mut diagnostics = Vec::new();
    let endpoints = pool::endpoints_of(key, spec, inputs, &mut diagnostics);
    let origin = pool.origin(Kind::InferencePool, key, "");
    if endpoints.is_empty() {
        let found = Diagnostic::new(Severity::Warning, "no-endpoints", origin.clone());
        let problem = "no Pod that is ready has the labels of its selector";
        diagnostics.push(found.because(problem, "its requests are answered 503 until one has"));
    }
    let backend = Backend {
        key: reference.key.clone(),
        origin,
        service: ServiceName {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            port: reference.port.clone(),
        },
        endpoints,
        protocol: reference.transport.protocol(spec.app_protocol.as_deref()),
        tls: reference.transport.tls(key).map(Arc::new),
        balancing: reference.balance.balancing,
        session: reference.balance.session(&reference.tag()),
        traffic: reference.traffic(),
    };
    Some((backend, diagnostics))
}

/// Makes the backend.
pub fn build(reference: &BackendRef, inputs: Inputs<'_>) -> Option<(Backend, Vec<Diagnostic>)> {
    if reference.via == Via::Pool {
        return build_of_pool(reference, inputs);
    }
    let resources = inputs.resources;
    let is_import = reference.via == Via::Import;
    let import = resources.gateway.imports.get(&reference.service).filter(|_| is_import);
    let service = resources.services.get(&reference.service).filter(|_| !is_import);
    let origin = match (service, &reference.by_url) {
        _ if is_import => import?.origin(Kind::ServiceImport, &reference.service, ""),
        (Some(service), _) => service.origin(Kind::Service, &reference.service, ""),
        (None, Some(by_url)) => Origin::object("Host", "", &by_url.host),
        (None, None) => return None,
    };
    let mut diagnostics = Vec::new();
    let endpoints = match reference.target(inputs).ok()? {
        Target::Slices(port) => {
            diagnostics.extend((reference.via == Via::ClusterAddress).then(|| no_cluster_address(&origin)));
            match is_import {
                true => {
                    let slices = resources.slices_of_import(&reference.service);
                    endpoints::of_slices(slices, &port, inputs, &mut diagnostics)
                }
                false => {
                    let slices = resources.slices_of(&reference.service);
                    endpoints::of_slices(slices, &port, inputs, &mut diagnostics)
                }
            }
        }
        Target::Pool => return None,
        Target::Cluster(address) => vec![Endpoint::at(address)],
        Target::External(name) => {
            let by_service = origin.at("spec.externalName");
            let place = if service.is_some() { &by_service } else { &origin };
            let without = match &reference.by_url {
                Some(by_url) => by_url.purpose.without().to_owned(),
                None => {
                    format!("the Service has no endpoint, and {}", reference.transport.without_endpoint())
                }
            };
            let (endpoints, refused) = external::endpoints(&name, inputs, place, &without);
            diagnostics.extend(refused);
            endpoints
        }
    };
    if endpoints.is_empty() && !diagnostics.iter().any(|found| found.code == external::REFUSED) {
        diagnostics.push(no_endpoints(reference, &origin));
    }
    let protocol = reference.transport.port_protocol();
    let ports = import.map(|import| &*import.object.spec.ports);
    let ports = ports.or_else(|| service.map(|service| &*service.object.ports));
    let app_protocol = ports.and_then(|ports| app_protocol(ports, &reference.port, protocol));
    if let Some((problem, consequence)) = app_protocol.and_then(|name| reference.transport.ignores(name)) {
        let origin = origin.at("spec.ports");
        let problem = format!("port {}: {problem}", reference.port);
        let found = Diagnostic::new(Severity::Warning, "app-protocol-ignored", origin);
        diagnostics.push(found.because(problem, consequence));
    }
    let backend = Backend {
        key: reference.key.clone(),
        origin,
        service: ServiceName {
            namespace: reference.service.namespace.clone(),
            name: reference.service.name.clone(),
            port: reference.port.clone(),
        },
        endpoints,
        protocol: reference.transport.protocol(app_protocol),
        tls: reference.transport.tls(&reference.service).map(Arc::new),
        balancing: reference.balance.balancing,
        session: reference.balance.session(&reference.tag()),
        traffic: reference.traffic(),
    };
    Some((backend, diagnostics))
}

fn no_cluster_address(origin: &Origin) -> Diagnostic {
    Diagnostic::new(Severity::Warning, "no-cluster-address", origin.at("spec.clusterIP"))
        .because("it has no cluster address for service-upstream", "its endpoints get the requests")
}

fn no_endpoints(reference: &BackendRef, origin: &Origin) -> Diagnostic {
    let problem = format!("port {} has no endpoint that is ready", reference.port);
    let consequence = match &reference.by_url {
        None => format!("{} until it has", reference.transport.without_endpoint()),
        Some(by_url) => format!("{} until it has", by_url.purpose.without()),
    };
    Diagnostic::new(Severity::Warning, "no-endpoints", origin.clone()).because(problem, consequence)
}
