//! The server end of a connection. Opens no streams.

use std::marker::PhantomData;

use fairway_http::Head;

use crate::connection::{Config, Connection, Role};
use crate::session::Session;

/// The server role.
#[derive(Debug)]
pub enum ServerRole {}

/// A connection that the client opened.
pub type Server = Session<ServerRole>;

impl Server {
    /// Starts a connection: our SETTINGS are pending.
    #[must_use]
    pub fn new(config: Config, now: u64) -> Self {
        Session { connection: Connection::new(Role::Server, config, now), role: PhantomData }
    }

    /// Sends an interim or final response head; `false` if the stream cannot take it.
    #[inline]
    pub fn send_head(&mut self, stream: u32, head: &Head, end: bool) -> bool {
        self.connection.send_response(stream, head, end)
    }

    /// Call this before [`Session::release`] if you handle [`Session::deadline`] for as long as the connection is open.
    /// If the response is complete and the request is not, the rest of the request within the stream's window is
    /// dropped, and the stream is reset a second later, which gives clients time to read the response. Until then it
    /// counts as open for the client, but not for [`Session::open_streams`].
    pub fn linger(&mut self, now: u64, stream: u32) {
        self.connection.linger(now, stream);
    }
}
