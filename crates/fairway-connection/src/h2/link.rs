//! A connection to an endpoint that exchanges share, and what drives it: a task of its own reads and writes, exchanges act
//! on the codec and leave their wakers.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::fields::Limits;
use fairway_http2::{Asks, By, Client, Code, Config, Event, Note, Timeouts, Wait};
use fairway_net::clock::{Deadline, Instant};
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};

use super::carried::{Carried, Fate, HeadFacts, Lent, RESET_PING};
use super::stream::{Arrival, Follow, Time, Tools};
use super::wear::Wear;

/// How much one read may bring.
const READ: usize = 64 * 1024;

/// Reads in one turn of the task: other connections come first then.
const TURN: usize = 16;

/// How long an endpoint may take nothing of what waits for it.
const WRITE: Duration = Duration::from_secs(60);

/// How long an endpoint may say nothing while streams are open before it gets a PING, in microseconds. Servers of gRPC take
/// one in five minutes, and end the connection of a client that sends more while they have nothing to say.
const SILENCE: u32 = 310_000_000;

/// After so much silence an endpoint is asked whether it is there before it gets a request, in microseconds.
const DOUBT: u64 = 10_000_000;

/// How long the rest of a body may take that nobody wants, in microseconds.
const DRAINING: u64 = 5_000_000;

/// What our PING carries that asks whether the endpoint is there.
const DOUBT_PING: [u8; 8] = *b"hello...";

/// Who hears what the codec notes.
pub(super) type Told = Box<dyn Fn(Note)>;

/// A connection to an endpoint.
pub(super) struct Link<S> {
    pub(super) core: RefCell<Core>,
    pub(super) wire: RefCell<Wire<S>>,
    pub(super) workspace: Rc<Workspace>,
    pub(super) is_secure: bool,
    /// Whether the pool has let it go: it ends with its last stream.
    is_retired: Cell<bool>,
    pub(super) told: RefCell<Option<Told>>,
    began: Instant,
    /// When something was written last.
    pub(super) written: Cell<Instant>,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    Open,
    /// It broke, or the endpoint broke a rule.
    Closed,
    /// The network gave the endpoint up.
    Unreachable,
}

/// What exchanges and the task act on.
pub(super) struct Core {
    pub(super) codec: Client,
    lent: Lent,
    driver: Option<Waker>,
    pub(super) state: LinkState,
    wear: Wear,
    /// When something came last, and when the endpoint was asked since whether it is there.
    heard: u64,
    asked: Option<u64>,
}

impl<S: Transport> Link<S> {
    /// Begins a connection, and the task that drives it.
    pub(super) fn begin(wire: Wire<S>, workspace: &Rc<Workspace>, limits: Limits) -> Rc<Self> {
        let timeouts = Timeouts { silence: SILENCE, ..Timeouts::default() };
        let connection_window = 100 * 64 * 1024;
        let config = Config { streams: 100, connection_window, limits, timeouts, ..Config::default() };
        let core = Core {
            codec: Client::new(config, 0),
            lent: Lent::default(),
            driver: None,
            state: LinkState::Open,
            wear: Wear::default(),
            heard: 0,
            asked: None,
        };
        let began = Instant::now();
        let link = Rc::new(Self {
            is_secure: wire.stream().is_secure(),
            core: RefCell::new(core),
            wire: RefCell::new(wire),
            workspace: Rc::clone(workspace),
            is_retired: Cell::new(false),
            told: RefCell::new(None),
            began,
            written: Cell::new(began),
        });
        // Its own turns are bounded, as those of a client's connection.
        tokio::task::spawn_local(tokio::task::unconstrained(drive(Rc::clone(&link))));
        link
    }

    /// The pool lets it go.
    pub(super) fn retire(&self) {
        self.is_retired.set(true);
        let mut core = self.core.borrow_mut();
        core.drain_no_more(&self.workspace, self.now(), 0);
        core.wake();
    }

