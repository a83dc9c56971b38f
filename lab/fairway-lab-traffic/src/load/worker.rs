//! One thread of the generator: its connections, the queue of due requests, and the event loop.
//!
//! ```text
//! schedule ─ due ─► an idle connection? ─► written ─► answered ─► tally
//!                    └ no: the line ──────► the next connection that is free or newly open takes the first of it
//! ```
//!
//! A closed connection is reopened at once. One that cannot be opened fails the first request in the queue and is retried
//! when a request needs it. Nothing is sent twice. Threads share nothing per request.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fairway_lab_measure::results::{Class, Tls};

use super::compose::Composer;
use super::http1::{After, Http1};
use super::http2::Http2;
use super::plan::{Pace, Plan, Protocol, Reuse};
use super::poller::{Poller, SocketEvent};
use super::quic::ReceiveBuffer;
use super::response::Expected;
use super::schedule::Schedule;
use super::shared::WorkerShared;
use super::slot::{Opening, Slot, State, Step, connect_class};
use super::thread_counts::{Exchange, RequestOutcome, Tally};
use super::transport::{Dialer, Scratch};

mod http3;

/// How often a finished thread checks whether it may close its connections.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Connections opened concurrently before the first request: a listener's backlog is finite.
const OPENING_AT_A_TIME: usize = 64;
/// How long a closed-loop user waits after a failure to connect.
const RECONNECT_DELAY_NANOS: u64 = 100_000_000;
/// Requests released between two polls of the sockets.
const BATCH: usize = 64;

/// One thread.
pub(super) struct Worker {
    plan: Arc<Plan>,
    shared: Arc<WorkerShared>,
    index: usize,
    poller: Poller,
    scratch: Scratch,
    datagrams: ReceiveBuffer,
    dialer: Dialer,
    /// Reused buffers, empty between uses.
    happened: Vec<SocketEvent>,
    ended: Vec<(Exchange, RequestOutcome)>,
    slots: Vec<Slot>,
    queues: Queues,
    /// Timers of HTTP/3 connections: time, slot and epoch. A connection whose timer was brought forward has two entries;
    /// the later one is ignored.
    timers: BinaryHeap<Reverse<(Instant, usize, u32)>>,
    schedule: Schedule,
    composer: Composer,
    expected: Expected,
    tally: Tally,
    phase: Phase,
}

/// Queues of requests and connections.
#[derive(Default)]
struct Queues {
    /// Due times of requests that wait for a connection.
    line: VecDeque<u64>,
    /// Connections that can take a request: slot and epoch.
    idle: VecDeque<(usize, u32)>,
    /// Slots without a connection.
    closed: Vec<usize>,
    /// Connections with streams that have new requests and were not polled since.
    unpolled: Vec<usize>,
    /// When waiting closed-loop users return.
    rests: VecDeque<u64>,
    /// Deadlines: time, slot, number.
    deadlines: VecDeque<(u64, usize, u64)>,
    opening: usize,
    in_flight: usize,
    number: u64,
}

/// The phase of the stream. Times are nanoseconds from the stream's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Opening connections, with this many slots not tried yet.
    Opening {
        untried: usize,
    },
    /// Ready, waiting for other threads.
    Waiting,
    Running {
        begun: u64,
    },
    /// Nothing more is due. Queued requests may be sent until then.
    Draining {
        begun: u64,
        end: u64,
        until: u64,
    },
}

/// How a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// With the last of a number of requests.
    ByNumber,
    /// At this time, nanoseconds after its start.
    At(u64),
}

/// The results of a thread.
pub(super) struct Report {
    pub(super) tally: Tally,
    pub(super) end: End,
    /// Connections open at the end.
    pub(super) open: usize,
}

