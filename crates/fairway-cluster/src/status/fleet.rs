//! The other replicas of this fleet, which are the pods in the own namespace with the own labels (as ingress-nginx does):
//! whether one is left that is not going, and on which nodes they are ready. Never waits for any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error};

use super::permission::{Permit, Refusals};

/// Labels that differ between the pods of one fleet: its owners set them for each revision and pod.
const OF_A_REVISION: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// The pods that do the same work.
pub(crate) struct Fleet {
    pods: Api<Pod>,
    own: ObjectKey,
    labels: Labels,
    refusals: Arc<Refusals>,
    /// What is lost where the pods may not be read.
    lost: &'static str,
}

/// What the pods of the fleet have in common.
enum Labels {
    /// The own pod was not read yet.
    Unknown,
    Of(BTreeMap<String, String>),
    /// This process is not in a pod of that name: it is alone.
    NotAPod,
}

/// Who else is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Nobody.
    None,
    /// This pod, perhaps others too.
    Pod(String),
}

impl Fleet {
    /// The fleet of the pod `own`.
    pub(crate) fn new(client: &Client, own: ObjectKey, refusals: Arc<Refusals>) -> Self {
        let pods = Api::namespaced(client.clone(), &own.namespace);
        let lost = "whether this is the last replica is unknown, and status stays when the last one goes";
        Self { pods, own, labels: Labels::Unknown, refusals, lost }
    }

    /// The same for whoever loses something else where the pods may not be read.
    pub(crate) fn losing(self, lost: &'static str) -> Self {
        Self { lost, ..self }
    }

    /// Reads the own labels while the own pod is there for sure. A pod that is deleted by force is gone before its
    /// processes end, and must not count as one that never was.
    pub(crate) async fn learn(&mut self) -> Result<(), Error> {
        if !matches!(self.labels, Labels::Unknown) {
            return Ok(());
        }
        let found = self.judge("get", self.pods.get_metadata_opt(&self.own.name).await)?;
        self.labels = match found {
            None => Labels::NotAPod,
            Some(pod) => {
                let mut labels = pod.metadata.labels.unwrap_or_default();
                labels.retain(|name, _| !OF_A_REVISION.contains(&name.as_str()));
                Labels::Of(labels)
            }
        };
        Ok(())
    }

    /// Whether the own pod is deleted, or gone already although its processes still run.
    pub(crate) async fn deletes_own_pod(&self) -> Result<bool, Error> {
        let found = self.judge("get", self.pods.get_metadata_opt(&self.own.name).await)?;
        Ok(match found {
            Some(pod) => pod.metadata.deletion_timestamp.is_some(),
            None => matches!(self.labels, Labels::Of(_)),
        })
    }

    /// Another pod of the fleet that goes on.
    pub(crate) async fn others(&mut self) -> Result<Others, Error> {
        self.learn().await?;
        let Some(selector) = self.selector() else { return Ok(Others::None) };
        let list = self.pods.list(&ListParams::default().labels(&selector)).await;
        let pods = self.judge("list", list)?;
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        let other = pods.items.iter().find(|pod| name(pod) != *self.own.name && goes_on(pod));
        Ok(other.map_or(Others::None, |pod| Others::Pod(name(pod))))
    }

    /// All pods of the fleet that go on. None where this process is in no pod.
    pub(crate) async fn pods(&mut self) -> Result<Vec<Pod>, Error> {
        self.learn().await?;
        let Some(selector) = self.selector() else { return Ok(Vec::new()) };
        let list = self.pods.list(&ListParams::default().labels(&selector)).await;
        Ok(self.judge("list", list)?.items.into_iter().filter(goes_on).collect())
    }

    /// The nodes on which pods of the fleet are ready.
    pub(crate) async fn nodes(&mut self) -> Result<BTreeSet<String>, Error> {
        self.learn().await?;
        let pods = match self.selector() {
            Some(selector) => {
                let list = self.pods.list(&ListParams::default().labels(&selector)).await;
                self.judge("list", list)?.items
            }
            None => self.judge("get", self.pods.get_opt(&self.own.name).await)?.into_iter().collect(),
        };
        Ok(pods.into_iter().filter(is_ready).filter_map(|pod| pod.spec?.node_name).collect())
    }

    /// The own labels. Without any no Deployment or DaemonSet made the pod: it is alone, and any pod would match.
    pub(crate) fn selector(&self) -> Option<String> {
        let Labels::Of(labels) = &self.labels else { return None };
        let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join(","))
    }

    fn judge<T>(&self, verb: &'static str, answer: Result<T, Error>) -> Result<T, Error> {
        let (namespace, lost) = (self.own.namespace.clone(), self.lost);
        self.refusals.judge(Permit { verb, resource: "pods".into(), namespace, lost }, answer)
    }
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    goes_on(pod) && ready.any(|condition| condition.status == "True")
}

fn goes_on(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, "Succeeded" | "Failed")
}
