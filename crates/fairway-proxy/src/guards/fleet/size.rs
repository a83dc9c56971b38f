//! The number of replicas that share the limits of the fleet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The maximum divisor of limits: a wrong count must not block all requests.
const MAX_REPLICAS: u32 = 1_000;

/// The number of replicas by which fleet limits are divided. Clones share it. Guards read it for each request of such a limit;
/// a change needs neither a new configuration nor new counters.
#[derive(Clone, Debug, Default)]
pub struct FleetSize(
    /// 0 means unknown.
    Arc<AtomicU32>,
);

impl FleetSize {
    /// Sets the number, clamped to 1 to 1,000.
    pub fn set(&self, replicas: u32) {
        self.0.store(replicas.clamp(1, MAX_REPLICAS), Ordering::Relaxed);
    }

    /// Whether it was ever set.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// The number; 1 if unknown.
    #[must_use]
    #[inline]
    pub fn replicas(&self) -> u32 {
        self.0.load(Ordering::Relaxed).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_bounded_and_one_until_it_is_known() {
        let size = FleetSize::default();
        assert_eq!((size.is_known(), size.replicas()), (false, 1));
        for (told, counted) in [(0, 1), (3, 3), (u32::MAX, 1_000)] {
            size.set(told);
            assert_eq!((size.is_known(), size.clone().replicas()), (true, counted));
        }
    }
}
