//! Load that remembers everything: numbered requests in a closed loop, GET and POST mixed, every answer checked to its
//! last byte, every failure classed. Never sends a request again: what fails has failed.

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

/// The request field by which backends recognise a request.
const NUMBER_FIELD: &str = "X-Request-Number";
/// GETs ask for so much at most: an answer that a backend hands to its kernel in one piece, so that no GET is caught in
/// the middle of its answer, where no proxy could help.
const LARGEST_GET: usize = 16 * 1024;
/// The share of requests for which a backend takes its time, how long it takes, and what it answers to such a POST.
const SLOW: f64 = 0.1;
const DELAY: &str = "?delay=10ms";
const SLOW_ANSWER: usize = 64;
/// POSTs carry so much.
const POST_SIZES: (usize, usize) = (300, 100 * 1024);

/// What load there is.
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

/// What became of the requests of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Answered as they should be.
    pub answered: u64,
    /// Not so, by what came instead.
    pub failed: BTreeMap<String, u64>,
}

/// What became of all requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// GETs.
    pub gets: Outcomes,
    /// POSTs.
    pub posts: Outcomes,
    /// Connections that were made.
    pub connections: u64,
    /// From the first byte of a request to the last of its answer.
    pub latency: Delays,
    #[serde(skip)]
    times: Vec<Duration>,
}

impl Outcomes {
    /// Everything that was not answered as it should be.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Answered 502 or 504: the proxy says that the endpoint was lost, and that it did not ask another one.
    #[must_use]
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

/// How far the load is; shared with whoever shows it.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Requests begun so far.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Sends all of `load` through `endpoint`.
///
/// # Panics
///
/// When a client panics.
pub async fn send(load: &Load, endpoint: &Endpoint, progress: &Progress) -> Tally {
    let mut clients = JoinSet::new();
    for _ in 0..load.connections {
        clients.spawn(client(load.clone(), endpoint.clone(), progress.clone()));
    }
    let mut tally = Tally::default();
    while let Some(done) = clients.join_next().await {
        tally.add(done.expect("a client does not panic"));
    }
    tally.latency = Delays::of(std::mem::take(&mut tally.times));
    tally
}

async fn client(load: Load, endpoint: Endpoint, progress: Progress) -> Tally {
    let mut tally = Tally::default();
    let mut kept: Option<Client> = None;
    loop {
        let number = progress.next();
        if number >= load.requests {
            return tally;
        }
        let asked = Asked::numbered(number, load.posts);
        if share(number, 3) < load.fresh {
            kept = None;
        }
        let began = Instant::now();
        let outcome = exchange(&endpoint, &mut kept, &asked, &mut tally.connections).await;
        tally.times.push(began.elapsed());
        note(&mut tally, &asked, outcome);
    }
}

/// One exchange; the connection stays when the answer says so.
async fn exchange(
    endpoint: &Endpoint,
    kept: &mut Option<Client>,
    asked: &Asked,
    connections: &mut u64,
) -> io::Result<RawResponse> {
    let mut client = match kept.take() {
        Some(client) => client,
        None => {
            *connections += 1;
            endpoint.connect().await?
        }
    };
    let request = asked.request();
    // The proxy may answer before it has taken the whole body; its answer counts.
    let sent = client.send(request.bytes()).await;
    let answer = match client.read_response_to(request.method()).await {
        Ok(answer) => answer,
        Err(error) => return Err(sent.err().unwrap_or(error)),
    };
    let closes = answer.header_values("connection").iter().any(|value| value.eq_ignore_ascii_case("close"));
    if sent.is_ok() && !closes {
        *kept = Some(client);
    }
    Ok(answer)
}

/// A request, known by its number alone.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Get(usize),
    Post(usize),
}

impl Asked {
    fn numbered(number: u64, posts: f64) -> Self {
        let what = if share(number, 1) < posts {
            let (least, most) = (POST_SIZES.0 as f64, POST_SIZES.1 as f64);
            // Every order of magnitude alike: most bodies are small, some do not fit into what is held for a retry.
            What::Post((least * (most / least).powf(share(number, 2))) as usize)
        } else {
            What::Get((share(number, 2) * LARGEST_GET as f64) as usize)
        };
        Self { number, what }
    }

    fn request(self) -> Request {
        let delay = if self.is_slow() { DELAY } else { "" };
        let request = match self.what {
            What::Get(size) => Request::get(HOST, &format!("/bytes/{size}{delay}")),
            What::Post(size) => {
                let target =
                    if self.is_slow() { format!("/bytes/{SLOW_ANSWER}{delay}") } else { "/sink".to_owned() };
                let request = Request::new("POST", &target).header("Host", HOST);
                let body = vec![b'x'; size];
                // One in eight does not say its length in advance.
                if self.number.is_multiple_of(8) {
                    request.chunks(&body.chunks(8 * 1024).collect::<Vec<_>>())
                } else {
                    request.body(body)
                }
            }
        };
        request.header(NUMBER_FIELD, &self.number.to_string())
    }

    /// Whether the backend takes its time: it has noted the request then and may die before it answers.
    fn is_slow(self) -> bool {
        share(self.number, 4) < SLOW
    }

    /// Whether this is the body that was asked for.
    fn fits(self, answer: &RawResponse) -> bool {
        match self.what {
            What::Get(size) => is_pattern(&answer.body, size),
            What::Post(_) if self.is_slow() => is_pattern(&answer.body, SLOW_ANSWER),
            What::Post(size) => answer.text() == format!("{{\"length\":{size}}}"),
        }
    }
}

fn is_pattern(body: &[u8], size: usize) -> bool {
    body.len() == size && body.iter().zip((b'a'..=b'z').cycle()).all(|(byte, expected)| *byte == expected)
}

fn note(tally: &mut Tally, asked: &Asked, outcome: io::Result<RawResponse>) {
    let outcomes = match asked.what {
        What::Get(_) => &mut tally.gets,
        What::Post(_) => &mut tally.posts,
    };
    let class = match outcome {
        Ok(answer) if answer.status == 200 && asked.fits(&answer) => {
            outcomes.answered += 1;
            return;
        }
        Ok(answer) if answer.status == 200 => "wrong body".to_owned(),
        // The body of an answer that Fairway makes itself says why.
        Ok(answer) => answer.text().lines().next().unwrap_or_default().chars().take(100).collect(),
        Err(error) => error.kind().to_string(),
    };
    *outcomes.failed.entry(class).or_default() += 1;
}

/// A number from 0 to 1 that only depends on the request's number and on what it is for, so that a failure can be asked
/// for again (SplitMix64).
fn share(number: u64, what: u64) -> f64 {
    let mut bits =
        number.wrapping_add(what.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_over_the_whole_range() {
        for what in 1..=4 {
            let below = (0..10_000).filter(|number| share(*number, what) < 0.3).count();
            assert!((2_800..3_200).contains(&below), "{below}");
        }
    }
}
