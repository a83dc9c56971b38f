//! Why an exchange ends early: the service responded in place of the endpoint, or failed.

use super::event::Side;
use crate::change::HeaderChange;

/// The exchange must end now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The client gets this response.
    Immediate(ImmediateResponse),
    /// The service failed, and bypassing it is not allowed or not possible.
    Failed(Failure),
}

/// A response of the service in place of the endpoint's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImmediateResponse {
    /// 200 to 599.
    pub status: u16,
    /// Changes to the headers of Fairway's response.
    pub headers: Vec<HeaderChange>,
    /// The body.
    pub body: Vec<u8>,
    /// The status of a gRPC call, if the client made one.
    pub grpc_status: Option<u32>,
}

/// How a service failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection, a stream that failed, or a peer that does not speak gRPC.
    #[error("the service is unreachable, closed the connection, or does not speak gRPC")]
    Unreachable,
    /// No response in time.
    #[error("the service did not answer in time")]
    Timeout,
    /// The service ended the stream with this `grpc-status`; with 0 while it still had pieces of a body.
    #[error("the service ended the stream with grpc-status {0}")]
    Status(u32),
    /// A message that cannot be decoded or is invalid.
    #[error("the service sent a message that is not valid")]
    Malformed,
    /// A response without a request.
    #[error("the service sent a response that no request asked for")]
    OutOfOrder,
    /// A change that `mutation_rules` forbid, with `error_on_denied`.
    #[error("the service requested a change that its rules do not allow")]
    NotAllowed,
    /// The body of this side is longer than `max_buffered_body`. Not a failure of the service: 413 for a request, 502 for a
    /// response.
    #[error("the body is longer than the service may receive")]
    TooLarge(Side),
}

impl Failure {
    /// The name in metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Failure::Unreachable => "unreachable",
            Failure::Timeout => "timeout",
            Failure::Status(_) => "status",
            Failure::Malformed => "malformed",
            Failure::OutOfOrder => "out_of_order",
            Failure::NotAllowed => "not_allowed",
            Failure::TooLarge(_) => "too_large",
        }
    }
}
