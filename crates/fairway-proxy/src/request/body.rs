//! The request's body on its way, across all attempts: what is held for another one, and how much may come.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Downstream, Failure, Upstream};
use fairway_http::BodySize;
use fairway_net::pace::Pace;
use fairway_net::turns::go_on_later;

use super::copy::CopyWriter;
use super::fields;
use crate::body_steps::BodySteps;
use crate::buffering::{Disk, EXTENT, Full, Store};
use crate::fault::Fault;
use crate::request::client::Trust;

/// Pieces of a body that are moved before other exchanges have their turn. A piece is what one read brings: in chunks of one
/// byte it is expensive to read, and a client can have the next one ready always.
const PIECES_IN_A_TURN: usize = 2;

/// The request's body.
pub(crate) struct RequestBody {
    received: u64,
    arrival: Arrival,
    sending: Sending,
    held: Held,
    /// Whether the client was told to go on (`100 Continue`), or does not wait for that.
    is_announced: bool,
    /// As [`BodyBounds`] has them.
    most: Option<u64>,
    replay: usize,
    pace: Pace,
    /// What of `received` the pace has seen.
    paced: u64,
    /// Whose trailers they are; `None` where none go on.
    trust: Option<Trust>,
    /// What it meets before it is held and sent, where a rule or its protocol asks for that.
    steps: Option<Box<BodySteps>>,
    /// Where else it goes. One word, because every exchange that waits has room for it.
    aside: Option<Box<Aside>>,
}

/// Where a body goes besides its endpoint, or before.
#[derive(Default)]
struct Aside {
    /// Who else gets it.
    copies: Vec<CopyWriter>,
    /// Where all of it is before any of it is sent, where a rule asks for that.
    store: Option<Store>,
}

/// What a body may be.
#[derive(Clone, Copy, Default)]
pub(crate) struct BodyBounds {
    /// Bytes in all.
    pub(crate) most: Option<u64>,
    /// Bytes held for another attempt.
    pub(crate) replay: usize,
    /// Bytes per second.
    pub(crate) rate: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Coming,
    Whole,
}

/// How far this attempt's copy is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Flowing,
    /// The endpoint has no room for more of it now.
    Stopped,
    Finished,
    Sent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    All,
    Lost,
}

impl Held {
    /// Keeps what is sent, as long as there is room for all of it.
    fn hold(&mut self, data: &[u8], replay: &mut Vec<u8>, most: usize) {
        if *self == Self::Lost {
            return;
        }
        if replay.len() + data.len() <= most {
            replay.extend_from_slice(data);
        } else {
            *self = Self::Lost;
            replay.clear();
        }
    }
}

/// Why the body does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// The client's side failed.
    Downstream(Fault),
    /// The endpoint does not take it; it may still have answered.
    Upstream,
}

impl Default for RequestBody {
    /// One that nobody asked for.
    fn default() -> Self {
        Self::new(BodyBounds::default(), Trust::Stranger)
    }
}

impl RequestBody {
    /// Nothing read yet.
    pub(crate) fn new(bounds: BodyBounds, trust: Trust) -> Self {
        Self {
            received: 0,
            arrival: Arrival::Coming,
            sending: Sending::Flowing,
            held: Held::All,
            is_announced: false,
            most: bounds.most,
            replay: bounds.replay,
            pace: Pace::new(bounds.rate),
            paced: 0,
            trust: Some(trust),
            steps: None,
            aside: None,
        }
    }

    /// The same, of a client that waits for no word.
    pub(crate) fn announced(bounds: BodyBounds, trust: Trust) -> Self {
        Self { is_announced: true, ..Self::new(bounds, trust) }
    }

    /// Of a request that has none, whatever its client sends.
    pub(crate) fn none(trust: Trust) -> Self {
        Self { arrival: Arrival::Whole, ..Self::announced(BodyBounds::default(), trust) }
    }

    /// It may have so many bytes, whatever was said before.
    pub(crate) fn limit(&mut self, most: Option<u64>) {
        self.most = most;
    }

    /// Its trailers end here.
    pub(crate) fn drop_trailers(&mut self) {
        self.trust = None;
    }

