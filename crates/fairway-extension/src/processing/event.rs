//! What goes in and comes out of a stream. Owns no state.

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

/// What a service is shown of a request besides its headers.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeFacts<'a> {
    /// Path and query: `:path`.
    pub path: &'a [u8],
    /// `http` or `https`: `:scheme`.
    pub scheme: &'a str,
    /// `:authority`; none where the request has no `Host`, as HTTP/1.0 allows.
    pub authority: Option<&'a [u8]>,
    /// Attributes that the configuration asks for, by name; already rendered.
    pub attributes: &'a [(Arc<str>, Vec<u8>)],
}

/// What goes on in a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The head, changed so.
    Head(HeadChange),
    /// A piece of the body; never empty.
    Body(Vec<u8>),
    /// The end of the message, with its trailers. Nothing follows. It may come before the sender's end, when the service replaced
    /// the body: what the sender still writes is dropped.
    End(Trailers),
}

/// What the service is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Another one with every wait that begins.
    pub serial: u64,
    /// How long this wait may take from its beginning.
    pub timeout: Duration,
}

/// What happened in a stream, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages for the service.
    pub sent: u64,
    /// Messages of the service.
    pub received: u64,
    /// Changes that were left out because the rules do not allow them.
    pub refused: u64,
}
