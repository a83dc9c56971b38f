//! Resolves a Service and port that a rule names to a backend: which port of the Service is meant, the backend's key, and where
//! its addresses come from.

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

/// A Service and port that a rule forwards to, with transport and load balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendRef {
    /// Its key in the configuration.
    pub key: BackendKey,
    /// The Service, InferencePool or ServiceImport; without a namespace if a URL names another host.
    pub service: ObjectKey,
    /// As the rule wrote it.
    pub port: Arc<str>,
    /// How it is contacted.
    pub transport: Transport,
    /// How requests are balanced.
    pub balance: Balance,
    /// How its endpoints are used, if not by default.
    pub traffic: Option<Arc<BackendTraffic>>,
    /// Where its addresses come from.
    pub via: BackendAddressSource,
    /// The URL that names it: its host is used if there is no such Service.
    pub by_url: Option<Arc<UrlReference>>,
}

/// A URL that names a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlReference {
    /// A name or an address.
    pub host: Arc<str>,
    /// What the backend is for.
    pub purpose: BackendPurpose,
}

/// Why a filter needs a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendPurpose {
    /// It gets copies of requests.
    Mirror,
    /// It authorizes requests.
    Authentication,
    /// It publishes the keys that verify tokens.
    Keys,
    /// It is the operator's web application firewall.
    Firewall,
    /// It gets requests and responses, and may change them.
    Extension,
}

impl BackendPurpose {
    /// The consequence while it has no endpoint.
    pub fn unavailable_consequence(self) -> &'static str {
        match self {
            Self::Mirror => "it gets no copies of requests",
            Self::Authentication => "requests that wait for its word are answered 500",
            Self::Keys => "its token keys cannot be fetched, and requests that need them are answered 503",
            Self::Extension => "its failureMode decides about requests that it must see",
            Self::Firewall => "requests that the web application firewall must see are answered 500",
        }
    }
}

/// Where the addresses of a backend come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendAddressSource {
    /// The endpoints of the Service.
    #[default]
    Endpoints,
    /// The cluster address of the Service, if it has one.
    ClusterAddress,
    /// The Pods of an InferencePool.
    Pool,
    /// The endpoints of a ServiceImport's slices, in a set of clusters.
    Import,
}

/// The resolved source of a backend's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedTarget {
    /// EndpointSlices.
    Slices(PortChoice),
    /// The addresses of a name.
    External(ExternalName),
    /// A fixed address: the cluster address, or the one that the operator gave for the firewall.
    Address(SocketAddr),
    /// The Pods of the InferencePool.
    Pool,
}

/// Why a reference resolves to no backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// The Service does not exist.
    NoService,
    /// It has no such port, but these.
    NoPort {
        /// Names and numbers, for messages.
        known_names: String,
    },
    /// It is of type ExternalName, and those are refused.
    External,
}

impl BackendRef {
    /// The `port` of `service`, as a rule wrote them.
    pub fn new(service: ObjectKey, port: Arc<str>, transport: &Transport, balance: &Balance) -> Self {
        let key = BackendKey(format!("{service}:{port}{}{}", transport.suffix(), balance.suffix()).into());
        let (transport, balance) = (transport.clone(), balance.clone());
        Self {
            key,
            service,
            port,
            transport,
            balance,
            traffic: None,
            via: BackendAddressSource::default(),
            by_url: None,
        }
    }

    /// An InferencePool, contacted without TLS.
    #[must_use]
    pub fn from_pool(pool: ObjectKey, balance: &Balance) -> Self {
        let key = BackendKey(format!("InferencePool/{pool}{}", balance.suffix()).into());
        let backend = Self::new(pool, Arc::default(), &Transport::Plain, balance);
        Self { key, via: BackendAddressSource::Pool, ..backend }
    }