    /// It meets these steps, behind those that it meets already, before it is held and sent. Copies get what came.
    pub(crate) fn meet(&mut self, steps: Box<BodySteps>) {
        match &mut self.steps {
            Some(first) => first.append(*steps),
            None => self.steps = Some(steps),
        }
    }

    /// The size of what is sent, where so much comes.
    pub(crate) fn size(&self, coming: BodySize) -> BodySize {
        match (&self.steps, coming) {
            (Some(steps), BodySize::Exact(_)) if !steps.keep_length() => BodySize::Unknown,
            _ => coming,
        }
    }

    /// What comes from now on goes there, too.
    pub(crate) fn copy_to(&mut self, copy: CopyWriter) {
        self.aside.get_or_insert_default().copies.push(copy);
    }

    /// Breaks off the copies that are not whole, and frees what is held.
    pub(crate) fn let_go(&mut self) {
        self.aside = None;
    }

    /// Bytes of the body that came, without their framing.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether all of it left for the endpoint.
    pub(crate) fn is_sent(&self) -> bool {
        self.sending == Sending::Sent
    }

    /// Whether nothing more of it is to come from the client.
    pub(crate) fn is_whole(&self) -> bool {
        self.arrival == Arrival::Whole
    }

    /// Whether the endpoint is waited for: it has no room for more of it now.
    pub(crate) fn is_stopped(&self) -> bool {
        self.sending == Sending::Stopped
    }

    /// Whether nothing is read from the client now: all of the body came, or the endpoint takes no more of it for the
    /// moment, or, being `deaf`, at all.
    pub(crate) fn leaves_alone(&self, deaf: bool) -> bool {
        deaf || self.arrival == Arrival::Whole || self.is_stopped()
    }

    /// Whether another attempt can send what this one did.
    pub(crate) fn is_replayable(&self) -> bool {
        match self.store() {
            // What steps have seen, they do not see again.
            Some(_) => self.steps.is_none(),
            None => self.held == Held::All,
        }
    }

    /// Whether `100 Continue` is still to be said; it is said once, whatever the number of attempts.
    pub(crate) fn take_announcement(&mut self) -> bool {
        !std::mem::replace(&mut self.is_announced, true)
    }

    /// Nothing is held any more: an answer has begun, there is no other attempt.
    pub(crate) fn release(&mut self, replay: &mut Vec<u8>) {
        self.hold_nothing(replay);
        if self.is_sent() {
            self.forget();
        }
    }

    /// There is no other attempt: what was sent is not kept.
    pub(crate) fn hold_nothing(&mut self, replay: &mut Vec<u8>) {
        self.held = Held::Lost;
        replay.clear();
    }

