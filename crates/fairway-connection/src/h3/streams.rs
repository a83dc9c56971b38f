//! The streams of one client connection, by the codec's slots. The connection finds its exchanges by the same slots.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use fairway_http::Head;
use fairway_http3::{BodyRead, Code, Config, Server};
use fairway_net::wire::Workspace;
use quinn_proto::{Connection, StreamId};

use crate::outgoing::{Following, Frames, Outgoing};
use crate::sides::{Failure, RequestEnd};
use crate::trailers::Trailers;

/// Shared by a connection and its exchanges; each borrows it in turn.
pub type SharedStreams = Rc<RefCell<Streams>>;

/// Bytes an exchange may read for a stream that QUIC has no room for. They wait in the outbox: QUIC reports room only
/// after it refused a write.
const MAX_READ_AHEAD_BYTES: usize = 2 * 1024;

/// The streams of a connection.
pub struct Streams {
    /// The codec.
    pub codec: Server,
    /// The QUIC connection; the owner of the socket feeds it.
    pub quic: Box<Connection>,
    /// Whether the handshake is not complete.
    pub is_early_data: bool,
    workspace: Rc<Workspace>,
    streams: Vec<Stream>,
    /// The number of open streams.
    open_count: usize,
    /// Streams whose final response head was not sent.
    awaiting_response: usize,
    /// Whether the connection is over: the codec is not used any more.
    is_closed: bool,
}

/// The receiving direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveState {
    /// The body is in QUIC, or still to come.
    Receiving,
    /// The body was read completely.
    Complete,
    /// The client reset the stream or is gone, and accepts nothing either.
    Reset,
}

/// A stream, or an unused slot for one.
struct Stream {
    /// `None` if unused.
    id: Option<StreamId>,
    arrival: ReceiveState,
    outgoing: Outgoing,
}

impl Default for Stream {
    fn default() -> Self {
        Self { id: None, arrival: ReceiveState::Reset, outgoing: Outgoing::default() }
    }
}

/// The result of reading a request body.
pub(super) enum RequestBodyRead {
    /// The next bytes, at least one.
    Bytes(Bytes),
    /// Nothing yet.
    Blocked,
    /// The body is complete.
    End,
    /// The stream is over.
    Broken,
}

/// The frames of one stream, for [`Outgoing`].
pub(super) struct CodecFrames<'c> {
    id: StreamId,
    codec: &'c mut Server,
    quic: &'c mut Connection,
}

impl Frames for CodecFrames<'_> {
    fn send_data(&mut self, data: &[u8], end: bool) -> usize {
        let accepted = if data.is_empty() { 0 } else { self.codec.send_data(self.quic, self.id, data) };
        if end && accepted == data.len() {
            self.codec.finish(self.quic, self.id);
        }
        accepted
    }

    fn send_trailers(&mut self, trailers: &Trailers) {
        self.codec.send_trailers(self.quic, self.id, trailers.iter());
    }

    fn room(&self) -> usize {
        self.codec.room(self.id).max(MAX_READ_AHEAD_BYTES)
    }

    /// The codec reports the stream as writable after it accepted less than it was given.
    fn await_room(&mut self) {}
}

impl Streams {
    /// The streams of a new connection.
    pub fn new(config: Config, quic: Box<Connection>, workspace: &Rc<Workspace>) -> SharedStreams {
        Rc::new(RefCell::new(Self {
            codec: Server::new(config),
            quic,
            is_early_data: false,
            workspace: Rc::clone(workspace),
            streams: Vec::new(),
            open_count: 0,
            awaiting_response: 0,
            is_closed: false,
        }))
    }

    /// Opens a slot for a stream that the codec reported.
    pub fn open(&mut self, id: StreamId, end: bool) -> usize {
        let slot = self.codec.slot(id).expect("a stream that was reported has a slot until it is released");
        if self.streams.len() <= slot {
            // Grows by a quarter instead of doubling: an unused slot costs as much as a used one.
            if self.streams.capacity() <= slot {
                self.streams
                    .reserve_exact((slot + 1 - self.streams.len()).max(4).max(self.streams.len() / 4));
            }
            self.streams.resize_with(slot + 1, Stream::default);
        }
        self.awaiting_response += 1;
        self.open_count += 1;
        let stream = &mut self.streams[slot];
        stream.id = Some(id);
        stream.arrival = if end { ReceiveState::Complete } else { ReceiveState::Receiving };
        stream.outgoing.open();
        slot
    }

    /// The slot of an open stream.
    pub fn slot(&self, id: StreamId) -> Option<usize> {
        let slot = self.codec.slot(id)?;
        (self.streams.get(slot)?.id == Some(id)).then_some(slot)
    }

    /// The number of open streams.
    pub fn open_streams(&self) -> usize {
        self.open_count
    }

    /// The number of streams whose final response head was not sent.
    pub fn awaiting_response(&self) -> usize {
        self.awaiting_response
    }

