//! A downstream HTTP/2 connection: reads frames, runs one exchange per stream, and writes once for all of them.
//!
//! ```text
//!          ┌────────────────────────────── turn ─────────────────────────────┐
//! bytes ──►│ read: events of the codec ─► poll exchanges that are ready ─► write │──► bytes
//!          └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A stream reset by the client is only marked: its exchange sees that at its next step, ends, is logged, and
//! frees its slot. Until then the stream counts as open, which bounds how fast a client can open and reset
//! streams.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::h2::{H2Downstream, SharedStreams, Streams};
use fairway_connection::sides::RequestMeta;
use fairway_http::{Malformed, Version};
use fairway_http2::fields::Limits;
use fairway_http2::{Config, Event, Timeouts, Wait};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::slots::{ExchangeSlots, MAX_SLOTS};
use fairway_net::spread::SpreadConnection;
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};
use fairway_net::yielding::go_on_later;

use super::accounting::ConnectionLedger;
use super::exchanges::{self, Exchanges};
use super::request_head::{read_arrival, upgrade_connect};
use crate::exchange::{Request, exchange};
use crate::inspection::ClientProtocol;
use crate::metrics::increment;
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{OpenConnection, Worker};

/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// Polls of exchanges per turn of the task, a read counting as several; then other connections get their turn.
const MAX_POLLS_PER_TURN: usize = 256;

/// How long a connection without streams keeps its memory.
const MEMORY_RELEASE_DELAY: Duration = Duration::from_secs(1);

/// How long the client may take to notice that the connection ends.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of an exchange.
type FinishedExchange = exchanges::FinishedExchange<H2Downstream>;

/// Serves streams until the connection ends.
pub(crate) fn serve<N: Network, S: Transport>(
    mut open: OpenConnection<N>,
    peer: Peer,
    wire: Wire<S>,
    share: SpreadConnection,
) -> impl Future<Output = ()> {
    open.set_listener(peer.listener, ClientProtocol::Http2);
    let frames = open.reuse.frames.pool_for(exchange::<N, H2Downstream>);
    let slots = ExchangeSlots::new(frames);
    let connection = Connection::new(&open, peer, wire, slots);
    // Turns are bounded here; tokio's cooperative budget would end within a turn and leave exchanges unpolled.
    tokio::task::unconstrained(run(open, share, Box::new(connection), exchange::<N, H2Downstream>))
}

async fn run<N: Network, S: Transport, F: Future<Output = FinishedExchange>>(
    open: OpenConnection<N>,
    _share: SpreadConnection,
    mut connection: Box<Connection<N, S, F>>,
    run_exchange: impl Fn(Request<N, H2Downstream>) -> F,
) {
    let worker = &*open;
    let _registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
    poll_fn(|cx| connection.poll(cx, worker, &run_exchange)).await;
    connection.ledger.update(worker, &mut connection.streams.borrow_mut().codec);
    if connection.stage != ConnectionStage::Broken {
        let _ = tokio::time::timeout(LINGER_TIMEOUT, connection.linger()).await;
    }
}

/// Stage of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    Open,
    /// Pending output is written; nothing is read any more.
    Closing,
    /// The client is gone: only the exchanges have to end.
    Broken,
}

/// What to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    /// Input that is already buffered.
    BufferedInput,
    /// More input from the socket.
    MoreInput,
    /// Nothing until the codec's condition is met.
    Blocked(Wait),
    /// Nothing any more.
    Finished,
}

/// A connection.
struct Connection<N: Network, S, F> {
    wire: Wire<S>,
    workspace: Rc<Workspace>,
    streams: SharedStreams,
    exchanges: Exchanges<N, H2Downstream, F>,
    ledger: ConnectionLedger,
    stage: ConnectionStage,
    reading: ReadState,
    clock: Clock,
}

/// Deadlines of a connection.
struct Clock {
    started_at: Instant,
    /// Time of the last write, or when no output was pending.
    last_write: Instant,
    /// When a stream was last open. Frames without a stream keep no connection open.
    last_active: Instant,
    /// Number of streams at the last update.
    last_stream_count: u64,
    /// Whether no stream was open then.
    was_idle: bool,
    deadline: Deadline,
    /// Number of streams when memory was released.
    released_after: u64,
    /// Whether it ends because it was idle.
    is_ending: bool,
}

impl Clock {
    fn new(now: Instant) -> Self {
        Self {
            started_at: now,
            last_write: now,
            last_active: now,
            last_stream_count: 0,
            was_idle: true,
            deadline: Deadline::unset(),
            released_after: 0,
            is_ending: false,
        }
    }

