//! Creates what Gateways need and reports to the pipeline where they are reachable. The leader allocates ports and writes
//! Services; every replica copies the EndpointSlices of the pods, the first ready one at once, so that a drain needs no leader.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::input::Inlet;
use fairway_control::pipeline::View;
use fairway_gateway::WantedGateway;
use fairway_gateway::fleet::agreement::{ServedGateway, ServedGateways};
use fairway_gateway::fleet::placement::FleetState;
use fairway_gateway::fleet::ports::{PortRange, Ports};
use fairway_gateway::fleet::services::{self, DesiredService, ServiceEdit, ServiceType};
use fairway_gateway::fleet::slices::{self, SliceEdit};
use fairway_model::PortProtocol;
use fairway_objects::gateway_api::Gateway;
use fairway_objects::kinds::ApiResource;
use fairway_objects::object::ObjectKey;
use fairway_objects::placement::{GatewayAddresses, Placement, PortPlacement, PortState};
use fairway_objects::resources::{Change, Resources};
use imbl::OrdMap;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::bindings::Bindings;
use super::edits::{GatewayWriter, WriteFailure};
use super::plan::{
    Plan, Slices, joined_versions, owner, ports_by_gateway_age, removes_ports, slice_edits, slices_by_service,
};
use super::replicas::{LeaderView, PeerReplicas, ReplicaClient};
use super::retries::{WATCH_DELAY, WriteRetries, WriteTask};
use super::sources::{GatewaySources, SourceKeys};
use crate::source::Namespaces;
use crate::status::election::Role;
use crate::status::permission::RefusedPermissions;
use crate::status::shared_state::ReporterState;
use crate::status::updates::ViewUpdates;

/// Each replica waits this much longer per ready replica before it.
const TURN_DELAY: Duration = Duration::from_millis(500);
const SOURCES_REFUSED: &str = "the Services of Gateways, or the list of their ports, may not be read";
const SERVICE_NAME_TAKEN: &str = "a Service of this name exists that does not belong to the Gateway";

/// What Gateways get.
#[derive(Clone, Debug)]
pub struct GatewayKeeperOptions {
    /// The `spec.controllerName` of the served classes.
    pub controller: Arc<str>,
    /// The headless Service whose endpoints are Fairway's pods.
    pub pods: ObjectKey,
    /// The pod ports that Gateways may use.
    pub ports: PortRange,
    /// The type of their Services.
    pub service_type: ServiceType,
    /// The addresses their ports are bound to.
    pub bind: Vec<IpAddr>,
    /// The namespaces in which Gateways are served.
    pub namespaces: Namespaces,
    /// The addresses that the data plane has bound.
    pub bindings: Bindings,
    /// Queries other replicas; without it none is queried.
    pub asker: Option<ReplicaClient>,
    /// The way into the pipeline.
    pub inlet: Inlet,
}

/// What the keeper listens to.
pub(in crate::status) struct GatewaySignals {
    pub(in crate::status) updates: ViewUpdates,
    pub(in crate::status) role: watch::Receiver<Role>,
}

/// Keeps the objects of Gateways up to date.
pub(in crate::status) struct GatewayKeeper {
    options: GatewayKeeperOptions,
    /// The port list.
    list: ObjectKey,
    /// This pod.
    own_name: Arc<str>,
    edits: GatewayWriter,
    sources: GatewaySources,
    standing: ReporterState,
    /// The port list that this process wrote, until the watch shows it.
    written: Option<WrittenList>,
    /// The ports last listed: they stay valid if someone deletes the list.
    known_ports: Ports,
    replicas: PeerReplicas,
    placed: BTreeMap<ObjectKey, Arc<Placement>>,
    efforts: WriteRetries,
    /// Since when the slices of a Service differ.
    differing: BTreeMap<ObjectKey, Instant>,
}

/// The port list as written, and when.
struct WrittenList {
    map: ConfigMap,
    at: Instant,
}

