//! The streams of one client's connection: the codec, and what of each stream its exchange has not read yet or the client
//! has not taken. Streams have slots, by which the connection knows their exchanges.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http2::{Code, Config, Server};
use fairway_message::Head;
use fairway_runtime::wire::{Backlog, Workspace};

use super::trailers::Trailers;
use crate::sides::Failure;

/// What the exchanges of a connection and the connection itself act on, one after the other.
pub(crate) type SharedStreams = Rc<RefCell<Streams>>;

/// The streams of a connection.
pub(crate) struct Streams {
    pub(crate) codec: Server,
    pub(super) peer: Option<IpAddr>,
    pub(super) workspace: Rc<Workspace>,
    /// Of the codec, in microseconds.
    pub(crate) now: u64,
    streams: Vec<Stream>,
}

/// Bytes of bodies that are asked for before what they make is written.
const ROUND: usize = 128 * 1024;

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Coming,
    /// All of it is in the inbox.
    Whole,
    /// The client has reset the stream, or is gone: it takes no answer either.
    Broken,
}

/// What leaves of an answer.
#[derive(Debug, PartialEq)]
enum Departure {
    /// Its final head is still to come.
    Head,
    Body,
    /// All of it was given to us; what waits in the outbox is its end.
    Closing,
    /// All of it is in frames.
    Ended,
}

/// A stream, or the slot of one that is to come.
pub(super) struct Stream {
    /// 0 where there is none.
    id: u32,
    arrival: Arrival,
    inbox: Backlog,
    /// They came behind the body.
    came: Option<Trailers>,
    departure: Departure,
    outbox: Backlog,
    /// They follow what is in the outbox.
    follow: Trailers,
    /// Bytes of the answer's body that are still to be given to us, where its head said how many.
    left: Option<u64>,
    /// Bytes of bodies and heads in frames.
    sent: u64,
}

