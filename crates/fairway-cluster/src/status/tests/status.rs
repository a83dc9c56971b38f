//! The status of Ingresses, and how often it is written.

use std::time::Duration;

use fairway_control::pipeline::Viewer;
use fairway_objects::object::ObjectKey;
use fairway_testkit::api_server::{Failure, Network};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, pass, requests, within};
use crate::status::{NodeAddresses, PublishAddresses, Reporter, ReporterOptions, StatusMode};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/a/events";
const SERVICE: &str = "/api/v1/namespaces/infra/services/edge";

fn balancer(entries: &Value) -> Value {
    json!({
        "metadata": { "name": "edge", "namespace": "infra" }, "spec": { "type": "LoadBalancer" },
        "status": { "loadBalancer": { "ingress": entries } }
    })
}

#[tokio::test(start_paused = true)]
async fn served_ingresses_get_the_addresses_in_one_write() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.ingress("other", "someone-else");
    let _replica = world.replica("one", &["lb.example", "192.0.2.2", "192.0.2.1"]);
    within(2, "written", || world.status("web") == ["192.0.2.1", "192.0.2.2", "lb.example"]).await;
    assert!(world.status("other").is_empty());
    pass(600).await;
    assert_eq!(world.api.status_writes(), 1, "only differences are written");
    world.ingress("late", "fairway");
    within(1, "a new one too", || world.status("late").len() == 3).await;
    assert_eq!(world.api.status_writes(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_correct_status_is_not_written() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.other_writes("web", "192.0.2.1");
    let replica = world.replica("one", &["192.0.2.1"]);
    within(1, "it leads", || replica.standing.is_leader()).await;
    pass(60).await;
    assert_eq!(world.api.status_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes() {
    let world = TestCluster::new();
    let first = world.replica("one", &["192.0.2.1"]);
    within(1, "the first leads", || first.standing.is_leader()).await;
    let second = world.replica("two", &["192.0.2.99"]);
    for name in ["a", "b", "c"] {
        world.ingress(name, "fairway");
        within(1, name, || world.status(name) == ["192.0.2.1"]).await;
    }
    pass(60).await;
    assert_eq!(world.api.status_writes(), 3);
    assert!(second.standing.metrics_text().contains("fairway_status_writes_total 0\n"));
}

#[tokio::test(start_paused = true)]
async fn many_ingresses_are_written_soon_and_with_one_request_each() {
    let world = TestCluster::new();
    for at in 0..500 {
        world.ingress(&format!("web-{at}"), "fairway");
    }
    let _replica = world.replica("one", &["192.0.2.1"]);
    within(30, "all are written", || (0..500).all(|at| world.status(&format!("web-{at}")) == ["192.0.2.1"]))
        .await;
    assert_eq!(world.api.status_writes(), 500);
}

#[tokio::test(start_paused = true)]
async fn the_addresses_of_the_publish_service_are_followed() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let publish = PublishAddresses::Service(ObjectKey::new("infra", "edge"));
    let _replica = world.replica_with("one", publish);
    pass(30).await;
    assert_eq!(world.api.status_writes(), 0, "no Service, no word");
    world.api.put_at(SERVICE, balancer(&json!([])));
    pass(30).await;
    assert_eq!(world.api.status_writes(), 0, "no address yet, no word");
    world.api.put_at(SERVICE, balancer(&json!([{ "ip": "192.0.2.7" }, { "hostname": "lb.example" }])));
    within(2, "its address", || world.status("web") == ["192.0.2.7", "lb.example"]).await;
    world.api.put_at(SERVICE, balancer(&json!([{ "ip": "192.0.2.8" }])));
    within(2, "its next address", || world.status("web") == ["192.0.2.8"]).await;
}

fn node(name: &str, addresses: &Value) -> (String, Value) {
    let node = json!({ "metadata": { "name": name }, "status": { "addresses": addresses } });
    (format!("/api/v1/nodes/{name}"), node)
}

#[tokio::test(start_paused = true)]
async fn the_addresses_of_the_nodes_with_ready_pods_are_followed() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let both = json!([{ "type": "InternalIP", "address": "10.0.0.1" }, { "type": "ExternalIP", "address": "192.0.2.1" }]);
    let internal = json!([{ "type": "InternalIP", "address": "10.0.0.2" }]);
    for (path, node) in [node("a", &both), node("b", &internal)] {
        world.api.put_at(&path, node);
    }
    world.pod_on("one", "a", false);
    let replica = world.replica_with("one", PublishAddresses::Nodes(NodeAddresses::External));
    pass(60).await;
    assert_eq!(world.api.status_writes(), 0, "no pod is ready, no word");
    world.pod_on("one", "a", true);
    within(20, "its node", || world.status("web") == ["192.0.2.1"]).await;
    world.pod_on("two", "b", true);
    within(20, "the node of the other one", || world.status("web") == ["10.0.0.2", "192.0.2.1"]).await;
    world.pod_on("two", "b", false);
    within(20, "only nodes with a ready pod", || world.status("web") == ["192.0.2.1"]).await;
    world.api.delete_at("/api/v1/namespaces/infra/pods/two");
    replica.stop(Duration::from_secs(5)).await;
    assert_eq!(world.status("web"), [""; 0], "the last one clears");
}

#[tokio::test(start_paused = true)]
async fn without_addresses_the_lease_is_held_and_status_not_touched() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.other_writes("web", "192.0.2.50");
    let replica = world.replica_with("one", PublishAddresses::Unset);
    within(1, "it leads", || replica.standing.is_leader()).await;
    pass(30).await;
    replica.stop(Duration::from_secs(5)).await;
    assert_eq!(world.api.status_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_ingress_of_another_class_loses_only_our_addresses() {
    let world = TestCluster::new();
    for name in ["web", "taken"] {
        world.ingress(name, "fairway");
    }
    let _replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1 && world.status("taken").len() == 1).await;
    world.ingress("web", "someone-else");
    world.ingress("taken", "someone-else");
    world.other_writes("taken", "192.0.2.50");
    within(10, "ours is gone", || world.status("web").is_empty()).await;
    pass(60).await;
    assert_eq!(world.status("taken"), ["192.0.2.50"]);
    assert_eq!(world.api.status_writes(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_ingress_that_is_deleted_is_not_written() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let _replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1).await;
    world.api.delete_at("/apis/networking.k8s.io/v1/namespaces/a/ingresses/web");
    pass(60).await;
    assert_eq!(world.api.status_writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_replica_clears_status_when_it_leaves() {
    let world = TestCluster::new();
    for name in ["web", "api"] {
        world.ingress(name, "fairway");
    }
    world.pod("gone", &json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
    let replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1 && world.status("api").len() == 1).await;
    let took = replica.stop(Duration::from_secs(10)).await;
    assert!(world.status("web").is_empty() && world.status("api").is_empty());
    assert_eq!(world.holder().as_deref(), Some(""));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn status_stays_while_another_replica_runs() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.pod("two", &json!({}));
    let replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1).await;
    replica.stop(Duration::from_secs(10)).await;
    assert_eq!(world.status("web"), ["192.0.2.1"]);
    assert_eq!(world.holder().as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn the_last_replica_leads_in_time_if_it_leaves_just_after_the_leader() {
    // Followers try to get the Lease at random times.
    for _ in 0..50 {
        let world = TestCluster::new();
        world.ingress("web", "fairway");
        let leader = world.replica("one", &["192.0.2.1"]);
        within(2, "written", || world.status("web").len() == 1).await;
        let last = world.replica("two", &["192.0.2.1"]);
        pass(1).await;
        world.pod("one", &json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }));
        leader.stop(Duration::from_secs(5)).await;
        assert_eq!(world.status("web"), ["192.0.2.1"], "the other replica was there");
        let took = last.stop(Duration::from_secs(5)).await;
        assert!(world.status("web").is_empty());
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_stays_if_the_remaining_replicas_are_unknown() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.api.fail(Failure::Forbidden, requests("GET", "/pods"));
    let replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1).await;
    replica.stop(Duration::from_secs(10)).await;
    assert_eq!(world.status("web"), ["192.0.2.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stops_knows_whether_its_pod_is_deleted() {
    const OWN_POD: &str = "/api/v1/namespaces/infra/pods/one";
    let deleted = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    type Happening<'a> = &'a dyn Fn(&TestCluster);
    let cases: [(&str, bool, Happening<'_>); 4] = [
        ("only the container stops", false, &|_| {}),
        ("the pod is deleted", true, &|world| world.pod("one", &deleted)),
        ("the pod is gone already", true, &|world| world.api.delete_at(OWN_POD)),
        ("nobody says", false, &|world| {
            world.pod("one", &deleted);
            world.api.fail(Failure::Forbidden, requests("GET", "/pods/one"));
        }),
    ];
    for (case, is_deleted, happen) in cases {
        let world = TestCluster::new();
        let replica = world.replica("one", &["192.0.2.1"]);
        pass(1).await;
        let standing = replica.standing.clone();
        assert!(!standing.pod_is_deleted(), "{case}");
        happen(&world);
        replica.stop(Duration::from_secs(5)).await;
        assert_eq!(standing.pod_is_deleted(), is_deleted, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_respects_its_timeout_if_the_api_server_is_silent() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1).await;
    world.api.set_network(Network::Silent);
    let took = replica.stop(Duration::from_secs(5)).await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_between_writers_backs_off_and_names_the_other() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web") == ["192.0.2.1"]).await;
    for _ in 0..3 {
        world.other_writes("web", "192.0.2.50");
        within(30, "written again", || world.status("web") == ["192.0.2.1"]).await;
    }
    let diagnostics = replica.standing.diagnostics();
    assert_eq!(diagnostics.len(), 1);
    let message = diagnostics[0].to_string();
    assert!(
        message.contains("Ingress a/web status.loadBalancer: field manager \"nginx-ingress-controller\""),
        "{message}"
    );
    let event = || world.api.below(EVENTS).into_iter().find(|event| event["reason"] == "ContestedStatus");
    within(5, "an Event says so", || event().is_some_and(|event| event["note"] == message)).await;
    let before = world.api.status_writes();
    for _ in 0..3600 {
        if world.status("web") == ["192.0.2.1"] {
            world.other_writes("web", "192.0.2.50");
        }
        pass(1).await;
    }
    let writes = world.api.status_writes() - before;
    assert!((3..=9).contains(&writes), "{writes} writes in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_namespace_affects_no_other_and_recovers() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    for verb in ["PATCH", "PUT"] {
        world.api.fail(Failure::Forbidden, requests(verb, "/namespaces/a/ingresses"));
    }
    let replica = world.replica("one", &["192.0.2.1"]);
    within(1, "it leads", || replica.standing.is_leader()).await;
    pass(120).await;
    let tries = world.api.request_count("PATCH", "/status");
    assert_eq!(world.api.request_count("PUT", "/status"), tries, "both are tried");
    assert!((2..=12).contains(&tries), "{tries} tries in two minutes");
    world.api.heal();
    within(300, "written", || world.status("web") == ["192.0.2.1"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_permission_to_update_is_enough_and_remembered() {
    let world = TestCluster::new();
    for name in ["a", "b", "c"] {
        world.ingress(name, "fairway");
    }
    world.api.fail(Failure::Forbidden, requests("PATCH", "/ingresses"));
    let replica = world.replica("one", &["192.0.2.1", "lb.example"]);
    let is_written = |name| world.status(name) == ["192.0.2.1", "lb.example"];
    within(2, "written", || ["a", "b", "c"].into_iter().all(is_written)).await;
    let patches = world.api.request_count("PATCH", "/status");
    assert!((1..=3).contains(&patches), "{patches} are tried before the first is refused");
    let spec = world.api.object("/apis/networking.k8s.io/v1/namespaces/a/ingresses/a").unwrap();
    assert_eq!(spec["spec"]["ingressClassName"], "fairway");
    world.ingress("late", "fairway");
    within(2, "a new one too", || world.status("late").len() == 2).await;
    assert_eq!(world.api.request_count("PATCH", "/status"), patches, "none is tried again");
    assert_eq!(world.api.request_count("PUT", "/status"), 4);
    replica.stop(Duration::from_secs(10)).await;
    assert!(world.status("a").is_empty(), "the last replica clears it");
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_update_is_repeated_on_the_next_version() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.api.fail(Failure::Forbidden, requests("PATCH", "/ingresses"));
    world.api.fail_times(2, Failure::Conflict, requests("PUT", "/status"));
    let _replica = world.replica("one", &["192.0.2.1"]);
    within(30, "written", || world.status("web") == ["192.0.2.1"]).await;
    assert_eq!(world.api.request_count("PUT", "/status"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_concurrently_changed_status_is_read_again() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web") == ["192.0.2.1"]).await;
    // The write is based on a version that is outdated, which the configuration does not show yet.
    let path = "/apis/networking.k8s.io/v1/namespaces/a/ingresses/web";
    let mut object = world.api.object(path).unwrap();
    object["status"] = json!({});
    world.api.put_at(path, object.clone());
    object["metadata"]["labels"] = json!({ "x": "y" });
    world.api.put_at(path, object);
    within(10, "written again", || world.status("web") == ["192.0.2.1"]).await;
    assert!(replica.standing.diagnostics().is_empty(), "once is no fight");
}

#[test]
fn shadow_mode_does_not_even_connect() {
    let options = ReporterOptions {
        pod: ObjectKey::new("infra", "one"),
        election_id: "fairway-leader".into(),
        mode: StatusMode::Shadow,
        gateways: None,
        tickets: None,
    };
    let connect = Box::new(|| panic!("it connects"));
    let reporter = Reporter::start(connect, options, Viewer::blank()).unwrap();
    assert!(reporter.standing().metrics_text().contains("fairway_leader 0\n"));
    reporter.stop(Duration::from_secs(60));
}
