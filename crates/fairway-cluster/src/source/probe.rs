//! Checks every two seconds, with one small request, whether the API server answers, and signals watches to restart when it is
//! back. Reads no objects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::core::Status;
use tokio::sync::{Notify, watch};
use tokio::time;

use super::fault::{self, Fault};

/// The interval while the server answers.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(2);
/// The interval while it does not.
const FAILING_INTERVAL: Duration = Duration::from_millis(500);
/// A slower response counts as missed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Consecutive misses before the server counts as unreachable, so that a busy server gets no extra load.
const FAILURE_THRESHOLD: u32 = 2;

/// Whether the API server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// No request was made yet.
    Unknown,
    /// It answers.
    Reachable,
    /// It does not answer.
    Unreachable {
        /// Since when.
        since: Instant,
        /// What the last request failed with.
        problem: String,
    },
}

/// Changes when all watches should restart from where they are.
pub(super) type RestartSignal = watch::Receiver<u64>;

/// Triggers a probe: a connection failed.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeTrigger(Arc<Notify>);

impl ProbeTrigger {
    pub(super) fn trigger(&self) {
        self.0.notify_one();
    }
}

/// The probe.
pub(super) struct Probe {
    client: Client,
    trigger: ProbeTrigger,
    restarts: watch::Sender<u64>,
    reach: watch::Sender<Reachability>,
    missed: u32,
}

impl Probe {
    pub(super) fn new(
        client: Client,
        trigger: ProbeTrigger,
    ) -> (Self, RestartSignal, watch::Receiver<Reachability>) {
        let (restarts, restart_signal) = watch::channel(0);
        let (reach, observed) = watch::channel(Reachability::Unknown);
        (Self { client, trigger, restarts, reach, missed: 0 }, restart_signal, observed)
    }

    /// Probes forever.
    pub(super) async fn run(mut self) {
        loop {
            self.record_result(check_alive(&self.client).await);
            let pause = if self.missed == 0 { HEALTHY_INTERVAL } else { FAILING_INTERVAL };
            // A failed connection triggers a probe at once, but at most one in a quarter of a second.
            let triggered = async {
                time::sleep(FAILING_INTERVAL.min(pause) / 2).await;
                self.trigger.0.notified().await;
            };
            tokio::select! {
                () = time::sleep(pause) => {}
                () = triggered => {}
            }
        }
    }

    fn record_result(&mut self, response: Result<(), String>) {
        match response {
            Ok(()) => {
                if self.missed >= FAILURE_THRESHOLD {
                    tracing::info!("the API server answers again; all watches continue");
                    self.restarts.send_modify(|count| *count += 1);
                }
                self.missed = 0;
                self.reach.send_if_modified(|reach| {
                    let changed = *reach != Reachability::Reachable;
                    *reach = Reachability::Reachable;
                    changed
                });
            }
            Err(problem) => {
                self.missed = self.missed.saturating_add(1);
                if self.missed == FAILURE_THRESHOLD {
                    tracing::warn!(
                        problem,
                        "the API server does not answer; serving the last known configuration"
                    );
                    self.reach.send_replace(Reachability::Unreachable { since: Instant::now(), problem });
                }
            }
        }
    }
}

/// Any response shows that the server is there, even a refusal.
async fn check_alive(client: &Client) -> Result<(), String> {
    let request = get_request("/readyz")?;
    match time::timeout(PROBE_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(_) | Err(kube::Error::Api(_) | kube::Error::FromUtf8(_))) => Ok(()),
        Ok(Err(error)) => Err(fault::error_chain(&error)),
        Err(_) => Err(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
    }
}

fn get_request(path: &str) -> Result<hyper::Request<Vec<u8>>, String> {
    hyper::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())
}

/// The version of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// As the server reports it: `v1.36.3`.
    pub name: String,
    /// 1 and 36; `None` if the server does not report it.
    pub number: Option<(u32, u32)>,
}

/// The oldest version with every watched API: it introduced `discovery.k8s.io/v1`.
pub(super) const OLDEST_SUPPORTED_VERSION: (u32, u32) = (1, 21);
/// From this version on, lists are streamed unless the feature is disabled (`WatchList`, KEP-3157).
const FIRST_VERSION_WITH_STREAMED_LISTS: (u32, u32) = (1, 32);

impl ServerVersion {
    /// Why this version is not supported, and what to do.
    pub(super) fn unsupported_reason(&self) -> Option<String> {
        let too_old = self.number.is_some_and(|number| number < OLDEST_SUPPORTED_VERSION);
        too_old.then(|| {
            format!(
                "the API server is {}, which has no discovery.k8s.io/v1 or no networking.k8s.io/v1; Kubernetes {}.{} \
                 or newer is needed",
                self.name, OLDEST_SUPPORTED_VERSION.0, OLDEST_SUPPORTED_VERSION.1
            )
        })
    }

    /// Whether lists may be requested as streams.
    pub(super) fn streams_lists(&self) -> bool {
        self.number.is_some_and(|number| number >= FIRST_VERSION_WITH_STREAMED_LISTS)
    }
}

/// Requests the version.
pub(super) async fn fetch_version(client: &Client) -> Result<ServerVersion, Fault> {
    let response = time::timeout(PROBE_TIMEOUT, client.apiserver_version()).await;
    let response =
        response.map_err(|_| Fault::Unreachable("the request for its version timed out".to_owned()))?;
    match response {
        Ok(version) => {
            let digits = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            let number = digits(&version.major).zip(digits(&version.minor));
            Ok(ServerVersion { name: version.git_version, number })
        }
        // The server may hide its version; missing APIs show when they are requested.
        Err(kube::Error::Api(status)) if hides_version(&status) => {
            Ok(ServerVersion { name: "unknown".to_owned(), number: None })
        }
        Err(error) => Err(Fault::from_error(&error)),
    }
}

fn hides_version(status: &Status) -> bool {
    matches!(status.code, 403 | 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_naming_both_versions() {
        let version = |number| ServerVersion { name: "v".to_owned(), number };
        assert!(version(Some((1, 20))).unsupported_reason().is_some_and(|text| text.contains("1.21")));
        assert!(
            version(Some((1, 21))).unsupported_reason().is_none()
                && version(None).unsupported_reason().is_none()
        );
        assert!(version(Some((1, 36))).streams_lists() && !version(Some((1, 31))).streams_lists());
    }
}
