//! Does what is missing of what Gateways have, and tells the pipeline where they are. Owns who does what and when: the leader gives
//! ports and writes Services; every replica copies the slices of the pods, the first ready one at once, so that a drain needs no
//! leader.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::inlet::Inlet;
use fairway_control::pipeline::View;
use fairway_gateway::WantedGateway;
use fairway_gateway::fleet::agreement::{ServedGateway, ServedGateways};
use fairway_gateway::fleet::places::Known;
use fairway_gateway::fleet::ports::{PortRange, Ports};
use fairway_gateway::fleet::services::{self, DesiredService, ServiceEdit, ServiceType};
use fairway_gateway::fleet::slices::{self, SliceEdit};
use fairway_model::PortProtocol;
use fairway_objects::gateway_api::Gateway;
use fairway_objects::kinds::ApiResource;
use fairway_objects::object::ObjectKey;
use fairway_objects::placement::{Addresses, Placement, PortPlacement, PortState};
use fairway_objects::resources::{Change, Resources};
use imbl::OrdMap;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::bindings::Bindings;
use super::edits::{Edits, Failure};
use super::efforts::{ECHO, Efforts, Task};
use super::plan::{Plan, Slices, by_service, in_order, owner, slice_edits, takes_away, versions_of};
use super::replicas::{Asker, Replicas, Sight};
use super::sources::{Places, Sources};
use crate::source::Namespaces;
use crate::status::election::Role;
use crate::status::permission::Refusals;
use crate::status::standing::Standing;
use crate::status::updates::Updates;

/// A replica that is not the first one waits so long for each one before it.
const TURN: Duration = Duration::from_millis(500);
const UNKNOWN: &str = "the Services of Gateways, or the list of their ports, may not be read";
const TAKEN: &str = "a Service of this name is there that does not belong to the Gateway";

/// What Gateways get.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// The `spec.controllerName` of the classes that are served.
    pub controller: Arc<str>,
    /// The headless Service whose endpoints are Fairway's pods.
    pub pods: ObjectKey,
    /// The ports of the pods that Gateways may have.
    pub ports: PortRange,
    /// The type of their Services.
    pub service_type: ServiceType,
    /// The addresses that their ports are bound at.
    pub bind: Vec<IpAddr>,
    /// Where they are served.
    pub namespaces: Namespaces,
    /// What the data plane has bound.
    pub bindings: Bindings,
    /// How other replicas are asked what they serve; without it none is.
    pub asker: Option<Asker>,
    /// The way into the pipeline.
    pub inlet: Inlet,
}

/// What the keeper listens to.
pub(in crate::status) struct Signals {
    pub(in crate::status) updates: Updates,
    pub(in crate::status) role: watch::Receiver<Role>,
}

/// Keeps what Gateways have.
pub(in crate::status) struct Keeper {
    options: PlaceOptions,
    /// The list of ports.
    list: ObjectKey,
    /// This pod.
    own: Arc<str>,
    edits: Edits,
    sources: Sources,
    standing: Standing,
    /// What this process wrote, until the watch of it has come so far.
    written: Option<Written>,
    /// The ports as they were listed last: they count while there is no list, because somebody has deleted it.
    known: Ports,
    replicas: Replicas,
    placed: BTreeMap<ObjectKey, Arc<Placement>>,
    efforts: Efforts,
    /// Since when the slices of a Service differ.
    differing: BTreeMap<ObjectKey, Instant>,
}

/// The list of ports as it was written, and when.
struct Written {
    map: ConfigMap,
    at: Instant,
}

/// What this replica may do.
#[derive(Clone, Copy)]
struct Part {
    leads: bool,
    /// Whether all that says what Gateways want is known. Otherwise nothing is freed or deleted.
    knows_all: bool,
}

impl Keeper {
    pub(in crate::status) fn new(
        client: Client,
        own: &ObjectKey,
        election_id: &str,
        refusals: Arc<Refusals>,
        standing: Standing,
        options: PlaceOptions,
    ) -> Self {
        let list = ObjectKey::new(&own.namespace, &format!("{election_id}-gateway-ports"));
        let places = Places { list: &list, pods: &options.pods, namespaces: &options.namespaces };
        let sources = Sources::follow(client.clone(), refusals.clone(), &places);
        Self {
            edits: Edits::new(client, refusals),
            sources,
            list,
            replicas: Replicas::new(options.asker.clone(), own.name.clone()),
            own: own.name.clone(),
            standing,
            options,
            written: None,
            known: Ports::default(),
            placed: BTreeMap::new(),
            efforts: Efforts::default(),
            differing: BTreeMap::new(),
        }
    }

