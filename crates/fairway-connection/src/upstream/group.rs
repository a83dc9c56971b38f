//! The endpoints of one backend as one worker uses them, and which of them gets the next request.

mod member_health;
mod permits;
pub mod picked_endpoints;
mod slowness;
mod tiers;
mod zones;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, Balancing, PortProtocol, ProxyLocation, Retry};
use fairway_net::budgets::Budget;
use fairway_net::clock::Instant;
use fairway_routing::session::Affinity;

use crate::sides::Hop;
use crate::upstream::checks::{CheckedEndpoint, HealthChecks};
use crate::upstream::circuit::{Breaker, Circuits};
use crate::upstream::endpoint::{Endpoint, EndpointIdentity, PickReason, PickedEndpoint, PoolLimits};
use crate::upstream::health::{Blame, EjectionPolicy};
use crate::upstream::state::EndpointState;
use member_health::Fitness;
use slowness::{LatencyOutliers, SlowMember};
use tiers::rotated;
use zones::ZoneCounters;

/// The maximum share of members that failures may eject, in percent.
const MAX_EJECTED_PERCENT: u8 = 50;

/// Attempts of one exchange that are remembered.
const MAX_RECORDED_TRIES: usize = 8;

/// All endpoints that a worker knows, of all backends.
pub struct Groups<H> {
    endpoints: RefCell<HashMap<EndpointIdentity, Weak<Endpoint<H>>>>,
    /// The number of idle connections to all of them.
    idle: Rc<Cell<usize>>,
    /// Where this process runs.
    location: ProxyLocation,
    zones: ZoneCounters,
    /// The results of health checks, shared by all workers.
    checks: HealthChecks,
    /// What is in flight in all workers.
    circuits: Circuits,
    /// The groups whose backend has limits.
    limited_groups: RefCell<Vec<Weak<Group<H>>>>,
}

/// The endpoints of one backend.
pub struct Group<H> {
    backend: Arc<Backend>,
    /// Nearest first, if the backend prefers near endpoints.
    members: Vec<Rc<Endpoint<H>>>,
    /// The end of each tier of equally near members but the last, if the backend prefers near endpoints.
    tiers: Box<[u32]>,
    /// The keys of members, if requests have affinity; otherwise empty.
    affinity_keys: Box<[u64]>,
    next_member: Cell<usize>,
    /// Attempts in each member's zone, if zones are known.
    zones: Box<[Rc<Cell<u64>>]>,
    /// The maximum attempts in flight of a member, over all groups.
    max_in_flight: u32,
    fitness: Fitness,
    /// When failures eject a member; `None` for never.
    ejection: Option<EjectionPolicy>,
    /// The latency of members, if slow ones are ejected.
    outliers: Option<Box<LatencyOutliers>>,
    /// The backend's limits across all workers.
    breaker: Option<Rc<Breaker>>,
    /// The backend's retry budget, if it has one.
    retry_budget: Option<Rc<Budget>>,
    /// Whether it was retired and has left its members.
    is_retired: Cell<bool>,
}

/// The members of a group that an exchange has tried, by index.
#[derive(Default)]
pub struct TriedMembers {
    members: [u16; MAX_RECORDED_TRIES],
    count: u8,
    /// A bit for each entry of `members` that failed after the connect.
    accused: u8,
}

impl TriedMembers {
    /// Records a member. Beyond the bound, a member may be tried twice.
    pub fn insert(&mut self, member: u32) {
        if self.contains(member as usize) {
            return;
        }
        if let (Some(free), Ok(member)) =
            (self.members.get_mut(usize::from(self.count)), u16::try_from(member))
        {
            *free = member;
            self.count += 1;
        }
    }

    /// Records that it failed after the connect. Whether the endpoint is to blame depends on the next attempt.
    pub fn accuse(&mut self, member: u32) {
        self.insert(member);
        let index = self.iter().position(|tried| tried == member);
        self.accused |= index.map_or(0, |place| 1 << place);
    }

