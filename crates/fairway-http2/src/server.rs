//! The server's end of a connection. Never opens a stream.

use std::marker::PhantomData;

use fairway_http::Head;

use crate::connection::{Config, Connection, Role};
use crate::session::Session;

/// What a server does.
#[derive(Debug)]
pub enum Answers {}

/// A connection that a client opened.
pub type Server = Session<Answers>;

impl Server {
    /// Begins a connection: our settings wait to be written.
    #[must_use]
    pub fn new(config: Config, now: u64) -> Self {
        Session { connection: Connection::new(Role::Server, config, now), role: PhantomData }
    }

    /// Sends the head of an answer, interim or final; `false` if the stream is not there to take it.
    #[inline]
    pub fn send_head(&mut self, stream: u32, head: &Head, end: bool) -> bool {
        self.connection.send_response(stream, head, end)
    }

    /// To be called before [`Session::release`], by who waits for [`Session::deadline`] as long as the connection is open:
    /// if the answer is complete and the request is not, what still comes of it within the window of the stream is dropped,
    /// and the stream is reset a second later, which gives clients the time to read the answer. Until then it counts as
    /// open for the client, but not for [`Session::open_streams`].
    pub fn linger(&mut self, now: u64, stream: u32) {
        self.connection.linger(now, stream);
    }
}