    /// Keeps it until it is given up.
    pub(in crate::status) async fn run(mut self, mut signals: Signals) {
        loop {
            let bound = self.options.bindings.changes();
            if let Some(view) = signals.updates.view() {
                let leads = *signals.role.borrow_and_update() == Role::Leader;
                self.efforts.begin();
                if self.sources.are_listed() {
                    self.look(&view, Part { leads, knows_all: is_complete(&view) }).await;
                } else if self.sources.are_refused() {
                    self.place_nowhere(&view);
                    self.standing.gateways_placed();
                } else if view.outcome.translation.gateway.wanted.is_empty() {
                    self.standing.gateways_placed();
                }
            }
            let bell = self.sources.bell.clone();
            let again = self.efforts.again();
            tokio::select! {
                () = signals.updates.next() => {}
                () = bell.notified() => {}
                () = bound => {}
                () = self.replicas.answer() => {}
                Ok(()) = signals.role.changed() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
        }
    }

    async fn look(&mut self, view: &View, part: Part) {
        let (wanted, resources) = (&view.outcome.translation.gateway.wanted, &view.outcome.resources);
        let ports = self.ports(wanted, part).await;
        let http3 = view.outcome.snapshot.http3_ports().collect();
        let plan = Plan::of(wanted.clone(), ports, &http3, self.options.service_type);
        if part.leads {
            self.keep_services(&plan, part.knows_all).await;
        }
        if part.leads && part.knows_all {
            self.delete_services(&plan, resources).await;
        }
        self.keep_slices(&plan, resources, part).await;
        self.place(&plan, resources, part.leads);
    }

    /// The list of ports; the leader gives what is missing, and writes back a list that somebody has deleted or emptied.
    async fn ports(&mut self, wanted: &OrdMap<ObjectKey, Arc<WantedGateway>>, part: Part) -> Ports {
        let (seen, now) = (self.sources.list(), Instant::now());
        self.written.take_if(|it| it.is_seen(seen.as_deref()) || now >= it.at + ECHO);
        self.written.iter().for_each(|it| self.efforts.look_again(it.at + ECHO));
        let current = self.written.as_ref().map(|it| &it.map).or(seen.as_deref()).cloned();
        let data = current.as_ref().and_then(|map| map.data.as_ref());
        let listed = data.and_then(Ports::listed);
        let is_lost = listed.is_none() && !self.known.is_empty();
        let given = listed.unwrap_or_else(|| self.known.clone());
        self.known.clone_from(&given);
        let mut settled = given.clone();
        let differs = settled.settle(in_order(wanted).into_iter(), part.knows_all, self.options.ports);
        if !part.leads || !(differs || is_lost) || self.efforts.must_wait(&Task::List, "", now) {
            return given;
        }
        match self.edits.list(&self.list, current.as_ref(), settled.data()).await {
            Ok(map) => {
                self.efforts.is_good(&Task::List);
                self.written = Some(Written { map, at: Instant::now() });
                self.known.clone_from(&settled);
                settled
            }
            Err(failure) => {
                // Somebody else wrote or deleted it: the watch knows better.
                self.written = None;
                self.efforts.failed(Task::List, &failure, Instant::now());
                given
            }
        }
    }

    /// Makes and changes the Services of Gateways. A port that somebody may still want stays.
    async fn keep_services(&mut self, plan: &Plan, knows_all: bool) {
        let existing = self.sources.services();
        for (gateway, desired) in &plan.services {
            let Some(wanted) = plan.wanted.get(gateway) else { continue };
            for service in desired {
                let found = existing.get(&service.key);
                if knows_all || !found.is_some_and(|it| takes_away(it, service)) {
                    self.keep_service(service, found, &wanted.uid).await;
                }
            }
        }
        let desired = |key: &ObjectKey| plan.services.values().flatten().any(|service| service.key == *key);
        self.efforts.problems.retain(|key, _| desired(key));
    }

    /// Deletes the Services that Gateways no longer need.
    async fn delete_services(&mut self, plan: &Plan, resources: &Resources) {
        let (existing, controller) = (self.sources.services(), self.options.controller.clone());
        for (key, service) in &existing {
            let (task, seen) = (Task::Service(key.clone()), version(Some(&service.metadata)));
            if !plan.is_needless(key, service, resources, &controller)
                || self.efforts.must_wait(&task, &seen, Instant::now())
            {
                continue;
            }
            match self.edits.delete_service(key, service).await {
                Ok(()) => self.efforts.wrote(task, seen, Instant::now()),
                Err(failure) => self.efforts.failed(task, &failure, Instant::now()),
            }
        }
    }

    async fn keep_service(&mut self, desired: &DesiredService, existing: Option<&Arc<Service>>, uid: &str) {
        let key = &desired.key;
        let (task, seen) = (Task::Service(key.clone()), version(existing.map(|it| &it.metadata)));
        if self.efforts.must_wait(&task, &seen, Instant::now()) {
            return;
        }
        let answer = match services::edit(existing.map(|it| &**it), desired, uid) {
            ServiceEdit::Nothing => {
                self.efforts.is_good(&task);
                return;
            }
            ServiceEdit::Foreign => Err(Failure::Exists),
            ServiceEdit::Create(service) => self.edits.create_service(key, &service).await,
            ServiceEdit::Patch(patch) => self.edits.patch_service(key, &patch).await,
        };
        match answer {
            Ok(()) => {
                self.efforts.problems.remove(key);
                self.efforts.wrote(task, seen, Instant::now());
            }
            Err(failure) => {
                let problem: Option<Arc<str>> = match &failure {
                    Failure::Exists => Some(TAKEN.into()),
                    Failure::Refused(message) => {
                        Some(format!("the Service {key} cannot be written: {message}").into())
                    }
                    Failure::Overtaken | Failure::NoAnswer => None,
                };
                if let Some(problem) = problem {
                    self.efforts.problems.insert(key.clone(), problem);
                }
                self.efforts.failed(task, &failure, Instant::now());
            }
        }
    }

    /// Copies the slices of the pods to the Services of Gateways, when it is this replica's turn.
    async fn keep_slices(&mut self, plan: &Plan, resources: &Resources, part: Part) {
        let (pods, services) = (self.sources.pods(), self.sources.services());
        let (copies, no_copies) = (by_service(self.sources.copies()), Slices::new());
        let now = Instant::now();
        let wait = TURN * u32::try_from(slices::rank(pods.iter().map(|it| &**it), &self.own)).unwrap_or(60);
        let mut differing = BTreeMap::new();
        for (key, service) in &services {
            let own = copies.get(key).unwrap_or(&no_copies);
            let edits = match plan.desired(key, service) {
                Some(desired) if !part.knows_all && takes_away(service, desired) => continue,
                Some(desired) => slice_edits(service, Some(desired), &pods, own),
                // The ports may soon be those of another Gateway.
                None if part.knows_all && owner(key, service, resources).is_some() => {
                    slice_edits(service, None, &pods, own)
                }
                None => continue,
            };
            if edits.is_empty() {
                continue;
            }
            let since = self.differing.get(key).copied().unwrap_or(now);
            differing.insert(key.clone(), since);
            let (task, seen) = (Task::Slices(key.clone()), versions_of(own));
            if now < since + wait {
                self.efforts.look_again(since + wait);
            } else if !self.efforts.must_wait(&task, &seen, now) {
                self.write_slices(task, seen, &edits).await;
            }
        }
        self.differing = differing;
    }

    async fn write_slices(&mut self, task: Task, seen: String, edits: &[SliceEdit]) {
        for edit in edits {
            match self.edits.slice(edit).await {
                // Another replica was faster: its watch event is on its way.
                Ok(()) | Err(Failure::Overtaken | Failure::Exists) => {}
                Err(failure) => return self.efforts.failed(task, &failure, Instant::now()),
            }
        }
        self.efforts.wrote(task, seen, Instant::now());
    }

    /// Tells the pipeline where Gateways are, where that is different.
    fn place(&mut self, plan: &Plan, resources: &Resources, leads: bool) {
        let services = self.sources.services();
        let bound =
            |protocol: PortProtocol, address: SocketAddr| self.options.bindings.state((protocol, address));
        let known = Known {
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
        let mut now: BTreeMap<_, _> = plan.wanted.iter().map(placement).collect();
        // The own ports alone decide whether this replica is ready: otherwise replicas would wait for each other.
        if now.iter().all(|(gateway, placement)| is_settled(&plan.wanted[gateway], placement)) {
            self.standing.gateways_placed();
        }
        match leads {
            true => self.wait_for_all(&mut now, resources),
            false => self.replicas.follow(),
        }
        self.tell(now);
    }

    /// Tells the pipeline that nobody can say where Gateways are, for their status.
    fn place_nowhere(&mut self, view: &View) {
        let nowhere =
            Arc::new(Placement { addresses: Addresses::Pending(UNKNOWN.into()), ..Placement::default() });
        let wanted = view.outcome.translation.gateway.wanted.keys().cloned();
        self.tell(wanted.map(|gateway| (gateway, nowhere.clone())).collect());
    }

    fn tell(&mut self, now: BTreeMap<ObjectKey, Arc<Placement>>) {
        let before = std::mem::replace(&mut self.placed, now);
        for (gateway, placement) in &self.placed {
            if before.get(gateway) != Some(placement) {
                let placement = Some(placement.clone());
                self.options.inlet.change(Change::Placed { gateway: gateway.clone(), placement });
            }
        }
        for gateway in before.into_keys().filter(|gateway| !self.placed.contains_key(gateway)) {
            self.options.inlet.change(Change::Placed { gateway, placement: None });
        }
    }

    /// Where another ready replica does not serve a Gateway yet, its ports are pending: clients may meet that replica.
    fn wait_for_all(&mut self, placed: &mut BTreeMap<ObjectKey, Arc<Placement>>, resources: &Resources) {
        let gateways = &resources.gateway.gateways;
        let served: ServedGateways = placed
            .iter()
            .filter_map(|(key, placement)| {
                Some((key.clone(), served(&gateways.get(key)?.object, placement)?))
            })
            .collect();
        let programmed =
            |key: &ObjectKey| gateways.get(key).is_some_and(|gateway| is_programmed(&gateway.object));
        let pods = self.sources.pods();
        let sight = Sight { served: &served, programmed: &programmed, pods: &pods };
        for key in self.replicas.behind(&sight, &mut self.efforts) {
            let Some(placement) = placed.get_mut(&key).map(Arc::make_mut) else { continue };
            let all = placement.ports.values_mut().chain(placement.datagram_ports.values_mut());
            let bound = all.filter(|port| port.state == PortState::Bound);
            bound.for_each(|port| port.state = PortState::Pending);
        }
    }
}

impl Written {
    /// Whether the watch has come so far.
    fn is_seen(&self, seen: Option<&ConfigMap>) -> bool {
        let version = |map: &ConfigMap| map.metadata.resource_version.as_deref()?.parse::<u64>().ok();
        seen.is_some_and(|seen| version(seen) >= version(&self.map))
    }
}

/// A Gateway as this replica serves it, once a port of it is bound.
fn served(gateway: &Gateway, placement: &Placement) -> Option<ServedGateway> {
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

/// Whether its status says so of this generation: an earlier leader asked all replicas.
fn is_programmed(gateway: &Gateway) -> bool {
    let conditions = gateway.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.type_ == "Programmed"
            && condition.status == "True"
            && condition.observed_generation == gateway.metadata.generation
    })
}

/// Whether the ports at which listeners are served are bound, or cannot be. Nothing binds the others: they would be awaited for ever.
fn is_settled(wanted: &WantedGateway, placement: &Placement) -> bool {
    let mut served = wanted.served.iter().filter_map(|(protocol, number)| placement.port(*protocol, *number));
    served.all(|port| port.bind.is_empty() || port.state != PortState::Pending)
}

/// The version of an object; empty where there is none.
fn version(metadata: Option<&ObjectMeta>) -> String {
    metadata.and_then(|metadata| metadata.resource_version.clone()).unwrap_or_default()
}

/// Whether all that says what Gateways want is known: what is missing only because it may not be read takes nothing away.
fn is_complete(view: &View) -> bool {
    !view.source.iter().any(|it| ApiResource::of_gateways(&it.origin.kind).is_some())
}
