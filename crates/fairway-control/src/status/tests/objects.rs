//! The statuses of objects of the Gateway API: who writes them, when, and over what.

use std::sync::{Arc, Mutex};

use fairway_translate::{Kind, ObjectKey, ObjectRef, Options};
use http::Method;
use imbl::OrdMap;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::scripted::ApiServer;
use super::world::{pass, within};
use crate::engine::Engine;
use crate::pipeline::Viewer;
use crate::status::election::Role;
use crate::status::object_writer::{ObjectWriter, Says};
use crate::status::standing::Standing;
use crate::status::updates::Updates;

const ROUTE: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web";

/// A status that is a word beside what others say.
#[derive(Debug, PartialEq)]
struct Word {
    word: &'static str,
    generation: i64,
}

impl Says for Word {
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

type Wanted = Arc<Mutex<OrdMap<ObjectRef, Arc<Word>>>>;

/// A route, and a writer that may lead.
struct World {
    api: ApiServer,
    viewer: Viewer,
    wanted: Wanted,
    role: watch::Sender<Role>,
    standing: Standing,
    task: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    fn new() -> Self {
        let (api, viewer, standing) = (ApiServer::new(), Viewer::blank(), Standing::default());
        let (wanted, role) = (Wanted::default(), watch::Sender::new(Role::Leader));
        let theirs = wanted.clone();
        let statuses = Box::new(move |_: &_| theirs.lock().unwrap().clone());
        let client = api.client(Arc::default());
        let versions = Arc::new(|_| Some("v1"));
        let writer = ObjectWriter::new(client, Arc::default(), standing.clone(), versions, statuses);
        let updates = Updates::new(viewer.clone(), std::time::Duration::from_millis(100));
        let task = tokio::spawn(writer.run(updates, role.subscribe()));
        let world = Self { api, viewer, wanted, role, standing, task };
        world.route(1, &json!({ "parents": [{ "controllerName": "example.com/other" }] }));
        world
    }

    fn route(&self, generation: i64, status: &Value) {
        let metadata =
            json!({ "name": "web", "namespace": "shop", "uid": "uid-web", "generation": generation });
        self.api.put(ROUTE, json!({ "metadata": metadata, "spec": {}, "status": status }));
    }

    /// The status of the route should be this word.
    fn say(&self, word: &'static str, generation: i64) {
        let route = ObjectRef::new(Kind::HttpRoute, ObjectKey::new("shop", "web"));
        self.wanted.lock().unwrap().insert(route, Arc::new(Word { word, generation }));
        let mut engine = Engine::new(Options::default());
        engine.update(Vec::new(), 0);
        self.viewer.show(engine.current().unwrap().clone());
    }

    fn status(&self) -> Value {
        self.api.object(ROUTE).unwrap()["status"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_and_keeps_what_others_say() {
    let world = World::new();
    world.say("good", 1);
    within(2, "written", || world.status()["word"] == "good").await;
    assert_eq!(world.status()["parents"][0]["controllerName"], "example.com/other");
    pass(600).await;
    assert_eq!(world.api.asked(&Method::PUT, "/status"), 1);
    world.say("better", 1);
    within(2, "written again", || world.status()["word"] == "better").await;
    assert!(world.standing.metrics_text().contains("fairway_status_writes_total 2\n"));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_says_so_already_is_not_written() {
    let world = World::new();
    world.route(1, &json!({ "word": "good" }));
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.asked(&Method::PUT, "/status"), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_about_a_generation_that_was_not_judged() {
    let world = World::new();
    world.route(2, &json!({}));
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.asked(&Method::PUT, "/status"), 0, "the judgement of the new one is on its way");
    world.say("good", 2);
    within(2, "written", || world.status()["word"] == "good").await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_and_a_new_one_looks_at_everything() {
    let world = World::new();
    world.role.send_replace(Role::Follower);
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.asked(&Method::PUT, "/status"), 0);
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
async fn a_conflict_is_retried_from_the_fresh_object() {
    let world = World::new();
    world.api.overtake(Method::PUT, "/httproutes/web/status", 2);
    world.say("good", 1);
    within(5, "written", || world.status()["word"] == "good").await;
    assert_eq!(world.api.asked(&Method::PUT, "/status"), 3);
    assert_eq!(world.api.asked(&Method::GET, "/httproutes/web"), 3, "read anew each time");
    assert!(world.standing.metrics_text().contains("fairway_status_failures_total 0\n"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_let_be() {
    let world = World::new();
    world.api.remove(ROUTE);
    world.say("good", 1);
    pass(60).await;
    assert_eq!(world.api.asked(&Method::GET, "/httproutes/web"), 1);
    assert_eq!(world.api.asked(&Method::PUT, "/status"), 0);
}
