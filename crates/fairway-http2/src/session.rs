//! The common interface of servers and clients.

use std::io::IoSlice;
use std::marker::PhantomData;

use fairway_http::Head;

use crate::connection::Connection;
use crate::event::Event;
use crate::fault::Code;
use crate::priority::Priority;
use crate::rare_events::PeerEvent;
use crate::schedule::SendTurn;

/// One end of a connection: [`Server`](crate::Server) or [`Client`](crate::Client).
#[derive(Debug)]
pub struct Session<R> {
    pub(crate) connection: Connection,
    pub(crate) role: PhantomData<R>,
}

impl<R> Session<R> {
    /// Processes input up to the next event. Returns how much of it was used. `head` receives the head of a message,
    /// and any field block may overwrite it.
    ///
    /// `now` is in microseconds of any monotonic clock.
    #[inline]
    pub fn receive<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> (usize, Event<'a>) {
        self.connection.receive(now, input, head)
    }

    /// The stream whose head is incomplete, given the unused input.
    #[must_use]
    pub fn partial_head_stream(&self, rest: &[u8]) -> Option<u32> {
        self.connection.partial_head_stream(rest)
    }

    /// Output to be written.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.connection.pending()
    }

    /// Records that `count` bytes of it were written.
    #[inline]
    pub fn mark_written(&mut self, count: usize) {
        self.connection.mark_written(count);
    }

    /// Whether [`Wait::Flush`](crate::Wait::Flush) still holds: too much output is pending.
    #[inline]
    #[must_use]
    pub fn must_flush(&self) -> bool {
        self.connection.must_flush()
    }

    /// The output buffer while it is empty: it can be taken and must be replaced before the next frame.
    #[inline]
    pub fn outbox_memory(&mut self) -> Option<&mut Vec<u8>> {
        self.connection.outbox_memory()
    }

    /// How many body bytes the stream may send now. Check it before reading them from the other side.
    #[inline]
    #[must_use]
    pub fn room(&self, stream: u32) -> usize {
        self.connection.room(stream)
    }

    /// Sends as much of a body as fits, and ends the stream if all of it fits and `end` is set. Returns how much was
    /// accepted.
    #[inline]
    pub fn send_data(&mut self, stream: u32, bytes: &[u8], end: bool) -> usize {
        self.connection.send_data(stream, bytes, end)
    }

    /// The same for large bodies, without a copy: `write` gets the pending output and the body frames in order, for a
    /// vectored write, and returns how many bytes it wrote, 0 if the socket accepts none. The remainder stays pending.
    /// With a body below 16,000 bytes, or with less room, `write` is not called and the body is queued.
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

    /// Queues a stream that has body bytes: [`Session::next_turn`] returns it when its window is open, and
    /// [`Session::handle_timeout`] resets it if the peer keeps the window closed. Holds until a call of `send_data`
    /// accepts all bytes.
    #[inline]
    pub fn queue_for_sending(&mut self, now: u64, stream: u32) {
        self.connection.queue_for_sending(now, stream);
    }

    /// Removes the stream: it has nothing to send after all.
    #[inline]
    pub fn unqueue(&mut self, stream: u32) {
        self.connection.unqueue(stream);
    }

    /// The queued stream whose turn it is, by priority (RFC 9218 §10); `None` if windows or pending output leave no
    /// room. The caller must send or unqueue.
    #[inline]
    pub fn next_turn(&mut self, now: u64) -> Option<SendTurn> {
        self.connection.next_turn(now)
    }

    /// The priority of a stream: from its `priority` field or PRIORITY_UPDATE, as modified by the response.
    #[must_use]
    pub fn priority(&self, stream: u32) -> Priority {
        self.connection.priority(stream)
    }

    /// Changes the priority of a stream.
    pub fn set_priority(&mut self, stream: u32, priority: Priority) {
        self.connection.set_priority(stream, priority);
    }

    /// Sends trailers and ends the stream; `false` if it cannot take them.
    pub fn send_trailers<'f>(
        &mut self,
        stream: u32,
        trailers: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        self.connection.send_trailers(stream, trailers)
    }

    /// Received bytes were consumed: the peer may send as many again.
    #[inline]
    pub fn consume(&mut self, stream: u32, bytes: u32) {
        self.connection.consume(stream, bytes);
    }

    /// Bytes by which windows of fast bodies would grow if granted.
    #[inline]
    #[must_use]
    pub fn wanted_window_bytes(&self) -> u32 {
        self.connection.wanted_window_bytes()
    }

    /// Lets windows grow by this much beyond [`Config`](crate::Config): the memory that the peer can fill grows too.
    pub fn grant_window(&mut self, bytes: u32) {
        self.connection.grant_window(bytes);
    }

    /// Returns granted bytes that are no longer used.
    pub fn reclaim_window(&mut self) -> u32 {
        self.connection.reclaim_window()
    }

    /// Resets a stream that is not over yet. It must still be released.
    pub fn reset(&mut self, stream: u32, code: Code) {
        self.connection.reset(stream, code);
    }

    /// Ends the service of a stream. Must be called once for each reported stream, however it ended; resets an
    /// incomplete one.
    pub fn release(&mut self, stream: u32) {
        self.connection.release(stream);
    }

    /// Whether a stream exists and was not reset.
    #[must_use]
    pub fn is_live(&self, stream: u32) -> bool {
        self.connection.is_live(stream)
    }

    /// The number of streams reported and not released.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.connection.open_streams()
    }

    /// A unique number of a stream that was reported or opened and not released, below the maximum number of streams
    /// open at once. Use it to index per-stream state.
    #[inline]
    #[must_use]
    pub fn slot(&self, stream: u32) -> Option<usize> {
        self.connection.slot(stream)
    }

    /// Takes a peer event for metrics, one per call: call until there is none.
    #[inline]
    pub fn take_event(&mut self) -> Option<PeerEvent> {
        self.connection.take_event()
    }

    /// Whether the limit of reported and unreleased streams is reached.
    #[must_use]
    pub fn is_at_stream_limit(&self) -> bool {
        self.connection.is_at_stream_limit()
    }

    /// Sends PING; [`Event::Pong`] reports the answer.
    pub fn ping(&mut self, payload: [u8; 8]) {
        self.connection.ping(payload);
    }

    /// Starts a graceful shutdown: new streams are refused, open ones continue.
    pub fn go_away(&mut self, now: u64) {
        self.connection.go_away(now);
    }

    /// Whether the connection can be closed once the pending output is written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connection.is_done()
    }

    /// When `handle_timeout` must be called, if nothing else happens.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.connection.deadline()
    }

    /// Handles the passing of time; returns events like [`Session::receive`]. A stream whose window stayed closed is
    /// reset; the connection ends if its peer is silent, keeps its window closed or does not acknowledge SETTINGS. Call
    /// until there is no event.
    pub fn handle_timeout(&mut self, now: u64) -> Option<Event<'static>> {
        self.connection.handle_timeout(now)
    }

    /// Releases memory that an idle connection does not need. The compression tables stay.
    pub fn release_memory(&mut self) {
        self.connection.release_memory();
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.connection.kept_bytes()
    }
}
