//! Counting in virtual time, with an API server that is reachable or not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fairway_testkit::api_server::{ApiServer, Failure};
use serde_json::{Value, json};

use super::*;
use crate::testing;

fn pod(number: u32, ready: bool) -> Value {
    let condition = json!({ "type": "Ready", "status": if ready { "True" } else { "False" } });
    json!({
        "metadata": { "name": format!("fairway-{number}"), "namespace": "edge", "labels": { "app": "fairway" } },
        "status": { "phase": "Running", "podIP": format!("10.0.0.{number}"), "conditions": [condition] },
    })
}

/// The replica `fairway-0` counts; 0 before the first report.
struct Counting {
    server: ApiServer,
    cut: Arc<AtomicBool>,
    reported: Arc<AtomicU32>,
    others: Arc<Mutex<Vec<(String, IpAddr)>>>,
}

impl Counting {
    /// In a fleet of this many pods.
    fn among(pods: u32) -> Self {
        let (server, cut, told) = (ApiServer::new(), Arc::default(), Arc::<AtomicU32>::default());
        let counting = Self { server, cut, reported: told, others: Arc::default() };
        counting.scale(0, pods);
        counting
    }

    fn start(self) -> Self {
        let client = testing::client(&self.server, self.cut.clone());
        let reported = self.reported.clone();
        let others = self.others.clone();
        let tell = move |ready: ReadyReplicas| {
            reported.store(ready.count, Ordering::Relaxed);
            *others.lock().unwrap() = ready.others;
        };
        tokio::spawn(follow_ready_replicas(client, ObjectKey::new("edge", "fairway-0"), true, tell));
        self
    }

    fn scale(&self, from: u32, to: u32) {
        (from..to).for_each(|number| self.server.put("pods", pod(number, true)));
        (to..from).for_each(|number| self.server.delete("pods", "edge", &format!("fairway-{number}")));
    }

    async fn after(&self, seconds: f64) -> u32 {
        sleep(Duration::from_secs_f64(seconds)).await;
        self.reported.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_higher_count_applies_at_once_and_a_lower_one_after_a_delay() {
    let counting = Counting::among(3).start();
    assert_eq!(counting.after(1.0).await, 3);
    counting.scale(3, 6);
    assert_eq!(counting.after(1.0).await, 6);
    counting.scale(6, 3);
    assert_eq!(counting.after(9.0).await, 6, "those that leave still have connections");
    assert_eq!(counting.after(1.5).await, 3);
    // A rolling update: one pod is added for each that leaves.
    for number in 0..20 {
        counting.server.put("pods", pod(3, number % 2 == 0));
        let count = counting.after(2.0).await;
        assert!(count == 4, "{count} after {number} changes");
    }
    assert_eq!(counting.after(10.0).await, 3);
}

#[tokio::test(start_paused = true)]
async fn only_ready_pods_of_the_fleet_and_the_own_one_count() {
    let counting = Counting::among(0);
    for number in 0..3 {
        counting.server.put("pods", pod(number, number == 1));
    }
    let mut other = pod(7, true);
    other["metadata"]["labels"]["app"] = "other".into();
    counting.server.put("pods", other);
    let counting = counting.start();
    assert_eq!(counting.after(1.0).await, 2);
    counting.server.put("pods", pod(0, true));
    assert_eq!(counting.after(1.0).await, 2);
}

#[tokio::test(start_paused = true)]
async fn replicas_in_other_zones_count() {
    let counting = Counting::among(0);
    for number in 0..3 {
        let mut pod = pod(number, true);
        pod["metadata"]["labels"]["topology.kubernetes.io/zone"] = format!("zone-{number}").into();
        pod["metadata"]["labels"]["pod-template-hash"] = format!("{number}").into();
        counting.server.put("pods", pod);
    }
    assert_eq!(counting.start().after(1.0).await, 3);
}

#[tokio::test(start_paused = true)]
async fn other_replicas_are_reported_at_once_whatever_count_applies() {
    let counting = Counting::among(3).start();
    let others = || {
        let others = counting.others.lock().unwrap();
        others.iter().map(|(name, address)| format!("{name} {address}")).collect::<Vec<_>>()
    };
    assert_eq!(counting.after(1.0).await, 3);
    assert_eq!(others(), ["fairway-1 10.0.0.1", "fairway-2 10.0.0.2"]);
    counting.server.put("pods", pod(1, false));
    assert_eq!(counting.after(1.0).await, 3, "it counts for a while");
    assert_eq!(others(), ["fairway-2 10.0.0.2"]);
    // Another pod in its place.
    counting.scale(3, 4);
    assert_eq!(counting.after(1.0).await, 3);
    assert_eq!(others(), ["fairway-2 10.0.0.2", "fairway-3 10.0.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_cut_off_keeps_the_last_count() {
    let counting = Counting::among(3).start();
    assert_eq!(counting.after(1.0).await, 3);
    counting.cut.store(true, Ordering::Relaxed);
    counting.server.close_watches();
    counting.scale(3, 6);
    assert_eq!(counting.after(3_600.0).await, 3);
    counting.cut.store(false, Ordering::Relaxed);
    assert_eq!(counting.after(120.0).await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_count_is_alone_after_a_timeout() {
    let counting = Counting::among(3);
    counting.cut.store(true, Ordering::Relaxed);
    let counting = counting.start();
    assert_eq!(counting.after(9.0).await, 0);
    assert_eq!(counting.after(2.0).await, 1);
    counting.cut.store(false, Ordering::Relaxed);
    assert_eq!(counting.after(120.0).await, 3);

    let counting = Counting::among(3);
    counting.server.fail(Failure::Forbidden, |request| request.is_list());
    assert_eq!(counting.start().after(1.0).await, 1, "without permission");
    assert_eq!(Counting::among(0).start().after(1.0).await, 1, "in no pod");
}
