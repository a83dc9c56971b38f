//! From `service` and `port` of a rule to a backend: which port of the Service is meant, how the backend is named, and
//! where its addresses come from.

use std::sync::Arc;

use fairway_model::{Backend, BackendKey, BackendProtocol, Balancing, ServiceName};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::networking::v1::IngressServiceBackend;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::diagnostic::{Diagnostic, Severity};
use crate::endpoints::{self, PortChoice};
use crate::external;
use crate::options::ExternalNames;
use crate::plan::Context;
use crate::resources::{Kind, ObjectKey, Sourced};
use crate::upstream::Wish;

/// A backend that some rule asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) key: BackendKey,
    pub(crate) service: ObjectKey,
    /// As the rule wrote it.
    pub(crate) port: Arc<str>,
    pub(crate) wish: Wish,
}

/// Where the addresses of a Service and port come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// From its slices.
    Slices(PortChoice),
    /// From the addresses of a name.
    External { name: Arc<str>, port: u16 },
}

/// Why a rule has no backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    NoService,
    NoPort { known: String },
    External,
}

impl Wanted {
    /// The backend that `backend` asks for in `namespace`; `None` where it names no port.
    pub(crate) fn new(namespace: &Arc<str>, backend: &IngressServiceBackend, wish: &Wish) -> Option<Self> {
        let service = ObjectKey { namespace: namespace.clone(), name: backend.name.as_str().into() };
        let port = port_text(backend)?;
        let key = BackendKey(format!("{service}:{port}{}", wish.suffix()).into());
        Some(Self { key, service, port, wish: wish.clone() })
    }

    /// Where its addresses come from.
    pub(crate) fn target(&self, context: &Context<'_>) -> Result<Target, Unresolved> {
        let service = context.resources.services.get(&self.service).ok_or(Unresolved::NoService)?;
        let spec = service.object.spec.as_ref();
        let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
        if let Some(name) = external_name(&service.object) {
            return match context.options.trust.external.names {
                ExternalNames::Refused => Err(Unresolved::External),
                ExternalNames::Resolved => self.external(name, ports),
            };
        }
        if let Some(port) = service_port(ports, &self.port) {
            return Ok(Target::Slices(choice(port)));
        }
        // A headless Service may have no ports: the number is then the pods' own.
        match (ports, self.port.parse()) {
            ([], Ok(number)) => Ok(Target::Slices(PortChoice { name: "".into(), number: Some(number) })),
            _ => Err(Unresolved::NoPort { known: known_ports(ports) }),
        }
    }

    fn external(&self, name: &str, ports: &[ServicePort]) -> Result<Target, Unresolved> {
        let own = service_port(ports, &self.port).and_then(|port| match &port.target_port {
            Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
            _ => u16::try_from(port.port).ok(),
        });
        let port = own.or_else(|| self.port.parse().ok());
        let port = port.ok_or_else(|| Unresolved::NoPort { known: known_ports(ports) })?;
        Ok(Target::External { name: name.to_ascii_lowercase().trim_end_matches('.').into(), port })
    }
}

impl Unresolved {
    /// What is wrong, at `origin`.
    pub(crate) fn describe(&self, wanted: &Wanted, origin: &fairway_model::Origin) -> Diagnostic {
        let service = &wanted.service;
        let (code, field, problem) = match self {
            Self::NoService => {
                ("missing-reference", "service.name", format!("Service {service} does not exist"))
            }
            Self::NoPort { known } => (
                "missing-reference",
                "service.port",
                format!("Service {service} has no port {}; it has {known}", wanted.port),
            ),
            Self::External => (
                "external-name-refused",
                "service.name",
                format!(
                    "Service {service} is of type ExternalName, which is not served unless a flag allows it"
                ),
            ),
        };
        let origin = origin.at(format!("{}.{field}", origin.field));
        Diagnostic::new(Severity::Error, code, origin).because(problem, "this path answers 503")
    }
}

/// The port of a rule as text.
pub(crate) fn port_text(backend: &IngressServiceBackend) -> Option<Arc<str>> {
    let port = backend.port.as_ref()?;
    match (&port.name, port.number) {
        (Some(name), _) if !name.is_empty() => Some(name.as_str().into()),
        (_, Some(number)) => Some(number.to_string().into()),
        _ => None,
    }
}

fn external_name(service: &Service) -> Option<&str> {
    let spec = service.spec.as_ref()?;
    (spec.type_.as_deref() == Some("ExternalName")).then(|| spec.external_name.as_deref().unwrap_or_default())
}

/// The port by its number or name; else, as ingress-nginx does, by its target port.
fn service_port<'a>(ports: &'a [ServicePort], wanted: &str) -> Option<&'a ServicePort> {
    let by_name =
        |port: &&ServicePort| port.name.as_deref() == Some(wanted) || port.port.to_string() == wanted;
    let by_target = |port: &&ServicePort| match &port.target_port {
        Some(IntOrString::Int(number)) => number.to_string() == wanted,
        Some(IntOrString::String(name)) => name == wanted,
        None => false,
    };
    ports.iter().find(by_name).or_else(|| ports.iter().find(by_target))
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
pub(crate) fn build(wanted: &Wanted, context: &Context<'_>) -> Option<(Backend, Vec<Diagnostic>)> {
    let service = context.resources.services.get(&wanted.service)?;
    let origin = service.origin(Kind::Service, &wanted.service, "");
    let mut diagnostics = Vec::new();
    let endpoints = match wanted.target(context).ok()? {
        Target::Slices(port) => endpoints::of_service(&wanted.service, &port, context, &mut diagnostics),
        Target::External { name, port } => {
            let (endpoints, refused) = external::endpoints(
                (&name, port),
                context.resources,
                &context.options.trust.external,
                &origin,
            );
            diagnostics.extend(refused);
            endpoints
        }
    };
    if endpoints.is_empty() && !diagnostics.iter().any(|found| found.code == external::REFUSED) {
        diagnostics.push(no_endpoints(wanted, service));
    }
    let backend = Backend {
        key: wanted.key.clone(),
        origin,
        service: ServiceName {
            namespace: wanted.service.namespace.clone(),
            name: wanted.service.name.clone(),
            port: wanted.port.clone(),
        },
        endpoints,
        protocol: BackendProtocol::Http1,
        tls: wanted.wish.tls(&wanted.service),
        balancing: Balancing::RoundRobin,
    };
    Some((backend, diagnostics))
}

fn no_endpoints(wanted: &Wanted, service: &Sourced<Service>) -> Diagnostic {
    let origin = service.origin(Kind::Service, &wanted.service, "");
    let problem = format!("port {} has no endpoint that is ready", wanted.port);
    Diagnostic::new(Severity::Warning, "no-endpoints", origin)
        .because(problem, "its paths answer 503 until it has")
}
