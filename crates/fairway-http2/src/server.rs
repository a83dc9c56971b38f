//! The server's end of a connection. Never opens a stream.

use fairway_message::Head;

use crate::connection::{Config, Connection, Role};
use crate::event::Event;
use crate::fault::Code;
use crate::priority::Priority;

/// A connection that a client opened.
#[derive(Debug)]
pub struct Server(Connection);

impl Server {
    /// Begins a connection: our settings wait to be written.
    #[must_use]
    pub fn new(config: Config, now: u64) -> Self {
        Server(Connection::new(Role::Server, config, now))
    }

    /// Sends the head of an answer, interim or final; `false` if the stream is not there to take it.
    #[inline]
    pub fn send_head(&mut self, stream: u32, head: &Head, end: bool) -> bool {
        self.0.send_response(stream, head, end)
    }

    /// The priority that the client asked for with PRIORITY_UPDATE.
    #[must_use]
    pub fn priority(&self, stream: u32) -> Priority {
        self.0.priority(stream)
    }

    /// Takes input up to the next event; gives how much of it was used. `head` gets a message when one comes, and is
    /// overwritten by any field block.
    ///
    /// `now` is in microseconds of any clock that does not go back.
    #[inline]
    pub fn receive<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> (usize, Event<'a>) {
        self.0.receive(now, input, head)
    }

    /// What waits to be written.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.0.pending()
    }

    /// So many bytes of what waits were written.
    #[inline]
    pub fn wrote(&mut self, count: usize) {
        self.0.wrote(count);
    }

    /// How many body bytes the stream may send now. To be asked before they are read from elsewhere.
    #[inline]
    #[must_use]
    pub fn room(&self, stream: u32) -> usize {
        self.0.room(stream)
    }

    /// Sends as much of a body as has room, and ends the stream if all of it has and `end` is set; gives how much was
    /// taken.
    #[inline]
    pub fn send_data(&mut self, stream: u32, bytes: &[u8], end: bool) -> usize {
        self.0.send_data(stream, bytes, end)
    }

    /// Sends trailers and ends the stream; `false` if it is not there to take them.
    pub fn send_trailers<'f>(
        &mut self,
        stream: u32,
        trailers: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        self.0.send_trailers(stream, trailers)
    }

    /// So many bytes that came were consumed: the peer may send as many again.
    #[inline]
    pub fn consume(&mut self, stream: u32, bytes: u32) {
        self.0.consume(stream, bytes);
    }

    /// Resets a stream, if it is not over yet. It stays until it is released.
    pub fn reset(&mut self, stream: u32, code: Code) {
        self.0.reset(stream, code);
    }

    /// Nobody serves the stream any more. Must be called once for each stream that was reported, whatever became of it;
    /// resets one that has not ended.
    pub fn release(&mut self, stream: u32) {
        self.0.release(stream);
    }

    /// Whether a stream is there and not reset.
    #[must_use]
    pub fn is_live(&self, stream: u32) -> bool {
        self.0.is_live(stream)
    }

    /// How many streams were reported and not released.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.0.open_streams()
    }

    /// Sends PING; [`Event::Pong`] brings it back.
    pub fn ping(&mut self, payload: [u8; 8]) {
        self.0.ping(payload);
    }

    /// Begins to end the connection: new streams are not taken, open ones go on.
    pub fn go_away(&mut self, now: u64) {
        self.0.go_away(now);
    }

    /// Whether the connection can be closed as soon as what waits is written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// When `pass` must be called, if nothing else happens.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.0.deadline()
    }

    /// Time passed; an event if that ends the connection.
    pub fn pass(&mut self, now: u64) -> Option<Event<'static>> {
        self.0.pass(now)
    }

    /// Gives back the memory that an idle connection does not need. What is compressed with stays.
    pub fn rest(&mut self) {
        self.0.rest();
    }

    /// The memory that it keeps, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.0.kept_bytes()
    }
}
