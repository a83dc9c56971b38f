//! What Gateways want, and the Services and slices that follow. Finds the owner of a Service and what differs; never writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_gateway::WantedGateway;
use fairway_gateway::fleet::ports::Ports;
use fairway_gateway::fleet::services::{self, DesiredService, ServiceType};
use fairway_gateway::fleet::slices::{self, SliceEdit};
use fairway_objects::gateway_api::Gateway;
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Resources;
use imbl::OrdMap;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// EndpointSlices by name.
pub(super) type Slices = BTreeMap<ObjectKey, Arc<EndpointSlice>>;

/// What Gateways want, and the Services that follow.
pub(super) struct Plan {
    pub(super) wanted_gateways: OrdMap<ObjectKey, Arc<WantedGateway>>,
    pub(super) ports: Ports,
    pub(super) services: BTreeMap<ObjectKey, Vec<DesiredService>>,
    /// The served Gateways by uid.
    by_uid: BTreeMap<Arc<str>, ObjectKey>,
}

impl Plan {
    /// The plan, given the pod ports that serve HTTP/3.
    pub(super) fn build(
        wanted: OrdMap<ObjectKey, Arc<WantedGateway>>,
        ports: Ports,
        http3: &BTreeSet<u16>,
        service_type: ServiceType,
    ) -> Self {
        let desired = |(key, gateway): (&ObjectKey, &Arc<WantedGateway>)| {
            (key.clone(), services::desired(key, gateway, &ports, http3, service_type))
        };
        let services = wanted.iter().map(desired).collect();
        let known = wanted.iter().filter(|(_, gateway)| !gateway.uid.is_empty());
        let by_uid = known.map(|(key, gateway)| (gateway.uid.clone(), key.clone())).collect();
        Self { wanted_gateways: wanted, ports, services, by_uid }
    }

    /// Whether its Gateway no longer needs a Service. Kubernetes deletes the Service of a deleted Gateway; a Gateway that is
    /// currently not accepted, or whose parameters are invalid, keeps its Service and address.
    pub(super) fn is_obsolete(
        &self,
        key: &ObjectKey,
        service: &Service,
        resources: &Resources,
        controller: &str,
    ) -> bool {
        if let Some(desired) = self.services_of_owner(key, service) {
            return !desired.is_empty() && desired.iter().all(|it| it.key != *key && !it.is_held);
        }
        // Its new class belongs to another controller.
        owner(key, service, resources).is_some_and(|gateway| {
            let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
            let class = resources.gateway.classes.get(&class);
            class.is_some_and(|class| class.object.spec.controller_name != controller)
        })
    }

    /// The desired Services of the served Gateway that owns this one.
    fn services_of_owner(&self, key: &ObjectKey, service: &Service) -> Option<&[DesiredService]> {
        let owners = service.metadata.owner_references.iter().flatten();
        let mut gateways = owners.filter_map(|owner| self.by_uid.get(owner.uid.as_str()));
        let gateway = gateways.find(|gateway| gateway.namespace == key.namespace)?;
        self.services.get(gateway).map(Vec::as_slice)
    }

    /// The desired state of a Service.
    pub(super) fn desired(&self, key: &ObjectKey, service: &Service) -> Option<&DesiredService> {
        self.services_of_owner(key, service)?.iter().find(|it| it.key == *key)
    }
}

/// The Gateway, served or not, that owns a Service.
pub(super) fn owner<'a>(key: &ObjectKey, service: &Service, resources: &'a Resources) -> Option<&'a Gateway> {
    let gateways =
        resources.gateway.gateways.iter().filter(|(gateway, _)| gateway.namespace == key.namespace);
    let mut owners = gateways.map(|(_, gateway)| &*gateway.object);
    owners.find(|it| services::is_owned(service, it.metadata.uid.as_deref().unwrap_or_default()))
}

/// Whether a Service would lose a port.
pub(super) fn removes_ports(existing: &Service, desired: &DesiredService) -> bool {
    fn ports(service: &Service) -> &[ServicePort] {
        service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
    }
    let transport = |port: &ServicePort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let is_kept = |port: &ServicePort| {
        let same = |new: &ServicePort| new.port == port.port && transport(new) == transport(port);
        ports(&desired.service).iter().any(same)
    };
    !ports(existing).iter().all(is_kept)
}

/// The ports of Gateways, oldest Gateway first.
pub(super) fn ports_by_gateway_age(
    wanted_gateways: &OrdMap<ObjectKey, Arc<WantedGateway>>,
) -> Vec<(&ObjectKey, u16)> {
    let mut gateways: Vec<_> = wanted_gateways.iter().collect();
    gateways.sort_by_key(|(key, gateway)| (gateway.created.unwrap_or(i64::MAX), *key));
    gateways
        .into_iter()
        .flat_map(|(key, gateway)| gateway.ports.keys().map(move |port| (key, *port)))
        .collect()
}

/// The slices of each Service.
pub(super) fn slices_by_service(slices: Slices) -> BTreeMap<ObjectKey, Slices> {
    let mut all: BTreeMap<ObjectKey, Slices> = BTreeMap::new();
    for (key, slice) in slices {
        if let Some(service) = slices::service_of(&key, &slice) {
            all.entry(service).or_default().insert(key, slice);
        }
    }
    all
}

/// The edits that bring the slices of a Service to their desired state; without a desired Service there should be none.
pub(super) fn slice_edits(
    service: &Service,
    desired: Option<&DesiredService>,
    pods: &[Arc<EndpointSlice>],
    copies: &Slices,
) -> Vec<SliceEdit> {
    let copied = |it: &DesiredService| slices::desired(service, &it.service, pods.iter().map(|it| &**it));
    let desired_copies = desired.map(copied).unwrap_or_default();
    slices::edits(copies.iter().map(|(key, slice)| (key, &**slice)), &desired_copies)
}

/// The versions of all slices.
pub(super) fn joined_versions(slices: &Slices) -> String {
    let version = |slice: &EndpointSlice| slice.metadata.resource_version.clone().unwrap_or_default();
    slices.iter().map(|(key, slice)| format!("{key}@{} ", version(slice))).collect()
}