    fn contains(&self, member: usize) -> bool {
        self.iter().any(|tried| tried as usize == member)
    }

    /// The tried members, in order.
    fn iter(&self) -> impl Iterator<Item = u32> {
        self.members[..usize::from(self.count)].iter().map(|tried| u32::from(*tried))
    }

    /// The accused members, in order.
    pub fn accused(&self) -> impl Iterator<Item = u32> {
        self.iter()
            .enumerate()
            .filter(|(place, _)| self.accused & (1 << place) != 0)
            .map(|(_, member)| member)
    }
}

impl<H> Default for Groups<H> {
    fn default() -> Self {
        Self::new(ProxyLocation::default(), HealthChecks::default(), Circuits::default())
    }
}

impl<H> Groups<H> {
    /// No endpoints yet. `location` is used by backends that prefer near endpoints.
    pub fn new(location: ProxyLocation, checks: HealthChecks, circuits: Circuits) -> Self {
        let (known, idle, zones) = (RefCell::default(), Rc::default(), ZoneCounters::default());
        Self { endpoints: known, idle, location, zones, checks, circuits, limited_groups: RefCell::default() }
    }
}

impl<H: Hop> Groups<H> {
    /// The group of a backend. Endpoints that exist in another group, or in an older version of this one, are shared.
    pub fn group(
        &self,
        backend: Arc<Backend>,
        transport: PortProtocol,
        older: Option<&Group<H>>,
    ) -> Rc<Group<H>> {
        let mut known = self.endpoints.borrow_mut();
        let near = tiers::order_by_tier(&self.location, &backend);
        let members: Vec<Rc<Endpoint<H>>> = near
            .in_order(&backend.endpoints)
            .map(|endpoint| {
                let identity = EndpointIdentity::of_backend(&backend, endpoint.address, transport);
                let shared = known.get(&identity).and_then(Weak::upgrade);
                let member = shared.unwrap_or_else(|| {
                    // Members of a new group are no newer than the group.
                    let began = older.map(|_| Instant::now());
                    let fresh = Rc::new(Endpoint::new(identity.clone(), Rc::clone(&self.idle), began));
                    known.insert(identity, Rc::downgrade(&fresh));
                    fresh
                });
                member.join_group();
                member
            })
            .collect();
        let next = Cell::new(older.map_or(0, |older| older.next_member.get()));
        let keys = near.in_order(&fairway_routing::session::keys(&backend)).copied().collect();
        let zones = self.zones.counters(&self.location, near.in_order(&backend.endpoints));
        let identities = members.iter().map(|member| &member.identity);
        let fitness = Fitness::new(&backend, transport, &self.checks, identities);
        let tiers = near.ends;
        let limit = backend.traffic().in_flight.map_or(u32::MAX, NonZeroU32::get);
        let ejecting = EjectionPolicy::from_settings(backend.traffic().ejection);
        let measured = older.and_then(|older| Some((&*older.members, older.outliers.as_deref()?)));
        let slowness = LatencyOutliers::new(backend.traffic(), &members, measured).map(Box::new);
        // The worker's idle counter identifies the worker.
        let breaker = self.circuits.breaker(&backend, Rc::as_ptr(&self.idle).addr());
        let retry_budget = backend.traffic().retry_budget.map(|wanted| {
            let same = older.filter(|older| older.backend.traffic().retry_budget == Some(wanted));
            let same = same.and_then(|older| older.retry_budget.clone());
            same.unwrap_or_else(|| {
                Rc::new(Budget::with_rate(wanted.percent, wanted.per_second, Instant::now()))
            })
        });
        let is_retired = Cell::new(false);
        let group = Rc::new(Group {
            backend,
            members,
            tiers,
            affinity_keys: keys,
            next_member: next,
            zones,
            max_in_flight: limit,
            fitness,
            ejection: ejecting,
            outliers: slowness,
            breaker,
            retry_budget,
            is_retired,
        });
        if group.breaker.is_some() {
            let mut limited = self.limited_groups.borrow_mut();
            if limited.len() == limited.capacity() {
                limited.retain(|group| group.strong_count() > 0);
            }
            limited.push(Rc::downgrade(&group));
        }
        group
    }

