//! Pods are watched only in namespaces with InferencePools: they are many, change often, and are endpoints of nothing else.

use std::sync::Arc;

use fairway_objects::kinds::Kind;
use tokio::time::Instant;

use super::{Tracker, WatchedName};
use crate::source::collection::{Collection, WatchedKind};

const POOL_KIND: WatchedKind = WatchedKind::Objects(Kind::InferencePool);

impl Tracker {
    /// An object was added: the first pool of a namespace starts the watch of its Pods.
    pub(super) fn watch_pods_of(&mut self, (kind, key): &WatchedName) {
        if *kind == POOL_KIND {
            self.ensure_watch(Collection::within(Kind::Pod, &key.namespace));
        }
    }

    /// An object was removed: the last pool of a namespace ends the watch of its Pods.
    pub(super) fn forget_pods_of(&mut self, (kind, key): &WatchedName, at: Instant) {
        if *kind == POOL_KIND && !self.has_pool_in(&key.namespace) {
            self.end_watch(&Collection::within(Kind::Pod, &key.namespace), at);
        }
    }

    fn has_pool_in(&self, namespace: &Arc<str>) -> bool {
        self.entries.keys().any(|(kind, key)| *kind == POOL_KIND && key.namespace == *namespace)
    }
}
