//! Memory that the connections of one worker may fill beyond what each has anyway: lent, and given back. Knows no
//! connection.

use std::cell::Cell;
use std::rc::Rc;

/// What is lent of a worker's memory.
#[derive(Default)]
pub struct Growth {
    lent: Cell<u64>,
}

impl Growth {
    /// Bytes that are lent.
    pub fn lent(&self) -> u64 {
        self.lent.get()
    }
}

/// What one connection has of it; all goes back when this is dropped.
pub struct Loan {
    growth: Rc<Growth>,
    bytes: u64,
}

impl Loan {
    /// Nothing yet.
    pub fn new(growth: &Rc<Growth>) -> Self {
        Self { growth: Rc::clone(growth), bytes: 0 }
    }

    /// Takes so many bytes more if all loans of the worker are at most `most` then.
    pub fn extend(&mut self, bytes: u64, most: u64) -> bool {
        let lent = self.growth.lent.get().saturating_add(bytes);
        if lent > most {
            return false;
        }
        self.growth.lent.set(lent);
        self.bytes += bytes;
        true
    }

    /// Gives back so many.
    pub fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.growth.lent.set(self.growth.lent.get().saturating_sub(bytes));
    }

    /// Whether it is nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loans_share_one_bound_and_all_comes_back() {
        let growth = Rc::new(Growth::default());
        let (mut one, mut other) = (Loan::new(&growth), Loan::new(&growth));
        assert!(one.extend(60, 100) && !other.extend(41, 100) && other.extend(40, 100));
        assert!(!one.extend(1, 100) && !one.extend(1, 0));
        one.give_back(10);
        assert_eq!(growth.lent(), 90);
        drop(one);
        assert_eq!(growth.lent(), 40);
        other.give_back(1_000);
        assert!(other.is_empty());
        drop(other);
        assert_eq!(growth.lent(), 0);
    }
}
