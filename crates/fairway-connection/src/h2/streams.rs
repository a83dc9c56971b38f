//! The streams of one client's connection, by the codec's slots, by which the connection knows their exchanges, too.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http::Head;
use fairway_http2::{Answers, Config, Server, Turn};
use fairway_net::wire::Workspace;

use super::stream::{Arrival, Follow, Stream, Time, Tools};
use crate::sides::{Departed, Failure};

/// What the exchanges of a connection and the connection itself act on, one after the other.
pub type SharedStreams = Rc<RefCell<Streams>>;

/// What a stream has in a turn at least, where it may send so much: each turn is a read from an endpoint.
const PIECE: usize = 32 * 1024;

/// The streams of a connection.
pub struct Streams {
    /// What reads and writes its frames; whoever owns the socket feeds it.
    pub codec: Server,
    pub(super) peer: Option<IpAddr>,
    workspace: Rc<Workspace>,
    /// Of the codec, in microseconds.
    pub now: u64,
    streams: Vec<Stream>,
    /// Whose turn it is; nothing until a stream had to wait for room.
    turns: Option<Box<Turns>>,
    /// Those whose final heads are still to come.
    unanswered: usize,
}

/// Whose turn it is, since that was last asked.
#[derive(Default)]
struct Turns {
    granted: Vec<Granted>,
    /// Whether streams wait for room that have no turn.
    is_crowded: bool,
}

/// A stream that has its turn.
struct Granted {
    slot: usize,
    /// What it may still send.
    bytes: usize,
}

impl Streams {
    /// Of a connection that just began, at `now` in microseconds.
    pub fn begin(config: Config, now: u64, peer: Option<IpAddr>, workspace: &Rc<Workspace>) -> SharedStreams {
        let codec = Server::new(config, now);
        let (workspace, streams) = (Rc::clone(workspace), Vec::new());
        let streams = Self { codec, peer, workspace, now, streams, turns: None, unanswered: 0 };
        Rc::new(RefCell::new(streams))
    }

    /// The codec reported that a stream began: gives its slot.
    pub fn open(&mut self, id: u32, end: bool) -> usize {
        let slot = self.slot(id).expect("a stream that was reported has a slot until it is closed");
        if self.streams.len() <= slot {
            // By a quarter, not to twice as many: each that is vacant costs as much as one that waits.
            if self.streams.capacity() <= slot {
                self.streams
                    .reserve_exact((slot + 1 - self.streams.len()).max(4).max(self.streams.len() / 4));
            }
            self.streams.resize_with(slot + 1, Stream::default);
        }
        self.unanswered += 1;
        self.streams[slot].begin(id, if end { Arrival::Whole } else { Arrival::Coming });
        slot
    }

    /// The slot of a stream, while it has one.
    #[inline]
    pub fn slot(&self, id: u32) -> Option<usize> {
        self.codec.slot(id)
    }

    /// How many streams have slots.
    pub fn open_streams(&self) -> usize {
        self.codec.open_streams()
    }

    /// A piece of a body came.
    pub fn came(&mut self, slot: usize, bytes: &[u8], end: bool) {
        self.streams[slot].came(bytes, end, &self.workspace);
    }

    /// Trailers ended a request.
    pub fn trailers_came(&mut self, slot: usize, head: &Head) {
        self.streams[slot].trailers_came(head);
    }

    /// The client wants nothing of a stream any more.
    pub fn broke(&mut self, slot: usize) {
        self.streams[slot].arrival = Arrival::Broken;
    }

