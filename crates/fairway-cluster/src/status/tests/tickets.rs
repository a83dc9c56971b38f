//! The shared ticket keys: who creates and rotates them, and how an invalid Secret is handled. Logouts reported to one replica
//! reach the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway_model::{Logout, SharedTicketSecret, TicketSecret};
use fairway_testkit::api_server::Failure;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::test_cluster::{Replica, TestCluster, pass, requests, within};
use crate::status::publish::PublishAddresses;
use crate::status::tickets::{LogoutNotice, TicketOptions};

const SECRET: &str = "/api/v1/namespaces/infra/secrets/fairway-leader-session-tickets";
const TYPE: &str = "fairway.dev/session-ticket-keys";
const HOUR: u64 = 60 * 60;

/// A replica, and what its data plane received last.
struct Sharing {
    replica: Replica,
    adopted: Arc<Mutex<Adopted>>,
    notices: mpsc::Sender<LogoutNotice>,
    start: Instant,
}

#[derive(Default)]
struct Adopted {
    keys: Vec<SharedTicketSecret>,
    times: usize,
    /// The ids of logouts.
    logouts: BTreeSet<u8>,
}

impl Sharing {
    /// A replica in `world` whose clock is ahead of the others by `skew` seconds.
    fn start(world: &TestCluster, name: &str, skew: i64) -> Self {
        let adopted = Arc::<Mutex<Adopted>>::default();
        let (told, heard, start) = (adopted.clone(), adopted.clone(), world.start);
        let (notices, received) = mpsc::channel(100);
        let duties = TicketOptions {
            rotation: Duration::from_secs(12 * HOUR),
            adopt: Arc::new(move |keys| {
                let mut adopted = told.lock().unwrap();
                (adopted.keys, adopted.times) = (keys.to_vec(), adopted.times + 1);
            }),
            adopt_logouts: Arc::new(move |logouts| {
                heard.lock().unwrap().logouts.extend(logouts.iter().map(|logout| logout.id[0]));
            }),
            notices: Arc::new(tokio::sync::Mutex::new(received)),
            wall: Arc::new(move || wall(start, skew)),
        };
        let replica = world.replica_sharing(name, PublishAddresses::Unset, Some(duties));
        Self { replica, adopted, notices, start }
    }

    /// Reports a logout whose sessions expire after this many hours to its data plane.
    fn log_out(&self, id: u8, hours: u64) -> oneshot::Receiver<()> {
        let ends = wall(self.start, 0).as_second().unsigned_abs() + hours * HOUR;
        let (shared, told) = oneshot::channel();
        let logout = Logout { id: [id; 16], until_login_at: u64::MAX, ends };
        self.notices.try_send(LogoutNotice { logout, shared }).unwrap();
        told
    }

    fn logouts(&self) -> Vec<u8> {
        self.adopted.lock().unwrap().logouts.iter().copied().collect()
    }

    fn secrets(&self) -> Vec<TicketSecret> {
        self.adopted.lock().unwrap().keys.iter().map(|key| key.secret.clone()).collect()
    }

    fn encrypts_in(&self) -> Vec<u64> {
        self.adopted.lock().unwrap().keys.iter().map(|key| key.encrypts_in.as_secs()).collect()
    }

    fn problems(&self) -> Vec<String> {
        self.replica.standing.diagnostics().iter().map(ToString::to_string).collect()
    }
}

/// The time on a clock that is ahead by `skew` seconds.
fn wall(start: Instant, skew: i64) -> Timestamp {
    let passed = i64::try_from(start.elapsed().as_secs()).unwrap();
    Timestamp::from_second(1_700_000_000 + passed + skew).unwrap()
}

fn data(world: &TestCluster) -> BTreeMap<String, String> {
    let object = world.api.object(SECRET).unwrap_or_default();
    serde_json::from_value(object["data"].clone()).unwrap_or_default()
}

/// Edits the Secret.
fn edit(world: &TestCluster, edit: impl FnOnce(&mut Value)) {
    let mut object = world.api.object(SECRET).unwrap();
    edit(&mut object);
    world.api.put_at(SECRET, object);
}

