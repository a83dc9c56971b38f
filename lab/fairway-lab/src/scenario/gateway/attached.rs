//! Attached routes: how soon `status.listeners[].attachedRoutes` of a Gateway counts added routes and drops removed ones,
//! and how often the status is written for it.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::Run;
use serde::Deserialize;
use serde_json::Value;

use super::super::propagation::{Action, at_once, note_effect, propagation};
use super::super::running_peer::RunningPeer;
use super::super::site::{BACKEND, NAMESPACE};
use super::figures::finding;
use crate::cluster::Following;
use crate::peers::gateway::{self, HTTP, HttpRoute, Parent};

const CASE: &str = "attached routes";

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    pub(super) routes: u32,
}

/// An observed status.
#[derive(Default)]
struct SeenStatus {
    /// When it showed the awaited number.
    at: Option<Instant>,
    writes: u64,
    /// Counts above the number of routes.
    wrong: u64,
}

pub(super) async fn run(
    running: &RunningPeer<'_>,
    parameters: Parameters,
    patience: Duration,
    run: &mut Run,
) -> anyhow::Result<()> {
    let peer = running.contender.peer.name();
    let mut gateway = running.cluster.follow(&gateway::named(peer, NAMESPACE)).await?;
    let Some(before) = wait_until_settled(&mut gateway).await else {
        anyhow::bail!("the status of its Gateway does not say how many routes are attached")
    };
    let objects: Vec<Value> = (0..parameters.routes).map(|number| object(peer, number)).collect();
    let all = before + u64::from(parameters.routes);
    let mut writes = 0;
    for (action, case, wanted) in [
        (Action::Apply, "attached routes: the last one made until all are counted", all),
        (Action::Remove, "attached routes: the last one removed until none is counted", before),
    ] {
        at_once(running, objects.clone(), action).await?;
        let done = Instant::now();
        let status = wait_for_count(&mut gateway, wanted, all, patience).await;
        let mut found = propagation(running, case);
        note_effect(&mut found, done, status.at);
        found.wrong = status.wrong;
        found.routes = u64::from(parameters.routes);
        run.propagations.push(found);
        writes += status.writes;
    }
    run.supplement.findings.push(finding(running, CASE, "writes of the Gateway's status", "", writes as f64));
    Ok(())
}

fn object(peer: &str, number: u32) -> Value {
    gateway::http_route(&HttpRoute {
        name: &format!("attached-{number}"),
        namespace: NAMESPACE,
        host: Some(&format!("attached-{number}.lab.example")),
        path: "/",
        service: BACKEND,
        parent: Parent::Gateway { peer, namespace: NAMESPACE },
    })
}

/// The count once nothing has been written for a while.
async fn wait_until_settled(gateway: &mut Following) -> Option<u64> {
    let mut last = None;
    while let Some(version) = gateway.next(Duration::from_secs(1)).await {
        last = attached_routes(&version.object).or(last);
    }
    last
}

/// Follows every version until the count is as expected; no valid count is above `limit`.
async fn wait_for_count(
    gateway: &mut Following,
    expected: u64,
    limit: u64,
    patience: Duration,
) -> SeenStatus {
    let (mut seen, end) = (SeenStatus::default(), Instant::now() + patience);
    while let Some(version) = gateway.next(end.saturating_duration_since(Instant::now())).await {
        seen.writes += 1;
        let count = attached_routes(&version.object);
        seen.wrong += u64::from(count.is_some_and(|count| count > limit));
        if count == Some(expected) {
            seen.at = Some(version.at);
            return seen;
        }
    }
    seen
}

/// The count of the listener in the clear.
fn attached_routes(gateway: &Value) -> Option<u64> {
    let listeners = gateway["status"]["listeners"].as_array()?;
    listeners.iter().find(|listener| listener["name"] == HTTP)?["attachedRoutes"].as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_count_is_that_of_the_listener_in_the_clear() {
        let listeners =
            json!([{ "name": "https", "attachedRoutes": 3 }, { "name": "http", "attachedRoutes": 7 }]);
        assert_eq!(attached_routes(&json!({ "status": { "listeners": listeners } })), Some(7));
        assert_eq!(attached_routes(&json!({ "status": {} })), None);
    }
}
