//! The objects that both controllers serve, as the caller has read and translated them.

use std::collections::BTreeMap;

use fairway_ingress::Translation;
use fairway_model::Config;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::resources::Change;
use fairway_routing::Snapshot;

/// The objects and their translation.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'o> {
    /// The compiled configuration, which finds the rule of a probe.
    pub snapshot: &'o Snapshot,
    /// The translation, with the Ingresses of each host.
    pub translation: &'o Translation,
    /// The diagnostics of all objects.
    pub diagnostics: &'o [Diagnostic],
    /// The annotations.
    pub annotated: &'o Annotated,
    /// The prefix of annotations.
    pub prefix: &'o str,
    /// `NAMESPACE/NAME` of the settings ConfigMap.
    pub settings: Option<&'o str>,
}

impl<'o> Objects<'o> {
    pub(crate) fn config(&self) -> &'o Config {
        self.snapshot.config()
    }

    /// The diagnostics of an object.
    pub(crate) fn diagnostics_of(&self, kind: &str, key: &ObjectKey) -> impl Iterator<Item = &'o Diagnostic> {
        let (kind, key) = (kind.to_owned(), key.clone());
        self.diagnostics.iter().filter(move |it| {
            *it.origin.kind == *kind && it.origin.namespace == key.namespace && it.origin.name == key.name
        })
    }
}

/// The Ingresses with their annotations.
#[derive(Clone, Debug, Default)]
pub struct Annotated(BTreeMap<ObjectKey, Object>);

impl Annotated {
    /// The Ingresses among the objects that were read.
    #[must_use]
    pub fn among(changes: &[Change]) -> Self {
        let ingresses = changes.iter().filter_map(|change| match change {
            Change::Set(object @ Object::Ingress(ingress), _) => {
                Some((ObjectKey::from_metadata(&ingress.metadata), object.clone()))
            }
            _ => None,
        });
        Self(ingresses.collect())
    }

    /// The annotations of an Ingress.
    pub(crate) fn annotations_of(&self, key: &ObjectKey) -> Option<&BTreeMap<String, String>> {
        match self.0.get(key) {
            Some(Object::Ingress(ingress)) => ingress.metadata.annotations.as_ref(),
            _ => None,
        }
    }

    /// The Ingresses that differ in `later` or exist in only one of the two. Changes of the status are ignored.
    #[must_use]
    pub fn changed_until(&self, later: &Self) -> Vec<ObjectKey> {
        let gone_or_other = self
            .0
            .iter()
            .filter(|(key, object)| !later.0.get(key).is_some_and(|later| asks_the_same(object, later)));
        let new = later.0.keys().filter(|key| !self.0.contains_key(key));
        let mut changed: Vec<_> = gone_or_other.map(|(key, _)| key).chain(new).cloned().collect();
        changed.sort();
        changed
    }
}

fn asks_the_same(left: &Object, right: &Object) -> bool {
    match (left, right) {
        (Object::Ingress(one), Object::Ingress(right)) => {
            one.metadata.annotations == right.metadata.annotations && one.spec == right.spec
        }
        _ => false,
    }
}
