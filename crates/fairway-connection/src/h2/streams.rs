//! The streams of one client connection, by the codec's slots. The connection finds its exchanges by the same slots.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http::Head;
use fairway_http2::{Config, SendTurn, Server, ServerRole};
use fairway_net::wire::Workspace;

use super::stream::{CodecTime, Following, ReceiveState, Stream, StreamContext};
use crate::sides::{Failure, RequestEnd};

/// Shared by a connection and its exchanges; each borrows it in turn.
pub type SharedStreams = Rc<RefCell<Streams>>;

/// The minimum a stream may send in one turn, if windows allow: each turn is a read from an endpoint.
const MIN_TURN_BYTES: usize = 32 * 1024;

/// The streams of a connection.
pub struct Streams {
    /// The codec; the owner of the socket feeds it.
    pub codec: Server,
    pub(super) peer: Option<IpAddr>,
    workspace: Rc<Workspace>,
    /// The codec's time, in microseconds.
    pub now: u64,
    streams: Vec<Stream>,
    /// Whose turn it is to send; `None` until a stream had to wait.
    write_turns: Option<Box<WriteTurns>>,
    /// Streams whose final response head was not sent.
    awaiting_response: usize,
}

/// The turns granted since the last round.
#[derive(Default)]
struct WriteTurns {
    granted: Vec<GrantedTurn>,
    /// Whether streams without a turn are waiting.
    is_crowded: bool,
}

/// A stream with a turn.
struct GrantedTurn {
    slot: usize,
    /// Bytes it may still send.
    bytes: usize,
}

impl Streams {
    /// The streams of a new connection; `now` is in microseconds.
    pub fn new(config: Config, now: u64, peer: Option<IpAddr>, workspace: &Rc<Workspace>) -> SharedStreams {
        let codec = Server::new(config, now);
        let (workspace, streams) = (Rc::clone(workspace), Vec::new());
        let streams = Self { codec, peer, workspace, now, streams, write_turns: None, awaiting_response: 0 };
        Rc::new(RefCell::new(streams))
    }

    /// Opens a slot for a stream that the codec reported.
    pub fn open(&mut self, id: u32, end: bool) -> usize {
        let slot = self.slot(id).expect("a stream that was reported has a slot until it is closed");
        if self.streams.len() <= slot {
            // Grows by a quarter instead of doubling: an unused slot costs as much as a used one.
            if self.streams.capacity() <= slot {
                self.streams
                    .reserve_exact((slot + 1 - self.streams.len()).max(4).max(self.streams.len() / 4));
            }
            self.streams.resize_with(slot + 1, Stream::default);
        }
        self.awaiting_response += 1;
        self.streams[slot].open(id, if end { ReceiveState::Complete } else { ReceiveState::Receiving });
        slot
    }

    /// The slot of an open stream.
    #[inline]
    pub fn slot(&self, id: u32) -> Option<usize> {
        self.codec.slot(id)
    }

    /// The number of open streams.
    pub fn open_streams(&self) -> usize {
        self.codec.open_streams()
    }

    /// Queues received body data.
    pub fn receive(&mut self, slot: usize, bytes: &[u8], end: bool) {
        self.streams[slot].receive(bytes, end, &self.workspace);
    }

    /// Queues the trailers that end a request.
    pub fn receive_trailers(&mut self, slot: usize, head: &Head) {
        self.streams[slot].receive_trailers(head);
    }

    /// The client reset a stream.
    pub fn fail(&mut self, slot: usize) {
        self.streams[slot].arrival = ReceiveState::Reset;
    }

