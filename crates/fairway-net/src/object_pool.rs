//! Objects that a worker keeps for reuse: bounded in bytes, not in number, and freed once a second if they were not
//! needed.

/// A reusable object.
pub trait Spare {
    /// Bytes of memory it uses.
    fn kept_bytes(&self) -> usize;
}

impl Spare for Vec<u8> {
    #[inline]
    fn kept_bytes(&self) -> usize {
        self.capacity()
    }
}

/// Spare objects of one kind, last in first out: the top ones have warm memory, and the unused ones at the bottom show
/// how many are too many.
pub struct SparePool<T> {
    /// Each with its size in bytes.
    objects: Vec<(T, usize)>,
    bytes: usize,
    /// The maximum bytes to keep.
    max_bytes: usize,
    /// The lowest number of spares since the last [`Self::trim`]: that many were not needed.
    unused: usize,
}

impl<T: Spare> SparePool<T> {
    /// Empty, keeping at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { objects: Vec::new(), bytes: 0, max_bytes: limit, unused: 0 }
    }

    /// Takes a spare object if there is one.
    pub fn take(&mut self) -> Option<T> {
        let (spare, bytes) = self.objects.pop()?;
        self.bytes -= bytes;
        self.unused = self.unused.min(self.objects.len());
        Some(spare)
    }

    /// Keeps an object, or frees it if there are enough.
    pub fn keep(&mut self, spare: T) {
        let bytes = spare.kept_bytes();
        if self.bytes + bytes <= self.max_bytes {
            self.bytes += bytes;
            self.objects.push((spare, bytes));
        }
    }

    /// Call once a second: frees those that the last second did not need.
    pub fn trim(&mut self) {
        for (_, bytes) in self.objects.drain(..self.unused) {
            self.bytes -= bytes;
        }
        self.objects.shrink_to(2 * self.objects.len());
        self.unused = self.objects.len();
    }

    /// Frees all of them.
    pub fn clear(&mut self) {
        *self = Self::new(self.max_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: usize, bytes: usize) -> SparePool<Vec<u8>> {
        let mut spares = SparePool::new(1_000);
        for _ in 0..count {
            spares.keep(Vec::with_capacity(bytes));
        }
        spares
    }

    #[test]
    fn large_objects_fill_the_pool_sooner_than_small_ones() {
        assert_eq!(filled(100, 10).objects.len(), 100);
        assert_eq!(filled(100, 300).objects.len(), 3);
        assert!(filled(1, 1_001).take().is_none());
    }

    #[test]
    fn an_unused_second_frees_all_and_a_used_one_keeps_the_used_objects() {
        let mut spares = filled(10, 10);
        spares.trim();
        for _ in 0..3 {
            let objects: Vec<_> = (0..4).map_while(|_| spares.take()).collect();
            objects.into_iter().for_each(|spare| spares.keep(spare));
            spares.trim();
            assert_eq!((spares.objects.len(), spares.bytes), (4, 40));
        }
        spares.trim();
        assert_eq!((spares.objects.len(), spares.bytes), (0, 0));
    }

    #[test]
    fn a_cleared_pool_can_be_filled_again() {
        let mut spares = filled(3, 300);
        spares.clear();
        assert!(spares.take().is_none());
        spares.keep(Vec::with_capacity(900));
        assert_eq!(spares.take().unwrap().capacity(), 900);
    }
}
