//! One end of a connection, as its owner uses it: what servers and clients have in common. Never does anything itself.

use std::io::IoSlice;
use std::marker::PhantomData;

use fairway_http::Head;

use crate::connection::Connection;
use crate::event::Event;
use crate::fault::Code;
use crate::notes::Note;
use crate::priority::Priority;
use crate::schedule::Turn;

/// One end of a connection: [`Server`](crate::Server) or [`Client`](crate::Client).
#[derive(Debug)]
pub struct Session<R> {
    pub(crate) connection: Connection,
    pub(crate) role: PhantomData<R>,
}

impl<R> Session<R> {
    /// Takes input up to the next event; gives how much of it was used. `head` gets a message when one comes, and is
    /// overwritten by any field block.
    ///
    /// `now` is in microseconds of any clock that does not go back.
    #[inline]
    pub fn receive<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> (usize, Event<'a>) {
        self.connection.receive(now, input, head)
    }

    /// The stream whose head has begun to come and is not whole, with what of the input was not used.
    #[must_use]
    pub fn begun(&self, rest: &[u8]) -> Option<u32> {
        self.connection.begun(rest)
    }

    /// What waits to be written.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.connection.pending()
    }

    /// So many bytes of what waits were written.
    #[inline]
    pub fn wrote(&mut self, count: usize) {
        self.connection.wrote(count);
    }

    /// Whether [`Wait::Flush`](crate::Wait::Flush) still holds: too much waits to be written.
    #[inline]
    #[must_use]
    pub fn must_flush(&self) -> bool {
        self.connection.must_flush()
    }

    /// The memory of what waits to be written, while nothing does: to be lent elsewhere meanwhile, and given before the next
    /// frame.
    #[inline]
    pub fn outbox_memory(&mut self) -> Option<&mut Vec<u8>> {
        self.connection.outbox_memory()
    }

    /// How many body bytes the stream may send now. To be asked before they are read from elsewhere.
    #[inline]
    #[must_use]
    pub fn room(&self, stream: u32) -> usize {
        self.connection.room(stream)
    }

    /// Sends as much of a body as has room, and ends the stream if all of it has and `end` is set; gives how much was
    /// taken.
    #[inline]
    pub fn send_data(&mut self, stream: u32, bytes: &[u8], end: bool) -> usize {
        self.connection.send_data(stream, bytes, end)
    }

    /// The same for large bodies, without a copy: `write` gets what waits and the frames of the body in order, as a vectored
    /// write wants them, and gives how many bytes it wrote, 0 if the socket takes none. What is left over waits. A body
    /// below 16,000 bytes, or with less room, goes to what waits and `write` is not called.
    #[inline]
    pub fn send_data_with(
        &mut self,
        stream: u32,
        bytes: &[u8],
        end: bool,
        write: impl FnOnce(&[IoSlice<'_>]) -> usize,
    ) -> usize {
        self.connection.send_data_with(stream, bytes, end, write)
    }

    /// There are body bytes for a stream: [`Session::next_to_send`] gives it its turn when its window is open, and
    /// [`Session::pass`] ends it when the peer keeps that closed. Holds until all bytes of a call of `send_data` were taken.
    #[inline]
    pub fn want_to_send(&mut self, now: u64, stream: u32) {
        self.connection.want_to_send(now, stream);
    }

    /// There are none after all.
    #[inline]
    pub fn send_no_more(&mut self, stream: u32) {
        self.connection.send_no_more(stream);
    }

    /// Which of the streams that want to send has its turn, by its priority (RFC 9218 §10); `None` when windows or what
    /// waits leave no room. Whoever has its turn sends, or says that it has nothing to send.
    #[inline]
    pub fn next_to_send(&mut self, now: u64) -> Option<Turn> {
        self.connection.next_to_send(now)
    }

    /// The priority that a stream has: its `priority` field's or PRIORITY_UPDATE's, with what the answer's says otherwise.
    #[must_use]
    pub fn priority(&self, stream: u32) -> Priority {
        self.connection.priority(stream)
    }

    /// Gives a stream another priority.
    pub fn set_priority(&mut self, stream: u32, priority: Priority) {
        self.connection.set_priority(stream, priority);
    }

    /// Sends trailers and ends the stream; `false` if it is not there to take them.
    pub fn send_trailers<'f>(
        &mut self,
        stream: u32,
        trailers: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        self.connection.send_trailers(stream, trailers)
    }

    /// So many bytes that came were consumed: the peer may send as many again.
    #[inline]
    pub fn consume(&mut self, stream: u32, bytes: u32) {
        self.connection.consume(stream, bytes);
    }

    /// Bytes that windows would grow by for bodies that come fast, if they were granted.
    #[inline]
    #[must_use]
    pub fn window_wanted(&self) -> u32 {
        self.connection.window_wanted()
    }

    /// Windows may grow by so many bytes more than [`Config`](crate::Config) says: the memory that the peer can fill does,
    /// too.
    pub fn grant_window(&mut self, bytes: u32) {
        self.connection.grant_window(bytes);
    }

    /// Bytes of what was granted that are not in use any more, and are given back with this.
    pub fn reclaim_window(&mut self) -> u32 {
        self.connection.reclaim_window()
    }

    /// Resets a stream, if it is not over yet. It stays until it is released.
    pub fn reset(&mut self, stream: u32, code: Code) {
        self.connection.reset(stream, code);
    }

    /// Nobody serves the stream any more. Must be called once for each stream that was reported, whatever became of it;
    /// resets one that has not ended.
    pub fn release(&mut self, stream: u32) {
        self.connection.release(stream);
    }

    /// Whether a stream is there and not reset.
    #[must_use]
    pub fn is_live(&self, stream: u32) -> bool {
        self.connection.is_live(stream)
    }

    /// How many streams were reported and not released.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.connection.open_streams()
    }

    /// A number for a stream that was reported or opened and not released: no other has it meanwhile, and it is below the most
    /// streams that were open at once. Whoever keeps something of each stream finds it by this.
    #[inline]
    #[must_use]
    pub fn slot(&self, stream: u32) -> Option<usize> {
        self.connection.slot(stream)
    }

    /// What happened that may be worth counting and was not told yet, one thing a call: to be asked until there is nothing.
    #[inline]
    pub fn noted(&mut self) -> Option<Note> {
        self.connection.noted()
    }

    /// Whether as many streams were reported and not released as there may be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.connection.is_full()
    }

    /// Sends PING; [`Event::Pong`] brings it back.
    pub fn ping(&mut self, payload: [u8; 8]) {
        self.connection.ping(payload);
    }

    /// Begins to end the connection: new streams are not taken, open ones go on.
    pub fn go_away(&mut self, now: u64) {
        self.connection.go_away(now);
    }

    /// Whether the connection can be closed as soon as what waits is written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connection.is_done()
    }

    /// When `pass` must be called, if nothing else happens.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.connection.deadline()
    }

    /// Time passed. Gives what came of it, as [`Session::receive`] does: a stream whose window stayed closed is reset, and
    /// the connection ends when its peer is silent, closes its window for too long or does not acknowledge settings. To be
    /// called until it gives nothing.
    pub fn pass(&mut self, now: u64) -> Option<Event<'static>> {
        self.connection.pass(now)
    }

    /// Gives back the memory that an idle connection does not need. What is compressed with stays.
    pub fn rest(&mut self) {
        self.connection.rest();
    }

    /// The memory that it keeps, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.connection.kept_bytes()
    }
}
