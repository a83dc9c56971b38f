//! Whole objects of a collection, followed for whoever writes such objects himself. Owns what is there now; what translation reads
//! goes through the tracker instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairway_objects::kinds::Kind;
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use tokio::sync::{Semaphore, mpsc, watch};

use super::collection::{Collection, Watched};
use super::fault::Fault;
use super::probe::Alarm;
use super::trimmed::Content;
use super::watch::{Lists, Watch, WatchContext, WatchEvent, WatchId};

/// Reports that wait; a watch that is faster waits.
const WAITING: usize = 64;

/// A kind whose objects can be followed whole.
pub(crate) trait Whole: Sized + Send + Sync + 'static {
    /// The kind.
    const KIND: Kind;

    /// All objects of the kind, in the namespace if there is one.
    fn within(namespace: Option<&Arc<str>>) -> Collection {
        Collection { namespace: namespace.cloned(), ..Collection::all(Watched::Whole(Self::KIND)) }
    }

    /// The one object.
    fn one(key: &ObjectKey) -> Collection {
        Collection::one(Watched::Whole(Self::KIND), &key.namespace, &key.name)
    }
}

impl Whole for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
}

impl Whole for Pod {
    const KIND: Kind = Kind::Pod;
}

impl Whole for Secret {
    const KIND: Kind = Kind::Secret;
}

impl Whole for Service {
    const KIND: Kind = Kind::Service;
}

impl Whole for EndpointSlice {
    const KIND: Kind = Kind::EndpointSlice;
}

/// The objects of a collection as they are now: empty until the first list is complete, and never emptied by a failure.
#[derive(Debug)]
pub(crate) struct Followed<K>(Arc<Mutex<BTreeMap<ObjectKey, Arc<K>>>>);

/// What happened to them.
pub(crate) enum News {
    /// They are all there.
    Listed,
    /// One of them is new, different or gone.
    Changed,
    /// They may be out of date; it is tried again.
    Failed(Fault),
}

impl<K> Clone for Followed<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Followed<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Whole> Followed<K> {
    /// All of them.
    pub(crate) fn objects(&self) -> BTreeMap<ObjectKey, Arc<K>> {
        self.lock().clone()
    }

    /// Takes one out, for who keeps it elsewhere; the next change of it brings it back.
    pub(crate) fn take(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.lock().remove(key)
    }

    /// Follows the collection and tells what happens, until it is given up.
    pub(crate) async fn follow(self, client: Client, collection: Collection, mut tell: impl FnMut(News)) {
        let (reports, mut heard) = mpsc::channel(WAITING);
        let (_nothing_restarts_it, pulse) = watch::channel(0);
        let gate = Arc::new(Semaphore::new(1));
        let context =
            WatchContext { client, reports, pulse, alarm: Alarm::default(), gate, lists: Lists::Paged };
        let hear = async {
            // What a list has so far that is not complete.
            let mut list = None;
            while let Some(report) = heard.recv().await {
                match report.event {
                    WatchEvent::Began => list = Some(BTreeMap::new()),
                    WatchEvent::Set(item) => {
                        let Content::Whole(object) = item.content else { continue };
                        let Ok(object) = object.downcast::<K>() else { continue };
                        match &mut list {
                            Some(list) => _ = list.insert(item.key, object),
                            None => {
                                self.lock().insert(item.key, object);
                                tell(News::Changed);
                            }
                        }
                    }
                    WatchEvent::Gone(item) => match &mut list {
                        Some(list) => _ = list.remove(&item.key),
                        None => {
                            self.lock().remove(&item.key);
                            tell(News::Changed);
                        }
                    },
                    WatchEvent::Complete(_) => {
                        *self.lock() = list.take().unwrap_or_default();
                        tell(News::Listed);
                    }
                    WatchEvent::Failed(fault) => {
                        list = None;
                        tell(News::Failed(fault));
                    }
                    WatchEvent::InStep | WatchEvent::Offered(_) | WatchEvent::Fetched(..) => {}
                }
            }
        };
        tokio::join!(Watch::new(context, WatchId(0), collection).run(), hear);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        // Only whole objects are ever put in, so that a panic elsewhere leaves a good map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
