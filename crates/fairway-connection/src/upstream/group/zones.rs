//! Counts attempts by the zone of the endpoint. Costs nothing if the own zone is unknown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{Endpoint, ProxyLocation};

/// Zones that are counted separately: anyone who can write EndpointSlices chooses their names.
const MAX_ZONES: usize = 32;

/// Stands for all further zones.
const OTHER_ZONES: &str = "others";

/// The counters of one worker.
#[derive(Default)]
pub(super) struct ZoneCounters(RefCell<BTreeMap<Arc<str>, Rc<Cell<u64>>>>);

impl ZoneCounters {
    /// The counter of each of these endpoints; empty if no zones are known.
    pub(super) fn counters<'a>(
        &self,
        location: &ProxyLocation,
        endpoints: impl Iterator<Item = &'a Endpoint> + Clone,
    ) -> Box<[Rc<Cell<u64>>]> {
        let zone = |endpoint: &'a Endpoint| endpoint.place.as_ref().and_then(|place| place.zone.as_ref());
        let Some(own) = &location.zone else { return Box::default() };
        if endpoints.clone().all(|endpoint| zone(endpoint).is_none()) {
            return Box::default();
        }
        let (unknown, mut known) = (Arc::default(), self.0.borrow_mut());
        let mut counter = |zone: &Arc<str>| {
            let has_room = known.len() < MAX_ZONES || zone == own;
            let named = if has_room || known.contains_key(zone) { zone.clone() } else { OTHER_ZONES.into() };
            Rc::clone(known.entry(named).or_default())
        };
        endpoints.map(|endpoint| counter(zone(endpoint).unwrap_or(&unknown))).collect()
    }

    /// Attempts by zone, and whether the zone is that of `location`.
    pub(super) fn attempts(&self, location: &ProxyLocation) -> BTreeMap<(Arc<str>, bool), u64> {
        let own_zone = location.zone.as_ref();
        let known = self.0.borrow();
        known.iter().map(|(zone, count)| ((zone.clone(), own_zone == Some(zone)), count.get())).collect()
    }
}
