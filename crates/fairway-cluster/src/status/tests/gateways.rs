//! What Gateways get in a cluster: ports, Services, EndpointSlices, and the resulting placement.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway_control::engine::{Engine, EngineOutput};
use fairway_control::input::{Outlet, pipe};
use fairway_control::pipeline::Viewer;
use fairway_gateway::fleet::agreement::{ServedGateway, ServedGateways};
use fairway_gateway::{PortTransport, WantedAddress, WantedGateway};
use fairway_model::{Origin, PortProtocol};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::options::Options;
use fairway_objects::placement::{AddressKind, GatewayAddresses, Placement, PortState};
use fairway_objects::resources::Change;
use fairway_testkit::api_server::{ApiServer, Failure};
use imbl::OrdMap;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::test_cluster::{api_server, pass, requests, within};
use crate::source::Namespaces;
use crate::status::gateways::{Bindings, GatewayKeeperOptions, ReplicaClient, ServiceType};
use crate::status::publish::PublishAddresses;
use crate::status::reporter::{GatewayStatusOptions, ReporterSetup, run};
use crate::status::shared_state::ReporterState;
use crate::testing::client;

const LIST: &str = "/api/v1/namespaces/infra/configmaps/fairway-leader-gateway-ports";
const SERVICE: &str = "/api/v1/namespaces/shop/services/edge-fairway";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
const PODS: &str = "/apis/discovery.k8s.io/v1/namespaces/infra/endpointslices/fairway-gateways-1";

/// A cluster with Gateways to place.
struct GatewayFixture {
    api: ApiServer,
    viewer: Viewer,
}

/// A replica, and what it sent to its pipeline.
struct Replica {
    standing: ReporterState,
    outlet: Outlet,
    bindings: Bindings,
    placed: BTreeMap<ObjectKey, Arc<Placement>>,
    _stop: oneshot::Sender<Duration>,
    task: JoinHandle<Option<JoinHandle<()>>>,
    cut: Arc<AtomicBool>,
}