    /// The codec's time.
    pub(super) fn now(&self) -> u64 {
        Time::Since(self.began).micros()
    }

    /// A stream, with what it acts with. What it writes, the task sends.
    pub(super) fn act<T>(&self, slot: usize, act: impl FnOnce(&mut Carried, &mut Tools<'_, Asks>) -> T) -> T {
        let mut core = self.core.borrow_mut();
        core.lend_memory(&self.workspace);
        let Core { codec, lent, .. } = &mut *core;
        let mut tools = Tools { codec, workspace: &self.workspace, now: Time::Since(self.began) };
        let done = act(lent.at(slot), &mut tools);
        core.send(&self.workspace);
        done
    }

    /// Opens the stream of a slot with what `head` writes.
    pub(super) fn open(&self, slot: usize, follow: Follow, head: impl FnOnce(&mut Client) -> Option<u32>) {
        let mut core = self.core.borrow_mut();
        core.lend_memory(&self.workspace);
        let Core { codec, lent, .. } = &mut *core;
        let before = codec.pending().len();
        match head(codec) {
            Some(id) => {
                lent.begin(slot, id, codec).stream.head_left(codec.pending().len() - before, follow);
            }
            // The endpoint takes fewer than it did when the slot was lent.
            None => lent.at(slot).fate = Fate::Refused,
        }
        core.send(&self.workspace);
    }

    /// Room for an exchange; `None` when there is none for now.
    pub(super) fn take_slot(&self) -> Option<usize> {
        let mut core = self.core.borrow_mut();
        if !core.has_room() && core.lent.has_drained() {
            core.drain_no_more(&self.workspace, self.now(), DRAINING);
        }
        if core.state != LinkState::Open || !core.has_room() {
            return None;
        }
        core.wear.lent();
        Some(core.lent.take())
    }

    /// Slots that exchanges have, or whose end is awaited.
    pub(super) fn lent(&self) -> usize {
        self.core.borrow().lent.taken()
    }

    /// The exchange is over.
    pub(super) fn give_back(&self, slot: usize) {
        let mut core = self.core.borrow_mut();
        let is_open = core.state == LinkState::Open && !self.is_retired.get();
        let Core { codec, lent, wear, .. } = &mut *core;
        let mut tools = Tools { codec, workspace: &self.workspace, now: Time::Since(self.began) };
        lent.leave(slot, &mut tools, wear, is_open);
        core.wake();
    }

    /// Whether new exchanges should go elsewhere: it is worn, or the endpoint takes none at all.
    pub(super) fn is_spent(&self) -> bool {
        let core = self.core.borrow();
        let takes_none = core.codec.streams_left() == 0 && core.lent.taken() == 0;
        core.state != LinkState::Open
            || core.codec.is_leaving()
            // By the time when something came last: the clock is not asked for it.
            || core.wear.is_worn(core.heard)
            || (takes_none && core.wear.unseen() == 0)
    }

    /// Whether nothing came for so long that the endpoint may have vanished.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let now = u64::try_from(now.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX);
        now.saturating_sub(self.core.borrow().heard) > DOUBT
    }

    /// Asks the endpoint whether it is there. Ready with whether it is.
    pub(super) fn poll_proven(&self, cx: &Context<'_>, slot: usize) -> Poll<bool> {
        if self.is_spent() {
            return Poll::Ready(false);
        }
        if !self.is_silent(Instant::now()) {
            return Poll::Ready(true);
        }
        let mut core = self.core.borrow_mut();
        core.carried(slot).waits(cx);
        if core.asked.is_none() {
            core.asked = Some(self.now());
            core.codec.ping(DOUBT_PING);
            core.wake();
        }
        Poll::Pending
    }

    /// It did not say so.
    pub(super) fn distrust(&self) {
        self.core.borrow_mut().wear.distrust();
    }

