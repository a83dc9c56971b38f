//! The assignment of endpoints to a backend's server slots. Pure: returns the changes and does not apply them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// `scale-server-slots` of HAProxy's ingress controller: how many servers a backend has room for.
const SLOTS: usize = 42;

/// The slots of all backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    by_backend: BTreeMap<String, Vec<Option<SocketAddr>>>,
}

/// A change of a slot's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotChange {
    /// The backend.
    pub backend: String,
    /// The slot, from 0.
    pub slot: usize,
    /// The new content of the slot.
    pub endpoint: Option<SocketAddr>,
}

/// The result of assigning new endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The slots to change.
    Changes(Vec<SlotChange>),
    /// There are other backends, or too few slots: HAProxy has to be reloaded.
    Reload,
}

impl Slots {
    /// Assigns endpoints to slots; remaining endpoints keep their slots.
    pub(crate) fn fit(&mut self, backends: &BTreeMap<String, Vec<SocketAddr>>) -> Fit {
        let mut reload = !self.by_backend.keys().eq(backends.keys());
        let mut changes = Vec::new();
        self.by_backend.retain(|name, _| backends.contains_key(name));
        for (name, endpoints) in backends {
            let slots = self.by_backend.entry(name.clone()).or_insert_with(|| vec![None; SLOTS]);
            let mut change = |slot, endpoint| {
                changes.push(SlotChange { backend: name.clone(), slot, endpoint });
            };
            for (slot, present) in slots.iter_mut().enumerate() {
                if present.is_some_and(|present| !endpoints.contains(&present)) {
                    *present = None;
                    change(slot, None);
                }
            }
            for endpoint in endpoints {
                if slots.contains(&Some(*endpoint)) {
                    continue;
                }
                let slot = slots.iter().position(Option::is_none).unwrap_or_else(|| {
                    reload = true;
                    slots.resize(slots.len() + SLOTS, None);
                    slots.len() - SLOTS
                });
                slots[slot] = Some(*endpoint);
                change(slot, Some(*endpoint));
            }
        }
        if reload { Fit::Reload } else { Fit::Changes(changes) }
    }

    /// The slots of a backend.
    #[must_use]
    pub(crate) fn for_backend(&self, backend: &str) -> &[Option<SocketAddr>] {
        self.by_backend.get(backend).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backends(ports: impl IntoIterator<Item = u16>) -> BTreeMap<String, Vec<SocketAddr>> {
        let endpoints = ports.into_iter().map(|port| SocketAddr::from(([10, 0, 0, 1], port))).collect();
        BTreeMap::from([("one".to_owned(), endpoints)])
    }

    #[test]
    fn a_new_backend_needs_a_reload_and_new_endpoints_of_it_do_not() {
        let mut slots = Slots::default();
        assert_eq!(slots.fit(&backends([1, 2])), Fit::Reload);
        let Fit::Changes(changes) = slots.fit(&backends([1, 2, 3])) else {
            panic!("reloads for an endpoint")
        };
        let endpoint = Some(SocketAddr::from(([10, 0, 0, 1], 3)));
        assert_eq!(changes, [SlotChange { backend: "one".to_owned(), slot: 2, endpoint }]);
    }

    #[test]
    fn an_endpoint_that_stays_keeps_its_slot_and_a_free_one_is_used_again() {
        let mut slots = Slots::default();
        slots.fit(&backends([1, 2, 3]));
        let Fit::Changes(changes) = slots.fit(&backends([2, 3, 4])) else {
            panic!("reloads for an endpoint")
        };
        assert_eq!(changes.iter().map(|change| change.slot).collect::<Vec<_>>(), [0, 0]);
        assert_eq!(slots.for_backend("one")[1].map(|endpoint| endpoint.port()), Some(2));
        assert_eq!(slots.for_backend("one")[0].map(|endpoint| endpoint.port()), Some(4));
    }

    #[test]
    fn too_many_endpoints_make_room_by_a_reload() {
        let mut slots = Slots::default();
        slots.fit(&backends(1..=42));
        assert_eq!(slots.fit(&backends(1..=43)), Fit::Reload);
        assert_eq!(slots.for_backend("one").len(), 84);
    }
}