    /// A port of a ServiceImport.
    #[must_use]
    pub fn from_import(import: ObjectKey, port: Arc<str>, transport: &Transport, balance: &Balance) -> Self {
        let backend = Self::new(import, port, transport, balance);
        Self {
            key: BackendKey(format!("ServiceImport/{}", backend.key).into()),
            via: BackendAddressSource::Import,
            ..backend
        }
    }

    /// The host of a URL: the Service if it exists, else the addresses of the name.
    pub fn from_url(service: ObjectKey, port: u16, transport: &Transport, by_url: UrlReference) -> Self {
        // Messages about an unavailable backend depend on the purpose, so each purpose has its own backend.
        let mark = match by_url.purpose {
            BackendPurpose::Mirror => "copies",
            BackendPurpose::Authentication => "host",
            BackendPurpose::Keys => "keys",
            BackendPurpose::Firewall => "firewall",
            BackendPurpose::Extension => "extension",
        };
        let key = BackendKey(format!("{service}:{port}{};{mark}={}", transport.suffix(), by_url.host).into());
        let backend = Self::new(service, port.to_string().into(), transport, &Balance::default());
        Self { key, by_url: Some(Arc::new(by_url)), ..backend }
    }

    /// The Service, unless the reference names a host outside the cluster.
    pub fn service_key(&self) -> Option<&ObjectKey> {
        (!self.service.namespace.is_empty()).then_some(&self.service)
    }

    /// The IP address in the URL, if it is one.
    pub fn url_address(&self) -> Option<IpAddr> {
        self.by_url.as_ref()?.host.parse::<IpAddr>().ok().map(|address| address.to_canonical())
    }

