//! Keeps complete objects of a collection up to date, for components that write such objects. What translation reads goes through
//! the tracker instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairway_objects::kinds::Kind;
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};

use super::collection::{Collection, WatchedKind};
use super::fault::Fault;
use super::probe::ProbeTrigger;
use super::trimmed::Content;
use super::watch::{Lists, Watch, WatchContext, WatchEvent, WatchId};

/// Reports in the queue; a faster watch waits.
const REPORT_QUEUE_SIZE: usize = 64;

/// A kind whose complete objects can be watched.
pub(crate) trait FullObject: Sized + Send + Sync + 'static {
    /// The kind.
    const KIND: Kind;

    /// All objects of the kind, optionally in one namespace.
    fn within(namespace: Option<&Arc<str>>) -> Collection {
        Collection { namespace: namespace.cloned(), ..Collection::all(WatchedKind::Full(Self::KIND)) }
    }

    /// One object.
    fn one(key: &ObjectKey) -> Collection {
        Collection::one(WatchedKind::Full(Self::KIND), &key.namespace, &key.name)
    }
}

impl FullObject for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
}

impl FullObject for Pod {
    const KIND: Kind = Kind::Pod;
}

impl FullObject for Secret {
    const KIND: Kind = Kind::Secret;
}

impl FullObject for Service {
    const KIND: Kind = Kind::Service;
}

impl FullObject for EndpointSlice {
    const KIND: Kind = Kind::EndpointSlice;
}

/// The current objects of a collection: empty until the first list is complete, and never emptied by a failure.
#[derive(Debug)]
pub(crate) struct ObjectStore<K>(Arc<Mutex<BTreeMap<ObjectKey, Arc<K>>>>);

/// A change of an [`ObjectStore`].
pub(crate) enum StoreEvent {
    /// The list is complete.
    Listed,
    /// An object was added, changed or removed.
    Changed,
    /// The objects may be stale; retrying.
    Failed(Fault),
}

impl<K> Clone for ObjectStore<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for ObjectStore<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: FullObject> ObjectStore<K> {
    /// All objects.
    pub(crate) fn snapshot(&self) -> BTreeMap<ObjectKey, Arc<K>> {
        self.lock().clone()
    }

    /// Removes an object, for a caller that keeps it elsewhere; its next change adds it again.
    pub(crate) fn remove(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.lock().remove(key)
    }

    /// Watches the collection and reports changes until the future is dropped.
    pub(crate) async fn run(self, client: Client, collection: Collection, mut tell: impl FnMut(StoreEvent)) {
        let (reports, mut heard) = mpsc::channel(REPORT_QUEUE_SIZE);
        let (_nothing_restarts_it, pulse) = watch::channel(0);
        let gate = Arc::new(Semaphore::new(1));
        let context = WatchContext {
            client,
            reports,
            pulse,
            alarm: ProbeTrigger::default(),
            gate,
            lists: Lists::Paged,
        };
        let hear = async {
            // The objects of a list that is not complete yet.
            let mut list = None;
            while let Some(report) = heard.recv().await {
                match report.event {
                    WatchEvent::ListStarted => list = Some(BTreeMap::new()),
                    WatchEvent::Set(item) => {
                        let Content::Full(object) = item.content else { continue };
                        let Ok(object) = object.downcast::<K>() else { continue };
                        match &mut list {
                            Some(list) => _ = list.insert(item.key, object),
                            None => {
                                self.lock().insert(item.key, object);
                                tell(StoreEvent::Changed);
                            }
                        }
                    }
                    WatchEvent::Gone(item) => match &mut list {
                        Some(list) => _ = list.remove(&item.key),
                        None => {
                            self.lock().remove(&item.key);
                            tell(StoreEvent::Changed);
                        }
                    },
                    WatchEvent::ListCompleted(_) => {
                        *self.lock() = list.take().unwrap_or_default();
                        tell(StoreEvent::Listed);
                    }
                    WatchEvent::Failed(fault) => {
                        list = None;
                        tell(StoreEvent::Failed(fault));
                    }
                    WatchEvent::Synced | WatchEvent::Offered(_) | WatchEvent::Fetched(..) => {}
                }
            }
        };
        tokio::join!(Watch::new(context, WatchId(0), collection).run(), hear);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        // Only complete objects are stored, so a panic elsewhere leaves a valid map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
