//! One stream of load and its cost: requests, errors by class, latency, lateness of the generator, CPU of the proxy, and
//! the backends' receipts: duplicates and requests that never arrived.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::figure;

/// The origin of a peer's configuration.
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
    /// The settings of the run.
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
    #[serde(deserialize_with = "figure::read_number")]
    pub begun_s: f64,
    /// The clients' view.
    pub load: Load,
    /// The proxy's costs, if they could be read.
    pub cost: Option<Cost>,
    /// Observations from behind the proxy.
    #[serde(flatten)]
    pub backstage: Backstage,
}

/// The clients' view of a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// The offered load.
    pub offered: Offered,
    /// Complete responses per second.
    #[serde(deserialize_with = "figure::read_number")]
    pub rate: f64,
    /// Response bytes per second, including heads.
    #[serde(deserialize_with = "figure::read_number")]
    pub bytes_rate: f64,
    /// From the first intended request to the last response, seconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub seconds: f64,
    /// Requests, responses, connections.
    pub counts: Counts,
    /// Errors by class; classes without errors are omitted.
    pub errors: BTreeMap<Class, u64>,
    /// The first of each class.
    pub examples: Vec<Example>,
    /// From the intended time (no coordinated omission); in a closed loop from the send time.
    pub latency: Latency,
    /// From the time the request was written.
    pub service: Latency,
    /// The generator's own lateness.
    pub lateness: Lateness,
    /// TLS as it was negotiated, where there is any.
    pub tls: Option<Tls>,
    /// Latency and errors over time.
    pub over_time: OverTime,
}

/// The load offered by a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// The rate of an open loop, requests per second; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Maximum number of connections; in a closed loop all of them are kept busy.
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
    /// Complete responses with an expected status, from the expected route.
    pub ok: u64,
    /// Connections that were opened, TLS included.
    pub connections: u64,
    /// TLS handshakes, full.
    pub full_handshakes: u64,
    /// TLS handshakes, resumed.
    pub resumed_handshakes: u64,
    /// TLS 1.3 session tickets received; missing in older files.
    #[serde(default)]
    pub tickets: u64,
    /// Bytes received, heads included, TLS records not.
    pub bytes: u64,
}

/// The error classes of requests without the expected response (benchmarks.md, Metrics). In JSON a string, as returned by
/// [`Class::name`]: `connect-refused`, `status-502`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Class {
    /// The connection was refused.
    ConnectRefused,
    /// The connection was reset while connecting.
    ConnectReset,
    /// Connecting took too long.
    ConnectTimeout,
    /// Any other reason why there is no connection, e.g. no route to the host.
    ConnectOther,
    /// The TLS handshake failed.
    Tls,
    /// The TLS handshake did not end in time.
    TlsTimeout,
    /// The request could not be written.
    Write,
    /// A reset before the response head was complete.
    ReadReset,
    /// The end of the stream before the response head was complete.
    ReadEof,
    /// The body ended early.
    Truncated,
    /// No response head before the timeout.
    HeadTimeout,
    /// A head, and then not all of the body in time.
    BodyTimeout,
    /// Bytes that are not a valid response.
    Malformed,
    /// A response with an unexpected status; the class is its number.
    Status(u16),
    /// A response from a different route or backend than expected.
    WrongRoute,
    /// A POST with the expected response was delivered to backends more than once.
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

/// An example of a failed request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Example {
    /// The fate of the request.
    pub class: Class,
    /// When it was due, seconds from the beginning of the stream.
    #[serde(deserialize_with = "figure::read_number")]
    pub at_s: f64,
    /// From the due time to the failure, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub after_ms: f64,
    /// The description, e.g. the system's error text or the response head.
    pub text: String,
}

/// A distribution of latencies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// How many values.
    pub count: u64,
    /// Smallest, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub min_ms: f64,
    /// Mean, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub mean_ms: f64,
    /// Standard deviation, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub deviation_ms: f64,
    /// Largest, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub max_ms: f64,
    /// The usual ones, ascending, dense enough to draw the curve: 0, 10, .. 90, 95, 99, 99.5, 99.9, 99.95, .. 99.9999.
    pub percentiles: Vec<Percentile>,
    /// The tag of the raw histogram in `histograms.hlog` (HDR V2 deflated, microseconds), if it was kept.
    pub histogram: Option<String>,
}

/// A point of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The percentile, 0 to 100.
    #[serde(deserialize_with = "figure::read_number")]
    pub percent: f64,
    /// Milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub ms: f64,
    /// The number of values above; with fewer than 10 the point is marked.
    pub above: u64,
}

