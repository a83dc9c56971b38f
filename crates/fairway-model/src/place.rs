//! Where endpoints and the proxy run, and which endpoints are near.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Where an endpoint runs, and which clients it is meant for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The zone of its node (`topology.kubernetes.io/zone`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// Zones whose clients should use it (EndpointSlice API, `hints.forZones`), which Kubernetes fills in as the Service asks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Arc<str>>,
    /// Nodes whose clients should use it (`hints.forNodes`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Arc<str>>,
}

/// Where this process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The zone of its node.
    pub zone: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
}

/// Which endpoints of a backend are preferred, whatever the hints of its EndpointSlices say. The names are those of
/// `spec.trafficDistribution` of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrafficDistribution {
    /// Those in the proxy's zone.
    PreferSameZone,
    /// Those on the proxy's node, then those in its zone.
    PreferSameNode,
    /// None: hints do not count.
    Any,
}

/// How near an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Its node is the proxy's, or it is meant for that one.
    Node,
    /// The same of its zone.
    Zone,
    /// Neither.
    Elsewhere,
}

impl Location {
    /// How near each of the endpoints in these places is, in their order; nothing where all are alike, or nearness does not count.
    ///
    /// Without a word of the backend's own, hints count as they do for kube-proxy: only where all endpoints have some, since one
    /// without would get nothing otherwise.
    #[must_use]
    pub fn nearness<'p>(
        &self,
        distribution: Option<TrafficDistribution>,
        places: impl Iterator<Item = Option<&'p Place>> + Clone,
    ) -> Option<Box<[Nearness]>> {
        let (node, zone) = (self.node.as_ref(), self.zone.as_ref());
        let is_one = |names: &[Arc<str>], own: Option<&Arc<str>>| own.is_some_and(|own| names.contains(own));
        let nearness: Box<[Nearness]> = match distribution {
            Some(TrafficDistribution::Any) => return None,
            Some(wanted) => {
                let counts_node = wanted == TrafficDistribution::PreferSameNode && node.is_some();
                let near = |place: Option<&Place>| match place {
                    Some(place) if counts_node && place.node.as_ref() == node => Nearness::Node,
                    Some(place) if zone.is_some() && place.zone.as_ref() == zone => Nearness::Zone,
                    _ => Nearness::Elsewhere,
                };
                places.map(near).collect()
            }
            None => {
                let all = |has: fn(&Place) -> bool| places.clone().all(|place| place.is_some_and(has));
                let counts_nodes = all(|place| !place.for_nodes.is_empty());
                let counts_zones = all(|place| !place.for_zones.is_empty());
                let near = |place: Option<&Place>| match place {
                    Some(place) if counts_nodes && is_one(&place.for_nodes, node) => Nearness::Node,
                    Some(place) if counts_zones && is_one(&place.for_zones, zone) => Nearness::Zone,
                    _ => Nearness::Elsewhere,
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
    use Nearness::{Elsewhere, Node, Zone};

    fn names(names: &str) -> Vec<Arc<str>> {
        names.split_whitespace().map(Arc::from).collect()
    }

    /// An endpoint in a zone, on a node, with hints for zones and for nodes.
    fn place(zone: &str, node: &str, for_zones: &str, for_nodes: &str) -> Option<Arc<Place>> {
        let text = |text: &str| (!text.is_empty()).then(|| text.into());
        let (zone, node, for_zones, for_nodes) = (text(zone), text(node), names(for_zones), names(for_nodes));
        Some(Arc::new(Place { zone, node, for_zones, for_nodes }))
    }

    fn nearness(
        distribution: Option<TrafficDistribution>,
        places: &[Option<Arc<Place>>],
        location: &Location,
    ) -> Option<Vec<Nearness>> {
        location.nearness(distribution, places.iter().map(Option::as_deref)).map(Vec::from)
    }

    fn here() -> Location {
        Location { zone: Some("a".into()), node: Some("n1".into()) }
    }

    #[test]
    fn hints_count_only_where_every_endpoint_has_some_and_one_is_for_here() {
        let hinted = [place("a", "n1", "a", ""), place("b", "n2", "b", ""), place("b", "n3", "b a", "")];
        let of = |places: &[Option<Arc<Place>>]| nearness(None, places, &here());
        assert_eq!(of(&hinted), Some(vec![Zone, Elsewhere, Zone]));
        assert_eq!(of(&[hinted.to_vec(), vec![place("a", "n1", "", "")]].concat()), None, "one has no hint");
        assert_eq!(of(&[hinted.to_vec(), vec![None]].concat()), None, "nothing is known of one");
        assert_eq!(of(&hinted[1..2]), None, "none is for here");
        assert_eq!(nearness(None, &hinted, &Location::default()), None, "nobody knows where here is");
        let of_nodes =
            [place("a", "n1", "a", "n1"), place("a", "n2", "a", "n2"), place("b", "n3", "b", "n3")];
        assert_eq!(of(&of_nodes), Some(vec![Node, Zone, Elsewhere]));
        assert_eq!(of(&of_nodes[1..]), Some(vec![Zone, Elsewhere]), "no endpoint on the node");
    }

    #[test]
    fn the_word_of_a_backend_goes_before_hints_and_goes_by_where_endpoints_are() {
        use TrafficDistribution::{Any, PreferSameNode, PreferSameZone};
        let places = [place("a", "n1", "b", ""), place("a", "n2", "b", ""), place("b", "n3", "a", ""), None];
        let of = |distribution| nearness(Some(distribution), &places, &here());
        assert_eq!(of(PreferSameZone), Some(vec![Zone, Zone, Elsewhere, Elsewhere]));
        assert_eq!(of(PreferSameNode), Some(vec![Node, Zone, Elsewhere, Elsewhere]));
        assert_eq!(of(Any), None);
        let unknown = Location { zone: None, node: Some("n9".into()) };
        assert_eq!(nearness(Some(PreferSameZone), &places, &unknown), None);
        assert_eq!(nearness(Some(PreferSameZone), &places[..2], &here()), None, "all are alike");
    }
}
