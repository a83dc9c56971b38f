//! A shared HTTP/2 connection to an endpoint and the task that drives it. The task does all reading and writing;
//! exchanges only change the codec's state and register wakers.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::fields::Limits;
use fairway_http2::{Client, ClientRole, Code, Config, Event, PeerEvent, ResetBy, Timeouts, Wait};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};

use super::retirement::Wear;
use super::stream::{CodecTime, Following, ReceiveState, StreamContext};
use super::stream_slots::{HeadFacts, RESET_PING, SlotStream, StreamSlots, StreamState};

/// Maximum bytes of one read from the socket.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Maximum reads in one poll of the task, so that one busy connection does not delay the others on its thread.
const MAX_READS_PER_POLL: usize = 16;

/// How long the socket may accept none of the pending output before the endpoint counts as unreachable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an endpoint may be silent while streams are open before it gets a PING, in microseconds: slightly over
/// five minutes, because a silent gRPC server closes the connection of a client that sends PINGs more often.
const IDLE_PING_MICROS: u32 = 310_000_000;

/// How long an endpoint may be silent before a PING has to check it ahead of the next request, in microseconds.
const LIVENESS_CHECK_MICROS: u64 = 10_000_000;

/// How long draining an abandoned response may take, in microseconds.
const DRAIN_TIMEOUT_MICROS: u64 = 5_000_000;

/// The payload of the PING that checks whether the endpoint is alive.
const LIVENESS_PING: [u8; 8] = *b"hello...";

/// Maximum concurrent requests on one connection; the endpoint's SETTINGS can only lower it.
const MAX_STREAMS_PER_CONNECTION: u32 = 100;

/// The receive window of a connection, in bytes: a full initial window of 64 KiB for each stream, so that unread
/// responses do not block the other streams.
const CONNECTION_WINDOW_BYTES: u32 = 100 * 64 * 1024;

/// Receives the codec's events about the peer, for metrics.
pub(super) type EventObserver = Box<dyn Fn(PeerEvent)>;

/// A connection to an endpoint, shared by its exchanges and the task that drives it.
pub(super) struct Link<S> {
    pub(super) core: RefCell<Core>,
    pub(super) wire: RefCell<Wire<S>>,
    pub(super) workspace: Rc<Workspace>,
    pub(super) is_secure: bool,
    /// Whether the pool has dropped the connection. Its task then closes it once no stream is left.
    is_retired: Cell<bool>,
    pub(super) observer: RefCell<Option<EventObserver>>,
    started_at: Instant,
    /// When the socket last accepted bytes.
    pub(super) last_written_at: Cell<Instant>,
}

/// Whether a connection works, and if not, why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    Open,
    /// The endpoint closed the connection or violated the protocol, or reading or writing failed.
    Closed,
    /// The endpoint is unreachable or did not react in time.
    Unreachable,
}

/// The state of a connection that its exchanges and its task change.
pub(super) struct Core {
    pub(super) codec: Client,
    slots: StreamSlots,
    driver_waker: Option<Waker>,
    pub(super) state: LinkState,
    wear: Wear,
    /// When the last input was received, in microseconds of the codec's clock.
    last_received: u64,
    /// When a liveness PING was sent that no input has followed yet.
    pinged_at: Option<u64>,
}

impl<S: Transport> Link<S> {
    /// Creates the connection and spawns the task that drives it.
    pub(super) fn spawn(wire: Wire<S>, workspace: &Rc<Workspace>, limits: Limits) -> Rc<Self> {
        let timeouts = Timeouts { silence: IDLE_PING_MICROS, ..Timeouts::default() };
        let config = Config {
            max_streams: MAX_STREAMS_PER_CONNECTION,
            connection_window: CONNECTION_WINDOW_BYTES,
            head_limits: limits,
            timeouts,
            ..Config::default()
        };
        let core = Core {
            codec: Client::new(config, 0),
            slots: StreamSlots::default(),
            driver_waker: None,
            state: LinkState::Open,
            wear: Wear::default(),
            last_received: 0,
            pinged_at: None,
        };
        let started_at = Instant::now();
        let link = Rc::new(Self {
            is_secure: wire.stream().is_secure(),
            core: RefCell::new(core),
            wire: RefCell::new(wire),
            workspace: Rc::clone(workspace),
            is_retired: Cell::new(false),
            observer: RefCell::new(None),
            started_at,
            last_written_at: Cell::new(started_at),
        });
        // Tokio's budget is not needed: MAX_READS_PER_POLL bounds the work of each poll.
        tokio::task::spawn_local(tokio::task::unconstrained(drive(Rc::clone(&link))));
        link
    }

