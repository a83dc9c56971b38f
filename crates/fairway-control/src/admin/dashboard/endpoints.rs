//! The endpoints of a backend: their configuration and current state.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_model::{Backend, BackendKey, PortProtocol};
use serde::Serialize;

use super::inspector::{Inspector, LiveEndpoint};

/// At most this many endpoints of a backend are shown.
const MAX_ENDPOINTS: usize = 100;
/// At most this many backends of a rule are queried.
const MAX_BACKENDS: usize = 20;

/// The current state of endpoints.
pub(super) struct LiveEndpoints(BTreeMap<(BackendKey, SocketAddr), Vec<LiveEndpoint>>);

/// The endpoints of a backend as a table.
#[derive(Serialize)]
pub(super) struct EndpointTable {
    backend: String,
    rows: Vec<EndpointRow>,
    /// How many are not shown.
    more: usize,
}

#[derive(Serialize)]
struct EndpointRow {
    address: String,
    pod: String,
    zone: String,
    health: String,
    is_trouble: bool,
    under_way: String,
    busy: String,
    idle: String,
    latency: String,
    connect_time: String,
}

impl LiveEndpoints {
    /// Queries the state of the endpoints of these backends.
    pub(super) async fn fetch(inspector: &dyn Inspector, mut backends: Vec<BackendKey>) -> Self {
        backends.sort_unstable();
        backends.dedup();
        backends.truncate(MAX_BACKENDS);
        let mut found = BTreeMap::<_, Vec<_>>::new();
        if !backends.is_empty() {
            for live in inspector.endpoints(backends, MAX_ENDPOINTS).await {
                found.entry((live.backend.clone(), live.address)).or_default().push(live);
            }
        }
        Self(found)
    }

    /// The endpoints of a backend.
    pub(super) fn table(&self, backend: &Backend) -> EndpointTable {
        let mut rows = Vec::new();
        for endpoint in backend.endpoints.iter().take(MAX_ENDPOINTS) {
            let known = self.0.get(&(backend.key.clone(), endpoint.address));
            let pod = endpoint.name.as_deref().unwrap_or_default();
            let zone = endpoint.place.as_ref().and_then(|place| place.zone.as_deref()).unwrap_or_default();
            match known {
                None => rows.push(EndpointRow::unknown(endpoint.address, pod, zone)),
                Some(known) => rows.extend(known.iter().map(|live| EndpointRow::from_live(live, pod, zone))),
            }
        }
        let unshown = backend.endpoints.len().saturating_sub(MAX_ENDPOINTS);
        EndpointTable { backend: backend.key.to_string(), rows, more: unshown }
    }
}

impl EndpointRow {
    /// An endpoint that no worker knows.
    fn unknown(address: SocketAddr, pod: &str, zone: &str) -> Self {
        let none = || "–".to_owned();
        Self {
            address: address.to_string(),
            pod: pod.to_owned(),
            zone: zone.to_owned(),
            health: "not used yet".to_owned(),
            is_trouble: false,
            under_way: none(),
            busy: none(),
            idle: none(),
            latency: none(),
            connect_time: none(),
        }
    }

    fn from_live(live: &LiveEndpoint, pod: &str, zone: &str) -> Self {
        Self {
            address: match live.carrier {
                PortProtocol::Tcp => live.address.to_string(),
                PortProtocol::Udp => format!("{} (UDP)", live.address),
            },
            pod: pod.to_owned(),
            zone: zone.to_owned(),
            health: health(live),
            is_trouble: live.fails_checks || live.ejected_by > 0 || live.suspected_by > 0,
            under_way: live.under_way.to_string(),
            busy: live.busy.to_string(),
            idle: live.idle.to_string(),
            latency: millis(live.latency),
            connect_time: millis(live.connect_time),
        }
    }
}

/// The health as text.
fn health(live: &LiveEndpoint) -> String {
    let of_workers = |count: u32| match live.workers {
        1 => String::new(),
        workers => format!(" by {count} of {workers} workers"),
    };
    let mut text = if live.fails_checks { "fails its health checks".to_owned() } else { String::new() };
    if live.ejected_by > 0 {
        let comma = if text.is_empty() { "" } else { "; " };
        // Writing to a String cannot fail.
        _ = write!(text, "{comma}ejected{}", of_workers(live.ejected_by));
        _ = match (live.ejected_for.is_zero(), live.probed_by) {
            (false, _) => write!(text, " for {:.1} s more", live.ejected_for.as_secs_f64()),
            (true, 0) => write!(text, ", the next request tries it"),
            (true, _) => write!(text, ", a request tries it now"),
        };
    }
    if live.suspected_by > 0 {
        let comma = if text.is_empty() { "" } else { "; " };
        _ = write!(text, "{comma}suspected{}: a connect was slow", of_workers(live.suspected_by));
    }
    match live.failures {
        _ if !text.is_empty() => text,
        0 => "healthy".to_owned(),
        hundredths => format!("healthy, {} failures in a row", f64::from(hundredths) / 100.0),
    }
}

fn millis(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{:.1} ms", time.as_secs_f64() * 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> LiveEndpoint {
        LiveEndpoint {
            backend: "shop/web:80".into(),
            address: ([10, 0, 0, 1], 80).into(),
            carrier: PortProtocol::Tcp,
            workers: 2,
            ejected_by: 0,
            probed_by: 0,
            suspected_by: 0,
            ejected_for: Duration::ZERO,
            fails_checks: false,
            failures: 0,
            under_way: 0,
            idle: 0,
            busy: 0,
            latency: None,
            connect_time: None,
        }
    }

    #[test]
    fn health_is_shown_as_text() {
        let ejected = LiveEndpoint { ejected_by: 1, ejected_for: Duration::from_millis(2_340), ..live() };
        for (endpoint, text) in [
            (live(), "healthy"),
            (LiveEndpoint { failures: 133, ..live() }, "healthy, 1.33 failures in a row"),
            (LiveEndpoint { workers: 1, ..ejected.clone() }, "ejected for 2.3 s more"),
            (
                LiveEndpoint { fails_checks: true, ..ejected.clone() },
                "fails its health checks; ejected by 1 of 2 workers for 2.3 s more",
            ),
            (ejected, "ejected by 1 of 2 workers for 2.3 s more"),
            (
                LiveEndpoint { ejected_by: 2, ..live() },
                "ejected by 2 of 2 workers, the next request tries it",
            ),
            (
                LiveEndpoint { workers: 1, ejected_by: 1, probed_by: 1, ..live() },
                "ejected, a request tries it now",
            ),
            (
                LiveEndpoint { suspected_by: 1, failures: 33, ..live() },
                "suspected by 1 of 2 workers: a connect was slow",
            ),
        ] {
            assert_eq!(health(&endpoint), text);
        }
    }
}
