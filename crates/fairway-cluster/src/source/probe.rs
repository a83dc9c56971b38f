//! Whether the API server answers at all, and the signal to begin anew when it does again. Owns one small request every
//! two seconds; never reads an object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::core::Status;
use tokio::sync::{Notify, watch};
use tokio::time;

use super::fault::{self, Fault};

/// How often a server that answers is asked.
const CALM: Duration = Duration::from_secs(2);
/// How often one is asked that does not.
const ALARMED: Duration = Duration::from_millis(500);
/// An answer that takes longer counts as missed.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many answers must be missed in a row, so that a server with much to do is not troubled further.
const MISSED: u32 = 2;

/// Whether the API server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing was asked yet.
    Unknown,
    /// It answers.
    Answering,
    /// It does not answer.
    Silent {
        /// Since when.
        since: Instant,
        /// What happens when it is asked.
        problem: String,
    },
}

/// Heard by the watches: changes when all shall begin anew from where they are.
pub(super) type Pulse = watch::Receiver<u64>;

/// Rouses the probe: somebody saw a connection break.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarm(Arc<Notify>);

impl Alarm {
    pub(super) fn ring(&self) {
        self.0.notify_one();
    }
}

/// The probe.
pub(super) struct Probe {
    client: Client,
    alarm: Alarm,
    beats: watch::Sender<u64>,
    reach: watch::Sender<Reach>,
    missed: u32,
}

impl Probe {
    pub(super) fn new(client: Client, alarm: Alarm) -> (Self, Pulse, watch::Receiver<Reach>) {
        let (beats, pulse) = watch::channel(0);
        let (reach, seen) = watch::channel(Reach::Unknown);
        (Self { client, alarm, beats, reach, missed: 0 }, pulse, seen)
    }

    /// Asks for ever.
    pub(super) async fn run(mut self) {
        loop {
            self.judge(alive(&self.client).await);
            let pause = if self.missed == 0 { CALM } else { ALARMED };
            // A broken connection is worth a question at once, but a storm of them no more than one each half second.
            let roused = async {
                time::sleep(ALARMED.min(pause) / 2).await;
                self.alarm.0.notified().await;
            };
            tokio::select! {
                () = time::sleep(pause) => {}
                () = roused => {}
            }
        }
    }

    fn judge(&mut self, answer: Result<(), String>) {
        match answer {
            Ok(()) => {
                if self.missed >= MISSED {
                    tracing::info!("the API server answers again; all watches continue");
                    self.beats.send_modify(|beats| *beats += 1);
                }
                self.missed = 0;
                self.reach.send_if_modified(|reach| {
                    let changed = *reach != Reach::Answering;
                    *reach = Reach::Answering;
                    changed
                });
            }
            Err(problem) => {
                self.missed = self.missed.saturating_add(1);
                if self.missed == MISSED {
                    tracing::warn!(problem, "the API server does not answer; what is known is served");
                    self.reach.send_replace(Reach::Silent { since: Instant::now(), problem });
                }
            }
        }
    }
}

/// Any answer is a sign of life, also one that refuses.
async fn alive(client: &Client) -> Result<(), String> {
    let request = http_get("/readyz")?;
    match time::timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(_) | Err(kube::Error::Api(_) | kube::Error::FromUtf8(_))) => Ok(()),
        Ok(Err(error)) => Err(fault::chain(&error)),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

fn http_get(path: &str) -> Result<hyper::Request<Vec<u8>>, String> {
    hyper::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())
}

/// The version of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// As it calls itself: `v1.36.3`.
    pub name: String,
    /// 1 and 36; `None` where it does not say.
    pub number: Option<(u32, u32)>,
}

/// The oldest version with all APIs that are watched: `discovery.k8s.io/v1` came with it.
pub(super) const OLDEST: (u32, u32) = (1, 21);
/// From here on lists are sent as streams unless somebody switches it off (`WatchList`, KEP-3157).
const STREAMING: (u32, u32) = (1, 32);

impl ServerVersion {
    /// Why it cannot be used, and what to do.
    pub(super) fn refusal(&self) -> Option<String> {
        let too_old = self.number.is_some_and(|number| number < OLDEST);
        too_old.then(|| {
            format!(
                "the API server is {}, which has no discovery.k8s.io/v1 or no networking.k8s.io/v1; Kubernetes {}.{} \
                 or newer is needed",
                self.name, OLDEST.0, OLDEST.1
            )
        })
    }

    /// Whether lists may be asked for as streams.
    pub(super) fn streams_lists(&self) -> bool {
        self.number.is_some_and(|number| number >= STREAMING)
    }
}

/// Asks for the version.
pub(super) async fn version(client: &Client) -> Result<ServerVersion, Fault> {
    let answer = time::timeout(PATIENCE, client.apiserver_version()).await;
    let answer = answer.map_err(|_| Fault::Unreachable("its version was not answered in time".to_owned()))?;
    match answer {
        Ok(version) => {
            let digits = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
            let number = digits(&version.major).zip(digits(&version.minor));
            Ok(ServerVersion { name: version.git_version, number })
        }
        // It may hide its version; what it lacks shows when it is asked for.
        Err(kube::Error::Api(status)) if status_hides(&status) => {
            Ok(ServerVersion { name: "unknown".to_owned(), number: None })
        }
        Err(error) => Err(Fault::of(&error)),
    }
}

fn status_hides(status: &Status) -> bool {
    matches!(status.code, 403 | 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_with_its_version_and_the_one_that_is_needed() {
        let version = |number| ServerVersion { name: "v".to_owned(), number };
        assert!(version(Some((1, 20))).refusal().is_some_and(|text| text.contains("1.21")));
        assert!(version(Some((1, 21))).refusal().is_none() && version(None).refusal().is_none());
        assert!(version(Some((1, 36))).streams_lists() && !version(Some((1, 31))).streams_lists());
    }
}