/// As if it were killed: otherwise its tasks would release the Lease.
impl Drop for Replica {
    fn drop(&mut self) {
        self.cut.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

fn gateway(name: &str, ports: &[u16]) -> (ObjectKey, Arc<WantedGateway>) {
    let gateway = WantedGateway {
        uid: format!("uid-{name}").into(),
        created: None,
        class: "fairway".into(),
        ports: ports.iter().map(|port| (*port, PortTransport::Tcp)).collect(),
        served: ports.iter().map(|port| (PortProtocol::Tcp, *port)).collect(),
        addresses: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        parameters: Some(BTreeMap::new()),
    };
    (ObjectKey::new("shop", name), Arc::new(gateway))
}

impl GatewayFixture {
    fn new() -> Self {
        let world = Self { api: api_server(), viewer: Viewer::blank() };
        world.pods(&[("one", true), ("two", true)]);
        world
    }

    /// Sets the wanted Gateways.
    fn want(&self, gateways: &[(&str, &[u16])]) {
        self.want_with(gateways, &json!({}));
    }

    /// The same with this status.
    fn want_with(&self, gateways: &[(&str, &[u16])], status: &Value) {
        self.viewer.set_outcome(Self::outcome(gateways, status));
    }

    /// The same while the source may not read a kind of the Gateway API.
    fn want_without_permission(&self, gateways: &[(&str, &[u16])]) {
        let origin = Origin { kind: "UDPRoute".into(), ..Origin::default() };
        let denied = Diagnostic::new(Severity::Error, "no-permission", origin);
        let source = [denied.because("listing udproutes is forbidden", "UDPRoutes are not served")].into();
        self.viewer.set_outcome_and_source(Self::outcome(gateways, &json!({})), source);
    }

    fn outcome(gateways: &[(&str, &[u16])], status: &Value) -> EngineOutput {
        let object = |name: &str| {
            let metadata =
                json!({ "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "generation": 1 });
            let spec = json!({ "gatewayClassName": "fairway", "listeners": [] });
            let gateway = json!({ "metadata": metadata, "spec": spec, "status": status });
            Change::Set(Object::Gateway(Arc::new(serde_json::from_value(gateway).unwrap())), None)
        };
        let mut engine = Engine::new(Options::default());
        engine.update(gateways.iter().map(|(name, _)| object(name)).collect(), 0);
        let mut outcome = engine.current().unwrap().clone();
        let wanted_gateways: OrdMap<_, _> =
            gateways.iter().map(|(name, ports)| gateway(name, ports)).collect();
        outcome.translation.gateway.wanted_gateways = wanted_gateways;
        outcome
    }

    /// The ports that were allocated before.
    fn list_ports(&self, ports: &str) {
        let metadata = json!({ "name": "fairway-leader-gateway-ports", "namespace": "infra" });
        self.api.put_at(LIST, json!({ "metadata": metadata, "data": { "ports": ports, "last": "20001" } }));
    }

    /// The EndpointSlice of Fairway's pods.
    fn pods(&self, pods: &[(&str, bool)]) {
        let endpoint = |(at, (name, ready)): (usize, &(&str, bool))| {
            json!({
                "addresses": [format!("10.0.0.{}", at + 1)],
                "conditions": { "ready": ready, "serving": true, "terminating": !ready },
                "targetRef": { "kind": "Pod", "name": name, "namespace": "infra" },
            })
        };
        let endpoints: Vec<_> = pods.iter().enumerate().map(endpoint).collect();
        let labels = json!({ "kubernetes.io/service-name": "fairway-gateways" });
        let metadata = json!({ "name": "fairway-gateways-1", "namespace": "infra", "labels": labels });
        self.api.put_at(
            PODS,
            json!({ "metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": [] }),
        );
        for (name, _) in pods {
            let pod =
                json!({ "metadata": { "name": name, "namespace": "infra", "labels": { "app": "fairway" } } });
            self.api.put_at(&format!("/api/v1/namespaces/infra/pods/{name}"), pod);
        }
    }

    fn replica(&self, name: &str) -> Replica {
        self.replica_that_asks(name, None)
    }

    fn replica_that_asks(&self, name: &str, asker: Option<ReplicaClient>) -> Replica {
        let ((inlet, outlet), standing, bindings) = (pipe(), ReporterState::default(), Bindings::default());
        let options = GatewayKeeperOptions {
            controller: "fairway.dev/gateway-controller".into(),
            pods: ObjectKey::new("infra", "fairway-gateways"),
            ports: "20000-20009".parse().unwrap(),
            service_type: ServiceType::LoadBalancer,
            bind: vec!["0.0.0.0".parse().unwrap()],
            namespaces: Namespaces::All,
            bindings: bindings.clone(),
            asker,
            inlet: inlet.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        let cut = Arc::<AtomicBool>::default();
        let setting = ReporterSetup {
            client: client(&self.api, cut.clone()),
            pod: ObjectKey::new("infra", name),
            election_id: "fairway-leader".into(),
            publish: PublishAddresses::Unset,
            viewer: self.viewer.clone(),
            standing: standing.clone(),
            gateways: Some(GatewayStatusOptions {
                versions: Arc::new(|_| Some("v1")),
                placement: Some(options),
                inlet,
            }),
            tickets: None,
        };
        let task = tokio::spawn(run(setting, stopped));
        Replica { standing, outlet, bindings, placed: BTreeMap::new(), _stop: stop, task, cut }
    }

    /// The load balancer assigns an address to the Service.
    fn balance(&self, path: &str, address: &str) {
        let mut service = self.api.object(path).unwrap();
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        self.api.put_at(path, service);
    }

    /// The `ready` conditions of the copied endpoints, and their ports.
    fn copied(&self) -> Option<(Vec<bool>, Vec<Value>)> {
        let slice = self.api.below(SLICES).into_iter().next()?;
        let endpoints = slice["endpoints"].as_array().unwrap();
        let ready = endpoints.iter().map(|it| it["conditions"]["ready"].as_bool().unwrap()).collect();
        let ports = slice["ports"].as_array().unwrap().iter().map(|port| port["port"].clone()).collect();
        Some((ready, ports))
    }
}

impl Replica {
    /// The last reported placement of a Gateway.
    fn placement(&mut self, name: &str) -> Option<Arc<Placement>> {
        while let Some(batch) = self.outlet.next(Duration::ZERO) {
            for change in batch.changes {
                match change {
                    Change::Placed { gateway, placement: Some(placement) } => {
                        self.placed.insert(gateway, placement);
                    }
                    Change::Placed { gateway, placement: None } => drop(self.placed.remove(&gateway)),
                    other => panic!("{other:?}"),
                }
            }
        }
        self.placed.get(&ObjectKey::new("shop", name)).cloned()
    }

    async fn until(&mut self, name: &str, holds: impl Fn(&Placement) -> bool) -> Arc<Placement> {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(placement) = self.placement(name).filter(|it| holds(it)) {
                return placement;
            }
            assert!(Instant::now() < end, "never: {:#?}", self.placed);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn tcp(port: u16) -> impl Iterator<Item = (PortProtocol, SocketAddr)> {
    bind(port).into_iter().map(|address| (PortProtocol::Tcp, address))
}

fn bind(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::new("0.0.0.0".parse().unwrap(), port)]
}

#[tokio::test(start_paused = true)]
async fn a_gateway_gets_ports_a_service_slices_and_an_address() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80, 443])]);
    let mut replica = world.replica("one");
    within(5, "the Service", || world.api.object(SERVICE).is_some()).await;
    let service = world.api.object(SERVICE).unwrap();
    assert_eq!(service["spec"]["ports"][1]["targetPort"], 20_001);
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "uid-edge");
    within(5, "its slices", || {
        world.copied() == Some((vec![true, true], vec![json!(20_000), json!(20_001)]))
    })
    .await;
    let placement = replica.until("edge", |it| it.ports.contains_key(&443)).await;
    assert!(matches!(placement.addresses, GatewayAddresses::Pending(_)));
    assert_eq!(placement.ports[&80].bind, bind(20_000));
    world.balance(SERVICE, "192.0.2.7");
    let assigned = |it: &Placement| matches!(&it.addresses, GatewayAddresses::Assigned(all) if &*all[0].value == "192.0.2.7");
    replica.until("edge", assigned).await;
    let writes =
        world.api.request_count("PATCH", "/services/") + world.api.request_count("POST", "/services");
    pass(600).await;
    let later = world.api.request_count("PATCH", "/services/") + world.api.request_count("POST", "/services");
    assert_eq!((writes, later), (1, 1), "only differences are written");
}

