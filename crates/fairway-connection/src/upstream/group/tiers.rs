//! Endpoints near the proxy are preferred: which are near, and when a request goes farther.
//!
//! Members are in tiers: those of the proxy's node, of its zone, and all others. A request draws a member of the first tier by the backend's
//! balancing. If the one that is drawn is ejected, the request goes to the next tier: the share of an ejected endpoint leaves, and no more than
//! that, so that failures never put more load on the near endpoints that are left. If the one that is drawn was tried by the same request,
//! or is as busy as it may be, another one of its tier does; only a tier without any passes requests on.

use std::ops::Range;

use fairway_model::{Backend, Location, Nearness};

/// In which order the endpoints of a backend are members of its group.
pub(super) struct Order {
    /// The number of each member among the endpoints, nearer ones first; none where the order is theirs.
    members: Box<[u32]>,
    /// Where each tier but the last ends.
    pub(super) ends: Box<[u32]>,
}

/// Whose endpoints are near, and how many.
pub(super) fn of(location: &Location, backend: &Backend) -> Order {
    let places = backend.endpoints.iter().map(|endpoint| endpoint.place.as_deref());
    let Some(nearness) = location.nearness(backend.traffic().distribution, places) else {
        return Order { members: Box::default(), ends: Box::default() };
    };
    let mut members: Box<[u32]> = (0..).take(nearness.len()).collect();
    members.sort_by_key(|member| nearness[*member as usize]);
    let end_of = |tier| {
        (0..).zip(&members).filter(|(_, it)| nearness[**it as usize] <= tier).map(|(at, _)| at + 1).last()
    };
    let mut ends: Vec<u32> = [Nearness::Node, Nearness::Zone].into_iter().filter_map(end_of).collect();
    ends.dedup();
    ends.retain(|end| (*end as usize) < members.len());
    Order { members, ends: ends.into() }
}

impl Order {
    /// What endpoints have, in the order of the members.
    pub(super) fn in_order<'a, T>(&'a self, of_endpoints: &'a [T]) -> impl Iterator<Item = &'a T> + Clone {
        let is_theirs = self.members.is_empty();
        let sorted = self.members.iter().filter_map(|member| of_endpoints.get(*member as usize));
        of_endpoints.iter().filter(move |_| is_theirs).chain(sorted)
    }
}

/// All of these, from `start` on.
pub(super) fn turned(range: Range<usize>, start: usize) -> impl Iterator<Item = usize> {
    (start..range.end).chain(range.start..start)
}
