//! Topology-aware routing: which endpoints are near the proxy, and when a request goes farther.
//!
//! Members are in tiers: those on the proxy's node, those in its zone, and all others. A request draws a member of the
//! first tier by the backend's load balancing. If that member is ejected, the request goes to the next tier: exactly
//! the share of an ejected endpoint leaves the tier, so failures never put more load on the remaining near endpoints.
//! If the member was tried by the same request or is at its limit, another one of its tier is used; only a tier without
//! any passes requests on.

use std::ops::Range;

use fairway_model::{Backend, Proximity, ProxyLocation};

/// The order of a backend's endpoints as members of its group.
pub(super) struct TierOrder {
    /// The endpoint index of each member, nearest first; empty to keep the order of the endpoints.
    members: Box<[u32]>,
    /// The end of each tier but the last.
    pub(super) ends: Box<[u32]>,
}

/// Sorts the endpoints into tiers.
pub(super) fn order_by_tier(location: &ProxyLocation, backend: &Backend) -> TierOrder {
    let locations = backend.endpoints.iter().map(|endpoint| endpoint.place.as_deref());
    let Some(nearness) = location.proximity(backend.traffic().distribution, locations) else {
        return TierOrder { members: Box::default(), ends: Box::default() };
    };
    let mut members: Box<[u32]> = (0..).take(nearness.len()).collect();
    members.sort_by_key(|member| nearness[*member as usize]);
    let end_of = |tier| {
        (0..).zip(&members).filter(|(_, it)| nearness[**it as usize] <= tier).map(|(at, _)| at + 1).last()
    };
    let mut ends: Vec<u32> = [Proximity::Node, Proximity::Zone].into_iter().filter_map(end_of).collect();
    ends.dedup();
    ends.retain(|end| (*end as usize) < members.len());
    TierOrder { members, ends: ends.into() }
}

impl TierOrder {
    /// The items of the endpoints, in the order of the members.
    pub(super) fn in_order<'a, T>(&'a self, of_endpoints: &'a [T]) -> impl Iterator<Item = &'a T> + Clone {
        let is_theirs = self.members.is_empty();
        let sorted = self.members.iter().filter_map(|member| of_endpoints.get(*member as usize));
        of_endpoints.iter().filter(move |_| is_theirs).chain(sorted)
    }
}

/// All indices of the range, starting from `start` and wrapping around.
pub(super) fn rotated(range: Range<usize>, start: usize) -> impl Iterator<Item = usize> {
    (start..range.end).chain(range.start..start)
}
