//! One stream of either side: what came of a message and was not read yet, and what is to leave and has no room yet. Never
//! waits, and never knows who reads or writes.

use fairway_http::Head;
use fairway_http2::{Code, Session};
use fairway_net::clock::Instant;
use fairway_net::wire::{Backlog, Workspace};

use crate::outgoing::{Frames, Outgoing};
use crate::sides::{BodyStep, Departed, Failure};
use crate::trailers::Trailers;

pub(super) use crate::outgoing::Follow;

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Coming,
    /// All of it is in the inbox.
    Whole,
    /// The peer has reset the stream, or is gone: it takes nothing either.
    Broken,
}

/// A stream, or room for one that is to come.
pub(super) struct Stream {
    /// 0 where there is none.
    pub(super) id: u32,
    pub(super) arrival: Arrival,
    inbox: Backlog,
    /// They came behind the body.
    came: Option<Trailers>,
    outgoing: Outgoing,
}

/// The codec's end, the memory that streams share, and the time: what a stream acts with.
pub(super) struct Tools<'c, R> {
    pub(super) codec: &'c mut Session<R>,
    pub(super) workspace: &'c Workspace,
    pub(super) now: Time,
}

/// A stream of a codec, as what leaves on it sees it.
struct Frame<'t, 'c, R> {
    id: u32,
    tools: &'t mut Tools<'c, R>,
}

impl<R> Frames for Frame<'_, '_, R> {
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
        self.tools.codec.want_to_send(self.tools.now.micros(), self.id);
    }
}

/// The time of a codec. Few that act on a stream ask for it.
#[derive(Clone, Copy)]
pub(super) enum Time {
    /// In microseconds.
    Is(u64),
    /// What has passed since then: the clock is read when somebody asks.
    Since(Instant),
}

impl Time {
    pub(super) fn micros(self) -> u64 {
        match self {
            Self::Is(micros) => micros,
            Self::Since(began) => u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            id: 0,
            arrival: Arrival::Broken,
            inbox: Backlog::default(),
            came: None,
            outgoing: Outgoing::default(),
        }
    }
}

impl Stream {
    /// It begins.
    pub(super) fn begin(&mut self, id: u32, arrival: Arrival) {
        (self.id, self.arrival) = (id, arrival);
        self.outgoing.begin();
    }

    /// A piece of a body came.
    pub(super) fn came(&mut self, bytes: &[u8], end: bool, workspace: &Workspace) {
        self.inbox.extend(bytes, workspace);
        self.ended(end);
    }

    /// Trailers ended a message.
    pub(super) fn trailers_came(&mut self, head: &Head) {
        self.came = Some(Trailers::of(head));
        self.ended(true);
    }

    /// Whether all of the message came.
    pub(super) fn ended(&mut self, end: bool) {
        if end && self.arrival == Arrival::Coming {
            self.arrival = Arrival::Whole;
        }
    }

    /// Takes what came of a body out, to be put back with [`Stream::put_back`]; or says what there is instead.
    pub(super) fn take_inbox(&mut self) -> Result<Backlog, Option<Result<BodyStep, Failure>>> {
        match self.arrival {
            Arrival::Broken => Err(Some(Err(Failure::Closed))),
            Arrival::Whole if self.inbox.is_empty() => Err(Some(Ok(BodyStep::End))),
            Arrival::Coming if self.inbox.is_empty() => Err(None),
            Arrival::Whole | Arrival::Coming => Ok(std::mem::take(&mut self.inbox)),
        }
    }

