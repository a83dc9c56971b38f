//! One stream of load and what it cost: requests, errors by class, latency, lateness of the generator, CPU of the proxy, and
//! what backends say of its requests: which came twice and which never.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::figure;

/// How a peer came to its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settings {
    /// Upstream keep-alive, equal worker counts, TLS versions, ciphers, keys and logs.
    Recommended,
    /// As it comes.
    Defaults,
}

/// A stream of load through a peer in a phase of a scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measure {
    /// The name of a [`PeerRecord`](super::PeerRecord).
    pub peer: String,
    /// With which settings.
    pub settings: Settings,
    /// The variant of the scenario: `static`, `dynamic`, `500/s`, `https-1k tls1.2`, `5 x 50`.
    pub case: String,
    /// The phase, or `pooled` for the whole.
    pub phase: String,
    /// For a stream straight to a pod: the peer whose stream ran at the same time.
    #[serde(default)]
    pub beside: Option<String>,
    /// Seconds from the beginning of the case, on the clock of its [`Event`](super::Event)s, to this stream's first request.
    /// Every peer's case begins at 0, so that peers can be laid over one another.
    #[serde(deserialize_with = "figure::one")]
    pub begun_s: f64,
    /// What clients saw.
    pub load: Load,
    /// What the proxy spent, where it could be read.
    pub cost: Option<Cost>,
    /// What is known from behind the proxy.
    #[serde(flatten)]
    pub backstage: Backstage,
}

/// What the clients of a stream saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// What was offered.
    pub offered: Offered,
    /// Complete answers a second.
    #[serde(deserialize_with = "figure::one")]
    pub rate: f64,
    /// Bytes of answers a second, heads included.
    #[serde(deserialize_with = "figure::one")]
    pub bytes_rate: f64,
    /// From the first intended request to the last answer, seconds.
    #[serde(deserialize_with = "figure::one")]
    pub seconds: f64,
    /// Requests, answers, connections.
    pub counts: Counts,
    /// What went wrong, by class; a class that did not happen is left out.
    pub errors: BTreeMap<Class, u64>,
    /// The first of each class.
    pub examples: Vec<Example>,
    /// From the intended time (no coordinated omission); in a closed loop this is the send time.
    pub latency: Latency,
    /// From the time that the request was written.
    pub service: Latency,
    /// How late the generator itself was.
    pub lateness: Lateness,
    /// TLS as it was negotiated, where there is any.
    pub tls: Option<Tls>,
    /// Latency and errors over time.
    pub over_time: OverTime,
}

/// What a generator offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The rate of an open loop, requests a second; none in a closed loop.
    pub rate: Option<f64>,
    /// Connections at most; in a closed loop all of them are kept busy.
    pub connections: u32,
    /// Threads of the generator.
    pub threads: u32,
}

/// Latency and errors over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// All requests, in pieces of time.
    pub series: Vec<Bucket>,
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were due. In an open loop the plan, in a closed one as many as were sent.
    pub requests: u64,
    /// Complete answers with an expected status, from the expected route.
    pub ok: u64,
    /// Connections that were opened, TLS included.
    pub connections: u64,
    /// TLS handshakes, full.
    pub full_handshakes: u64,
    /// TLS handshakes, resumed.
    pub resumed_handshakes: u64,
    /// Session tickets of TLS 1.3 that came; older files have none.
    #[serde(default)]
    pub tickets: u64,
    /// Bytes received, heads included, TLS records not.
    pub bytes: u64,
}

/// What can become of a request that is not answered as expected (benchmarks.md, Metrics).
/// In JSON a string, as [`Class::name`] gives it: `connect-refused`, `status-502`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Class {
    /// The connection was refused.
    ConnectRefused,
    /// The connection was reset while it was made.
    ConnectReset,
    /// The connection was not made in time.
    ConnectTimeout,
    /// Any other reason why there is no connection, e.g. no route to the host.
    ConnectOther,
    /// The TLS handshake failed.
    Tls,
    /// The TLS handshake did not end in time.
    TlsTimeout,
    /// The request could not be written.
    Write,
    /// A reset before the head of the answer was complete.
    ReadReset,
    /// The end of the stream before the head of the answer was complete.
    ReadEof,
    /// The body ended early.
    Truncated,
    /// No head of an answer in time.
    HeadTimeout,
    /// A head, and then not all of the body in time.
    BodyTimeout,
    /// Bytes that are no answer.
    Malformed,
    /// An answer with a status that was not expected: its class is the number.
    Status(u16),
    /// An answer from another route or backend than the expected one.
    WrongRoute,
    /// A POST that was answered as expected was given to backends more than once.
    Duplicated,
    /// The generator was too late to send it at all.
    NotSent,
}

