//! The request body across all attempts: what is buffered for another attempt, and how much may arrive.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Downstream, Failure, Upstream};
use fairway_http::BodySize;
use fairway_net::pace::MinimumRate;
use fairway_net::yielding::go_on_later;

use super::copy::CopyWriter;
use super::fields;
use crate::body_steps::BodySteps;
use crate::buffering::{Disk, EXTENT_BYTES, Full, Store};
use crate::fault::Fault;
use crate::request::client::Trust;

/// Pieces of a body that are moved before other exchanges run. A piece is what one read returns: in chunks of one byte that is
/// expensive, and a client can always have the next one ready.
const MAX_PIECES_PER_TURN: usize = 2;

/// The request body.
pub(crate) struct RequestBody {
    received: u64,
    read_state: ReadState,
    sending: Sending,
    replay_state: ReplayState,
    /// Whether the client got `100 Continue`, or does not wait for it.
    is_continue_sent: bool,
    /// As in [`BodyBounds`].
    max_bytes: Option<u64>,
    max_replay_bytes: usize,
    pace: MinimumRate,
    /// The value of `received` at the last check of the pace.
    paced: u64,
    /// The trust in the client's trailers; `None` if no trailers are forwarded.
    trust: Option<Trust>,
    /// Steps that run before it is buffered and sent, if a rule or its protocol needs them.
    steps: Option<Box<BodySteps>>,
    /// Copies and the store, boxed because every waiting exchange has room for this field.
    side: Option<Box<SideBuffers>>,
}

/// Where a body goes in addition to its endpoint, or before it.
#[derive(Default)]
struct SideBuffers {
    /// Copies for mirrors.
    copies: Vec<CopyWriter>,
    /// The store that buffers the whole body before it is sent, if a rule asks for that.
    store: Option<Store>,
}

/// The limits of a body.
#[derive(Clone, Copy, Default)]
pub(crate) struct BodyBounds {
    /// Total bytes.
    pub(crate) max_bytes: Option<u64>,
    /// Bytes buffered for another attempt.
    pub(crate) max_replay_bytes: usize,
    /// Minimum rate in bytes per second.
    pub(crate) rate: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Reading,
    Complete,
}

/// How much of the body this attempt has sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Flowing,
    /// The endpoint has no room now.
    Blocked,
    Finished,
    Sent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplayState {
    All,
    Lost,
}

impl ReplayState {
    /// Keeps sent data while there is room for all of it.
    fn keep_if_fits(&mut self, data: &[u8], replay: &mut Vec<u8>, max_replay_bytes: usize) {
        if *self == Self::Lost {
            return;
        }
        if replay.len() + data.len() <= max_replay_bytes {
            replay.extend_from_slice(data);
        } else {
            *self = Self::Lost;
            replay.clear();
        }
    }
}

/// Why the body cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// The client's side failed.
    Downstream(Fault),
    /// The endpoint does not read it; it may still have responded.
    Upstream,
}

impl Default for RequestBody {
    /// A body without bounds of its own.
    fn default() -> Self {
        Self::new(BodyBounds::default(), Trust::Untrusted)
    }
}

impl RequestBody {
    /// A body of which nothing was read yet.
    pub(crate) fn new(bounds: BodyBounds, trust: Trust) -> Self {
        Self {
            received: 0,
            read_state: ReadState::Reading,
            sending: Sending::Flowing,
            replay_state: ReplayState::All,
            is_continue_sent: false,
            max_bytes: bounds.max_bytes,
            max_replay_bytes: bounds.max_replay_bytes,
            pace: MinimumRate::new(bounds.rate),
            paced: 0,
            trust: Some(trust),
            steps: None,
            side: None,
        }
    }

    /// A body whose client does not wait for `100 Continue`.
    pub(crate) fn without_continue(bounds: BodyBounds, trust: Trust) -> Self {
        Self { is_continue_sent: true, ..Self::new(bounds, trust) }
    }

