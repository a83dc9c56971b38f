//! What leaves on one stream of HTTP/2 or HTTP/3, and has no room in frames yet. Knows the order of a message, its length and
//! its end; never what comes, nor how a frame looks.

use fairway_http::{BodySize, Version};
use fairway_net::wire::{Backlog, Workspace};

use crate::sides::Failure;
use crate::trailers::Trailers;

/// How far a message has left.
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
pub(crate) enum Follow {
    /// A body; with its length, where that is known.
    Body(Option<u64>),
    /// A body of this length, and perhaps trailers.
    Trailed(u64),
    /// Nothing before both sides agreed on a tunnel.
    Tunnel,
}

/// What follows the head of a message that came in this version, or is Fairway's own. In HTTP/1 nothing follows a body whose
/// length the head says (RFC 9112 §6.3); in HTTP/2 and HTTP/3 trailers may (RFC 9113 §8.1, RFC 9114 §4.1).
pub(crate) fn follow(body: BodySize, from: Version) -> Follow {
    match body {
        BodySize::None => Follow::Body(Some(0)),
        BodySize::Exact(length) if from.has_streams() => Follow::Trailed(length),
        BodySize::Exact(length) => Follow::Body(Some(length)),
        BodySize::Unknown => Follow::Body(None),
    }
}

/// The end of a codec that puts one stream into frames.
pub(crate) trait Frames {
    /// Puts data into frames, as far as there is room; gives how many bytes that were. `end` says that the stream ends behind all
    /// of `data`, which may be empty then.
    fn send_data(&mut self, data: &[u8], end: bool) -> usize;

    /// Ends the stream with trailers.
    fn send_trailers(&mut self, trailers: &Trailers);

    /// Bytes of a body that there is room for.
    fn room(&self) -> usize;

    /// From now on the stream waits for room.
    fn await_room(&mut self);
}

/// What leaves on a stream, or room for one that is to come.
pub(crate) struct Outgoing {
    departure: Departure,
    outbox: Backlog,
    /// They follow what is in the outbox.
    trailers: Trailers,
    /// Bytes of the body that are still to be given to us, where its head said how many.
    left: Option<u64>,
    /// Bytes of bodies and heads in frames.
    pub(crate) sent: u64,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            departure: Departure::Ended,
            outbox: Backlog::default(),
            trailers: Trailers::default(),
            left: None,
            sent: 0,
        }
    }
}

impl Outgoing {
    /// A message is to leave.
    pub(crate) fn begin(&mut self) {
        (self.departure, self.left, self.sent) = (Departure::Head, None, 0);
    }

    /// A head was put into `bytes` bytes of frames.
    pub(crate) fn head_left(&mut self, bytes: usize, follow: Follow) {
        self.sent += bytes as u64;
        (self.left, self.departure) = match follow {
            Follow::Body(Some(0)) | Follow::Tunnel => (Some(0), Departure::Ended),
            Follow::Body(length) => (length, Departure::Body),
            Follow::Trailed(length) => (Some(length), Departure::Trailed),
        };
    }

    /// From now on bytes of a tunnel leave, until somebody ends them.
    pub(crate) fn open_tunnel(&mut self) {
        (self.left, self.departure) = (None, Departure::Body);
    }

    /// Whether its head is still to come.
    pub(crate) fn awaits_head(&self) -> bool {
        self.departure == Departure::Head
    }

    /// Whether all of it is in frames.
    pub(crate) fn has_ended(&self) -> bool {
        self.departure == Departure::Ended
    }

    /// Bytes that have no room in frames.
    pub(crate) fn queued(&self) -> usize {
        self.outbox.pending().len()
    }

    /// Whether bytes of a body are still to be given to us. Its end needs no room.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self.departure, Departure::Body | Departure::Trailed) && self.left != Some(0)
    }

    /// Takes a piece of a body.
    pub(crate) fn send_data(
        &mut self,
        data: &[u8],
        frames: &mut impl Frames,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        if !matches!(self.departure, Departure::Body | Departure::Trailed) {
            return if data.is_empty() { Ok(()) } else { Err(Failure::Refused) };
        }
        let end = self.departure == Departure::Body && self.left == Some(data.len() as u64);
        self.left = match self.left.map(|left| left.checked_sub(data.len() as u64)) {
            Some(None) => return Err(Failure::Refused),
            left => left.flatten(),
        };
        if !self.outbox.is_empty() {
            self.outbox.extend(data, workspace);
            return Ok(());
        }
        let taken = frames.send_data(data, end);
        self.sent += taken as u64;
        if taken == data.len() && end {
            self.departure = Departure::Ended;
        }
        self.outbox.extend(&data[taken..], workspace);
        Ok(())
    }

    /// Ends a body.
    pub(crate) fn finish<'a>(
        &mut self,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        frames: &mut impl Frames,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        match self.departure {
            Departure::Ended | Departure::Closing => Ok(()),
            Departure::Head => Err(Failure::Closed),
            // Less came than was announced: the peer must not take it for the whole.
            _ if self.left.is_some_and(|left| left > 0) => Err(Failure::Closed),
            Departure::Body | Departure::Trailed => {
                self.departure = Departure::Closing;
                self.trailers = Trailers::collect(trailers);
                self.push(frames, workspace);
                Ok(())
            }
        }
    }

    /// Moves what waits into frames, as far as there is room; says whether nothing waits any more.
    pub(crate) fn push(&mut self, frames: &mut impl Frames, workspace: &Workspace) -> bool {
        let is_closing = self.departure == Departure::Closing;
        let is_last = match self.departure {
            Departure::Closing => self.trailers.is_empty(),
            Departure::Body => self.left == Some(0),
            Departure::Head | Departure::Trailed | Departure::Ended => false,
        };
        if !self.outbox.is_empty() || (is_last && is_closing) {
            let pending = self.outbox.pending();
            let all = pending.len();
            let taken = frames.send_data(pending, is_last);
            self.sent += taken as u64;
            self.outbox.consume(taken);
            if taken < all {
                frames.await_room();
                return false;
            }
            self.outbox.release(workspace);
        }
        if is_last {
            self.departure = Departure::Ended;
        } else if is_closing {
            frames.send_trailers(&self.trailers);
            self.departure = Departure::Ended;
        }
        true
    }

    /// How many bytes of a body there is room for. Where there is none, the stream waits for it.
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

    /// Nothing of it leaves any more.
    pub(crate) fn close(&mut self, workspace: &Workspace) {
        (self.departure, self.sent) = (Departure::Ended, 0);
        self.outbox.consume(self.outbox.pending().len());
        self.outbox.release(workspace);
        self.trailers = Trailers::default();
    }
}