    /// Identifies it in session cookies: Service and port, independent of the cookie's attributes.
    pub fn cookie_tag(&self) -> String {
        // FNV-1a: clients store it, so it must be the same in every version.
        let bytes = format!("{}:{}", self.service, self.port);
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        format!("{:016x}", bytes.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// The first port of a Service, with the default transport. `None` if the Service does not exist, has no port or is refused.
    pub fn first_port(service: &ObjectKey, inputs: Inputs<'_>) -> Option<Self> {
        let port = inputs.resources.services.get(service)?.object.ports.first()?.port.to_string();
        let reference = Self::new(service.clone(), port.into(), &Transport::default(), &Balance::default());
        reference.resolve(inputs).is_ok().then_some(reference)
    }

    /// The same with traffic settings from `policy`; backends with different policies have different keys.
    pub fn with_traffic(mut self, policy: &ObjectKey, traffic: BackendTraffic) -> Self {
        self.key = BackendKey(format!("{};traffic={policy}", self.key).into());
        self.traffic = traffic.if_not_empty();
        self
    }

    /// How its endpoints are used, and which are preferred.
    fn combined_traffic(&self) -> Option<Arc<BackendTraffic>> {
        let (distribution, health) = (self.balance.distribution, self.balance.health.clone());
        // A policy and an annotation never meet: one is for routes, the other for Ingresses.
        let traffic = self.traffic.as_ref().or(self.balance.traffic.as_ref());
        if distribution.is_none() && health.is_none() {
            return traffic.cloned();
        }
        BackendTraffic { distribution, health, ..BackendTraffic::or_default(traffic).clone() }.if_not_empty()
    }

    /// The same with another source of addresses.
    pub fn via(mut self, via: BackendAddressSource) -> Self {
        if via == BackendAddressSource::ClusterAddress {
            self.key = BackendKey(format!("{};cluster-address", self.key).into());
        }
        self.via = via;
        self
    }

    /// Resolves where its addresses come from.
    pub fn resolve(&self, inputs: Inputs<'_>) -> Result<ResolvedTarget, ResolveError> {
        if self.via == BackendAddressSource::Pool {
            let exists = inputs.resources.gateway.pools.contains_key(&self.service);
            return if exists { Ok(ResolvedTarget::Pool) } else { Err(ResolveError::NoService) };
        }
        let protocol = self.transport.port_protocol();
        if self.via == BackendAddressSource::Import {
            let import =
                inputs.resources.gateway.imports.get(&self.service).ok_or(ResolveError::NoService)?;
            let ports = &*import.object.spec.ports;
            return match service_port(ports, &self.port, protocol) {
                Some(port) => Ok(ResolvedTarget::Slices(port_choice(port, protocol))),
                None => Err(ResolveError::NoPort { known_names: known_ports(ports) }),
            };
        }
        let service = match (inputs.resources.services.get(&self.service), &self.by_url) {
            (Some(service), _) => service,
            (None, Some(by_url)) if by_url.purpose == BackendPurpose::Firewall => {
                return self.operator_address(by_url);
            }
            (None, Some(by_url)) if !self.is_cluster_only() => {
                return self.external(&by_url.host, &[]).map_err(|_| ResolveError::NoService);
            }
            (None, _) => return Err(ResolveError::NoService),
        };
        let ports = &*service.object.ports;
        if let Some(name) = service.object.external_name.as_deref() {
            return match inputs.options.trust.external.names {
                _ if self.is_cluster_only() => Err(ResolveError::External),
                ExternalNames::Refused => Err(ResolveError::External),
                ExternalNames::Resolved => self.external(name, ports),
            };
        }
        if let Some(port) = service_port(ports, &self.port, protocol) {
            let cluster = (self.via == BackendAddressSource::ClusterAddress)
                .then(|| cluster_address(&service.object, port, inputs));
            return Ok(cluster.flatten().map_or_else(
                || ResolvedTarget::Slices(port_choice(port, protocol)),
                ResolvedTarget::Address,
            ));
        }
        // A headless Service may have no ports: the number is then the pods' own.
        match (ports, self.port.parse()) {
            ([], Ok(number)) => {
                Ok(ResolvedTarget::Slices(PortChoice { name: "".into(), number: Some(number), protocol }))
            }
            _ => Err(ResolveError::NoPort { known_names: known_ports(ports) }),
        }
    }

    /// Whether only endpoints of a Service are used: keys fetched in cleartext from elsewhere could be forged on the way.
    fn is_cluster_only(&self) -> bool {
        let purpose = self.by_url.as_ref().map(|by_url| by_url.purpose);
        purpose == Some(BackendPurpose::Keys) && self.transport == Transport::Plain
            || purpose == Some(BackendPurpose::Firewall)
    }

    /// The address that the operator gave. No range is refused: a sidecar listens on loopback.
    fn operator_address(&self, by_url: &UrlReference) -> Result<ResolvedTarget, ResolveError> {
        let address = by_url.host.parse::<IpAddr>().ok().zip(self.port.parse().ok());
        let (address, port) = address.ok_or(ResolveError::NoService)?;
        Ok(ResolvedTarget::Address(SocketAddr::new(address.to_canonical(), port)))
    }

    fn external(&self, name: &str, ports: &[ServicePort]) -> Result<ResolvedTarget, ResolveError> {
        let service_port = service_port(ports, &self.port, self.transport.port_protocol());
        let target_port = service_port.and_then(|port| match &port.target_port {
            Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
            _ => u16::try_from(port.port).ok(),
        });
        let port = target_port.or_else(|| self.port.parse().ok());
        let port = port.ok_or_else(|| ResolveError::NoPort { known_names: known_ports(ports) })?;
        let name = name.to_ascii_lowercase().trim_end_matches('.').into();
        Ok(ResolvedTarget::External(ExternalName { name, port }))
    }
}

/// The port by number or name; else, as in ingress-nginx, by target port. If two ports share a number, as in a DNS Service, the
/// one with this protocol.
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

/// The cluster address of the Service; a headless one has none.
fn cluster_address(service: &KeptService, port: &ServicePort, inputs: Inputs<'_>) -> Option<SocketAddr> {
    let ip = endpoints::check_address(service.cluster_address?, inputs.options).ok()?;
    Some(SocketAddr::new(ip, u16::try_from(port.port).ok()?))
}

/// The `appProtocol` of a port.
fn app_protocol<'s>(ports: &'s [ServicePort], port: &str, protocol: PortProtocol) -> Option<&'s str> {
    service_port(ports, port, protocol)?.app_protocol.as_deref()
}