/// What this replica may do.
#[derive(Clone, Copy)]
struct Duties {
    leads: bool,
    /// Whether every object that defines Gateways is known. Otherwise nothing is freed or deleted.
    knows_all: bool,
}

impl GatewayKeeper {
    pub(in crate::status) fn new(
        client: Client,
        own: &ObjectKey,
        election_id: &str,
        refusals: Arc<RefusedPermissions>,
        standing: ReporterState,
        options: GatewayKeeperOptions,
    ) -> Self {
        let list = ObjectKey::new(&own.namespace, &format!("{election_id}-gateway-ports"));
        let source_keys = SourceKeys { list: &list, pods: &options.pods, namespaces: &options.namespaces };
        let sources = GatewaySources::follow(client.clone(), refusals.clone(), &source_keys);
        Self {
            edits: GatewayWriter::new(client, refusals),
            sources,
            list,
            replicas: PeerReplicas::new(options.asker.clone(), own.name.clone()),
            own_name: own.name.clone(),
            standing,
            options,
            written: None,
            known_ports: Ports::default(),
            placed: BTreeMap::new(),
            efforts: WriteRetries::default(),
            differing: BTreeMap::new(),
        }
    }

    /// Runs until it is dropped.
    pub(in crate::status) async fn run(mut self, mut signals: GatewaySignals) {
        loop {
            let bound = self.options.bindings.changed();
            if let Some(view) = signals.updates.view() {
                let leads = *signals.role.borrow_and_update() == Role::Leader;
                self.efforts.start_pass();
                if self.sources.are_listed() {
                    self.reconcile(&view, Duties { leads, knows_all: is_complete(&view) }).await;
                } else if self.sources.are_refused() {
                    self.publish_unknown_placements(&view);
                    self.standing.set_gateways_placed();
                } else if view.outcome.translation.gateway.wanted_gateways.is_empty() {
                    self.standing.set_gateways_placed();
                }
            }
            let bell = self.sources.bell.clone();
            let again = self.efforts.next_look_at();
            tokio::select! {
                () = signals.updates.changed() => {}
                () = bell.notified() => {}
                () = bound => {}
                () = self.replicas.next_response() => {}
                Ok(()) = signals.role.changed() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
        }
    }

    async fn reconcile(&mut self, view: &View, part: Duties) {
        let (wanted, resources) =
            (&view.outcome.translation.gateway.wanted_gateways, &view.outcome.resources);
        let ports = self.update_ports(wanted, part).await;
        let http3 = view.outcome.snapshot.http3_ports().collect();
        let plan = Plan::build(wanted.clone(), ports, &http3, self.options.service_type);
        if part.leads {
            self.keep_services(&plan, part.knows_all).await;
        }
        if part.leads && part.knows_all {
            self.delete_services(&plan, resources).await;
        }
        self.keep_slices(&plan, resources, part).await;
        self.publish_placements(&plan, resources, part.leads);
    }

    /// The port allocation. The leader allocates missing ports, and restores a list that was deleted or emptied.
    async fn update_ports(
        &mut self,
        gateways: &OrdMap<ObjectKey, Arc<WantedGateway>>,
        part: Duties,
    ) -> Ports {
        let (seen, now) = (self.sources.port_list(), Instant::now());
        self.written.take_if(|it| it.is_shown_by(seen.as_deref()) || now >= it.at + WATCH_DELAY);
        self.written.iter().for_each(|it| self.efforts.schedule_look(it.at + WATCH_DELAY));
        let current = self.written.as_ref().map(|it| &it.map).or(seen.as_deref()).cloned();
        let data = current.as_ref().and_then(|map| map.data.as_ref());
        let listed = data.and_then(Ports::listed);
        let is_lost = listed.is_none() && !self.known_ports.is_empty();
        let assigned = listed.unwrap_or_else(|| self.known_ports.clone());
        self.known_ports.clone_from(&assigned);
        let mut settled = assigned.clone();
        let differs =
            settled.settle(ports_by_gateway_age(gateways).into_iter(), part.knows_all, self.options.ports);
        if !part.leads || !(differs || is_lost) || self.efforts.must_wait(&WriteTask::PortList, "", now) {
            return assigned;
        }
        match self.edits.write_port_list(&self.list, current.as_ref(), settled.data()).await {
            Ok(map) => {
                self.efforts.mark_up_to_date(&WriteTask::PortList);
                self.written = Some(WrittenList { map, at: Instant::now() });
                self.known_ports.clone_from(&settled);
                settled
            }
            Err(failure) => {
                // Another writer changed or deleted it: the watch will show the current state.
                self.written = None;
                self.efforts.record_failure(WriteTask::PortList, &failure, Instant::now());
                assigned
            }
        }
    }

    /// Creates and updates the Services of Gateways. A port that may still be needed stays.
    async fn keep_services(&mut self, plan: &Plan, knows_all: bool) {
        let existing = self.sources.services();
        for (gateway, desired) in &plan.services {
            let Some(wanted) = plan.wanted_gateways.get(gateway) else { continue };
            for service in desired {
                let found = existing.get(&service.key);
                if knows_all || !found.is_some_and(|it| removes_ports(it, service)) {
                    self.keep_service(service, found, &wanted.uid).await;
                }
            }
        }
        let desired = |key: &ObjectKey| plan.services.values().flatten().any(|service| service.key == *key);
        self.efforts.problems.retain(|key, _| desired(key));
    }

    /// Deletes Services that Gateways no longer need.
    async fn delete_services(&mut self, plan: &Plan, resources: &Resources) {
        let (existing, controller) = (self.sources.services(), self.options.controller.clone());
        for (key, service) in &existing {
            let (task, seen) = (WriteTask::Service(key.clone()), resource_version(Some(&service.metadata)));
            if !plan.is_obsolete(key, service, resources, &controller)
                || self.efforts.must_wait(&task, &seen, Instant::now())
            {
                continue;
            }
            match self.edits.delete_service(key, service).await {
                Ok(()) => self.efforts.record_success(task, seen, Instant::now()),
                Err(failure) => self.efforts.record_failure(task, &failure, Instant::now()),
            }
        }
    }

    async fn keep_service(&mut self, desired: &DesiredService, existing: Option<&Arc<Service>>, uid: &str) {
        let key = &desired.key;
        let (task, seen) =
            (WriteTask::Service(key.clone()), resource_version(existing.map(|it| &it.metadata)));
        if self.efforts.must_wait(&task, &seen, Instant::now()) {
            return;
        }
        let response = match services::edit(existing.map(|it| &**it), desired, uid) {
            ServiceEdit::Nothing => {
                self.efforts.mark_up_to_date(&task);
                return;
            }
            ServiceEdit::Foreign => Err(WriteFailure::Exists),
            ServiceEdit::Create(service) => self.edits.create_service(key, &service).await,
            ServiceEdit::Patch(patch) => self.edits.patch_service(key, &patch).await,
        };
        match response {
            Ok(()) => {
                self.efforts.problems.remove(key);
                self.efforts.record_success(task, seen, Instant::now());
            }
            Err(failure) => {
                let problem: Option<Arc<str>> = match &failure {
                    WriteFailure::Exists => Some(SERVICE_NAME_TAKEN.into()),
                    WriteFailure::Refused(message) => {
                        Some(format!("the Service {key} cannot be written: {message}").into())
                    }
                    WriteFailure::Conflict | WriteFailure::NoAnswer => None,
                };
                if let Some(problem) = problem {
                    self.efforts.problems.insert(key.clone(), problem);
                }
                self.efforts.record_failure(task, &failure, Instant::now());
            }
        }
    }

    /// Copies the slices of the pods to the Services of Gateways, when it is this replica's turn.
    async fn keep_slices(&mut self, plan: &Plan, resources: &Resources, part: Duties) {
        let (pods, services) = (self.sources.pod_slices(), self.sources.services());
        let (copies, no_copies) = (slices_by_service(self.sources.slices()), Slices::new());
        let now = Instant::now();
        let wait = TURN_DELAY
            * u32::try_from(slices::write_rank(pods.iter().map(|it| &**it), &self.own_name)).unwrap_or(60);
        let mut differing = BTreeMap::new();
        for (key, service) in &services {
            let own_copies = copies.get(key).unwrap_or(&no_copies);
            let edits = match plan.desired(key, service) {
                Some(desired) if !part.knows_all && removes_ports(service, desired) => continue,
                Some(desired) => slice_edits(service, Some(desired), &pods, own_copies),
                // The ports may soon belong to another Gateway.
                None if part.knows_all && owner(key, service, resources).is_some() => {
                    slice_edits(service, None, &pods, own_copies)
                }
                None => continue,
            };
            if edits.is_empty() {
                continue;
            }
            let since = self.differing.get(key).copied().unwrap_or(now);
            differing.insert(key.clone(), since);
            let (task, seen) = (WriteTask::Slices(key.clone()), joined_versions(own_copies));
            if now < since + wait {
                self.efforts.schedule_look(since + wait);
            } else if !self.efforts.must_wait(&task, &seen, now) {
                self.write_slices(task, seen, &edits).await;
            }
        }
        self.differing = differing;
    }

    async fn write_slices(&mut self, task: WriteTask, current_versions: String, edits: &[SliceEdit]) {
        for edit in edits {
            match self.edits.write_slice(edit).await {
                // Another replica was faster: its watch event is on its way.
                Ok(()) | Err(WriteFailure::Conflict | WriteFailure::Exists) => {}
                Err(failure) => return self.efforts.record_failure(task, &failure, Instant::now()),
            }
        }
        self.efforts.record_success(task, current_versions, Instant::now());
    }

    /// Reports to the pipeline where Gateways are, if that changed.
    fn publish_placements(&mut self, plan: &Plan, resources: &Resources, leads: bool) {
        let services = self.sources.services();
        let bound = |protocol: PortProtocol, address: SocketAddr| {
            self.options.bindings.port_state((protocol, address))
        };
        let known = FleetState {
            ports: &plan.ports,
            range: self.options.ports,
            bind: &self.options.bind,
            bound: &bound,
            services: &services,
            problems: &self.efforts.problems,
        };
        let none = Vec::new();
        let placement = |(gateway, wanted): (&ObjectKey, &Arc<WantedGateway>)| {
            let desired = plan.services.get(gateway).unwrap_or(&none);
            (gateway.clone(), Arc::new(known.placement(gateway, wanted, desired)))
        };
        let mut now: BTreeMap<_, _> = plan.wanted_gateways.iter().map(placement).collect();
        // Only this replica's ports decide whether it is ready: otherwise replicas would wait for each other.
        if now.iter().all(|(gateway, placement)| is_settled(&plan.wanted_gateways[gateway], placement)) {
            self.standing.set_gateways_placed();
        }
        match leads {
            true => self.mark_pending_on_others(&mut now, resources),
            false => self.replicas.stop_leading(),
        }
        self.send_placements(now);
    }

    /// Reports to the pipeline that placements are unknown, for the status of Gateways.
    fn publish_unknown_placements(&mut self, view: &View) {
        let nowhere = Arc::new(Placement {
            addresses: GatewayAddresses::Pending(SOURCES_REFUSED.into()),
            ..Placement::default()
        });
        let gateway_keys = view.outcome.translation.gateway.wanted_gateways.keys().cloned();
        self.send_placements(gateway_keys.map(|gateway| (gateway, nowhere.clone())).collect());
    }

    fn send_placements(&mut self, now: BTreeMap<ObjectKey, Arc<Placement>>) {
        let before = std::mem::replace(&mut self.placed, now);
        for (gateway, placement) in &self.placed {
            if before.get(gateway) != Some(placement) {
                let placement = Some(placement.clone());
                self.options.inlet.send_change(Change::Placed { gateway: gateway.clone(), placement });
            }
        }
        for gateway in before.into_keys().filter(|gateway| !self.placed.contains_key(gateway)) {
            self.options.inlet.send_change(Change::Placed { gateway, placement: None });
        }
    }

    /// Marks the ports of a Gateway as pending while another ready replica does not serve it: clients may reach that replica.
    fn mark_pending_on_others(
        &mut self,
        placed: &mut BTreeMap<ObjectKey, Arc<Placement>>,
        resources: &Resources,
    ) {
        let gateways = &resources.gateway.gateways;
        let served: ServedGateways = placed
            .iter()
            .filter_map(|(key, placement)| {
                Some((key.clone(), served_gateway(&gateways.get(key)?.object, placement)?))
            })
            .collect();
        let programmed =
            |key: &ObjectKey| gateways.get(key).is_some_and(|gateway| is_programmed(&gateway.object));
        let pods = self.sources.pod_slices();
        let sight = LeaderView { served: &served, programmed: &programmed, pods: &pods };
        for key in self.replicas.gateways_behind(&sight, &mut self.efforts) {
            let Some(placement) = placed.get_mut(&key).map(Arc::make_mut) else { continue };
            let all = placement.ports.values_mut().chain(placement.datagram_ports.values_mut());
            let bound = all.filter(|port| port.state == PortState::Bound);
            bound.for_each(|port| port.state = PortState::Pending);
        }
    }
}

impl WrittenList {
    /// Whether the watch has caught up.
    fn is_shown_by(&self, current: Option<&ConfigMap>) -> bool {
        let version = |map: &ConfigMap| map.metadata.resource_version.as_deref()?.parse::<u64>().ok();
        current.is_some_and(|seen| version(seen) >= version(&self.map))
    }
}

/// A Gateway as this replica serves it, if any of its ports is bound.
fn served_gateway(gateway: &Gateway, placement: &Placement) -> Option<ServedGateway> {
    let bound = |ports: &BTreeMap<u16, PortPlacement>| -> BTreeSet<SocketAddr> {
        let bound = ports.values().filter(|port| port.state == PortState::Bound);
        bound.flat_map(|port| &port.bind).copied().collect()
    };
    let (bound, datagrams) = (bound(&placement.ports), bound(&placement.datagram_ports));
    let uid = gateway.metadata.uid.clone().unwrap_or_default();
    let generation = gateway.metadata.generation.unwrap_or_default();
    let is_any = !bound.is_empty() || !datagrams.is_empty();
    is_any.then_some(ServedGateway { uid, generation, bound, datagrams })
}

/// Whether its status says so for this generation: an earlier leader has queried all replicas.
fn is_programmed(gateway: &Gateway) -> bool {
    let conditions = gateway.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.type_ == "Programmed"
            && condition.status == "True"
            && condition.observed_generation == gateway.metadata.generation
    })
}

/// Whether each port with a served listener is bound or has failed. Other ports are never bound, so waiting for them would never
/// end.
fn is_settled(gateway: &WantedGateway, placement: &Placement) -> bool {
    let mut served =
        gateway.served.iter().filter_map(|(protocol, number)| placement.port(*protocol, *number));
    served.all(|port| port.bind.is_empty() || port.state != PortState::Pending)
}

/// The resource version of an object; empty if there is none.
fn resource_version(metadata: Option<&ObjectMeta>) -> String {
    metadata.and_then(|metadata| metadata.resource_version.clone()).unwrap_or_default()
}

/// Whether every object that defines Gateways is known: an object that is missing only because it may not be read must not remove
/// anything.
fn is_complete(view: &View) -> bool {
    !view.source.iter().any(|it| ApiResource::find_gateway_kind(&it.origin.kind).is_some())
}
