//! Resolves backend references of routes and policies: what may be referenced, and how it is reached.

use std::sync::Arc;

use fairway_model::{BackendKey, BackendProtocol, Balancing, BodyHandling, PortProtocol, SessionCookie};
use fairway_objects::backend::{BackendRef, ResolveError};
use fairway_objects::balance::Balance;
use fairway_objects::gateway_api::{
    BackendObjectReference, BackendRef as StreamBackendRef, GrpcBackendRef, HttpBackendRef,
};
use fairway_objects::inputs::Inputs;
use fairway_objects::kinds::MULTICLUSTER_GROUP;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::policies::ServiceReference;
use fairway_objects::transport::{PolicyTls, Transport, is_port_of};
use k8s_openapi::api::core::v1::ServicePort;

use crate::condition::{self, Fault};
use crate::grant::{self, Referrer};
use crate::policies::backends::{BackendSettings, ErrorPageService};
use crate::policy::{AskedService, OwnPolicy};
use crate::tls_policy::TlsVerification;

/// The protocol that a route speaks to its backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteProtocol {
    /// HTTP.
    Http,
    /// gRPC.
    Grpc,
    /// gRPC to an endpoint picker, which has a self-signed certificate unless a BackendTLSPolicy says otherwise.
    PickerGrpc,
    /// The client's bytes.
    Bytes,
    /// The client's TLS, passed through.
    ClientTls,
    /// The client's datagrams.
    Datagrams,
}

impl RouteProtocol {
    /// What happens to traffic for a missing backend.
    pub(crate) fn missing_backend_effect(self) -> &'static str {
        match self {
            Self::Http | Self::Grpc | Self::PickerGrpc => "its share of the requests is answered 500",
            Self::Bytes | Self::ClientTls => "its share of the connections is closed",
            Self::Datagrams => "its share of the datagrams is dropped",
        }
    }

    /// The protocol of the Service ports.
    fn port_protocol(self) -> PortProtocol {
        match self {
            Self::Http | Self::Grpc | Self::PickerGrpc | Self::Bytes | Self::ClientTls => PortProtocol::Tcp,
            Self::Datagrams => PortProtocol::Udp,
        }
    }
}

/// The fields of a backend reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackendReference<'a> {
    pub(crate) group: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) port: Option<i32>,
}

/// The BackendTLSPolicy for a Service port, and how to verify endpoints or why that is impossible.
pub(crate) type PolicyVerdict = (ObjectKey, Result<TlsVerification, Fault>);

/// Looks up the BackendTLSPolicy for a Service and port name.
pub(crate) type TlsPolicyLookup<'a> = &'a dyn Fn(&ObjectKey, Option<&str>) -> Option<PolicyVerdict>;

/// Looks up the BackendTrafficPolicy for a Service and port name.
pub(crate) type BackendSettingsLookup<'a> =
    &'a dyn Fn(&ObjectKey, Option<&str>) -> Option<(ObjectKey, BackendSettings)>;

/// An error page setting and the policy that contains it.
pub(crate) type PolicyErrorPages = (ObjectRef, Arc<ErrorPageService>);

/// Looks up the SecurityPolicies of a rule by its name; `None` if they cannot all be enforced.
pub(crate) type GuardLookup<'a> = &'a dyn Fn(Option<&str>) -> Option<Vec<Arc<OwnPolicy>>>;

/// Looks up the ExtensionPolicies of a rule by its name, in the order in which requests meet them.
pub(crate) type ExtensionLookup<'a> = &'a dyn Fn(Option<&str>) -> Vec<Arc<OwnPolicy>>;

/// Resolves the references of a route or policy.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'a> {
    pub(crate) inputs: Inputs<'a>,
    /// The route or policy.
    pub(crate) route: &'a ObjectRef,
    pub(crate) speaks: RouteProtocol,
    pub(crate) policies: TlsPolicyLookup<'a>,
    pub(crate) backend_settings: BackendSettingsLookup<'a>,
    pub(crate) guards: GuardLookup<'a>,
    pub(crate) extensions: ExtensionLookup<'a>,
    /// The Secret with the client certificate that the Gateway presents to endpoints.
    pub(crate) client_certificate: Option<&'a ObjectKey>,
}

/// What the references of a route resolve to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResolvedReferences {
    /// Sorted by key, without spare capacity: most routes have one.
    backends: Vec<BackendRef>,
    /// Body handling of backends that differ from the default.
    bodies: Vec<(BackendKey, Arc<BodyHandling>)>,
    /// Error pages of backends, with their policies.
    pages: Vec<(BackendKey, PolicyErrorPages)>,
    /// The Services that it names, existing or not, each once.
    pub(crate) services: Vec<ObjectKey>,
    /// The InferencePools that it names, existing or not, each once.
    pub(crate) pools: Vec<ObjectKey>,
    /// The HTTPRouteFilters that it names, existing or not, each once.
    pub(crate) filters: Vec<ObjectKey>,
}