    /// The client has gone; gives the slots that have streams.
    pub fn all_broke(&mut self) -> impl Iterator<Item = usize> {
        let open = self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.id != 0);
        open.map(|(slot, stream)| {
            stream.arrival = Arrival::Broken;
            slot
        })
    }

    /// How many streams wait for their final heads.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// The exchange is over; its slot can have another stream.
    pub fn close(&mut self, slot: usize) -> Departed {
        let (stream, mut tools) = self.at(slot);
        let departed = stream.departed();
        if stream.arrival != Arrival::Broken {
            tools.codec.linger(tools.now.micros(), stream.id);
        }
        stream.close(&mut tools);
        self.unanswered -= usize::from(departed != Departed::Answered);
        departed
    }

    /// Hands the slots of streams to `ring` whose exchanges waited for room and have it now, in the order of their priority
    /// and as far as the room reaches. To be called before exchanges are polled, as long as one was: whoever has its turn may
    /// have nothing to send.
    pub fn take_turns(&mut self, mut ring: impl FnMut(usize)) {
        if let Some(turns) = &mut self.turns {
            turns.granted.clear();
            turns.is_crowded = false;
        }
        let mut left = usize::MAX;
        while left > 0
            && let Some(turn) = self.codec.next_to_send(self.now)
        {
            left = left.min(turn.room);
            left -= self.grant(turn, left);
        }
        let Self { codec, streams, turns, .. } = self;
        for granted in turns.iter().flat_map(|turns| &turns.granted) {
            // Its exchange sends now, or waits for the endpoint; then it asks again.
            codec.send_no_more(streams[granted.slot].id);
            ring(granted.slot);
        }
    }

    /// Adds a turn to what its stream may send, `most` at most; gives how much that is.
    fn grant(&mut self, turn: Turn, most: usize) -> usize {
        let (room, slot) = (self.codec.room(turn.stream), self.slot(turn.stream));
        let turns = self.turns.get_or_insert_default();
        turns.is_crowded = !turn.is_alone;
        let Some(slot) = slot.filter(|slot| *slot < self.streams.len()) else {
            self.codec.send_no_more(turn.stream);
            return 0;
        };
        let at = turns.granted.iter().position(|granted| granted.slot == slot).unwrap_or_else(|| {
            turns.granted.push(Granted { slot, bytes: 0 });
            turns.granted.len() - 1
        });
        let granted = &mut turns.granted[at];
        let bytes = turn.bytes.max(PIECE).min(room.saturating_sub(granted.bytes)).min(most);
        granted.bytes += bytes;
        if granted.bytes >= room {
            self.codec.send_no_more(turn.stream);
        }
        bytes
    }

    /// How many bytes of its body a stream may send now: all that there is room for, unless others wait for room as well.
    pub(super) fn room(&mut self, slot: usize) -> Result<Option<usize>, Failure> {
        let turns = self.turns.as_deref();
        let is_shared =
            turns.is_some_and(|it| it.is_crowded || it.granted.iter().any(|granted| granted.slot != slot));
        let own = turns.and_then(|it| it.granted.iter().find(|granted| granted.slot == slot));
        let granted = own.map_or(0, |own| own.bytes);
        let (stream, mut tools) = self.at(slot);
        let Some(room) = stream.room(&mut tools)? else { return Ok(None) };
        if !is_shared || !stream.has_more() {
            return Ok(Some(room));
        }
        if granted == 0 {
            stream.await_turn(&mut tools);
            return Ok(None);
        }
        Ok(Some(room.min(granted)))
    }

    /// Takes a piece of a body.
    pub(super) fn send_data(&mut self, slot: usize, data: &[u8]) -> Result<(), Failure> {
        let granted = self.turns.iter_mut().flat_map(|turns| &mut turns.granted);
        if let Some(granted) = granted.into_iter().find(|granted| granted.slot == slot) {
            granted.bytes = granted.bytes.saturating_sub(data.len());
        }
        let (stream, mut tools) = self.at(slot);
        stream.send_data(data, &mut tools)
    }

    /// Memory for what is to be written: the connection has none while it waits.
    pub fn lend_memory(&mut self) {
        if let Some(memory) = self.codec.outbox_memory() {
            self.workspace.lend(memory);
        }
    }

    /// Nothing is to be written for now.
    pub fn give_memory_back(&mut self) {
        if let Some(memory) = self.codec.outbox_memory() {
            self.workspace.take_back(memory);
        }
    }

    /// No stream is open: memory goes back.
    pub fn rest(&mut self) {
        (self.streams, self.turns) = (Vec::new(), None);
        self.codec.rest();
    }

    /// A stream, with what it acts with.
    pub(super) fn at(&mut self, slot: usize) -> (&mut Stream, Tools<'_, Answers>) {
        let Self { codec, workspace, now, streams, .. } = self;
        (&mut streams[slot], Tools { codec, workspace, now: Time::Is(*now) })
    }

    pub(super) fn stream(&self, slot: usize) -> &Stream {
        &self.streams[slot]
    }

    /// Sends an answer's head, interim or final.
    pub(super) fn send_head(&mut self, slot: usize, head: &Head, follow: Follow) {
        let (stream, Tools { codec, .. }) = self.at(slot);
        let is_final = head.status() >= 200;
        let is_first = is_final && stream.departed() != Departed::Answered;
        let before = codec.pending().len();
        if codec.send_head(stream.id, head, is_final && follow == Follow::Body(Some(0))) && is_final {
            stream.head_left(codec.pending().len() - before, follow);
            self.unanswered -= usize::from(is_first);
        }
    }
}