    /// Of what was taken out, `count` bytes were consumed: the peer may send as many again.
    pub(super) fn put_back<R>(&mut self, mut inbox: Backlog, count: usize, tools: &mut Tools<'_, R>) {
        debug_assert!(self.inbox.is_empty(), "nothing is read while a piece is out");
        inbox.release(tools.workspace);
        self.inbox = inbox;
        tools.codec.consume(self.id, u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// The trailers that came, once.
    pub(super) fn take_trailers(&mut self) -> Option<Trailers> {
        self.came.take()
    }

    /// A head was put into `bytes` bytes of frames.
    pub(super) fn head_left(&mut self, bytes: usize, follow: Follow) {
        self.outgoing.head_left(bytes, follow);
    }

    /// From now on bytes of a tunnel leave, until somebody ends them.
    pub(super) fn open_tunnel(&mut self) {
        self.outgoing.open_tunnel();
    }

    /// Takes a piece of a body.
    pub(super) fn send_data<R>(&mut self, data: &[u8], tools: &mut Tools<'_, R>) -> Result<(), Failure> {
        if self.arrival == Arrival::Broken {
            return Err(Failure::Closed);
        }
        let (id, workspace) = (self.id, tools.workspace);
        self.outgoing.send_data(data, &mut Frame { id, tools }, workspace)
    }

    /// Ends a body.
    pub(super) fn finish<'a, R>(
        &mut self,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        tools: &mut Tools<'_, R>,
    ) -> Result<(), Failure> {
        let (id, workspace) = (self.id, tools.workspace);
        self.outgoing.finish(trailers, &mut Frame { id, tools }, workspace)
    }

    /// Moves what waits into frames, as far as there is room; says whether nothing waits any more.
    pub(super) fn push<R>(&mut self, tools: &mut Tools<'_, R>) -> bool {
        let (id, workspace) = (self.id, tools.workspace);
        self.outgoing.push(&mut Frame { id, tools }, workspace)
    }

    /// How many bytes of a body there is room for. Where there is none, the codec gives the stream its turn later.
    pub(super) fn room<R>(&mut self, tools: &mut Tools<'_, R>) -> Result<Option<usize>, Failure> {
        if self.arrival == Arrival::Broken {
            return Err(Failure::Closed);
        }
        let (id, workspace) = (self.id, tools.workspace);
        Ok(self.outgoing.room(&mut Frame { id, tools }, workspace))
    }

    /// Whether bytes of a body are still to be given to us. Its end needs no room.
    pub(super) fn has_more(&self) -> bool {
        self.outgoing.has_more()
    }

    /// The codec gives it a turn.
    pub(super) fn await_turn<R>(&self, tools: &mut Tools<'_, R>) {
        Frame { id: self.id, tools }.await_room();
    }

    pub(super) fn queued(&self) -> usize {
        self.outgoing.queued()
    }

    /// Bytes of bodies and heads in frames.
    pub(super) fn sent(&self) -> u64 {
        self.outgoing.sent
    }

    /// Nobody serves it any more; the codec forgets it, and resets it where it is not over.
    pub(super) fn close<R>(&mut self, tools: &mut Tools<'_, R>) {
        if self.id != 0 {
            tools.codec.release(self.id);
        }
        (self.id, self.arrival, self.came) = (0, Arrival::Broken, None);
        self.inbox.consume(self.inbox.pending().len());
        self.inbox.release(tools.workspace);
        self.outgoing.close(tools.workspace);
    }

    /// How it would be left now, seen from an endpoint of ours.
    pub(super) fn departed(&self) -> Departed {
        match (self.outgoing.awaits_head(), self.arrival) {
            (true, Arrival::Broken) => Departed::TakenBack,
            (true, _) => Departed::GivenUp,
            (false, _) => Departed::Answered,
        }
    }

    /// Whether closing it means to cancel it.
    pub(super) fn is_under_way(&self) -> bool {
        let is_over = self.arrival == Arrival::Whole && self.outgoing.has_ended();
        self.id != 0 && self.arrival != Arrival::Broken && !is_over
    }

    /// What came of a body, and what is still to come, is for nobody. Says whether that is all that is missing of the stream.
    pub(super) fn begin_drain<R>(&mut self, tools: &mut Tools<'_, R>) -> bool {
        if self.arrival != Arrival::Coming || !self.outgoing.has_ended() {
            return false;
        }
        let count = self.inbox.pending().len();
        let inbox = std::mem::take(&mut self.inbox);
        self.inbox_consumed(inbox, count, tools);
        true
    }

    fn inbox_consumed<R>(&mut self, mut inbox: Backlog, count: usize, tools: &mut Tools<'_, R>) {
        inbox.consume(count);
        self.put_back(inbox, count, tools);
    }

    /// The peer shall see a failure.
    pub(super) fn abort<R>(&mut self, codec: &mut Session<R>) {
        codec.reset(self.id, Code::Internal);
    }
}