    /// The body of a request without one; what the client sends is not read.
    pub(crate) fn none(trust: Trust) -> Self {
        Self { read_state: ReadState::Complete, ..Self::without_continue(BodyBounds::default(), trust) }
    }

    /// Replaces the maximum size.
    pub(crate) fn set_limit(&mut self, max_bytes: Option<u64>) {
        self.max_bytes = max_bytes;
    }

    /// Forwards no trailers.
    pub(crate) fn drop_trailers(&mut self) {
        self.trust = None;
    }

    /// Adds steps after the existing ones. They run before the body is buffered and sent; mirrors get the original.
    pub(crate) fn add_steps(&mut self, steps: Box<BodySteps>) {
        match &mut self.steps {
            Some(first) => first.append(*steps),
            None => self.steps = Some(steps),
        }
    }

    /// The size of the body that is sent, if `coming` is received.
    pub(crate) fn size(&self, coming: BodySize) -> BodySize {
        match (&self.steps, coming) {
            (Some(steps), BodySize::Exact(_)) if !steps.keep_length() => BodySize::Unknown,
            _ => coming,
        }
    }

    /// Copies the body from here on.
    pub(crate) fn copy_to(&mut self, copy: CopyWriter) {
        self.side.get_or_insert_default().copies.push(copy);
    }

    /// Aborts incomplete copies, and frees the store.
    pub(crate) fn discard_side_buffers(&mut self) {
        self.side = None;
    }

    /// Bytes of the body received, without framing.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether the whole body was sent to the endpoint.
    pub(crate) fn is_sent(&self) -> bool {
        self.sending == Sending::Sent
    }

    /// Whether the whole body was received.
    pub(crate) fn is_complete(&self) -> bool {
        self.read_state == ReadState::Complete
    }