impl ResolvedReferences {
    /// The backends, each once.
    pub(crate) fn backends(&self) -> &[BackendRef] {
        &self.backends
    }

    /// The backend with this key.
    pub(crate) fn backend(&self, key: &BackendKey) -> Option<&BackendRef> {
        let at = self.backends.binary_search_by(|it| it.key.cmp(key)).ok()?;
        self.backends.get(at)
    }

    /// Body handling of a backend, if it differs from the default.
    pub(crate) fn bodies(&self, key: &BackendKey) -> Option<&Arc<BodyHandling>> {
        self.bodies.iter().find(|(it, _)| it == key).map(|(_, bodies)| bodies)
    }

    fn add_bodies(&mut self, key: &BackendKey, bodies: Arc<BodyHandling>) {
        if self.bodies(key).is_none() {
            self.bodies.reserve_exact(1);
            self.bodies.push((key.clone(), bodies));
        }
    }

    /// Error pages of a backend.
    pub(crate) fn pages(&self, key: &BackendKey) -> Option<&PolicyErrorPages> {
        self.pages.iter().find(|(it, _)| it == key).map(|(_, pages)| pages)
    }

    fn add_pages(&mut self, key: &BackendKey, policy: &ObjectKey, pages: Arc<ErrorPageService>) {
        if self.pages(key).is_none() {
            self.pages.reserve_exact(1);
            let policy = ObjectRef::new(Kind::BackendTrafficPolicy, policy.clone());
            self.pages.push((key.clone(), (policy, pages)));
        }
    }

    pub(crate) fn add_backend(&mut self, backend: BackendRef) {
        match self.backends.binary_search_by(|it| it.key.cmp(&backend.key)) {
            Ok(at) => self.backends[at] = backend,
            Err(at) => {
                self.backends.reserve_exact(1);
                self.backends.insert(at, backend);
            }
        }
    }

    /// Adds a backend named by a URL; its Service may not exist yet.
    pub(crate) fn add_named_by_url(&mut self, backend: &BackendRef) {
        backend.service_key().iter().for_each(|service| self.add_service(service));
        self.add_backend(backend.clone());
    }

    fn add_service(&mut self, service: &ObjectKey) {
        insert_sorted(&mut self.services, service);
    }

    pub(crate) fn add_pool(&mut self, pool: &ObjectKey) {
        insert_sorted(&mut self.pools, pool);
    }

    pub(crate) fn add_filter(&mut self, filter: &ObjectKey) {
        insert_sorted(&mut self.filters, filter);
    }
}

/// Inserts in order, without spare capacity.
fn insert_sorted(names: &mut Vec<ObjectKey>, name: &ObjectKey) {
    if let Err(at) = names.binary_search(name) {
        names.reserve_exact(1);
        names.insert(at, name.clone());
    }
}

impl<'a> Resolver<'a> {
    /// The backend of a service that a policy asks.
    pub(crate) fn resolve_asked_service(
        self,
        policy: &'a ObjectRef,
        AskedService { service, is_grpc, .. }: &AskedService,
        found: &mut ResolvedReferences,
    ) -> Result<BackendKey, Fault> {
        let speaks = if *is_grpc { RouteProtocol::Grpc } else { RouteProtocol::Http };
        let resolver = Resolver { route: policy, speaks, ..self };
        resolver.resolve(service.into(), found).map_err(|(_, fault)| fault)
    }

    /// The backend of a reference. An invalid reference yields a key for it and the fault.
    pub(crate) fn resolve(
        self,
        reference: BackendReference<'_>,
        found: &mut ResolvedReferences,
    ) -> Result<BackendKey, (BackendKey, Fault)> {
        self.resolve_with_session(reference, None, found)
    }

    /// As [`Self::resolve`], with session persistence of a rule, which overrides that of a BackendTrafficPolicy
    /// (GEP-1619).
    pub(crate) fn resolve_with_session(
        self,
        reference: BackendReference<'_>,
        session: Option<&Arc<SessionCookie>>,
        found: &mut ResolvedReferences,
    ) -> Result<BackendKey, (BackendKey, Fault)> {
        let namespace = reference.namespace.unwrap_or(&self.route.key.namespace);
        let service = ObjectKey::new(namespace, reference.name);
        let port = reference.port.map(|port| port.to_string()).unwrap_or_default();
        match self.backend(reference, &service, &port, session, found) {
            Ok(backend) => {
                let key = backend.key.clone();
                found.add_backend(backend);
                Ok(key)
            }
            Err(fault) => Err((BackendKey(format!("{service}:{port}").into()), fault)),
        }
    }

