//! Replaced snapshots, until no worker holds them, so that the last reference, and with it the work of freeing, never falls on a
//! worker.

use std::sync::Arc;

/// Replaced values that may still be in use.
#[derive(Debug)]
pub(crate) struct Retired<T> {
    waiting: Vec<Arc<T>>,
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self { waiting: Vec::new() }
    }
}

impl<T> Retired<T> {
    /// Keeps `replaced` while others hold it.
    pub(crate) fn retire(&mut self, replaced: Arc<T>) {
        self.waiting.push(replaced);
    }

    /// Frees values without other holders. No new holder can appear: they are no longer published.
    pub(crate) fn sweep(&mut self) {
        self.waiting.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// How many are still in use.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frees_only_values_without_other_holders() {
        let mut retired = Retired::default();
        let (held, free) = (Arc::new(1), Arc::new(2));
        let worker = held.clone();
        retired.retire(held);
        retired.retire(free);
        retired.sweep();
        assert_eq!(retired.len(), 1);
        drop(worker);
        retired.sweep();
        assert_eq!(retired.len(), 0);
    }
}