    /// Closes idle connections that requests of other workers wait for.
    pub fn yield_idle_connections(&self) {
        self.limited_groups
            .borrow_mut()
            .retain(|group| group.upgrade().is_some_and(|group| group.yield_idle_connections()));
    }

    /// Retires a group that a newer snapshot replaced or dropped. Its replacement, if any, was created before.
    pub fn retire(&self, gone: &Group<H>) {
        gone.leave_members();
    }

    /// Call once a second: closes connections that are too old or dead, and forgets unused endpoints.
    pub fn sweep(&self, limits: &PoolLimits, now: Instant) {
        self.endpoints.borrow_mut().retain(|_, endpoint| match endpoint.upgrade() {
            Some(endpoint) => {
                endpoint.sweep(limits, now);
                true
            }
            None => false,
        });
    }

    /// Attempts in flight, over all endpoints.
    pub fn in_flight(&self) -> u32 {
        self.endpoints.borrow().values().filter_map(Weak::upgrade).map(|endpoint| endpoint.in_flight()).sum()
    }

    /// The state of the first `most` endpoints of a backend, by address and transport. Looks at no other endpoint.
    pub fn states(
        &self,
        backend: &Backend,
        most: usize,
        now: Instant,
    ) -> Vec<(SocketAddr, PortProtocol, EndpointState)> {
        let known = self.endpoints.borrow();
        let health = backend.traffic().health.as_ref();
        let check = health.and_then(|health| health.check.as_ref());
        let state = |address, transport| {
            let identity = EndpointIdentity::of_backend(backend, address, transport);
            let state = known.get(&identity)?.upgrade()?.state(now);
            let checked = check.map(|check| CheckedEndpoint { identity, check: Arc::clone(check) });
            let fails_checks = checked.is_some_and(|checked| self.checks.fails(&checked));
            Some((address, transport, EndpointState { fails_checks, ..state }))
        };
        let shown = backend.endpoints.iter().take(most).map(|endpoint| endpoint.address);
        let both = shown.flat_map(|address| [(address, PortProtocol::Tcp), (address, PortProtocol::Udp)]);
        both.filter_map(|(address, transport)| state(address, transport)).collect()
    }

    /// The combined state of all endpoints; each counts as one worker does. Takes as long as a sweep.
    pub fn total_state(&self, now: Instant) -> EndpointState {
        let mut all = EndpointState::default();
        for endpoint in self.endpoints.borrow().values().filter_map(Weak::upgrade) {
            all.merge(&endpoint.state(now));
        }
        all
    }

    /// Attempts by zone, if zones are known, and whether the zone is the own one.
    pub fn attempts_by_zone(&self) -> BTreeMap<(Arc<str>, bool), u64> {
        self.zones.attempts(&self.location)
    }

    /// Idle connections to all endpoints.
    pub fn idle_connections(&self) -> usize {
        self.idle.get()
    }

    /// The same, counted endpoint by endpoint.
    pub fn count_idle_connections(&self) -> usize {
        self.endpoints.borrow().values().filter_map(Weak::upgrade).map(|endpoint| endpoint.idle()).sum()
    }

    /// The counter of idle connections.
    pub fn idle_counter(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.idle)
    }

    /// Closes up to `count` idle connections. Returns how many.
    pub fn close_idle(&self, count: usize) -> usize {
        let mut closed = 0;
        for endpoint in self.endpoints.borrow().values().filter_map(Weak::upgrade) {
            if closed == count {
                break;
            }
            closed += endpoint.close_idle(count - closed);
        }
        closed
    }
}

impl<H> Group<H> {
    fn leave_members(&self) {
        if !self.is_retired.replace(true) {
            self.members.iter().for_each(|member| member.leave_group());
        }
    }
}

