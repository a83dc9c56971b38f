//! The smuggling differential: sends thousands of payloads that two parsers could split differently through a proxy to a backend
//! that records every byte. The forwarded bytes must contain the same requests for the strict reader, for every lenient one and,
//! in the long form, for real servers. `over_http1` and `over_http2` generate the payloads.

mod over_http1;
mod over_http2;
pub(crate) mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::conformance::client::{SILENT_TURNS, Silence, Turns, exchange};
use crate::conformance::fronts::{Front, fairway, fairway_before_http2};
use crate::conformance::readers::{disagreements, strict};
use crate::conformance::recorder::Recorder;

/// The protocols to and from the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Http1ToHttp1,
    Http2ToHttp1,
    Http1ToHttp2,
    Http2ToHttp2,
}

impl Direction {
    pub(crate) const TO_HTTP1: [Self; 2] = [Self::Http1ToHttp1, Self::Http2ToHttp1];
    pub(crate) const TO_HTTP2: [Self; 2] = [Self::Http1ToHttp2, Self::Http2ToHttp2];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1ToHttp1 => "h1->h1",
            Self::Http2ToHttp1 => "h2->h1",
            Self::Http1ToHttp2 => "h1->h2",
            Self::Http2ToHttp2 => "h2->h2",
        }
    }

    fn payloads(self) -> Vec<Payload> {
        match self {
            Self::Http1ToHttp1 | Self::Http1ToHttp2 => over_http1::all(),
            Self::Http2ToHttp1 | Self::Http2ToHttp2 => over_http2::all(),
        }
    }
}

/// A payload. [`MARK`] in its bytes is replaced by its number.
pub(crate) struct Payload {
    family: &'static str,
    bytes: Vec<u8>,
}

/// The payloads generated so far, by family.
#[derive(Default)]
pub(crate) struct Payloads(Vec<Payload>);

impl Payloads {
    fn add(&mut self, family: &'static str, bytes: impl Into<Vec<u8>>) {
        self.0.push(Payload { family, bytes: bytes.into() });
    }
}

/// Placeholder for the number of a payload, with the same number of digits, so that lengths do not change.
const MARK: &str = "/p00000/";

/// The target prefix of a payload.
fn mark(number: usize) -> String {
    format!("/p{number:05}/")
}

fn numbered(bytes: &[u8], number: usize) -> Vec<u8> {
    let (mut out, own, mut at) = (bytes.to_vec(), mark(number), 0);
    while let Some(found) = out[at..].windows(MARK.len()).position(|part| part == MARK.as_bytes()) {
        out[at + found..at + found + MARK.len()].copy_from_slice(own.as_bytes());
        at += found + MARK.len();
    }
    out
}

/// The results of all payloads of a direction.
#[derive(Default)]
pub(crate) struct Found {
    /// By family: number of payloads, and of those with a forwarded request.
    families: BTreeMap<&'static str, (usize, usize)>,
    /// Number of complete requests that left the proxy.
    requests: usize,
    /// The bytes that reached the backend, by connection.
    streams: Vec<Vec<u8>>,
    /// Number of payloads after which the proxy waits for more.
    silent: usize,
    /// Number of those that got a response later, so that the wait was too short.
    given_up_early: Vec<String>,
    /// Streams that two readers split differently, and responses that reached another payload.
    pub(crate) ambiguities: Vec<String>,
}

impl Found {
    fn payloads(&self) -> usize {
        self.families.values().map(|(payloads, _)| payloads).sum()
    }

    fn forwarded(&self) -> usize {
        self.families.values().map(|(_, forwarded)| forwarded).sum()
    }

    pub(crate) fn json(&self, direction: Direction) -> Value {
        let families: BTreeMap<_, _> = self
            .families
            .iter()
            .map(|(family, (payloads, forwarded))| {
                (*family, json!({"payloads": payloads, "forwarded": forwarded}))
            })
            .collect();
        let (payloads, forwarded) = (self.payloads(), self.forwarded());
        json!({"direction": direction.name(), "payloads": payloads, "refused": payloads - forwarded,
            "forwarded": forwarded, "given_up_early": self.given_up_early,
            "requests": self.requests, "ambiguities": self.ambiguities.len(),
            "examples": self.ambiguities.iter().take(5).collect::<Vec<_>>(), "families": families})
    }
}

/// Number of concurrent payloads.
const AT_ONCE: usize = 32;

