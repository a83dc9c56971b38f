//! What there is in the cluster of what Gateways have: followed by watches of its own, since only who writes it needs it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairway_gateway::fleet::names::{
    FAIRWAY, GATEWAY_LABEL, MANAGED_BY, SERVICE_LABEL, SLICE_MANAGED_BY, SLICE_MANAGER,
};
use fairway_objects::object::ObjectKey;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Error, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::source::Namespaces;
use crate::status::permission::{Permit, Refusals};

const LOST: &str = "Gateways have no addresses";

/// All of it.
pub(super) struct Sources {
    list: Store<ConfigMap>,
    services: Vec<Store<Service>>,
    copies: Vec<Store<EndpointSlice>>,
    pods: Store<EndpointSlice>,
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
        let named = watcher::Config::default().fields(&format!("metadata.name={}", places.list.name));
        let list = follower.follow(Some(&places.list.namespace), named, "configmaps");
        let of_pods = watcher::Config::default().labels(&format!("{SERVICE_LABEL}={}", places.pods.name));
        let slices = "endpointslices.discovery.k8s.io";
        let pods = follower.follow(Some(&places.pods.namespace), of_pods, slices);
        let namespaces: Vec<_> = match places.namespaces {
            Namespaces::Listed(names) => names.iter().map(Some).collect(),
            Namespaces::All | Namespaces::Labelled(_) => vec![None],
        };
        let ours = watcher::Config::default().labels(&format!("{MANAGED_BY}={FAIRWAY},{GATEWAY_LABEL}"));
        let services = namespaces
            .iter()
            .map(|namespace| follower.follow(*namespace, ours.clone(), "services"))
            .collect();
        let copied = watcher::Config::default().labels(&format!("{SLICE_MANAGED_BY}={SLICE_MANAGER}"));
        let copies =
            namespaces.iter().map(|namespace| follower.follow(*namespace, copied.clone(), slices)).collect();
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
        self.list.state().into_iter().next()
    }

    /// The Services of Gateways.
    pub(super) fn services(&self) -> BTreeMap<ObjectKey, Arc<Service>> {
        keyed(&self.services, |service| &service.metadata)
    }

    /// The EndpointSlices of these Services.
    pub(super) fn copies(&self) -> BTreeMap<ObjectKey, Arc<EndpointSlice>> {
        keyed(&self.copies, |slice| &slice.metadata)
    }

    /// The EndpointSlices of Fairway's pods.
    pub(super) fn pods(&self) -> Vec<Arc<EndpointSlice>> {
        self.pods.state()
    }
}

fn keyed<K>(stores: &[Store<K>], metadata: impl Fn(&K) -> &ObjectMeta) -> BTreeMap<ObjectKey, Arc<K>>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let all = stores.iter().flat_map(Store::state);
    all.map(|object| (ObjectKey::of(metadata(&object)), object)).collect()
}

impl Follower {
    fn follow<K>(
        &mut self,
        namespace: Option<&Arc<str>>,
        config: watcher::Config,
        resource: &'static str,
    ) -> Store<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let api: Api<K> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let (store, writer) = reflector::store();
        let namespace = namespace.cloned().unwrap_or_default();
        let (missing, bell, refusals) = (self.missing.clone(), self.bell.clone(), self.refusals.clone());
        let refused = self.refused.clone();
        missing.fetch_add(1, Ordering::AcqRel);
        let stream = watcher(api, config).modify(|object| object.meta_mut().managed_fields = None);
        let stream = reflector::reflector(writer, stream.default_backoff());
        self.watches.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            let mut listed = false;
            while let Some(event) = stream.next().await {
                match event {
                    Ok(watcher::Event::InitDone) if !listed => {
                        listed = true;
                        missing.fetch_sub(1, Ordering::AcqRel);
                        bell.notify_one();
                    }
                    Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
                    Ok(_) => bell.notify_one(),
                    Err(error) => {
                        if failed(error, resource, &namespace, &refusals)
                            && !refused.swap(true, Ordering::AcqRel)
                        {
                            bell.notify_one();
                        }
                    }
                }
            }
        });
        store
    }
}

/// Whether it was refused.
fn failed(error: watcher::Error, resource: &'static str, namespace: &Arc<str>, refusals: &Refusals) -> bool {
    let (verb, error) = match error {
        watcher::Error::InitialListFailed(error) => ("list", error),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => ("watch", error),
        watcher::Error::WatchError(status) => ("watch", Error::Api(status)),
        watcher::Error::NoResourceVersion => return false,
    };
    let permit = Permit { verb, resource: resource.into(), namespace: namespace.clone(), lost: LOST };
    let Err(error) = refusals.judge::<()>(permit, Err(error)) else { return false };
    let forbidden = matches!(&error, Error::Api(status) if status.is_forbidden());
    match &error {
        // A request that is wrong stays wrong.
        Error::Api(status) if !forbidden && (400..404).contains(&status.code) => {
            tracing::error!(resource, %error, "what Gateways have cannot be watched: {LOST}");
        }
        _ => tracing::debug!(resource, %error, "what Gateways have cannot be watched; tried again"),
    }
    forbidden
}
