//! The status of Gateway API objects: who writes it, when, and which parts are replaced.

use std::sync::{Arc, Mutex};

use fairway_control::engine::Engine;
use fairway_control::pipeline::Viewer;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_testkit::api_server::{ApiServer, Failure, Network, note_writer};
use imbl::OrdMap;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::test_cluster::{api_server, pass, requests, within};
use crate::status::election::Role;
use crate::status::object_writer::ObjectWriter;
use crate::status::shared_state::ReporterState;
use crate::status::statement::{ComparableStatus, WritableStatus};
use crate::status::updates::ViewUpdates;
use crate::testing::client;

const ROUTE: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web";

/// A status with one word, next to fields of other writers.
#[derive(Debug, PartialEq)]
struct Word {
    word: &'static str,
    generation: i64,
    /// The version of the object that it is made from.
    version: String,
}

impl ComparableStatus for Word {
    fn is_same_as(&self, before: &Self) -> bool {
        (self.word, self.generation) == (before.word, before.generation)
    }
}

impl WritableStatus for Word {
    fn uid(&self) -> &str {
        "uid-web"
    }

    fn generation(&self) -> Option<i64> {
        Some(self.generation)
    }

    fn merged(&self, existing: &Value, _now: i64) -> Option<Value> {
        let mut status = if existing.is_null() { json!({}) } else { existing.clone() };
        (status["word"] != self.word).then(|| {
            status["word"] = json!(self.word);
            status
        })
    }
}

type DesiredStatuses = Arc<Mutex<OrdMap<ObjectRef, Arc<Word>>>>;

/// A route, and a writer that may lead.
struct RouteFixture {
    api: ApiServer,
    viewer: Viewer,
    desired: DesiredStatuses,
    role: watch::Sender<Role>,
    standing: ReporterState,
    task: JoinHandle<()>,
}

impl Drop for RouteFixture {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RouteFixture {
    fn new() -> Self {
        let (api, viewer, standing) = (api_server(), Viewer::blank(), ReporterState::default());
        let (wanted, role) = (DesiredStatuses::default(), watch::Sender::new(Role::Leader));
        let theirs = wanted.clone();
        let statuses = Box::new(move |_: &_| theirs.lock().unwrap().clone());
        let client = client(&api, Arc::default());
        let versions = Arc::new(|_| Some("v1"));
        let writer = ObjectWriter::new(client, Arc::default(), standing.clone(), versions, statuses);
        let updates = ViewUpdates::new(viewer.clone(), std::time::Duration::from_millis(100));
        let task = tokio::spawn(writer.run(updates, role.subscribe()));
        let world = Self { api, viewer, desired: wanted, role, standing, task };
        world.route(1, &json!({ "parents": [{ "controllerName": "example.com/other" }] }));
        world
    }

    fn route(&self, generation: i64, status: &Value) {
        let metadata =
            json!({ "name": "web", "namespace": "shop", "uid": "uid-web", "generation": generation });
        self.api.put_at(ROUTE, json!({ "metadata": metadata, "spec": {}, "status": status }));
    }

