//! One stream of either side: what came of a message and was not read yet, and what is to leave and has no room yet. Never
//! waits, and never knows who reads or writes.

use fairway_http::Head;
use fairway_http2::{Code, Session};
use fairway_net::clock::Instant;
use fairway_net::wire::{Backlog, Workspace};

use super::trailers::Trailers;
use crate::sides::{BodyStep, Departed, Failure};

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Coming,
    /// All of it is in the inbox.
    Whole,
    /// The peer has reset the stream, or is gone: it takes nothing either.
    Broken,
}

/// What leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// The head that a body follows is still to come.
    Head,
    /// Where its length is known, its last byte ends the stream.
    Body,
    /// Trailers may follow its last byte.
    Trailed,
    /// All of it was given to us; what waits in the outbox is its end.
    Closing,
    /// All of it is in frames.
    Ended,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    /// A body; with its length, where that is known.
    Body(Option<u64>),
    /// A body of this length, and perhaps trailers.
    Trailed(u64),
    /// Nothing before both sides agreed on a tunnel.
    Tunnel,
}

/// A stream, or room for one that is to come.
pub(super) struct Stream {
    /// 0 where there is none.
    pub(super) id: u32,
    pub(super) arrival: Arrival,
    inbox: Backlog,
    /// They came behind the body.
    came: Option<Trailers>,
    departure: Departure,
    outbox: Backlog,
    /// They follow what is in the outbox.
    follow: Trailers,
    /// Bytes of the body that are still to be given to us, where its head said how many.
    left: Option<u64>,
    /// Bytes of bodies and heads in frames.
    pub(super) sent: u64,
}

/// The codec's end, the memory that streams share, and the time: what a stream acts with.
pub(super) struct Tools<'c, R> {
    pub(super) codec: &'c mut Session<R>,
    pub(super) workspace: &'c Workspace,
    pub(super) now: Time,
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
            departure: Departure::Ended,
            outbox: Backlog::default(),
            follow: Trailers::default(),
            left: None,
            sent: 0,
        }
    }
}

impl Stream {
    /// It begins.
    pub(super) fn begin(&mut self, id: u32, arrival: Arrival) {
        (self.id, self.arrival, self.departure) = (id, arrival, Departure::Head);
        (self.left, self.sent) = (None, 0);
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
        self.sent += bytes as u64;
        (self.left, self.departure) = match follow {
            Follow::Body(Some(0)) | Follow::Tunnel => (Some(0), Departure::Ended),
            Follow::Body(length) => (length, Departure::Body),
            Follow::Trailed(length) => (Some(length), Departure::Trailed),
        };
    }

    /// From now on bytes of a tunnel leave, until somebody ends them.
    pub(super) fn open_tunnel(&mut self) {
        (self.left, self.departure) = (None, Departure::Body);
    }

    /// Takes a piece of a body.
    pub(super) fn send_data<R>(&mut self, data: &[u8], tools: &mut Tools<'_, R>) -> Result<(), Failure> {
        if self.arrival == Arrival::Broken {
            return Err(Failure::Closed);
        }
        if !matches!(self.departure, Departure::Body | Departure::Trailed) {
            return if data.is_empty() { Ok(()) } else { Err(Failure::Refused) };
        }
        let end = self.departure == Departure::Body && self.left == Some(data.len() as u64);
        self.left = match self.left.map(|left| left.checked_sub(data.len() as u64)) {
            Some(None) => return Err(Failure::Refused),
            left => left.flatten(),
        };
        if !self.outbox.is_empty() {
            self.outbox.extend(data, tools.workspace);
            return Ok(());
        }
        let taken = tools.codec.send_data(self.id, data, end);
        self.sent += taken as u64;
        if taken == data.len() && end {
            self.departure = Departure::Ended;
        }
        self.outbox.extend(&data[taken..], tools.workspace);
        Ok(())
    }

