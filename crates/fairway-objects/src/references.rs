//! Which objects an object names, and how many name one. Owns counts and sets of names; never an object, and never a
//! judgement about what is named.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::object::{ObjectKey, ObjectRef};

/// What an object refers to, whether it exists or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referenced {
    /// Services.
    pub services: BTreeSet<ObjectKey>,
    /// Secrets.
    pub secrets: BTreeSet<ObjectKey>,
    /// Those Secrets whose certificate is used.
    pub certificates: BTreeSet<ObjectKey>,
    /// ConfigMaps.
    pub config_maps: BTreeSet<ObjectKey>,
    /// Addresses, of Services or of anything else.
    pub addresses: BTreeSet<IpAddr>,
}

/// What changed for the named objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Named from now on.
    pub gained: BTreeSet<ObjectRef>,
    /// Named no longer.
    pub lost: BTreeSet<ObjectRef>,
}

/// How many objects name an object.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<ObjectRef, usize>);

impl Counts {
    /// Whether anything names it.
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.0.contains_key(object)
    }

    /// All that are named.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        self.0.keys()
    }

    /// One more object names these.
    pub fn add(&mut self, named: &[ObjectRef], difference: &mut Difference) {
        for object in named {
            let count = self.0.entry(object.clone()).or_default();
            *count += 1;
            if *count == 1 {
                difference.gained.insert(object.clone());
            }
        }
    }

    /// One object fewer names these.
    pub fn remove(&mut self, named: &[ObjectRef], difference: &mut Difference) {
        for object in named {
            let Some(count) = self.0.get_mut(object) else { continue };
            *count -= 1;
            if *count == 0 {
                self.0.remove(object);
                difference.lost.insert(object.clone());
            }
        }
    }
}

impl Difference {
    /// What was lost by one and gained by another was named all the time.
    pub fn settle(&mut self) {
        let both: Vec<_> = self.gained.intersection(&self.lost).cloned().collect();
        for object in both {
            self.gained.remove(&object);
            self.lost.remove(&object);
        }
    }
}