#[tokio::test(start_paused = true)]
async fn a_replica_is_placed_once_its_ports_are_bound_or_cannot_be() {
    let world = GatewayFixture::new();
    world.list_ports("shop/edge:80 20000\nshop/edge:443 20001\n");
    world.want(&[("edge", &[80, 443])]);
    let mut replica = world.replica("one");
    replica.until("edge", |it| it.ports[&80].bind == bind(20_000)).await;
    assert!(!replica.standing.has_placed_gateways());
    let failed = tcp(20_001).map(|bind| (bind, "in use".to_owned()));
    replica.bindings.publish(tcp(20_000).chain(tcp(20_001)), failed);
    let placement = replica.until("edge", |it| it.ports[&80].state == PortState::Bound).await;
    let PortState::Failed(why) = &placement.ports[&443].state else { panic!("{placement:?}") };
    assert_eq!(&**why, "0.0.0.0:20001 cannot be bound: in use");
    assert!(replica.standing.has_placed_gateways());
}

#[tokio::test(start_paused = true)]
async fn a_port_waiting_for_a_certificate_does_not_delay_readiness() {
    let world = GatewayFixture::new();
    world.list_ports("shop/edge:80 20000\nshop/edge:443 20001\n");
    let mut outcome = GatewayFixture::outcome(&[("edge", &[80, 443])], &json!({}));
    let gateway =
        outcome.translation.gateway.wanted_gateways.get_mut(&ObjectKey::new("shop", "edge")).unwrap();
    Arc::make_mut(gateway).served.remove(&(PortProtocol::Tcp, 443));
    world.viewer.set_outcome(outcome);
    let mut replica = world.replica("one");
    replica.until("edge", |it| it.ports.get(&443).is_some_and(|port| !port.bind.is_empty())).await;
    assert!(!replica.standing.has_placed_gateways(), "port 80 is not bound yet");
    replica.bindings.publish(tcp(20_000), std::iter::empty());
    within(5, "it is ready", || replica.standing.has_placed_gateways()).await;
    assert_eq!(replica.placement("edge").unwrap().ports[&443].state, PortState::Pending);
}