/// An exchange that began on an older snapshot may create a group that no newer one retires. Without this, its members'
/// idle connections would be kept for ever.
impl<H> Drop for Group<H> {
    fn drop(&mut self) {
        self.leave_members();
    }
}

impl<H: Hop> Group<H> {
    /// The backend.
    pub fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// How to retry a request that came here by a rule with this policy: the backend's own policy takes precedence.
    #[inline]
    pub fn retry<'a>(&'a self, rule_retry: &'a Retry) -> &'a Retry {
        self.backend.traffic().retry.as_ref().unwrap_or(rule_retry)
    }

    /// Picks an endpoint for the next attempt: an untried one that is healthy or due for a probe; otherwise an untried
    /// one, since ejection is ignored if nothing else is left; otherwise, if all were tried, any. The endpoint that the
    /// request has affinity to comes first if it is untried and healthy. Endpoints at their limit of attempts in flight
    /// are skipped; `None` if all that are left are at theirs, or there is none.
    pub fn pick(
        &self,
        tried: &TriedMembers,
        belongs: Affinity,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Option<PickedEndpoint<H>> {
        if self.members.is_empty() {
            return None;
        }
        let owner =
            if belongs == Affinity::Anywhere { None } else { self.pick_affine(belongs, tried, random, now) };
        let picked = owner.or_else(|| self.pick_balanced(tried, random, now))?;
        self.pick_member(picked, now)
    }

    /// Picks this member for an attempt that begins.
    #[inline]
    fn pick_member(&self, index: usize, now: Instant) -> Option<PickedEndpoint<H>> {
        let member = &self.members[index];
        let errand = match member.health().wants_probe(now) && member.begin_probe(now) {
            true => PickReason::Probe,
            false => PickReason::Regular,
        };
        self.pick_member_as(index, errand)
    }

    /// Picks this member and counts the attempt for its zone.
    #[inline]
    fn pick_member_as(&self, index: usize, errand: PickReason) -> Option<PickedEndpoint<H>> {
        if let Some(attempts) = self.zones.get(index) {
            attempts.set(attempts.get() + 1);
        }
        Some(PickedEndpoint::new(u32::try_from(index).ok()?, &self.members[index], errand))
    }

    /// The usable member that the request has affinity to.
    fn pick_affine(
        &self,
        belongs: Affinity,
        tried: &TriedMembers,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Option<usize> {
        let may =
            |index: &usize| !tried.contains(*index) && self.takes_more(*index) && self.is_usable(*index, now);
        match belongs {
            Affinity::Anywhere => None,
            Affinity::To(key) => self.affinity_keys.iter().position(|other| *other == key).filter(may),
            Affinity::By(hash) => (0..self.affinity_keys.len())
                .filter(may)
                .max_by_key(|index| fairway_routing::session::weight(self.affinity_keys[*index], hash)),
            Affinity::Among(hash, count) => {
                let ranked = || {
                    let usable = (0..self.affinity_keys.len()).filter(may);
                    usable.map(|index| {
                        (fairway_routing::session::weight(self.affinity_keys[index], hash), index)
                    })
                };
                let count = usize::from(count.get()).min(ranked().count());
                let mut candidate = ranked().max()?;
                for _ in 0..random.usize(..count) {
                    candidate = ranked().filter(|other| *other < candidate).max()?;
                }
                Some(candidate.1)
            }
        }
    }

    /// Picks by load balancing. Requires members.
    fn pick_balanced(&self, tried: &TriedMembers, random: &mut fastrand::Rng, now: Instant) -> Option<usize> {
        if !self.tiers.is_empty()
            && let Some(near) = self.nearest(tried, random, now)
        {
            return Some(near);
        }
        let start = self.start_index(self.members.len(), random);
        let picked = self.pick_best(self.indices_from(start), tried, random, now);
        picked.or_else(|| self.candidates(start, tried, now).find(|index| self.takes_more(*index)))
    }

    /// A member of the nearest tier that takes the request; `None` if all members should be balanced.
    fn nearest(&self, tried: &TriedMembers, random: &mut fastrand::Rng, now: Instant) -> Option<usize> {
        let mut begin = 0;
        for end in self.tiers.iter().map(|end| *end as usize) {
            // Round robin covers the first tier only: its turns would be uneven in another one.
            let drawn = match begin {
                0 => self.start_index(end, random),
                _ => random.usize(begin..end),
            };
            if self.is_usable(drawn, now)
                && let Some(chosen) = self.pick_best(rotated(begin..end, drawn), tried, random, now)
            {
                return Some(chosen);
            }
            begin = end;
        }
        let farthest = begin..self.members.len();
        let drawn = random.usize(farthest.clone());
        self.pick_best(rotated(farthest, drawn), tried, random, now)
    }

    /// The number of nearest members.
    fn first_tier(&self) -> usize {
        self.tiers.first().map_or(self.members.len(), |end| *end as usize)
    }

    /// The untried, usable one of these members that the backend's load balancing prefers.
    fn pick_best(
        &self,
        members: impl Iterator<Item = usize>,
        tried: &TriedMembers,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Option<usize> {
        let open = members.filter(|index| !tried.contains(*index) && self.takes_more(*index));
        let usable = open.filter(|index| self.is_usable(*index, now));
        let mut usable = usable
            .filter(|index| self.fitness.is_warm(*index, self.members[*index].joined_at(), random, now));
        match self.backend.balancing {
            Balancing::RoundRobin | Balancing::Random => usable.next(),
            Balancing::PeakEwma => usable.take(2).reduce(|one, two| {
                if self.members[two].cost() < self.members[one].cost() { two } else { one }
            }),
            Balancing::LeastRequests => usable.min_by_key(|index| self.members[*index].in_flight()),
        }
    }

    /// The candidates for an attempt, from `start` on: untried members that are healthy or due for a probe; otherwise
    /// the untried ones, and if all were tried, all. Members at their limit stay candidates: that others are busy sends
    /// no request to an ejected one.
    fn candidates(&self, start: usize, tried: &TriedMembers, now: Instant) -> impl Iterator<Item = usize> {
        let untried = move |index: &usize| !tried.contains(*index);
        let is_any_untried = self.indices_from(start).any(|index| untried(&index));
        let is_any_usable = self.indices_from(start).filter(untried).any(|index| self.is_usable(index, now));
        self.indices_from(start).filter(move |index| match (is_any_usable, is_any_untried) {
            (true, _) => untried(index) && self.is_usable(*index, now),
            (false, true) => untried(index),
            (false, false) => true,
        })
    }

    /// Whether it is healthy, due for a probe or never ejected, and passes its health checks.
    fn is_usable(&self, index: usize, now: Instant) -> bool {
        if self.fitness.is_out(index) {
            return false;
        }
        let health = self.members[index].health();
        health.is_healthy() || health.wants_probe(now) || (self.ejection.is_none() && health.is_ejected())
    }

    /// Whether it has fewer attempts in flight than its limit.
    #[inline]
    fn takes_more(&self, index: usize) -> bool {
        self.members[index].in_flight() < self.max_in_flight
    }

    /// Whether another attempt would find an endpoint below its limit.
    pub fn has_room(&self, tried: &TriedMembers) -> bool {
        self.candidates(0, tried, Instant::now()).any(|index| self.takes_more(index))
    }

    /// The keys of the members, if requests have affinity.
    pub fn affinity_keys(&self) -> &[u64] {
        &self.affinity_keys
    }

    /// Whether this endpoint is a member.
    pub fn contains(&self, endpoint: &Rc<Endpoint<H>>) -> bool {
        self.members.iter().any(|member| Rc::ptr_eq(member, endpoint))
    }

    /// Whether it has no endpoints.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// As [`Self::has_room`], among untried endpoints.
    pub fn has_untried(&self, tried: &TriedMembers) -> bool {
        let mut candidates = self.candidates(0, tried, Instant::now());
        candidates.any(|index| !tried.contains(index) && self.takes_more(index))
    }

    /// Picks an endpoint to race against a late connect: an untried healthy one, or otherwise an ejected one. Never one
    /// whose connects are late as well, nor one at its limit.
    pub fn rival(&self, tried: &TriedMembers, random: &mut fastrand::Rng) -> Option<PickedEndpoint<H>> {
        let start = random.usize(..self.first_tier().max(1));
        let is_left = |index: &usize| !tried.contains(*index) && !self.fitness.is_out(*index);
        let untried = || self.indices_from(start).filter(is_left);
        let is_good = |index: usize| self.members[index].health().is_healthy();
        let mut rivals = untried().filter(|index| self.takes_more(*index));
        let index = match untried().any(is_good) {
            true => rivals.find(|index| is_good(*index)),
            false => rivals.find(|index| !self.members[*index].health().is_suspect()),
        }?;
        self.pick_member_as(index, PickReason::Regular)
    }

    /// The member with this index.
    pub fn member(&self, index: u32) -> &Rc<Endpoint<H>> {
        &self.members[index as usize]
    }

    /// The backend's own retry budget, if it has one.
    pub fn retry_budget(&self) -> Option<&Budget> {
        self.retry_budget.as_deref()
    }

    /// A member's response head came after `latency`. Returns the members ejected for being far slower than the others.
    pub fn succeeded(&self, index: u32, latency: Duration, now: Instant) -> Vec<SlowMember> {
        let index = index as usize;
        self.members[index].succeeded(latency);
        match &self.outliers {
            Some(slowness) if slowness.record(index, latency, now) => self.eject_slow(slowness, now),
            _ => Vec::new(),
        }
    }

    /// Ejects the slowest first, but never the last member, nor more than half of the members or the panic threshold
    /// allows, including those already out for any reason.
    #[cold]
    fn eject_slow(&self, slowness: &LatencyOutliers, now: Instant) -> Vec<SlowMember> {
        let Some(ejecting) = &self.ejection else { return Vec::new() };
        let is_in = |index: usize| self.members[index].health().is_healthy() && !self.fitness.fails(index);
        let threshold = self.backend.traffic().health.as_ref().and_then(|health| health.panic_threshold);
        let limit = usize::from(threshold.unwrap_or(MAX_EJECTED_PERCENT).min(MAX_EJECTED_PERCENT));
        let mut ejected = Vec::new();
        for slow in slowness.end_interval() {
            let out = (0..self.members.len()).filter(|index| !is_in(*index)).count();
            let member = slow.member as usize;
            if is_in(member) && (out + 1) * 100 <= self.members.len() * limit {
                self.members[member].eject(ejecting.duration_after(slowness.record_ejection(member)), now);
                ejected.push(slow);
            }
        }
        ejected
    }

    /// A member failed: ejects it if the backend says so and at least half of the members stay. Returns whether it was
    /// ejected.
    pub fn failed(&self, member: &Endpoint<H>, blame: Blame, now: Instant) -> bool {
        let is_out =
            |other: &&Rc<Endpoint<H>>| !std::ptr::eq(&***other, member) && !other.health().is_healthy();
        let out = self.members.iter().filter(is_out).count();
        let may_eject = self.members.len() > 1 && (out + 1) * 2 <= self.members.len();
        member.failed(blame, self.ejection.as_ref(), may_eject, now)
    }

    /// Where load balancing starts among the first `count` members.
    fn start_index(&self, count: usize, random: &mut fastrand::Rng) -> usize {
        match self.backend.balancing {
            Balancing::RoundRobin => {
                let start = self.next_member.get() % count;
                self.next_member.set(start + 1);
                start
            }
            _ => random.usize(..count),
        }
    }

    fn indices_from(&self, start: usize) -> impl Iterator<Item = usize> {
        rotated(0..self.members.len(), start)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiers_tests;
