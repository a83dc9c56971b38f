//! From a Service and port that a rule names to a backend: which port of the Service is meant, how the backend is named,
//! and where its addresses come from.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{Backend, BackendKey, Origin, ServiceName};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::diagnostic::{Diagnostic, Severity};
use crate::inputs::Inputs;
use crate::object::{Kind, ObjectKey};
use crate::options::ExternalNames;
use crate::shared::balance::Balance;
use crate::shared::endpoints::{self, PortChoice};
use crate::shared::external::{self, ExternalName};
use crate::shared::transport::Transport;

/// A Service and port that some rule forwards to, what is spoken there, and who gets a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendRef {
    pub(crate) key: BackendKey,
    pub(crate) service: ObjectKey,
    /// As the rule wrote it.
    pub(crate) port: Arc<str>,
    pub(crate) transport: Transport,
    pub(crate) balance: Balance,
    /// The name or address by which a URL names it: what is asked where there is no such Service.
    pub(crate) host: Option<Arc<str>>,
}

/// Where the addresses of a Service and port come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// From its slices.
    Slices(PortChoice),
    /// From the addresses of a name.
    External(ExternalName),
}

/// Why a reference leads to no backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// The Service does not exist.
    NoService,
    /// It has no such port, but these.
    NoPort { known: String },
    /// It is of type ExternalName, and such are refused.
    External,
}

impl BackendRef {
    /// `port` of `service`, as a rule wrote them.
    pub(crate) fn new(
        service: ObjectKey,
        port: Arc<str>,
        (transport, balance): (&Transport, Balance),
    ) -> Self {
        let key = BackendKey(format!("{service}:{port}{}{}", transport.suffix(), balance.suffix()).into());
        Self { key, service, port, transport: transport.clone(), balance, host: None }
    }

    /// What a URL names: the Service, where it exists, else whatever the name stands for.
    pub(crate) fn of_url(service: ObjectKey, (host, port): (Arc<str>, u16), transport: &Transport) -> Self {
        let balance = Balance::default();
        let port: Arc<str> = port.to_string().into();
        let key = BackendKey(format!("{service}:{port}{};host={host}", transport.suffix()).into());
        Self { key, service, port, transport: transport.clone(), balance, host: Some(host) }
    }

    /// The Service, if it is one by its name or its address.
    pub(crate) fn by_service(&self) -> Option<&ObjectKey> {
        (!self.service.namespace.is_empty()).then_some(&self.service)
    }

    /// The address by which a URL names it.
    pub(crate) fn by_address(&self) -> Option<IpAddr> {
        self.host.as_ref()?.parse::<IpAddr>().ok().map(|address| address.to_canonical())
    }

    /// Where its addresses come from.
    pub(crate) fn target(&self, inputs: Inputs<'_>) -> Result<Target, ResolveError> {
        let service = match (inputs.resources.services.get(&self.service), &self.host) {
            (Some(service), _) => service,
            (None, Some(host)) => return self.external(host, &[]).map_err(|_| ResolveError::NoService),
            (None, None) => return Err(ResolveError::NoService),
        };
        let spec = service.object.spec.as_ref();
        let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
        if let Some(name) = external_name(&service.object) {
            return match inputs.options.trust.external.names {
                ExternalNames::Refused => Err(ResolveError::External),
                ExternalNames::Resolved => self.external(name, ports),
            };
        }
        if let Some(port) = service_port(ports, &self.port) {
            return Ok(Target::Slices(choice(port)));
        }
        // A headless Service may have no ports: the number is then the pods' own.
        match (ports, self.port.parse()) {
            ([], Ok(number)) => Ok(Target::Slices(PortChoice { name: "".into(), number: Some(number) })),
            _ => Err(ResolveError::NoPort { known: known_ports(ports) }),
        }
    }

