//! A client's HTTP/2 connection: reads frames, runs an exchange for each stream, and writes once for all of them.
//!
//! ```text
//!          ┌────────────────────────────── turn ─────────────────────────────┐
//! bytes ──►│ read: events of the codec ─► poll exchanges that are ready ─► write │──► bytes
//!          └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A stream that the client resets is only marked: its exchange sees that at its next step, ends, is logged, and frees its
//! slot. Until then the stream counts as open, which bounds how fast a client can open and reset streams.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::h2::{H2Side, SharedStreams, Streams};
use fairway_connection::sides::Arrival;
use fairway_http::{Malformed, Version};
use fairway_http2::fields::Limits;
use fairway_http2::{Config, Event, Timeouts, Wait};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::slots::{MOST, Slots};
use fairway_net::spread::Share;
use fairway_net::transport::Transport;
use fairway_net::turns::go_on_later;
use fairway_net::wire::{Wire, Workspace};

use super::arrival::{arrival, switch};
use super::exchanges::{self, Exchanges};
use super::ledger::Ledger;
use crate::exchange::{Request, exchange};
use crate::inspection::ClientProtocol;
use crate::metrics::count;
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{Open, Worker};

/// How much one read may bring.
const READ: usize = 64 * 1024;

/// Polls of exchanges, and reads counted as several, in one turn of the task: other connections come first then.
const TURN: usize = 256;

/// A connection without streams keeps its memory so long.
const REST: Duration = Duration::from_secs(1);

/// How long the client may take to notice that the connection ends.
const LINGER: Duration = Duration::from_secs(2);

/// What an exchange gives back.
type Over = exchanges::Over<H2Side>;

/// Serves streams until the connection ends.
pub(crate) fn serve<N: Network, S: Transport>(
    mut open: Open<N>,
    peer: Peer,
    wire: Wire<S>,
    share: Share,
) -> impl Future<Output = ()> {
    open.served_by(peer.listener, ClientProtocol::Http2);
    let frames = open.reuse.frames.of(exchange::<N, H2Side>);
    let slots = Slots::new(frames);
    let connection = Connection::new(&open, peer, wire, slots);
    // Its own turns are bounded; a budget of the runtime would end within one, and leave exchanges that were not asked.
    tokio::task::unconstrained(run(open, share, Box::new(connection), exchange::<N, H2Side>))
}

async fn run<N: Network, S: Transport, F: Future<Output = Over>>(
    open: Open<N>,
    _share: Share,
    mut connection: Box<Connection<N, S, F>>,
    begin: impl Fn(Request<N, H2Side>) -> F,
) {
    let worker = &*open;
    let _registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
    poll_fn(|cx| connection.poll(cx, worker, &begin)).await;
    connection.ledger.look(worker, &mut connection.streams.borrow_mut().codec);
    if connection.stage != Stage::Broken {
        let _ = tokio::time::timeout(LINGER, connection.linger()).await;
    }
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// What waits is written, and nothing is read any more.
    Closing,
    /// Nobody is there: exchanges end, and that is all.
    Broken,
}

/// What is to be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// What was read already.
    Residue,
    /// More.
    Hungry,
    /// Nothing until this has happened.
    Held(Wait),
    /// Nothing any more.
    Over,
}

/// A connection.
struct Connection<N: Network, S, F> {
    wire: Wire<S>,
    workspace: Rc<Workspace>,
    streams: SharedStreams,
    exchanges: Exchanges<N, H2Side, F>,
    ledger: Ledger,
    stage: Stage,
    reading: Reading,
    clock: Clock,
}

/// The times of a connection.
struct Clock {
    began: Instant,
    /// Of the last byte written, or when nothing waited to be.
    moved: Instant,
    /// When a stream was open last. Frames without one keep no connection open.
    used: Instant,
    /// How many streams there had been at the last look.
    seen_streams: u64,
    /// Whether none was open then.
    was_idle: bool,
    deadline: Deadline,
    /// How many streams there had been when memory was given back.
    rested_after: u64,
    /// Whether it ended because nothing was asked for.
    is_ending: bool,
}

