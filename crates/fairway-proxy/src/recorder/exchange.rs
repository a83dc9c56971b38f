//! A recorded exchange as it is shown.

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
    /// When it ended, counted from the beginning of the first attempt.
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
    /// 0 for a connection that was open already.
    pub connect_us: u64,
    /// From the first byte sent to the head of the response.
    pub header_us: u64,
    /// From the first byte sent to the last byte of the response.
    pub response_us: u64,
}
