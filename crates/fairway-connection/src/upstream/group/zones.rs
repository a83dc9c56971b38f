//! How many attempts the endpoints of each zone got. Costs nothing where the own zone is not known.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fairway_model::{Endpoint, Location};

/// Zones that are told apart: whoever may write EndpointSlices chooses their names.
const MOST: usize = 32;

/// What stands for all zones beyond those.
const OTHERS: &str = "others";

/// The counters of one worker.
#[derive(Default)]
pub(super) struct Zones(RefCell<BTreeMap<Arc<str>, Rc<Cell<u64>>>>);

impl Zones {
    /// The counter of each of these endpoints; none where no zone is known.
    pub(super) fn of<'a>(
        &self,
        location: &Location,
        endpoints: impl Iterator<Item = &'a Endpoint> + Clone,
    ) -> Box<[Rc<Cell<u64>>]> {
        let zone = |endpoint: &'a Endpoint| endpoint.place.as_ref().and_then(|place| place.zone.as_ref());
        let Some(own) = &location.zone else { return Box::default() };
        if endpoints.clone().all(|endpoint| zone(endpoint).is_none()) {
            return Box::default();
        }
        let (unknown, mut known) = (Arc::default(), self.0.borrow_mut());
        let mut counter = |zone: &Arc<str>| {
            let has_room = known.len() < MOST || zone == own;
            let named = if has_room || known.contains_key(zone) { zone.clone() } else { OTHERS.into() };
            Rc::clone(known.entry(named).or_default())
        };
        endpoints.map(|endpoint| counter(zone(endpoint).unwrap_or(&unknown))).collect()
    }

    /// Attempts by zone, and whether it is that of `location`.
    pub(super) fn counted(&self, location: &Location) -> BTreeMap<(Arc<str>, bool), u64> {
        let own = location.zone.as_ref();
        let known = self.0.borrow();
        known.iter().map(|(zone, count)| ((zone.clone(), own == Some(zone)), count.get())).collect()
    }
}