impl Worker {
    /// # Errors
    /// The plan is not possible, or no file descriptors are left.
    pub(super) fn new(
        plan: Arc<Plan>,
        shared: Arc<WorkerShared>,
        run: u64,
        index: usize,
    ) -> anyhow::Result<Self> {
        let threads = plan.shape.threads;
        let connections =
            plan.shape.connections / threads + usize::from(index < plan.shape.connections % threads);
        let composer = Composer::new(&plan, run, index)?;
        let untried = if plan.wire.reuse == Reuse::KeepAlive { connections } else { 0 };
        Ok(Self {
            index,
            poller: Poller::new()?,
            scratch: Scratch::new(),
            datagrams: ReceiveBuffer::for_plan(&plan),
            dialer: Dialer::new(&plan, index)?,
            happened: Vec::new(),
            ended: Vec::new(),
            slots: (0..connections).map(|_| Slot::empty()).collect(),
            queues: Queues { closed: (0..connections).rev().collect(), ..Queues::default() },
            timers: BinaryHeap::new(),
            schedule: Schedule::new(&plan, index, threads),
            expected: Expected::new(&plan),
            tally: Tally::new(&plan, composer.fates()),
            composer,
            phase: Phase::Opening { untried },
            plan,
            shared,
        })
    }

    /// Runs to the end of the plan.
    ///
    /// # Errors
    /// Polling failed.
    pub(super) fn run(mut self) -> anyhow::Result<Report> {
        loop {
            let mut happened = std::mem::take(&mut self.happened);
            self.poller.wait(self.sleep(), &mut happened)?;
            for event in happened.drain(..) {
                self.on_event(event)?;
            }
            self.happened = happened;
            self.run_timers()?;
            self.expire();
            self.advance_phase();
            self.serve_line()?;
            self.release()?;
            self.poll_unpolled()?;
            self.open_what_is_needed();
            self.show();
            if self.shared.is_asked(self.index) {
                self.count_tickets();
                let blank = Tally::new(&self.plan, self.composer.fates());
                let counted = std::mem::replace(&mut self.tally, blank);
                self.shared.hand_over(self.index, counted);
            }
            if let Some(end) = self.finished() {
                let is_open = |slot: &&Slot| !matches!(slot.state, State::Closed);
                let open = self.slots.iter().filter(is_open).count();
                self.linger()?;
                self.close_http3();
                self.count_tickets();
                return Ok(Report { tally: self.tally, end, open });
            }
        }
    }

    fn count_tickets(&mut self) {
        self.tally.counts.tickets += self.dialer.witness.as_ref().map_or(0, |seen| seen.take_tickets());
    }