    /// Ends a body.
    pub(super) fn finish<'a, R>(
        &mut self,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        tools: &mut Tools<'_, R>,
    ) -> Result<(), Failure> {
        match self.departure {
            Departure::Ended | Departure::Closing => Ok(()),
            Departure::Head => Err(Failure::Closed),
            // Less came than was announced: the peer must not take it for the whole.
            _ if self.left.is_some_and(|left| left > 0) => Err(Failure::Closed),
            Departure::Body | Departure::Trailed => {
                self.departure = Departure::Closing;
                self.follow = Trailers::collect(trailers);
                self.push(tools);
                Ok(())
            }
        }
    }

    /// Moves what waits into frames, as far as there is room; says whether nothing waits any more.
    pub(super) fn push<R>(&mut self, tools: &mut Tools<'_, R>) -> bool {
        let is_closing = self.departure == Departure::Closing;
        let is_last = match self.departure {
            Departure::Closing => self.follow.is_empty(),
            Departure::Body => self.left == Some(0),
            Departure::Head | Departure::Trailed | Departure::Ended => false,
        };
        if !self.outbox.is_empty() || (is_last && is_closing) {
            let pending = self.outbox.pending();
            let all = pending.len();
            let taken = tools.codec.send_data(self.id, pending, is_last);
            self.sent += taken as u64;
            self.outbox.consume(taken);
            if taken < all {
                self.await_turn(tools);
                return false;
            }
            self.outbox.release(tools.workspace);
        }
        if is_last {
            self.departure = Departure::Ended;
        } else if is_closing {
            tools.codec.send_trailers(self.id, self.follow.iter());
            self.departure = Departure::Ended;
        }
        true
    }

    /// How many bytes of a body there is room for. Where there is none, the codec gives the stream its turn later.
    pub(super) fn room<R>(&mut self, tools: &mut Tools<'_, R>) -> Result<Option<usize>, Failure> {
        if self.arrival == Arrival::Broken {
            return Err(Failure::Closed);
        }
        if !self.push(tools) {
            return Ok(None);
        }
        let room = tools.codec.room(self.id);
        if room == 0 && self.has_more() {
            self.await_turn(tools);
            return Ok(None);
        }
        Ok(Some(room.max(1)))
    }

    /// Whether bytes of a body are still to be given to us. Its end needs no room.
    pub(super) fn has_more(&self) -> bool {
        matches!(self.departure, Departure::Body | Departure::Trailed) && self.left != Some(0)
    }

    /// The codec gives it a turn.
    pub(super) fn await_turn<R>(&self, tools: &mut Tools<'_, R>) {
        tools.codec.want_to_send(tools.now.micros(), self.id);
    }

    pub(super) fn queued(&self) -> usize {
        self.outbox.pending().len()
    }

    /// Nobody serves it any more; the codec forgets it, and resets it where it is not over.
    pub(super) fn close<R>(&mut self, tools: &mut Tools<'_, R>) {
        if self.id != 0 {
            tools.codec.release(self.id);
        }
        (self.id, self.sent) = (0, 0);
        (self.arrival, self.departure) = (Arrival::Broken, Departure::Ended);
        for backlog in [&mut self.inbox, &mut self.outbox] {
            backlog.consume(backlog.pending().len());
            backlog.release(tools.workspace);
        }
        (self.came, self.follow) = (None, Trailers::default());
    }

    /// How it would be left now, seen from an endpoint of ours.
    pub(super) fn departed(&self) -> Departed {
        match (self.departure, self.arrival) {
            (Departure::Head, Arrival::Broken) => Departed::TakenBack,
            (Departure::Head, _) => Departed::GivenUp,
            _ => Departed::Answered,
        }
    }

    /// Whether closing it means to cancel it.
    pub(super) fn is_under_way(&self) -> bool {
        let is_over = self.arrival == Arrival::Whole && self.departure == Departure::Ended;
        self.id != 0 && self.arrival != Arrival::Broken && !is_over
    }

    /// What came of a body, and what is still to come, is for nobody. Says whether that is all that is missing of the stream.
    pub(super) fn begin_drain<R>(&mut self, tools: &mut Tools<'_, R>) -> bool {
        if self.arrival != Arrival::Coming || self.departure != Departure::Ended {
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