    /// Sets the desired word of the route's status.
    fn say(&self, word: &'static str, generation: i64) {
        let found = self.api.object(ROUTE).unwrap_or_default();
        let version = found["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let route = ObjectRef::new(Kind::HttpRoute, ObjectKey::new("shop", "web"));
        self.desired.lock().unwrap().insert(route, Arc::new(Word { word, generation, version }));
        let mut engine = Engine::new(Options::default());
        engine.update(Vec::new(), 0);
        self.viewer.set_outcome(engine.current().unwrap().clone());
    }

    /// Another controller writes a field of the status, and the change is observed.
    fn other_writes(&self, field: &str, word: &str) {
        let mut route = self.api.object(ROUTE).unwrap();
        route["status"][field] = json!(word);
        note_writer(&mut route, "rival");
        self.api.put_at(ROUTE, route);
        self.say("good", 1);
    }

    /// Writes; another controller replaces that three times.
    async fn fight(&self) {
        self.say("good", 1);
        within(2, "written", || self.status()["word"] == "good").await;
        for _ in 0..3 {
            self.other_writes("word", "bad");
            within(30, "written again", || self.status()["word"] == "good").await;
        }
        within(2, "said", || !self.standing.diagnostics().is_empty()).await;
    }

    fn status(&self) -> Value {
        self.api.object(ROUTE).unwrap()["status"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_and_keeps_fields_of_others() {
    let world = RouteFixture::new();
    world.say("good", 1);
    within(2, "written", || world.status()["word"] == "good").await;
    assert_eq!(world.status()["parents"][0]["controllerName"], "example.com/other");
    pass(600).await;
    assert_eq!(world.api.request_count("PUT", "/status"), 1);
    world.say("better", 1);
    within(2, "written again", || world.status()["word"] == "better").await;
    assert!(world.standing.metrics_text().contains("fairway_status_writes_total 2\n"));
}

#[tokio::test(start_paused = true)]
async fn an_up_to_date_status_is_not_written() {
    let world = RouteFixture::new();
    world.route(1, &json!({ "word": "good" }));
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.request_count("PUT", "/status"), 0);
}

#[tokio::test(start_paused = true)]
async fn no_status_is_written_for_a_generation_that_was_not_translated() {
    let world = RouteFixture::new();
    world.route(2, &json!({}));
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.request_count("PUT", "/status"), 0, "the judgement of the new one is on its way");
    world.say("good", 2);
    within(2, "written", || world.status()["word"] == "good").await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_and_a_new_one_checks_everything() {
    let world = RouteFixture::new();
    world.role.send_replace(Role::Follower);
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.request_count("PUT", "/status"), 0);
    world.role.send_replace(Role::Leader);
    within(2, "written", || world.status()["word"] == "good").await;
    // Another leader has written something else meanwhile.
    world.role.send_replace(Role::Follower);
    pass(1).await;
    world.route(1, &json!({ "word": "bad" }));
    world.role.send_replace(Role::Leader);
    within(2, "written again", || world.status()["word"] == "good").await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_between_writers_backs_off_and_names_the_other() {
    let world = RouteFixture::new();
    world.fight().await;
    let message = world.standing.diagnostics()[0].to_string();
    assert!(
        message.contains("HTTPRoute shop/web status: field manager \"rival\" keeps replacing"),
        "{message}"
    );
    let before = world.api.request_count("PUT", "/status");
    for _ in 0..3600 {
        if world.status()["word"] == "good" {
            world.other_writes("word", "bad");
        }
        pass(1).await;
    }
    let writes = world.api.request_count("PUT", "/status") - before;
    assert!((3..=9).contains(&writes), "{writes} writes in an hour");
    world.role.send_replace(Role::Follower);
    within(2, "no fight of a follower", || world.standing.diagnostics().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_reported_for_an_hour_after_the_last_replacement() {
    let world = RouteFixture::new();
    world.fight().await;
    pass(55 * 60).await;
    assert!(!world.standing.diagnostics().is_empty());
    pass(10 * 60).await;
    assert!(world.standing.diagnostics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_fields_of_a_status_are_no_conflict() {
    let world = RouteFixture::new();
    world.say("good", 1);
    within(2, "written", || world.status()["word"] == "good").await;
    for word in ["a", "b", "c", "d"] {
        world.other_writes("theirs", word);
        pass(1).await;
    }
    assert_eq!(world.api.request_count("PUT", "/status"), 1);
    world.other_writes("word", "bad");
    within(4, "written after the first pause", || world.status()["word"] == "good").await;
    assert!(world.standing.diagnostics().is_empty(), "once is no fight");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_from_the_fresh_object() {
    let world = RouteFixture::new();
    world.api.fail_times(2, Failure::Conflict, requests("PUT", "/httproutes/web/status"));
    world.say("good", 1);
    within(5, "written", || world.status()["word"] == "good").await;
    assert_eq!(world.api.request_count("PUT", "/status"), 3);
    assert_eq!(world.api.request_count("GET", "/httproutes/web"), 3, "read anew each time");
    assert!(world.standing.metrics_text().contains("fairway_status_failures_total 0\n"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_ignored() {
    let world = RouteFixture::new();
    world.api.delete_at(ROUTE);
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.request_count("GET", "/httproutes/web"), 1);
    assert_eq!(world.api.request_count("PUT", "/status"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_regained_role_abandons_running_jobs() {
    // Which of the two is seen first is random.
    for attempt in 0..20 {
        let world = RouteFixture::new();
        world.api.set_network(Network::Silent);
        world.say("good", 1);
        pass(1).await;
        world.role.send_replace(Role::Follower);
        pass(1).await;
        world.api.set_network(Network::Up);
        world.role.send_replace(Role::Leader);
        world.say("good", 1);
        within(5, &format!("written, attempt {attempt}"), || world.status()["word"] == "good").await;
    }
}
