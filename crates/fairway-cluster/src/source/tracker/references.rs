//! The objects that served Ingresses reference: one watch per kind and namespace, as long as a reference exists.

use fairway_objects::kinds::NamedObjects;
use fairway_objects::object::{Kind, Object, ObjectRef};
use fairway_objects::references::ReferenceChanges;
use fairway_objects::resources::Change;
use tokio::time::Instant;

use super::{Action, Progress, Tracker, WatchedName};
use crate::source::collection::{Collection, WatchedKind};
use crate::source::stage::WatchStage;
use crate::source::watch::WatchId;

impl Tracker {
    /// Records an object's references; returns those that are unknown and must be known before the object is sent.
    pub(super) fn update_references(&mut self, object: &Object, reference: &ObjectRef) -> Vec<ObjectRef> {
        let Some(difference) = self.references.set(reference, Some(object)) else { return Vec::new() };
        let gained: Vec<_> = difference.gained.iter().cloned().collect();
        self.follow_references(difference);
        let named = match object {
            Object::Ingress(_) => self.references.references_of(&reference.key).cloned().collect(),
            Object::ConfigMap(_) => self.references.of_config_map(&reference.key).cloned().collect(),
            // References it had before are known, or it waits for them.
            _ => gained.into_iter().chain(self.held_changes.missing(reference).iter().cloned()).collect(),
        };
        self.unknown_among(named)
    }

    /// The object is gone, and so are its references.
    pub(super) fn forget_references(&mut self, object: &ObjectRef) {
        if let Some(difference) = self.references.set(object, None) {
            self.follow_references(difference);
        }
    }

    /// Whether only referenced objects are kept from this watch.
    pub(super) fn is_by_reference(&self, id: WatchId) -> bool {
        self.watches.get(&id).is_some_and(|watch| {
            let Collection { kind, name, .. } = &watch.collection;
            name.is_none() && matches!(kind, WatchedKind::Objects(Kind::Secret | Kind::ConfigMap))
        })
    }

    /// Looks up new references, and records those that ended.
    pub(super) fn follow_references(&mut self, difference: ReferenceChanges) {
        for object in difference.gained {
            self.unnamed.remove(&object);
            self.look_up(object);
        }
        self.unnamed.extend(difference.lost);
    }

    /// A kept object is known. One that a complete list skipped must be fetched; one that a running list may have skipped is
    /// looked up when the list completes.
    fn look_up(&mut self, object: ObjectRef) {
        let Some(name) = watched_name(&object) else { return };
        if self.named.contains(&name) || self.entries.contains_key(&name) {
            return;
        }
        let id = self.ensure_watch(Collection::within(name.0, &name.1.namespace));
        let Some(watch) = self.watches.get(&id) else { return };
        if watch.listed && !watch.stage.is_permanent() {
            self.request_fetch(id, object);
        } else if watch.round > 0 {
            self.passed_over.insert(object);
        }
    }

    fn request_fetch(&mut self, id: WatchId, object: ObjectRef) {
        let Some((kind, key)) = watched_name(&object) else { return };
        if self.fetching.insert(object.clone()) {
            let collection = Collection::one(kind, &key.namespace, &key.name);
            self.outbox.actions.push(Action::Fetch(id, collection, object));
        }
    }

    /// The first list of a watch is complete: fetches what was referenced after the list had started.
    pub(super) fn look_up_skipped(&mut self, id: WatchId) {
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
                self.look_up(object);
            }
        }
    }

    /// Fetches everything that is referenced in the scope of a watch and not kept.
    pub(super) fn look_up_all(&mut self, id: WatchId) {
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
            self.look_up(object);
        }
    }

    /// Whether the references into this watch's scope are not known yet: its list would skip most objects.
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
            decides && watch.stage == WatchStage::Listing
        })
    }

    /// Starts watches that waited for lists that are now complete or have failed.
    pub(super) fn start_waiting_watches(&mut self) {
        let waiting =
            |(id, watch): (&WatchId, &Progress)| (watch.stage == WatchStage::Waiting).then_some(*id);
        let ids: Vec<_> = self.watches.iter().filter_map(waiting).collect();
        for id in ids {
            if !self.must_wait(id) {
                self.start_watch(id);
            }
        }
    }

    /// The objects of which it is unknown whether they exist.
    pub(super) fn unknown_among(&self, named: Vec<ObjectRef>) -> Vec<ObjectRef> {
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
        let settled = watch.is_none_or(|watch| watch.listed || watch.stage.is_permanent());
        settled && !self.fetching.contains(object)
    }

    /// Sends held changes whose references are known, or that waited long enough.
    pub(super) fn release_held(&mut self, now: Instant) {
        let mut held_changes = std::mem::take(&mut self.held_changes);
        for (change, heard) in held_changes.release(now, |object| self.is_known(object)) {
            self.outbox.push_change(change, heard);
        }
        self.held_changes = held_changes;
    }

    /// Forgets objects that are no longer referenced. While an Ingress is held, its earlier state is served and needs its earlier
    /// references.
    pub(super) fn forget_unreferenced(&mut self, now: Instant) {
        if self.unnamed.is_empty() || !self.held_changes.is_empty() {
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
                self.outbox.push_change(Change::Remove(object.clone()), now);
            }
            let beside =
                |other: &ObjectRef| other.kind == object.kind && other.key.namespace == object.key.namespace;
            if !self.references.iter().any(beside) {
                self.end_watch(&Collection::within(name.0, &name.1.namespace), now);
            }
        }
    }
}

fn watched_name(object: &ObjectRef) -> Option<WatchedName> {
    let is_named = matches!(object.kind, Kind::Secret | Kind::ConfigMap);
    is_named.then(|| (object.kind.into(), object.key.clone()))
}