    /// Records at the end of a turn whether output is pending, how many streams there have been, and whether
    /// none is open.
    fn update(&mut self, now: Instant, has_pending_output: bool, streams: u64, is_idle: bool) {
        if !has_pending_output {
            self.last_write = now;
        }
        if !is_idle || !self.was_idle || self.last_stream_count != streams {
            (self.last_active, self.last_stream_count, self.was_idle) = (now, streams, is_idle);
        }
    }

    /// Time as the codec counts it.
    fn micros(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started_at).as_micros()).unwrap_or(u64::MAX)
    }
}

impl<N: Network, S: Transport, F: Future<Output = FinishedExchange>> Connection<N, S, F> {
    fn new(worker: &Rc<Worker<N>>, peer: Peer, wire: Wire<S>, slots: ExchangeSlots<F>) -> Self {
        let now = Instant::now();
        let head = worker.options.limits.head();
        let limits = Limits { list_bytes: head.head_bytes, fields: u32::from(head.fields) };
        let adopted = worker.adopted();
        let clients = adopted.client_limits(peer.listener);
        let streams = clients.streams.clamp(1, MAX_SLOTS as u32);
        let head = u32::try_from(clients.head_timeout.as_micros()).unwrap_or(u32::MAX);
        let timeouts = Timeouts { head, ..Timeouts::default() };
        let config = Config {
            max_streams: streams,
            head_limits: limits,
            extended_connect: true,
            timeouts,
            ..Config::default()
        };
        let workspace = Rc::clone(&worker.reuse.workspace);
        let streams = Streams::new(config, 0, wire.peer(), &workspace);
        let clock = Clock::new(now);
        let (stage, reading) = (ConnectionStage::Open, ReadState::BufferedInput);
        Self {
            wire,
            workspace,
            streams,
            ledger: ConnectionLedger::new(worker, peer.client),
            exchanges: Exchanges::new(slots, peer),
            stage,
            reading,
            clock,
        }
    }