impl Clock {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            moved: now,
            used: now,
            seen_streams: 0,
            was_idle: true,
            deadline: Deadline::unset(),
            rested_after: 0,
            is_ending: false,
        }
    }

    /// Notes at the end of a turn whether anything waits to be written, how many streams there have been, and whether none is
    /// open.
    fn look(&mut self, now: Instant, waits: bool, streams: u64, is_idle: bool) {
        if !waits {
            self.moved = now;
        }
        if !is_idle || !self.was_idle || self.seen_streams != streams {
            (self.used, self.seen_streams, self.was_idle) = (now, streams, is_idle);
        }
    }

    /// The codec's time.
    fn micros(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }
}

impl<N: Network, S: Transport, F: Future<Output = Over>> Connection<N, S, F> {
    fn new(worker: &Rc<Worker<N>>, peer: Peer, wire: Wire<S>, slots: Slots<F>) -> Self {
        let now = Instant::now();
        let head = worker.options.limits.head();
        let limits = Limits { list_bytes: head.head_bytes, fields: u32::from(head.fields) };
        let adopted = worker.adopted();
        let clients = adopted.clients(peer.listener);
        let streams = clients.streams.clamp(1, MOST as u32);
        let head = u32::try_from(clients.head_timeout.as_micros()).unwrap_or(u32::MAX);
        let timeouts = Timeouts { head, ..Timeouts::default() };
        let config = Config { streams, limits, extended_connect: true, timeouts, ..Config::default() };
        let workspace = Rc::clone(&worker.reuse.workspace);
        let streams = Streams::begin(config, 0, wire.peer(), &workspace);
        let clock = Clock::new(now);
        let (stage, reading) = (Stage::Open, Reading::Residue);
        Self {
            wire,
            workspace,
            streams,
            ledger: Ledger::new(worker, peer.client),
            exchanges: Exchanges::new(slots, peer),
            stage,
            reading,
            clock,
        }
    }