impl Class {
    const NAMED: [(Self, &str); 16] = [
        (Self::ConnectRefused, "connect-refused"),
        (Self::ConnectReset, "connect-reset"),
        (Self::ConnectTimeout, "connect-timeout"),
        (Self::ConnectOther, "connect-other"),
        (Self::Tls, "tls"),
        (Self::TlsTimeout, "tls-timeout"),
        (Self::Write, "write"),
        (Self::ReadReset, "read-reset"),
        (Self::ReadEof, "read-eof"),
        (Self::Truncated, "truncated"),
        (Self::HeadTimeout, "head-timeout"),
        (Self::BodyTimeout, "body-timeout"),
        (Self::Malformed, "malformed"),
        (Self::WrongRoute, "wrong-route"),
        (Self::Duplicated, "duplicated"),
        (Self::NotSent, "not-sent"),
    ];

    /// Its name in files and tables.
    #[must_use]
    pub fn name(self) -> String {
        if let Self::Status(status) = self {
            return format!("status-{status}");
        }
        Self::NAMED
            .iter()
            .find(|(class, _)| *class == self)
            .map_or_else(String::new, |(_, name)| (*name).to_owned())
    }
}

impl From<Class> for String {
    fn from(class: Class) -> Self {
        class.name()
    }
}

impl TryFrom<String> for Class {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if let Some((class, _)) = Self::NAMED.iter().find(|(_, known)| *known == name) {
            return Ok(*class);
        }
        name.strip_prefix("status-")
            .and_then(|status| status.parse().ok())
            .map(Self::Status)
            .ok_or_else(|| format!("{name:?} is no class of errors"))
    }
}

/// One request that went wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Example {
    /// What became of it.
    pub class: Class,
    /// When it was due, seconds from the beginning of the stream.
    #[serde(deserialize_with = "figure::one")]
    pub at_s: f64,
    /// From then to the failure, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub after_ms: f64,
    /// In words, e.g. the text of the system's error, or the head of the answer.
    pub text: String,
}

/// A distribution of latencies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// How many values.
    pub count: u64,
    /// Smallest, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub min_ms: f64,
    /// Mean, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub mean_ms: f64,
    /// Standard deviation, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub deviation_ms: f64,
    /// Largest, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub max_ms: f64,
    /// The usual ones, ascending, dense enough to draw the curve: 0, 10, .. 90, 95, 99, 99.5, 99.9, 99.95, .. 99.9999.
    pub percentiles: Vec<Percentile>,
    /// The tag of the raw histogram in `histograms.hlog` (HDR V2 deflated, microseconds), if it was kept.
    pub histogram: Option<String>,
}

/// A point of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// In percent, 0 to 100.
    #[serde(deserialize_with = "figure::one")]
    pub percent: f64,
    /// Milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub ms: f64,
    /// How many values are above; with fewer than 10 the point is marked.
    pub above: u64,
}

/// How long after its intended time a request was handed to a free connection by the generator itself. Waiting for a
/// free connection is latency, not lateness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub p50_ms: f64,
    /// 99th percentile, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub p99_ms: f64,
    /// 99.9th percentile, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub p999_ms: f64,
    /// Largest, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub max_ms: f64,
}

/// TLS as it was negotiated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: String,
    /// The cipher suite, IANA name.
    pub cipher: String,
    /// The key of the server's certificate, e.g. `RSA-2048`.
    pub key: Option<String>,
    /// The application protocol: `http/1.1` or `h2`.
    pub protocol: String,
    /// The group of the key exchange, e.g. `X25519`; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The scheme of the server's signature over the handshake, e.g. `RSA_PSS_SHA256`; older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its beginning, seconds from the beginning of the stream; requests belong to the bucket of their intended time.
    #[serde(deserialize_with = "figure::one")]
    pub at_s: f64,
    /// Its length, seconds.
    #[serde(deserialize_with = "figure::one")]
    pub seconds: f64,
    /// Requests that were due.
    pub requests: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Median of the answered ones, milliseconds.
    #[serde(deserialize_with = "figure::one")]
    pub p50_ms: f64,
    /// Their 99th percentile.
    #[serde(deserialize_with = "figure::one")]
    pub p99_ms: f64,
    /// Their largest.
    #[serde(deserialize_with = "figure::one")]
    pub max_ms: f64,
}