/// How long after its intended time the generator gave a request to a free connection. Waiting for a free connection is
/// latency, not lateness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub p50_ms: f64,
    /// 99th percentile, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub p99_ms: f64,
    /// 99.9th percentile, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub p999_ms: f64,
    /// Largest, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
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
    /// The key exchange group, e.g. `X25519`; missing in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The scheme of the server's handshake signature, e.g. `RSA_PSS_SHA256`; missing in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its beginning, seconds from the beginning of the stream; requests belong to the bucket of their intended time.
    #[serde(deserialize_with = "figure::read_number")]
    pub at_s: f64,
    /// Its length, seconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub seconds: f64,
    /// Requests that were due.
    pub requests: u64,
    /// Requests of these that failed.
    pub errors: u64,
    /// Median of the successful ones, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub p50_ms: f64,
    /// Their 99th percentile.
    #[serde(deserialize_with = "figure::read_number")]
    pub p99_ms: f64,
    /// Their largest.
    #[serde(deserialize_with = "figure::read_number")]
    pub max_ms: f64,
}

/// The costs of a proxy while a stream ran. The proxy alone, without backends and generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// User and system time, seconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub cpu_s: f64,
    /// The part in user space, seconds, if the kernel reports it.
    pub user_s: Option<f64>,
    /// `cpu_s` for each answered request, microseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub us_per_request: f64,
    /// Mean CPUs in use: 1.0 is one CPU all of the time.
    #[serde(deserialize_with = "figure::read_number")]
    pub cpus: f64,
    /// Memory at the end, bytes: resident, without file pages that can be dropped.
    pub memory_bytes: Option<u64>,
    /// Context switches.
    pub switches: Option<u64>,
    /// The source: `cgroup` or `process`, the kernel's own counters at the start and the end; or `kubelet`, the pods'
    /// counters that their nodes sample about every 10 s.
    pub source: String,
    /// The measured pods or processes, e.g. `5 pods`.
    pub of: String,
    /// For `kubelet`: the fraction of the pods' time between samples, 0 to 1. Their mean use there is assumed for the whole
    /// time.
    #[serde(default)]
    pub covered: Option<f64>,
}

/// Observations about a measure from behind the proxy, apart from its cost. In JSON these are fields of the measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backstage {
    /// Why there is no [`Measure::cost`](super::Measure::cost), in a sentence, where one was to be read.
    #[serde(default)]
    pub uncosted: Option<String>,
    /// The backends' receipts; `None` without ids and in older files.
    #[serde(default)]
    pub deliveries: Option<Deliveries>,
}

/// The distance of two CPUs, on which the kernel's cost of a loopback request depends more than on the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// On one physical core, or everything is pinned to one CPU.
    OneCore,
    /// On two.
    TwoCores,
    /// Threads are not pinned, or the probe failed.
    Unknown,
}

/// The backends' receipts for the requests of a measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Deliveries {
    /// Every backend reported its requests.
    Counted(Delivered),
    /// The distance is unknown.
    Uncounted {
        /// Why not.
        reason: String,
    },
}

/// Requests according to the generator and the backends. Each has an id; requests that failed before they were written, for
/// lack of a connection, have none and are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Requests that were written with an id and have ended.
    pub sent: u64,
    /// The POSTs among them; the others were GET.
    pub posts: u64,
    /// Requests received by at least one backend.
    pub seen: u64,
    /// GETs that backends were given more than once, e.g. because a proxy tried another endpoint. That is allowed (RFC 9110
    /// section 9.2.2) and costs a backend's work.
    pub repeated_gets: u64,
    /// POSTs that backends received more than once. A proxy must not do that (same section): the request's effect happened
    /// twice. If the client saw a good response, the request counts in the class `duplicated` of
    /// [`Load::errors`](super::Load::errors).
    pub repeated_posts: u64,
    /// Requests with a good response that no backend received. If this is not 0, something else responded or backends could
    /// not report everything, and the other figures are too low.
    pub answered_unseen: u64,
    /// Requests that failed for the client although a backend received them: the response was lost, the effect happened.
    pub failed_seen: u64,
    /// Requests that failed and that no backend was given: lost on the way, safe to send again.
    pub failed_unseen: u64,
    /// The first requests received more than once, e.g. `POST 5c1f-0-2a, 2 times, answered`.
    pub examples: Vec<String>,
}

impl Delivered {
    /// The sum with the counts of another measure.
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
