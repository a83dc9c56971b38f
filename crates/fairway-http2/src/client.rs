//! The client end of a connection. Accepts no pushed streams.

use std::marker::PhantomData;

use fairway_http::Head;

use crate::connection::{Config, Connection, Role};
use crate::fields::Connect;
use crate::session::Session;

/// The client role.
#[derive(Debug)]
pub enum ClientRole {}

/// A connection that this end opened.
pub type Client = Session<ClientRole>;

impl Client {
    /// Starts a connection: the preface and SETTINGS are pending.
    #[must_use]
    pub fn new(config: Config, now: u64) -> Self {
        Session { connection: Connection::new(Role::Client, config, now), role: PhantomData }
    }

    /// Opens a stream with a request for this target; `None` if the peer accepts no more.
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
    pub fn available_streams(&self) -> usize {
        self.connection.available_streams()
    }

    /// Whether no new request will ever be accepted: either end sent GOAWAY, or the stream ids are used up.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        !self.connection.accepts_streams()
    }

    /// Opens a stream for another protocol with an extended CONNECT; `None` if the peer accepts no more. Only send it
    /// if the server supports `:protocol`.
    pub fn send_connect(&mut self, head: &Head, connect: &Connect<'_>) -> Option<u32> {
        self.connection.send_connect(head, connect)
    }

    /// Whether the server supports `:protocol` (RFC 8441); `None` before its SETTINGS.
    #[must_use]
    pub fn supports_extended_connect(&self) -> Option<bool> {
        self.connection.supports_extended_connect()
    }
}
