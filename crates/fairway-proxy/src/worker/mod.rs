//! One worker: a thread with its own listeners, connections, pools, counters and snapshot. Nothing in it is shared.

mod admission;
mod adopted;
mod desk;
mod run;
mod shedding;
mod stopping;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use fairway_model::Settings;

use crate::access_log::{AccessLog, Switch};
use crate::clock::Instant;
use crate::metrics::{Counters, Gauges, Sample};
use crate::options::ProxyOptions;
use crate::publish::Published;
use crate::transport::Network;
use crate::upstream::budget::RetryBudget;
use crate::upstream::endpoint::PoolLimits;
use crate::upstream::{Connector, Groups, UpstreamStream};
use crate::wire::Workspace;

pub(crate) use adopted::Adopted;
pub(crate) use desk::{Desk, Parties};
pub(crate) use run::{Command, Launch, run};
pub(crate) use stopping::Phase;

use admission::Admission;

/// A stream to an endpoint, in a worker over the network `N`.
pub(crate) type ToEndpoint<N> = UpstreamStream<<N as Network>::Stream>;

/// What the connections of one thread share.
pub(crate) struct Worker<N: Network> {
    pub(crate) options: Arc<ProxyOptions>,
    pub(crate) connector: Connector<N>,
    pub(crate) groups: Groups<ToEndpoint<N>>,
    pub(crate) budget: RetryBudget,
    pub(crate) workspace: Rc<Workspace>,
    pub(crate) counters: Counters,
    pub(crate) log: AccessLog,
    adopted: RefCell<Rc<Adopted<ToEndpoint<N>>>>,
    #[expect(
        clippy::vec_box,
        reason = "a desk is large and passes through many hands: a pointer is moved instead"
    )]
    desks: RefCell<Vec<Box<Desk>>>,
    random: RefCell<fastrand::Rng>,
    admission: Admission,
}

impl<N: Network> Worker<N> {
    pub(crate) fn new(
        options: Arc<ProxyOptions>,
        network: N,
        first: &Arc<Published>,
        log: AccessLog,
    ) -> Self {
        let groups = Groups::new();
        let admission = Admission::new(options.limits.memory);
        let adopted = Rc::new(Adopted::first(first));
        log.switch(switch(adopted.settings()));
        Self {
            options,
            connector: Connector::new(network),
            groups,
            budget: RetryBudget::new(Instant::now()),
            workspace: Rc::new(Workspace::new()),
            counters: Counters::new(),
            log,
            adopted: RefCell::new(adopted),
            desks: RefCell::new(Vec::new()),
            random: RefCell::new(fastrand::Rng::new()),
            admission,
        }
    }

    /// The snapshot to serve the next exchange by.
    pub(crate) fn adopted(&self) -> Rc<Adopted<ToEndpoint<N>>> {
        Rc::clone(&self.adopted.borrow())
    }

    /// Serves by a newer snapshot from the next exchange on; exchanges in flight keep theirs.
    pub(crate) fn adopt(&self, published: &Arc<Published>) {
        let older = self.adopted();
        if older.is(published) {
            return;
        }
        self.connector.forget_tls();
        let next = Rc::new(Adopted::next(published, &older, &self.groups));
        self.log.switch(switch(next.settings()));
        *self.adopted.borrow_mut() = next;
        self.counters.adoptions.set(self.counters.adoptions.get() + 1);
    }

    /// What is kept of idle connections to endpoints.
    pub(crate) fn pool_limits(&self) -> PoolLimits {
        let adopted = self.adopted.borrow();
        let upstream = &adopted.settings().upstream;
        PoolLimits {
            idle_connections: upstream.idle_connections as usize,
            idle_timeout: upstream.idle_timeout,
            requests: upstream.requests_per_connection,
        }
    }

    /// Once a second.
    pub(crate) fn tick(&self) {
        self.groups.sweep(&self.pool_limits(), Instant::now());
        self.log.flush();
    }

    /// What was counted until now.
    pub(crate) fn sample(&self) -> Sample {
        let gauges = Gauges {
            upstream_idle: self.groups.idle_connections() as u64,
            log_dropped: self.log.dropped(),
            adoption: self.counters.adoption.get(),
            shedding_workers: u64::from(self.is_shedding()),
        };
        self.counters.sample(gauges)
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    /// Whether new work is refused for want of memory.
    pub(crate) fn is_shedding(&self) -> bool {
        self.admission.shedding.is_on()
    }

    /// Whether there is a memory budget to hold.
    pub(crate) fn has_memory_budget(&self) -> bool {
        self.admission.shedding.has_budget()
    }

    /// Looks at the memory of the process. Above the budget, what is only kept for speed goes first.
    pub(crate) fn watch_memory(&self) {
        self.admission.shedding.look();
        if self.is_shedding() {
            self.desks.borrow_mut().clear();
            self.groups.sweep(&PoolLimits { idle_connections: 0, ..self.pool_limits() }, Instant::now());
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.admission.stopping.phase()
    }

    /// Moves towards the end, and wakes idle connections so that they see it.
    pub(crate) fn enter(&self, phase: Phase) {
        self.admission.stopping.enter(phase);
    }

    /// Waits until the worker drains.
    pub(crate) async fn draining(&self) {
        self.admission.stopping.draining().await;
    }

    /// A connection that is to be woken when the phase changes; the number is for [`Worker::unregister`].
    pub(crate) fn register(&self, waker: &Waker) -> usize {
        self.admission.stopping.register(waker)
    }

    pub(crate) fn unregister(&self, slot: usize) {
        self.admission.stopping.unregister(slot);
    }

    pub(crate) fn take_desk(&self) -> Box<Desk> {
        self.desks.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_desk(&self, mut desk: Box<Desk>) {
        let mut desks = self.desks.borrow_mut();
        if desks.len() < Desk::SPARES {
            desk.trim();
            desks.push(desk);
        }
    }
}

fn switch(settings: &Settings) -> Switch {
    match settings.access_log {
        Some(fairway_model::AccessLog::Off) => Switch::Off,
        Some(fairway_model::AccessLog::On) | None => Switch::On,
    }
}
