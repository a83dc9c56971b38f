//! Zones and nodes of endpoints and the proxy, and topology-aware preference.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Zone and node of an endpoint, and its topology hints.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointTopology {
    /// The zone of its node (`topology.kubernetes.io/zone`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// Zones whose clients should use it (EndpointSlice API, `hints.forZones`). Kubernetes fills these in according
    /// to the Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Arc<str>>,
    /// Nodes whose clients should use it (`hints.forNodes`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Arc<str>>,
}

/// Zone and node of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyLocation {
    /// The zone of its node.
    pub zone: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
}

/// Which endpoints of a backend are preferred, regardless of the hints of its EndpointSlices. The names are those of
/// `spec.trafficDistribution` of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrafficDistribution {
    /// Endpoints in the proxy's zone.
    PreferSameZone,
    /// Endpoints on the proxy's node, then those in its zone.
    PreferSameNode,
    /// No preference; hints are ignored.
    Any,
}

/// How near an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proximity {
    /// On the proxy's node, or hinted for that node.
    Node,
    /// In the proxy's zone, or hinted for that zone.
    Zone,
    /// Neither.
    Elsewhere,
}

impl ProxyLocation {
    /// The proximity of each endpoint, in order; `None` if all are equal or proximity does not matter.
    ///
    /// Without a `distribution`, hints count as in kube-proxy: only if every endpoint has one, because an endpoint
    /// without a hint would otherwise get no traffic.
    #[must_use]
    pub fn proximity<'p>(
        &self,
        distribution: Option<TrafficDistribution>,
        places: impl Iterator<Item = Option<&'p EndpointTopology>> + Clone,
    ) -> Option<Box<[Proximity]>> {
        let (node, zone) = (self.node.as_ref(), self.zone.as_ref());
        let contains =
            |names: &[Arc<str>], name: Option<&Arc<str>>| name.is_some_and(|name| names.contains(name));
        let nearness: Box<[Proximity]> = match distribution {
            Some(TrafficDistribution::Any) => return None,
            Some(wanted) => {
                let counts_node = wanted == TrafficDistribution::PreferSameNode && node.is_some();
                let near = |topology: Option<&EndpointTopology>| match topology {
                    Some(place) if counts_node && place.node.as_ref() == node => Proximity::Node,
                    Some(place) if zone.is_some() && place.zone.as_ref() == zone => Proximity::Zone,
                    _ => Proximity::Elsewhere,
                };
                places.map(near).collect()
            }
            None => {
                let all =
                    |has: fn(&EndpointTopology) -> bool| places.clone().all(|place| place.is_some_and(has));
                let counts_nodes = all(|place| !place.for_nodes.is_empty());
                let counts_zones = all(|place| !place.for_zones.is_empty());
                let near = |topology: Option<&EndpointTopology>| match topology {
                    Some(place) if counts_nodes && contains(&place.for_nodes, node) => Proximity::Node,
                    Some(place) if counts_zones && contains(&place.for_zones, zone) => Proximity::Zone,
                    _ => Proximity::Elsewhere,
                };
                places.map(near).collect()
            }
        };
        let first = nearness.first()?;
        nearness.iter().any(|other| other != first).then_some(nearness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Proximity::{Elsewhere, Node, Zone};

    fn names(names: &str) -> Vec<Arc<str>> {
        names.split_whitespace().map(Arc::from).collect()
    }

    /// An endpoint in a zone, on a node, with hints for zones and for nodes.
    fn topology(zone: &str, node: &str, for_zones: &str, for_nodes: &str) -> Option<Arc<EndpointTopology>> {
        let text = |text: &str| (!text.is_empty()).then(|| text.into());
        let (zone, node, for_zones, for_nodes) = (text(zone), text(node), names(for_zones), names(for_nodes));
        Some(Arc::new(EndpointTopology { zone, node, for_zones, for_nodes }))
    }

    fn nearness(
        distribution: Option<TrafficDistribution>,
        places: &[Option<Arc<EndpointTopology>>],
        location: &ProxyLocation,
    ) -> Option<Vec<Proximity>> {
        location.proximity(distribution, places.iter().map(Option::as_deref)).map(Vec::from)
    }

    fn proxy_location() -> ProxyLocation {
        ProxyLocation { zone: Some("a".into()), node: Some("n1".into()) }
    }

    #[test]
    fn hints_count_only_if_all_endpoints_have_one_and_one_matches() {
        let hinted =
            [topology("a", "n1", "a", ""), topology("b", "n2", "b", ""), topology("b", "n3", "b a", "")];
        let nearness_of =
            |topologies: &[Option<Arc<EndpointTopology>>]| nearness(None, topologies, &proxy_location());
        assert_eq!(nearness_of(&hinted), Some(vec![Zone, Elsewhere, Zone]));
        assert_eq!(
            nearness_of(&[hinted.to_vec(), vec![topology("a", "n1", "", "")]].concat()),
            None,
            "one has no hint"
        );
        assert_eq!(nearness_of(&[hinted.to_vec(), vec![None]].concat()), None, "nothing is known of one");
        assert_eq!(nearness_of(&hinted[1..2]), None, "none is for here");
        assert_eq!(nearness(None, &hinted, &ProxyLocation::default()), None, "nobody knows where here is");
        let of_nodes =
            [topology("a", "n1", "a", "n1"), topology("a", "n2", "a", "n2"), topology("b", "n3", "b", "n3")];
        assert_eq!(nearness_of(&of_nodes), Some(vec![Node, Zone, Elsewhere]));
        assert_eq!(nearness_of(&of_nodes[1..]), Some(vec![Zone, Elsewhere]), "no endpoint on the node");
    }

    #[test]
    fn traffic_distribution_overrides_hints() {
        use TrafficDistribution::{Any, PreferSameNode, PreferSameZone};
        let topologies =
            [topology("a", "n1", "b", ""), topology("a", "n2", "b", ""), topology("b", "n3", "a", ""), None];
        let nearness_with = |distribution| nearness(Some(distribution), &topologies, &proxy_location());
        assert_eq!(nearness_with(PreferSameZone), Some(vec![Zone, Zone, Elsewhere, Elsewhere]));
        assert_eq!(nearness_with(PreferSameNode), Some(vec![Node, Zone, Elsewhere, Elsewhere]));
        assert_eq!(nearness_with(Any), None);
        let unknown = ProxyLocation { zone: None, node: Some("n9".into()) };
        assert_eq!(nearness(Some(PreferSameZone), &topologies, &unknown), None);
        assert_eq!(
            nearness(Some(PreferSameZone), &topologies[..2], &proxy_location()),
            None,
            "all are alike"
        );
    }
}
