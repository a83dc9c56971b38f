//! Texts and values that many objects have in common, kept once where they are made one after another: the name of a
//! namespace, the path of a field, the ports of a Service. Owns what a thread made last.

use std::cell::RefCell;
use std::sync::Arc;

/// Texts of each sort that a thread remembers.
const TEXTS: usize = 64;
/// Texts with more bytes are not remembered: the memory of a thread stays small, and few others are equal to them.
const LONGEST: usize = 256;
/// Values of a sort that are remembered.
const VALUES: usize = 8;

thread_local! {
    /// Names of namespaces, which names of objects must not displace.
    static NAMESPACES: RefCell<Texts> = const { RefCell::new(Texts::new()) };
    /// All other texts.
    static OTHERS: RefCell<Texts> = const { RefCell::new(Texts::new()) };
}

/// Texts, each at the place that a hash of it says.
struct Texts([Option<Arc<str>>; TEXTS]);

/// The values that were made last.
#[derive(Debug)]
pub struct Recent<T: ?Sized> {
    values: [Option<Arc<T>>; VALUES],
    /// Where the next one goes.
    next: usize,
}

/// The name of a namespace; names made one after another share it.
pub(crate) fn namespace(name: &str) -> Arc<str> {
    NAMESPACES.with_borrow_mut(|texts| texts.shared(name))
}

/// A text that others made a moment ago may be equal to; they share it then.
pub fn text(text: &str) -> Arc<str> {
    match text.is_empty() {
        true => Arc::default(),
        false => OTHERS.with_borrow_mut(|texts| texts.shared(text)),
    }
}

impl Texts {
    const fn new() -> Self {
        Self([const { None }; TEXTS])
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST {
            return text.into();
        }
        let add = |hash: usize, byte: u8| hash.wrapping_mul(31).wrapping_add(byte.into());
        let place = text.bytes().fold(0, add) % TEXTS;
        match &mut self.0[place] {
            Some(known) if **known == *text => Arc::clone(known),
            other => Arc::clone(other.insert(text.into())),
        }
    }
}

impl<T: PartialEq + ?Sized> Recent<T> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: [const { None }; VALUES], next: 0 }
    }

    /// The value, or one of the last few that is equal to it.
    pub fn shared(&mut self, value: Arc<T>) -> Arc<T> {
        let known = self.values.iter().flatten().find(|known| ***known == *value);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        self.values[self.next] = Some(Arc::clone(&value));
        self.next = (self.next + 1) % VALUES;
        value
    }
}

impl<T: PartialEq + ?Sized> Default for Recent<T> {
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
        assert!(Arc::ptr_eq(&namespace("shop"), &namespace("shop")));
    }

    #[test]
    fn a_long_text_is_not_remembered() {
        let (longest, longer) = ("x".repeat(LONGEST), "x".repeat(LONGEST + 1));
        assert!(Arc::ptr_eq(&text(&longest), &text(&longest)));
        assert!(*text(&longer) == *longer && !Arc::ptr_eq(&text(&longer), &text(&longer)));
    }

    #[test]
    fn the_last_few_values_are_shared_and_older_ones_forgotten() {
        let mut recent = Recent::<[usize]>::new();
        let first = recent.shared([0].into());
        assert!(Arc::ptr_eq(&first, &recent.shared([0].into())));
        for number in 1..=VALUES {
            assert_eq!(*recent.shared([number].into()), [number]);
        }
        let again = recent.shared([0].into());
        assert!(*again == *first && !Arc::ptr_eq(&again, &first));
    }
}
