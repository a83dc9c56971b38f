//! What served Ingresses name: one watch for each kind and namespace that something is named in, as long as it is.

use fairway_objects::kinds::NamedObjects;
use fairway_objects::object::{Kind, Object, ObjectRef};
use fairway_objects::references::Difference;
use fairway_objects::resources::Change;
use tokio::time::Instant;

use super::{Action, Name, Progress, Tracker};
use crate::source::collection::{Collection, Watched};
use crate::source::stage::Stage;
use crate::source::watch::WatchId;

impl Tracker {
    /// Takes what an object names; of that, what is not known yet and must be before the object is passed on.
    pub(super) fn named_and_unknown(&mut self, object: &Object, reference: &ObjectRef) -> Vec<ObjectRef> {
        let Some(difference) = self.references.set(reference, Some(object)) else { return Vec::new() };
        let gained: Vec<_> = difference.gained.iter().cloned().collect();
        self.follow_references(difference);
        let named = match object {
            Object::Ingress(_) => self.references.of(&reference.key).cloned().collect(),
            Object::ConfigMap(_) => self.references.of_config_map(&reference.key).cloned().collect(),
            // What it named before is known, or it waits for it.
            _ => gained.into_iter().chain(self.held.missing(reference).iter().cloned()).collect(),
        };
        self.unknown(named)
    }

    /// The object is gone: it names nothing any more.
    pub(super) fn forget_naming(&mut self, object: &ObjectRef) {
        if let Some(difference) = self.references.set(object, None) {
            self.follow_references(difference);
        }
    }

    /// Whether only named objects are taken from this watch.
    pub(super) fn is_by_reference(&self, id: WatchId) -> bool {
        self.watches.get(&id).is_some_and(|watch| {
            let Collection { kind, name, .. } = &watch.collection;
            name.is_none() && matches!(kind, Watched::Objects(Kind::Secret | Kind::ConfigMap))
        })
    }

    /// Begins to look for what is named now, and notes what no longer is.
    pub(super) fn follow_references(&mut self, difference: Difference) {
        for object in difference.gained {
            self.unnamed.remove(&object);
            self.seek(object);
        }
        self.unnamed.extend(difference.lost);
    }

    /// An object that was kept is known; one that a complete list passed over must be asked for, and one that may have
    /// been passed over by a list on its way is looked for when that is complete.
    fn seek(&mut self, object: ObjectRef) {
        let Some(name) = watched_name(&object) else { return };
        if self.named.contains(&name) || self.entries.contains_key(&name) {
            return;
        }
        let id = self.begin(Collection::within(name.0, &name.1.namespace));
        let Some(watch) = self.watches.get(&id) else { return };
        if watch.listed && !watch.stage.is_definite() {
            self.fetch(id, object);
        } else if watch.round > 0 {
            self.passed_over.insert(object);
        }
    }

    fn fetch(&mut self, id: WatchId, object: ObjectRef) {
        let Some((kind, key)) = watched_name(&object) else { return };
        if self.fetching.insert(object.clone()) {
            let one = Collection::one(kind, &key.namespace, &key.name);
            self.outbox.actions.push(Action::Fetch(id, one, object));
        }
    }

    /// The first list of a watch is complete: asks for what was named only after the list had begun.
    pub(super) fn seek_passed_over(&mut self, id: WatchId) {
        let Some(watch) = self.watches.get(&id) else { return };
        let (kind, namespace) = (watch.collection.kind.kind(), watch.collection.namespace.clone());
        if !self.is_by_reference(id) {
            return;
        }
        let of_this = |object: &ObjectRef| {
            Some(object.kind) == kind && Some(&object.key.namespace) == namespace.as_ref()
        };
        let objects: Vec<_> = self.passed_over.iter().filter(|object| of_this(object)).cloned().collect();
        for object in objects {
            self.passed_over.remove(&object);
            if self.references.contains(&object) {
                self.seek(object);
            }
        }
    }