/// Sends every payload of a direction through `front` and evaluates the bytes at `recorder`.
pub(crate) async fn differential(front: &Front, recorder: &Recorder, direction: Direction) -> Found {
    let (before, address) = (recorder.lengths(), front.http);
    let turns = Turns::for_address(address);
    let payloads = direction.payloads();
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let mut under_way = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        let permit = Arc::clone(&gate).acquire_owned().await.unwrap();
        let bytes = numbered(&payload.bytes, number);
        let silence = Silence::Turns(Arc::clone(&turns), SILENT_TURNS);
        under_way.push(tokio::spawn(async move {
            let last = format!("{}last", mark(number));
            let enough =
                |is_complete: &[u8]| is_complete.windows(last.len()).any(|part| part == last.as_bytes());
            let returned = exchange(address, &bytes, &silence, enough).await;
            drop(permit);
            returned
        }));
    }
    let mut all = Vec::new();
    for one in under_way {
        all.push(one.await.unwrap());
    }
    // Silent connections stay open until here.
    turns.pass(5 * SILENT_TURNS).await;
    let mut found = Found::default();
    for (number, returned) in all.iter().enumerate() {
        let marker = mark(number);
        found.silent += usize::from(returned.is_silent());
        if returned.was_given_up_early() {
            found.given_up_early.push(format!("{}{marker}", payloads[number].family));
        }
        // A response may belong to a request without a number, such as `OPTIONS *`, but not to one with another number.
        let is_strange = |received: &String| received.contains("/p0") && !received.contains(&marker);
        let strangers: Vec<_> = returned.requests_seen().into_iter().filter(is_strange).collect();
        if !strangers.is_empty() {
            found.ambiguities.push(format!("{}{marker}: answered {strangers:?}", payloads[number].family));
        }
    }
    found.streams = recorder.streams_behind(&before);
    judge(&mut found, &payloads);
    found.ambiguities.extend(recorder.broken());
    found
}

/// Reads the forwarded bytes with every reader.
fn judge(found: &mut Found, payloads: &[Payload]) {
    let mut forwarded = BTreeSet::new();
    for stream in &found.streams {
        let reading = strict(stream);
        found.requests += reading.messages.len();
        for received in &reading.messages {
            forwarded.extend(number_in(&received.target));
        }
        let different = disagreements(stream);
        if !different.is_empty() {
            let text = String::from_utf8_lossy(&stream[..stream.len().min(600)]).into_owned();
            found.ambiguities.push(format!("{}; the stream: {text:?}", different.join("; ")));
        }
    }
    for (number, payload) in payloads.iter().enumerate() {
        let family = found.families.entry(payload.family).or_default();
        family.0 += 1;
        // The last request of a payload is the innocent one and does not count.
        family.1 += usize::from(forwarded.contains(&number));
    }
}

/// The number of the payload that a target belongs to; `None` for the innocent request at its end.
fn number_in(target: &str) -> Option<usize> {
    let at = target.find("/p")?;
    let number = target.get(at + 2..at + 7)?.parse().ok()?;
    (!target.ends_with("/last")).then_some(number)
}

#[tokio::test]
async fn no_payload_leaves_that_two_readers_cut_differently() {
    let (old, new) = (Recorder::start().await, Recorder::start_http2().await);
    let (to_old, to_new) = (fairway(old.address).await, fairway_before_http2(new.address).await);
    let mut total = 0;
    let to_http1 = Direction::TO_HTTP1.map(|direction| (&to_old, &old, direction));
    let to_http2 = Direction::TO_HTTP2.map(|direction| (&to_new, &new, direction));
    for (front, recorder, direction) in to_http1.into_iter().chain(to_http2) {
        let found = differential(front, recorder, direction).await;
        let (payloads, forwarded) = (found.payloads(), found.forwarded());
        println!(
            "{}: {payloads} payloads, {forwarded} forwarded, {} silent, {} requests",
            direction.name(),
            found.silent,
            found.requests
        );
        let (count, first) =
            (found.ambiguities.len(), found.ambiguities.iter().take(10).cloned().collect::<Vec<_>>());
        assert!(first.is_empty(), "{}: {count} ambiguities:\n{}", direction.name(), first.join("\n"));
        assert_eq!(found.given_up_early, Vec::<String>::new(), "{}: answered later", direction.name());
        // A proxy that refused everything would prove nothing.
        assert!(
            forwarded * 20 > payloads && forwarded < payloads,
            "{payloads} payloads, {forwarded} forwarded"
        );
        total += payloads;
    }
    assert!(total >= 3000, "{total} payloads");
}

/// The report on a proxy, with real servers as readers if there are any.
pub(crate) async fn report(
    front: &Front,
    recorder: &Recorder,
    directions: &[Direction],
    servers: &[servers::Server],
) -> Vec<Value> {
    let mut reports = Vec::new();
    for &direction in directions {
        let mut found = differential(front, recorder, direction).await;
        let streams = std::mem::take(&mut found.streams);
        let mut readers = Vec::new();
        for server in servers {
            let read = server.read_all(&streams).await;
            found.ambiguities.extend(read.different.iter().map(|how| format!("{}: {how}", server.name)));
            readers.push(json!({"server": server.name, "version": server.version, "streams": streams.len(),
                "requests": read.requests, "stricter": read.stricter, "different": read.different.len()}));
        }
        let mut report = found.json(direction);
        report["readers"] = json!(readers);
        reports.push(report);
    }
    reports
}
