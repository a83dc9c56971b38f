//! Pods, which are watched in namespaces with InferencePools only: they are many, change often, and are endpoints of nothing else.

use std::sync::Arc;

use fairway_objects::kinds::Kind;
use tokio::time::Instant;

use super::{Name, Tracker};
use crate::source::collection::{Collection, Watched};

const POOL: Watched = Watched::Objects(Kind::InferencePool);

impl Tracker {
    /// An object is known: Pods next to a pool are watched from the first one on.
    pub(super) fn watch_pods_of(&mut self, (kind, key): &Name) {
        if *kind == POOL {
            self.begin(Collection::within(Kind::Pod, &key.namespace));
        }
    }

    /// An object is gone: with the last pool of a namespace go its Pods.
    pub(super) fn forget_pods_of(&mut self, (kind, key): &Name, at: Instant) {
        if *kind == POOL && !self.has_pool_in(&key.namespace) {
            self.end(&Collection::within(Kind::Pod, &key.namespace), at);
        }
    }

    fn has_pool_in(&self, namespace: &Arc<str>) -> bool {
        self.entries.keys().any(|(kind, key)| *kind == POOL && key.namespace == *namespace)
    }
}
