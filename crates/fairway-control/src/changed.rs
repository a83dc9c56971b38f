//! Which objects changed from one configuration to the next, a few of them by name.

use fairway_objects::object::{Kind, ObjectRef};

/// How many objects are named.
const MAX_NAMES: usize = 8;

/// The objects that changed since the previous configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedObjects {
    /// At most eight of them: those that people write come before endpoints.
    pub named: Vec<ObjectRef>,
    /// How many others changed.
    pub omitted: usize,
}

impl ChangedObjects {
    /// From all changed objects.
    pub(crate) fn from_changed(changed: &[ObjectRef]) -> Self {
        let is_minor =
            |object: &ObjectRef| matches!(object.kind, Kind::EndpointSlice | Kind::Pod | Kind::Resolved);
        let mut distinct: Vec<_> = changed.iter().map(|object| (is_minor(object), object)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let named: Vec<_> = distinct.iter().take(MAX_NAMES).map(|(_, object)| (*object).clone()).collect();
        Self { omitted: distinct.len() - named.len(), named }
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
        let changes = ChangedObjects::from_changed(&changed);
        assert_eq!((changes.named.len(), changes.omitted), (8, 2));
        assert_eq!(changes.named[0], object(Kind::Ingress, "web"));
        assert_eq!(changes.named[1], object(Kind::EndpointSlice, "web-0"));
        assert_eq!(ChangedObjects::from_changed(&[]), ChangedObjects::default());
    }
}
