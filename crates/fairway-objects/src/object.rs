//! How objects are named, of which kinds they are and where they were written. Owns no collection of them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use fairway_model::{Origin, SourceLine};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute,
};
use crate::lines::Lines;
use crate::policies::{BackendTrafficPolicy, ClientTrafficPolicy, RefusedField, SecurityPolicy};
use crate::shared;

/// Names an object of a known kind; the namespace is empty for what has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// The kinds that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `networking.k8s.io/v1` Ingress.
    Ingress,
    /// `networking.k8s.io/v1` IngressClass.
    IngressClass,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Secret.
    Secret,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Namespace.
    Namespace,
    /// `gateway.networking.k8s.io/v1` GatewayClass.
    GatewayClass,
    /// `gateway.networking.k8s.io/v1` Gateway.
    Gateway,
    /// `gateway.networking.k8s.io/v1` ListenerSet.
    ListenerSet,
    /// `gateway.networking.k8s.io/v1` HTTPRoute.
    HttpRoute,
    /// `gateway.networking.k8s.io/v1` GRPCRoute.
    GrpcRoute,
    /// `gateway.networking.k8s.io/v1` TLSRoute.
    TlsRoute,
    /// `gateway.networking.k8s.io/v1` TCPRoute.
    TcpRoute,
    /// `gateway.networking.k8s.io/v1` UDPRoute.
    UdpRoute,
    /// `gateway.networking.k8s.io/v1` ReferenceGrant.
    ReferenceGrant,
    /// `gateway.networking.k8s.io/v1` BackendTLSPolicy.
    BackendTlsPolicy,
    /// `fairway.dev/v1alpha1` ClientTrafficPolicy.
    ClientTrafficPolicy,
    /// `fairway.dev/v1alpha1` BackendTrafficPolicy.
    BackendTrafficPolicy,
    /// `fairway.dev/v1alpha1` SecurityPolicy.
    SecurityPolicy,
    /// An Ingress of `extensions/v1beta1` or `networking.k8s.io/v1beta1`.
    OldIngress,
    /// The addresses of an external name, which is the object's name.
    Resolved,
    /// Where the Gateway of that name is.
    Placement,
    /// The releases of the installed CRDs of the Gateway API.
    Releases,
}

/// An object of a kind, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub key: ObjectKey,
}

/// An object to keep.
#[derive(Clone, Debug)]
pub enum Object {
    /// `networking.k8s.io/v1` Ingress.
    Ingress(Arc<Ingress>),
    /// `networking.k8s.io/v1` IngressClass.
    IngressClass(Arc<IngressClass>),
    /// `v1` Service.
    Service(Arc<Service>),
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice(Arc<EndpointSlice>),
    /// `v1` Secret.
    Secret(Arc<Secret>),
    /// `v1` ConfigMap.
    ConfigMap(Arc<ConfigMap>),
    /// `v1` Namespace.
    Namespace(Arc<Namespace>),
    /// `gateway.networking.k8s.io/v1` GatewayClass.
    GatewayClass(Arc<GatewayClass>),
    /// `gateway.networking.k8s.io/v1` Gateway.
    Gateway(Arc<Gateway>),
    /// `gateway.networking.k8s.io/v1` ListenerSet.
    ListenerSet(Arc<ListenerSet>),
    /// `gateway.networking.k8s.io/v1` HTTPRoute.
    HttpRoute(Arc<HttpRoute>),
    /// `gateway.networking.k8s.io/v1` GRPCRoute.
    GrpcRoute(Arc<GrpcRoute>),
    /// `gateway.networking.k8s.io/v1` TLSRoute.
    TlsRoute(Arc<TlsRoute>),
    /// `gateway.networking.k8s.io/v1` TCPRoute.
    TcpRoute(Arc<TcpRoute>),
    /// `gateway.networking.k8s.io/v1` UDPRoute.
    UdpRoute(Arc<UdpRoute>),
    /// `gateway.networking.k8s.io/v1` ReferenceGrant.
    ReferenceGrant(Arc<ReferenceGrant>),
    /// `gateway.networking.k8s.io/v1` BackendTLSPolicy.
    BackendTlsPolicy(Arc<BackendTlsPolicy>),
    /// `fairway.dev/v1alpha1` ClientTrafficPolicy.
    ClientTrafficPolicy(Arc<ClientTrafficPolicy>),
    /// `fairway.dev/v1alpha1` BackendTrafficPolicy.
    BackendTrafficPolicy(Arc<BackendTrafficPolicy>),
    /// `fairway.dev/v1alpha1` SecurityPolicy.
    SecurityPolicy(Arc<SecurityPolicy>),
    /// An Ingress of an API version that Kubernetes 1.22 removed, as it was written.
    OldIngress(serde_json::Value),
}