    /// Nobody asks any more for what is held of it.
    pub(crate) fn forget(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.store = None;
        }
    }

    /// Begins an attempt: sends again what is held.
    pub(crate) fn restart<U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        up: &mut U,
        replay: &[u8],
    ) -> Result<(), Failure> {
        self.sending = Sending::Flowing;
        if let Some(store) = self.aside.as_mut().and_then(|aside| aside.store.as_mut()) {
            store.rewind();
        }
        if replay.is_empty() { Ok(()) } else { up.send_data(cx, replay) }
    }

    /// The client let us wait so long for its next piece. Says whether it is too slow altogether; waiting for the
    /// endpoint does not count.
    pub(crate) fn note_wait(&mut self, wait: Duration) -> bool {
        let moved = self.received - std::mem::replace(&mut self.paced, self.received);
        self.pace.note(wait, moved) && self.arrival == Arrival::Coming
    }

    /// Moves what is there from the client to the endpoint. Ready when all of it is sent.
    pub(crate) fn poll_send<D: Downstream, U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        up: &mut U,
        replay: &mut Vec<u8>,
    ) -> Poll<Result<(), BodyFault>> {
        let mut pieces = 0;
        loop {
            let room = match self.sending {
                Sending::Finished => ready!(up.poll_flush(cx)).map(|()| 0),
                Sending::Sent => Ok(0),
                Sending::Flowing | Sending::Stopped => {
                    let room = up.poll_room(cx);
                    self.sending = if room.is_ready() { Sending::Flowing } else { Sending::Stopped };
                    ready!(room)
                }
            };
            let room = room.map_err(|_| BodyFault::Upstream)?;
            match (self.sending, self.arrival) {
                (Sending::Sent, _) => return Poll::Ready(Ok(())),
                (Sending::Finished, _) => {
                    self.sending = Sending::Sent;
                    if self.held == Held::Lost {
                        self.forget();
                    }
                }
                (Sending::Flowing | Sending::Stopped, Arrival::Whole) if self.is_stored() => {
                    let has_had_its_turn = pieces == PIECES_IN_A_TURN;
                    if has_had_its_turn {
                        go_on_later(cx);
                    }
                    pieces += 1;
                    if has_had_its_turn || self.poll_stored(cx, room, up)?.is_pending() {
                        if let Poll::Ready(Err(_)) = up.poll_flush(cx) {
                            return Poll::Ready(Err(BodyFault::Upstream));
                        }
                        return Poll::Pending;
                    }
                }
                (Sending::Flowing | Sending::Stopped, Arrival::Whole) => {
                    let trust = self.trust;
                    let passes = |name: &[u8]| trust.is_some_and(|trust| fields::passes(name, trust));
                    let trailers = down.trailers().filter(|(name, _)| passes(name));
                    up.finish(trailers).map_err(|_| BodyFault::Upstream)?;
                    self.sending = Sending::Finished;
                }
                (Sending::Flowing | Sending::Stopped, Arrival::Coming) => {
                    let has_had_its_turn = pieces == PIECES_IN_A_TURN;
                    if has_had_its_turn {
                        go_on_later(cx);
                    }
                    pieces += 1;
                    let room = self.steps.as_ref().map_or(room, |steps| steps.takes(room));
                    if has_had_its_turn || self.poll_piece(cx, down, room, up, replay)?.is_pending() {
                        // What is there leaves before more is waited for.
                        if let Poll::Ready(Err(_)) = up.poll_flush(cx) {
                            return Poll::Ready(Err(BodyFault::Upstream));
                        }
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Where it is held.
    fn store(&self) -> Option<&Store> {
        self.aside.as_ref()?.store.as_ref()
    }

    /// Whether some of it is still to be read where it is held.
    fn is_stored(&self) -> bool {
        self.store().is_some_and(|store| !store.is_read())
    }

    /// Moves a piece from where it is held to the endpoint.
    fn poll_stored<U: Upstream>(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        up: &mut U,
    ) -> Result<Poll<()>, BodyFault> {
        let Self { aside: Some(aside), steps, arrival, .. } = self else { return Ok(Poll::Ready(())) };
        let Some(store) = &mut aside.store else { return Ok(Poll::Ready(())) };
        let most = steps.as_ref().map_or(room, |steps| steps.takes(room));
        let data = match store.poll_read(cx, most) {
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
        debug_assert!(used > 0 && *arrival == Arrival::Whole, "it goes on");
        if let (Some(steps), true) = (steps, store.is_read()) {
            steps.finish(&mut send).map_err(|failure| fault_of(failure, BodyFault::Upstream))?;
        }
        Ok(Poll::Ready(()))
    }

    /// Whether the disk is waited for where it is held.
    pub(crate) fn is_reading(&self) -> bool {
        self.sending == Sending::Flowing && self.store().is_some_and(Store::is_loading)
    }

    /// From now on it is held.
    pub(crate) fn hold(&mut self, store: Store) {
        self.aside.get_or_insert_default().store = Some(store);
    }

    /// Whether the disk is waited for, and not the client.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.store().is_some_and(Store::waits_for_disk)
    }

    /// Moves what is there from the client to where it is held. Ready with its length when all of it came; `None` where trailers came
    /// with it, for which a length leaves no place. All that are held may take so many bytes of `memory`.
    pub(crate) fn poll_hold<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        memory: u64,
    ) -> Poll<Result<Option<u64>, Fault>> {
        let Self { aside: Some(aside), received, most, arrival, trust, .. } = self else {
            return Poll::Ready(Ok(None));
        };
        let Aside { copies, store: Some(store) } = &mut **aside else { return Poll::Ready(Ok(None)) };
        for _ in 0..PIECES_IN_A_TURN {
            // Only a look at the next piece tells a body that is whole from one that is too large.
            let (room, mut refusal) = match ready!(store.poll_room(cx, memory)) {
                Ok(room) => (room, None),
                Err(Full::TooLarge) => (EXTENT, Some(Fault::BodyTooLarge)),
                Err(full) => {
                    if full == Full::NoDisk && !store.has_disk() {
                        Disk::miss();
                    }
                    (EXTENT, Some(Fault::BufferFull))
                }
            };
            let step = down.poll_body(cx, room, |_, data| {
                *received += data.len() as u64;
                if most.is_some_and(|most| *received > most) {
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
                    *arrival = Arrival::Whole;
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

    /// Moves what is there from the client to `whole`, which may become `most` bytes long: Fairway itself reads it. Ready when all of it
    /// came.
    pub(crate) fn poll_read<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        whole: &mut Vec<u8>,
        most: usize,
    ) -> Poll<Result<(), Fault>> {
        for _ in 0..PIECES_IN_A_TURN {
            let step = down.poll_body(cx, EXTENT, |_, data| {
                self.received += data.len() as u64;
                if whole.len() + data.len() > most {
                    return Err(Failure::Refused);
                }
                whole.extend_from_slice(data);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::More) => {}
                Ok(BodyStep::End) => {
                    self.arrival = Arrival::Whole;
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

    /// Moves the beginning of the body from the client to `replay`, until it is whole or `most` bytes long: somebody looks at it before it
    /// is sent. Ready with whether it is whole.
    pub(crate) fn poll_beginning<D: Downstream>(
        &mut self,
        cx: &mut Context<'_>,
        down: &mut D,
        replay: &mut Vec<u8>,
        most: usize,
    ) -> Poll<Result<bool, Fault>> {
        for _ in 0..PIECES_IN_A_TURN {
            if self.arrival == Arrival::Whole {
                return Poll::Ready(Ok(true));
            }
            let room = most.saturating_sub(replay.len());
            if room == 0 {
                return Poll::Ready(Ok(false));
            }
            let step = down.poll_body(cx, room, |_, data| {
                self.received += data.len() as u64;
                if self.most.is_some_and(|most| self.received > most) {
                    return Err(Failure::Refused);
                }
                replay.extend_from_slice(data);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::More) => {}
                Ok(BodyStep::End) => self.arrival = Arrival::Whole,
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
            if self.most.is_some_and(|most| self.received > most) {
                refusal = BodyFault::Downstream(Fault::BodyTooLarge);
                return Err(Failure::Refused);
            }
            if let Some(aside) = &self.aside {
                aside.copies.iter().for_each(|copy| copy.write(data));
            }
            let mut send = |data: &[u8]| {
                self.held.hold(data, replay, self.replay);
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
                self.arrival = Arrival::Whole;
                if let Some(mut steps) = self.steps.take() {
                    let finished = steps.finish(&mut |data| {
                        self.held.hold(data, replay, self.replay);
                        up.send_data(cx, data).map_err(|_| Failure::Refused)
                    });
                    self.steps = Some(steps);
                    finished.map_err(|failure| fault_of(failure, BodyFault::Upstream))?;
                }
                if let Some(aside) = &mut self.aside {
                    std::mem::take(&mut aside.copies).into_iter().rev().for_each(CopyWriter::finish);
                }
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(failure)) => Err(fault_of(failure, refusal)),
        }
    }
}

/// Whose fault it is that the body does not go on; `refusal` where who takes it refused.
fn fault_of(failure: Failure, refusal: BodyFault) -> BodyFault {
    match failure {
        Failure::Refused => refusal,
        Failure::Closed => BodyFault::Downstream(Fault::ClientGone),
        Failure::Malformed(rule) => BodyFault::Downstream(Fault::Malformed(rule)),
    }
}