impl Stream {
    fn vacant() -> Self {
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

impl Streams {
    /// Of a connection that just began, at `now` in microseconds.
    pub(crate) fn begin(
        config: Config,
        now: u64,
        (peer, workspace): (Option<IpAddr>, &Rc<Workspace>),
    ) -> SharedStreams {
        let codec = Server::new(config, now);
        let streams = Self { codec, peer, workspace: Rc::clone(workspace), now, streams: Vec::new() };
        Rc::new(RefCell::new(streams))
    }

    /// A stream began: gives its slot.
    pub(crate) fn open(&mut self, id: u32, end: bool) -> usize {
        let slot = self.streams.iter().position(|stream| stream.id == 0).unwrap_or_else(|| {
            self.streams.push(Stream::vacant());
            self.streams.len() - 1
        });
        let arrival = if end { Arrival::Whole } else { Arrival::Coming };
        let stream = &mut self.streams[slot];
        (stream.id, stream.arrival, stream.departure) = (id, arrival, Departure::Head);
        (stream.left, stream.sent) = (None, 0);
        slot
    }

    /// The slot of a stream, while it has one.
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// How many streams have slots.
    pub(crate) fn open_streams(&self) -> usize {
        self.codec.open_streams()
    }

    /// A piece of a body came.
    pub(crate) fn came(&mut self, slot: usize, bytes: &[u8], end: bool) {
        let Self { streams, workspace, .. } = self;
        let stream = &mut streams[slot];
        stream.inbox.extend(bytes, workspace);
        if end && stream.arrival == Arrival::Coming {
            stream.arrival = Arrival::Whole;
        }
    }

    /// Trailers ended a request.
    pub(crate) fn trailers_came(&mut self, slot: usize, head: &Head) {
        let stream = &mut self.streams[slot];
        stream.came = Some(Trailers::of(head));
        if stream.arrival == Arrival::Coming {
            stream.arrival = Arrival::Whole;
        }
    }

    /// The client wants nothing of a stream any more.
    pub(crate) fn broke(&mut self, slot: usize) {
        self.streams[slot].arrival = Arrival::Broken;
    }

    /// The client has gone; gives the slots that have streams.
    pub(crate) fn all_broke(&mut self) -> impl Iterator<Item = usize> {
        let open = self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.id != 0);
        open.map(|(slot, stream)| {
            stream.arrival = Arrival::Broken;
            slot
        })
    }

    /// The exchange is over; its slot can have another stream.
    pub(crate) fn close(&mut self, slot: usize) {
        let Self { codec, streams, workspace, .. } = self;
        let stream = &mut streams[slot];
        codec.release(stream.id);
        stream.id = 0;
        stream.arrival = Arrival::Broken;
        for backlog in [&mut stream.inbox, &mut stream.outbox] {
            backlog.consume(backlog.pending().len());
            backlog.release(workspace);
        }
        (stream.came, stream.follow) = (None, Trailers::default());
    }

    /// Hands the slots of streams to `ring` whose exchanges waited for room and have it now, in the order of their priority
    /// and as far as the room reaches; says whether there was one.
    pub(crate) fn take_turns(&mut self, mut ring: impl FnMut(usize)) -> bool {
        let mut promised = 0;
        while promised < ROUND
            && let Some(turn) = self.codec.next_to_send(self.now)
        {
            // Its exchange sends now, or waits for the endpoint; then it asks again.
            self.codec.send_no_more(turn.stream);
            let Some(slot) = self.slot(turn.stream) else { continue };
            promised += turn.bytes;
            ring(slot);
        }
        promised > 0
    }

    /// No stream is open: memory goes back.
    pub(crate) fn rest(&mut self) {
        self.streams = Vec::new();
        self.codec.rest();
    }

    pub(super) fn is_broken(&self, slot: usize) -> bool {
        self.streams[slot].arrival == Arrival::Broken
    }

    /// Takes what came of a body out, to be put back with [`Streams::put_back`]. `None` where nothing is there, and why.
    pub(super) fn take_inbox(&mut self, slot: usize) -> Result<Backlog, Emptiness> {
        let stream = &mut self.streams[slot];
        match stream.arrival {
            Arrival::Broken => Err(Emptiness::Broken),
            Arrival::Whole if stream.inbox.is_empty() => Err(Emptiness::Whole(stream.came.take())),
            Arrival::Coming if stream.inbox.is_empty() => Err(Emptiness::Coming),
            Arrival::Whole | Arrival::Coming => Ok(std::mem::take(&mut stream.inbox)),
        }
    }

    /// Of what was taken out, `count` bytes were consumed: the client may send as many again.
    pub(super) fn put_back(&mut self, slot: usize, inbox: Backlog, count: usize) {
        let Self { codec, streams, workspace, .. } = self;
        let stream = &mut streams[slot];
        stream.inbox = inbox;
        stream.inbox.release(workspace);
        codec.consume(stream.id, u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Sends an answer's head, interim or final. `body` says how long the body is that follows, where that is known.
    pub(super) fn send_head(&mut self, slot: usize, head: &Head, body: Option<u64>) {
        let Self { codec, streams, .. } = self;
        let stream = &mut streams[slot];
        let is_final = head.status() >= 200;
        let end = is_final && body == Some(0);
        let before = codec.pending().len();
        if !codec.send_head(stream.id, head, end) {
            return;
        }
        stream.sent += (codec.pending().len() - before) as u64;
        if is_final {
            stream.left = body;
            stream.departure = if end { Departure::Ended } else { Departure::Body };
        }
    }

    /// Takes a piece of an answer's body.
    pub(super) fn send_data(&mut self, slot: usize, data: &[u8]) -> Result<(), Failure> {
        let Self { codec, streams, workspace, .. } = self;
        let stream = &mut streams[slot];
        if stream.arrival == Arrival::Broken {
            return Err(Failure::Closed);
        }
        if stream.departure != Departure::Body {
            return if data.is_empty() { Ok(()) } else { Err(Failure::Refused) };
        }
        let end = stream.left == Some(data.len() as u64);
        stream.left = match stream.left.map(|left| left.checked_sub(data.len() as u64)) {
            Some(None) => return Err(Failure::Refused),
            left => left.flatten(),
        };
        if !stream.outbox.is_empty() {
            stream.outbox.extend(data, workspace);
            return Ok(());
        }
        let taken = codec.send_data(stream.id, data, end);
        stream.sent += taken as u64;
        if taken == data.len() && end {
            stream.departure = Departure::Ended;
        }
        stream.outbox.extend(&data[taken..], workspace);
        Ok(())
    }

    /// Ends an answer's body.
    pub(super) fn finish<'a>(
        &mut self,
        slot: usize,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Failure> {
        let stream = &mut self.streams[slot];
        match stream.departure {
            Departure::Ended | Departure::Closing => Ok(()),
            // Less came than was announced: the client must not take it for the whole.
            Departure::Body if stream.left.is_some_and(|left| left > 0) => Err(Failure::Closed),
            Departure::Head => Err(Failure::Closed),
            Departure::Body => {
                stream.departure = Departure::Closing;
                stream.follow = Trailers::collect(trailers);
                self.push(slot);
                Ok(())
            }
        }
    }

    /// Moves what waits into frames, as far as there is room; says whether nothing waits any more.
    pub(super) fn push(&mut self, slot: usize) -> bool {
        let Self { codec, streams, workspace, now, .. } = self;
        let stream = &mut streams[slot];
        let is_last = match stream.departure {
            Departure::Closing => stream.follow.is_empty(),
            _ => stream.left == Some(0),
        };
        if !stream.outbox.is_empty() || (is_last && stream.departure == Departure::Closing) {
            let pending = stream.outbox.pending();
            let all = pending.len();
            let taken = codec.send_data(stream.id, pending, is_last);
            stream.sent += taken as u64;
            stream.outbox.consume(taken);
            if taken < all {
                codec.want_to_send(*now, stream.id);
                return false;
            }
            stream.outbox.release(workspace);
        }
        if is_last {
            stream.departure = Departure::Ended;
        } else if stream.departure == Departure::Closing {
            codec.send_trailers(stream.id, stream.follow.iter());
            stream.departure = Departure::Ended;
        }
        true
    }

    /// How many bytes of a body there is room for; where there is none, the exchange is found by
    /// [`Streams::take_turns`] later.
    pub(super) fn room(&mut self, slot: usize) -> usize {
        let stream = &mut self.streams[slot];
        let room = self.codec.room(stream.id);
        if room == 0 {
            self.codec.want_to_send(self.now, stream.id);
        }
        room
    }

    pub(super) fn queued(&self, slot: usize) -> usize {
        self.streams[slot].outbox.pending().len()
    }

    pub(super) fn sent(&self, slot: usize) -> u64 {
        self.streams[slot].sent
    }

    /// The client shall see a failure.
    pub(super) fn abort(&mut self, slot: usize) {
        self.codec.reset(self.streams[slot].id, Code::Internal);
    }
}

/// Why there is nothing to read.
pub(super) enum Emptiness {
    /// It has not come yet.
    Coming,
    /// All was read, with these trailers behind it.
    Whole(Option<Trailers>),
    /// The client has gone.
    Broken,
}
