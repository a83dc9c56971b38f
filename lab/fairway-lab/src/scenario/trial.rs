//! Tries route changes with a controller that the user described, since it may not know their annotations. Each
//! change is made once, before any load, and verified by a response. Peers that the laboratory installs need no
//! trial, because their routes use their own objects.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::probe::{Probe, ProbeResponse};
use super::running_peer::RunningPeer;
use super::site::{HOST, route};
use crate::peers::{Filters, RESPONSE_HEADER, Route};

/// How long a change may take to have an effect; most take less than a second, and Traefik usually pauses for 2 s.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(8);
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// A request for the rewritten path. A backend that gets the path `/healthz` responds `ok` and a line feed; with the
/// whole path it sends one byte.
const REWRITTEN: (&str, &str) = ("/rewritten/healthz?size=1", "3");

/// The changes that have no effect with this controller; the report lists them.
pub(super) async fn ineffective(
    running: &RunningPeer<'_>,
    changes: Vec<(&'static str, Filters)>,
) -> anyhow::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    if running.contender.peer.existing().is_none() {
        return Ok(found);
    }
    for (label, filters) in changes {
        if filters == Filters::default() {
            continue;
        }
        if let Some(seen) = in_vain(running, &filters).await? {
            running.add_note(&format!(
                "the change {label:?} had no effect within {} s ({seen}): the controller does not know the annotations of \
                 ingress-nginx, or does not allow this one, or none says it. The change is left out",
                ADOPTION_TIMEOUT.as_secs()
            ));
            found.push(label);
        }
    }
    Ok(found)
}

/// Makes a change and reverts it. Returns the last response if the change never had an effect.
async fn in_vain(running: &RunningPeer<'_>, filters: &Filters) -> anyhow::Result<Option<String>> {
    // Plain HTTP, so that a head can be read; the change is the same.
    let plain = |filters: Filters| Route { tls: false, filters, ..route() };
    let mut probe = Probe::new(SocketAddr::new(running.address, 80));
    running.route(&plain(filters.clone())).await?;
    let outcome = wait_until(&mut probe, question(filters), |answer| shows(filters, answer)).await;
    running.route(&route()).await?;
    running.wait_until_served().await?;
    Ok(outcome.err())
}

/// The path that shows a change.
fn question(filters: &Filters) -> &str {
    match (&filters.redirect, &filters.rewrite) {
        (Some((from, _)), _) => from,
        (None, Some(_)) => REWRITTEN.0,
        (None, None) => "/",
    }
}

fn shows(filters: &Filters, response: &ProbeResponse) -> bool {
    let has = |name: &str| response.field(name).is_some();
    match filters {
        Filters { redirect: Some((_, to)), .. } => {
            (300..400).contains(&response.status)
                && response.field("location").is_some_and(|place| place == *to)
        }
        Filters { rewrite: Some(_), .. } => {
            response.status == 200
                && response.field("content-length").is_some_and(|length| length == REWRITTEN.1)
        }
        Filters { response_header: Some(_), .. } => response.status == 200 && has(RESPONSE_HEADER),
        Filters { cors: true, .. } => response.status == 200 && has("access-control-allow-origin"),
        Filters { .. } => true,
    }
}

async fn wait_until(
    probe: &mut Probe,
    path: &str,
    shown: impl Fn(&ProbeResponse) -> bool,
) -> Result<(), String> {
    let end = Instant::now() + ADOPTION_TIMEOUT;
    loop {
        let response = match probe.request_path(HOST, path).await {
            Ok(answer) if shown(&answer) => return Ok(()),
            Ok(answer) => format!("the last answer to {path} was {} without it", answer.status),
            Err(error) => format!("the last request for {path} failed: {error:#}"),
        };
        if Instant::now() > end {
            return Err(response);
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}
