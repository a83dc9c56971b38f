//! The objects of a namespace, kept up to date by watches, with a notification of every change.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use anyhow::Context;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use kube::runtime::reflector::{Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::adapter::derive::{Objects, derive_desired_state};
use crate::adapter::desired::DesiredState;

/// The watched objects.
pub(crate) struct WatchedObjects {
    class: String,
    ingresses: Store<Ingress>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    secrets: Store<Secret>,
    changed: Arc<Notify>,
}

impl WatchedObjects {
    /// Starts watching a namespace.
    pub(crate) async fn start(namespace: &str, class: &str) -> anyhow::Result<Self> {
        let client =
            Client::try_default().await.context("find out how to reach the API server from this pod")?;
        let mut events = SelectAll::new();
        let watch = watcher::Config::default;
        let ingresses = follow(&mut events, Api::namespaced(client.clone(), namespace), watch());
        let services = follow(&mut events, Api::namespaced(client.clone(), namespace), watch());
        let slices = follow(&mut events, Api::namespaced(client.clone(), namespace), watch());
        let tls = watch().fields("type=kubernetes.io/tls");
        let secrets = follow(&mut events, Api::namespaced(client, namespace), tls);
        let changed = Arc::new(Notify::new());
        let tell = Arc::clone(&changed);
        // Watches continue while a change is applied, as in controllers; events that arrive in that time are merged into
        // one change.
        tokio::spawn(async move {
            while events.next().await.is_some() {
                tell.notify_one();
            }
        });
        Ok(Self { class: class.to_owned(), ingresses, services, slices, secrets, changed })
    }

    /// Waits for all initial lists and returns the desired state.
    pub(crate) async fn first(&self) -> anyhow::Result<DesiredState> {
        let ready = async {
            self.ingresses.wait_until_ready().await?;
            self.services.wait_until_ready().await?;
            self.slices.wait_until_ready().await?;
            self.secrets.wait_until_ready().await
        };
        ready.await.context("read Ingresses, Services, EndpointSlices and Secrets")?;
        Ok(self.now())
    }

    /// Waits for a change and returns the desired state. Earlier changes are merged.
    pub(crate) async fn next(&self) -> DesiredState {
        self.changed.notified().await;
        self.now()
    }

    /// The current desired state.
    pub(crate) fn now(&self) -> DesiredState {
        let objects = Objects {
            ingresses: self.ingresses.state(),
            services: self.services.state(),
            slices: self.slices.state(),
            secrets: self.secrets.state(),
        };
        derive_desired_state(&objects, &self.class)
    }
}

fn follow<K>(events: &mut SelectAll<BoxStream<'static, ()>>, api: Api<K>, watch: watcher::Config) -> Store<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (reader, writer) = store();
    let changes = watcher(api, watch).default_backoff().reflect(writer).map(|event| {
        if let Err(error) = event {
            tracing::warn!(%error, "a watch broke and is begun again");
        }
    });
    events.push(changes.boxed());
    reader
}
