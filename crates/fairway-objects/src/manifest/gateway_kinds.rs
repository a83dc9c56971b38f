//! The kinds of the Gateway API and the policies for it that are read: their names in paths and the versions whose shape is
//! known. A table and nothing else.

use crate::object::Kind;

/// The API group of the Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";
/// The API group of Fairway's own policies.
pub const POLICY_GROUP: &str = "fairway.dev";

/// A kind of the Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayKind {
    /// The kind.
    pub kind: Kind,
    /// The API group.
    pub group: &'static str,
    /// The name of the resource in paths and in roles.
    pub resource: &'static str,
    /// Its versions, the preferred one first. All of them have the shape of the first in what is read of them.
    pub versions: &'static [&'static str],
}

/// All of them, in the order in which a request depends on them.
pub const KINDS: [GatewayKind; 13] = [
    entry(Kind::GatewayClass, "gatewayclasses", &["v1", "v1beta1"]),
    entry(Kind::Gateway, "gateways", &["v1", "v1beta1"]),
    entry(Kind::ListenerSet, "listenersets", &["v1"]),
    entry(Kind::HttpRoute, "httproutes", &["v1", "v1beta1"]),
    entry(Kind::GrpcRoute, "grpcroutes", &["v1"]),
    entry(Kind::TlsRoute, "tlsroutes", &["v1", "v1alpha3", "v1alpha2"]),
    entry(Kind::TcpRoute, "tcproutes", &["v1", "v1alpha2"]),
    entry(Kind::UdpRoute, "udproutes", &["v1", "v1alpha2"]),
    entry(Kind::ReferenceGrant, "referencegrants", &["v1", "v1beta1"]),
    entry(Kind::BackendTlsPolicy, "backendtlspolicies", &["v1", "v1alpha3"]),
    policy(Kind::ClientTrafficPolicy, "clienttrafficpolicies"),
    policy(Kind::BackendTrafficPolicy, "backendtrafficpolicies"),
    policy(Kind::SecurityPolicy, "securitypolicies"),
];

const fn entry(kind: Kind, resource: &'static str, versions: &'static [&'static str]) -> GatewayKind {
    GatewayKind { kind, group: GROUP, resource, versions }
}

const fn policy(kind: Kind, resource: &'static str) -> GatewayKind {
    GatewayKind { kind, group: POLICY_GROUP, resource, versions: &["v1alpha1"] }
}

impl GatewayKind {
    /// The entry of a kind of the Gateway API.
    #[must_use]
    pub fn of(kind: Kind) -> Option<Self> {
        KINDS.into_iter().find(|known| known.kind == kind)
    }

    /// The entry of this `apiVersion` and `kind`.
    #[must_use]
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/')?;
        let known = KINDS.into_iter().find(|known| known.kind.name() == kind)?;
        (group == known.group && known.versions.contains(&version)).then_some(known)
    }

    /// The version to ask for, of those that a server offers.
    #[must_use]
    pub fn preferred(&self, offered: impl Fn(&str) -> bool) -> Option<&'static str> {
        self.versions.iter().copied().find(|version| offered(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_another_shape_is_not_known() {
        assert!(GatewayKind::find("gateway.networking.k8s.io/v1alpha2", "TLSRoute").is_some());
        assert!(GatewayKind::find("gateway.networking.k8s.io/v1alpha2", "HTTPRoute").is_none());
        assert!(GatewayKind::find("networking.k8s.io/v1", "Gateway").is_none());
        assert!(GatewayKind::find("fairway.dev/v1alpha1", "SecurityPolicy").is_some());
        assert!(GatewayKind::find("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy").is_none());
        assert!(GatewayKind::find("gateway.networking.x-k8s.io/v1alpha1", "XListenerSet").is_none());
    }

    #[test]
    fn the_first_version_that_is_offered_is_asked_for() {
        let routes = GatewayKind::of(Kind::TlsRoute).unwrap();
        assert_eq!(routes.preferred(|version| version != "v1"), Some("v1alpha3"));
        assert_eq!(routes.preferred(|version| version == "v2"), None);
    }
}