#[tokio::test(start_paused = true)]
async fn without_a_permission_new_gateways_are_placed_and_nothing_is_removed() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80, 443]), ("gone", &[80])]);
    let mut replica = world.replica("one");
    within(5, "the Service", || world.api.object(SERVICE).is_some()).await;
    replica.until("gone", |it| !it.ports[&80].bind.is_empty()).await;
    let ports = || world.copied().map_or(0, |(_, ports)| ports.len());
    within(5, "the copy of its endpoints", || ports() == 2).await;
    world.want_without_permission(&[("edge", &[80]), ("new", &[80])]);
    replica.until("new", |it| it.ports.get(&80).is_some_and(|port| port.bind == bind(20_003))).await;
    let new_service = "/api/v1/namespaces/shop/services/new-fairway";
    within(5, "the Service of the new one", || world.api.object(new_service).is_some()).await;
    pass(60).await;
    let list = world.api.object(LIST).unwrap();
    let listed = list["data"]["ports"].as_str().unwrap();
    assert!(listed.contains("shop/gone:80 20002\n") && listed.contains("shop/edge:443 20001\n"), "{listed}");
    let ports = world.api.object(SERVICE).unwrap()["spec"]["ports"].as_array().unwrap().len();
    assert_eq!(ports, 2, "the listener may be of a ListenerSet that cannot be read");
    assert_eq!(world.copied().unwrap().1.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn with_invalid_parameters_a_service_stays_and_none_is_created() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80])]);
    let _replica = world.replica("one");
    within(5, "the Service", || world.api.object(SERVICE).is_some()).await;
    let before = world.api.object(SERVICE);
    let mut outcome = GatewayFixture::outcome(&[("edge", &[80]), ("new", &[80])], &json!({}));
    for name in ["edge", "new"] {
        let gateway =
            outcome.translation.gateway.wanted_gateways.get_mut(&ObjectKey::new("shop", name)).unwrap();
        let gateway = Arc::make_mut(gateway);
        gateway.parameters = None;
        // Another address means another Service.
        let value = Some("192.0.2.9".into());
        gateway.addresses = vec![WantedAddress { kind: AddressKind::Ip, value }];
    }
    world.viewer.set_outcome(outcome);
    pass(600).await;
    assert_eq!(world.api.object(SERVICE), before);
    assert_eq!(world.api.request_count("POST", "/services"), 1, "that of before");
}

#[tokio::test(start_paused = true)]
async fn without_gateways_a_replica_waits_for_nothing() {
    let world = GatewayFixture::new();
    world.want(&[]);
    let replica = world.replica("one");
    within(1, "placed", || replica.standing.has_placed_gateways()).await;
    pass(60).await;
    assert!(world.api.object(LIST).is_none(), "there is nothing to note");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_allocates_ports_and_all_replicas_use_the_same() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80])]);
    let mut leader = world.replica("one");
    within(5, "it leads", || leader.standing.is_leader()).await;
    let mut other = world.replica("two");
    world.want(&[("edge", &[80]), ("more", &[80])]);
    let first = leader.until("more", |it| !it.ports[&80].bind.is_empty()).await;
    let second = other.until("more", |it| !it.ports[&80].bind.is_empty()).await;
    assert_eq!(first.ports, second.ports);
    assert!(!other.standing.is_leader());
    let posts = world.api.request_count("POST", "/namespaces/shop/services");
    assert_eq!(posts, 2, "each Service is made once");
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_keeps_the_ports() {
    let world = GatewayFixture::new();
    world.want(&[("a", &[80]), ("edge", &[80])]);
    let mut first = world.replica("one");
    first.until("edge", |it| it.ports[&80].bind == bind(20_001)).await;
    drop(first);
    world.want(&[("edge", &[80])]);
    let mut second = world.replica("two");
    within(60, "it leads", || second.standing.is_leader()).await;
    pass(5).await;
    assert_eq!(second.placement("edge").unwrap().ports[&80].bind, bind(20_001));
    let list = world.api.object(LIST).unwrap();
    assert_eq!(list["data"]["ports"], "shop/edge:80 20001\n", "what nobody wants is free");
}

