//! Leader election between replicas.

use std::time::Duration;

use fairway_testkit::api_server::{Failure, Network};
use serde_json::json;

use super::test_cluster::{LEASE, TestCluster, pass, requests, within};

#[tokio::test(start_paused = true)]
async fn the_first_replica_acquires_the_lease_and_renews_it() {
    let world = TestCluster::new();
    let replica = world.replica("one", &["192.0.2.1"]);
    within(1, "it leads", || replica.standing.is_leader()).await;
    assert!(replica.standing.metrics_text().contains("fairway_leader 1\n"));
    let election = replica.standing.election_text("the-lease", "controller_pod=\"one\"");
    let line =
        "nginx_ingress_controller_leader_election_status{controller_pod=\"one\",name=\"the-lease\"} 1\n";
    assert!(election.ends_with(line), "{election}");
    let renewed = || world.api.object(LEASE).unwrap()["metadata"]["resourceVersion"].clone();
    let before = renewed();
    within(3, "it is renewed", || renewed() != before).await;
    pass(120).await;
    assert!(replica.standing.is_leader());
    assert_eq!(world.api.object(LEASE).unwrap()["spec"]["leaseTransitions"], json!(0));
}

#[tokio::test(start_paused = true)]
async fn a_follower_leads_soon_after_a_release() {
    let world = TestCluster::new();
    let first = world.replica("one", &["192.0.2.1"]);
    within(1, "the first leads", || first.standing.is_leader()).await;
    let second = world.replica("two", &["192.0.2.1"]);
    pass(60).await;
    assert!(!second.standing.is_leader());
    assert!(second.standing.metrics_text().contains("fairway_leader 0\n"));
    first.stop(Duration::from_secs(5)).await;
    assert_eq!(world.holder().as_deref(), Some(""), "released");
    within(5, "the second leads", || second.standing.is_leader()).await;
    assert_eq!(world.holder().as_deref(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_only_after_its_lease_expires() {
    let world = TestCluster::new();
    let first = world.replica("one", &["192.0.2.1"]);
    within(1, "the first leads", || first.standing.is_leader()).await;
    let second = world.replica("two", &["192.0.2.1"]);
    pass(7).await;
    first.cut_off();
    pass(12).await;
    assert_eq!(world.holder().as_deref(), Some("one"));
    within(10, "the second leads", || second.standing.is_leader()).await;
    assert!(!first.standing.is_leader(), "never two at a time");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_leading_before_others_may_lead() {
    let world = TestCluster::new();
    let replica = world.replica("one", &["192.0.2.1"]);
    within(1, "it leads", || replica.standing.is_leader()).await;
    world.api.set_network(Network::Silent);
    pass(7).await;
    assert!(replica.standing.is_leader(), "a short silence is no reason");
    within(6, "it leads no more", || !replica.standing.is_leader()).await;
    world.ingress("web", "fairway");
    world.api.set_network(Network::Up);
    within(20, "it leads again", || replica.standing.is_leader()).await;
    within(5, "and writes", || world.status("web") == ["192.0.2.1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_is_lost_at_the_next_renewal() {
    let world = TestCluster::new();
    let replica = world.replica("one", &["192.0.2.1"]);
    within(1, "it leads", || replica.standing.is_leader()).await;
    let mut lease = world.api.object(LEASE).unwrap();
    lease["spec"]["holderIdentity"] = json!("thief");
    world.api.put_at(LEASE, lease);
    within(5, "it is lost", || !replica.standing.is_leader()).await;
    within(25, "the thief does not renew", || replica.standing.is_leader()).await;
    assert_eq!(world.api.object(LEASE).unwrap()["spec"]["leaseTransitions"], json!(1));
}

#[tokio::test(start_paused = true)]
async fn without_permission_for_leases_no_replica_leads_until_it_is_granted() {
    let world = TestCluster::new();
    world.api.fail(Failure::Forbidden, requests("POST", "/leases"));
    world.ingress("web", "fairway");
    let replica = world.replica("one", &["192.0.2.1"]);
    pass(30).await;
    assert!(!replica.standing.is_leader());
    assert_eq!(world.api.status_writes(), 0);
    world.api.heal();
    within(6, "it leads", || replica.standing.is_leader()).await;
}
