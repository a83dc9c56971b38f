//! Which members are fit for requests: what checks say of them, and how much those get that are new or fit again. Costs one comparison
//! where the backend asks for neither.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, PortProtocol};
use fairway_net::clock::Instant;

use crate::upstream::checks::{CheckState, Checked, Checks};
use crate::upstream::endpoint::EndpointIdentity;

/// The least that a new endpoint gets of its share: with nothing it would never be found fit.
const LEAST: f32 = 0.1;

/// What of a group is about fitness.
pub(super) struct Fitness {
    checks: Checks,
    /// What checks say of each member; none where members are not checked.
    states: Box<[Arc<CheckState>]>,
    /// Members that may be out before checks do not count.
    most_out: usize,
    /// Whether too many are out, and after how many changes that was found.
    panic: Cell<(u64, bool)>,
    slow_start: Option<Duration>,
}

impl Fitness {
    /// Of members with these identities.
    pub(super) fn of<'a>(
        backend: &Backend,
        transport: PortProtocol,
        checks: &Checks,
        members: impl Iterator<Item = &'a EndpointIdentity>,
    ) -> Self {
        let health = backend.traffic().health.as_deref();
        let check =
            health.and_then(|health| health.check.as_ref()).filter(|_| transport == PortProtocol::Tcp);
        let state = |(identity, check): (&EndpointIdentity, _)| {
            checks.state(&Checked { identity: identity.clone(), check: Arc::clone(check) })
        };
        let states: Box<[_]> = members.filter_map(|identity| Some((identity, check?))).map(state).collect();
        let threshold = health.and_then(|health| health.panic_threshold).unwrap_or(100);
        Self {
            checks: checks.clone(),
            most_out: states.len() * usize::from(threshold) / 100,
            states,
            panic: Cell::new((u64::MAX, false)),
            slow_start: health.and_then(|health| health.slow_start),
        }
    }

    /// Whether checks have found it unfit, whether they count or not.
    pub(super) fn fails(&self, index: usize) -> bool {
        self.states.get(index).is_some_and(|state| state.is_out())
    }

    /// Whether checks have found it unfit, and count.
    #[inline]
    pub(super) fn is_out(&self, index: usize) -> bool {
        self.states.get(index).is_some_and(|state| state.is_out()) && !self.is_panicking()
    }

    /// Whether so many are out that the others could not carry their requests. Counted again when any endpoint went out or came back.
    fn is_panicking(&self) -> bool {
        let changes = self.checks.changes();
        let (counted_after, panics) = self.panic.get();
        if counted_after == changes {
            return panics;
        }
        let out = self.states.iter().filter(|state| state.is_out()).count();
        self.panic.set((changes, out > self.most_out));
        out > self.most_out
    }

    /// Whether a member that `began` then gets this request: one that is new, or came back, gets a share that grows with its age.
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
        if age >= takes { 1.0 } else { (age.as_secs_f32() / takes.as_secs_f32()).max(LEAST) }
    }
}