    /// Keeps the connections open until the owner releases them.
    fn linger(&mut self) -> anyhow::Result<()> {
        self.shared.threads[self.index].finished.store(true, Ordering::Release);
        while !self.shared.is_released() {
            match self.plan.wire.protocol {
                Protocol::Http3 => self.keep_alive()?,
                _ => std::thread::sleep(POLL_INTERVAL),
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        nanos(self.shared.origin, Instant::now())
    }

    /// Publishes the status for the owner of the stream.
    fn show(&self) {
        let (status, counts) = (&self.shared.threads[self.index], &self.tally.counts);
        status.ok.store(counts.ok, Ordering::Relaxed);
        status.responses.store(self.tally.responses, Ordering::Relaxed);
        status.errors.store(self.tally.errors.values().sum(), Ordering::Relaxed);
        status.in_flight.store(self.queues.in_flight as u64, Ordering::Relaxed);
    }

    /// How long to wait if no event arrives.
    fn sleep(&self) -> Option<u64> {
        match self.phase {
            Phase::Opening { .. } => Some(1_000_000),
            Phase::Waiting => {
                let started = self.shared.begun().map(|begun| nanos(self.shared.origin, begun));
                Some(started.map_or(200_000, |begun| begun.saturating_sub(self.now())))
            }
            Phase::Running { begun } => {
                let due = self.schedule.peek().map(|due| begun + due);
                let back = self.queues.rests.front().copied();
                let timer = self.timers.peek().map(|Reverse((at, ..))| nanos(self.shared.origin, *at));
                let next = due.into_iter().chain(back).chain(timer).min()?;
                Some(next.saturating_sub(self.now()))
            }
            Phase::Draining { .. } => Some(1_000_000),
        }
    }

    fn advance_phase(&mut self) {
        match self.phase {
            Phase::Opening { untried: 0 } if self.queues.opening == 0 => {
                self.shared.ready();
                self.phase = Phase::Waiting;
            }
            Phase::Opening { .. } if self.shared.is_stopped() => self.phase = Phase::Opening { untried: 0 },
            Phase::Waiting => {
                let started = match self.shared.begun() {
                    Some(begun) => nanos(self.shared.origin, begun),
                    None if self.shared.is_stopped() => self.now(),
                    None => return,
                };
                if self.now() >= started {
                    self.start_clock(started);
                }
            }
            Phase::Running { begun } => {
                let now = self.now();
                if self.shared.is_stopped() {
                    self.schedule.cut();
                }
                if self.schedule.is_over(now.saturating_sub(begun)) {
                    self.drain(begun, now);
                }
            }
            _ => {}
        }
    }

    fn start_clock(&mut self, started: u64) {
        self.phase = Phase::Running { begun: started };
        if self.plan.pace == Pace::Closed {
            let users = match (self.plan.wire.reuse, self.plan.wire.protocol) {
                (Reuse::OneAfterTheOther, _) => 1,
                (_, Protocol::Http2 | Protocol::Http3) => self.slots.len() * self.plan.shape.streams,
                (_, Protocol::Http1 | Protocol::Datagrams) => self.slots.len(),
            };
            for _ in 0..users {
                self.user_is_free();
            }
        }
    }

    fn drain(&mut self, started: u64, now: u64) {
        let planned = self.planned_end(started);
        let is_cut = self.shared.is_stopped() || self.plan.bounds.requests.is_some();
        let end = if is_cut { now.min(planned) } else { planned };
        let until = end.max(now) + self.timeout();
        self.phase = Phase::Draining { begun: started, end, until };
        if self.plan.pace == Pace::Closed && (now >= planned || self.shared.is_stopped()) {
            // In a closed loop, unsent requests were not due.
            self.queues.line.clear();
        }
    }

    fn planned_end(&self, started: u64) -> u64 {
        self.plan.bounds.duration.map_or(u64::MAX, |duration| started + duration.as_nanos() as u64)
    }

    /// The end of the plan, if everything is complete.
    fn finished(&mut self) -> Option<End> {
        let Phase::Draining { begun, end, until } = self.phase else { return None };
        let now = self.now();
        if now >= until {
            while let Some(due) = self.queues.line.pop_front() {
                let text = "no connection was free before the end".to_owned();
                self.fail_unsent(due, Class::NotSent, text);
            }
        }
        if !self.queues.line.is_empty() || self.queues.in_flight > 0 || now < end {
            return None;
        }
        let by_number = end < self.planned_end(begun) && !self.shared.is_stopped();
        Some(if by_number { End::ByNumber } else { End::At(end.saturating_sub(begun)) })
    }

    /// Opens as many connections as requests are waiting; before the first request, all of them.
    fn open_what_is_needed(&mut self) {
        if let Phase::Opening { untried } = self.phase {
            let mut to_open = untried;
            while to_open > 0 && self.queues.opening < OPENING_AT_A_TIME {
                // Failed slots precede the ones not tried yet.
                let Some(index) = self.queues.closed.first().copied() else { break };
                self.queues.closed.remove(0);
                to_open -= 1;
                self.open(index);
            }
            self.phase = Phase::Opening { untried: to_open };
            return;
        }
        while self.queues.line.len() > self.queues.opening {
            let Some(index) = self.queues.closed.pop() else { return };
            self.open(index);
        }
    }

    fn open(&mut self, index: usize) {
        self.queues.number += 1;
        let number = self.queues.number;
        self.queues.opening += 1;
        let opened = match self.plan.wire.protocol {
            Protocol::Http3 => self.open_http3(index, number),
            _ => self.dialer.dial().and_then(|transport| {
                self.slots[index].start(Opening::new(transport, number), index, &self.poller)
            }),
        };
        match opened {
            Ok(()) => {
                let deadline = self.now() + self.timeout();
                self.queues.deadlines.push_back((deadline, index, number));
            }
            Err(error) => self.not_opened(index, connect_class(&error), error.to_string()),
        }
    }

    fn handle_opened(&mut self, index: usize) -> anyhow::Result<()> {
        let slot = &mut self.slots[index];
        let State::Opening(opening) = std::mem::replace(&mut slot.state, State::Closed) else {
            return Ok(());
        };
        if let Some((class, text)) = opening.refusal(self.plan.wire.protocol) {
            self.not_opened(index, class, text);
            return Ok(());
        }
        let signature = || self.dialer.witness.as_ref().and_then(|seen| seen.signature());
        let settled =
            opening.transport.settled().map(|(kind, tls)| (kind, Tls { signature: signature(), ..tls }));
        if self.plan.wire.protocol == Protocol::Http2 {
            match Http2::new(opening.transport, &opening.sent_bytes) {
                Ok(http2) => slot.state = State::Http2(Box::new(http2)),
                Err(error) => {
                    self.not_opened(index, Class::ConnectOther, error);
                    return Ok(());
                }
            }
        } else {
            slot.state = State::Http1(Http1::new(opening.transport));
        }
        self.queues.opening -= 1;
        self.tally.connected(settled);
        self.update_interest(index)?;
        if self.plan.wire.protocol == Protocol::Http2 {
            self.poll_later(index);
            self.offer(index);
        } else {
            self.queues.idle.push_back((index, self.slots[index].epoch));
        }
        Ok(())
    }

    /// Handles a failure to connect: fails the first request in the queue.
    fn not_opened(&mut self, index: usize, class: Class, text: String) {
        self.queues.opening -= 1;
        self.slots[index].clear(false);
        self.queues.closed.push(index);
        if let Some(due) = self.queues.line.pop_front() {
            self.fail_unsent(due, class, text);
            if self.plan.pace == Pace::Closed {
                self.queues.rests.push_back(self.now() + RECONNECT_DELAY_NANOS);
            }
        }
    }

    /// Closes a connection; opens another at once if connections are kept between requests.
    fn close(&mut self, index: usize, orderly: bool) {
        let slot = &mut self.slots[index];
        slot.clear(orderly);
        let is_wanted = self.plan.wire.reuse == Reuse::KeepAlive
            && matches!(self.phase, Phase::Running { .. })
            && slot.was_used;
        if is_wanted {
            self.open(index);
        } else {
            self.queues.closed.push(index);
        }
    }

    fn update_interest(&mut self, index: usize) -> anyhow::Result<()> {
        Ok(self.slots[index].settle_interest(index, &self.poller)?)
    }

    /// Dispatches due requests to connections or queues them.
    fn release(&mut self) -> anyhow::Result<()> {
        let Phase::Running { begun } = self.phase else { return Ok(()) };
        while self.queues.rests.front().is_some_and(|back| *back <= self.now()) {
            self.queues.rests.pop_front();
            self.user_is_free();
        }
        for _ in 0..BATCH {
            let Some(offset) = self.schedule.peek() else { break };
            let (due, now) = (begun + offset, self.now());
            if due > now {
                break;
            }
            self.schedule.advance();
            self.tally.due(offset, now - due);
            self.queues.line.push_back(due);
            self.serve_line()?;
        }
        Ok(())
    }

    /// Lets a closed-loop user send its next request, if time is left.
    fn user_is_free(&mut self) {
        if let (Pace::Closed, Phase::Running { begun }) = (self.plan.pace, self.phase) {
            let now = self.now();
            if self.schedule.start(now.saturating_sub(begun)) {
                self.queues.line.push_back(now);
            }
        }
    }

    /// Dispatches queued requests to idle connections.
    fn serve_line(&mut self) -> anyhow::Result<()> {
        while !self.queues.line.is_empty() {
            let Some(index) = self.take_idle() else { break };
            let Some(due) = self.queues.line.pop_front() else { break };
            self.dispatch(index, due)?;
        }
        Ok(())
    }

    fn take_idle(&mut self) -> Option<usize> {
        while let Some((index, epoch)) = self.queues.idle.pop_front() {
            let slot = &mut self.slots[index];
            if slot.epoch != epoch {
                continue;
            }
            slot.is_offered = false;
            if slot.has_room(self.plan.shape.streams) != Some(false) {
                return Some(index);
            }
        }
        None
    }

    /// Writes a request to a connection that can carry it.
    fn dispatch(&mut self, index: usize, due: u64) -> anyhow::Result<()> {
        let now = self.now();
        let due = self.intended(due, now);
        // In a closed loop a request is due when it can be sent; in an open loop it was counted when released.
        let counts = (self.plan.pace == Pace::Closed).then(|| self.since_begun(due));
        self.queues.number += 1;
        let number = self.queues.number;
        let exchange = Exchange { due, sent: now, number };
        let deadline = now + self.timeout();
        let slot = &mut self.slots[index];
        slot.was_used = true;
        let is_sent = match &mut slot.state {
            State::Http1(http1) => {
                if let Some(at) = counts {
                    self.tally.due(at, 0);
                }
                self.queues.in_flight += 1;
                self.queues.deadlines.push_back((deadline, index, number));
                if let Err(error) = http1.send(self.composer.http1(number), exchange) {
                    let ended = http1.write_failed(&error);
                    self.close(index, false);
                    self.finish_exchange(ended);
                } else {
                    self.update_interest(index)?;
                }
                return Ok(());
            }
            State::Http2(http2) => http2.send(self.composer.http2(number), exchange),
            State::Http3(http3) => http3.send(self.composer.http3(number), exchange),
            State::Closed | State::Opening(_) => false,
        };
        if is_sent {
            if let Some(at) = counts {
                self.tally.due(at, 0);
            }
            self.queues.in_flight += 1;
            self.queues.deadlines.push_back((deadline, index, number));
        } else {
            // It was not sent; put it back.
            self.queues.line.push_front(due);
        }
        self.poll_later(index);
        self.offer(index);
        Ok(())
    }

    /// The intended time: in an open loop, the schedule's; in a closed one, when the request is sent or, with a connection
    /// per request, when the connection is started.
    fn intended(&self, due: u64, now: u64) -> u64 {
        if self.plan.pace == Pace::Closed && self.plan.wire.reuse == Reuse::KeepAlive { now } else { due }
    }

    /// Queues a connection with streams for one poll before the sockets are polled again, however many requests it was
    /// given.
    fn poll_later(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.has_room(1).is_some() && !std::mem::replace(&mut slot.is_unpolled, true) {
            self.queues.unpolled.push(index);
        }
    }

    /// Queues a connection with streams as idle, once, while it has room. If connections are used once and kept, it stays
    /// queued until it is used.
    fn offer(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if self.plan.wire.reuse == Reuse::OneAfterTheOther && slot.was_used {
            return;
        }
        if !slot.is_offered && slot.has_room(self.plan.shape.streams) == Some(true) {
            slot.is_offered = true;
            self.queues.idle.push_back((index, slot.epoch));
        }
    }

    fn on_event(&mut self, event: SocketEvent) -> anyhow::Result<()> {
        let (index, epoch) = ((event.token & u64::from(u32::MAX)) as usize, (event.token >> 32) as u32);
        let slot = &mut self.slots[index];
        if slot.epoch != epoch {
            return Ok(());
        }
        match &mut slot.state {
            State::Closed => {}
            State::Opening(opening) => match opening.step(&mut self.scratch) {
                Step::Wait => self.update_interest(index)?,
                Step::Ready => self.handle_opened(index)?,
                Step::Failed(class, text) => self.not_opened(index, class, text),
            },
            State::Http1(http1) => {
                if event.writable
                    && let Err(error) = http1.transport.flush()
                {
                    let ended = http1.write_failed(&error);
                    self.close(index, false);
                    self.finish_exchange(ended);
                    return Ok(());
                }
                if event.readable {
                    self.read_http1(index)?;
                }
                self.update_interest(index)?;
            }
            State::Http2(http2) => {
                http2.pipe.borrow_mut().record_progress();
                self.pump(index)?;
            }
            State::Http3(_) => {
                if event.writable {
                    self.poll_later(index);
                }
                if event.readable {
                    self.receive_http3(index)?;
                }
            }
        }
        Ok(())
    }

    fn read_http1(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http1(http1) = &mut self.slots[index].state else { return Ok(()) };
        let had_request = http1.current().is_some();
        let (after, ended) = http1.receive(&mut self.scratch, &self.expected);
        self.tally.counts.bytes += http1.take_received();
        let is_orderly = matches!(ended, None | Some((_, RequestOutcome::Answered { .. })));
        match after {
            After::Busy => {}
            // Closing a datagram socket notifies no peer.
            After::Free if self.plan.wire.reuse == Reuse::ConnectionPerRequest => {
                self.close(index, self.expected.echo.is_none());
            }
            After::Free if self.plan.wire.reuse == Reuse::OneAfterTheOther => {}
            After::Free if had_request => self.queues.idle.push_back((index, self.slots[index].epoch)),
            After::Free => {}
            After::Over => self.close(index, is_orderly),
        }
        self.finish_exchange(ended);
        Ok(())
    }

    fn pump(&mut self, index: usize) -> anyhow::Result<()> {
        let slot = &mut self.slots[index];
        slot.is_unpolled = false;
        let State::Http2(http2) = &mut slot.state else { return Ok(self.transmit_http3(index)?) };
        let flushed = http2.pipe.borrow_mut().transport.flush();
        let mut ended = std::mem::take(&mut self.ended);
        http2.pump(&self.expected, &mut ended);
        self.tally.counts.bytes += http2.pipe.borrow_mut().take_received();
        if http2.is_over() || (flushed.is_err() && http2.in_flight() == 0) {
            self.close(index, true);
        } else {
            self.update_interest(index)?;
            self.offer(index);
        }
        for one in ended.drain(..) {
            self.finish_exchange(Some(one));
        }
        self.ended = ended;
        Ok(())
    }

    fn poll_unpolled(&mut self) -> anyhow::Result<()> {
        while let Some(index) = self.queues.unpolled.pop() {
            self.pump(index)?;
            self.serve_line()?;
        }
        Ok(())
    }

    /// Records a finished request and frees its user.
    fn finish_exchange(&mut self, ended: Option<(Exchange, RequestOutcome)>) {
        if let Some((exchange, fate)) = ended {
            self.queues.in_flight -= 1;
            self.record(exchange, fate);
            self.user_is_free();
        }
    }

    fn record(&mut self, exchange: Exchange, fate: RequestOutcome) {
        let now = self.now();
        let end = match self.phase {
            Phase::Draining { end, .. } => self.since_begun(end),
            _ => u64::MAX,
        };
        let exchange = Exchange {
            due: self.since_begun(exchange.due),
            sent: self.since_begun(exchange.sent),
            number: exchange.number,
        };
        self.tally.record_exchange(exchange, fate, self.since_begun(now), end);
    }

    /// Fails a queued request that was never written.
    fn fail_unsent(&mut self, due: u64, class: Class, text: String) {
        if self.plan.pace == Pace::Closed {
            let at = self.since_begun(due);
            self.tally.due(at, 0);
        }
        self.record(Exchange { due, sent: due, number: 0 }, RequestOutcome::Failed(class, text));
    }

    fn since_begun(&self, time: u64) -> u64 {
        match self.phase {
            Phase::Running { begun } | Phase::Draining { begun, .. } => time.saturating_sub(begun),
            Phase::Opening { .. } | Phase::Waiting => 0,
        }
    }

    fn timeout(&self) -> u64 {
        self.plan.bounds.timeout.as_nanos() as u64
    }

    /// Fails everything whose deadline has passed.
    fn expire(&mut self) {
        while let Some((at, index, number)) = self.queues.deadlines.front().copied() {
            if at > self.now() {
                return;
            }
            self.queues.deadlines.pop_front();
            match &mut self.slots[index].state {
                State::Opening(opening) if opening.number == number => {
                    let (class, text) = opening.give_up();
                    self.not_opened(index, class, text);
                }
                State::Http1(http1) if http1.current().is_some_and(|current| current.number == number) => {
                    let ended = http1.give_up();
                    self.close(index, false);
                    self.finish_exchange(
                        ended.map(|(exchange, class, text)| (exchange, RequestOutcome::Failed(class, text))),
                    );
                }
                State::Http2(http2) => {
                    if let Some(ended) = http2.give_up(number) {
                        self.poll_later(index);
                        self.finish_exchange(Some(ended));
                    }
                }
                State::Http3(http3) if http3.opening() == Some(number) => {
                    let text = "the QUIC handshake did not end in time".to_owned();
                    self.not_opened(index, Class::ConnectTimeout, text);
                }
                State::Http3(http3) => {
                    if let Some(ended) = http3.give_up(number) {
                        self.poll_later(index);
                        self.finish_exchange(Some(ended));
                    }
                }
                _ => {}
            }
        }
    }
}

fn nanos(origin: Instant, time: Instant) -> u64 {
    u64::try_from(time.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
}
