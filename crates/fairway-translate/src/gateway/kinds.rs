//! The kinds of the Gateway API and what of the model each becomes. A table and nothing else: it reads no object.

/// The API group of all of them.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// A kind of the Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayKind {
    /// The kind as Kubernetes spells it.
    pub name: &'static str,
    /// Its versions in the standard channel, the newest first.
    pub versions: &'static [&'static str],
    /// What it becomes.
    pub becomes: Becomes,
}

/// What of the model an object becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// Nothing of the model: it says which Gateways are this controller's.
    Selection,
    /// A [`fairway_model::Listener`] for each of its listeners, with the [`fairway_model::Certificate`]s that it names.
    Listeners,
    /// A [`fairway_model::Route`] in each [`fairway_model::VirtualHost`] of the tables of its listeners, with the
    /// [`fairway_model::Backend`]s that it names.
    Routes,
    /// Connections to the [`fairway_model::Backend`]s that it names: the model has no routes for them yet.
    Connections,
    /// Datagrams to the [`fairway_model::Backend`]s that it names: the model has no routes for them yet.
    Datagrams,
    /// The [`fairway_model::UpstreamTls`] of the backends that it targets.
    UpstreamTls,
    /// Nothing of the model: it lets objects of other namespaces refer to those of its own.
    Permission,
}

/// All kinds that the standard channel has, in the order in which a request depends on them.
pub const KINDS: &[GatewayKind] = &[
    kind("GatewayClass", &["v1", "v1beta1"], Becomes::Selection),
    kind("Gateway", &["v1", "v1beta1"], Becomes::Listeners),
    kind("ListenerSet", &["v1"], Becomes::Listeners),
    kind("HTTPRoute", &["v1", "v1beta1"], Becomes::Routes),
    kind("GRPCRoute", &["v1"], Becomes::Routes),
    kind("TLSRoute", &["v1"], Becomes::Connections),
    kind("TCPRoute", &["v1"], Becomes::Connections),
    kind("UDPRoute", &["v1"], Becomes::Datagrams),
    kind("BackendTLSPolicy", &["v1"], Becomes::UpstreamTls),
    kind("ReferenceGrant", &["v1", "v1beta1"], Becomes::Permission),
];

const fn kind(name: &'static str, versions: &'static [&'static str], becomes: Becomes) -> GatewayKind {
    GatewayKind { name, versions, becomes }
}

impl GatewayKind {
    /// The kind of that `apiVersion` and `kind`.
    #[must_use]
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.split_once('/')?;
        let known = KINDS.iter().find(|known| known.name == kind)?;
        (group == GROUP && known.versions.contains(&version)).then_some(*known)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn becomes(kind: &str) -> Option<Becomes> {
        GatewayKind::find("gateway.networking.k8s.io/v1", kind).map(|known| known.becomes)
    }

    #[test]
    fn every_kind_becomes_one_thing() {
        let names: BTreeSet<_> = KINDS.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), KINDS.len());
        for known in KINDS {
            assert_eq!(becomes(known.name), Some(known.becomes), "{}", known.name);
        }
    }

    #[test]
    fn gateways_become_listeners_and_http_routes_become_routes() {
        assert_eq!(
            (becomes("Gateway"), becomes("ListenerSet")),
            (Some(Becomes::Listeners), Some(Becomes::Listeners))
        );
        assert_eq!(
            (becomes("HTTPRoute"), becomes("GRPCRoute")),
            (Some(Becomes::Routes), Some(Becomes::Routes))
        );
        assert_eq!(becomes("BackendTLSPolicy"), Some(Becomes::UpstreamTls));
        assert_eq!(
            (becomes("GatewayClass"), becomes("ReferenceGrant")),
            (Some(Becomes::Selection), Some(Becomes::Permission))
        );
    }

    #[test]
    fn other_groups_and_versions_are_not_of_the_standard_channel() {
        assert_eq!(GatewayKind::find("gateway.networking.x-k8s.io/v1alpha1", "XListenerSet"), None);
        assert_eq!(GatewayKind::find("gateway.networking.k8s.io/v1alpha2", "TCPRoute"), None);
        assert_eq!(GatewayKind::find("networking.k8s.io/v1", "Gateway"), None);
        assert_eq!(becomes("Ingress"), None);
    }
}
