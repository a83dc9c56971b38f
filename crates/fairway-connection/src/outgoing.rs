//! The outgoing message of one HTTP/2 or HTTP/3 stream, as far as it has no room in frames. Knows the order, length and
//! end of a message, but neither the receiving direction nor the frame format.

use fairway_http::{BodySize, Version};
use fairway_net::wire::{Backlog, Workspace};

use crate::sides::Failure;
use crate::trailers::Trailers;

/// How much of the message was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    /// The head is still to be sent.
    Head,
    /// The body. If its length is known, its last byte ends the stream.
    Body,
    /// The body, which trailers may follow.
    Trailed,
    /// The exchange has finished; the outbox holds the end.
    Closing,
    /// All of it is in frames.
    Ended,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Following {
    /// A body, with its length if known.
    Body(Option<u64>),
    /// A body of this length, and perhaps trailers.
    Trailed(u64),
    /// Nothing until both sides agree on a tunnel.
    Tunnel,
}

/// What follows the head of a message received in version `from`, or made by Fairway. HTTP/1 allows nothing after a
/// body of known length (RFC 9112 §6.3); HTTP/2 and HTTP/3 allow trailers (RFC 9113 §8.1, RFC 9114 §4.1).
pub(crate) fn following(body: BodySize, from: Version) -> Following {
    match body {
        BodySize::None => Following::Body(Some(0)),
        BodySize::Exact(length) if from.has_streams() => Following::Trailed(length),
        BodySize::Exact(length) => Following::Body(Some(length)),
        BodySize::Unknown => Following::Body(None),
    }
}

/// Puts one stream into a codec's frames.
pub(crate) trait Frames {
    /// Puts data into frames as far as there is room. Returns the number of bytes. With `end`, the stream ends after
    /// all of `data`, which may be empty.
    fn send_data(&mut self, data: &[u8], end: bool) -> usize;

    /// Ends the stream with trailers.
    fn send_trailers(&mut self, trailers: &Trailers);

    /// Body bytes that fit now.
    fn room(&self) -> usize;

    /// Makes the stream wait for room.
    fn await_room(&mut self);
}

/// The outgoing message of a stream, or an unused slot for one.
pub(crate) struct Outgoing {
    state: SendState,
    outbox: Backlog,
    /// Sent after the outbox.
    trailers: Trailers,
    /// Body bytes still expected from the exchange, if the head said how many.
    body_left: Option<u64>,
    /// Bytes of heads and bodies in frames.
    pub(crate) sent: u64,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            state: SendState::Ended,
            outbox: Backlog::default(),
            trailers: Trailers::default(),
            body_left: None,
            sent: 0,
        }
    }
}

impl Outgoing {
    /// Starts a message.
    pub(crate) fn open(&mut self) {
        (self.state, self.body_left, self.sent) = (SendState::Head, None, 0);
    }

    /// Records that a head was sent in `bytes` bytes of frames.
    pub(crate) fn head_sent(&mut self, bytes: usize, follow: Following) {
        self.sent += bytes as u64;
        (self.body_left, self.state) = match follow {
            Following::Body(Some(0)) | Following::Tunnel => (Some(0), SendState::Ended),
            Following::Body(length) => (length, SendState::Body),
            Following::Trailed(length) => (Some(length), SendState::Trailed),
        };
    }

    /// Switches to tunnel mode: bytes are sent until [`Self::finish`].
    pub(crate) fn open_tunnel(&mut self) {
        (self.body_left, self.state) = (None, SendState::Body);
    }

    /// Whether the head was not sent yet.
    pub(crate) fn awaits_head(&self) -> bool {
        self.state == SendState::Head
    }

    /// Whether all of it is in frames.
    pub(crate) fn has_ended(&self) -> bool {
        self.state == SendState::Ended
    }

    /// Bytes that have no room in frames.
    pub(crate) fn queued(&self) -> usize {
        self.outbox.pending().len()
    }

    /// Whether more body data is expected from the exchange. The end of a body needs no room.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self.state, SendState::Body | SendState::Trailed) && self.body_left != Some(0)
    }

    /// Sends body data, or queues it.
    pub(crate) fn send_data(
        &mut self,
        data: &[u8],
        frames: &mut impl Frames,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        if !matches!(self.state, SendState::Body | SendState::Trailed) {
            return if data.is_empty() { Ok(()) } else { Err(Failure::Refused) };
        }
        let end = self.state == SendState::Body && self.body_left == Some(data.len() as u64);
        self.body_left = match self.body_left.map(|left| left.checked_sub(data.len() as u64)) {
            Some(None) => return Err(Failure::Refused),
            left => left.flatten(),
        };
        if !self.outbox.is_empty() {
            self.outbox.extend(data, workspace);
            return Ok(());
        }
        let accepted = frames.send_data(data, end);
        self.sent += accepted as u64;
        if accepted == data.len() && end {
            self.state = SendState::Ended;
        }
        self.outbox.extend(&data[accepted..], workspace);
        Ok(())
    }

    /// Ends the body.
    pub(crate) fn finish<'a>(
        &mut self,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        frames: &mut impl Frames,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        match self.state {
            SendState::Ended | SendState::Closing => Ok(()),
            SendState::Head => Err(Failure::Closed),
            // The body is shorter than announced: the peer must not take it for complete.
            _ if self.body_left.is_some_and(|left| left > 0) => Err(Failure::Closed),
            SendState::Body | SendState::Trailed => {
                self.state = SendState::Closing;
                self.trailers = Trailers::collect(trailers);
                self.push(frames, workspace);
                Ok(())
            }
        }
    }

    /// Moves queued data into frames as far as there is room. Returns whether nothing is queued any more.
    pub(crate) fn push(&mut self, frames: &mut impl Frames, workspace: &Workspace) -> bool {
        let is_closing = self.state == SendState::Closing;
        let is_last = match self.state {
            SendState::Closing => self.trailers.is_empty(),
            SendState::Body => self.body_left == Some(0),
            SendState::Head | SendState::Trailed | SendState::Ended => false,
        };
        if !self.outbox.is_empty() || (is_last && is_closing) {
            let pending = self.outbox.pending();
            let all = pending.len();
            let accepted = frames.send_data(pending, is_last);
            self.sent += accepted as u64;
            self.outbox.consume(accepted);
            if accepted < all {
                frames.await_room();
                return false;
            }
            self.outbox.release(workspace);
        }
        if is_last {
            self.state = SendState::Ended;
        } else if is_closing {
            frames.send_trailers(&self.trailers);
            self.state = SendState::Ended;
        }
        true
    }

    /// How many body bytes can be sent. Without room, the stream waits for it.
    pub(crate) fn room(&mut self, frames: &mut impl Frames, workspace: &Workspace) -> Option<usize> {
        if !self.push(frames, workspace) {
            return None;
        }
        let room = frames.room();
        if room == 0 && self.has_more() {
            frames.await_room();
            return None;
        }
        Some(room.max(1))
    }

    /// Drops what was not sent.
    pub(crate) fn close(&mut self, workspace: &Workspace) {
        (self.state, self.sent) = (SendState::Ended, 0);
        self.outbox.consume(self.outbox.pending().len());
        self.outbox.release(workspace);
        self.trailers = Trailers::default();
    }
}
