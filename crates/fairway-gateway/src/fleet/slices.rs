//! EndpointSlices of a Gateway's Service: copies of Kubernetes' slices for Fairway's pods, with the pod ports of this
//! Gateway.

use std::collections::BTreeMap;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::fleet::names::{self, SERVICE_LABEL, SLICE_MANAGED_BY, SLICE_MANAGER};

/// The change to an EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceEdit {
    /// Create it.
    Create(Box<EndpointSlice>),
    /// Replace it; contains the resource version.
    Replace(Box<EndpointSlice>),
    /// Delete it.
    Delete(ObjectKey),
}

/// The desired slices of a Service, given the slices of the pods. Ports come from the desired Service rather than the
/// existing one: editing the Service must not redirect it to another Gateway's ports.
#[must_use]
pub fn desired<'a>(
    service: &Service,
    should_be: &Service,
    pods: impl Iterator<Item = &'a EndpointSlice>,
) -> BTreeMap<ObjectKey, EndpointSlice> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.as_deref()).unwrap_or_default();
    let has_family = |slice: &&EndpointSlice| families.is_empty() || families.contains(&slice.address_type);
    let ports = should_be.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports: Vec<_> = ports.filter_map(port).collect();
    pods.filter(has_family).map(|slice| copy_slice(service, should_be, slice, &ports)).collect()
}

fn port(port: &ServicePort) -> Option<EndpointPort> {
    let Some(IntOrString::Int(target)) = &port.target_port else { return None };
    Some(EndpointPort {
        name: port.name.clone(),
        port: Some(*target),
        protocol: port.protocol.clone(),
        app_protocol: None,
    })
}

fn copy_slice(
    service: &Service,
    should_be: &Service,
    pods: &EndpointSlice,
    ports: &[EndpointPort],
) -> (ObjectKey, EndpointSlice) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, owner) = (text(&service.metadata.namespace), text(&service.metadata.name));
    let name = names::slice(&owner, pods.metadata.name.as_deref().unwrap_or_default());
    let key = ObjectKey::new(&namespace, &name);
    let owner_reference = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: owner.clone(),
        uid: text(&service.metadata.uid),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let own_labels =
        [(SERVICE_LABEL.to_owned(), owner), (SLICE_MANAGED_BY.to_owned(), SLICE_MANAGER.to_owned())];
    // Includes those of `spec.infrastructure` (Gateway API `GatewayInfrastructure`: on any resource created for the
    // Gateway).
    let mut labels = should_be.metadata.labels.clone().unwrap_or_default();
    labels.extend(own_labels);
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(namespace),
        labels: Some(labels),
        annotations: should_be.metadata.annotations.clone(),
        owner_references: Some(vec![owner_reference]),
        ..ObjectMeta::default()
    };
    let endpoints = pods.endpoints.iter().flatten().map(endpoint).collect();
    let slice = EndpointSlice {
        address_type: pods.address_type.clone(),
        endpoints: Some(endpoints),
        metadata,
        ports: Some(ports.to_vec()),
    };
    (key, slice)
}

fn endpoint(pod: &Endpoint) -> Endpoint {
    Endpoint {
        addresses: pod.addresses.clone(),
        conditions: pod.conditions.clone(),
        node_name: pod.node_name.clone(),
        zone: pod.zone.clone(),
        ..Endpoint::default()
    }
}

/// The Service that a slice belongs to.
#[must_use]
pub fn service_of(key: &ObjectKey, slice: &EndpointSlice) -> Option<ObjectKey> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_LABEL)?;
    Some(ObjectKey::new(&key.namespace, name))
}

/// The changes that make the `existing` slices of a Service match the `desired` ones.
#[must_use]
pub fn edits<'a>(
    existing: impl Iterator<Item = (&'a ObjectKey, &'a EndpointSlice)>,
    desired: &BTreeMap<ObjectKey, EndpointSlice>,
) -> Vec<SliceEdit> {
    let existing: BTreeMap<_, _> = existing.collect();
    let mut edits = Vec::new();
    for (key, slice) in desired {
        match existing.get(key) {
            None => edits.push(SliceEdit::Create(Box::new(slice.clone()))),
            Some(old) if is_same(old, slice) => {}
            // The address type is immutable (EndpointSlice API reference).
            Some(old) if old.address_type != slice.address_type => {
                edits.push(SliceEdit::Delete(key.clone()));
            }
            Some(old) => {
                let mut slice = slice.clone();
                slice.metadata.resource_version.clone_from(&old.metadata.resource_version);
                edits.push(SliceEdit::Replace(Box::new(slice)));
            }
        }
    }
    let gone = existing.keys().filter(|key| !desired.contains_key(**key));
    edits.extend(gone.map(|key| SliceEdit::Delete((*key).clone())));
    edits
}

