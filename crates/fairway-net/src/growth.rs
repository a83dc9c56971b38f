//! Memory that the connections of one worker may use beyond their initial share: lent and given back.

use std::cell::Cell;
use std::rc::Rc;

/// The memory of a worker that is lent.
#[derive(Default)]
pub struct SharedMemory {
    lent_bytes: Cell<u64>,
}

impl SharedMemory {
    /// Lent bytes.
    pub fn lent_bytes(&self) -> u64 {
        self.lent_bytes.get()
    }
}

/// What one connection has borrowed; returned when this is dropped.
pub struct MemoryLoan {
    growth: Rc<SharedMemory>,
    bytes: u64,
}

impl MemoryLoan {
    /// An empty loan.
    pub fn new(growth: &Rc<SharedMemory>) -> Self {
        Self { growth: Rc::clone(growth), bytes: 0 }
    }

    /// Borrows `bytes` more, if all loans of the worker stay within `limit`.
    pub fn extend(&mut self, bytes: u64, limit: u64) -> bool {
        let lent = self.growth.lent_bytes.get().saturating_add(bytes);
        if lent > limit {
            return false;
        }
        self.growth.lent_bytes.set(lent);
        self.bytes += bytes;
        true
    }

    /// Returns some bytes.
    pub fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.growth.lent_bytes.set(self.growth.lent_bytes.get().saturating_sub(bytes));
    }

    /// Whether nothing is borrowed.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for MemoryLoan {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loans_share_one_bound_and_are_all_returned() {
        let growth = Rc::new(SharedMemory::default());
        let (mut one, mut other) = (MemoryLoan::new(&growth), MemoryLoan::new(&growth));
        assert!(one.extend(60, 100) && !other.extend(41, 100) && other.extend(40, 100));
        assert!(!one.extend(1, 100) && !one.extend(1, 0));
        one.give_back(10);
        assert_eq!(growth.lent_bytes(), 90);
        drop(one);
        assert_eq!(growth.lent_bytes(), 40);
        other.give_back(1_000);
        assert!(other.is_empty());
        drop(other);
        assert_eq!(growth.lent_bytes(), 0);
    }
}
