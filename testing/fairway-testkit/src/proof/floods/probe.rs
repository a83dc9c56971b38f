//! Well-behaved clients: requests at fixed times, whatever became of those before, most of them on kept connections.
//! Latency counts from the time at which a request was due.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::plan::ASKED;
use crate::client::{Client, RawResponse, Request};
use crate::proof::delays::Delays;
use crate::proof::site::{Endpoint, HOST};

/// One in so many comes on a new connection.
const FRESH: u64 = 4;
/// Connections that the clients keep between their requests: fewer than the proxy takes when its descriptors are few.
const MOST_KEPT: usize = 8;
/// How long a client waits for each step of its request.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of the requests of well-behaved clients.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Probed {
    /// Requests in all.
    pub sent: u64,
    /// Answered as they should be.
    pub answered: u64,
    /// Refused: answered 503, or a new connection closed before an answer.
    pub refused: u64,
    /// Everything else, by what came instead.
    pub failed: BTreeMap<String, u64>,
    /// Of those that were answered as they should be.
    pub latency: Delays,
}

impl Probed {
    /// Requests that were neither answered nor refused.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Adds what became of the requests of `other`, without their latency.
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
    kept: Arc<Mutex<Vec<Client>>>,
}

/// What became of one request.
enum Outcome {
    Answered,
    Refused,
    Failed(String),
}

impl Clients {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, kept: Arc::default() }
    }

    /// Asks `rate` times a second for `time`, then waits for what is on its way.
    pub(super) async fn ask(&self, rate: f64, time: Duration) -> Probed {
        let mut asked = JoinSet::new();
        let mut due_times = due_times(rate, time);
        while let Some((number, due)) = due_times.recv().await {
            let clients = self.clone();
            asked.spawn(async move { (clients.once(number.is_multiple_of(FRESH)).await, due.elapsed()) });
        }
        let (mut probed, mut times) = (Probed::default(), Vec::new());
        while let Some(done) = asked.join_next().await {
            let (outcome, took) = done.expect("a client does not panic");
            probed.sent += 1;
            match outcome {
                Outcome::Answered => {
                    probed.answered += 1;
                    times.push(took);
                }
                Outcome::Refused => probed.refused += 1,
                Outcome::Failed(why) => *probed.failed.entry(why).or_default() += 1,
            }
        }
        probed.latency = Delays::of(times);
        probed
    }

    /// Whether a request on a new connection is answered as it should be.
    pub(super) async fn is_served(&self) -> bool {
        matches!(self.once(true).await, Outcome::Answered)
    }

    async fn once(&self, fresh: bool) -> Outcome {
        let kept = if fresh { None } else { self.kept.lock().expect("no holder panics").pop() };
        if let Some(client) = kept {
            match self.exchange(client).await {
                // The proxy may close an idle connection at any time; clients ask again (RFC 9112 §9.3.1).
                Err(error) if is_end(&error) => {}
                result => return outcome(result, false),
            }
        }
        let made = match self.endpoint.connect().await {
            Ok(client) => self.exchange(client.patient_for(PATIENCE)).await,
            Err(error) => Err(error),
        };
        outcome(made, true)
    }

    async fn exchange(&self, mut client: Client) -> io::Result<RawResponse> {
        let (answer, stays) = client.ask(&Request::get(HOST, ASKED.0)).await?;
        let mut kept = self.kept.lock().expect("no holder panics");
        if stays && kept.len() < MOST_KEPT {
            kept.push(client);
        }
        Ok(answer)
    }
}

/// Numbers from 0 on at `rate` a second for `time`, each told when it is due. A thread tells the time: timers of the runtime, and epoll
/// below them, have whole milliseconds, so requests a whole number of milliseconds apart would all be late by the same part of two,
/// and by another one in the next phase. Two phases could not be compared. The thread ends with the last number, or soon after the
/// receiver.
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

fn outcome(result: io::Result<RawResponse>, fresh: bool) -> Outcome {
    match result {
        Ok(answer) if answer.status == 200 && answer.body.len() == ASKED.1 => Outcome::Answered,
        Ok(answer) if answer.status == 503 => Outcome::Refused,
        Ok(answer) => Outcome::Failed(format!("{} with {} bytes", answer.status, answer.body.len())),
        Err(error) if fresh && is_end(&error) => Outcome::Refused,
        Err(error) => Outcome::Failed(error.kind().to_string()),
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted)
}
