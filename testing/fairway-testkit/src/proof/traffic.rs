//! Load that records everything: numbered requests in a closed loop, GET and POST mixed, every response checked to its last
//! byte, every failure classified. Never retries.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use crate::client::{Client, RawResponse, Request};
use crate::proof::delays::Delays;
use crate::proof::site::{Endpoint, HOST};

/// The header that identifies a request to backends.
const NUMBER_FIELD: &str = "X-Request-Number";
/// Largest response to a GET: one that a backend passes to its kernel at once, so that no GET is interrupted mid-response,
/// where no proxy could help.
const LARGEST_GET: usize = 16 * 1024;
/// The share of requests that a backend delays, the delay, and the response to such a POST.
const SLOW: f64 = 0.1;
const DELAY: &str = "?delay=10ms";
const SLOW_ANSWER: usize = 64;
/// Largest body of a POST.
const POST_SIZES: (usize, usize) = (300, 100 * 1024);

/// The load.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// Requests in all.
    pub requests: u64,
    /// Clients, each with one request at a time.
    pub connections: usize,
    /// The share of requests that are POSTs.
    pub posts: f64,
    /// The share of requests for which a client makes a new connection.
    pub fresh: f64,
}

/// The outcomes of one method's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// With the expected response.
    pub answered: u64,
    /// Failed, by what happened instead.
    pub failed: BTreeMap<String, u64>,
}

/// The outcomes of all requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// GETs.
    pub gets: Outcomes,
    /// POSTs.
    pub posts: Outcomes,
    /// Connections opened.
    pub connections: u64,
    /// From the first byte of a request to the last byte of its response.
    pub latency: Delays,
    #[serde(skip)]
    times: Vec<Duration>,
}

impl Outcomes {
    /// All requests without the expected response.
    pub fn unanswered(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Answered with 502 or 504: the proxy reports that the endpoint was lost and that it did not try another.
    pub fn lost(&self) -> u64 {
        let lost = |class: &str| class.starts_with("502 ") || class.starts_with("504 ");
        self.failed.iter().filter(|(class, _)| lost(class)).map(|(_, count)| count).sum()
    }

    fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        for (class, count) in &other.failed {
            *self.failed.entry(class.clone()).or_default() += count;
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.gets.add(&other.gets);
        self.posts.add(&other.posts);
        self.connections += other.connections;
        self.times.extend(other.times);
    }
}

/// The progress of the load, shared with a display.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Requests started so far.
    pub fn begun(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Sends all of `load` through `endpoint`.
pub async fn send(load: &Load, endpoint: &Endpoint, progress: &Progress) -> Tally {
    let mut clients = JoinSet::new();
    for _ in 0..load.connections {
        clients.spawn(client(load.clone(), endpoint.clone(), progress.clone()));
    }
    let mut tally = Tally::default();
    while let Some(done) = clients.join_next().await {
        tally.add(done.expect("a client does not panic"));
    }
    tally.latency = Delays::from_times(std::mem::take(&mut tally.times));
    tally
}

async fn client(load: Load, endpoint: Endpoint, progress: Progress) -> Tally {
    let mut tally = Tally::default();
    let mut client: Option<Client> = None;
    loop {
        let number = progress.next();
        if number >= load.requests {
            return tally;
        }
        // A request depends only on its number, so that a failure can be reproduced.
        let mut random = fastrand::Rng::with_seed(number);
        let sent_request = SentRequest::new(number, random.f64() < load.posts, &mut random);
        if random.f64() < load.fresh {
            client = None;
        }
        let began = Instant::now();
        let outcome = exchange(&endpoint, &mut client, &sent_request, &mut tally.connections).await;
        tally.times.push(began.elapsed());
        record_outcome(&mut tally, &sent_request, outcome);
    }
}

/// One exchange; keeps the connection if the response allows it.
async fn exchange(
    endpoint: &Endpoint,
    kept: &mut Option<Client>,
    asked: &SentRequest,
    connections: &mut u64,
) -> io::Result<RawResponse> {
    let mut client = match kept.take() {
        Some(client) => client,
        None => {
            *connections += 1;
            endpoint.connect().await?
        }
    };
    let (answer, stays) = client.exchange_once(&asked.request()).await?;
    *kept = stays.then_some(client);
    Ok(answer)
}

#[derive(Clone, Copy, Debug)]
struct SentRequest {
    number: u64,
    is_post: bool,
    /// The size of the body requested or sent.
    size: usize,
    /// Whether the backend delays: it has recorded the request and may die before it responds.
    is_slow: bool,
}

impl SentRequest {
    fn new(number: u64, is_post: bool, random: &mut fastrand::Rng) -> Self {
        let size = if is_post {
            let (least, most) = (POST_SIZES.0 as f64, POST_SIZES.1 as f64);
            // Sizes are spread evenly over orders of magnitude: most bodies are small, some exceed the retry buffer.
            (least * (most / least).powf(random.f64())) as usize
        } else {
            random.usize(..LARGEST_GET)
        };
        Self { number, is_post, size, is_slow: random.f64() < SLOW }
    }

    fn request(self) -> Request {
        let target = match (self.is_post, self.is_slow) {
            (false, is_slow) => format!("/bytes/{}{}", self.size, if is_slow { DELAY } else { "" }),
            (true, true) => format!("/bytes/{SLOW_ANSWER}{DELAY}"),
            (true, false) => "/sink".to_owned(),
        };
        let method = if self.is_post { "POST" } else { "GET" };
        let request =
            Request::new(method, &target).header("Host", HOST).header(NUMBER_FIELD, &self.number.to_string());
        let body = vec![b'x'; self.size];
        match self.is_post {
            false => request,
            // One in eight is sent without Content-Length.
            true if self.number.is_multiple_of(8) => {
                request.chunks(&body.chunks(8 * 1024).collect::<Vec<_>>())
            }
            true => request.body(body),
        }
    }

    /// Whether this is the requested body.
    fn fits(self, response: &RawResponse) -> bool {
        match (self.is_post, self.is_slow) {
            (false, _) => is_pattern(&response.body, self.size),
            (true, true) => is_pattern(&response.body, SLOW_ANSWER),
            (true, false) => response.text() == format!("{{\"length\":{}}}", self.size),
        }
    }
}

fn is_pattern(body: &[u8], size: usize) -> bool {
    body.len() == size && body.iter().zip((b'a'..=b'z').cycle()).all(|(byte, expected)| *byte == expected)
}

fn record_outcome(tally: &mut Tally, request: &SentRequest, outcome: io::Result<RawResponse>) {
    let outcomes = if request.is_post { &mut tally.posts } else { &mut tally.gets };
    let class = match outcome {
        Ok(answer) if answer.status == 200 && request.fits(&answer) => {
            outcomes.answered += 1;
            return;
        }
        Ok(answer) if answer.status == 200 => "wrong body".to_owned(),
        // The body of a response generated by Fairway gives the reason.
        Ok(answer) => answer.text().lines().next().unwrap_or_default().chars().take(100).collect(),
        Err(error) => error.kind().to_string(),
    };
    *outcomes.failed.entry(class).or_default() += 1;
}