/// What a proxy spent while a stream ran. The proxy alone: not its backends, not the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// User and system time, seconds.
    #[serde(deserialize_with = "figure::one")]
    pub cpu_s: f64,
    /// Of it in user space, seconds, where the kernel says so.
    pub user_s: Option<f64>,
    /// `cpu_s` for each answered request, microseconds.
    #[serde(deserialize_with = "figure::one")]
    pub us_per_request: f64,
    /// Mean CPUs in use: 1.0 is one CPU all of the time.
    #[serde(deserialize_with = "figure::one")]
    pub cpus: f64,
    /// Memory at the end, bytes: resident, without file pages that can be dropped.
    pub memory_bytes: Option<u64>,
    /// Context switches.
    pub switches: Option<u64>,
    /// Where it was read: `cgroup` or `process`, which are the kernel's own counters at the beginning and the end;
    /// `kubelet`, the counters of pods as their nodes sample them every 10 s or so.
    pub source: String,
    /// Which pods or processes, e.g. `5 pods`.
    pub of: String,
    /// For `kubelet`: the part of the pods' time between samples, 0 to 1. Their mean use there is taken for the whole.
    #[serde(default)]
    pub covered: Option<f64>,
}

/// What is known of a measure from behind the proxy, beside its cost. In JSON these are fields of the measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backstage {
    /// Why there is no [`Measure::cost`](super::Measure::cost), in a sentence, where one was to be read.
    #[serde(default)]
    pub uncosted: Option<String>,
    /// What backends say of the requests; none where these had no ids, and in files of older versions.
    #[serde(default)]
    pub deliveries: Option<Deliveries>,
}

/// Where two CPUs are: what the kernel spends on a request over loopback depends on it more than on the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// On one physical core, or everything is pinned to one CPU.
    OneCore,
    /// On two.
    TwoCores,
    /// Nothing is pinned, or no probe came through.
    Unknown,
}

/// What backends say of the requests of a measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Deliveries {
    /// Every backend told which requests it was given.
    Counted(Delivered),
    /// It is not known.
    Uncounted {
        /// Why not.
        reason: String,
    },
}

/// Requests by what the generator and what the backends know of them. Each carries an id of its own; those that failed
/// before they were written, because there was no connection, have none and are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Requests that were written with an id and have ended.
    pub sent: u64,
    /// Those of them that were POST; the others were GET.
    pub posts: u64,
    /// Those that at least one backend was given.
    pub seen: u64,
    /// GETs that backends were given more than once, e.g. because a proxy tried another endpoint. That is allowed (RFC 9110
    /// section 9.2.2) and costs a backend's work.
    pub repeated_gets: u64,
    /// POSTs that backends were given more than once. A proxy must not do that (same section): what the request does was
    /// done twice. Where the client saw a good answer, the request counts in the class `duplicated` of
    /// [`Load::errors`](super::Load::errors).
    pub repeated_posts: u64,
    /// Requests with a good answer that no backend was given. If these are not 0, somebody else answered, or backends could
    /// not tell all, and the other figures are too low.
    pub answered_unseen: u64,
    /// Requests that failed for the client although a backend was given them: the answer was lost, what was done is done.
    pub failed_seen: u64,
    /// Requests that failed and that no backend was given: lost on the way, safe to send again.
    pub failed_unseen: u64,
    /// The first that came more than once, e.g. `POST 5c1f-0-2a, 2 times, answered`.
    pub examples: Vec<String>,
}

impl Delivered {
    /// Together with those of another measure.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.sent += other.sent;
        self.posts += other.posts;
        self.seen += other.seen;
        self.repeated_gets += other.repeated_gets;
        self.repeated_posts += other.repeated_posts;
        self.answered_unseen += other.answered_unseen;
        self.failed_seen += other.failed_seen;
        self.failed_unseen += other.failed_unseen;
        self.examples.extend(other.examples.iter().cloned());
        self
    }
}