fn is_same(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    // Metadata added by cluster policies does not count. A key removed from the infrastructure changes the annotation
    // that lists the keys.
    let has = |old: &Option<BTreeMap<String, String>>, new: &Option<BTreeMap<String, String>>| {
        let same = |(key, value)| old.as_ref().and_then(|old| old.get(key)) == Some(value);
        new.iter().flatten().all(same)
    };
    let endpoints = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    old.address_type == new.address_type
        && has(&old.metadata.labels, &new.metadata.labels)
        && has(&old.metadata.annotations, &new.metadata.annotations)
        && endpoints(old) == endpoints(new)
        && ports(old) == ports(new)
}

/// How many replicas write before this one: the ready pods with smaller names, or all ready pods if this one is not
/// ready.
#[must_use]
pub fn write_rank<'a>(pods: impl Iterator<Item = &'a EndpointSlice>, own_name: &str) -> usize {
    let endpoints = pods.flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints.filter(|endpoint| is_ready(endpoint.conditions.as_ref()));
    let mut names: Vec<_> =
        ready.filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    names.iter().position(|name| *name == own_name).unwrap_or(names.len())
}

/// Unknown counts as ready (EndpointSlice API reference).
fn is_ready(conditions: Option<&EndpointConditions>) -> bool {
    conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pods(name: &str, family: &str, endpoints: &Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "edge" }, "addressType": family, "endpoints": endpoints,
            "ports": [],
        }))
        .unwrap()
    }

    fn pod(name: &str, address: &str, ready: bool) -> Value {
        json!({
            "addresses": [address], "nodeName": "n1", "zone": "z",
            "conditions": { "ready": ready, "serving": true, "terminating": !ready },
            "targetRef": { "kind": "Pod", "name": name, "namespace": "edge" },
        })
    }

    fn service(families: &[&str]) -> Service {
        serde_json::from_value(json!({
            "metadata": { "name": "edge-fairway", "namespace": "shop", "uid": "u" },
            "spec": {
                "ipFamilies": families,
                "ports": [{ "name": "tcp-80", "port": 80, "protocol": "TCP", "targetPort": 20_000 }],
            },
        }))
        .unwrap()
    }

    fn desired_from(service: &Service, pods: &[EndpointSlice]) -> BTreeMap<ObjectKey, EndpointSlice> {
        desired(service, service, pods.iter())
    }

    #[test]
    fn edited_service_ports_do_not_redirect_traffic() {
        let mut edited = service(&["IPv4"]);
        let ports = edited.spec.as_mut().unwrap().ports.as_mut().unwrap();
        ports[0].target_port = Some(IntOrString::Int(20_777));
        let pods = [pods("v4", "IPv4", &json!([pod("a", "10.0.0.1", true)]))];
        let slices = desired(&edited, &service(&["IPv4"]), pods.iter());
        assert_eq!(slices.values().next().unwrap().ports.as_ref().unwrap()[0].port, Some(20_000));
    }

    #[test]
    fn the_pods_are_copied_with_the_ports_that_they_have_for_the_gateway() {
        let all =
            [pods("fairway-1", "IPv4", &json!([pod("a", "10.0.0.1", true), pod("b", "10.0.0.2", false)]))];
        let desired = desired_from(&service(&["IPv4"]), &all);
        let slice = desired.values().next().unwrap();
        let json = serde_json::to_value(slice).unwrap();
        assert_eq!(json["ports"], json!([{ "name": "tcp-80", "port": 20_000, "protocol": "TCP" }]));
        let ending = json!({ "ready": false, "serving": true, "terminating": true });
        assert_eq!(json["endpoints"][1]["conditions"], ending);
        assert_eq!(json["endpoints"][0]["nodeName"], "n1");
        assert!(json["endpoints"][0].get("targetRef").is_none());
        assert_eq!(json["metadata"]["labels"][SERVICE_LABEL], "edge-fairway");
        assert_eq!(json["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn both_transports_of_a_number_are_ports_of_a_slice() {
        let mut both = service(&["IPv4"]);
        let ports = both.spec.as_mut().unwrap().ports.as_mut().unwrap();
        ports[0].name = Some("tcp-53".to_owned());
        let udp = ServicePort {
            name: Some("udp-53".to_owned()),
            protocol: Some("UDP".to_owned()),
            ..ports[0].clone()
        };
        ports.push(udp);
        let slices = desired_from(&both, &[pods("v4", "IPv4", &json!([pod("a", "10.0.0.1", true)]))]);
        let slice = serde_json::to_value(slices.values().next().unwrap()).unwrap();
        assert_eq!(
            slice["ports"],
            json!([
                { "name": "tcp-53", "port": 20_000, "protocol": "TCP" },
                { "name": "udp-53", "port": 20_000, "protocol": "UDP" },
            ])
        );
    }

    #[test]
    fn a_service_of_one_family_has_slices_of_that_one() {
        let all = [pods("v4", "IPv4", &json!([])), pods("v6", "IPv6", &json!([]))];
        assert_eq!(desired_from(&service(&["IPv6"]), &all).len(), 1);
        assert_eq!(desired_from(&service(&["IPv4", "IPv6"]), &all).len(), 2);
    }

    #[test]
    fn only_differences_are_written_and_a_replacement_holds_the_version() {
        let before = [pods("v4", "IPv4", &json!([pod("a", "10.0.0.1", true)]))];
        let mut existing = desired_from(&service(&[]), &before);
        for slice in existing.values_mut() {
            slice.metadata.resource_version = Some("7".to_owned());
        }
        let same = desired_from(&service(&[]), &before);
        assert_eq!(edits(existing.iter(), &same), []);
        let after = [pods("v4", "IPv4", &json!([pod("a", "10.0.0.1", false)]))];
        let changed = edits(existing.iter(), &desired_from(&service(&[]), &after));
        let [SliceEdit::Replace(slice)] = changed.as_slice() else { panic!("{changed:?}") };
        assert_eq!(slice.metadata.resource_version.as_deref(), Some("7"));
        let gone = edits(existing.iter(), &BTreeMap::new());
        assert!(matches!(gone.as_slice(), [SliceEdit::Delete(_)]), "{gone:?}");
        assert!(matches!(edits([].into_iter(), &same).as_slice(), [SliceEdit::Create(_)]));
    }

    #[test]
    fn labels_and_annotations_of_the_infrastructure_are_copied_to_slices() {
        let pods = [pods("v4", "IPv4", &json!([pod("a", "10.0.0.1", true)]))];
        let before = desired_from(&service(&[]), &pods);
        let mut should_be = service(&[]);
        let texts = |name: &str, value: &str| Some([(name.to_owned(), value.to_owned())].into());
        should_be.metadata.labels = texts("team", "shop");
        should_be.metadata.annotations = texts("cost", "7");
        let after = desired(&service(&[]), &should_be, pods.iter());
        let changed = edits(before.iter(), &after);
        let [SliceEdit::Replace(slice)] = changed.as_slice() else { panic!("{changed:?}") };
        let labels = slice.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["team"].as_str(), labels[SERVICE_LABEL].as_str()), ("shop", "edge-fairway"));
        assert_eq!(slice.metadata.annotations, should_be.metadata.annotations);
        let mut known = after.clone();
        for slice in known.values_mut() {
            slice.metadata.labels.as_mut().unwrap().insert("from-a-webhook".to_owned(), "x".to_owned());
        }
        assert_eq!(edits(known.iter(), &after), [], "labels of others are no difference");
    }

    #[test]
    fn the_first_ready_pod_by_name_writes_first() {
        let all = [pods(
            "v4",
            "IPv4",
            &json!([pod("c", "10.0.0.3", true), pod("a", "10.0.0.1", false), pod("b", "10.0.0.2", true)]),
        )];
        let rank = |name: &str| write_rank(all.iter(), name);
        assert_eq!((rank("b"), rank("c"), rank("a")), (0, 1, 2));
    }
}