    fn backend(
        self,
        reference: BackendReference<'_>,
        service: &ObjectKey,
        port: &str,
        session: Option<&Arc<SessionCookie>>,
        found: &mut ResolvedReferences,
    ) -> Result<BackendRef, Fault> {
        let group = reference.group.unwrap_or_default();
        let kind = reference.kind.unwrap_or("Service");
        if (group, kind) == (MULTICLUSTER_GROUP, "ServiceImport") {
            return self.import(service, port, session, found);
        }
        if !matches!((group, kind), ("" | "core", "Service")) {
            let problem = format!("{} is no kind of backend", condition::kind(group, kind));
            return Err(Fault::new("InvalidKind", problem));
        }
        found.add_service(service);
        let from = Referrer { kind: self.route.kind, namespace: &self.route.key.namespace };
        if !grant::permits(self.inputs.resources, from, Kind::Service, service) {
            let problem = format!("no ReferenceGrant lets it refer to Service {service}");
            return Err(Fault::new("RefNotPermitted", problem));
        }
        let missing = |problem: String| Fault::new("BackendNotFound", problem);
        let object = self.inputs.resources.services.get(service);
        let object = object.ok_or_else(|| missing(format!("Service {service} does not exist")))?;
        if port.is_empty() {
            return Err(missing(format!("no port of Service {service} is named")));
        }
        let protocol = self.speaks.port_protocol();
        let found_port = service_port(&object.object.ports, port, protocol);
        if found_port.is_none() && !object.object.ports.is_empty() {
            let suffix = if protocol == PortProtocol::Udp { " of UDP" } else { "" };
            return Err(missing(format!("Service {service} has no port {port}{suffix}")));
        }
        let transport = self.transport(service, found_port)?;
        let backend = match (self.backend_settings)(service, port_name(found_port)) {
            None => {
                let cookie = session.cloned();
                let balance = Balance { balancing: Balancing::PeakEwma, cookie, ..Balance::default() };
                BackendRef::new(service.clone(), port.into(), &transport, &balance)
            }
            Some((policy, BackendSettings { balance, traffic, bodies, pages })) => {
                let balance = Balance { cookie: session.cloned().or(balance.cookie), ..balance };
                let backend = BackendRef::new(service.clone(), port.into(), &transport, &balance);
                let backend = backend.with_traffic(&policy, traffic);
                bodies.into_iter().for_each(|bodies| found.add_bodies(&backend.key, bodies));
                pages.into_iter().for_each(|pages| found.add_pages(&backend.key, &policy, pages));
                backend
            }
        };
        match backend.resolve(self.inputs) {
            Ok(_) => Ok(backend),
            Err(ResolveError::NoService) => Err(missing(format!("Service {service} does not exist"))),
            Err(ResolveError::NoPort { known_names: known }) => {
                Err(missing(format!("Service {service} has no port {port}; it has {known}")))
            }
            Err(ResolveError::External) => {
                Err(missing(format!("Service {service} is of type ExternalName, and such are not served")))
            }
        }
    }

    /// A port of a ServiceImport (GEP-1748). Policies target Services, so none applies to it.
    fn import(
        self,
        import: &ObjectKey,
        port: &str,
        session: Option<&Arc<SessionCookie>>,
        found: &mut ResolvedReferences,
    ) -> Result<BackendRef, Fault> {
        found.add_service(import);
        let from = Referrer { kind: self.route.kind, namespace: &self.route.key.namespace };
        if !grant::permits(self.inputs.resources, from, Kind::ServiceImport, import) {
            let problem = format!("no ReferenceGrant lets it refer to ServiceImport {import}");
            return Err(Fault::new("RefNotPermitted", problem));
        }
        let missing = |problem: String| Fault::new("BackendNotFound", problem);
        let object = self.inputs.resources.gateway.imports.get(import);
        let object = object.ok_or_else(|| missing(format!("ServiceImport {import} does not exist")))?;
        let written = service_port(&object.object.spec.ports, port, self.speaks.port_protocol());
        let transport = match self.speaks {
            RouteProtocol::ClientTls | RouteProtocol::Bytes => Transport::Tcp,
            RouteProtocol::Datagrams => Transport::Udp,
            RouteProtocol::Grpc => Transport::H2c,
            RouteProtocol::PickerGrpc => {
                return Err(Fault::new("InvalidKind", "a ServiceImport cannot pick endpoints".to_owned()));
            }
            RouteProtocol::Http => match written.and_then(|port| port.app_protocol.as_deref()) {
                Some("kubernetes.io/wss") => {
                    let problem = format!(
                        "ServiceImport {import} asks for kubernetes.io/wss, and TLS is not spoken to it"
                    );
                    return Err(Fault::new("UnsupportedProtocol", problem));
                }
                _ => Transport::Plain,
            },
        };
        let balance =
            Balance { balancing: Balancing::PeakEwma, cookie: session.cloned(), ..Balance::default() };
        let backend = BackendRef::from_import(import.clone(), port.into(), &transport, &balance);
        match backend.resolve(self.inputs) {
            Ok(_) => Ok(backend),
            Err(ResolveError::NoPort { known_names: known }) => {
                Err(missing(format!("ServiceImport {import} has no port {port}; it has {known}")))
            }
            Err(_) => Err(missing(format!("ServiceImport {import} does not exist"))),
        }
    }

