//! The inputs and outputs of a stream.

use std::sync::Arc;
use std::time::Duration;

use super::head::HeadChange;

/// One direction of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// From the client to the endpoint.
    Request,
    /// From the endpoint to the client.
    Response,
}

/// Trailers: names and values.
pub type Trailers = Vec<(Box<[u8]>, Box<[u8]>)>;

/// What a service is told about a request besides its headers.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeFacts<'a> {
    /// Path and query: `:path`.
    pub path: &'a [u8],
    /// `http` or `https`: `:scheme`.
    pub scheme: &'a str,
    /// `:authority`; `None` if the request has no `Host`, as HTTP/1.0 allows.
    pub authority: Option<&'a [u8]>,
    /// The configured attributes, by name; already rendered.
    pub attributes: &'a [(Arc<str>, Vec<u8>)],
}

/// Data to forward in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The head, with these changes.
    Head(HeadChange),
    /// A non-empty piece of the body.
    Body(Vec<u8>),
    /// The end of the message, with its trailers. Nothing follows. It may precede the sender's end if the service replaced the
    /// body: data that the sender still writes is dropped.
    End(Trailers),
}

/// A response that the service owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Incremented with every wait.
    pub serial: u64,
    /// The timeout of this wait, from its start.
    pub timeout: Duration,
}

/// Counters of a stream, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Messages to the service.
    pub sent: u64,
    /// Messages from the service.
    pub received: u64,
    /// Changes that were ignored because the rules do not allow them.
    pub refused: u64,
}