    fn external(&self, name: &str, ports: &[ServicePort]) -> Result<Target, ResolveError> {
        let own = service_port(ports, &self.port).and_then(|port| match &port.target_port {
            Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
            _ => u16::try_from(port.port).ok(),
        });
        let port = own.or_else(|| self.port.parse().ok());
        let port = port.ok_or_else(|| ResolveError::NoPort { known: known_ports(ports) })?;
        let name = name.to_ascii_lowercase().trim_end_matches('.').into();
        Ok(Target::External(ExternalName { name, port }))
    }
}

fn external_name(service: &Service) -> Option<&str> {
    let spec = service.spec.as_ref()?;
    (spec.type_.as_deref() == Some("ExternalName")).then(|| spec.external_name.as_deref().unwrap_or_default())
}

/// The port by its number or name; else, as ingress-nginx does, by its target port.
fn service_port<'a>(ports: &'a [ServicePort], port: &str) -> Option<&'a ServicePort> {
    let by_name = |it: &&ServicePort| it.name.as_deref() == Some(port) || it.port.to_string() == port;
    let by_target = |it: &&ServicePort| match &it.target_port {
        Some(IntOrString::Int(number)) => number.to_string() == port,
        Some(IntOrString::String(name)) => name == port,
        None => false,
    };
    ports.iter().find(by_name).or_else(|| ports.iter().find(by_target))
}

/// What the port of a Service says that it speaks.
fn app_protocol<'s>(service: &'s Service, port: &str) -> Option<&'s str> {
    let ports = service.spec.as_ref()?.ports.as_deref()?;
    service_port(ports, port)?.app_protocol.as_deref()
}

fn choice(port: &ServicePort) -> PortChoice {
    let number = match &port.target_port {
        Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
        Some(IntOrString::String(_)) => None,
        None => u16::try_from(port.port).ok(),
    };
    PortChoice { name: port.name.as_deref().unwrap_or_default().into(), number }
}

fn known_ports(ports: &[ServicePort]) -> String {
    let text = |port: &ServicePort| match &port.name {
        Some(name) if !name.is_empty() => format!("{name} ({})", port.port),
        _ => port.port.to_string(),
    };
    if ports.is_empty() { "none".to_owned() } else { ports.iter().map(text).collect::<Vec<_>>().join(", ") }
}

/// Makes the backend.
pub(crate) fn build(reference: &BackendRef, inputs: Inputs<'_>) -> Option<(Backend, Vec<Diagnostic>)> {
    let service = inputs.resources.services.get(&reference.service);
    let origin = match (service, &reference.host) {
        (Some(service), _) => service.origin(Kind::Service, &reference.service, ""),
        (None, Some(host)) => Origin::object("Host", "", host),
        (None, None) => return None,
    };
    let mut diagnostics = Vec::new();
    let endpoints = match reference.target(inputs).ok()? {
        Target::Slices(port) => endpoints::of_service(&reference.service, &port, inputs, &mut diagnostics),
        Target::External(name) => {
            let place = match service {
                Some(_) => {
                    (origin.at("spec.externalName"), "the Service has no endpoint, and its paths answer 503")
                }
                None => (origin.clone(), "requests that wait for its word are answered 500"),
            };
            let (endpoints, refused) = external::endpoints(&name, inputs, (&place.0, place.1));
            diagnostics.extend(refused);
            endpoints
        }
    };
    if endpoints.is_empty() && !diagnostics.iter().any(|found| found.code == external::REFUSED) {
        diagnostics.push(no_endpoints(reference, &origin));
    }
    let app_protocol = service.and_then(|service| app_protocol(&service.object, &reference.port));
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
        tls: reference.transport.tls(&reference.service),
        balancing: reference.balance.0,
        session: None,
    };
    Some((backend, diagnostics))
}

fn no_endpoints(reference: &BackendRef, origin: &Origin) -> Diagnostic {
    let problem = format!("port {} has no endpoint that is ready", reference.port);
    let consequence = match reference.host {
        None => "its paths answer 503 until it has",
        Some(_) => "requests that wait for its word are answered 500 until it has",
    };
    Diagnostic::new(Severity::Warning, "no-endpoints", origin.clone()).because(problem, consequence)
}