    fn transport(self, service: &ObjectKey, port: Option<&ServicePort>) -> Result<Transport, Fault> {
        match self.speaks {
            RouteProtocol::ClientTls => return Ok(Transport::Tcp),
            // Policies apply to connections: a Service port used for both protocols gets its datagrams unchanged.
            RouteProtocol::Datagrams => return Ok(Transport::Udp),
            RouteProtocol::Http | RouteProtocol::Grpc | RouteProtocol::PickerGrpc | RouteProtocol::Bytes => {}
        }
        let app_protocol = port.and_then(|port| port.app_protocol.as_deref());
        let Some((policy, tls)) = (self.policies)(service, port_name(port)) else {
            return match (self.speaks, app_protocol) {
                (RouteProtocol::Http, Some("kubernetes.io/wss")) => {
                    let problem = format!(
                        "Service {service} asks for kubernetes.io/wss, and no BackendTLSPolicy says how it is verified"
                    );
                    Err(Fault::new("UnsupportedProtocol", problem))
                }
                (RouteProtocol::Grpc, _) | (RouteProtocol::PickerGrpc, Some("kubernetes.io/h2c")) => {
                    Ok(Transport::H2c)
                }
                (RouteProtocol::PickerGrpc, _) => Ok(Transport::H2(Arc::default())),
                (RouteProtocol::Bytes, _) => Ok(Transport::Tcp),
                _ => Ok(Transport::Plain),
            };
        };
        let (server_name, verification) = tls.map_err(|fault| {
            let problem = format!("BackendTLSPolicy {policy} cannot be used: {}", fault.message);
            Fault::new("InvalidBackendTLSPolicy", problem)
        })?;
        let protocol = match (self.speaks, app_protocol) {
            (RouteProtocol::Grpc | RouteProtocol::PickerGrpc, _)
            | (RouteProtocol::Http, Some("kubernetes.io/h2c")) => BackendProtocol::Http2,
            _ => BackendProtocol::Http1,
        };
        let client_certificate = self.client_certificate.cloned();
        Ok(Transport::Policy(Arc::new(PolicyTls {
            policy,
            server_name,
            verification,
            client_certificate,
            protocol,
        })))
    }
}

fn port_name(port: Option<&ServicePort>) -> Option<&str> {
    port.and_then(|port| port.name.as_deref()).filter(|name| !name.is_empty())
}

/// The port with this number: unlike an Ingress, a route does not name target ports.
fn service_port<'s>(
    ports: &'s [ServicePort],
    number: &str,
    protocol: PortProtocol,
) -> Option<&'s ServicePort> {
    let is_named = |port: &&ServicePort| {
        port.port.to_string() == number && is_port_of(protocol, port.protocol.as_deref())
    };
    ports.iter().find(is_named)
}

impl<'a> From<&'a ServiceReference> for BackendReference<'a> {
    fn from(service: &'a ServiceReference) -> Self {
        let namespace = service.namespace.as_deref();
        Self { group: None, kind: None, namespace, name: &service.name, port: Some(service.port) }
    }
}

/// Reads the same fields of every reference type.
macro_rules! references {
    ($($type:ty),+) => {
        $(impl<'a> core::convert::From<&'a $type> for BackendReference<'a> {
            fn from(of: &'a $type) -> Self {
                Self {
                    group: of.group.as_deref(),
                    kind: of.kind.as_deref(),
                    namespace: of.namespace.as_deref(),
                    name: &of.name,
                    port: of.port,
                }
            }
        })+
    };
}

references!(BackendObjectReference, HttpBackendRef, GrpcBackendRef, StreamBackendRef);
