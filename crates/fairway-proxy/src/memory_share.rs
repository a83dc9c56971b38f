//! Memory accounting for one kind of object of a worker, such as compressors.

use std::cell::Cell;
use std::rc::Rc;

/// Total bytes reserved.
#[derive(Default)]
pub(crate) struct MemoryPool(Rc<Cell<u64>>);

/// The reservation of one object, released when dropped.
pub(crate) struct MemoryReservation {
    bytes: u64,
    pool_bytes: Rc<Cell<u64>>,
}

impl MemoryPool {
    /// Reserves `bytes`, if the total then stays within the limit.
    pub(crate) fn reserve(&self, bytes: u64, max_bytes: u64) -> Option<MemoryReservation> {
        let total = self.0.get() + bytes;
        (total <= max_bytes).then(|| {
            self.0.set(total);
            MemoryReservation { bytes, pool_bytes: Rc::clone(&self.0) }
        })
    }

    /// An empty reservation that may grow.
    pub(crate) fn empty(&self) -> MemoryReservation {
        MemoryReservation { bytes: 0, pool_bytes: Rc::clone(&self.0) }
    }

    /// Total bytes reserved.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.0.get()
    }
}

impl MemoryReservation {
    /// Changes the size if it shrinks or the total stays within the limit. Returns whether it changed.
    pub(crate) fn resize(&mut self, bytes: u64, max_bytes: u64) -> bool {
        let total = self.pool_bytes.get() - self.bytes + bytes;
        let fits = bytes <= self.bytes || total <= max_bytes;
        if fits {
            self.pool_bytes.set(total);
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.pool_bytes.set(self.pool_bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_stay_within_the_limit_and_are_released() {
        let memory = MemoryPool::default();
        let first = memory.reserve(60, 100).unwrap();
        assert!(memory.reserve(41, 100).is_none());
        let second = memory.reserve(40, 100).unwrap();
        drop(first);
        assert!(memory.reserve(61, 100).is_none());
        assert!(memory.reserve(60, 100).is_some());
        drop(second);
        assert_eq!(memory.used_bytes(), 0);
        assert!(memory.reserve(1, 0).is_none(), "nothing while the process sheds");
        let (mut growing, other) = (memory.empty(), memory.reserve(50, 100).unwrap());
        assert!(growing.resize(50, 100) && !growing.resize(51, 100) && growing.resize(40, 0));
        assert_eq!(memory.used_bytes(), 90);
        drop((growing, other));
        assert_eq!(memory.used_bytes(), 0);
    }
}
