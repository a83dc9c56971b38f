//! Recorded exchanges and request samples as shown to users.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A finished exchange. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedExchange {
    /// Worker and number of the exchange, such as `0-17`.
    pub number: String,
    /// When the request head was complete: RFC 3339, UTC, with milliseconds.
    pub time: String,
    /// Version of the configuration that served it.
    pub configuration: u64,
    /// Client address after trust is settled.
    pub client: Option<IpAddr>,
    /// Name of the listener, if the configuration still has it.
    pub listener: Option<String>,
    /// `http` or `https`.
    pub scheme: String,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// The method.
    pub method: String,
    /// Requested host in lower case.
    pub host: String,
    /// Target without the query.
    pub path: String,
    /// Whether there was a query, which is not recorded.
    pub has_query: bool,
    /// `X-Request-ID`.
    pub request_id: Option<String>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// Response status; 0 without a response.
    pub status: u16,
    /// Why the response is not the endpoint's, or incomplete: a value of `reason` in docs/metrics.md.
    pub reason: Option<String>,
    /// The reason as a sentence.
    pub description: Option<String>,
    /// Cause: `client`, `configuration`, `endpoint`, `service` or `fairway`.
    pub caused_by: Option<String>,
    /// Attribution of the failure or retry: as `caused_by`, or `configuration_change` or `roll`.
    pub attribution: Option<String>,
    /// Status of a gRPC call.
    pub grpc_status: Option<u32>,
    /// Bytes of request head and body.
    pub request_bytes: u64,
    /// Bytes of the response body.
    pub response_bytes: u64,
    /// All bytes sent to the client.
    pub sent_bytes: u64,
    /// From the request head to the last byte of the response.
    pub took_us: u64,
    /// Part of it that guards waited for other services.
    pub waited_us: u64,
    /// The rule that served it.
    pub rule: Option<RecordedRule>,
    /// Attempts whose response the client did not get.
    pub failed_attempts: Vec<RecordedAttempt>,
    /// The last attempt.
    pub upstream: Option<RecordedUpstream>,
    /// Trace id as 32 hexadecimal digits, if sampled.
    pub trace_id: Option<String>,
}

/// Sampled requests of each rule, and what the recorders keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSamples {
    /// Number of workers.
    pub workers: usize,
    /// Exchanges recorded per worker; with 0 there are no samples either.
    pub exchanges: usize,
    /// Seconds for which an exchange is kept.
    pub exchange_seconds: u64,
    /// Seconds for which a sample is kept.
    pub sample_seconds: u64,
    /// Age in seconds of the oldest recorded exchange.
    pub oldest_seconds: Option<u64>,
    /// Seconds for which every worker has recorded all exchanges; `None` if none was evicted.
    pub complete_seconds: Option<u64>,
    /// Samples of all workers, each request once.
    pub samples: Vec<SampledRequest>,
}

/// A request that represents others like it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledRequest {
    /// When the latest such request ended: RFC 3339, UTC, with milliseconds.
    pub time: String,
    /// Name of the listener, if the configuration still has it.
    pub listener: Option<String>,
    /// `http` or `https`.
    pub scheme: String,
    /// The method.
    pub method: String,
    /// Requested host in lower case.
    pub host: String,
    /// Target without the query.
    pub path: String,
    /// Whether there was a query, which is not recorded.
    pub has_query: bool,
    /// Status of the latest response; 0 without one.
    pub status: u16,
    /// Whether an endpoint was picked for the latest one, so that every guard let it pass.
    pub forwarded: bool,
    /// The rule that served it.
    pub rule: Option<RecordedRule>,
}

/// The rule that served an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRule {
    /// Kind of the object that defines the rule.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field of the object.
    pub field: String,
    /// The Service the rule is named after.
    pub service: Option<String>,
}

/// An attempt whose response the client did not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAttempt {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// What went wrong.
    pub reason: Option<String>,
    /// The status that caused a retry.
    pub status: Option<u16>,
    /// Start, from the start of the first attempt, which is `waited_us` after that of the exchange.
    #[serde(default)]
    pub began_us: u64,
    /// End, from the same time.
    pub after_us: u64,
}

/// The last attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedUpstream {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// Response status, if there was a response.
    pub status: Option<u16>,
    /// Number of attempts.
    pub attempts: u8,
    /// Whether a slow connect made Fairway connect to a second endpoint.
    pub hedged: bool,
    /// Start, from the start of the first attempt, which is `waited_us` after that of the exchange.
    #[serde(default)]
    pub began_us: u64,
    /// When its request was sent, from the same time: later than `began_us` and `connect_us` if it waited for a
    /// slow connect before using another endpoint, or for a shared connect. 0 without a response.
    #[serde(default)]
    pub sent_us: u64,
    /// Connect time; 0 for a reused connection.
    pub connect_us: u64,
    /// TLS part of the connect time; 0 without TLS.
    #[serde(default)]
    pub tls_us: u64,
    /// From the first byte sent to the response head.
    pub header_us: u64,
    /// From the first byte sent to the last byte of the response.
    pub response_us: u64,
}