    /// Ends the connection with its last stream, because the pool has dropped it.
    pub(super) fn retire(&self) {
        self.is_retired.set(true);
        let mut core = self.core.borrow_mut();
        core.cancel_expired_drains(&self.workspace, self.codec_now(), 0);
        core.wake();
    }

    /// The codec's clock, in microseconds.
    pub(super) fn codec_now(&self) -> u64 {
        CodecTime::Since(self.started_at).micros()
    }

    /// Runs `act` on the stream of a slot. If that leaves output, the task sends it.
    pub(super) fn with_stream<T>(
        &self,
        slot: usize,
        act: impl FnOnce(&mut SlotStream, &mut StreamContext<'_, ClientRole>) -> T,
    ) -> T {
        let mut core = self.core.borrow_mut();
        core.acquire_buffers(&self.workspace);
        let Core { codec, slots, .. } = &mut *core;
        let mut context =
            StreamContext { codec, workspace: &self.workspace, now: CodecTime::Since(self.started_at) };
        let result = act(slots.get_mut(slot), &mut context);
        core.send(&self.workspace);
        result
    }

    /// Opens the stream of a slot with the request head that `send_head` gives to the codec.
    pub(super) fn open(
        &self,
        slot: usize,
        follow: Following,
        send_head: impl FnOnce(&mut Client) -> Option<u32>,
    ) {
        let mut core = self.core.borrow_mut();
        core.acquire_buffers(&self.workspace);
        let Core { codec, slots, .. } = &mut *core;
        let pending_before = codec.pending().len();
        match send_head(codec) {
            Some(id) => {
                slots.open(slot, id, codec).stream.head_sent(codec.pending().len() - pending_before, follow);
            }
            // The endpoint has lowered its stream limit since the slot was reserved.
            None => slots.get_mut(slot).state = StreamState::Refused,
        }
        core.send(&self.workspace);
    }

    /// Reserves a slot for an exchange; `None` while the connection accepts no more streams.
    pub(super) fn reserve_slot(&self) -> Option<usize> {
        let mut core = self.core.borrow_mut();
        if !core.has_room() && core.slots.has_draining() {
            core.cancel_expired_drains(&self.workspace, self.codec_now(), DRAIN_TIMEOUT_MICROS);
        }
        if core.state != LinkState::Open || !core.has_room() {
            return None;
        }
        core.wear.count_stream();
        Some(core.slots.reserve())
    }

    /// The number of slots that an exchange owns or whose stream is being drained.
    pub(super) fn slots_in_use(&self) -> usize {
        self.core.borrow().slots.len_in_use()
    }

    /// Releases the slot of a finished exchange; the rest of its response may still be drained.
    pub(super) fn release_slot(&self, slot: usize) {
        let mut core = self.core.borrow_mut();
        let may_drain = core.state == LinkState::Open && !self.is_retired.get();
        let Core { codec, slots, wear, .. } = &mut *core;
        let mut context =
            StreamContext { codec, workspace: &self.workspace, now: CodecTime::Since(self.started_at) };
        slots.release(slot, &mut context, wear, may_drain);
        core.wake();
    }

    /// Whether new exchanges should use another connection: this one has ended or is ending, is worn out
    /// (see [`Wear`]), or the endpoint allows no streams at all.
    pub(super) fn is_worn_out(&self) -> bool {
        let core = self.core.borrow();
        let allows_no_streams = core.codec.available_streams() == 0 && core.slots.len_in_use() == 0;
        core.state != LinkState::Open
            || core.codec.is_going_away()
            // The time of the last input is precise enough, and saves reading the clock.
            || core.wear.is_worn(core.last_received)
            || (allows_no_streams && core.wear.unacknowledged_resets() == 0)
    }

    /// Whether the endpoint has been silent for so long that it may be gone.
    pub(super) fn needs_liveness_check(&self, now: Instant) -> bool {
        let now =
            u64::try_from(now.saturating_duration_since(self.started_at).as_micros()).unwrap_or(u64::MAX);
        now.saturating_sub(self.core.borrow().last_received) > LIVENESS_CHECK_MICROS
    }

    /// Checks with a PING whether a silent endpoint is alive; pending until it sends anything.
    pub(super) fn poll_alive(&self, cx: &Context<'_>, slot: usize) -> Poll<bool> {
        if self.is_worn_out() {
            return Poll::Ready(false);
        }
        if !self.needs_liveness_check(Instant::now()) {
            return Poll::Ready(true);
        }
        let mut core = self.core.borrow_mut();
        core.slot_mut(slot).register_waker(cx);
        if core.pinged_at.is_none() {
            core.pinged_at = Some(self.codec_now());
            core.codec.ping(LIVENESS_PING);
            core.wake();
        }
        Poll::Pending
    }

    /// Keeps new exchanges off the connection, because the endpoint did not respond to the PING in time.
    pub(super) fn mark_unresponsive(&self) {
        self.core.borrow_mut().wear.mark_worn();
    }

    fn poll(&self, cx: &mut Context<'_>, driver: &mut DriverState) -> Poll<()> {
        let progress = self.poll_io(cx, driver);
        self.report_events();
        progress
    }

    /// Reports the codec's events to the observer.
    fn report_events(&self) {
        let take_event = || self.core.borrow_mut().codec.take_event();
        while let Some(event) = take_event() {
            if let Some(observe) = &*self.observer.borrow() {
                observe(event);
            }
        }
    }

    /// Reads and writes until neither makes progress; ready when the connection is closed.
    fn poll_io(&self, cx: &mut Context<'_>, driver: &mut DriverState) -> Poll<()> {
        {
            let mut core = self.core.borrow_mut();
            if !core.driver_waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                core.driver_waker = Some(cx.waker().clone());
            }
        }
        let now = self.codec_now();
        for _ in 0..MAX_READS_PER_POLL {
            let has_read = self.read(cx, driver, now);
            self.core.borrow_mut().wake_writable(now);
            let has_written = self.write(cx);
            let core = self.core.borrow();
            if core.state != LinkState::Open || (core.slots.len_in_use() == 0 && self.is_retired.get()) {
                drop(core);
                self.close(cx);
                return Poll::Ready(());
            }
            if !has_read && !has_written {
                drop(core);
                self.core.borrow_mut().release_buffers(&self.workspace);
                return self.poll_timeouts(cx, driver);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads and processes input once. Returns whether anything changed.
    fn read(&self, cx: &mut Context<'_>, driver: &mut DriverState, now: u64) -> bool {
        let mut core = self.core.borrow_mut();
        let mut wire = self.wire.borrow_mut();
        core.acquire_buffers(&self.workspace);
        match driver.blocked_on {
            Some(Wait::Flush) if core.codec.must_flush() => return false,
            None => {}
            Some(_) => {
                driver.blocked_on = None;
                wire.take_residue(|bytes| core.process_input(now, bytes, driver, &self.workspace));
                return true;
            }
        }
        let read_result = wire.poll_more(cx, &self.workspace, MAX_READ_BYTES, |bytes| {
            core.process_input(now, bytes, driver, &self.workspace)
        });
        match read_result {
            Poll::Pending => return false,
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(Ok(0)) => core.fail_mid_head(wire.pending(), LinkState::Closed),
            Poll::Ready(Err(error)) if is_unreachable(error.kind()) => {
                core.fail_mid_head(wire.pending(), LinkState::Unreachable);
            }
            Poll::Ready(Err(_)) => core.fail_mid_head(wire.pending(), LinkState::Closed),
        }
        true
    }

    /// Writes pending output. Returns whether anything changed.
    fn write(&self, cx: &mut Context<'_>) -> bool {
        let mut core = self.core.borrow_mut();
        let mut wire = self.wire.borrow_mut();
        let mut has_written_bytes = false;
        while !core.codec.pending().is_empty() {
            match wire.poll_write(cx, core.codec.pending()) {
                Poll::Ready(Ok(count)) => {
                    core.codec.mark_written(count);
                    has_written_bytes = true;
                }
                Poll::Ready(Err(_)) => {
                    core.fail(LinkState::Closed);
                    return true;
                }
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(_)) = wire.poll_flush(cx) {
            core.fail(LinkState::Closed);
        }
        if has_written_bytes {
            self.last_written_at.set(Instant::now());
        }
        has_written_bytes
    }

    /// Handles expired timeouts and sets the timer for the next one.
    fn poll_timeouts(&self, cx: &mut Context<'_>, driver: &mut DriverState) -> Poll<()> {
        let now = Instant::now();
        let mut core = self.core.borrow_mut();
        let is_write_pending = !core.codec.pending().is_empty();
        if is_write_pending && self.last_written_at.get() + WRITE_TIMEOUT <= now {
            core.fail(LinkState::Unreachable);
        }
        let codec_now = self.codec_now();
        let mut has_expired = false;
        while let Some(event) = core
            .codec
            .deadline()
            .filter(|deadline| *deadline <= codec_now)
            .and_then(|_| core.codec.handle_timeout(codec_now))
        {
            has_expired = true;
            match event {
                Event::Reset { stream, code, .. } => core.reset(stream, code),
                Event::Closed(_) => {
                    core.fail(LinkState::Unreachable);
                    break;
                }
                _ => {}
            }
        }
        // A timeout can queue a PING without reporting an event; the next poll writes it.
        let has_new_output = !is_write_pending && !core.codec.pending().is_empty();
        if has_expired || has_new_output || core.state != LinkState::Open {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let codec_deadline =
            core.codec.deadline().map(|micros| self.started_at + Duration::from_micros(micros));
        let write_deadline = is_write_pending.then(|| self.last_written_at.get() + WRITE_TIMEOUT);
        if let Some(next) = codec_deadline.into_iter().chain(write_deadline).min() {
            driver.deadline.set(now, next.saturating_duration_since(now));
            if driver.deadline.poll_passed(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Closes the connection with a GOAWAY if it still works, and fails the streams that remain.
    fn close(&self, cx: &mut Context<'_>) {
        let mut core = self.core.borrow_mut();
        if core.state == LinkState::Open {
            core.codec.go_away(self.codec_now());
        }
        core.fail(LinkState::Closed);
        let mut wire = self.wire.borrow_mut();
        // The GOAWAY is a courtesy: if the socket does not accept it at once, the connection closes without it.
        let _ = wire.poll_write(cx, core.codec.pending());
        let _ = wire.poll_shutdown(cx);
    }
}

/// The state that only the task uses.
struct DriverState {
    /// The buffer that the codec decodes the next head into.
    head: Head,
    /// What must happen before the codec accepts more input.
    blocked_on: Option<Wait>,
    /// The timer of the next timeout.
    deadline: Deadline,
}

async fn drive<S: Transport>(link: Rc<Link<S>>) {
    let mut driver = DriverState { head: Head::new(), blocked_on: None, deadline: Deadline::unset() };
    poll_fn(|cx| link.poll(cx, &mut driver)).await;
}

impl Core {
    fn wake(&self) {
        if let Some(waker) = &self.driver_waker {
            waker.wake_by_ref();
        }
    }

    /// Acquires the output buffer, because an idle connection owns none.
    fn acquire_buffers(&mut self, workspace: &Workspace) {
        if let Some(memory) = self.codec.outbox_memory() {
            workspace.lend(memory);
        }
    }

    fn release_buffers(&mut self, workspace: &Workspace) {
        if let Some(memory) = self.codec.outbox_memory() {
            workspace.take_back(memory);
        }
    }

    /// Wakes the task if output is pending; releases the output buffer otherwise.
    fn send(&mut self, workspace: &Workspace) {
        if self.codec.pending().is_empty() {
            self.release_buffers(workspace);
        } else {
            self.wake();
        }
    }

    /// Whether the endpoint accepts one more stream, if it still counts the streams whose resets it may not have
    /// seen, and if every reserved slot will open a stream.
    fn has_room(&self) -> bool {
        let reserved = self.slots.len_in_use().saturating_sub(self.codec.open_streams());
        self.codec.available_streams() > reserved + self.wear.unacknowledged_resets()
    }

    /// Passes input to the codec and its events to the streams. Returns how many bytes the codec has consumed.
    fn process_input(
        &mut self,
        now: u64,
        bytes: &[u8],
        driver: &mut DriverState,
        workspace: &Workspace,
    ) -> usize {
        let mut consumed = 0;
        self.note_received(now);
        loop {
            let (count, event) = self.codec.receive(now, &bytes[consumed..], &mut driver.head);
            consumed += count;
            match event {
                Event::NeedMore => return consumed,
                Event::Wait(wait) => {
                    driver.blocked_on = Some(wait);
                    return consumed;
                }
                Event::Closed(_) => {
                    self.fail(LinkState::Closed);
                    return consumed;
                }
                Event::Head { stream, end, length, .. } => {
                    let head = &mut driver.head;
                    self.wear.count_received();
                    self.with_codec_stream(stream, |slot_stream| {
                        slot_stream.queue_head(head, HeadFacts { end, length }, count);
                    });
                    self.finish_drain(stream, end, workspace, now);
                }
                // Failing the stream is enough: the codec resets it when its exchange releases the slot.
                Event::HeadTooLarge { stream, .. } => self.reset(stream, Code::Cancel),
                Event::Data { stream, bytes, end } => {
                    self.wear.count_received();
                    self.receive_data(stream, bytes, end, workspace, now);
                }
                Event::Trailers { stream } => {
                    let head = &driver.head;
                    self.with_codec_stream(stream, |slot_stream| slot_stream.stream.receive_trailers(head));
                    self.finish_drain(stream, true, workspace, now);
                }
                Event::Reset { stream, code, reset_by: by } => {
                    // Invalid bytes also show that the response has begun. Their number is unknown, so count one.
                    let invalid_bytes = u64::from(matches!(by, ResetBy::Us(_)));
                    self.with_codec_stream(stream, |slot_stream| slot_stream.received += invalid_bytes);
                    self.reset(stream, code);
                    self.finish_drain(stream, true, workspace, now);
                }
                Event::Pong(RESET_PING) => self.wear.reset_ping_acknowledged(),
                Event::Writable { .. } => self.wake_writable(now),
                // The endpoint has not acted on the streams above the last one (RFC 9113 §6.8).
                Event::GoAway { last_stream, .. } => self.refuse_above(last_stream),
                // Tunnel requests wait for SETTINGS that allow extended CONNECT (RFC 8441 §3).
                Event::Settings => {
                    self.slots
                        .iter_in_use()
                        .filter(|slot_stream| slot_stream.state == StreamState::Unsent)
                        .for_each(|slot_stream| slot_stream.wake());
                }
                Event::Priority { .. } | Event::Pong(_) => {}
            }
        }
    }

    /// Runs `act` on a stream, if an exchange or a drain still needs it, and wakes its exchange.
    fn with_codec_stream(&mut self, stream: u32, act: impl FnOnce(&mut SlotStream)) {
        if let Some(slot) = self.slots.find(stream, &self.codec) {
            let slot_stream = self.slots.get_mut(slot);
            act(slot_stream);
            slot_stream.wake();
        }
    }

    /// Fails a stream that was reset, unless its response is complete.
    fn reset(&mut self, stream: u32, code: Code) {
        self.with_codec_stream(stream, |slot_stream| match code {
            // An endpoint may reset the rest of the request after a complete response (RFC 9113 §8.1).
            _ if slot_stream.stream.arrival == ReceiveState::Complete => {}
            Code::Refused => slot_stream.fail(StreamState::Refused),
            _ => slot_stream.fail(StreamState::Broken),
        });
    }

    fn refuse_above(&mut self, last_stream: u32) {
        let refused = self.slots.iter_in_use().filter(|slot_stream| slot_stream.stream.id > last_stream);
        refused.for_each(|slot_stream| {
            slot_stream.fail(StreamState::Refused);
            slot_stream.wake();
        });
    }

    /// Ends the connection and fails the streams without a complete response.
    fn fail(&mut self, state: LinkState) {
        if self.state != LinkState::Open {
            return;
        }
        self.state = state;
        for slot_stream in self.slots.iter_in_use() {
            // Exchanges can still read complete responses.
            if slot_stream.state != StreamState::Refused
                && slot_stream.stream.arrival != ReceiveState::Complete
            {
                slot_stream.fail(StreamState::Broken);
            }
            slot_stream.wake();
        }
    }

    /// Ends the connection. If `rest`, the unused input, is part of a head, its response has begun: the stream
    /// counts one received byte.
    fn fail_mid_head(&mut self, rest: &[u8], state: LinkState) {
        if let Some(stream) = self.codec.partial_head_stream(rest) {
            self.with_codec_stream(stream, |slot_stream| slot_stream.received += 1);
        }
        self.fail(state);
    }

    /// Records that the endpoint is alive, and wakes the exchanges that wait for the liveness PING.
    fn note_received(&mut self, now: u64) {
        self.last_received = now;
        if self.pinged_at.take().is_some() {
            self.slots.iter_in_use().for_each(|slot_stream| slot_stream.wake());
        }
    }

    /// Queues body data for its exchange, or drops it if the response is being drained.
    fn receive_data(&mut self, stream: u32, bytes: &[u8], end: bool, workspace: &Workspace, now: u64) {
        let mut is_drained = false;
        self.with_codec_stream(stream, |slot_stream| {
            slot_stream.received += bytes.len() as u64;
            slot_stream.body_left = slot_stream.body_left.map(|left| left.saturating_sub(bytes.len() as u64));
            is_drained = slot_stream.draining_since.is_some();
            if !is_drained {
                slot_stream.stream.receive(bytes, end, workspace);
            }
        });
        if is_drained {
            self.codec.consume(stream, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            self.finish_drain(stream, end, workspace, now);
        }
    }

    /// Closes the stream of a drained response that has ended.
    fn finish_drain(&mut self, stream: u32, end: bool, workspace: &Workspace, now: u64) {
        if end
            && self.slots.has_draining()
            && let Some(slot) = self.slots.find(stream, &self.codec)
            && self.slots.get_mut(slot).draining_since.is_some()
        {
            self.slots.close(
                slot,
                &mut StreamContext { codec: &mut self.codec, workspace, now: CodecTime::Micros(now) },
            );
        }
    }

    /// Cancels the streams that have been draining for at least `timeout` microseconds.
    fn cancel_expired_drains(&mut self, workspace: &Workspace, now: u64, timeout: u64) {
        let Self { codec, slots, wear, .. } = self;
        let mut context = StreamContext { codec, workspace, now: CodecTime::Micros(now) };
        slots.cancel_expired_drains(timeout, &mut context, wear);
    }

    /// Wakes exchanges whose streams can send again.
    fn wake_writable(&mut self, now: u64) {
        while let Some(turn) = self.codec.next_turn(now) {
            self.codec.unqueue(turn.stream);
            self.with_codec_stream(turn.stream, |_| ());
        }
    }

    pub(super) fn slot_mut(&mut self, slot: usize) -> &mut SlotStream {
        self.slots.get_mut(slot)
    }
}

/// Whether an I/O error means that the endpoint is unreachable, as opposed to having closed the connection.
fn is_unreachable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}