    /// Whether the endpoint has no room now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.sending == Sending::Blocked
    }

    /// Whether nothing is read from the client now: the whole body was received, the endpoint has no room, or it refuses the
    /// rest.
    pub(crate) fn is_client_paused(&self, endpoint_refuses: bool) -> bool {
        endpoint_refuses || self.read_state == ReadState::Complete || self.is_blocked()
    }

    /// Whether another attempt can send the same body.
    pub(crate) fn is_replayable(&self) -> bool {
        match self.store() {
            // Steps cannot process the stored body twice.
            Some(_) => self.steps.is_none(),
            None => self.replay_state == ReplayState::All,
        }
    }

    /// Whether `100 Continue` is still to be sent; true once, whatever the number of attempts.
    pub(crate) fn take_continue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_continue_sent, true)
    }

    /// Frees the buffered body: a response has begun, so no other attempt follows.
    pub(crate) fn end_attempts(&mut self, replay: &mut Vec<u8>) {
        self.discard_replay(replay);
        if self.is_sent() {
            self.discard_store();
        }
    }

    /// Stops keeping sent data: no other attempt follows.
    pub(crate) fn discard_replay(&mut self, replay: &mut Vec<u8>) {
        self.replay_state = ReplayState::Lost;
        replay.clear();
    }

    /// Frees the store.
    pub(crate) fn discard_store(&mut self) {
        if let Some(side) = &mut self.side {
            side.store = None;
        }
    }

    /// Starts an attempt: sends the buffered data again.
    pub(crate) fn restart<U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        up: &mut U,
        replay: &[u8],
    ) -> Result<(), Failure> {
        self.sending = Sending::Flowing;
        if let Some(store) = self.side.as_mut().and_then(|side| side.store.as_mut()) {
            store.rewind();
        }
        if replay.is_empty() { Ok(()) } else { up.send_data(cx, replay) }
    }

    /// Records how long the client took for its next piece. Returns whether it is below the minimum rate; waiting for the
    /// endpoint does not count.
    pub(crate) fn record_wait(&mut self, wait: Duration) -> bool {
        let moved = self.received - std::mem::replace(&mut self.paced, self.received);
        self.pace.note(wait, moved) && self.read_state == ReadState::Reading
    }

    /// Moves available data from the client to the endpoint. Ready when the whole body is sent.
    pub(crate) fn poll_send<D: Downstream, U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        up: &mut U,
        replay: &mut Vec<u8>,
    ) -> Poll<Result<(), BodyFault>> {
        let mut chunks = 0;
        loop {
            let room = match self.sending {
                Sending::Finished => ready!(up.poll_flush(cx)).map(|()| 0),
                Sending::Sent => Ok(0),
                Sending::Flowing | Sending::Blocked => {
                    let room = up.poll_room(cx);
                    self.sending = if room.is_ready() { Sending::Flowing } else { Sending::Blocked };
                    ready!(room)
                }
            };
            let room = room.map_err(|_| BodyFault::Upstream)?;
            match (self.sending, self.read_state) {
                (Sending::Sent, _) => return Poll::Ready(Ok(())),
                (Sending::Finished, _) => {
                    self.sending = Sending::Sent;
                    if self.replay_state == ReplayState::Lost {
                        self.discard_store();
                    }
                }
                (Sending::Flowing | Sending::Blocked, ReadState::Complete) if self.has_stored_bytes() => {
                    let has_had_its_turn = chunks == MAX_PIECES_PER_TURN;
                    if has_had_its_turn {
                        go_on_later(cx);
                    }
                    chunks += 1;
                    if has_had_its_turn || self.poll_stored(cx, room, up)?.is_pending() {
                        if let Poll::Ready(Err(_)) = up.poll_flush(cx) {
                            return Poll::Ready(Err(BodyFault::Upstream));
                        }
                        return Poll::Pending;
                    }
                }
                (Sending::Flowing | Sending::Blocked, ReadState::Complete) => {
                    let trust = self.trust;
                    let passes = |name: &[u8]| trust.is_some_and(|trust| fields::passes(name, trust));
                    let trailers = down.trailers().filter(|(name, _)| passes(name));
                    up.finish(trailers).map_err(|_| BodyFault::Upstream)?;
                    self.sending = Sending::Finished;
                }
                (Sending::Flowing | Sending::Blocked, ReadState::Reading) => {
                    let has_had_its_turn = chunks == MAX_PIECES_PER_TURN;
                    if has_had_its_turn {
                        go_on_later(cx);
                    }
                    chunks += 1;
                    let room = self.steps.as_ref().map_or(room, |steps| steps.takes(room));
                    if has_had_its_turn || self.poll_piece(cx, down, room, up, replay)?.is_pending() {
                        // Flush before waiting for more.
                        if let Poll::Ready(Err(_)) = up.poll_flush(cx) {
                            return Poll::Ready(Err(BodyFault::Upstream));
                        }
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// The store, if the body is buffered.
    fn store(&self) -> Option<&Store> {
        self.side.as_ref()?.store.as_ref()
    }

    /// Whether the store has bytes that were not read yet.
    fn has_stored_bytes(&self) -> bool {
        self.store().is_some_and(|store| !store.is_read())
    }

    /// Moves a piece from the store to the endpoint.
    fn poll_stored<U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        up: &mut U,
    ) -> Result<Poll<()>, BodyFault> {
        let Self { side: Some(side), steps, read_state, .. } = self else { return Ok(Poll::Ready(())) };
        let Some(store) = &mut side.store else { return Ok(Poll::Ready(())) };
        let max_bytes = steps.as_ref().map_or(room, |steps| steps.takes(room));
        let data = match store.poll_read(cx, max_bytes) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Ok(data)) => data,
            Poll::Ready(Err(_)) => return Err(BodyFault::Downstream(Fault::BufferFull)),
        };
        let mut send = |data: &[u8]| up.send_data(cx, data).map_err(|_| Failure::Refused);
        match steps {
            None => send(data),
            Some(steps) => steps.write(data, &mut send),
        }
        .map_err(|failure| fault_of(failure, BodyFault::Upstream))?;
        let used = data.len();
        store.advance(used);
        debug_assert!(used > 0 && *read_state == ReadState::Complete, "it goes on");
        if let (Some(steps), true) = (steps, store.is_read()) {
            steps.finish(&mut send).map_err(|failure| fault_of(failure, BodyFault::Upstream))?;
        }
        Ok(Poll::Ready(()))
    }

    /// Whether sending waits for the store to read from disk.
    pub(crate) fn is_loading(&self) -> bool {
        self.sending == Sending::Flowing && self.store().is_some_and(Store::is_loading)
    }

    /// Buffers the body in this store.
    pub(crate) fn set_store(&mut self, store: Store) {
        self.side.get_or_insert_default().store = Some(store);
    }

    /// Whether the store waits for the disk, and not for the client.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.store().is_some_and(Store::waits_for_disk)
    }

    /// Moves available data from the client to the store. Ready with the length when the whole body was received; `None` if it
    /// had trailers, which a length would exclude. `memory` is the limit for all stores together, in bytes.
    pub(crate) fn poll_store<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        memory: u64,
    ) -> Poll<Result<Option<u64>, Fault>> {
        let Self { side: Some(side), received, max_bytes, read_state, trust, .. } = self else {
            return Poll::Ready(Ok(None));
        };
        let SideBuffers { copies, store: Some(store) } = &mut **side else { return Poll::Ready(Ok(None)) };
        for _ in 0..MAX_PIECES_PER_TURN {
            // Only reading the next piece tells a complete body from one that is too large.
            let (room, mut refusal) = match ready!(store.poll_room(cx, memory)) {
                Ok(room) => (room, None),
                Err(Full::TooLarge) => (EXTENT_BYTES, Some(Fault::BodyTooLarge)),
                Err(full) => {
                    if full == Full::NoDisk && !store.has_disk() {
                        Disk::log_missing();
                    }
                    (EXTENT_BYTES, Some(Fault::BufferFull))
                }
            };
            let step = down.poll_body(cx, room, |_, data| {
                *received += data.len() as u64;
                if max_bytes.is_some_and(|limit| *received > limit) {
                    refusal = Some(Fault::BodyTooLarge);
                }
                if refusal.is_some() {
                    return Err(Failure::Refused);
                }
                copies.iter().for_each(|copy| copy.write(data));
                store.append(data);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::More) => {}
                Ok(BodyStep::End) => {
                    *read_state = ReadState::Complete;
                    std::mem::take(copies).into_iter().rev().for_each(CopyWriter::finish);
                    let has_trailers = trust.is_some() && down.trailers().next().is_some();
                    return Poll::Ready(Ok((!has_trailers).then(|| store.len())));
                }
                Err(Failure::Refused) => {
                    return Poll::Ready(Err(refusal.unwrap_or(Fault::BodyTooLarge)));
                }
                Err(Failure::Closed) => return Poll::Ready(Err(Fault::ClientGone)),
                Err(Failure::Malformed(rule)) => return Poll::Ready(Err(Fault::Malformed(rule))),
            }
        }
        go_on_later(cx);
        Poll::Pending
    }

    /// Moves available data from the client to `whole`, at most `max_bytes`, for Fairway itself. Ready when the whole body was
    /// received.
    pub(crate) fn poll_read<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        whole: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Poll<Result<(), Fault>> {
        for _ in 0..MAX_PIECES_PER_TURN {
            let step = down.poll_body(cx, EXTENT_BYTES, |_, data| {
                self.received += data.len() as u64;
                if whole.len() + data.len() > max_bytes {
                    return Err(Failure::Refused);
                }
                whole.extend_from_slice(data);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::More) => {}
                Ok(BodyStep::End) => {
                    self.read_state = ReadState::Complete;
                    return Poll::Ready(Ok(()));
                }
                Err(Failure::Refused) => return Poll::Ready(Err(Fault::BodyTooLarge)),
                Err(Failure::Closed) => return Poll::Ready(Err(Fault::ClientGone)),
                Err(Failure::Malformed(rule)) => return Poll::Ready(Err(Fault::Malformed(rule))),
            }
        }
        go_on_later(cx);
        Poll::Pending
    }

    /// Moves the beginning of the body to `replay`, until the body is complete or has `max_prefix_bytes`, for a guard that
    /// inspects it. Ready with whether it is complete.
    pub(crate) fn poll_prefix<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        replay: &mut Vec<u8>,
        max_prefix_bytes: usize,
    ) -> Poll<Result<bool, Fault>> {
        for _ in 0..MAX_PIECES_PER_TURN {
            if self.read_state == ReadState::Complete {
                return Poll::Ready(Ok(true));
            }
            let room = max_prefix_bytes.saturating_sub(replay.len());
            if room == 0 {
                return Poll::Ready(Ok(false));
            }
            let step = down.poll_body(cx, room, |_, data| {
                self.received += data.len() as u64;
                if self.max_bytes.is_some_and(|limit| self.received > limit) {
                    return Err(Failure::Refused);
                }
                replay.extend_from_slice(data);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::More) => {}
                Ok(BodyStep::End) => self.read_state = ReadState::Complete,
                Err(Failure::Refused) => return Poll::Ready(Err(Fault::BodyTooLarge)),
                Err(Failure::Closed) => return Poll::Ready(Err(Fault::ClientGone)),
                Err(Failure::Malformed(rule)) => return Poll::Ready(Err(Fault::Malformed(rule))),
            }
        }
        go_on_later(cx);
        Poll::Pending
    }

    fn poll_piece<D: Downstream, U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        room: usize,
        up: &mut U,
        replay: &mut Vec<u8>,
    ) -> Result<Poll<()>, BodyFault> {
        let mut refusal = BodyFault::Upstream;
        let step = down.poll_body(cx, room, |cx, data| {
            self.received += data.len() as u64;
            if self.max_bytes.is_some_and(|limit| self.received > limit) {
                refusal = BodyFault::Downstream(Fault::BodyTooLarge);
                return Err(Failure::Refused);
            }
            if let Some(side) = &self.side {
                side.copies.iter().for_each(|copy| copy.write(data));
            }
            let mut send = |data: &[u8]| {
                self.replay_state.keep_if_fits(data, replay, self.max_replay_bytes);
                up.send_data(cx, data).map_err(|_| Failure::Refused)
            };
            match &mut self.steps {
                None => send(data),
                Some(steps) => steps.write(data, &mut send),
            }
        });
        match step {
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(Ok(BodyStep::More)) => Ok(Poll::Ready(())),
            Poll::Ready(Ok(BodyStep::End)) => {
                self.read_state = ReadState::Complete;
                if let Some(mut steps) = self.steps.take() {
                    let finished = steps.finish(&mut |data| {
                        self.replay_state.keep_if_fits(data, replay, self.max_replay_bytes);
                        up.send_data(cx, data).map_err(|_| Failure::Refused)
                    });
                    self.steps = Some(steps);
                    finished.map_err(|failure| fault_of(failure, BodyFault::Upstream))?;
                }
                if let Some(side) = &mut self.side {
                    std::mem::take(&mut side.copies).into_iter().rev().for_each(CopyWriter::finish);
                }
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(failure)) => Err(fault_of(failure, refusal)),
        }
    }
}

/// The fault of a failed read; `refusal` if the receiver refused the data.
fn fault_of(failure: Failure, refusal: BodyFault) -> BodyFault {
    match failure {
        Failure::Refused => refusal,
        Failure::Closed => BodyFault::Downstream(Fault::ClientGone),
        Failure::Malformed(rule) => BodyFault::Downstream(Fault::Malformed(rule)),
    }
}
