//! What is listed and watched: a kind of object, everywhere or in a namespace, all of them or the one of a name. Owns
//! its paths and its words; never sends anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fairway_objects::manifest::gateway_kinds::GatewayKind;
use fairway_objects::object::Kind;

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
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
    /// `v1` Namespace, which says where to look for the others.
    Namespace,
    /// `v1` Namespace, by whose labels Gateways choose.
    LabelledNamespace,
    /// GatewayClass.
    GatewayClass,
    /// Gateway.
    Gateway,
    /// ListenerSet.
    ListenerSet,
    /// HTTPRoute.
    HttpRoute,
    /// GRPCRoute.
    GrpcRoute,
    /// TLSRoute.
    TlsRoute,
    /// TCPRoute.
    TcpRoute,
    /// UDPRoute.
    UdpRoute,
    /// ReferenceGrant.
    ReferenceGrant,
    /// BackendTLSPolicy.
    BackendTlsPolicy,
    /// ClientTrafficPolicy.
    ClientTrafficPolicy,
    /// BackendTrafficPolicy.
    BackendTrafficPolicy,
    /// SecurityPolicy.
    SecurityPolicy,
}

/// The kinds of the Gateway API, which a cluster may have or not.
pub(super) const OF_GATEWAYS: [Watched; 10] = [
    Watched::GatewayClass,
    Watched::Gateway,
    Watched::ListenerSet,
    Watched::HttpRoute,
    Watched::GrpcRoute,
    Watched::TlsRoute,
    Watched::TcpRoute,
    Watched::UdpRoute,
    Watched::ReferenceGrant,
    Watched::BackendTlsPolicy,
];

/// Fairway's own policies, which a cluster may have or not.
pub(super) const POLICIES: [Watched; 3] =
    [Watched::ClientTrafficPolicy, Watched::BackendTrafficPolicy, Watched::SecurityPolicy];

/// The kinds of the Gateway API that a cluster has, with their versions.
pub(super) type Offered = BTreeMap<Watched, BTreeSet<&'static str>>;

/// Objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection {
    /// The kind.
    pub kind: Watched,
    /// The version of its API.
    pub version: &'static str,
    /// The namespace; all of them where there is none.
    pub namespace: Option<Arc<str>>,
    /// The one object; all of them where there is none.
    pub name: Option<Arc<str>>,
    /// The labels they must have.
    pub labels: Option<Arc<str>>,
}

impl Watched {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().unwrap_or(Kind::Namespace).name()
    }

    /// The name of the resource in paths and in roles.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Ingress => "ingresses",
            Self::IngressClass => "ingressclasses",
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Namespace | Self::LabelledNamespace => "namespaces",
            of_gateways => of_gateways.of_gateways().map_or("", |known| known.resource),
        }
    }

    /// The group of its API; empty for the oldest kinds.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Ingress | Self::IngressClass => "networking.k8s.io",
            Self::EndpointSlice => "discovery.k8s.io",
            kind => kind.of_gateways().map_or("", |known| known.group),
        }
    }

    /// The kind of the objects that are passed on; of Namespaces that only say where to look, none are.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Ingress => Kind::Ingress,
            Self::IngressClass => Kind::IngressClass,
            Self::Service => Kind::Service,
            Self::EndpointSlice => Kind::EndpointSlice,
            Self::Secret => Kind::Secret,
            Self::ConfigMap => Kind::ConfigMap,
            Self::Namespace => return None,
            Self::LabelledNamespace => Kind::Namespace,
            Self::GatewayClass => Kind::GatewayClass,
            Self::Gateway => Kind::Gateway,
            Self::ListenerSet => Kind::ListenerSet,
            Self::HttpRoute => Kind::HttpRoute,
            Self::GrpcRoute => Kind::GrpcRoute,
            Self::TlsRoute => Kind::TlsRoute,
            Self::TcpRoute => Kind::TcpRoute,
            Self::UdpRoute => Kind::UdpRoute,
            Self::ReferenceGrant => Kind::ReferenceGrant,
            Self::BackendTlsPolicy => Kind::BackendTlsPolicy,
            Self::ClientTrafficPolicy => Kind::ClientTrafficPolicy,
            Self::BackendTrafficPolicy => Kind::BackendTrafficPolicy,
            Self::SecurityPolicy => Kind::SecurityPolicy,
        })
    }

    /// What is known of it as a kind of the Gateway API.
    pub(super) fn of_gateways(self) -> Option<GatewayKind> {
        self.kind().and_then(GatewayKind::of)
    }

    /// Whether its objects are in namespaces.
    pub(super) fn is_namespaced(self) -> bool {
        !matches!(self, Self::IngressClass | Self::GatewayClass | Self::Namespace | Self::LabelledNamespace)
    }
}

impl Collection {
    /// All objects of a kind.
    #[must_use]
    pub fn all(kind: Watched) -> Self {
        Self { kind, version: "v1", namespace: None, name: None, labels: None }
    }

    /// The same in another version of its API.
    #[must_use]
    pub(super) fn in_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// Those in a namespace.
    #[must_use]
    pub fn within(kind: Watched, namespace: &Arc<str>) -> Self {
        Self { namespace: Some(namespace.clone()), ..Self::all(kind) }
    }

    /// One object.
    #[must_use]
    pub fn one(kind: Watched, namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { name: Some(name.clone()), ..Self::within(kind, namespace) }
    }

    /// The path of the resource (Kubernetes API concepts, "Resource URIs").
    pub(super) fn path(&self) -> String {
        let root = if self.kind.group().is_empty() { "/api" } else { "/apis" };
        let (api, resource) = (self.api(), self.kind.resource());
        match &self.namespace {
            Some(namespace) => format!("{root}/{api}/namespaces/{namespace}/{resource}"),
            None => format!("{root}/{api}/{resource}"),
        }
    }

    /// The group and version of its API.
    pub(super) fn api(&self) -> String {
        match self.kind.group() {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The objects' names as a field selector.
    pub(super) fn fields(&self) -> Option<String> {
        self.name.as_ref().map(|name| format!("metadata.name={name}"))
    }

    /// `ingresses.networking.k8s.io` or `secrets`.
    pub(super) fn resource(&self) -> String {
        match self.kind.group() {
            "" => self.kind.resource().to_owned(),
            group => format!("{}.{group}", self.kind.resource()),
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource())?;
        if let Some(name) = &self.name {
            write!(f, " \"{name}\"")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None if self.kind.is_namespaced() => f.write_str(" in all namespaces"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_path_and_the_words_of_its_scope() {
        let all = Collection::all(Watched::Ingress);
        assert_eq!(all.path(), "/apis/networking.k8s.io/v1/ingresses");
        assert_eq!(all.to_string(), "ingresses.networking.k8s.io in all namespaces");
        let one = Collection::one(Watched::ConfigMap, &"edge".into(), &"settings".into());
        assert_eq!(one.path(), "/api/v1/namespaces/edge/configmaps");
        assert_eq!(one.fields().as_deref(), Some("metadata.name=settings"));
        assert_eq!(one.to_string(), "configmaps \"settings\" in namespace edge");
        assert_eq!(Collection::all(Watched::IngressClass).to_string(), "ingressclasses.networking.k8s.io");
        let routes = Collection::within(Watched::TlsRoute, &"shop".into()).in_version("v1alpha2");
        assert_eq!(routes.path(), "/apis/gateway.networking.k8s.io/v1alpha2/namespaces/shop/tlsroutes");
        assert_eq!(routes.to_string(), "tlsroutes.gateway.networking.k8s.io in namespace shop");
    }
}