#[tokio::test(start_paused = true)]
async fn a_draining_pod_leaves_the_slices_even_without_a_leader() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80])]);
    let leader = world.replica("one");
    within(5, "its slices", || world.copied().is_some()).await;
    let other = world.replica("two");
    pass(2).await;
    // The leader is killed: its Lease stays valid for some time, and Kubernetes sees that its pod ends.
    drop(leader);
    world.pods(&[("one", false), ("two", true)]);
    let started = Instant::now();
    within(5, "the copy", || world.copied().is_some_and(|(ready, _)| ready == [false, true])).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(!other.standing.is_leader(), "long before another one leads");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_service_is_not_touched_and_is_named() {
    let world = GatewayFixture::new();
    let theirs =
        json!({ "metadata": { "name": "edge-fairway", "namespace": "shop", "uid": "x" }, "spec": {} });
    world.api.put_at(SERVICE, theirs);
    world.want(&[("edge", &[80])]);
    let mut replica = world.replica("one");
    let named = |it: &Placement| matches!(&it.addresses, GatewayAddresses::Pending(why) if why.contains("does not belong"));
    replica.until("edge", named).await;
    pass(600).await;
    let tries = world.api.request_count("POST", "/namespaces/shop/services");
    assert!((2..=20).contains(&tries), "{tries} tries in ten minutes");
    assert_eq!(world.api.object(SERVICE).unwrap()["metadata"]["uid"], "x");
}

#[tokio::test(start_paused = true)]
async fn an_edited_service_is_restored_and_never_leads_to_a_foreign_port() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80]), ("other", &[80])]);
    let _replica = world.replica("one");
    within(5, "the slices", || world.api.below(SLICES).len() == 2).await;
    let mut service = world.api.object(SERVICE).unwrap();
    service["spec"]["ports"][0]["targetPort"] = json!(20_001);
    world.api.put_at(SERVICE, service);
    let target = || world.api.object(SERVICE).unwrap()["spec"]["ports"][0]["targetPort"].clone();
    within(5, "mended", || target() == 20_000).await;
    let of_edge = |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "edge-fairway";
    let slices = world.api.below(SLICES);
    let slice = slices.iter().find(|slice| of_edge(slice)).unwrap();
    assert_eq!(slice["ports"][0]["port"], 20_000);
}

