//! The other replicas of this fleet: pods in the same namespace with the same labels (as in ingress-nginx). Finds out whether one
//! stays, and on which nodes replicas are ready. Never waits for a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error};

use super::permission::{RefusedPermissions, RequiredPermission};

/// Labels that differ between pods of one fleet: their owners set them per revision and pod.
const REVISION_LABELS: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
];

/// Prefixes of labels that the API server copies from a pod's node (PodTopologyLabelsAdmission, Kubernetes 1.33): they differ between
/// zones.
const TOPOLOGY_LABEL_PREFIXES: [&str; 2] = ["topology.kubernetes.io/", "topology.k8s.io/"];

/// Whether all pods of a fleet have the same value of this label.
fn is_fleet_label(name: &str) -> bool {
    !REVISION_LABELS.contains(&name) && !TOPOLOGY_LABEL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The pods of this fleet.
pub(crate) struct OwnFleet {
    pods: Api<Pod>,
    own_pod: ObjectKey,
    labels: FleetLabels,
    refusals: Arc<RefusedPermissions>,
    /// What does not work if the pods may not be read.
    lost: &'static str,
}

/// The labels that the pods of the fleet share.
enum FleetLabels {
    /// This pod has not been read yet.
    Unknown,
    Known(BTreeMap<String, String>),
    /// This process does not run in a pod of that name: it is alone.
    NotAPod,
}

/// Another replica that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OtherReplica {
    /// There is none.
    None,
    /// This pod, and perhaps others.
    Pod(String),
}

impl OwnFleet {
    /// The fleet of the pod `own`.
    pub(crate) fn new(client: &Client, own_pod: ObjectKey, refusals: Arc<RefusedPermissions>) -> Self {
        let pods = Api::namespaced(client.clone(), &own_pod.namespace);
        let lost = "it is unknown whether this is the last replica, so status stays when the last one leaves";
        Self { pods, own_pod, labels: FleetLabels::Unknown, refusals, lost }
    }

    /// The same with another consequence of missing permissions.
    pub(crate) fn with_consequence(self, lost: &'static str) -> Self {
        Self { lost, ..self }
    }

    /// Reads this pod's labels while the pod certainly exists: a pod that is force-deleted is gone before its processes end, and
    /// must not count as one that never existed.
    pub(crate) async fn load_labels(&mut self) -> Result<(), Error> {
        if !matches!(self.labels, FleetLabels::Unknown) {
            return Ok(());
        }
        let found = self.check_permission("get", self.pods.get_metadata_opt(&self.own_pod.name).await)?;
        self.labels = match found {
            None => FleetLabels::NotAPod,
            Some(pod) => {
                let mut labels = pod.metadata.labels.unwrap_or_default();
                labels.retain(|name, _| is_fleet_label(name));
                FleetLabels::Known(labels)
            }
        };
        Ok(())
    }

    /// Whether this pod is being deleted, or already gone although its processes still run.
    pub(crate) async fn is_own_pod_deleted(&self) -> Result<bool, Error> {
        let found = self.check_permission("get", self.pods.get_metadata_opt(&self.own_pod.name).await)?;
        Ok(match found {
            Some(pod) => pod.metadata.deletion_timestamp.is_some(),
            None => matches!(self.labels, FleetLabels::Known(_)),
        })
    }

    /// Another pod of the fleet that stays.
    pub(crate) async fn find_other(&mut self) -> Result<OtherReplica, Error> {
        self.load_labels().await?;
        let Some(selector) = self.selector() else { return Ok(OtherReplica::None) };
        let list = self.pods.list(&ListParams::default().labels(&selector)).await;
        let pods = self.check_permission("list", list)?;
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        let other = pods.items.iter().find(|pod| name(pod) != *self.own_pod.name && is_staying(pod));
        Ok(other.map_or(OtherReplica::None, |pod| OtherReplica::Pod(name(pod))))
    }

    /// All pods of the fleet that stay; none if this process does not run in a pod.
    pub(crate) async fn list_pods(&mut self) -> Result<Vec<Pod>, Error> {
        self.load_labels().await?;
        let Some(selector) = self.selector() else { return Ok(Vec::new()) };
        let list = self.pods.list(&ListParams::default().labels(&selector)).await;
        Ok(self.check_permission("list", list)?.items.into_iter().filter(is_staying).collect())
    }

    /// The nodes on which pods of the fleet are ready.
    pub(crate) async fn ready_nodes(&mut self) -> Result<BTreeSet<String>, Error> {
        self.load_labels().await?;
        let pods = match self.selector() {
            Some(selector) => {
                let list = self.pods.list(&ListParams::default().labels(&selector)).await;
                self.check_permission("list", list)?.items
            }
            None => self
                .check_permission("get", self.pods.get_opt(&self.own_pod.name).await)?
                .into_iter()
                .collect(),
        };
        Ok(pods.into_iter().filter(is_ready).filter_map(|pod| pod.spec?.node_name).collect())
    }

    /// The label selector. A pod without labels was not created by a Deployment or DaemonSet: it is alone, and an empty selector
    /// would match any pod.
    pub(crate) fn selector(&self) -> Option<String> {
        let FleetLabels::Known(labels) = &self.labels else { return None };
        let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join(","))
    }

    fn check_permission<T>(&self, verb: &'static str, response: Result<T, Error>) -> Result<T, Error> {
        let (namespace, lost) = (self.own_pod.namespace.clone(), self.lost);
        self.refusals.check(RequiredPermission { verb, resource: "pods".into(), namespace, lost }, response)
    }
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    is_staying(pod) && ready.any(|condition| condition.status == "True")
}

fn is_staying(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, "Succeeded" | "Failed")
}
