//! Well-behaved clients: requests at fixed times, whatever became of those before, most of them on kept connections.
//! Latency counts from the time at which a request was due.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::plan::PROBE_REQUEST;
use crate::client::{Client, RawResponse, Request};
use crate::proof::delays::Delays;
use crate::proof::site::{Endpoint, HOST};

/// One in this many requests uses a new connection.
const REQUESTS_PER_NEW_CONNECTION: u64 = 4;
/// Connections that the clients keep open: fewer than the proxy accepts when short of descriptors.
const MOST_KEPT: usize = 8;
/// Timeout of each step of a request.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The outcomes of well-behaved clients' requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProbeTally {
    /// Requests in all.
    pub sent: u64,
    /// With the expected response.
    pub answered: u64,
    /// Refused: 503, or a new connection closed before a response.
    pub refused: u64,
    /// Everything else, by what happened instead.
    pub failed: BTreeMap<String, u64>,
    /// Latency of expected responses.
    pub latency: Delays,
}

impl ProbeTally {
    /// Requests neither answered as expected nor refused.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Adds the outcomes of `other` without their latency.
    pub(super) fn add_outcomes(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.refused += other.refused;
        for (why, count) in &other.failed {
            *self.failed.entry(why.clone()).or_default() += count;
        }
    }
}

/// The clients of one endpoint, with the connections that they keep.
#[derive(Clone)]
pub(super) struct Clients {
    endpoint: Endpoint,
    clients: Arc<Mutex<Vec<Client>>>,
}

/// The outcome of a request.
enum ProbeOutcome {
    Answered,
    Refused,
    Failed(String),
}

impl Clients {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, clients: Arc::default() }
    }

    /// Sends `rate` requests per second for `time`, then waits for those in flight.
    pub(super) async fn send_requests(&self, rate: f64, time: Duration) -> ProbeTally {
        let mut requests = JoinSet::new();
        let mut due_times = due_times(rate, time);
        while let Some((number, due)) = due_times.recv().await {
            let clients = self.clone();
            requests.spawn(async move {
                (clients.once(number.is_multiple_of(REQUESTS_PER_NEW_CONNECTION)).await, due.elapsed())
            });
        }
        let (mut probed, mut times) = (ProbeTally::default(), Vec::new());
        while let Some(done) = requests.join_next().await {
            let (outcome, took) = done.expect("a client does not panic");
            probed.sent += 1;
            match outcome {
                ProbeOutcome::Answered => {
                    probed.answered += 1;
                    times.push(took);
                }
                ProbeOutcome::Refused => probed.refused += 1,
                ProbeOutcome::Failed(why) => *probed.failed.entry(why).or_default() += 1,
            }
        }
        probed.latency = Delays::from_times(times);
        probed
    }

    /// Whether a request on a new connection gets the expected response.
    pub(super) async fn is_served(&self) -> bool {
        matches!(self.once(true).await, ProbeOutcome::Answered)
    }

    async fn once(&self, fresh: bool) -> ProbeOutcome {
        let reused = if fresh { None } else { self.clients.lock().expect("no holder panics").pop() };
        if let Some(client) = reused {
            match self.exchange(client).await {
                // The proxy may close an idle connection at any time; clients ask again (RFC 9112 §9.3.1).
                Err(error) if is_end(&error) => {}
                result => return outcome(result, false),
            }
        }
        let connected = match self.endpoint.connect().await {
            Ok(client) => self.exchange(client.patient_for(STEP_TIMEOUT)).await,
            Err(error) => Err(error),
        };
        outcome(connected, true)
    }

    async fn exchange(&self, mut client: Client) -> io::Result<RawResponse> {
        let (answer, stays) = client.exchange_once(&Request::get(HOST, PROBE_REQUEST.0)).await?;
        let mut clients = self.clients.lock().expect("no holder panics");
        if stays && clients.len() < MOST_KEPT {
            clients.push(client);
        }
        Ok(answer)
    }
}

/// Sends numbers from 0 at `rate` per second for `time`, each when due. A thread keeps the time: runtime timers, and epoll
/// below them, count whole milliseconds, so requests a whole number of milliseconds apart would all be late by the same
/// fraction of two, and by another in the next phase, and phases could not be compared. The thread ends with the last
/// number or soon after the receiver.
fn due_times(rate: f64, time: Duration) -> UnboundedReceiver<(u64, Instant)> {
    let (sender, receiver) = unbounded_channel();
    let tell = move || {
        let began = Instant::now();
        for number in 0..(rate * time.as_secs_f64()) as u64 {
            let due = began + Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send((number, due)).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("due times".to_owned()).spawn(tell).expect("a thread starts");
    receiver
}

fn outcome(result: io::Result<RawResponse>, fresh: bool) -> ProbeOutcome {
    match result {
        Ok(answer) if answer.status == 200 && answer.body.len() == PROBE_REQUEST.1 => ProbeOutcome::Answered,
        Ok(answer) if answer.status == 503 => ProbeOutcome::Refused,
        Ok(answer) => ProbeOutcome::Failed(format!("{} with {} bytes", answer.status, answer.body.len())),
        Err(error) if fresh && is_end(&error) => ProbeOutcome::Refused,
        Err(error) => ProbeOutcome::Failed(error.kind().to_string()),
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted)
}
