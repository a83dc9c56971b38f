//! Changes routes, certificates and settings under load and counts connections that Fairway closes. None is right.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::Request;
use crate::process::Fairway;
use crate::proof::fleet::Fleet;
use crate::proof::site::{Endpoint, HOST, Scheme, Site};
use crate::wait::{WAIT_TIMEOUT, eventually};

/// Connections of each scheme.
const CONNECTIONS: usize = 16;
/// Delay between two requests of a connection.
const REQUEST_INTERVAL: Duration = Duration::from_millis(4);
/// Delay between two changes, so that requests meet each of them.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);
/// The size of every response.
const RESPONSE_BYTES: usize = 1024;

/// The changes made and the fate of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Steadiness {
    /// Changes of each kind, each of them awaited.
    pub changes_of_each_kind: usize,
    /// Connections that were open all the time.
    pub connections: usize,
    /// Responses on these connections.
    pub answered: u64,
    /// Connections that Fairway closed or announced to close.
    pub closed: u64,
    /// Responses that differ from what the backend sent.
    pub wrong: u64,
}

/// Changes routes, certificates and settings `times` times each under load.
pub async fn steady(binary: &Path, times: usize) -> Steadiness {
    let site = Site::new();
    let _fleet = Fleet::start(&site, binary, 1).await;
    site.redirect("/moved", "start");
    set(&site, 0);
    let fairway = site.serve(binary, &Site::SETTINGS).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for scheme in Scheme::ALL {
        for _ in 0..CONNECTIONS {
            clients.spawn(client(site.endpoint(&fairway, scheme), Arc::clone(&stop)));
        }
    }
    for change in 1..=times {
        change_route(&site, &fairway, change).await;
        sleep(CHANGE_INTERVAL).await;
        change_certificate(&site, &fairway).await;
        sleep(CHANGE_INTERVAL).await;
        change_settings(&site, &fairway, change).await;
        sleep(CHANGE_INTERVAL).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut found =
        Steadiness { changes_of_each_kind: times, connections: clients.len(), ..Steadiness::default() };
    while let Some(done) = clients.join_next().await {
        let client = done.expect("a client does not panic");
        found.answered += client.answered;
        found.closed += client.closed;
        found.wrong += client.wrong;
    }
    found
}

/// Sends requests on one connection until stopped or until the connection ends.
async fn client(endpoint: Endpoint, stop: Arc<AtomicBool>) -> Steadiness {
    let mut counts = Steadiness::default();
    let mut client = endpoint.connect().await.expect("Fairway takes connections");
    let request = Request::get(HOST, &format!("/bytes/{RESPONSE_BYTES}"));
    loop {
        // Read before the request: the last one comes after the last change.
        let last = stop.load(Ordering::Relaxed);
        let Ok((answer, stays)) = client.exchange_once(&request).await else {
            counts.closed += 1;
            return counts;
        };
        counts.answered += 1;
        counts.wrong += u64::from(answer.status != 200 || answer.body.len() != RESPONSE_BYTES);
        counts.closed += u64::from(!stays);
        if !stays {
            return counts;
        }
        if last {
            return counts;
        }
        sleep(REQUEST_INTERVAL).await;
    }
}

async fn change_route(site: &Site, fairway: &Fairway, change: usize) {
    let label = format!("n{change}");
    site.redirect("/moved", &label);
    let endpoint = site.endpoint(fairway, Scheme::Plain);
    let url = format!("https://{label}.test/");
    eventually("the changed route is served", WAIT_TIMEOUT, || async {
        let Ok(mut client) = endpoint.connect().await else { return false };
        let response = client.exchange(&Request::get(HOST, "/moved").close()).await;
        response
            .is_ok_and(|answer| answer.header("location").is_some_and(|location| location.starts_with(&url)))
    })
    .await;
}

async fn change_certificate(site: &Site, fairway: &Fairway) {
    let leaf = site.leaf();
    site.certify(&leaf);
    let endpoint = site.endpoint(fairway, Scheme::Tls).without_resumption();
    eventually("the new certificate is shown", WAIT_TIMEOUT, || async {
        let shown = endpoint.connect().await.ok().and_then(|client| client.tls());
        shown.is_some_and(|tls| tls.chain == leaf.chain_der)
    })
    .await;
}

async fn change_settings(site: &Site, fairway: &Fairway, change: usize) {
    let before = fairway.metrics().await.sum("fairway_config_version", &[]);
    set(site, change);
    fairway.until_metric("fairway_config_version", &[], |version| version > before).await;
    eventually("every worker has adopted the settings", WAIT_TIMEOUT, || async {
        fairway.admin("/readyz").await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

/// Time-outs, pools and a header, each of which differs from change to change.
fn set(site: &Site, change: usize) {
    let step = change % 50;
    let entries = [
        // By default a connection ends, as it should, after 1,000 requests.
        ("keep-alive-requests", "1000000".to_owned()),
        ("keep-alive", (60 + step).to_string()),
        ("upstream-keepalive-connections", (64 + step).to_string()),
        ("proxy-read-timeout", (60 + step).to_string()),
        ("hsts-max-age", (1_000 + step).to_string()),
    ];
    let entries = entries.each_ref().map(|(key, value)| (*key, value.as_str()));
    site.write_settings(&entries);
}
