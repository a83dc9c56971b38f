//! Pods, reduced to what endpoints of InferencePools need: labels, address and readiness. A complete Pod takes a hundred times as
//! much memory. Does not check addresses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{NamespaceResourceScope, Resource};
use serde::Deserialize;

use crate::key::ObjectKey;
use crate::shared::RecentValues;

/// The labels of a Pod.
pub type Labels = BTreeMap<String, String>;

thread_local! {
    /// The labels of recently read Pods.
    static LABELS: RefCell<RecentValues<Labels>> = const { RefCell::new(RecentValues::new()) };
}

/// The kept part of a Pod.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "v1::Pod")]
pub struct Pod {
    /// Its name.
    pub key: ObjectKey,
    /// Its labels. Pods of one template have the same labels, and share them.
    pub labels: Arc<Labels>,
    /// Its address (`status.podIP`); the text if it is not an address.
    pub address: Option<Result<IpAddr, Box<str>>>,
    /// Whether it gets requests: it is ready and not being deleted.
    pub is_ready: bool,
}

/// The decoded part of a Pod's `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusForm {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Option<Vec<PodConditionForm>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodConditionForm {
    r#type: String,
    status: String,
}

impl Pod {
    /// The kept part of a Pod with this name, these labels and this status.
    #[must_use]
    pub fn from_parts(key: ObjectKey, labels: Labels, status: PodStatusForm, is_leaving: bool) -> Self {
        let PodStatusForm { phase, pod_ip, conditions } = status;
        let is_over = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
        let mut conditions = conditions.iter().flatten();
        let says_ready = conditions.any(|it| it.r#type == "Ready" && it.status == "True");
        let text = pod_ip.filter(|text| !text.is_empty());
        Self {
            key,
            labels: LABELS.with_borrow_mut(|recent| recent.shared(Arc::new(labels))),
            address: text.map(|text| text.parse().map_err(|_| text.into())),
            is_ready: says_ready && !is_over && !is_leaving,
        }
    }

    /// Whether it has all of these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(name) == Some(value))
    }
}

impl From<v1::Pod> for Pod {
    fn from(pod: v1::Pod) -> Self {
        let ObjectMeta { labels, deletion_timestamp, .. } = &pod.metadata;
        let status = pod.status.unwrap_or_default();
        let condition = |it: v1::PodCondition| PodConditionForm { r#type: it.type_, status: it.status };
        let conditions = status.conditions.map(|all| all.into_iter().map(condition).collect());
        let status = PodStatusForm { phase: status.phase, pod_ip: status.pod_ip, conditions };
        let labels = labels.clone().unwrap_or_default();
        Self::from_parts(
            ObjectKey::from_metadata(&pod.metadata),
            labels,
            status,
            deletion_timestamp.is_some(),
        )
    }
}

impl Resource for Pod {
    const API_VERSION: &'static str = v1::Pod::API_VERSION;
    const GROUP: &'static str = v1::Pod::GROUP;
    const KIND: &'static str = v1::Pod::KIND;
    const VERSION: &'static str = v1::Pod::VERSION;
    const URL_PATH_SEGMENT: &'static str = v1::Pod::URL_PATH_SEGMENT;
    type Scope = NamespaceResourceScope;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: &Value, status: &Value) -> Pod {
        serde_json::from_value(
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status }),
        )
        .expect("a Pod")
    }

    fn named() -> Value {
        json!({ "namespace": "models", "name": "vllm-1", "labels": { "app": "vllm", "hash": "1" } })
    }

    fn running(ready: &str) -> Value {
        let conditions = json!([
            { "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": ready },
        ]);
        json!({ "phase": "Running", "podIP": "10.0.0.1", "conditions": conditions })
    }

    #[test]
    fn a_pod_is_small_and_shares_its_labels_with_its_neighbours() {
        assert!(size_of::<Pod>() <= 72, "{}", size_of::<Pod>());
        let (one, two) = (pod(&named(), &running("True")), pod(&named(), &running("False")));
        assert!(Arc::ptr_eq(&one.labels, &two.labels));
        assert_eq!(
            (one.key, one.address),
            (ObjectKey::new("models", "vllm-1"), Some(Ok([10, 0, 0, 1].into())))
        );
    }

    #[test]
    fn only_a_ready_pod_without_a_deletion_time_is_ready() {
        assert!(pod(&named(), &running("True")).is_ready);
        assert!(!pod(&named(), &running("False")).is_ready);
        assert!(!pod(&named(), &json!({ "phase": "Pending" })).is_ready);
        let mut over = running("True");
        over["phase"] = json!("Failed");
        assert!(!pod(&named(), &over).is_ready);
        let mut leaving = named();
        leaving["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!pod(&leaving, &running("True")).is_ready);
    }

    #[test]
    fn a_pod_matches_if_it_has_all_labels() {
        let pod = pod(&named(), &running("True"));
        let labels = |all: &[(&str, &str)]| -> Labels {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert!(pod.matches(&labels(&[("app", "vllm")])));
        assert!(!pod.matches(&labels(&[("app", "vllm"), ("role", "decode")])));
        assert!(!pod.matches(&labels(&[("app", "other")])));
    }
}