#[tokio::test(start_paused = true)]
async fn the_leader_creates_keys_that_every_replica_adopts() {
    let world = TestCluster::new();
    let replicas = ["one", "two", "three"].map(|name| Sharing::start(&world, name, 0));
    within(10, "all have the key", || replicas.iter().all(|it| it.secrets().len() == 1)).await;
    assert_eq!(replicas[0].secrets(), replicas[1].secrets());
    assert_eq!(replicas[0].secrets(), replicas[2].secrets());
    let object = world.api.object(SECRET).unwrap();
    assert_eq!(object["type"], json!(TYPE));
    assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"], json!("fairway"));
    let names: Vec<_> = data(&world).into_keys().collect();
    assert_eq!(names, ["current", "current-made"]);
    assert_eq!(world.api.request_count("POST", "/secrets"), 1, "one of them");
    assert!(replicas.iter().all(|it| it.problems().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_rotated_every_12_hours_and_published_half_an_hour_before_it_encrypts() {
    let world = TestCluster::new();
    let replicas = ["one", "two"].map(|name| Sharing::start(&world, name, 0));
    within(10, "both have a key", || replicas.iter().all(|it| it.secrets().len() == 1)).await;
    let mut before = replicas[0].secrets();
    for rotation in 0..2 {
        pass(12 * HOUR - 60).await;
        assert_eq!(replicas[0].secrets(), before, "rotation {rotation}");
        within(120, "rotated", || replicas.iter().all(|it| it.secrets()[0] != before[0])).await;
        for replica in &replicas {
            assert_eq!(replica.secrets()[1], before[0], "the one before stays");
            assert_eq!(replica.encrypts_in(), [30 * 60, 0]);
        }
        before = replicas[0].secrets();
    }
    assert_eq!(
        (world.api.request_count("POST", "/secrets"), world.api.request_count("PUT", "/secrets")),
        (1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_keeps_the_keys_and_a_new_replica_adopts_them() {
    let world = TestCluster::new();
    let first = Sharing::start(&world, "one", 0);
    within(10, "it has a key", || first.secrets().len() == 1).await;
    let second = Sharing::start(&world, "two", -600);
    pass(9 * HOUR).await;
    let keys = first.secrets();
    first.replica.stop(Duration::from_secs(5)).await;
    let third = Sharing::start(&world, "three", 600);
    pass(2 * HOUR).await;
    assert_eq!((second.secrets(), third.secrets()), (keys.clone(), keys.clone()));
    assert_eq!(world.api.request_count("PUT", "/secrets"), 0);
    within(2 * HOUR, "rotated in time", || second.secrets().len() == 2).await;
    assert_eq!(second.secrets()[1], keys[0]);
    within(10, "everywhere", || third.secrets() == second.secrets()).await;
}

#[tokio::test(start_paused = true)]
async fn a_malformed_secret_changes_no_key_and_the_leader_restores_it() {
    let world = TestCluster::new();
    let leader = Sharing::start(&world, "one", 0);
    within(10, "it leads", || leader.secrets().len() == 1).await;
    let follower = Sharing::start(&world, "two", 0);
    within(10, "it follows", || follower.secrets() == leader.secrets()).await;
    pass(60).await;
    let (keys, whole) = (leader.secrets(), data(&world));
    world.api.fail(Failure::Broken, requests("PUT", "/secrets"));
    for (name, value) in
        [("current", json!("AAAA")), ("current-made", json!("AAAA")), ("previous", json!("AAAA"))]
    {
        edit(&world, |object| object["data"][name] = value);
        let problems = || [&leader, &follower].map(|it| it.problems().join("\n"));
        within(5, name, || {
            problems().iter().all(|it| it.contains("warning[session-ticket-keys]: Secret infra/"))
        })
        .await;
        assert_eq!((leader.secrets(), follower.secrets()), (keys.clone(), keys.clone()));
        assert!(!problems()[0].contains(whole["current"].as_str()), "no key in a diagnostic");
    }
    world.api.heal();
    within(600, "mended", || data(&world) == whole).await;
    within(5, "nothing is wrong", || leader.problems().is_empty() && follower.problems().is_empty()).await;
    assert_eq!((leader.secrets(), follower.secrets()), (keys.clone(), keys));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_secret_is_not_touched() {
    let world = TestCluster::new();
    let metadata = json!({ "name": "fairway-leader-session-tickets", "namespace": "infra" });
    let foreign = json!({ "metadata": metadata, "type": "Opaque", "data": { "current": "AAAA" } });
    world.api.put_at(SECRET, foreign.clone());
    let replica = Sharing::start(&world, "one", 0);
    within(5, "it is said", || replica.problems().join("").contains("its type is not fairway.dev/session"))
        .await;
    pass(HOUR).await;
    assert_eq!(world.api.request_count("PUT", "/secrets") + world.api.request_count("POST", "/secrets"), 0);
    assert!(replica.secrets().is_empty() && replica.replica.standing.is_leader());
    world.api.delete_at(SECRET);
    within(10, "it makes one", || replica.secrets().len() == 1 && replica.problems().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_from_the_future_is_reported_and_replaced_in_time() {
    let world = TestCluster::new();
    // Its clock is two days ahead.
    let ahead = Sharing::start(&world, "one", 48 * 3600);
    within(10, "it has a key", || ahead.secrets().len() == 1).await;
    let others = Sharing::start(&world, "two", 0);
    within(5, "it is said", || others.problems().join("").contains("made in the future")).await;
    assert!(ahead.problems().is_empty());
    assert_eq!(others.secrets(), ahead.secrets(), "it opens the tickets of the others all the same");
    assert_eq!(others.encrypts_in(), [30 * 60]);
    let first = ahead.secrets();
    ahead.replica.stop(Duration::from_secs(5)).await;
    within(13 * HOUR, "the next leader replaces it", || others.secrets().len() == 2).await;
    assert_eq!(others.secrets()[1], first[0]);
    within(5, "and nothing is wrong", || others.problems().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn emptying_or_deleting_the_secret_makes_all_tickets_worthless() {
    let world = TestCluster::new();
    // As the chart creates it.
    let metadata =
        json!({ "name": "fairway-leader-session-tickets", "namespace": "infra", "labels": { "a": "b" } });
    world.api.put_at(SECRET, json!({ "metadata": metadata, "type": TYPE }));
    let replica = Sharing::start(&world, "one", 0);
    within(10, "it fills it", || replica.secrets().len() == 1).await;
    assert_eq!(world.api.object(SECRET).unwrap()["metadata"]["labels"]["a"], json!("b"));
    for deletes in [false, true] {
        pass(HOUR).await;
        let before = replica.secrets();
        if deletes {
            world.api.delete_at(SECRET);
        } else {
            edit(&world, |object| object["data"] = json!({}));
        }
        within(20, "another key", || replica.secrets().len() == 1 && replica.secrets() != before).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_permission_replicas_keep_their_own_keys() {
    for (method, failure) in
        [("GET", Failure::Forbidden), ("POST", Failure::Forbidden), ("POST", Failure::Broken)]
    {
        let world = TestCluster::new();
        world.api.fail(failure, requests(method, "/secrets"));
        let replica = Sharing::start(&world, "one", 0);
        within(5, "it leads", || replica.replica.standing.is_leader()).await;
        pass(HOUR).await;
        assert!(replica.secrets().is_empty() && world.api.object(SECRET).is_none());
        let requests =
            world.api.request_count("POST", "/secrets") + world.api.request_count("GET", "/secrets");
        assert!(requests <= 130, "it asks twice a minute at most: {requests}");
        world.api.heal();
        within(90, "granted by now", || replica.secrets().len() == 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_leaders_create_one_key() {
    let world = TestCluster::new();
    world.api.fail_times(1, Failure::Conflict, requests("POST", "/secrets"));
    let replica = Sharing::start(&world, "one", 0);
    within(20, "it tries again", || replica.secrets().len() == 1).await;
    // Another leader rotates at the same time.
    pass(12 * HOUR - 60).await;
    world.api.fail_times(1, Failure::Conflict, requests("PUT", "/secrets"));
    within(180, "rotated", || replica.secrets().len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_logout_reaches_all_replicas_and_survives_key_rotation() {
    let world = TestCluster::new();
    let replicas = ["one", "two", "three"].map(|name| Sharing::start(&world, name, 0));
    within(10, "all have the key", || replicas.iter().all(|it| it.secrets().len() == 1)).await;
    let keys = replicas[0].secrets();
    // At the same time, to different replicas.
    let outcomes = [replicas[0].log_out(1, 100), replicas[1].log_out(2, 100), replicas[2].log_out(3, 10)];
    for told in outcomes {
        tokio::time::timeout(Duration::from_secs(5), told).await.unwrap().unwrap();
    }
    within(2, "all know", || replicas.iter().all(|it| it.logouts() == [1, 2, 3])).await;
    assert_eq!(replicas[1].secrets(), keys, "it changes no key");
    pass(12 * HOUR).await;
    within(120, "rotated", || replicas[0].secrets()[0] != keys[0]).await;
    let late = Sharing::start(&world, "four", 0);
    within(10, "it knows", || late.logouts() == [1, 2]).await;
    pass(24 * HOUR).await;
    assert_eq!(late.logouts(), [1, 2]);
    assert!(!world.api.object(SECRET).unwrap().to_string().contains("user"), "it says of nobody who it is");
}

#[tokio::test(start_paused = true)]
async fn many_logouts_need_few_requests() {
    let world = TestCluster::new();
    let replica = Sharing::start(&world, "one", 0);
    within(10, "it has a key", || replica.secrets().len() == 1).await;
    let outcomes: Vec<_> = (0..100).map(|id| replica.log_out(id, 1)).collect();
    for told in outcomes {
        tokio::time::timeout(Duration::from_secs(5), told).await.unwrap().unwrap();
    }
    assert!(
        world.api.request_count("PUT", "/secrets") <= 2,
        "{}",
        world.api.request_count("PUT", "/secrets")
    );
}

#[tokio::test(start_paused = true)]
async fn a_logout_that_cannot_be_shared_is_not_confirmed() {
    for failure in [Failure::Forbidden, Failure::Broken] {
        let world = TestCluster::new();
        let replica = Sharing::start(&world, "one", 0);
        within(10, "it has a key", || replica.secrets().len() == 1).await;
        world.api.fail(failure, requests("PUT", "/secrets"));
        let logged_out = replica.log_out(1, 1);
        let outcome = tokio::time::timeout(Duration::from_secs(15), logged_out).await.unwrap();
        assert!(outcome.is_err(), "the provider is told that it failed");
        world.api.heal();
        replica.log_out(2, 1).await.unwrap();
        assert_eq!(replica.logouts(), [1, 2], "the next one takes it along");
    }
    // No keys are shared.
    let world = TestCluster::new();
    world.api.fail(Failure::Forbidden, requests("GET", "/secrets"));
    let replica = Sharing::start(&world, "one", 0);
    within(5, "it leads", || replica.replica.standing.is_leader()).await;
    assert!(tokio::time::timeout(Duration::from_secs(15), replica.log_out(1, 1)).await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn damaged_or_removed_logouts_are_restored() {
    let world = TestCluster::new();
    let leader = Sharing::start(&world, "one", 0);
    within(10, "it has a key", || leader.secrets().len() == 1).await;
    leader.log_out(1, 100).await.unwrap();
    pass(60).await;
    edit(&world, |object| object["data"]["logouts"] = json!("AAAA"));
    let late = Sharing::start(&world, "two", 0);
    within(60, "mended", || late.logouts() == [1]).await;
    edit(&world, |object| drop(object["data"].as_object_mut().unwrap().remove("logouts")));
    within(10, "restored", || data(&world).contains_key("logouts")).await;
    let latest = Sharing::start(&world, "three", 0);
    within(10, "it knows", || latest.logouts() == [1]).await;
    let written = world.api.request_count("PUT", "/secrets");
    leader.log_out(1, 100).await.unwrap();
    assert_eq!(world.api.request_count("PUT", "/secrets"), written, "what is there is not written again");
}

/// Until then, state that a replica encrypts for a login cannot be decrypted elsewhere: it gets no traffic.
#[tokio::test(start_paused = true)]
async fn a_replica_knows_the_keys_of_the_others_before_it_is_ready() {
    let world = TestCluster::new();
    let replica = Sharing::start(&world, "one", 0);
    assert!(!replica.replica.standing.knows_ticket_keys());
    within(5, "it has looked", || replica.replica.standing.knows_ticket_keys()).await;
    for failure in [Failure::Forbidden, Failure::Broken] {
        let world = TestCluster::new();
        world.api.fail(failure, requests("GET", "/secrets"));
        let replica = Sharing::start(&world, "one", 0);
        within(15, "it goes on without them", || replica.replica.standing.knows_ticket_keys()).await;
    }
}
