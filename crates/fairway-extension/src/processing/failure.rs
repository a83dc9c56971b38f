//! Why an exchange ends before its time: the service answered in its place, or failed. Never decides it.

use super::event::Side;
use crate::change::HeaderChange;

/// The exchange ends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The client gets this response.
    Immediate(ImmediateResponse),
    /// The service failed and may not be left out, or cannot be.
    Failed(Failure),
}

/// A response that the service gives in place of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImmediateResponse {
    /// 200 to 599.
    pub status: u16,
    /// Changes of the headers that a response of Fairway has.
    pub headers: Vec<HeaderChange>,
    /// The body.
    pub body: Vec<u8>,
    /// The status of a gRPC call, when the client made one.
    pub grpc_status: Option<u32>,
}

/// How a service failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection, a stream that broke off, or no gRPC.
    #[error("the service cannot be reached, broke off, or does not speak gRPC")]
    Unreachable,
    /// No answer in time.
    #[error("the service did not answer in time")]
    Timeout,
    /// It ended the stream with this `grpc-status`; with 0 while it still had pieces of a body.
    #[error("the service ended the stream with grpc-status {0}")]
    Status(u32),
    /// A message that cannot be read, or says what no message may.
    #[error("the service sent a message that is not valid")]
    Malformed,
    /// An answer to something that was not asked.
    #[error("the service answered something that it was not asked")]
    OutOfOrder,
    /// A change that `mutation_rules` forbid, with `error_on_denied`.
    #[error("the service asked for a change that its rules do not allow")]
    NotAllowed,
    /// The body of this side is longer than `max_buffered_body`. Not a failure of the service: 413 for a request, 502 for a response.
    #[error("the body is longer than the service may be sent")]
    TooLarge(Side),
}

impl Failure {
    /// Its name in metrics.
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
