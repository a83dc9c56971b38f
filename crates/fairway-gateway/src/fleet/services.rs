//! The desired Services of a Gateway and their difference from the existing ones. Fields that Fairway does not manage
//! stay unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use fairway_objects::object::ObjectKey;
use fairway_objects::placement::{Address, AddressKind};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use crate::fleet::names::{self, CLASS_LABEL, GATEWAY_LABEL, MANAGED_BY, MANAGED_BY_FAIRWAY};
use crate::fleet::ports::Ports;
use crate::{PortTransport, WantedGateway};

/// Annotation that lists keys from `spec.infrastructure` and the Service field set by parameters, so that they can be
/// removed later.
const FROM_INFRASTRUCTURE: &str = "fairway.dev/gateway-infrastructure";
const TRAFFIC_POLICY: &str = "externalTrafficPolicy";

/// The type of Gateway Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceType {
    /// With load balancer addresses.
    #[default]
    LoadBalancer,
    /// With cluster addresses and a port on each node.
    NodePort,
    /// With cluster addresses.
    ClusterIp,
}

impl ServiceType {
    /// As Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LoadBalancer => "LoadBalancer",
            Self::NodePort => "NodePort",
            Self::ClusterIp => "ClusterIP",
        }
    }
}

impl FromStr for ServiceType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::LoadBalancer, Self::NodePort, Self::ClusterIp];
        let found = all.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text}: is none of LoadBalancer, NodePort, ClusterIP"))
    }
}

/// A desired Service.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredService {
    /// Its name, in the Gateway's namespace.
    pub key: ObjectKey,
    /// The address requested by `spec.addresses`, if any.
    pub address: Option<IpAddr>,
    /// The fields that Fairway manages.
    pub service: Service,
    /// Whether an existing Service stays unchanged and a missing one is not created, because the parameters are
    /// unusable.
    pub is_held: bool,
}

/// The change to a Service.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceEdit {
    /// Create it.
    Create(Box<Service>),
    /// Apply this merge patch, which contains the resource version.
    Patch(Value),
    /// It is up to date.
    Nothing,
    /// It belongs to someone else.
    Foreign,
}

/// The desired Services of a Gateway: one, or one for each address in `spec.addresses`; none while no listener has a
/// port. Ports in `http3` serve HTTP/3 as well and use TCP and UDP.
#[must_use]
pub fn desired(
    gateway: &ObjectKey,
    wanted: &WantedGateway,
    ports: &Ports,
    http3: &BTreeSet<u16>,
    default: ServiceType,
) -> Vec<DesiredService> {
    let listed = service_ports(gateway, wanted, ports, http3);
    if listed.is_empty() {
        return Vec::new();
    }
    let values = wanted.addresses.iter().filter_map(|it| it.value.as_deref()?.parse::<IpAddr>().ok());
    let values: BTreeSet<_> = values.collect();
    let wishes: Vec<_> = if values.is_empty() { vec![None] } else { values.into_iter().map(Some).collect() };
    wishes
        .into_iter()
        .map(|address| {
            let text = address.map(|address| address.to_string());
            let name = names::service(gateway, &wanted.class, text.as_deref());
            let service = Service {
                metadata: metadata(gateway, wanted, &name),
                spec: Some(spec(wanted, listed.clone(), address, default)),
                status: None,
            };
            let key = ObjectKey::new(&gateway.namespace, &name);
            DesiredService { key, address, service, is_held: wanted.parameters.is_none() }
        })
        .collect()
}

fn service_ports(
    gateway: &ObjectKey,
    wanted: &WantedGateway,
    ports: &Ports,
    http3: &BTreeSet<u16>,
) -> Vec<ServicePort> {
    let of_port = |(port, transport): (&u16, &PortTransport)| {
        let target = ports.pod_port(gateway, *port)?;
        let transport = if http3.contains(&target) { PortTransport::Both } else { *transport };
        let port = *port;
        Some(transport.protocols().iter().map(move |protocol| ServicePort {
            name: Some(port_name(protocol.name(), port)),
            port: i32::from(port),
            protocol: Some(protocol.name().to_owned()),
            target_port: Some(IntOrString::Int(i32::from(target))),
            ..ServicePort::default()
        }))
    };
    wanted.ports.iter().filter_map(of_port).flatten().collect()
}

/// The name of a port in Services and EndpointSlices.
pub(crate) fn port_name(protocol: &str, port: u16) -> String {
    format!("{}-{port}", protocol.to_ascii_lowercase())
}

