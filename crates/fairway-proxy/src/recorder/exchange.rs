//! Recorded exchanges, and samples of requests, as they are shown.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// An exchange that is over. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedExchange {
    /// The worker, and which of its exchanges it was.
    pub number: String,
    /// When the head of the request was there: RFC 3339, UTC, with milliseconds.
    pub time: String,
    /// The version of the configuration that served it.
    pub configuration: u64,
    /// The client, once trust is settled.
    pub client: Option<IpAddr>,
    /// The name of the listener that it came to, while the configuration has it.
    pub listener: Option<String>,
    /// `http` or `https`.
    pub scheme: String,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// The method.
    pub method: String,
    /// The host that was asked for, lower case.
    pub host: String,
    /// The target without its query.
    pub path: String,
    /// Whether there was a query, which is not kept.
    pub has_query: bool,
    /// `X-Request-ID`.
    pub request_id: Option<String>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// The status of the response; 0 where there was none.
    pub status: u16,
    /// Why the response is not the endpoint's, or incomplete: a value of `reason` in docs/metrics.md.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub description: Option<String>,
    /// Who caused that: `client`, `configuration`, `endpoint`, `service` or `fairway`.
    pub caused_by: Option<String>,
    /// On whose account it failed or was repeated: as `caused_by`, or `configuration_change` or `roll`.
    pub attribution: Option<String>,
    /// The status of a gRPC call.
    pub grpc_status: Option<u32>,
    /// Head and body of the request.
    pub request_bytes: u64,
    /// The response's body.
    pub response_bytes: u64,
    /// Everything that was sent to the client.
    pub sent_bytes: u64,
    /// From the request's head to the response's last byte.
    pub took_us: u64,
    /// How much of it guards waited for other services.
    pub waited_us: u64,
    /// The rule that served it.
    pub rule: Option<RecordedRule>,
    /// Attempts whose response the client did not get.
    pub failed_attempts: Vec<RecordedAttempt>,
    /// The last attempt.
    pub upstream: Option<RecordedUpstream>,
    /// The trace of which it is a span, as 32 hexadecimal digits, where it was sampled.
    pub trace_id: Option<String>,
}

/// A few requests of each rule, and what the recorders keep at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSamples {
    /// How many workers there are.
    pub workers: usize,
    /// How many exchanges each of them remembers; 0 remembers none, and no samples.
    pub exchanges: usize,
    /// For how many seconds an exchange is remembered.
    pub exchange_seconds: u64,
    /// For how many seconds a sample is.
    pub sample_seconds: u64,
    /// How many seconds ago the oldest exchange began that is remembered.
    pub oldest_seconds: Option<u64>,
    /// For how many seconds every worker has remembered every exchange; nothing where none was forgotten for want of room.
    pub complete_seconds: Option<u64>,
    /// Those of all workers, each request once.
    pub samples: Vec<SampledRequest>,
}

/// A request that stands for others like it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledRequest {
    /// When the last one like it was over: RFC 3339, UTC, with milliseconds.
    pub time: String,
    /// The name of the listener that it came to, while the configuration has it.
    pub listener: Option<String>,
    /// `http` or `https`.
    pub scheme: String,
    /// The method.
    pub method: String,
    /// The host that was asked for, lower case.
    pub host: String,
    /// The target without its query.
    pub path: String,
    /// Whether there was a query, which is not kept.
    pub has_query: bool,
    /// The status of the last response; 0 where there was none.
    pub status: u16,
    /// Whether an endpoint was chosen for the last one: every guard let it pass.
    pub forwarded: bool,
    /// The rule that served it.
    pub rule: Option<RecordedRule>,
}

/// The rule that served an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRule {
    /// The kind of the object that it comes from.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field of the object.
    pub field: String,
    /// The Service that the rule is named for.
    pub service: Option<String>,
}

/// An attempt whose response the client did not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAttempt {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// What went wrong.
    pub reason: Option<String>,
    /// The status for which another endpoint was asked.
    pub status: Option<u16>,
    /// When it began, counted from the beginning of the first attempt, which is `waited_us` after that of the exchange.
    #[serde(default)]
    pub began_us: u64,
    /// When it ended, counted from the same time.
    pub after_us: u64,
}

/// The last attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedUpstream {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// The status of its response, if one came.
    pub status: Option<u16>,
    /// How many attempts there were.
    pub attempts: u8,
    /// Whether a slow connect made Fairway connect to a second endpoint.
    pub hedged: bool,
    /// When it began, counted from the beginning of the first attempt, which is `waited_us` after that of the exchange.
    #[serde(default)]
    pub began_us: u64,
    /// When its request was sent, counted from the same time: later than `began_us` and `connect_us` where it waited for a slow connect
    /// before it used another endpoint, or for a connect of other requests. 0 where no response came.
    #[serde(default)]
    pub sent_us: u64,
    /// 0 for a connection that was open already.
    pub connect_us: u64,
    /// How much of it TLS took; 0 without TLS.
    #[serde(default)]
    pub tls_us: u64,
    /// From the first byte sent to the head of the response.
    pub header_us: u64,
    /// From the first byte sent to the last byte of the response.
    pub response_us: u64,
}