    /// Ready when the connection is over, but for what the client may still read.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H2Side>) -> F,
    ) -> Poll<()> {
        self.exchanges.slots.listen(cx);
        {
            let mut streams = self.streams.borrow_mut();
            streams.now = self.clock.micros(Instant::now());
            streams.lend_memory();
        }
        self.drain(worker);
        let mut polled = 0;
        loop {
            let has_read = self.read(cx, worker, begin);
            let round = self.poll_exchanges(worker);
            polled += round + 8 * usize::from(has_read);
            let has_written = self.write(cx);
            if self.is_over() {
                return Poll::Ready(());
            }
            if polled > TURN {
                go_on_later(cx);
                break;
            }
            if round == 0 && !has_read && !has_written && self.exchanges.slots.rest() {
                break;
            }
        }
        self.exchanges.loan = None;
        {
            let mut streams = self.streams.borrow_mut();
            self.ledger.look(worker, &mut streams.codec);
            streams.give_memory_back();
        }
        self.poll_times(cx, worker)
    }

    /// Tells the client where no more streams are taken.
    fn drain(&mut self, worker: &Rc<Worker<N>>) {
        if self.exchanges.is_to_go(worker) {
            let now = self.clock.micros(Instant::now());
            self.streams.borrow_mut().codec.go_away(now);
        }
    }

    /// Reads once. Says whether something came.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Rc<Worker<N>>,
        begin: &impl Fn(Request<N, H2Side>) -> F,
    ) -> bool {
        if self.stage != Stage::Open || !self.may_read() {
            return false;
        }
        let Self { wire, workspace, streams, exchanges, reading, clock, .. } = self;
        let now = Instant::now();
        let micros = clock.micros(now);
        let mut intake = Intake { worker, streams, exchanges, begin };
        let mut next = Reading::Hungry;
        let take = |bytes: &[u8]| {
            let used;
            (used, next) = intake.take(micros, bytes);
            used
        };
        let came = if *reading == Reading::Residue {
            wire.take_residue(take);
            Poll::Ready(Ok(1))
        } else {
            wire.poll_more(cx, workspace, READ, take)
        };
        match came {
            Poll::Pending => return false,
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(Ok(0) | Err(_)) => self.break_off(),
        }
        self.reading = next;
        if next == Reading::Over && self.stage == Stage::Open {
            self.close();
        }
        true
    }

    /// Whether what held reading up is over.
    fn may_read(&mut self) -> bool {
        let is_over = match self.reading {
            Reading::Hungry | Reading::Residue => return true,
            Reading::Held(Wait::Flush) => !self.streams.borrow().codec.must_flush(),
            Reading::Held(Wait::Release) => !self.streams.borrow().codec.is_full(),
            Reading::Over => false,
        };
        if is_over {
            self.reading = Reading::Residue;
        }
        is_over
    }

    fn poll_exchanges(&mut self, worker: &Worker<N>) -> usize {
        let Self { exchanges, streams, .. } = self;
        streams.borrow_mut().take_turns(|slot| exchanges.slots.ring(slot));
        let waiting = streams.borrow().unanswered();
        exchanges.poll(worker, waiting, |slot| streams.borrow_mut().close(slot))
    }

    /// Writes what waits. Says whether something was written, so that there is room for exchanges and reading may go on, or the
    /// client has gone.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.stage == Stage::Broken {
            return false;
        }
        let Self { wire, streams, clock, .. } = self;
        let mut shared = streams.borrow_mut();
        let mut failed = false;
        let mut moved = false;
        while !shared.codec.pending().is_empty() {
            match wire.poll_write(cx, shared.codec.pending()) {
                Poll::Ready(Ok(count)) => {
                    shared.codec.wrote(count);
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
            clock.moved = Instant::now();
        }
        drop(shared);
        if failed {
            self.break_off();
        }
        moved || failed
    }

    /// The client has gone.
    fn break_off(&mut self) {
        self.end(Stage::Broken);
    }

    /// The connection ends with an error that the client is told.
    fn close(&mut self) {
        self.end(Stage::Closing);
    }

    fn end(&mut self, stage: Stage) {
        self.stage = stage;
        self.exchanges.let_all_go();
        for slot in self.streams.borrow_mut().all_broke() {
            self.exchanges.slots.ring(slot);
        }
    }

    fn is_over(&self) -> bool {
        let streams = self.streams.borrow();
        let idle = streams.open_streams() == 0;
        match self.stage {
            Stage::Broken => idle,
            Stage::Closing => idle && streams.codec.pending().is_empty(),
            Stage::Open => idle && streams.codec.is_done() && streams.codec.pending().is_empty(),
        }
    }

    /// Sees to what is late, and waits for what will be next.
    fn poll_times(&mut self, cx: &mut Context<'_>, worker: &Rc<Worker<N>>) -> Poll<()> {
        loop {
            let now = Instant::now();
            let micros = self.clock.micros(now);
            let adopted = worker.adopted();
            let write_timeout = adopted.settings().downstream.write_timeout;
            let idle_timeout = adopted.clients(self.exchanges.peer.listener).idle_timeout;
            let (idle, waits) = {
                let streams = self.streams.borrow();
                (streams.open_streams() == 0, !streams.codec.pending().is_empty())
            };
            let served = self.exchanges.conduct.served;
            self.clock.look(now, waits, served, idle);
            let rests = self.clock.rested_after == served;
            let limit = match (waits, idle) {
                (true, _) => Some(self.clock.moved + write_timeout),
                (false, true) if rests => Some(self.clock.used + idle_timeout),
                (false, true) => Some(self.clock.used + REST.min(idle_timeout)),
                (false, false) => None,
            };
            if limit.is_some_and(|limit| limit <= now) && !waits && !rests {
                self.rest();
                continue;
            }
            if limit.is_some_and(|limit| limit <= now) && !waits && !self.clock.is_ending {
                self.clock.is_ending = true;
                self.clock.used = now;
                self.streams.borrow_mut().codec.go_away(micros);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if limit.is_some_and(|limit| limit <= now) {
                // One that takes nothing is not told either.
                self.break_off();
                if self.is_over() {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let codec = self.streams.borrow().codec.deadline();
            if codec.is_some_and(|codec| codec <= micros) {
                self.pass(micros);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.exchanges.conduct.due().is_some_and(|due| due <= now) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let codec = codec.map(|codec| self.clock.began + Duration::from_micros(codec));
            let held = self.exchanges.conduct.due();
            let Some(next) = limit.into_iter().chain(codec).chain(held).min() else { return Poll::Pending };
            self.clock.deadline.set(now, next.saturating_duration_since(now));
            if self.clock.deadline.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Time of the codec passed.
    fn pass(&mut self, now: u64) {
        loop {
            let mut streams = self.streams.borrow_mut();
            match streams.codec.pass(now) {
                None => break,
                Some(Event::Reset { stream, .. }) => {
                    if let Some(slot) = streams.slot(stream) {
                        streams.broke(slot);
                        self.exchanges.let_go(slot);
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

    /// Nothing is asked for now: memory goes back.
    fn rest(&mut self) {
        self.clock.rested_after = self.exchanges.conduct.served;
        self.exchanges.rest();
        self.streams.borrow_mut().rest();
        self.wire.rest(&self.workspace);
    }

    /// Ends our direction, and reads until the client ends its own: closing with unread input would reset what it has not
    /// read (RFC 9113 §5.4.1, RFC 9112 §9.6).
    async fn linger(&mut self) {
        let Self { wire, workspace, .. } = self;
        if poll_fn(|cx| wire.poll_shutdown(cx)).await.is_err() {
            return;
        }
        wire.take_residue(<[u8]>::len);
        while let Ok(1..) = poll_fn(|cx| wire.poll_more(cx, workspace, READ, <[u8]>::len)).await {}
    }
}

/// What events of the codec act on.
struct Intake<'c, N: Network, F, B> {
    worker: &'c Rc<Worker<N>>,
    streams: &'c SharedStreams,
    exchanges: &'c mut Exchanges<N, H2Side, F>,
    begin: &'c B,
}

impl<N: Network, F: Future<Output = Over>, B: Fn(Request<N, H2Side>) -> F> Intake<'_, N, F, B> {
    /// Takes what it can of the input; gives how much that was.
    fn take(&mut self, now: u64, bytes: &[u8]) -> (usize, Reading) {
        let mut used = 0;
        loop {
            let loan = self.exchanges.loan.get_or_insert_with(|| self.worker.lend_buffers());
            let mut streams = self.streams.borrow_mut();
            let (count, event) = streams.codec.receive(now, &bytes[used..], &mut loan.request);
            used += count;
            match event {
                Event::NeedMore => return (used, Reading::Hungry),
                Event::Wait(wait) => return (used, Reading::Held(wait)),
                Event::Closed(_) => return (used, Reading::Over),
                Event::Head { stream, end, length, protocol } => {
                    let mut arrival = arrival(&mut loan.request, Version::Http2, count, end, length);
                    if let Some(protocol) = protocol {
                        let nonce = self.worker.random(|random| random.u128(..));
                        switch(&mut loan.request, &mut arrival, protocol, length, nonce);
                    }
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.begin(slot, Ok(arrival));
                }
                Event::HeadTooLarge { stream, end } => {
                    let slot = streams.open(stream, end);
                    drop(streams);
                    self.begin(slot, Err(Malformed::HeadTooLarge));
                }
                Event::Data { stream, bytes, end } => {
                    self.at(stream, |streams, slot| streams.came(slot, bytes, end), streams);
                }
                Event::Trailers { stream } => {
                    let head = &loan.request;
                    if let Some(slot) = streams.slot(stream) {
                        streams.trailers_came(slot, head);
                        self.exchanges.slots.ring(slot);
                    }
                }
                Event::Reset { stream, .. } => {
                    if let Some(slot) = streams.slot(stream) {
                        self.exchanges.let_go(slot);
                    }
                    self.at(stream, Streams::broke, streams);
                }
                // Streams that wait for room get their turns once all was read.
                Event::Writable { .. } => {}
                Event::Priority { .. } | Event::Settings | Event::Pong(_) | Event::GoAway { .. } => {}
            }
        }
    }

    /// Acts on a stream that has a slot, and has its exchange look.
    fn at(
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

    fn begin(&mut self, slot: usize, arrival: Result<Arrival, Malformed>) {
        let Self { worker, streams, exchanges, begin } = self;
        let mut side = exchanges.side(slot, || H2Side::new(streams, slot));
        side.down.renew();
        exchanges.begin(worker, slot, side, arrival, begin);
        if exchanges.hold_back(worker, slot, streams.borrow().unanswered()) {
            count(&worker.counters.http2.held);
        }
    }
}
