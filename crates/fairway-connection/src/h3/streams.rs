//! The streams of one client's connection, by the codec's slots, by which the connection knows their exchanges, too.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use fairway_http::Head;
use fairway_http3::{Code, Config, Read, Server};
use fairway_net::wire::Workspace;
use quinn_proto::{Connection, StreamId};

use crate::outgoing::{Follow, Frames, Outgoing};
use crate::sides::{Departed, Failure};
use crate::trailers::Trailers;

/// What the exchanges of a connection and the connection itself act on, one after the other.
pub type SharedStreams = Rc<RefCell<Streams>>;

/// What an exchange may read for a stream without room in QUIC, in bytes. It waits in the outbox of the stream: QUIC says that a
/// stream has room only where it had to refuse something.
const READY: usize = 2 * 1024;

/// The streams of a connection.
pub struct Streams {
    /// What reads and writes its frames.
    pub codec: Server,
    /// What carries them; whoever owns the socket feeds it.
    pub quic: Box<Connection>,
    /// Whether its handshake is not complete.
    pub is_early: bool,
    workspace: Rc<Workspace>,
    streams: Vec<Stream>,
    /// How many of them there are now.
    open: usize,
    /// Those whose final heads are still to come.
    unanswered: usize,
    /// Whether the connection is over: the codec is not asked any more.
    is_lost: bool,
}

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// It is in QUIC, or still to come.
    Coming,
    /// All of it was read.
    Whole,
    /// The client has reset the stream, or is gone: it takes nothing either.
    Broken,
}

/// A stream, or room for one that is to come.
struct Stream {
    /// None where there is none.
    id: Option<StreamId>,
    arrival: Arrival,
    outgoing: Outgoing,
}

impl Default for Stream {
    fn default() -> Self {
        Self { id: None, arrival: Arrival::Broken, outgoing: Outgoing::default() }
    }
}

/// What there is of a request's body.
pub(super) enum Piece {
    /// Its next bytes; some.
    Bytes(Bytes),
    /// Nothing yet.
    Blocked,
    /// It is whole.
    End,
    /// Nothing any more.
    Broken,
}

/// A stream of the codec, as what leaves on it sees it.
pub(super) struct Frame<'c> {
    id: StreamId,
    codec: &'c mut Server,
    quic: &'c mut Connection,
}

impl Frames for Frame<'_> {
    fn send_data(&mut self, data: &[u8], end: bool) -> usize {
        let taken = if data.is_empty() { 0 } else { self.codec.send_data(self.quic, self.id, data) };
        if end && taken == data.len() {
            self.codec.finish(self.quic, self.id);
        }
        taken
    }

    fn send_trailers(&mut self, trailers: &Trailers) {
        self.codec.send_trailers(self.quic, self.id, trailers.iter());
    }

    fn room(&self) -> usize {
        self.codec.room(self.id).max(READY)
    }

    /// The codec reports the stream as writable once it has taken less than it was given.
    fn await_room(&mut self) {}
}

impl Streams {
    /// Of a connection that just began.
    pub fn begin(config: Config, quic: Box<Connection>, workspace: &Rc<Workspace>) -> SharedStreams {
        Rc::new(RefCell::new(Self {
            codec: Server::new(config),
            quic,
            is_early: false,
            workspace: Rc::clone(workspace),
            streams: Vec::new(),
            open: 0,
            unanswered: 0,
            is_lost: false,
        }))
    }

    /// The codec reported that a request began: gives its slot.
    pub fn open(&mut self, id: StreamId, end: bool) -> usize {
        let slot = self.codec.slot(id).expect("a stream that was reported has a slot until it is released");
        if self.streams.len() <= slot {
            // By a quarter, not to twice as many: each that is vacant costs as much as one that waits.
            if self.streams.capacity() <= slot {
                self.streams
                    .reserve_exact((slot + 1 - self.streams.len()).max(4).max(self.streams.len() / 4));
            }
            self.streams.resize_with(slot + 1, Stream::default);
        }
        self.unanswered += 1;
        self.open += 1;
        let stream = &mut self.streams[slot];
        stream.id = Some(id);
        stream.arrival = if end { Arrival::Whole } else { Arrival::Coming };
        stream.outgoing.begin();
        slot
    }

    /// The slot of a stream, while it has one.
    pub fn slot(&self, id: StreamId) -> Option<usize> {
        let slot = self.codec.slot(id)?;
        (self.streams.get(slot)?.id == Some(id)).then_some(slot)
    }

    /// How many streams have slots.
    pub fn open_streams(&self) -> usize {
        self.open
    }

