//! What is remembered of an exchange for metrics and the access log.

use std::net::SocketAddr;
use std::time::Duration;

use fairway_http1::Method;
use fairway_model::HostPattern;
use fairway_routing::CompiledRule;

use crate::clock::Instant;
use crate::fault::Fault;

/// One exchange, when it is over.
pub(crate) struct Record<'a> {
    pub(crate) began: Instant,
    /// When it was over; none while it is not.
    pub(crate) ended: Option<Instant>,
    pub(crate) method: Method,
    pub(crate) status: u16,
    /// Head and body of the request.
    pub(crate) request_bytes: u64,
    /// The answer's body, without its framing.
    pub(crate) body_bytes: u64,
    /// Everything that was sent to the client.
    pub(crate) sent_bytes: u64,
    pub(crate) fault: Option<Fault>,
    pub(crate) rule: Option<&'a CompiledRule>,
    pub(crate) host_label: Option<&'a HostPattern>,
    pub(crate) upstream: Option<UpstreamRecord>,
}

/// The last attempt, which gave the answer or the failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamRecord {
    pub(crate) endpoint: SocketAddr,
    /// 0 when no answer came.
    pub(crate) status: u16,
    /// 0 for a reused connection.
    pub(crate) connect: Duration,
    /// From the first byte sent to the answer's head.
    pub(crate) header: Duration,
    /// From the first byte sent to the answer's last.
    pub(crate) response: Duration,
    /// How many attempts it took.
    pub(crate) attempts: u8,
}

impl UpstreamRecord {
    /// An attempt that brought no answer in `took`.
    pub(crate) fn failed(endpoint: SocketAddr, attempts: u8, took: Duration) -> Self {
        Self {
            endpoint,
            status: 0,
            connect: Duration::ZERO,
            header: Duration::ZERO,
            response: took,
            attempts,
        }
    }
}

impl Record<'_> {
    /// From the request's head to the answer's last byte.
    pub(crate) fn took(&self) -> Duration {
        self.ended.map_or(Duration::ZERO, |ended| ended.saturating_duration_since(self.began))
    }

    /// Nothing known yet but when it began.
    pub(crate) fn new(began: Instant, head_bytes: usize) -> Self {
        Self {
            began,
            ended: None,
            method: Method::Other,
            status: 0,
            request_bytes: head_bytes as u64,
            body_bytes: 0,
            sent_bytes: 0,
            fault: None,
            rule: None,
            host_label: None,
            upstream: None,
        }
    }
}
