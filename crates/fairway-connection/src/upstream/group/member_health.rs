//! Which members are fit for requests: the results of health checks, and slow start for new or recovered members. Costs
//! one comparison if the backend uses neither.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, PortProtocol};
use fairway_net::clock::Instant;

use crate::upstream::checks::{CheckState, CheckedEndpoint, HealthChecks};
use crate::upstream::endpoint::EndpointIdentity;

/// The minimum share of a new endpoint: without requests it would never recover.
const MIN_WARMUP_SHARE: f32 = 0.1;

/// The fitness of a group's members.
pub(super) struct Fitness {
    checks: HealthChecks,
    /// The check result of each member; empty if they are not checked.
    states: Box<[Arc<CheckState>]>,
    /// How many members may be out before checks are ignored.
    max_out: usize,
    /// The number of changes at the last count, and whether too many were out.
    panic: Cell<(u64, bool)>,
    slow_start: Option<Duration>,
}

impl Fitness {
    /// For members with these identities.
    pub(super) fn new<'a>(
        backend: &Backend,
        transport: PortProtocol,
        checks: &HealthChecks,
        members: impl Iterator<Item = &'a EndpointIdentity>,
    ) -> Self {
        let health = backend.traffic().health.as_deref();
        let check =
            health.and_then(|health| health.check.as_ref()).filter(|_| transport == PortProtocol::Tcp);
        let state = |(identity, check): (&EndpointIdentity, _)| {
            checks.state(&CheckedEndpoint { identity: identity.clone(), check: Arc::clone(check) })
        };
        let states: Box<[_]> = members.filter_map(|identity| Some((identity, check?))).map(state).collect();
        let threshold = health.and_then(|health| health.panic_threshold).unwrap_or(100);
        Self {
            checks: checks.clone(),
            max_out: states.len() * usize::from(threshold) / 100,
            states,
            panic: Cell::new((u64::MAX, false)),
            slow_start: health.and_then(|health| health.slow_start),
        }
    }

    /// Whether its checks fail, whether they count or not.
    pub(super) fn fails(&self, index: usize) -> bool {
        self.states.get(index).is_some_and(|state| state.is_out())
    }

    /// Whether its checks fail and count.
    #[inline]
    pub(super) fn is_out(&self, index: usize) -> bool {
        self.states.get(index).is_some_and(|state| state.is_out()) && !self.is_panicking()
    }

    /// Whether so many members are out that the others could not carry the load. Counted again when any endpoint goes
    /// out or comes back.
    fn is_panicking(&self) -> bool {
        let changes = self.checks.changes();
        let (counted_after, panics) = self.panic.get();
        if counted_after == changes {
            return panics;
        }
        let out = self.states.iter().filter(|state| state.is_out()).count();
        self.panic.set((changes, out > self.max_out));
        out > self.max_out
    }

    /// Whether this request goes to a member that joined at `began`: a new or recovered one gets a share that grows
    /// with time.
    #[inline]
    pub(super) fn is_warm(
        &self,
        index: usize,
        began: Option<Instant>,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> bool {
        self.slow_start.is_none_or(|takes| self.warmth(index, began, takes, now) > random.f32())
    }

    fn warmth(&self, index: usize, began: Option<Instant>, takes: Duration, now: Instant) -> f32 {
        let back = self.states.get(index).and_then(|state| self.checks.came_back(state));
        let Some(since) = back.max(began) else { return 1.0 };
        let age = now.saturating_duration_since(since);
        if age >= takes { 1.0 } else { (age.as_secs_f32() / takes.as_secs_f32()).max(MIN_WARMUP_SHARE) }
    }
}