    /// How many streams wait for their final heads.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// The client wants nothing of a stream any more.
    pub fn broke(&mut self, slot: usize) {
        self.streams[slot].arrival = Arrival::Broken;
    }

    /// The connection is over: gives the slots that have streams.
    pub fn lost(&mut self) -> impl Iterator<Item = usize> {
        self.is_lost = true;
        let open = self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.id.is_some());
        open.map(|(slot, stream)| {
            stream.arrival = Arrival::Broken;
            slot
        })
    }

    /// The exchange is over; its slot can have another stream.
    pub fn close(&mut self, slot: usize) -> Departed {
        let Self { codec, quic, workspace, streams, is_lost, .. } = self;
        let stream = &mut streams[slot];
        let departed = match (stream.outgoing.awaits_head(), stream.arrival) {
            (true, Arrival::Broken) => Departed::TakenBack,
            (true, _) => Departed::GivenUp,
            (false, _) => Departed::Answered,
        };
        if let Some(id) = stream.id.take() {
            self.open -= 1;
            if !*is_lost {
                codec.release(quic, id);
            }
        }
        stream.arrival = Arrival::Broken;
        stream.outgoing.close(workspace);
        self.unanswered -= usize::from(departed != Departed::Answered);
        departed
    }

    /// No stream is open: memory goes back.
    pub fn rest(&mut self) {
        self.streams = Vec::new();
        self.codec.rest();
    }

    pub(super) fn is_broken(&self, slot: usize) -> bool {
        self.streams[slot].arrival == Arrival::Broken
    }

    pub(super) fn outgoing(&self, slot: usize) -> &Outgoing {
        &self.streams[slot].outgoing
    }

    /// Reads the next piece of a request's body, `most` bytes at most. Trailers behind it are put into `trailers`.
    pub(super) fn read(&mut self, slot: usize, most: usize, trailers: &mut Option<Trailers>) -> Piece {
        let Self { codec, quic, streams, .. } = self;
        let stream = &mut streams[slot];
        let id = match (stream.arrival, stream.id) {
            (Arrival::Whole, _) => return Piece::End,
            (Arrival::Broken, _) | (_, None) => return Piece::Broken,
            (Arrival::Coming, Some(id)) => id,
        };
        let mut head = Head::new();
        loop {
            return match codec.read_body(quic, id, most, &mut head) {
                Read::Bytes(bytes) => Piece::Bytes(bytes),
                Read::Blocked => Piece::Blocked,
                Read::Trailers => {
                    *trailers = Some(Trailers::of(&head));
                    continue;
                }
                Read::End => {
                    stream.arrival = Arrival::Whole;
                    Piece::End
                }
                // The event that says why marks the stream.
                Read::Broken => Piece::Broken,
            };
        }
    }

    /// Sends an answer's head, interim or final.
    pub(super) fn send_head(&mut self, slot: usize, head: &Head, follow: Follow) {
        let Self { codec, quic, streams, is_lost, unanswered, .. } = self;
        let stream = &mut streams[slot];
        let Some(id) = stream.id.filter(|_| !*is_lost) else { return };
        let is_final = head.status() >= 200;
        let bytes = codec.send_head(quic, id, head, is_final && follow == Follow::Body(Some(0)));
        if bytes > 0 && is_final {
            *unanswered -= usize::from(stream.outgoing.awaits_head());
            stream.outgoing.head_left(bytes, follow);
        }
    }

    /// From now on both directions of a stream are those of a tunnel.
    pub(super) fn open_tunnel(&mut self, slot: usize) {
        self.streams[slot].outgoing.open_tunnel();
    }

    /// Lets what leaves on a stream act on its frames.
    pub(super) fn act<T>(
        &mut self,
        slot: usize,
        act: impl FnOnce(&mut Outgoing, &mut Frame<'_>, &Workspace) -> T,
    ) -> Result<T, Failure> {
        let Self { codec, quic, workspace, streams, .. } = self;
        let Stream { id, arrival, outgoing } = &mut streams[slot];
        match id {
            Some(id) if *arrival != Arrival::Broken => {
                Ok(act(outgoing, &mut Frame { id: *id, codec, quic }, workspace))
            }
            _ => Err(Failure::Closed),
        }
    }

    /// The client shall see a failure.
    pub(super) fn abort(&mut self, slot: usize) {
        if let Some(id) = self.streams[slot].id.filter(|_| !self.is_lost) {
            self.codec.reset(&mut self.quic, id, Code::Internal);
        }
    }
}
