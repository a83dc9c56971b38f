//! Events about objects: their texts and their frequency.

use std::time::Duration;

use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::resources::Change;
use fairway_testkit::api_server::Failure;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::test_cluster::{TestCluster, ingress_path, pass, requests, within};
use crate::status::PublishAddresses;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/a/events";
const CORE_EVENTS: &str = "/api/v1/namespaces/a/events";

fn event_notes(world: &TestCluster) -> Vec<String> {
    let note = |event: &Value| event["note"].as_str().unwrap().to_owned();
    let mut notes: Vec<_> = world.api.below(EVENTS).iter().map(note).collect();
    notes.sort();
    notes
}

#[tokio::test(start_paused = true)]
async fn a_problem_is_reported_once_with_the_text_of_check() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let _replica = world.replica_with("one", PublishAddresses::Unset);
    within(3, "it is said", || !event_notes(&world).is_empty()).await;
    let expected: Vec<_> =
        world.diagnostics().into_iter().filter(|text| text.contains("Ingress a/web")).collect();
    assert_eq!(event_notes(&world), expected);
    let event = world.api.below(EVENTS).remove(0);
    assert_eq!(event["regarding"]["name"], "web");
    assert_eq!(event["regarding"]["uid"], "uid-web");
    assert_eq!(event["reason"], "MissingReference");
    assert_eq!(event["reportingController"], "fairway.dev/ingress-controller");
    assert_eq!(event["reportingInstance"], "one");
    pass(20 * 60).await;
    assert_eq!(world.api.request_count("POST", EVENTS), 1);
    assert_eq!(world.api.request_count("PATCH", EVENTS), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_problem_is_repeated_and_a_solved_one_is_not() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let _replica = world.replica_with("one", PublishAddresses::Unset);
    within(3, "it is said", || !event_notes(&world).is_empty()).await;
    pass(40 * 60).await;
    let series = || world.api.below(EVENTS)[0]["series"]["count"].clone();
    assert_eq!((series(), world.api.below(EVENTS).len()), (json!(2), 1));
    world.api.delete_at(&ingress_path(&ObjectKey::new("a", "web")));
    pass(3 * 60 * 60).await;
    assert_eq!((series(), event_notes(&world).len()), (json!(2), 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_about_an_object_of_another_kind_has_its_uid() {
    let world = TestCluster::new();
    let service =
        json!({ "metadata": { "namespace": "a", "name": "web" }, "spec": { "ports": [{ "port": 80 }] } });
    let slice = json!({
        "metadata": {
            "namespace": "a", "name": "web-1", "uid": "uid-slice", "labels": { "kubernetes.io/service-name": "web" }
        },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["169.254.0.1"] }], "ports": [{ "port": 80 }],
    });
    world.api.put_at("/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/web-1", slice.clone());
    let set = |object| Change::Set(object, None);
    world.change(vec![
        set(Object::Service(serde_json::from_value(service).unwrap())),
        set(Object::EndpointSlice(serde_json::from_value(slice).unwrap())),
    ]);
    world.ingress("web", "fairway");
    let _replica = world.replica_with("one", PublishAddresses::Unset);
    let notes = || {
        let events = world.api.below(EVENTS);
        events.into_iter().find(|event| event["regarding"]["kind"] == "EndpointSlice")
    };
    within(5, "it is said", || notes().is_some()).await;
    assert_eq!(notes().unwrap()["regarding"]["uid"], "uid-slice");
}

#[tokio::test(start_paused = true)]
async fn a_brief_problem_is_not_reported() {
    let world = TestCluster::new();
    let replica = world.replica_with("one", PublishAddresses::Unset);
    within(1, "it leads", || replica.standing.is_leader()).await;
    for _ in 0..5 {
        world.ingress("web", "fairway");
        sleep(Duration::from_millis(500)).await;
        world.api.delete_at(&ingress_path(&ObjectKey::new("a", "web")));
        sleep(Duration::from_millis(500)).await;
    }
    pass(60).await;
    assert_eq!(world.api.request_count("POST", EVENTS), 0);
}

#[tokio::test(start_paused = true)]
async fn a_recurring_problem_is_reported_every_few_minutes_at_most() {
    let world = TestCluster::new();
    let _replica = world.replica_with("one", PublishAddresses::Unset);
    for _ in 0..60 {
        world.ingress("web", "fairway");
        pass(5).await;
        world.api.delete_at(&ingress_path(&ObjectKey::new("a", "web")));
        pass(5).await;
    }
    let event_requests = world.api.request_count("POST", EVENTS) + world.api.request_count("PATCH", EVENTS);
    assert!((1..=4).contains(&event_requests), "{event_requests} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_reports_and_the_next_one_continues_the_series() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    let first = world.replica_with("one", PublishAddresses::Unset);
    within(1, "the first leads", || first.standing.is_leader()).await;
    let second = world.replica_with("two", PublishAddresses::Unset);
    within(3, "it is said", || event_notes(&world).len() == 1).await;
    pass(60).await;
    assert_eq!(world.api.request_count("POST", EVENTS), 1);
    assert!(second.standing.metrics_text().contains("fairway_events_total 0\n"));
    first.stop(Duration::from_secs(5)).await;
    within(10, "the second counts on", || world.api.below(EVENTS)[0]["series"]["count"] == 2).await;
    assert_eq!(event_notes(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ingresses_of_other_classes_are_not_reported() {
    let world = TestCluster::new();
    world.ingress("nobody", "no-such-class");
    let path = ingress_path(&ObjectKey::new("a", "classless"));
    let mut classless = super::test_cluster::ingress("classless", "", &json!({}));
    classless["spec"].as_object_mut().unwrap().remove("ingressClassName");
    world.api.put_at(&path, classless);
    let replica = world.replica_with("one", PublishAddresses::Unset);
    within(1, "it leads", || replica.standing.is_leader()).await;
    pass(60).await;
    assert_eq!(world.diagnostics().len(), 2, "the log has them");
    assert!(event_notes(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn very_many_events_are_written_eventually() {
    let world = TestCluster::new();
    for at in 0..300 {
        world.ingress(&format!("web-{at}"), "fairway");
    }
    let replica = world.replica_with("one", PublishAddresses::Unset);
    within(1, "it leads", || replica.standing.is_leader()).await;
    pass(6).await;
    let early = event_notes(&world).len();
    assert!((80..=120).contains(&early), "{early}");
    within(40, "all are there", || event_notes(&world).len() == 300).await;
}

#[tokio::test(start_paused = true)]
async fn the_permission_for_events_of_the_core_api_is_enough_and_remembered() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    for verb in ["POST", "PATCH"] {
        world.api.fail(Failure::Forbidden, requests(verb, "/apis/events.k8s.io/"));
    }
    let first = world.replica_with("one", PublishAddresses::Unset);
    within(3, "it is said", || world.api.below(CORE_EVENTS).len() == 1).await;
    let event = || world.api.below(CORE_EVENTS).remove(0);
    assert_eq!(event()["involvedObject"]["uid"], "uid-web");
    let message = event()["message"].as_str().unwrap().to_owned();
    assert!(world.diagnostics().contains(&message), "{message}");
    assert_eq!(event()["reportingComponent"], "fairway.dev/ingress-controller");
    pass(40 * 60).await;
    assert_eq!(event()["series"]["count"], 2, "it is counted on before it expires");
    assert!(first.standing.metrics_text().contains("fairway_events_total 2\n"));
    let requests_with = |verb| world.api.request_count(verb, "/apis/events.k8s.io/");
    assert_eq!((requests_with("POST"), requests_with("PATCH")), (1, 0), "it is not tried again");
    first.stop(Duration::from_secs(5)).await;
    // It does not know yet which API is permitted.
    let _second = world.replica_with("two", PublishAddresses::Unset);
    within(10, "the second counts on", || event()["series"]["count"] == 3).await;
    assert_eq!(world.api.below(CORE_EVENTS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn events_follow_when_their_permission_is_granted() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.api.fail(Failure::Forbidden, requests("POST", "/events"));
    let _replica = world.replica("one", &["192.0.2.1"]);
    within(2, "written", || world.status("web").len() == 1).await;
    pass(600).await;
    let tries = world.api.request_count("POST", EVENTS);
    assert!((3..=10).contains(&tries), "{tries} tries in ten minutes");
    world.api.heal();
    within(310, "it is said", || event_notes(&world).len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_no_missing_permission() {
    let world = TestCluster::new();
    world.ingress("web", "fairway");
    world.api.fail(Failure::Terminating, requests("POST", "/namespaces/a/events"));
    let replica = world.replica_with("one", PublishAddresses::Unset);
    within(3, "it is tried", || world.api.request_count("POST", EVENTS) == 1).await;
    pass(20 * 60).await;
    assert_eq!(world.api.request_count("POST", EVENTS), 1, "and not again");
    assert!(replica.standing.metrics_text().contains("fairway_events_total 0\n"));
}