    fn poll(&self, cx: &mut Context<'_>, driven: &mut Driven) -> Poll<()> {
        let turn = self.poll_turn(cx, driven);
        self.tell();
        turn
    }

    /// Passes on what the codec noted.
    fn tell(&self) {
        let next = || self.core.borrow_mut().codec.noted();
        while let Some(note) = next() {
            if let Some(told) = &*self.told.borrow() {
                told(note);
            }
        }
    }

    fn poll_turn(&self, cx: &mut Context<'_>, driven: &mut Driven) -> Poll<()> {
        {
            let mut core = self.core.borrow_mut();
            if !core.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                core.driver = Some(cx.waker().clone());
            }
        }
        let now = self.now();
        for _ in 0..TURN {
            let has_read = self.read(cx, driven, now);
            self.core.borrow_mut().take_turns(now);
            let has_written = self.write(cx);
            let core = self.core.borrow();
            if core.state != LinkState::Open || (core.lent.taken() == 0 && self.is_retired.get()) {
                drop(core);
                self.end(cx);
                return Poll::Ready(());
            }
            if !has_read && !has_written {
                drop(core);
                self.core.borrow_mut().give_memory_back(&self.workspace);
                return self.poll_times(cx, driven);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn read(&self, cx: &mut Context<'_>, driven: &mut Driven, now: u64) -> bool {
        let mut core = self.core.borrow_mut();
        let mut wire = self.wire.borrow_mut();
        core.lend_memory(&self.workspace);
        match driven.held {
            Some(Wait::Flush) if core.codec.must_flush() => return false,
            None => {}
            Some(_) => {
                driven.held = None;
                wire.take_residue(|bytes| core.take(now, bytes, driven, &self.workspace));
                return true;
            }
        }
        let came =
            wire.poll_more(cx, &self.workspace, READ, |bytes| core.take(now, bytes, driven, &self.workspace));
        match came {
            Poll::Pending => return false,
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(Ok(0)) => core.cut(wire.pending(), LinkState::Closed),
            Poll::Ready(Err(error)) if is_unreachable(error.kind()) => {
                core.cut(wire.pending(), LinkState::Unreachable);
            }
            Poll::Ready(Err(_)) => core.cut(wire.pending(), LinkState::Closed),
        }
        true
    }

    fn write(&self, cx: &mut Context<'_>) -> bool {
        let mut core = self.core.borrow_mut();
        let mut wire = self.wire.borrow_mut();
        let mut moved = false;
        while !core.codec.pending().is_empty() {
            match wire.poll_write(cx, core.codec.pending()) {
                Poll::Ready(Ok(count)) => {
                    core.codec.wrote(count);
                    moved = true;
                }
                Poll::Ready(Err(_)) => {
                    core.broke(LinkState::Closed);
                    return true;
                }
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(_)) = wire.poll_flush(cx) {
            core.broke(LinkState::Closed);
        }
        if moved {
            self.written.set(Instant::now());
        }
        moved
    }

    fn poll_times(&self, cx: &mut Context<'_>, driven: &mut Driven) -> Poll<()> {
        let now = Instant::now();
        let mut core = self.core.borrow_mut();
        let waits = !core.codec.pending().is_empty();
        if waits && self.written.get() + WRITE <= now {
            core.broke(LinkState::Unreachable);
        }
        let micros = self.now();
        let mut passed = false;
        while let Some(event) =
            core.codec.deadline().filter(|at| *at <= micros).and_then(|_| core.codec.pass(micros))
        {
            passed = true;
            match event {
                Event::Reset { stream, code, .. } => core.reset(stream, code),
                Event::Closed(_) => {
                    core.broke(LinkState::Unreachable);
                    break;
                }
                _ => {}
            }
        }
        // A PING may be there without an event: it leaves now, not when its answer is due.
        let asks = !waits && !core.codec.pending().is_empty();
        if passed || asks || core.state != LinkState::Open {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let codec = core.codec.deadline().map(|at| self.began + Duration::from_micros(at));
        let write = waits.then(|| self.written.get() + WRITE);
        if let Some(next) = codec.into_iter().chain(write).min() {
            driven.deadline.set(now, next.saturating_duration_since(now));
            if driven.deadline.poll_passed(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Nothing goes through it any more.
    fn end(&self, cx: &mut Context<'_>) {
        let mut core = self.core.borrow_mut();
        if core.state == LinkState::Open {
            core.codec.go_away(self.now());
        }
        core.broke(LinkState::Closed);
        let mut wire = self.wire.borrow_mut();
        // What it does not take at once, an endpoint that is left need not know.
        let _ = wire.poll_write(cx, core.codec.pending());
        let _ = wire.poll_shutdown(cx);
    }
}

/// What the task remembers.
struct Driven {
    /// What the next head is read into.
    head: Head,
    held: Option<Wait>,
    deadline: Deadline,
}

async fn drive<S: Transport>(link: Rc<Link<S>>) {
    let mut driven = Driven { head: Head::new(), held: None, deadline: Deadline::unset() };
    poll_fn(|cx| link.poll(cx, &mut driven)).await;
}

impl Core {
    fn wake(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Memory for what is to be written: the connection has none while it waits.
    fn lend_memory(&mut self, workspace: &Workspace) {
        if let Some(memory) = self.codec.outbox_memory() {
            workspace.lend(memory);
        }
    }

    fn give_memory_back(&mut self, workspace: &Workspace) {
        if let Some(memory) = self.codec.outbox_memory() {
            workspace.take_back(memory);
        }
    }

    /// What exchanges wrote leaves.
    fn send(&mut self, workspace: &Workspace) {
        if self.codec.pending().is_empty() {
            self.give_memory_back(workspace);
        } else {
            self.wake();
        }
    }

    /// Whether the endpoint takes a stream more than those that are lent, and those that it may still count.
    fn has_room(&self) -> bool {
        let unsent = self.lent.taken().saturating_sub(self.codec.open_streams());
        self.codec.streams_left() > unsent + self.wear.unseen()
    }

    /// Takes what it can of the input; gives how much that was.
    fn take(&mut self, now: u64, bytes: &[u8], driven: &mut Driven, workspace: &Workspace) -> usize {
        let mut used = 0;
        self.hear(now);
        loop {
            let (count, event) = self.codec.receive(now, &bytes[used..], &mut driven.head);
            used += count;
            match event {
                Event::NeedMore => return used,
                Event::Wait(wait) => {
                    driven.held = Some(wait);
                    return used;
                }
                Event::Closed(_) => {
                    self.broke(LinkState::Closed);
                    return used;
                }
                Event::Head { stream, end, length, .. } => {
                    let head = &mut driven.head;
                    self.wear.heard();
                    self.with(stream, |one| one.head_came(head, HeadFacts { end, length }, count));
                    self.end_drained(stream, end, workspace, now);
                }
                // The codec resets it, as it does where it is a client.
                Event::HeadTooLarge { stream, .. } => self.reset(stream, Code::Cancel),
                Event::Data { stream, bytes, end } => {
                    self.wear.heard();
                    self.data(stream, bytes, end, workspace, now);
                }
                Event::Trailers { stream } => {
                    let head = &driven.head;
                    self.with(stream, |one| one.stream.trailers_came(head));
                    self.end_drained(stream, true, workspace, now);
                }
                Event::Reset { stream, code, by } => {
                    // What broke a rule was a piece of an answer.
                    let heard = u64::from(matches!(by, By::Us(_)));
                    self.with(stream, |one| one.received += heard);
                    self.reset(stream, code);
                    self.end_drained(stream, true, workspace, now);
                }
                Event::Pong(RESET_PING) => self.wear.seen(),
                Event::Writable { .. } => self.take_turns(now),
                // No new stream is opened; those above the last one were not acted on (RFC 9113 §6.8).
                Event::GoAway { last, .. } => self.refuse_above(last),
                // Some wait to be told what the endpoint understands.
                Event::Settings => {
                    self.lent.all_taken().filter(|one| one.fate == Fate::Unsent).for_each(|one| one.wake());
                }
                Event::Priority { .. } | Event::Pong(_) => {}
            }
        }
    }

    fn with(&mut self, stream: u32, act: impl FnOnce(&mut Carried)) {
        if let Some(slot) = self.lent.find(stream, &self.codec) {
            let carried = self.lent.at(slot);
            act(carried);
            carried.wake();
        }
    }

    fn reset(&mut self, stream: u32, code: Code) {
        self.with(stream, |one| match code {
            // A whole answer is one, whatever the endpoint thinks of the rest of the request (RFC 9113 §8.1).
            _ if one.stream.arrival == Arrival::Whole => {}
            Code::Refused => one.broke(Fate::Refused),
            _ => one.broke(Fate::Broken),
        });
    }

    fn refuse_above(&mut self, last: u32) {
        let refused = self.lent.all_taken().filter(|one| one.stream.id > last);
        refused.for_each(|one| {
            one.broke(Fate::Refused);
            one.wake();
        });
    }

    fn broke(&mut self, state: LinkState) {
        if self.state != LinkState::Open {
            return;
        }
        self.state = state;
        for one in self.lent.all_taken() {
            // What came as a whole can still be read.
            if one.fate != Fate::Refused && one.stream.arrival != Arrival::Whole {
                one.broke(Fate::Broken);
            }
            one.wake();
        }
    }

    /// The connection ends here, be it within a head: a byte of that answer came.
    fn cut(&mut self, rest: &[u8], state: LinkState) {
        if let Some(stream) = self.codec.begun(rest) {
            self.with(stream, |one| one.received += 1);
        }
        self.broke(state);
    }

    /// Something came: the endpoint is there.
    fn hear(&mut self, now: u64) {
        self.heard = now;
        if self.asked.take().is_some() {
            self.lent.all_taken().for_each(|one| one.wake());
        }
    }

    fn data(&mut self, stream: u32, bytes: &[u8], end: bool, workspace: &Workspace, now: u64) {
        let mut is_drained = false;
        self.with(stream, |one| {
            one.received += bytes.len() as u64;
            one.left = one.left.map(|left| left.saturating_sub(bytes.len() as u64));
            is_drained = one.drained_since.is_some();
            if !is_drained {
                one.stream.came(bytes, end, workspace);
            }
        });
        if is_drained {
            self.codec.consume(stream, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            self.end_drained(stream, end, workspace, now);
        }
    }

    /// The end of an answer that nobody waits for.
    fn end_drained(&mut self, stream: u32, end: bool, workspace: &Workspace, now: u64) {
        if end
            && self.lent.has_drained()
            && let Some(slot) = self.lent.find(stream, &self.codec)
            && self.lent.at(slot).drained_since.is_some()
        {
            self.lent.close(slot, &mut Tools { codec: &mut self.codec, workspace, now: Time::Is(now) });
        }
    }

    /// What is not there after so many microseconds is cancelled after all.
    fn drain_no_more(&mut self, workspace: &Workspace, now: u64, within: u64) {
        let Self { codec, lent, wear, .. } = self;
        let mut tools = Tools { codec, workspace, now: Time::Is(now) };
        lent.drain_no_more(within, &mut tools, wear);
    }

    /// Wakes exchanges that waited for room and have it now.
    fn take_turns(&mut self, now: u64) {
        while let Some(turn) = self.codec.next_to_send(now) {
            self.codec.send_no_more(turn.stream);
            self.with(turn.stream, |_| ());
        }
    }

    pub(super) fn carried(&mut self, slot: usize) -> &mut Carried {
        self.lent.at(slot)
    }
}

/// Whether nobody is there any more, as opposed to somebody who closed.
fn is_unreachable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}
