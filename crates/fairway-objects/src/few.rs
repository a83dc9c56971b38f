//! An ordered set that stores a single member inline: most sets have one. A persistent set allocates a node for sixteen members,
//! which would be most of the memory per host, Service or route.

use imbl::OrdSet;

/// An ordered set, small while it has at most one member. Clones are cheap.
#[derive(Clone, Debug)]
pub struct SmallSet<V: Ord>(Members<V>);

#[derive(Clone, Debug)]
enum Members<V: Ord> {
    None,
    One(V),
    /// At least two members, or what is left of them.
    More(OrdSet<V>),
}

impl<V: Ord> Default for SmallSet<V> {
    fn default() -> Self {
        Self(Members::None)
    }
}

impl<V: Ord> SmallSet<V> {
    /// The set with this member.
    pub fn single(member: V) -> Self {
        Self(Members::One(member))
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Members::None => 0,
            Members::One(_) => 1,
            Members::More(more) => more.len(),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        let (one, more) = match &self.0 {
            Members::None => (None, None),
            Members::One(one) => (Some(one), None),
            Members::More(more) => (None, Some(more)),
        };
        one.into_iter().chain(more.into_iter().flatten())
    }
}

impl<V: Ord + Clone> SmallSet<V> {
    /// Adds a member; returns whether it is new.
    pub fn insert(&mut self, member: V) -> bool {
        match &mut self.0 {
            Members::None => self.0 = Members::One(member),
            Members::One(one) if *one == member => return false,
            Members::One(one) => self.0 = Members::More([one.clone(), member].into_iter().collect()),
            Members::More(more) => return more.insert(member).is_none(),
        }
        true
    }

    /// Removes a member; returns whether it was present.
    pub fn remove(&mut self, member: &V) -> bool {
        let removed = match &mut self.0 {
            Members::None => false,
            Members::One(one) => *one == *member,
            Members::More(more) => more.remove(member).is_some(),
        };
        match &self.0 {
            Members::One(_) if removed => self.0 = Members::None,
            Members::More(more) if more.len() < 2 => {
                self.0 = more.get_min().cloned().map_or(Members::None, Members::One);
            }
            _ => {}
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn behaves_like_a_set_whatever_its_size() {
        let (mut few, mut set) = (SmallSet::default(), BTreeSet::new());
        // Up and down again, with duplicates and missing members.
        let edits = (0..40).chain((0..40).rev()).chain([7, 7, 8]);
        for (turn, member) in edits.enumerate() {
            let member = member % 20;
            match turn < 40 {
                true => assert_eq!(few.insert(member), set.insert(member)),
                false => assert_eq!(few.remove(&member), set.remove(&member)),
            }
            assert_eq!((few.len(), few.is_empty()), (set.len(), set.is_empty()));
            assert!(few.iter().eq(&set), "{few:?} {set:?}");
        }
        assert!(set.is_empty());
    }

    #[test]
    fn a_copy_does_not_change() {
        let mut few = SmallSet::single("a");
        let copy = few.clone();
        assert!(!few.insert("a") && few.insert("b"));
        assert!(copy.iter().eq(&["a"]) && few.iter().eq(&["a", "b"]));
        assert!(few.remove(&"a") && !few.remove(&"a") && few.iter().eq(&["b"]));
    }
}