    /// Ready when the connection ends, except for data the client may still read.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H2Downstream>) -> F,
    ) -> Poll<()> {
        self.exchanges.slots.listen(cx);
        {
            let mut streams = self.streams.borrow_mut();
            streams.now = self.clock.micros(Instant::now());
            streams.acquire_buffers();
        }
        self.go_away_if_needed(worker);
        let mut polled = 0;
        loop {
            let has_read = self.read(cx, worker, begin);
            let round = self.poll_exchanges(worker);
            polled += round + 8 * usize::from(has_read);
            let has_written = self.write(cx);
            if self.is_over() {
                return Poll::Ready(());
            }
            if polled > MAX_POLLS_PER_TURN {
                go_on_later(cx);
                break;
            }
            if round == 0 && !has_read && !has_written && self.exchanges.slots.is_idle() {
                break;
            }
        }
        self.exchanges.lease = None;
        {
            let mut streams = self.streams.borrow_mut();
            self.ledger.update(worker, &mut streams.codec);
            streams.release_buffers();
        }
        self.poll_deadlines(cx, worker)
    }

    /// Sends GOAWAY if no more streams are accepted.
    fn go_away_if_needed(&mut self, worker: &Rc<Worker<N>>) {
        if self.exchanges.must_go_away(worker) {
            let now = self.clock.micros(Instant::now());
            self.streams.borrow_mut().codec.go_away(now);
        }
    }

    /// Reads once. Returns whether anything arrived.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker<N>>,
        run_exchange: &impl Fn(Request<N, H2Downstream>) -> F,
    ) -> bool {
        if self.stage != ConnectionStage::Open || !self.may_read() {
            return false;
        }
        let Self { wire, workspace, streams, exchanges, reading, clock, .. } = self;
        let now = Instant::now();
        let micros = clock.micros(now);
        let mut handler = FrameHandler { worker, streams, exchanges, run_exchange };
        let mut next = ReadState::MoreInput;
        let take = |bytes: &[u8]| {
            let used;
            (used, next) = handler.receive(micros, bytes);
            used
        };
        let received = if *reading == ReadState::BufferedInput {
            wire.take_residue(take);
            Poll::Ready(Ok(1))
        } else {
            wire.poll_more(cx, workspace, READ_BYTES, take)
        };
        match received {
            Poll::Pending => return false,
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(Ok(0) | Err(_)) => self.fail_connection(),
        }
        self.reading = next;
        if next == ReadState::Finished && self.stage == ConnectionStage::Open {
            self.close();
        }
        true
    }

    /// Whether reading may continue.
    fn may_read(&mut self) -> bool {
        let is_over = match self.reading {
            ReadState::MoreInput | ReadState::BufferedInput => return true,
            ReadState::Blocked(Wait::Flush) => !self.streams.borrow().codec.must_flush(),
            ReadState::Blocked(Wait::Release) => !self.streams.borrow().codec.is_at_stream_limit(),
            ReadState::Finished => false,
        };
        if is_over {
            self.reading = ReadState::BufferedInput;
        }
        is_over
    }

    fn poll_exchanges(&mut self, worker: &Worker<N>) -> usize {
        let Self { exchanges, streams, .. } = self;
        streams.borrow_mut().grant_turns(|slot| exchanges.slots.ring(slot));
        let waiting = streams.borrow().awaiting_response();
        exchanges.poll(worker, waiting, |slot| streams.borrow_mut().close(slot))
    }

    /// Writes pending output. Returns whether something was written, which makes room for exchanges and
    /// reading, or the client is gone.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.stage == ConnectionStage::Broken {
            return false;
        }
        let Self { wire, streams, clock, .. } = self;
        let mut shared = streams.borrow_mut();
        let mut failed = false;
        let mut moved = false;
        while !shared.codec.pending().is_empty() {
            match wire.poll_write(cx, shared.codec.pending()) {
                Poll::Ready(Ok(count)) => {
                    shared.codec.mark_written(count);
                    moved = true;
                }
                Poll::Ready(Err(_)) => {
                    failed = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(_)) = wire.poll_flush(cx) {
            failed = true;
        }
        if moved {
            clock.last_write = Instant::now();
        }
        drop(shared);
        if failed {
            self.fail_connection();
        }
        moved || failed
    }

    /// The client is gone.
    fn fail_connection(&mut self) {
        self.end(ConnectionStage::Broken);
    }

    /// Ends the connection with an error that is sent to the client.
    fn close(&mut self) {
        self.end(ConnectionStage::Closing);
    }

    fn end(&mut self, stage: ConnectionStage) {
        self.stage = stage;
        self.exchanges.release_all();
        for slot in self.streams.borrow_mut().fail_all() {
            self.exchanges.slots.ring(slot);
        }
    }

    fn is_over(&self) -> bool {
        let streams = self.streams.borrow();
        let idle = streams.open_streams() == 0;
        match self.stage {
            ConnectionStage::Broken => idle,
            ConnectionStage::Closing => idle && streams.codec.pending().is_empty(),
            ConnectionStage::Open => idle && streams.codec.is_done() && streams.codec.pending().is_empty(),
        }
    }

    /// Handles expired deadlines and waits for the next one.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>, worker: &Rc<Worker<N>>) -> Poll<()> {
        loop {
            let now = Instant::now();
            let micros = self.clock.micros(now);
            let adopted = worker.adopted();
            let write_timeout = adopted.settings().downstream.write_timeout;
            let idle_timeout = adopted.client_limits(self.exchanges.peer.listener).idle_timeout;
            let (idle, has_pending_output) = {
                let streams = self.streams.borrow();
                (streams.open_streams() == 0, !streams.codec.pending().is_empty())
            };
            let served = self.exchanges.trust_level.requests_served;
            self.clock.update(now, has_pending_output, served, idle);
            let has_released_memory = self.clock.released_after == served;
            let limit = match (has_pending_output, idle) {
                (true, _) => Some(self.clock.last_write + write_timeout),
                (false, true) if has_released_memory => Some(self.clock.last_active + idle_timeout),
                (false, true) => Some(self.clock.last_active + MEMORY_RELEASE_DELAY.min(idle_timeout)),
                (false, false) => None,
            };
            if limit.is_some_and(|limit| limit <= now) && !has_pending_output && !has_released_memory {
                self.release_memory();
                continue;
            }
            if limit.is_some_and(|limit| limit <= now) && !has_pending_output && !self.clock.is_ending {
                self.clock.is_ending = true;
                self.clock.last_active = now;
                self.streams.borrow_mut().codec.go_away(micros);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if limit.is_some_and(|limit| limit <= now) {
                // A client that reads nothing cannot be told.
                self.fail_connection();
                if self.is_over() {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let codec = self.streams.borrow().codec.deadline();
            if codec.is_some_and(|codec| codec <= micros) {
                self.handle_codec_deadline(micros);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.exchanges.trust_level.due().is_some_and(|due| due <= now) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let codec = codec.map(|codec| self.clock.started_at + Duration::from_micros(codec));
            let due_requests = self.exchanges.trust_level.due();
            let Some(next) = limit.into_iter().chain(codec).chain(due_requests).min() else {
                return Poll::Pending;
            };
            self.clock.deadline.set(now, next.saturating_duration_since(now));
            if self.clock.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Handles a deadline of the codec.
    fn handle_codec_deadline(&mut self, now: u64) {
        loop {
            let mut streams = self.streams.borrow_mut();
            match streams.codec.handle_timeout(now) {
                None => break,
                Some(Event::Reset { stream, .. }) => {
                    if let Some(slot) = streams.slot(stream) {
                        streams.fail(slot);
                        self.exchanges.release_cancelled(slot);
                        self.exchanges.slots.ring(slot);
                    }
                }
                Some(Event::Closed(_)) => {
                    drop(streams);
                    self.close();
                    break;
                }
                Some(_) => {}
            }
        }
    }

    /// Releases memory while the connection is idle.
    fn release_memory(&mut self) {
        self.clock.released_after = self.exchanges.trust_level.requests_served;
        self.exchanges.release_memory();
        self.streams.borrow_mut().release_memory();
        self.wire.release_memory(&self.workspace);
    }

    /// Shuts down our direction and reads until the client ends its own: closing with unread input would reset
    /// data the client has not read (RFC 9113 §5.4.1, RFC 9112 §9.6).
    async fn linger(&mut self) {
        let Self { wire, workspace, .. } = self;
        if poll_fn(|cx| wire.poll_shutdown(cx)).await.is_err() {
            return;
        }
        wire.take_residue(<[u8]>::len);
        while let Ok(1..) = poll_fn(|cx| wire.poll_more(cx, workspace, READ_BYTES, <[u8]>::len)).await {}
    }
}

/// Handles the events of the codec.
struct FrameHandler<'c, N: Network, F, B> {
    worker: &'c Rc<Worker<N>>,
    streams: &'c SharedStreams,
    exchanges: &'c mut Exchanges<N, H2Downstream, F>,
    run_exchange: &'c B,
}

impl<N: Network, F: Future<Output = FinishedExchange>, B: Fn(Request<N, H2Downstream>) -> F>
    FrameHandler<'_, N, F, B>
{
    /// Processes as much of the input as possible; returns how much.
    fn receive(&mut self, now: u64, bytes: &[u8]) -> (usize, ReadState) {
        let mut consumed = 0;
        loop {
            let lease = self.exchanges.lease.get_or_insert_with(|| self.worker.lend_buffers());
            let mut streams = self.streams.borrow_mut();
            let (count, event) = streams.codec.receive(now, &bytes[consumed..], &mut lease.request);
            consumed += count;
            match event {
                Event::NeedMore => return (consumed, ReadState::MoreInput),
                Event::Wait(wait) => return (consumed, ReadState::Blocked(wait)),
                Event::Closed(_) => return (consumed, ReadState::Finished),
                Event::Head { stream, end, length, protocol } => {
                    let mut arrival = read_arrival(&mut lease.request, Version::Http2, count, end, length);
                    if let Some(protocol) = protocol {
                        let nonce = self.worker.random(|random| random.u128(..));
                        upgrade_connect(&mut lease.request, &mut arrival, protocol, length, nonce);
                    }
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.start_exchange(slot, Ok(arrival));
                }
                Event::HeadTooLarge { stream, end } => {
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.start_exchange(slot, Err(Malformed::HeadTooLarge));
                }
                Event::Data { stream, bytes, end } => {
                    self.with_stream(stream, |streams, slot| streams.receive(slot, bytes, end), streams);
                }
                Event::Trailers { stream } => {
                    let head = &lease.request;
                    if let Some(slot) = streams.slot(stream) {
                        streams.receive_trailers(slot, head);
                        self.exchanges.slots.ring(slot);
                    }
                }
                Event::Reset { stream, .. } => {
                    if let Some(slot) = streams.slot(stream) {
                        self.exchanges.release_cancelled(slot);
                    }
                    self.with_stream(stream, Streams::fail, streams);
                }
                // Streams waiting for room are polled once all input was processed.
                Event::Writable { .. } => {}
                Event::Priority { .. } | Event::Settings | Event::Pong(_) | Event::GoAway { .. } => {}
            }
        }
    }

    /// Acts on a stream that has a slot, and wakes its exchange.
    fn with_stream(
        &self,
        stream: u32,
        act: impl FnOnce(&mut Streams, usize),
        mut streams: std::cell::RefMut<'_, Streams>,
    ) {
        if let Some(slot) = streams.slot(stream) {
            act(&mut streams, slot);
            self.exchanges.slots.ring(slot);
        }
    }

    fn start_exchange(&mut self, slot: usize, arrival: Result<RequestMeta, Malformed>) {
        let Self { worker, streams, exchanges, run_exchange } = self;
        let mut side = exchanges.take_side(slot, || H2Downstream::new(streams, slot));
        side.down.reset();
        exchanges.start(worker, slot, side, arrival, run_exchange);
        if exchanges.hold_if_untrusted(worker, slot, streams.borrow().awaiting_response()) {
            increment(&worker.counters.http2.held_requests);
        }
    }
}
