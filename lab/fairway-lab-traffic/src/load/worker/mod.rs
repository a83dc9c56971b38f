//! One thread of the generator: its connections, the line of requests that are due, and the loop around them.
//!
//! ```text
//! schedule ─ due ─► an idle connection? ─► written ─► answered ─► tally
//!                    └ no: the line ──────► the next connection that is free or newly open takes the first of it
//! ```
//!
//! A connection that ends is opened again at once; one that cannot be opened fails the first request of the line, and is
//! tried again when a request needs it. Nothing is sent twice. Shares nothing with other threads per request.

mod connections;
mod endings;
mod events;
mod lifecycle;
mod line;
pub(super) mod phase;
mod queues;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use self::phase::{End, Phase};
use self::queues::Queues;
use super::compose::Composer;
use super::dialer::Dialer;
use super::http1::Expected;
use super::plan::{Plan, Reuse};
use super::poller::{Poller, SocketEvent};
use super::schedule::Schedule;
use super::series::fine_enough;
use super::shared::{Recent, Shared};
use super::slot::{Slot, State};
use super::tally::{Exchange, Fate, Tally};
use super::transport::Scratch;

/// How often a thread that has finished looks whether it may close its connections.
const LOOK: Duration = Duration::from_millis(1);

/// One thread.
pub(super) struct Worker {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    index: usize,
    io: Io,
    slots: Vec<Slot>,
    queues: Queues,
    schedule: Schedule,
    composer: Composer,
    expected: Expected,
    tally: Tally,
    phase: Phase,
    second: Second,
}

struct Io {
    poller: Poller,
    scratch: Scratch,
    dialer: Dialer,
    happened: Vec<SocketEvent>,
    ended: Vec<(Exchange, Fate)>,
    between: Option<Between>,
}

/// What a thread does between its turns instead of sleeping.
pub type Between = Box<dyn FnMut() -> anyhow::Result<()> + Send>;

/// What happened in the running second.
struct Second {
    until: u64,
    answers: u64,
    latency: Histogram<u32>,
    errors: u64,
}

/// What a thread hands back.
pub(super) struct Report {
    pub(super) tally: Tally,
    pub(super) end: End,
    /// Connections that were open then.
    pub(super) open: usize,
}

/// Which thread of which run.
#[derive(Clone, Copy)]
pub(super) struct ThreadNumber {
    pub(super) run: u64,
    pub(super) index: usize,
}

impl Worker {
    /// # Errors
    /// A plan that cannot be carried out, or no file descriptors.
    pub(super) fn new(
        plan: Arc<Plan>,
        shared: Arc<Shared>,
        ThreadNumber { run, index }: ThreadNumber,
        between: Option<Between>,
    ) -> anyhow::Result<Self> {
        let threads = plan.shape.threads;
        let connections =
            plan.shape.connections / threads + usize::from(index < plan.shape.connections % threads);
        let composer = Composer::new(&plan, run, index)?;
        let untried = if plan.wire.reuse == Reuse::KeepAlive { connections } else { 0 };
        Ok(Self {
            index,
            io: Io {
                poller: Poller::new()?,
                scratch: Scratch::new(),
                dialer: Dialer::new(&plan, index)?,
                happened: Vec::new(),
                ended: Vec::new(),
                between,
            },
            slots: (0..connections).map(|_| Slot::empty()).collect(),
            queues: Queues { closed: (0..connections).rev().collect(), ..Queues::default() },
            schedule: Schedule::new(&plan, index, threads),
            expected: Expected::new(&plan.expect, &plan.request.method),
            tally: Tally::new(&plan, composer.fates()),
            composer,
            phase: Phase::Opening { untried },
            second: Second { until: 0, answers: 0, latency: fine_enough(), errors: 0 },
            plan,
            shared,
        })
    }

    /// Runs to the end of the plan.
    ///
    /// # Errors
    /// The system's polling failed.
    pub(super) fn run(mut self) -> anyhow::Result<Report> {
        loop {
            let mut sleep = self.sleep();
            if let Some(between) = &mut self.io.between {
                between()?;
                sleep = Some(0);
            }
            let mut happened = std::mem::take(&mut self.io.happened);
            happened.clear();
            self.io.poller.wait(sleep, &mut happened)?;
            for event in &happened {
                self.on_event(*event)?;
            }
            self.io.happened = happened;
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
                self.linger();
                self.count_tickets();
                return Ok(Report { tally: self.tally, end, open });
            }
        }
    }

    fn count_tickets(&mut self) {
        self.tally.counts.tickets += self.io.dialer.observed().take_tickets();
    }

    /// Keeps the connections until the owner lets go of them.
    fn linger(&self) {
        self.shared.threads[self.index].finished.store(true, Ordering::Release);
        while !self.shared.is_released() {
            std::thread::sleep(LOOK);
        }
    }

    fn now(&self) -> u64 {
        nanos(self.shared.origin, Instant::now())
    }

    /// What the owner of the stream may see.
    fn show(&mut self) {
        let status = &self.shared.threads[self.index];
        status.sent.store(self.tally.counts.requests, Ordering::Relaxed);
        status.ok.store(self.tally.counts.ok, Ordering::Relaxed);
        status.in_flight.store(self.queues.in_flight as u64, Ordering::Relaxed);
        status.errors.store(self.second.errors, Ordering::Relaxed);
        let is_running = matches!(self.phase, Phase::Running { .. } | Phase::Draining { .. });
        if is_running && self.now() >= self.second.until {
            self.second.until += 1_000_000_000;
            let answers = std::mem::take(&mut self.second.answers);
            let latency = std::mem::replace(&mut self.second.latency, fine_enough());
            status.show(Recent { answers, latency: Some(latency) });
        }
    }
}

fn nanos(origin: Instant, time: Instant) -> u64 {
    u64::try_from(time.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
}