#[tokio::test(start_paused = true)]
async fn the_port_of_a_deleted_gateway_is_freed() {
    let world = GatewayFixture::new();
    world.want(&[("edge", &[80])]);
    let mut replica = world.replica("one");
    replica.until("edge", |it| !it.ports[&80].bind.is_empty()).await;
    world.want(&[]);
    within(5, "freed", || world.api.object(LIST).unwrap()["data"]["ports"] == "").await;
    pass(1).await;
    assert!(replica.placement("edge").is_none());
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_do_not_stop_a_replica_from_serving_the_rest() {
    let world = GatewayFixture::new();
    world.api.fail(Failure::Forbidden, requests("GET", "/configmaps"));
    world.want(&[("edge", &[80])]);
    let mut replica = world.replica("one");
    within(30, "it goes on without Gateways", || replica.standing.has_placed_gateways()).await;
    let is_denied = |it: &Placement| matches!(&it.addresses, GatewayAddresses::Pending(why) if why.contains("may not be read"));
    replica.until("edge", is_denied).await;
}

/// The current and later responses of the other replica.
type Answers = Arc<Mutex<Option<ServedGateways>>>;

fn asker(responses: &Answers) -> ReplicaClient {
    let responses = responses.clone();
    ReplicaClient::from_query(Arc::new(move |ip| {
        assert_eq!(ip.to_string(), "10.0.0.2", "nobody asks itself");
        let response = responses.lock().unwrap().clone();
        Box::pin(async move { response })
    }))
}

fn serving(generation: i64, ports: &[u16]) -> Option<ServedGateways> {
    let bound = ports.iter().flat_map(|port| bind(*port)).collect();
    let served = ServedGateway { uid: "uid-edge".to_owned(), generation, bound, ..ServedGateway::default() };
    Some([(ObjectKey::new("shop", "edge"), served)].into())
}

#[tokio::test(start_paused = true)]
async fn a_gateway_is_programmed_once_every_ready_replica_has_bound_its_ports() {
    let (world, answers) = (GatewayFixture::new(), Answers::default());
    *answers.lock().unwrap() = Some(ServedGateways::new());
    world.want(&[("edge", &[80])]);
    let mut leader = world.replica_that_asks("one", Some(asker(&answers)));
    leader.until("edge", |it| it.ports[&80].bind == bind(20_000)).await;
    leader.bindings.publish(tcp(20_000), std::iter::empty());
    for (answer, what) in [
        (Some(ServedGateways::new()), "the other one has not read it"),
        (serving(0, &[20_000]), "it has read an earlier generation"),
        (serving(1, &[20_001]), "it has bound something else"),
    ] {
        *answers.lock().unwrap() = answer;
        pass(2).await;
        assert_eq!(leader.placement("edge").unwrap().ports[&80].state, PortState::Pending, "{what}");
    }
    assert!(leader.standing.has_placed_gateways(), "no replica waits for another one to be ready");
    *answers.lock().unwrap() = serving(1, &[20_000]);
    leader.until("edge", |it| it.ports[&80].state == PortState::Bound).await;
    *answers.lock().unwrap() = Some(ServedGateways::new());
    pass(60).await;
    let later = leader.placement("edge").unwrap();
    assert_eq!(
        later.ports[&80].state,
        PortState::Bound,
        "a replica that comes is not ready before it serves it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_never_responds_delays_a_gateway_only_for_a_while() {
    let (world, answers) = (GatewayFixture::new(), Answers::default());
    world.want(&[("edge", &[80])]);
    let mut leader = world.replica_that_asks("one", Some(asker(&answers)));
    leader.until("edge", |it| it.ports[&80].bind == bind(20_000)).await;
    leader.bindings.publish(tcp(20_000), std::iter::empty());
    pass(1).await;
    assert_eq!(leader.placement("edge").unwrap().ports[&80].state, PortState::Pending);
    leader.until("edge", |it| it.ports[&80].state == PortState::Bound).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_trusts_the_status_of_this_generation() {
    let (world, answers) = (GatewayFixture::new(), Answers::default());
    *answers.lock().unwrap() = Some(ServedGateways::new());
    let list = json!({ "ports": "shop/edge:80 20000\n", "last": "20000" });
    let metadata = json!({ "name": "fairway-leader-gateway-ports", "namespace": "infra" });
    world.api.put_at(LIST, json!({ "metadata": metadata, "data": list }));
    let condition = json!({
        "type": "Programmed", "status": "True", "observedGeneration": 1, "reason": "Programmed", "message": "",
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    });
    world.want_with(&[("edge", &[80])], &json!({ "conditions": [condition] }));
    let mut replica = world.replica_that_asks("one", Some(asker(&answers)));
    replica.bindings.publish(tcp(20_000), std::iter::empty());
    within(60, "it leads", || replica.standing.is_leader()).await;
    pass(5).await;
    assert_eq!(replica.placement("edge").unwrap().ports[&80].state, PortState::Bound);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_emptied_port_list_is_restored() {
    let world = GatewayFixture::new();
    world.want(&[("a", &[80]), ("edge", &[80])]);
    let mut leader = world.replica("one");
    leader.until("edge", |it| it.ports[&80].bind == bind(20_001)).await;
    let mut other = world.replica("two");
    other.until("edge", |it| it.ports[&80].bind == bind(20_001)).await;
    world.want(&[("edge", &[80])]);
    let listed = || world.api.object(LIST).map(|list| list["data"]["ports"].clone());
    let as_it_was = || listed() == Some(json!("shop/edge:80 20001\n"));
    within(5, "what nobody wants is freed", as_it_was).await;
    pass(10).await;
    world.api.delete_at(LIST);
    within(5, "it is back", as_it_was).await;
    let metadata = json!({ "name": "fairway-leader-gateway-ports", "namespace": "infra" });
    world.api.put_at(LIST, json!({ "metadata": metadata }));
    within(5, "it is full again", as_it_was).await;
    pass(10).await;
    for replica in [&mut leader, &mut other] {
        assert_eq!(replica.placement("edge").unwrap().ports[&80].bind, bind(20_001));
    }
}