fn port_choice(port: &ServicePort, protocol: PortProtocol) -> PortChoice {
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

/// Builds the backend of an InferencePool.
fn build_pool_backend(reference: &BackendRef, inputs: Inputs<'_>) -> Option<(Backend, Vec<Diagnostic>)> {
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
        session: reference.balance.session(&reference.cookie_tag()),
        traffic: reference.combined_traffic(),
    };
    Some((backend, diagnostics))
}

/// Builds the backend.
pub fn build(reference: &BackendRef, inputs: Inputs<'_>) -> Option<(Backend, Vec<Diagnostic>)> {
    if reference.via == BackendAddressSource::Pool {
        return build_pool_backend(reference, inputs);
    }
    let resources = inputs.resources;
    let is_import = reference.via == BackendAddressSource::Import;
    let import = resources.gateway.imports.get(&reference.service).filter(|_| is_import);
    let service = resources.services.get(&reference.service).filter(|_| !is_import);
    let origin = match (service, &reference.by_url) {
        _ if is_import => import?.origin(Kind::ServiceImport, &reference.service, ""),
        (Some(service), _) => service.origin(Kind::Service, &reference.service, ""),
        (None, Some(by_url)) => Origin::object("Host", "", &by_url.host),
        (None, None) => return None,
    };
    let mut diagnostics = Vec::new();
    let endpoints = match reference.resolve(inputs).ok()? {
        ResolvedTarget::Slices(port) => {
            diagnostics.extend(
                (reference.via == BackendAddressSource::ClusterAddress).then(|| no_cluster_address(&origin)),
            );
            match is_import {
                true => {
                    let slices = resources.slices_of_import(&reference.service);
                    endpoints::endpoints_from_slices(slices, &port, inputs, &mut diagnostics)
                }
                false => {
                    let slices = resources.slices_of(&reference.service);
                    endpoints::endpoints_from_slices(slices, &port, inputs, &mut diagnostics)
                }
            }
        }
        ResolvedTarget::Pool => return None,
        ResolvedTarget::Address(address) => vec![Endpoint::at(address)],
        ResolvedTarget::External(name) => {
            let by_service = origin.at("spec.externalName");
            let origin_of_endpoint = if service.is_some() { &by_service } else { &origin };
            let without = match &reference.by_url {
                Some(by_url) => by_url.purpose.unavailable_consequence().to_owned(),
                None => {
                    format!("the Service has no endpoint, and {}", reference.transport.without_endpoint())
                }
            };
            let (endpoints, refused) = external::endpoints(&name, inputs, origin_of_endpoint, &without);
            diagnostics.extend(refused);
            endpoints
        }
    };
    if endpoints.is_empty() && !diagnostics.iter().any(|found| found.code == external::REFUSED_ADDRESS_CODE) {
        diagnostics.push(no_endpoints(reference, &origin));
    }
    let protocol = reference.transport.port_protocol();
    let ports = import.map(|import| &*import.object.spec.ports);
    let ports = ports.or_else(|| service.map(|service| &*service.object.ports));
    let app_protocol = ports.and_then(|ports| app_protocol(ports, &reference.port, protocol));
    if let Some((problem, consequence)) =
        app_protocol.and_then(|name| reference.transport.ignored_app_protocol(name))
    {
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
        session: reference.balance.session(&reference.cookie_tag()),
        traffic: reference.combined_traffic(),
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
        Some(by_url) => format!("{} until it has", by_url.purpose.unavailable_consequence()),
    };
    Diagnostic::new(Severity::Warning, "no-endpoints", origin.clone()).because(problem, consequence)
}
