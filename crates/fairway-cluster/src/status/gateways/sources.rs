//! Watches the objects that Gateways need, separately from the tracker, because only their writer needs them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairway_gateway::fleet::names::{
    GATEWAY_LABEL, MANAGED_BY, MANAGED_BY_FAIRWAY, SERVICE_LABEL, SLICE_MANAGED_BY, SLICE_MANAGER,
};
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::source::Namespaces;
use crate::source::collection::Collection;
use crate::source::fault::Fault;
use crate::source::object_store::{FullObject, ObjectStore, StoreEvent};
use crate::status::permission::{RefusedPermissions, RequiredPermission};

const CONSEQUENCE: &str = "Gateways have no addresses";

/// The watched objects.
pub(super) struct GatewaySources {
    list: ObjectStore<ConfigMap>,
    services: Vec<ObjectStore<Service>>,
    slices: Vec<ObjectStore<EndpointSlice>>,
    pods: ObjectStore<EndpointSlice>,
    /// Lists that are not complete yet.
    missing: Arc<AtomicUsize>,
    refused: Arc<AtomicBool>,
    /// Notified on every change.
    pub(super) bell: Arc<Notify>,
    _watches: JoinSet<()>,
}

/// What to watch.
pub(super) struct SourceKeys<'a> {
    /// The port list.
    pub(super) list: &'a ObjectKey,
    /// The Service of Fairway's pods.
    pub(super) pods: &'a ObjectKey,
    /// The namespaces in which Gateways are served.
    pub(super) namespaces: &'a Namespaces,
}

/// Starts the watches.
struct Follower {
    client: Client,
    refusals: Arc<RefusedPermissions>,
    missing: Arc<AtomicUsize>,
    refused: Arc<AtomicBool>,
    bell: Arc<Notify>,
    watches: JoinSet<()>,
}

impl GatewaySources {
    pub(super) fn follow(client: Client, refusals: Arc<RefusedPermissions>, keys: &SourceKeys<'_>) -> Self {
        let (missing, bell) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let (refused, watches) = (Arc::<AtomicBool>::default(), JoinSet::new());
        let mut follower = Follower {
            client,
            refusals,
            missing: missing.clone(),
            refused: refused.clone(),
            bell: bell.clone(),
            watches,
        };
        let labelled = |labels: String| Some(Arc::<str>::from(labels));
        let list = follower.follow(ConfigMap::one(keys.list));
        let of_pods = labelled(format!("{SERVICE_LABEL}={}", keys.pods.name));
        let pods = EndpointSlice::within(Some(&keys.pods.namespace));
        let pods = follower.follow(Collection { labels: of_pods, ..pods });
        let namespaces: Vec<_> = match keys.namespaces {
            Namespaces::Listed(names) => names.iter().map(Some).collect(),
            Namespaces::All | Namespaces::Labelled(_) => vec![None],
        };
        let (mut services, mut copies) = (Vec::new(), Vec::new());
        for namespace in namespaces {
            let labels = labelled(format!("{MANAGED_BY}={MANAGED_BY_FAIRWAY},{GATEWAY_LABEL}"));
            services.push(follower.follow(Collection { labels, ..Service::within(namespace) }));
            let labels = labelled(format!("{SLICE_MANAGED_BY}={SLICE_MANAGER}"));
            copies.push(follower.follow(Collection { labels, ..EndpointSlice::within(namespace) }));
        }
        Self { list, services, slices: copies, pods, missing, refused, bell, _watches: follower.watches }
    }

    /// Whether every list was completed once.
    pub(super) fn are_listed(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Whether some of it may not be read.
    pub(super) fn are_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// The port list, if it exists.
    pub(super) fn port_list(&self) -> Option<Arc<ConfigMap>> {
        self.list.snapshot().into_values().next()
    }

    /// The Services of Gateways.
    pub(super) fn services(&self) -> BTreeMap<ObjectKey, Arc<Service>> {
        merge_stores(&self.services)
    }

    /// The EndpointSlices of these Services.
    pub(super) fn slices(&self) -> BTreeMap<ObjectKey, Arc<EndpointSlice>> {
        merge_stores(&self.slices)
    }

    /// The EndpointSlices of Fairway's pods.
    pub(super) fn pod_slices(&self) -> Vec<Arc<EndpointSlice>> {
        self.pods.snapshot().into_values().collect()
    }
}

fn merge_stores<K: FullObject>(followed: &[ObjectStore<K>]) -> BTreeMap<ObjectKey, Arc<K>> {
    followed.iter().flat_map(ObjectStore::snapshot).collect()
}

impl Follower {
    fn follow<K: FullObject>(&mut self, collection: Collection) -> ObjectStore<K> {
        let permit = RequiredPermission {
            verb: "list and watch",
            resource: collection.resource().into(),
            namespace: collection.namespace.clone().unwrap_or_default(),
            lost: CONSEQUENCE,
        };
        let (missing, bell, refusals) = (self.missing.clone(), self.bell.clone(), self.refusals.clone());
        let refused = self.refused.clone();
        missing.fetch_add(1, Ordering::AcqRel);
        let mut listed = false;
        let followed = ObjectStore::default();
        self.watches.spawn(followed.clone().run(self.client.clone(), collection, move |news| match news {
            StoreEvent::Listed | StoreEvent::Changed => {
                if !std::mem::replace(&mut listed, true) {
                    missing.fetch_sub(1, Ordering::AcqRel);
                }
                refusals.record_grant(&permit);
                bell.notify_one();
            }
            StoreEvent::Failed(fault) => {
                refusals.check_watch(&permit, &fault);
                log_fault(&permit.resource, &fault);
                if matches!(fault, Fault::Denied(_)) && !refused.swap(true, Ordering::AcqRel) {
                    bell.notify_one();
                }
            }
        }));
        followed
    }
}

fn log_fault(resource: &str, fault: &Fault) {
    match fault {
        // An invalid request stays invalid.
        Fault::Refused { code: 400..=402, .. } | Fault::Unknown(_) => {
            tracing::error!(resource, %fault, "the objects of Gateways cannot be watched: {CONSEQUENCE}");
        }
        _ => tracing::debug!(resource, %fault, "the objects of Gateways cannot be watched; retrying"),
    }
}