    /// Asks for everything that is named where a watch looks and that is not kept.
    pub(super) fn seek_all(&mut self, id: WatchId) {
        let Some(watch) = self.watches.get(&id) else { return };
        let (kind, namespace) = (watch.collection.kind.kind(), watch.collection.namespace.clone());
        if !self.is_by_reference(id) {
            return;
        }
        let of_this = |object: &&ObjectRef| {
            Some(object.kind) == kind && Some(&object.key.namespace) == namespace.as_ref()
        };
        let objects: Vec<_> = self.references.iter().filter(of_this).cloned().collect();
        for object in objects {
            self.seek(object);
        }
    }

    /// Whether it is not yet clear what will be named where this watch looks: its list would pass over most of it.
    pub(super) fn must_wait(&self, id: WatchId) -> bool {
        if !self.is_by_reference(id) {
            return false;
        }
        let namespace = self.watches.get(&id).and_then(|watch| watch.collection.namespace.as_ref());
        self.watches.values().any(|watch| {
            let Collection { kind, namespace: place, .. } = &watch.collection;
            let decides = match kind.kind().and_then(Kind::api).map(|known| known.names) {
                None | Some(NamedObjects::Nowhere) => false,
                Some(NamedObjects::Nearby) => place.is_none() || place.as_ref() == namespace,
                Some(NamedObjects::Anywhere) => true,
            };
            decides && watch.stage == Stage::Listing
        })
    }

    /// Begins the watches that waited for lists that are complete, or have failed.
    pub(super) fn end_waiting(&mut self) {
        let waiting = |(id, watch): (&WatchId, &Progress)| (watch.stage == Stage::Waiting).then_some(*id);
        let ids: Vec<_> = self.watches.iter().filter_map(waiting).collect();
        for id in ids {
            if !self.must_wait(id) {
                self.start_watch(id);
            }
        }
    }

    /// Those of which it is not yet known whether they exist.
    pub(super) fn unknown(&self, named: Vec<ObjectRef>) -> Vec<ObjectRef> {
        named.into_iter().filter(|object| !self.is_known(object)).collect()
    }

    fn is_known(&self, object: &ObjectRef) -> bool {
        let Some(name) = watched_name(object) else { return true };
        if self.entries.contains_key(&name) {
            return true;
        }
        let collection = if self.named.contains(&name) {
            Collection::one(name.0, &name.1.namespace, &name.1.name)
        } else {
            Collection::within(name.0, &name.1.namespace)
        };
        let watch = self.ids.get(&collection).and_then(|id| self.watches.get(id));
        let settled = watch.is_none_or(|watch| watch.listed || watch.stage.is_definite());
        settled && !self.fetching.contains(object)
    }

    /// Passes on what waited for something that is known by now, or waited long enough.
    pub(super) fn release(&mut self, now: Instant) {
        let mut held = std::mem::take(&mut self.held);
        for (change, heard) in held.release(now, |object| self.is_known(object)) {
            self.outbox.say(change, heard);
        }
        self.held = held;
    }

    /// Forgets what nothing names any more. While an Ingress is held, its earlier state is served and names what it
    /// named then.
    pub(super) fn forget_unnamed(&mut self, now: Instant) {
        if self.unnamed.is_empty() || !self.held.is_empty() {
            return;
        }
        for object in std::mem::take(&mut self.unnamed) {
            let Some(name) = watched_name(&object) else { continue };
            if self.references.contains(&object) || self.named.contains(&name) {
                continue;
            }
            self.fetching.remove(&object);
            self.passed_over.remove(&object);
            if self.entries.remove(&name).is_some() {
                self.outbox.say(Change::Remove(object.clone()), now);
            }
            let beside =
                |other: &ObjectRef| other.kind == object.kind && other.key.namespace == object.key.namespace;
            if !self.references.iter().any(beside) {
                self.end(&Collection::within(name.0, &name.1.namespace), now);
            }
        }
    }
}

fn watched_name(object: &ObjectRef) -> Option<Name> {
    let is_named = matches!(object.kind, Kind::Secret | Kind::ConfigMap);
    is_named.then(|| (object.kind.into(), object.key.clone()))
}
