//! What things of one kind, such as compressors, take of a worker's memory together.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes that all of them take.
#[derive(Default)]
pub(crate) struct MemoryShares(Rc<Cell<u64>>);

/// What one of them takes, as long as there is one.
pub(crate) struct Share {
    bytes: u64,
    all: Rc<Cell<u64>>,
}

impl MemoryShares {
    /// The share of one that takes so many bytes, where all together then take no more than `most`.
    pub(crate) fn share(&self, bytes: u64, most: u64) -> Option<Share> {
        let together = self.0.get() + bytes;
        (together <= most).then(|| {
            self.0.set(together);
            Share { bytes, all: Rc::clone(&self.0) }
        })
    }

    /// A share of nothing, which may grow.
    pub(crate) fn empty(&self) -> Share {
        Share { bytes: 0, all: Rc::clone(&self.0) }
    }

    /// Bytes that all of them take.
    pub(crate) fn taken(&self) -> u64 {
        self.0.get()
    }
}

impl Share {
    /// Makes it one of so many bytes, where all together then take no more than `most`, or it takes no more than before. Says whether it
    /// is.
    pub(crate) fn resize(&mut self, bytes: u64, most: u64) -> bool {
        let together = self.all.get() - self.bytes + bytes;
        let fits = bytes <= self.bytes || together <= most;
        if fits {
            self.all.set(together);
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_no_more_than_there_is_and_are_given_back() {
        let memory = MemoryShares::default();
        let first = memory.share(60, 100).unwrap();
        assert!(memory.share(41, 100).is_none());
        let second = memory.share(40, 100).unwrap();
        drop(first);
        assert!(memory.share(61, 100).is_none());
        assert!(memory.share(60, 100).is_some());
        drop(second);
        assert_eq!(memory.taken(), 0);
        assert!(memory.share(1, 0).is_none(), "nothing while the process sheds");
        let (mut growing, other) = (memory.empty(), memory.share(50, 100).unwrap());
        assert!(growing.resize(50, 100) && !growing.resize(51, 100) && growing.resize(40, 0));
        assert_eq!(memory.taken(), 90);
        drop((growing, other));
        assert_eq!(memory.taken(), 0);
    }
}
