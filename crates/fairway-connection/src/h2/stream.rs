//! One stream of either side: what was received and not read yet, and what is to be sent and has no room yet. Does no
//! I/O.

use fairway_http::Head;
use fairway_http2::{Code, Session};
use fairway_net::clock::Instant;
use fairway_net::wire::{Backlog, Workspace};

use crate::outgoing::{Frames, Outgoing};
use crate::sides::{BodyStep, Failure, RequestEnd};
use crate::trailers::Trailers;

pub(super) use crate::outgoing::Following;

/// The receiving direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveState {
    Receiving,
    /// The message is complete; its data is in the inbox.
    Complete,
    /// The peer reset the stream or is gone, and accepts nothing either.
    Reset,
}

/// A stream, or an unused slot for one.
pub(super) struct Stream {
    /// 0 if unused.
    pub(super) id: u32,
    pub(super) arrival: ReceiveState,
    inbox: Backlog,
    /// Trailers received after the body.
    received_trailers: Option<Trailers>,
    outgoing: Outgoing,
}

/// What a stream needs to act: the codec, the worker's buffers and the time.
pub(super) struct StreamContext<'c, R> {
    pub(super) codec: &'c mut Session<R>,
    pub(super) workspace: &'c Workspace,
    pub(super) now: CodecTime,
}

/// The frames of one stream, for [`Outgoing`].
struct CodecFrames<'t, 'c, R> {
    id: u32,
    tools: &'t mut StreamContext<'c, R>,
}

impl<R> Frames for CodecFrames<'_, '_, R> {
    #[inline]
    fn send_data(&mut self, data: &[u8], end: bool) -> usize {
        self.tools.codec.send_data(self.id, data, end)
    }

    fn send_trailers(&mut self, trailers: &Trailers) {
        self.tools.codec.send_trailers(self.id, trailers.iter());
    }

    #[inline]
    fn room(&self) -> usize {
        self.tools.codec.room(self.id)
    }

    fn await_room(&mut self) {
        self.tools.codec.queue_for_sending(self.tools.now.micros(), self.id);
    }
}

/// The codec's clock. Read lazily, because few operations need it.
#[derive(Clone, Copy)]
pub(super) enum CodecTime {
    /// In microseconds.
    Micros(u64),
    /// Microseconds since this moment.
    Since(Instant),
}

impl CodecTime {
    pub(super) fn micros(self) -> u64 {
        match self {
            Self::Micros(micros) => micros,
            Self::Since(began) => u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            id: 0,
            arrival: ReceiveState::Reset,
            inbox: Backlog::default(),
            received_trailers: None,
            outgoing: Outgoing::default(),
        }
    }
}

impl Stream {
    /// Starts a stream.
    pub(super) fn open(&mut self, id: u32, arrival: ReceiveState) {
        (self.id, self.arrival) = (id, arrival);
        self.outgoing.open();
    }

    /// Queues received body data.
    pub(super) fn receive(&mut self, bytes: &[u8], end: bool, workspace: &Workspace) {
        self.inbox.extend(bytes, workspace);
        self.note_end(end);
    }

    /// Queues the trailers that end the message.
    pub(super) fn receive_trailers(&mut self, head: &Head) {
        self.received_trailers = Some(Trailers::from_head(head));
        self.note_end(true);
    }

    /// Records whether the message is complete.
    pub(super) fn note_end(&mut self, end: bool) {
        if end && self.arrival == ReceiveState::Receiving {
            self.arrival = ReceiveState::Complete;
        }
    }

    /// Takes the received body data, to be returned with [`Stream::return_inbox`], or returns the state if there is
    /// none.
    pub(super) fn take_inbox(&mut self) -> Result<Backlog, Option<Result<BodyStep, Failure>>> {
        match self.arrival {
            ReceiveState::Reset => Err(Some(Err(Failure::Closed))),
            ReceiveState::Complete if self.inbox.is_empty() => Err(Some(Ok(BodyStep::End))),
            ReceiveState::Receiving if self.inbox.is_empty() => Err(None),
            ReceiveState::Complete | ReceiveState::Receiving => Ok(std::mem::take(&mut self.inbox)),
        }
    }

