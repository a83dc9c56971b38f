//! Which objects a configuration differs in from the one before: few of them by name. Compares nothing.

use fairway_objects::object::{Kind, ObjectRef};

/// How many objects are named.
const MAX_NAMES: usize = 8;

/// The objects that a configuration differs in from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedObjects {
    /// Some of them, at most eight: those that people write come before endpoints.
    pub named: Vec<ObjectRef>,
    /// How many others there are.
    pub more: usize,
}

impl ChangedObjects {
    /// Of all that were told to have changed.
    pub(crate) fn of(changed: &[ObjectRef]) -> Self {
        let is_minor =
            |object: &ObjectRef| matches!(object.kind, Kind::EndpointSlice | Kind::Pod | Kind::Resolved);
        let mut distinct: Vec<_> = changed.iter().map(|object| (is_minor(object), object)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let named: Vec<_> = distinct.iter().take(MAX_NAMES).map(|(_, object)| (*object).clone()).collect();
        Self { more: distinct.len() - named.len(), named }
    }
}

#[cfg(test)]
mod tests {
    use fairway_objects::object::ObjectKey;

    use super::*;

    #[test]
    fn objects_that_people_write_are_named_first_and_each_once() {
        let object = |kind, name: &str| ObjectRef { kind, key: ObjectKey::new("shop", name) };
        let slices = (0..9).map(|number| object(Kind::EndpointSlice, &format!("web-{number}")));
        let mut changed: Vec<_> = slices.collect();
        changed.extend([object(Kind::Ingress, "web"), object(Kind::Ingress, "web")]);
        let changes = ChangedObjects::of(&changed);
        assert_eq!((changes.named.len(), changes.more), (8, 2));
        assert_eq!(changes.named[0], object(Kind::Ingress, "web"));
        assert_eq!(changes.named[1], object(Kind::EndpointSlice, "web-0"));
        assert_eq!(ChangedObjects::of(&[]), ChangedObjects::default());
    }
}