/// Where in a file an object was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    /// The path as the user gave it.
    pub file: Arc<str>,
    /// The first line of the document, counted from 1.
    pub line: u32,
    /// The lines of fields by their path, as in `spec.rules[0].http.paths[1]` or
    /// `metadata.annotations["kubernetes.io/ingress.class"]` (brackets and quotes for keys with any byte beside
    /// `A-Za-z0-9_-`). A field that is missing here has the line of the nearest field around it; `None` where all are in the
    /// first line.
    pub lines: Option<Arc<Lines>>,
}

/// An object and where it came from.
#[derive(Clone, Debug)]
pub struct Sourced<T> {
    /// The object.
    pub object: Arc<T>,
    /// Its place in a file, when it was read from one.
    pub source: Option<Arc<DocumentSource>>,
}

impl ObjectKey {
    /// `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: shared::namespace(namespace), name: shared::text(name) }
    }

    /// Reads `namespace/name`; `None` where either part is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let good = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        good.then(|| Self::new(namespace, name))
    }

    /// Of an object of a kind that has namespaces; one without is in `default`.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or("default"),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    fn cluster_wide(metadata: &ObjectMeta) -> Self {
        Self::new("", metadata.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Kind {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress | Self::OldIngress => "Ingress",
            Self::IngressClass => "IngressClass",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Namespace => "Namespace",
            Self::GatewayClass => "GatewayClass",
            Self::Gateway => "Gateway",
            Self::ListenerSet => "ListenerSet",
            Self::HttpRoute => "HTTPRoute",
            Self::GrpcRoute => "GRPCRoute",
            Self::TlsRoute => "TLSRoute",
            Self::TcpRoute => "TCPRoute",
            Self::UdpRoute => "UDPRoute",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::BackendTlsPolicy => "BackendTLSPolicy",
            Self::ClientTrafficPolicy => "ClientTrafficPolicy",
            Self::BackendTrafficPolicy => "BackendTrafficPolicy",
            Self::SecurityPolicy => "SecurityPolicy",
            Self::Resolved => "ExternalName",
            Self::Placement => "Placement",
            Self::Releases => "CustomResourceDefinition",
        }
    }
}

impl Kind {
    /// [`Kind::name`] as one text that all origins share.
    fn shared_name(self) -> Arc<str> {
        static NAMES: [OnceLock<Arc<str>>; 64] = [const { OnceLock::new() }; 64];
        let name = || -> Arc<str> { self.name().into() };
        NAMES.get(self as usize).map_or_else(name, |shared| shared.get_or_init(name).clone())
    }
}

impl ObjectRef {
    /// The object `key` of `kind`.
    #[must_use]
    pub fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }
}

