//! Shares equal texts and values that are created one after another: namespaces, field paths, ports of Services. Keeps a small
//! cache per thread.

use std::cell::RefCell;
use std::sync::Arc;

/// The number of texts of each sort in a thread's cache.
const MAX_TEXTS: usize = 64;
/// Longer texts are not cached: the cache stays small, and they are rarely equal to others.
const MAX_TEXT_BYTES: usize = 256;
/// The number of cached values of a sort.
const MAX_VALUES: usize = 8;

thread_local! {
    /// Names of namespaces, separate from other texts so that those do not evict them.
    static NAMESPACES: RefCell<TextCache> = const { RefCell::new(TextCache::new()) };
    /// All other texts.
    static OTHERS: RefCell<TextCache> = const { RefCell::new(TextCache::new()) };
}

/// Texts, indexed by their hash.
struct TextCache([Option<Arc<str>>; MAX_TEXTS]);

/// Recently created values.
#[derive(Debug)]
pub struct RecentValues<T: ?Sized> {
    values: [Option<Arc<T>>; MAX_VALUES],
    /// The slot of the next value.
    next: usize,
}

/// The shared name of a namespace.
pub(crate) fn shared_namespace(name: &str) -> Arc<str> {
    NAMESPACES.with_borrow_mut(|texts| texts.shared(name))
}

/// A text, shared with recent equal ones.
pub fn text(text: &str) -> Arc<str> {
    match text.is_empty() {
        true => Arc::default(),
        false => OTHERS.with_borrow_mut(|texts| texts.shared(text)),
    }
}

impl TextCache {
    const fn new() -> Self {
        Self([const { None }; MAX_TEXTS])
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if text.len() > MAX_TEXT_BYTES {
            return text.into();
        }
        let add = |hash: usize, byte: u8| hash.wrapping_mul(31).wrapping_add(byte.into());
        let slot = text.bytes().fold(0, add) % MAX_TEXTS;
        match &mut self.0[slot] {
            Some(known) if **known == *text => Arc::clone(known),
            other => Arc::clone(other.insert(text.into())),
        }
    }
}

impl<T: PartialEq + ?Sized> RecentValues<T> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: [const { None }; MAX_VALUES], next: 0 }
    }

    /// The value, or a recent equal one.
    pub fn shared(&mut self, value: Arc<T>) -> Arc<T> {
        let known = self.values.iter().flatten().find(|known| ***known == *value);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        self.values[self.next] = Some(Arc::clone(&value));
        self.next = (self.next + 1) % MAX_VALUES;
        value
    }
}

impl<T: PartialEq + ?Sized> Default for RecentValues<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_made_one_after_another_are_one() {
        let (first, second) = (text("spec.rules[0]"), text("spec.rules[0]"));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((&*text("spec.rules[1]"), &*text("")), ("spec.rules[1]", ""));
        for number in 0..1000 {
            assert_eq!(*text(&number.to_string()), number.to_string());
        }
        assert!(Arc::ptr_eq(&shared_namespace("shop"), &shared_namespace("shop")));
    }

    #[test]
    fn a_long_text_is_not_cached() {
        let (longest, longer) = ("x".repeat(MAX_TEXT_BYTES), "x".repeat(MAX_TEXT_BYTES + 1));
        assert!(Arc::ptr_eq(&text(&longest), &text(&longest)));
        assert!(*text(&longer) == *longer && !Arc::ptr_eq(&text(&longer), &text(&longer)));
    }

    #[test]
    fn the_last_few_values_are_shared_and_older_ones_evicted() {
        let mut recent = RecentValues::<[usize]>::new();
        let first = recent.shared([0].into());
        assert!(Arc::ptr_eq(&first, &recent.shared([0].into())));
        for number in 1..=MAX_VALUES {
            assert_eq!(*recent.shared([number].into()), [number]);
        }
        let again = recent.shared([0].into());
        assert!(*again == *first && !Arc::ptr_eq(&again, &first));
    }
}