    /// The client reset a stream.
    pub fn fail(&mut self, slot: usize) {
        self.streams[slot].arrival = ReceiveState::Reset;
    }

    /// The connection is over. Returns the slots of all open streams.
    pub fn fail_all(&mut self) -> impl Iterator<Item = usize> {
        self.is_closed = true;
        let open = self.streams.iter_mut().enumerate().filter(|(_, stream)| stream.id.is_some());
        open.map(|(slot, stream)| {
            stream.arrival = ReceiveState::Reset;
            slot
        })
    }

    /// Closes a stream whose exchange is over, and frees the slot.
    pub fn close(&mut self, slot: usize) -> RequestEnd {
        let Self { codec, quic, workspace, streams, is_closed: is_lost, .. } = self;
        let stream = &mut streams[slot];
        let departed = match (stream.outgoing.awaits_head(), stream.arrival) {
            (true, ReceiveState::Reset) => RequestEnd::Canceled,
            (true, _) => RequestEnd::Abandoned,
            (false, _) => RequestEnd::Responded,
        };
        if let Some(id) = stream.id.take() {
            self.open_count -= 1;
            if !*is_lost {
                codec.release(quic, id);
            }
        }
        stream.arrival = ReceiveState::Reset;
        stream.outgoing.close(workspace);
        self.awaiting_response -= usize::from(departed != RequestEnd::Responded);
        departed
    }

    /// Releases memory while no stream is open.
    pub fn release_memory(&mut self) {
        self.streams = Vec::new();
        self.codec.release_memory();
    }

    pub(super) fn is_broken(&self, slot: usize) -> bool {
        self.streams[slot].arrival == ReceiveState::Reset
    }

    pub(super) fn outgoing(&self, slot: usize) -> &Outgoing {
        &self.streams[slot].outgoing
    }

    /// Reads at most `most` bytes of a request body. Trailers after it are stored in `trailers`.
    pub(super) fn read_body(
        &mut self,
        slot: usize,
        most: usize,
        trailers: &mut Option<Trailers>,
    ) -> RequestBodyRead {
        let Self { codec, quic, streams, .. } = self;
        let stream = &mut streams[slot];
        let id = match (stream.arrival, stream.id) {
            (ReceiveState::Complete, _) => return RequestBodyRead::End,
            (ReceiveState::Reset, _) | (_, None) => return RequestBodyRead::Broken,
            (ReceiveState::Receiving, Some(id)) => id,
        };
        let mut head = Head::new();
        loop {
            return match codec.read_body(quic, id, most, &mut head) {
                BodyRead::Bytes(bytes) => RequestBodyRead::Bytes(bytes),
                BodyRead::Blocked => RequestBodyRead::Blocked,
                BodyRead::Trailers => {
                    *trailers = Some(Trailers::from_head(&head));
                    continue;
                }
                BodyRead::End => {
                    stream.arrival = ReceiveState::Complete;
                    RequestBodyRead::End
                }
                // The event that says why marks the stream.
                BodyRead::Broken => RequestBodyRead::Broken,
            };
        }
    }

    /// Sends an interim or final response head.
    pub(super) fn send_head(&mut self, slot: usize, head: &Head, follow: Following) {
        let Self { codec, quic, streams, is_closed: is_lost, awaiting_response: unanswered, .. } = self;
        let stream = &mut streams[slot];
        let Some(id) = stream.id.filter(|_| !*is_lost) else { return };
        let is_final = head.status() >= 200;
        let bytes = codec.send_head(quic, id, head, is_final && follow == Following::Body(Some(0)));
        if bytes > 0 && is_final {
            *unanswered -= usize::from(stream.outgoing.awaits_head());
            stream.outgoing.head_sent(bytes, follow);
        }
    }

    /// Switches both directions to tunnel mode.
    pub(super) fn open_tunnel(&mut self, slot: usize) {
        self.streams[slot].outgoing.open_tunnel();
    }

    /// Lets the outgoing message act on its frames.
    pub(super) fn with_stream<T>(
        &mut self,
        slot: usize,
        act: impl FnOnce(&mut Outgoing, &mut CodecFrames<'_>, &Workspace) -> T,
    ) -> Result<T, Failure> {
        let Self { codec, quic, workspace, streams, .. } = self;
        let Stream { id, arrival, outgoing } = &mut streams[slot];
        match id {
            Some(id) if *arrival != ReceiveState::Reset => {
                Ok(act(outgoing, &mut CodecFrames { id: *id, codec, quic }, workspace))
            }
            _ => Err(Failure::Closed),
        }
    }

    /// Resets the stream, so that the client sees a failure.
    pub(super) fn abort(&mut self, slot: usize) {
        if let Some(id) = self.streams[slot].id.filter(|_| !self.is_closed) {
            self.codec.reset(&mut self.quic, id, Code::Internal);
        }
    }
}