impl Object {
    /// Its kind and name. An object without a namespace, of a kind that has them, is in `default`.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        let (kind, key) = match self {
            Self::Ingress(it) => (Kind::Ingress, ObjectKey::of(&it.metadata)),
            Self::IngressClass(it) => (Kind::IngressClass, ObjectKey::cluster_wide(&it.metadata)),
            Self::Service(it) => (Kind::Service, ObjectKey::of(&it.metadata)),
            Self::EndpointSlice(it) => (Kind::EndpointSlice, ObjectKey::of(&it.metadata)),
            Self::Secret(it) => (Kind::Secret, ObjectKey::of(&it.metadata)),
            Self::ConfigMap(it) => (Kind::ConfigMap, ObjectKey::of(&it.metadata)),
            Self::Namespace(it) => (Kind::Namespace, ObjectKey::cluster_wide(&it.metadata)),
            Self::GatewayClass(it) => (Kind::GatewayClass, ObjectKey::cluster_wide(&it.metadata)),
            Self::Gateway(it) => (Kind::Gateway, ObjectKey::of(&it.metadata)),
            Self::ListenerSet(it) => (Kind::ListenerSet, ObjectKey::of(&it.metadata)),
            Self::HttpRoute(it) => (Kind::HttpRoute, ObjectKey::of(&it.metadata)),
            Self::GrpcRoute(it) => (Kind::GrpcRoute, ObjectKey::of(&it.metadata)),
            Self::TlsRoute(it) => (Kind::TlsRoute, ObjectKey::of(&it.metadata)),
            Self::TcpRoute(it) => (Kind::TcpRoute, ObjectKey::of(&it.metadata)),
            Self::UdpRoute(it) => (Kind::UdpRoute, ObjectKey::of(&it.metadata)),
            Self::ReferenceGrant(it) => (Kind::ReferenceGrant, ObjectKey::of(&it.metadata)),
            Self::BackendTlsPolicy(it) => (Kind::BackendTlsPolicy, ObjectKey::of(&it.metadata)),
            Self::ClientTrafficPolicy(it) => (Kind::ClientTrafficPolicy, ObjectKey::of(&it.metadata)),
            Self::BackendTrafficPolicy(it) => (Kind::BackendTrafficPolicy, ObjectKey::of(&it.metadata)),
            Self::SecurityPolicy(it) => (Kind::SecurityPolicy, ObjectKey::of(&it.metadata)),
            Self::OldIngress(value) => {
                let text = |field| value.pointer(field).and_then(serde_json::Value::as_str);
                let namespace = text("/metadata/namespace").unwrap_or("default");
                (Kind::OldIngress, ObjectKey::new(namespace, text("/metadata/name").unwrap_or_default()))
            }
        };
        ObjectRef { kind, key }
    }

    /// Refuses an object for a field of it; the first field counts. Only a SecurityPolicy can be refused: what it is for is
    /// closed then.
    pub fn refuse(&mut self, field: &str, problem: &str) {
        if let Self::SecurityPolicy(policy) = self {
            let refused = || RefusedField { field: field.to_owned(), problem: problem.to_owned() };
            Arc::make_mut(policy).spec.refused.get_or_insert_with(refused);
        }
    }
}

impl<T> Sourced<T> {
    /// The object `kind key` at `field`, with the line of that field where it is known.
    pub fn origin(&self, kind: Kind, key: &ObjectKey, field: &str) -> Origin {
        Origin {
            kind: kind.shared_name(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            field: shared::text(field),
            source: self
                .source
                .as_ref()
                .map(|source| SourceLine { file: source.file.clone(), line: source.line_of(field) }),
        }
    }
}

impl DocumentSource {
    /// The line of a field, or of the nearest field around it.
    #[must_use]
    pub(crate) fn line_of(&self, field: &str) -> u32 {
        self.lines.as_ref().and_then(|lines| lines.nearest(field)).unwrap_or(self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_line_has_the_line_of_what_holds_it() {
        let lines = [("spec", 5), ("spec.rules[0]", 7), ("metadata.annotations", 3)];
        let source = DocumentSource {
            file: "a.yaml".into(),
            line: 1,
            lines: Lines::of(&lines.map(|(path, line)| (path.to_owned(), line)).into(), 1).map(Arc::new),
        };
        assert_eq!(source.line_of("spec.rules[0].http.paths[3].backend"), 7);
        assert_eq!(source.line_of("spec.rules[1]"), 5);
        assert_eq!(source.line_of("metadata.annotations[\"a.b/c\"]"), 3);
        assert_eq!(source.line_of("status"), 1);
    }
}
