//! The client's end of a connection. Never takes a pushed stream.

use std::marker::PhantomData;

use fairway_http::Head;

use crate::connection::{Config, Connection, Role};
use crate::fields::Connect;
use crate::session::Session;

/// What a client does.
#[derive(Debug)]
pub enum Asks {}

/// A connection that we opened.
pub type Client = Session<Asks>;

impl Client {
    /// Begins a connection: preface and settings wait to be written.
    #[must_use]
    pub fn new(config: Config, now: u64) -> Self {
        Session { connection: Connection::new(Role::Client, config, now), role: PhantomData }
    }

    /// Opens a stream with a request for this target; `None` if the peer takes no more.
    #[inline]
    pub fn send_head(&mut self, head: &Head, target: &[u8], scheme: &[u8], end: bool) -> Option<u32> {
        self.connection.send_request(head, target, scheme, end)
    }

    /// Whether a request can be sent now.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.connection.can_open()
    }

    /// How many more requests can be sent now.
    #[must_use]
    pub fn streams_left(&self) -> usize {
        self.connection.streams_left()
    }

    /// Whether no new request will ever be taken: one of both sends GOAWAY, or ids are used up.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        !self.connection.takes_streams()
    }

    /// Opens a stream that is to become another protocol's, with a request of whatever method; `None` if the peer takes no
    /// more. To be sent only where the server understands `:protocol`.
    pub fn send_connect(&mut self, head: &Head, connect: &Connect<'_>) -> Option<u32> {
        self.connection.send_connect(head, connect)
    }

    /// Whether the server understands `:protocol` (RFC 8441); none before it said what it understands.
    #[must_use]
    pub fn takes_extended_connect(&self) -> Option<bool> {
        self.connection.takes_extended_connect()
    }
}