    /// The client is gone. Returns the slots of all open streams.
    pub fn fail_all(&mut self) -> impl Iterator<Item = usize> {
        let open = self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.id != 0);
        open.map(|(slot, stream)| {
            stream.arrival = ReceiveState::Reset;
            slot
        })
    }

    /// The number of streams whose final response head was not sent.
    pub fn awaiting_response(&self) -> usize {
        self.awaiting_response
    }

    /// Closes a stream whose exchange is over, and frees the slot.
    pub fn close(&mut self, slot: usize) -> RequestEnd {
        let (stream, mut tools) = self.get_mut(slot);
        let departed = stream.request_end();
        if stream.arrival != ReceiveState::Reset {
            tools.codec.linger(tools.now.micros(), stream.id);
        }
        stream.close(&mut tools);
        self.awaiting_response -= usize::from(departed != RequestEnd::Responded);
        departed
    }

    /// Calls `ring` with the slots of streams that can send now, in order of priority, as far as there is room. Call it
    /// before polling exchanges, and again as long as one of them was polled: a stream may have nothing to send in its
    /// turn.
    pub fn grant_turns(&mut self, mut ring: impl FnMut(usize)) {
        if let Some(turns) = &mut self.write_turns {
            turns.granted.clear();
            turns.is_crowded = false;
        }
        let mut budget = usize::MAX;
        while budget > 0
            && let Some(turn) = self.codec.next_turn(self.now)
        {
            budget = budget.min(turn.room);
            budget -= self.grant(turn, budget);
        }
        let Self { codec, streams, write_turns: turns, .. } = self;
        for granted in turns.iter().flat_map(|turns| &turns.granted) {
            // Its exchange sends now, or waits for the endpoint and asks again.
            codec.unqueue(streams[granted.slot].id);
            ring(granted.slot);
        }
    }

    /// Grants a stream up to `limit` bytes of its turn. Returns the number of bytes.
    fn grant(&mut self, turn: SendTurn, limit: usize) -> usize {
        let (room, slot) = (self.codec.room(turn.stream), self.slot(turn.stream));
        let turns = self.write_turns.get_or_insert_default();
        turns.is_crowded = !turn.is_alone;
        let Some(slot) = slot.filter(|slot| *slot < self.streams.len()) else {
            self.codec.unqueue(turn.stream);
            return 0;
        };
        let at = turns.granted.iter().position(|granted| granted.slot == slot).unwrap_or_else(|| {
            turns.granted.push(GrantedTurn { slot, bytes: 0 });
            turns.granted.len() - 1
        });
        let granted = &mut turns.granted[at];
        let bytes = turn.bytes.max(MIN_TURN_BYTES).min(room.saturating_sub(granted.bytes)).min(limit);
        granted.bytes += bytes;
        if granted.bytes >= room {
            self.codec.unqueue(turn.stream);
        }
        bytes
    }

    /// How many body bytes a stream may send now: all that fits, unless other streams wait.
    pub(super) fn room(&mut self, slot: usize) -> Result<Option<usize>, Failure> {
        let turns = self.write_turns.as_deref();
        let is_shared =
            turns.is_some_and(|it| it.is_crowded || it.granted.iter().any(|granted| granted.slot != slot));
        let own_grant = turns.and_then(|it| it.granted.iter().find(|granted| granted.slot == slot));
        let granted = own_grant.map_or(0, |own| own.bytes);
        let (stream, mut tools) = self.get_mut(slot);
        let Some(room) = stream.room(&mut tools)? else { return Ok(None) };
        if !is_shared || !stream.has_more() {
            return Ok(Some(room));
        }
        if granted == 0 {
            stream.await_room(&mut tools);
            return Ok(None);
        }
        Ok(Some(room.min(granted)))
    }

    /// Sends body data, or queues it.
    pub(super) fn send_data(&mut self, slot: usize, data: &[u8]) -> Result<(), Failure> {
        let granted = self.write_turns.iter_mut().flat_map(|turns| &mut turns.granted);
        if let Some(granted) = granted.into_iter().find(|granted| granted.slot == slot) {
            granted.bytes = granted.bytes.saturating_sub(data.len());
        }
        let (stream, mut tools) = self.get_mut(slot);
        stream.send_data(data, &mut tools)
    }

    /// Acquires an output buffer: an idle connection owns none.
    pub fn acquire_buffers(&mut self) {
        if let Some(memory) = self.codec.outbox_memory() {
            self.workspace.lend(memory);
        }
    }

    /// Returns the output buffer to the worker.
    pub fn release_buffers(&mut self) {
        if let Some(memory) = self.codec.outbox_memory() {
            self.workspace.take_back(memory);
        }
    }

    /// Releases memory while no stream is open.
    pub fn release_memory(&mut self) {
        (self.streams, self.write_turns) = (Vec::new(), None);
        self.codec.release_memory();
    }

    /// A stream and its context.
    pub(super) fn get_mut(&mut self, slot: usize) -> (&mut Stream, StreamContext<'_, ServerRole>) {
        let Self { codec, workspace, now, streams, .. } = self;
        (&mut streams[slot], StreamContext { codec, workspace, now: CodecTime::Micros(*now) })
    }

    pub(super) fn stream(&self, slot: usize) -> &Stream {
        &self.streams[slot]
    }

    /// Sends an interim or final response head.
    pub(super) fn send_head(&mut self, slot: usize, head: &Head, follow: Following) {
        let (stream, StreamContext { codec, .. }) = self.get_mut(slot);
        let is_final = head.status() >= 200;
        let is_first = is_final && stream.request_end() != RequestEnd::Responded;
        let before = codec.pending().len();
        if codec.send_head(stream.id, head, is_final && follow == Following::Body(Some(0))) && is_final {
            stream.head_sent(codec.pending().len() - before, follow);
            self.awaiting_response -= usize::from(is_first);
        }
    }
}