    /// Returns the inbox after `count` bytes were consumed, which reopens the window.
    pub(super) fn return_inbox<R>(
        &mut self,
        mut inbox: Backlog,
        count: usize,
        tools: &mut StreamContext<'_, R>,
    ) {
        debug_assert!(self.inbox.is_empty(), "nothing is read while a piece is out");
        inbox.release(tools.workspace);
        self.inbox = inbox;
        tools.codec.consume(self.id, u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Takes the received trailers.
    pub(super) fn take_trailers(&mut self) -> Option<Trailers> {
        self.received_trailers.take()
    }

    /// Records that a head was sent in `bytes` bytes of frames.
    pub(super) fn head_sent(&mut self, bytes: usize, follow: Following) {
        self.outgoing.head_sent(bytes, follow);
    }

    /// Switches to tunnel mode: bytes are sent until [`Self::finish`].
    pub(super) fn open_tunnel(&mut self) {
        self.outgoing.open_tunnel();
    }

    /// Sends body data, or queues it.
    pub(super) fn send_data<R>(
        &mut self,
        data: &[u8],
        tools: &mut StreamContext<'_, R>,
    ) -> Result<(), Failure> {
        if self.arrival == ReceiveState::Reset {
            return Err(Failure::Closed);
        }
        let (id, workspace) = (self.id, tools.workspace);
        self.outgoing.send_data(data, &mut CodecFrames { id, tools }, workspace)
    }

    /// Ends the body.
    pub(super) fn finish<'a, R>(
        &mut self,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        tools: &mut StreamContext<'_, R>,
    ) -> Result<(), Failure> {
        let (id, workspace) = (self.id, tools.workspace);
        self.outgoing.finish(trailers, &mut CodecFrames { id, tools }, workspace)
    }

    /// Moves queued data into frames as far as there is room. Returns whether nothing is queued any more.
    pub(super) fn push<R>(&mut self, tools: &mut StreamContext<'_, R>) -> bool {
        let (id, workspace) = (self.id, tools.workspace);
        self.outgoing.push(&mut CodecFrames { id, tools }, workspace)
    }

    /// How many body bytes can be sent. Without room, the stream waits for its turn.
    pub(super) fn room<R>(&mut self, tools: &mut StreamContext<'_, R>) -> Result<Option<usize>, Failure> {
        if self.arrival == ReceiveState::Reset {
            return Err(Failure::Closed);
        }
        let (id, workspace) = (self.id, tools.workspace);
        Ok(self.outgoing.room(&mut CodecFrames { id, tools }, workspace))
    }

    /// Whether more body data is expected from the exchange. The end of a body needs no room.
    pub(super) fn has_more(&self) -> bool {
        self.outgoing.has_more()
    }

    /// Asks the codec for a turn to send.
    pub(super) fn await_room<R>(&self, tools: &mut StreamContext<'_, R>) {
        CodecFrames { id: self.id, tools }.await_room();
    }

    pub(super) fn queued(&self) -> usize {
        self.outgoing.queued()
    }

    /// Bytes of heads and bodies in frames.
    pub(super) fn sent(&self) -> u64 {
        self.outgoing.sent
    }

    /// Ends the stream; the codec resets it if it is not complete.
    pub(super) fn close<R>(&mut self, tools: &mut StreamContext<'_, R>) {
        if self.id != 0 {
            tools.codec.release(self.id);
        }
        (self.id, self.arrival, self.received_trailers) = (0, ReceiveState::Reset, None);
        self.inbox.consume(self.inbox.pending().len());
        self.inbox.release(tools.workspace);
        self.outgoing.close(tools.workspace);
    }

    /// How the request would end if it were dropped now.
    pub(super) fn request_end(&self) -> RequestEnd {
        match (self.outgoing.awaits_head(), self.arrival) {
            (true, ReceiveState::Reset) => RequestEnd::Canceled,
            (true, _) => RequestEnd::Abandoned,
            (false, _) => RequestEnd::Responded,
        }
    }

    /// Whether closing the stream now would cancel it.
    pub(super) fn is_under_way(&self) -> bool {
        let is_over = self.arrival == ReceiveState::Complete && self.outgoing.has_ended();
        self.id != 0 && self.arrival != ReceiveState::Reset && !is_over
    }

    /// Drops the received body and what follows. Returns whether only the body is missing.
    pub(super) fn begin_drain<R>(&mut self, tools: &mut StreamContext<'_, R>) -> bool {
        if self.arrival != ReceiveState::Receiving || !self.outgoing.has_ended() {
            return false;
        }
        let count = self.inbox.pending().len();
        let inbox = std::mem::take(&mut self.inbox);
        self.inbox_consumed(inbox, count, tools);
        true
    }

    fn inbox_consumed<R>(&mut self, mut inbox: Backlog, count: usize, tools: &mut StreamContext<'_, R>) {
        inbox.consume(count);
        self.return_inbox(inbox, count, tools);
    }

    /// Resets the stream, so that the peer sees a failure.
    pub(super) fn abort<R>(&mut self, codec: &mut Session<R>) {
        codec.reset(self.id, Code::Internal);
    }
}