fn metadata(gateway: &ObjectKey, wanted_gateway: &WantedGateway, name: &str) -> ObjectMeta {
    let own_labels = [
        (GATEWAY_LABEL.to_owned(), names::label(&gateway.name)),
        (CLASS_LABEL.to_owned(), names::label(&wanted_gateway.class)),
        (MANAGED_BY.to_owned(), MANAGED_BY_FAIRWAY.to_owned()),
    ];
    let text = |(key, value): (&Arc<str>, &Arc<str>)| (key.to_string(), value.to_string());
    // Fairway's own entries come last and override those of the infrastructure.
    let labels = wanted_gateway.labels.iter().map(text).chain(own_labels).collect();
    let keys =
        |map: &BTreeMap<Arc<str>, Arc<str>>| map.keys().map(|key| &**key).collect::<Vec<_>>().join(",");
    let mut listed =
        format!("labels={};annotations={}", keys(&wanted_gateway.labels), keys(&wanted_gateway.annotations));
    if wanted_gateway.parameters.iter().any(|it| it.contains_key(TRAFFIC_POLICY)) {
        listed = format!("{listed};spec={TRAFFIC_POLICY}");
    }
    let annotations =
        wanted_gateway.annotations.iter().map(text).chain([(FROM_INFRASTRUCTURE.to_owned(), listed)]);
    let owner = OwnerReference {
        api_version: "gateway.networking.k8s.io/v1".to_owned(),
        kind: "Gateway".to_owned(),
        name: gateway.name.to_string(),
        uid: wanted_gateway.uid.to_string(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(gateway.namespace.to_string()),
        labels: Some(labels),
        annotations: Some(annotations.collect()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

fn spec(
    wanted: &WantedGateway,
    ports: Vec<ServicePort>,
    address: Option<IpAddr>,
    default: ServiceType,
) -> ServiceSpec {
    let parameter = |name: &str| wanted.parameters.as_ref()?.get(name).map(|value| value.to_string());
    let kind = parameter("serviceType").and_then(|text| text.parse().ok()).unwrap_or(default);
    let text = address.map(|address| address.to_string());
    let balanced = kind == ServiceType::LoadBalancer;
    let family = address.map(|address| if address.is_ipv4() { "IPv4" } else { "IPv6" });
    ServiceSpec {
        type_: Some(kind.name().to_owned()),
        ports: Some(ports),
        load_balancer_ip: text.clone().filter(|_| balanced),
        cluster_ip: text.filter(|_| !balanced),
        ip_families: family.map(|family| vec![family.to_owned()]),
        ip_family_policy: Some(if address.is_some() { "SingleStack" } else { "PreferDualStack" }.to_owned()),
        load_balancer_class: parameter("loadBalancerClass").filter(|_| balanced),
        external_traffic_policy: parameter(TRAFFIC_POLICY).filter(|_| kind != ServiceType::ClusterIp),
        ..ServiceSpec::default()
    }
}

/// The change that makes `existing` match `desired`.
#[must_use]
pub fn edit(existing: Option<&Service>, desired: &DesiredService, gateway_uid: &str) -> ServiceEdit {
    let Some(existing) = existing else {
        return match desired.is_held {
            true => ServiceEdit::Nothing,
            false => ServiceEdit::Create(Box::new(desired.service.clone())),
        };
    };
    if !is_owned(existing, gateway_uid) {
        return ServiceEdit::Foreign;
    }
    if desired.is_held {
        return ServiceEdit::Nothing;
    }
    let mut patch = Map::new();
    let mut metadata = Map::new();
    let (old, new) = (&existing.metadata, &desired.service.metadata);
    for (field, old, new) in
        [("labels", &old.labels, &new.labels), ("annotations", &old.annotations, &new.annotations)]
    {
        let difference = metadata_patch(old.as_ref(), new.as_ref(), &managed_keys(existing, field));
        if !difference.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(difference));
        }
    }
    let spec = spec_patch(existing, &desired.service);
    if metadata.is_empty() && spec.is_empty() {
        return ServiceEdit::Nothing;
    }
    metadata.insert("resourceVersion".to_owned(), json!(old.resource_version));
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    ServiceEdit::Patch(Value::Object(patch))
}

/// Whether the Service belongs to the Gateway with this uid.
#[must_use]
pub fn is_owned(service: &Service, gateway_uid: &str) -> bool {
    let owners = service.metadata.owner_references.iter().flatten();
    !gateway_uid.is_empty() && owners.into_iter().any(|owner| owner.uid == gateway_uid)
}

/// Keys from infrastructure or parameters when the Service was last written.
fn managed_keys(existing: &Service, field: &str) -> BTreeSet<String> {
    let annotations = existing.metadata.annotations.as_ref();
    let listed = annotations.and_then(|all| all.get(FROM_INFRASTRUCTURE)).map(String::as_str);
    let parts = listed.unwrap_or_default().split(';').filter_map(|part| part.split_once('='));
    let keys = parts.filter(|(name, _)| *name == field).flat_map(|(_, keys)| keys.split(','));
    keys.filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// Part of a merge patch: new values, and `null` for keys removed from the infrastructure. Other keys stay.
fn metadata_patch(
    old: Option<&BTreeMap<String, String>>,
    new: Option<&BTreeMap<String, String>>,
    left: &BTreeSet<String>,
) -> Map<String, Value> {
    let has =
        |map: Option<&BTreeMap<String, String>>, key: &str| map.is_some_and(|map| map.contains_key(key));
    let gone = left.iter().filter(|key| !has(new, key) && has(old, key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let set =
        new.into_iter().flatten().filter(|(key, value)| old.and_then(|old| old.get(*key)) != Some(*value));
    set.map(|(key, value)| (key.clone(), json!(value))).chain(gone).collect()
}

fn spec_patch(existing: &Service, desired: &Service) -> Map<String, Value> {
    let none = ServiceSpec::default();
    let (old, new) = (existing.spec.as_ref().unwrap_or(&none), desired.spec.as_ref().unwrap_or(&none));
    let mut spec = Map::new();
    let mut text = |field: &str, old: &Option<String>, new: &Option<String>| {
        if new.is_some() && old != new {
            spec.insert(field.to_owned(), json!(new));
        }
    };
    text("type", &old.type_, &new.type_);
    text("loadBalancerIP", &old.load_balancer_ip, &new.load_balancer_ip);
    text("clusterIP", &old.cluster_ip, &new.cluster_ip);
    text("ipFamilyPolicy", &old.ip_family_policy, &new.ip_family_policy);
    text("loadBalancerClass", &old.load_balancer_class, &new.load_balancer_class);
    // A field removed from the parameters is reset to the Kubernetes default; one set by someone else stays.
    let was_given =
        new.external_traffic_policy.is_none() && managed_keys(existing, "spec").contains(TRAFFIC_POLICY);
    let by_default =
        Some("Cluster".to_owned()).filter(|_| was_given && old.external_traffic_policy.is_some());
    text(TRAFFIC_POLICY, &old.external_traffic_policy, &new.external_traffic_policy.clone().or(by_default));
    if let (Some(selector), true) = (&old.selector, new.selector.is_none())
        && !selector.is_empty()
    {
        // A selector would make Kubernetes write its own endpoints.
        spec.insert("selector".to_owned(), Value::Null);
    }
    let (before, after) =
        (old.ports.as_deref().unwrap_or_default(), new.ports.as_deref().unwrap_or_default());
    if !before.iter().map(identity).eq(after.iter().map(identity)) {
        let ports: Vec<_> = after.iter().map(|port| with_node_port(port, before)).collect();
        spec.insert("ports".to_owned(), json!(ports));
    }
    spec
}

/// The fields that identify a port.
fn identity(port: &ServicePort) -> (Option<&str>, i32, &str, Option<&IntOrString>) {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    (port.name.as_deref(), port.port, protocol, port.target_port.as_ref())
}

/// Keeps the assigned node port.
fn with_node_port(port: &ServicePort, before: &[ServicePort]) -> ServicePort {
    let same = |old: &&ServicePort| old.port == port.port && old.protocol == port.protocol;
    ServicePort { node_port: before.iter().find(same).and_then(|old| old.node_port), ..port.clone() }
}

/// The addresses at which clients reach a Service, IPv4 first.
#[must_use]
pub fn addresses(service: &Service) -> Vec<Address> {
    let spec = service.spec.as_ref();
    let texts: Vec<String> = match spec.and_then(|spec| spec.type_.as_deref()) {
        Some("LoadBalancer") => {
            let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
            let entries = status.and_then(|status| status.ingress.as_ref()).into_iter().flatten();
            entries.filter_map(|entry| entry.ip.clone().or_else(|| entry.hostname.clone())).collect()
        }
        _ => {
            let several = spec.and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default();
            let cluster_ip = spec.and_then(|spec| spec.cluster_ip.clone());
            let all = if several.is_empty() { cluster_ip.into_iter().collect() } else { several };
            all.into_iter().filter(|ip| !ip.is_empty() && ip != "None").collect()
        }
    };
    let mut addresses: Vec<_> = texts.iter().map(|text| address(text)).collect();
    let rank = |address: &Address| address.value.parse::<IpAddr>().map_or(2, |ip| u8::from(ip.is_ipv6()));
    addresses.sort_by_key(rank);
    addresses
}

fn address(text: &str) -> Address {
    let kind = if text.parse::<IpAddr>().is_ok() { AddressKind::Ip } else { AddressKind::Hostname };
    Address { kind, value: text.into() }
}

#[cfg(test)]
mod tests;
