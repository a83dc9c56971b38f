//! Which objects an object references, and how many reference each. Counts names only; does not look at the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::object::{ObjectKey, ObjectRef};

/// The objects that an object references, existing or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferencedObjects {
    /// Services.
    pub services: BTreeSet<ObjectKey>,
    /// Secrets.
    pub secrets: BTreeSet<ObjectKey>,
    /// Secrets that are used as certificates.
    pub certificates: BTreeSet<ObjectKey>,
    /// ConfigMaps.
    pub config_maps: BTreeSet<ObjectKey>,
    /// Addresses, of Services or others.
    pub addresses: BTreeSet<IpAddr>,
}

/// Changes of the set of referenced objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceChanges {
    /// Newly referenced.
    pub gained: BTreeSet<ObjectRef>,
    /// No longer referenced.
    pub lost: BTreeSet<ObjectRef>,
}

/// The number of references to each object.
#[derive(Clone, Debug, Default)]
pub struct ReferenceCounts(BTreeMap<ObjectRef, usize>);

impl ReferenceCounts {
    /// Whether anything references it.
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.0.contains_key(object)
    }

    /// All referenced objects.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        self.0.keys()
    }

    /// Adds the references of one object.
    pub fn add(&mut self, named: &[ObjectRef], difference: &mut ReferenceChanges) {
        for object in named {
            let count = self.0.entry(object.clone()).or_default();
            *count += 1;
            if *count == 1 {
                difference.gained.insert(object.clone());
            }
        }
    }

    /// Removes the references of one object.
    pub fn remove(&mut self, named: &[ObjectRef], difference: &mut ReferenceChanges) {
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

impl ReferenceChanges {
    /// Cancels out objects that were removed by one and added by another.
    pub fn cancel_out(&mut self) {
        let both: Vec<_> = self.gained.intersection(&self.lost).cloned().collect();
        for object in both {
            self.gained.remove(&object);
            self.lost.remove(&object);
        }
    }
}
