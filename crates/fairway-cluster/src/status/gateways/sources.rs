//! What there is in the cluster of what Gateways have: followed by watches of its own, since only who writes it needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairway_gateway::fleet::names::{
    FAIRWAY, GATEWAY_LABEL, MANAGED_BY, SERVICE_LABEL, SLICE_MANAGED_BY, SLICE_MANAGER,
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
use crate::source::follow::{Followed, News, Whole};
use crate::status::permission::{Permit, Refusals};

const LOST: &str = "Gateways have no addresses";

/// All of it.
pub(super) struct Sources {
    list: Followed<ConfigMap>,
    services: Vec<Followed<Service>>,
    copies: Vec<Followed<EndpointSlice>>,
    pods: Followed<EndpointSlice>,
    /// Lists that are not there yet.
    missing: Arc<AtomicUsize>,
    refused: Arc<AtomicBool>,
    /// Rung when something is different.
    pub(super) bell: Arc<Notify>,
    _watches: JoinSet<()>,
}

/// Whose watches they are.
pub(super) struct Places<'a> {
    /// The list of ports.
    pub(super) list: &'a ObjectKey,
    /// The Service of Fairway's pods.
    pub(super) pods: &'a ObjectKey,
    /// Where Gateways are served.
    pub(super) namespaces: &'a Namespaces,
}

/// Follows one collection after the other.
struct Follower {
    client: Client,
    refusals: Arc<Refusals>,
    missing: Arc<AtomicUsize>,
    refused: Arc<AtomicBool>,
    bell: Arc<Notify>,
    watches: JoinSet<()>,
}

impl Sources {
    pub(super) fn follow(client: Client, refusals: Arc<Refusals>, places: &Places<'_>) -> Self {
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
        let list = follower.follow(ConfigMap::one(places.list));
        let of_pods = labelled(format!("{SERVICE_LABEL}={}", places.pods.name));
        let pods = EndpointSlice::within(Some(&places.pods.namespace));
        let pods = follower.follow(Collection { labels: of_pods, ..pods });
        let namespaces: Vec<_> = match places.namespaces {
            Namespaces::Listed(names) => names.iter().map(Some).collect(),
            Namespaces::All | Namespaces::Labelled(_) => vec![None],
        };
        let (mut services, mut copies) = (Vec::new(), Vec::new());
        for namespace in namespaces {
            let labels = labelled(format!("{MANAGED_BY}={FAIRWAY},{GATEWAY_LABEL}"));
            services.push(follower.follow(Collection { labels, ..Service::within(namespace) }));
            let labels = labelled(format!("{SLICE_MANAGED_BY}={SLICE_MANAGER}"));
            copies.push(follower.follow(Collection { labels, ..EndpointSlice::within(namespace) }));
        }
        Self { list, services, copies, pods, missing, refused, bell, _watches: follower.watches }
    }

    /// Whether all of it was listed once.
    pub(super) fn are_listed(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Whether some of it may not be read.
    pub(super) fn are_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// The list of ports, where there is one.
    pub(super) fn list(&self) -> Option<Arc<ConfigMap>> {
        self.list.objects().into_values().next()
    }

    /// The Services of Gateways.
    pub(super) fn services(&self) -> BTreeMap<ObjectKey, Arc<Service>> {
        all(&self.services)
    }

    /// The EndpointSlices of these Services.
    pub(super) fn copies(&self) -> BTreeMap<ObjectKey, Arc<EndpointSlice>> {
        all(&self.copies)
    }

    /// The EndpointSlices of Fairway's pods.
    pub(super) fn pods(&self) -> Vec<Arc<EndpointSlice>> {
        self.pods.objects().into_values().collect()
    }
}

fn all<K: Whole>(followed: &[Followed<K>]) -> BTreeMap<ObjectKey, Arc<K>> {
    followed.iter().flat_map(Followed::objects).collect()
}

impl Follower {
    fn follow<K: Whole>(&mut self, collection: Collection) -> Followed<K> {
        let permit = Permit {
            verb: "list and watch",
            resource: collection.resource().into(),
            namespace: collection.namespace.clone().unwrap_or_default(),
            lost: LOST,
        };
        let (missing, bell, refusals) = (self.missing.clone(), self.bell.clone(), self.refusals.clone());
        let refused = self.refused.clone();
        missing.fetch_add(1, Ordering::AcqRel);
        let mut listed = false;
        let followed = Followed::default();
        self.watches.spawn(followed.clone().follow(
            self.client.clone(),
            collection,
            move |news| match news {
                News::Listed | News::Changed => {
                    if !std::mem::replace(&mut listed, true) {
                        missing.fetch_sub(1, Ordering::AcqRel);
                    }
                    refusals.granted(&permit);
                    bell.notify_one();
                }
                News::Failed(fault) => {
                    refusals.judge_watch(&permit, &fault);
                    log(&permit.resource, &fault);
                    if matches!(fault, Fault::Denied(_)) && !refused.swap(true, Ordering::AcqRel) {
                        bell.notify_one();
                    }
                }
            },
        ));
        followed
    }
}

fn log(resource: &str, fault: &Fault) {
    match fault {
        // A request that is wrong stays wrong.
        Fault::Refused { code: 400..=402, .. } | Fault::Unknown(_) => {
            tracing::error!(resource, %fault, "what Gateways have cannot be watched: {LOST}");
        }
        _ => tracing::debug!(resource, %fault, "what Gateways have cannot be watched; tried again"),
    }
}
