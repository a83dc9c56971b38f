//! The endpoints of one backend as one worker uses them, and who gets the next request.

mod fitness;
pub mod picks;
mod places;
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

use fairway_model::{Backend, Balancing, Location, PortProtocol, Retry};
use fairway_net::budgets::Budget;
use fairway_net::clock::Instant;
use fairway_routing::session::Belongs;

use crate::sides::Hop;
use crate::upstream::checks::{Checked, Checks};
use crate::upstream::circuit::{Breaker, Circuits};
use crate::upstream::endpoint::{Chosen, Endpoint, EndpointIdentity, Errand, PoolLimits};
use crate::upstream::health::{Blame, Ejecting};
use crate::upstream::state::EndpointState;
use fitness::Fitness;
use slowness::{Slow, Slowness};
use tiers::turned;
use zones::Zones;

/// The most members that are ejected, in percent.
const HALF: u8 = 50;

/// The most endpoints that one exchange tries.
const MOST_TRIES: usize = 8;

/// All endpoints that a worker knows, whichever backends they belong to.
pub struct Groups<H> {
    known: RefCell<HashMap<EndpointIdentity, Weak<Endpoint<H>>>>,
    /// Idle connections to all of them.
    idle: Rc<Cell<usize>>,
    /// Where this process runs.
    location: Location,
    zones: Zones,
    /// What checks say of endpoints, to all workers.
    checks: Checks,
    /// What all workers have under way.
    circuits: Circuits,
    /// Those whose backend has limits.
    limited: RefCell<Vec<Weak<Group<H>>>>,
}

/// A backend's endpoints.
pub struct Group<H> {
    backend: Arc<Backend>,
    /// Nearer ones first, where that counts.
    members: Vec<Rc<Endpoint<H>>>,
    /// Where nearness counts: of each but the last tier of members that are equally near, its end.
    tiers: Box<[u32]>,
    /// Of the members, where requests belong to them; else none.
    keys: Box<[u64]>,
    next: Cell<usize>,
    /// Attempts on each member's zone, where the own zone is known and those of members are.
    zones: Box<[Rc<Cell<u64>>]>,
    /// Attempts that a member may have under way, whichever groups they are of.
    most: u32,
    fitness: Fitness,
    /// What ejects a member; nothing where this is `None`.
    ejecting: Option<Ejecting>,
    /// How fast each member answers, where that may eject one.
    slowness: Option<Box<Slowness>>,
    /// What all workers have under way with the backend, where it limits that.
    breaker: Option<Rc<Breaker>>,
    /// What attempts may follow another one, where the backend says so.
    retry_budget: Option<Rc<Budget>>,
    /// Whether it was retired: its members no longer count it.
    is_retired: Cell<bool>,
}

/// Members of a group that this exchange has tried, by index.
#[derive(Default)]
pub struct Tried {
    members: [u16; MOST_TRIES],
    count: u8,
    /// A bit for each place in `members`: those that failed after the connect.
    accused: u8,
}

impl Tried {
    /// Remembers one. Beyond the bound a member may be tried twice.
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

    /// Remembers that it failed after the connect: whether it was its fault, the next attempt tells.
    pub fn accuse(&mut self, member: u32) {
        self.insert(member);
        let place = self.iter().position(|tried| tried == member);
        self.accused |= place.map_or(0, |place| 1 << place);
    }

    fn contains(&self, member: usize) -> bool {
        self.iter().any(|tried| tried as usize == member)
    }

    /// Each of them, in the order in which they were tried.
    fn iter(&self) -> impl Iterator<Item = u32> {
        self.members[..usize::from(self.count)].iter().map(|tried| u32::from(*tried))
    }

    /// Those that were accused, in the order in which they were tried.
    pub fn accused(&self) -> impl Iterator<Item = u32> {
        self.iter()
            .enumerate()
            .filter(|(place, _)| self.accused & (1 << place) != 0)
            .map(|(_, member)| member)
    }
}

impl<H> Default for Groups<H> {
    fn default() -> Self {
        Self::at(Location::default(), Checks::default(), Circuits::default())
    }
}

impl<H> Groups<H> {
    /// None yet; endpoints near this place are preferred, as their backends say.
    pub fn at(location: Location, checks: Checks, circuits: Circuits) -> Self {
        let (known, idle, zones) = (RefCell::default(), Rc::default(), Zones::default());
        Self { known, idle, location, zones, checks, circuits, limited: RefCell::default() }
    }
}

impl<H: Hop> Groups<H> {
    /// The group of a backend; endpoints that another group or an older version of this one has are shared.
    pub fn group(
        &self,
        backend: Arc<Backend>,
        transport: PortProtocol,
        older: Option<&Group<H>>,
    ) -> Rc<Group<H>> {
        let mut known = self.known.borrow_mut();
        let near = tiers::of(&self.location, &backend);
        let members: Vec<Rc<Endpoint<H>>> = near
            .in_order(&backend.endpoints)
            .map(|endpoint| {
                let identity = EndpointIdentity::of(&backend, endpoint.address, transport);
                let shared = known.get(&identity).and_then(Weak::upgrade);
                let member = shared.unwrap_or_else(|| {
                    // Those that a group begins with are no newer than it.
                    let began = older.map(|_| Instant::now());
                    let fresh = Rc::new(Endpoint::new(identity.clone(), Rc::clone(&self.idle), began));
                    known.insert(identity, Rc::downgrade(&fresh));
                    fresh
                });
                member.join();
                member
            })
            .collect();
        let next = Cell::new(older.map_or(0, |older| older.next.get()));
        let keys = near.in_order(&fairway_routing::session::keys(&backend)).copied().collect();
        let zones = self.zones.of(&self.location, near.in_order(&backend.endpoints));
        let identities = members.iter().map(|member| &member.identity);
        let fitness = Fitness::of(&backend, transport, &self.checks, identities);
        let tiers = near.ends;
        let most = backend.traffic().in_flight.map_or(u32::MAX, NonZeroU32::get);
        let ejecting = Ejecting::of(backend.traffic().ejection);
        let measured = older.and_then(|older| Some((&*older.members, older.slowness.as_deref()?)));
        let slowness = Slowness::of(backend.traffic(), &members, measured).map(Box::new);
        // What all groups of a worker have in common tells workers apart.
        let breaker = self.circuits.breaker(&backend, Rc::as_ptr(&self.idle).addr());
        let retry_budget = backend.traffic().retry_budget.map(|wanted| {
            let same = older.filter(|older| older.backend.traffic().retry_budget == Some(wanted));
            let same = same.and_then(|older| older.retry_budget.clone());
            same.unwrap_or_else(|| Rc::new(Budget::of(wanted.percent, wanted.per_second, Instant::now())))
        });
        let is_retired = Cell::new(false);
        let group = Rc::new(Group {
            backend,
            members,
            tiers,
            keys,
            next,
            zones,
            most,
            fitness,
            ejecting,
            slowness,
            breaker,
            retry_budget,
            is_retired,
        });
        if group.breaker.is_some() {
            let mut limited = self.limited.borrow_mut();
            if limited.len() == limited.capacity() {
                limited.retain(|group| group.strong_count() > 0);
            }
            limited.push(Rc::downgrade(&group));
        }
        group
    }

    /// Closes idle connections for requests of other workers that wait for one.
    pub fn give_way(&self) {
        self.limited.borrow_mut().retain(|group| group.upgrade().is_some_and(|group| group.give_way()));
    }

    /// A group that a newer snapshot replaced or dropped; its replacement, if any, was made before.
    pub fn retire(&self, gone: &Group<H>) {
        gone.leave_members();
    }

    /// Once a second: closes what is too old or dead and forgets endpoints that nobody holds.
    pub fn sweep(&self, limits: &PoolLimits, now: Instant) {
        self.known.borrow_mut().retain(|_, endpoint| match endpoint.upgrade() {
            Some(endpoint) => {
                endpoint.sweep(limits, now);
                true
            }
            None => false,
        });
    }

    /// Attempts that are under way, of all endpoints.
    pub fn in_flight(&self) -> u32 {
        self.known.borrow().values().filter_map(Weak::upgrade).map(|endpoint| endpoint.in_flight()).sum()
    }

    /// What is known of the first `most` endpoints of a backend, by address and what carries it. Looks at no other endpoint.
    pub fn states(
        &self,
        backend: &Backend,
        most: usize,
        now: Instant,
    ) -> Vec<(SocketAddr, PortProtocol, EndpointState)> {
        let known = self.known.borrow();
        let health = backend.traffic().health.as_ref();
        let check = health.and_then(|health| health.check.as_ref());
        let state = |address, transport| {
            let identity = EndpointIdentity::of(backend, address, transport);
            let state = known.get(&identity)?.upgrade()?.state(now);
            let checked = check.map(|check| Checked { identity, check: Arc::clone(check) });
            let fails_checks = checked.is_some_and(|checked| self.checks.fails(&checked));
            Some((address, transport, EndpointState { fails_checks, ..state }))
        };
        let shown = backend.endpoints.iter().take(most).map(|endpoint| endpoint.address);
        let both = shown.flat_map(|address| [(address, PortProtocol::Tcp), (address, PortProtocol::Udp)]);
        both.filter_map(|(address, transport)| state(address, transport)).collect()
    }

    /// What is known of all endpoints together; each counts as one worker does. Takes as long as a sweep.
    pub fn state_of_all(&self, now: Instant) -> EndpointState {
        let mut all = EndpointState::default();
        for endpoint in self.known.borrow().values().filter_map(Weak::upgrade) {
            all.merge(&endpoint.state(now));
        }
        all
    }

    /// Attempts on the endpoints of each zone, where the own zone is known, and whether it is that one.
    pub fn attempts_by_zone(&self) -> BTreeMap<(Arc<str>, bool), u64> {
        self.zones.counted(&self.location)
    }

    /// Idle connections to all endpoints.
    pub fn idle_connections(&self) -> usize {
        self.idle.get()
    }

    /// The same, counted endpoint by endpoint.
    pub fn idle_of_each(&self) -> usize {
        self.known.borrow().values().filter_map(Weak::upgrade).map(|endpoint| endpoint.idle()).sum()
    }

    /// The same, as it changes.
    pub fn idle(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.idle)
    }

    /// Closes up to `count` idle connections. Says how many.
    pub fn close_idle(&self, count: usize) -> usize {
        let mut closed = 0;
        for endpoint in self.known.borrow().values().filter_map(Weak::upgrade) {
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
            self.members.iter().for_each(|member| member.leave());
        }
    }
}

/// An exchange that began on an older snapshot may make a group that no newer one retires: otherwise idle connections of its
/// members would stay counted for ever.
impl<H> Drop for Group<H> {
    fn drop(&mut self) {
        self.leave_members();
    }
}

impl<H: Hop> Group<H> {
    /// What it is of.
    pub fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// How failures of a request are tried again by whose rule this came here: the backend's own word comes first.
    #[inline]
    pub fn retry<'a>(&'a self, of_rule: &'a Retry) -> &'a Retry {
        self.backend.traffic().retry.as_ref().unwrap_or(of_rule)
    }

    /// An endpoint for the next attempt: one that was not tried and is healthy, or is due for a probe; else one that
    /// was not tried, since ejection is ignored when nothing else is left; else, when all were tried, any.
    /// Where the request belongs to one of them, it is that one if it was not tried and is healthy.
    /// Those that have as many attempts under way as the backend allows are passed over; `None` where all that are left
    /// have, or there is none.
    pub fn pick(
        &self,
        tried: &Tried,
        belongs: Belongs,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Option<Chosen<H>> {
        if self.members.is_empty() {
            return None;
        }
        let owner = if belongs == Belongs::Anywhere { None } else { self.owner(belongs, tried, random, now) };
        let chosen = owner.or_else(|| self.balanced(tried, random, now))?;
        self.chosen(chosen, now)
    }

    /// This member, for an attempt that begins.
    #[inline]
    fn chosen(&self, index: usize, now: Instant) -> Option<Chosen<H>> {
        let member = &self.members[index];
        let errand = match member.health().wants_probe(now) && member.begin_probe(now) {
            true => Errand::Probe,
            false => Errand::Regular,
        };
        self.chosen_for(index, errand)
    }

    /// This member, for an attempt that is counted for its zone.
    #[inline]
    fn chosen_for(&self, index: usize, errand: Errand) -> Option<Chosen<H>> {
        if let Some(attempts) = self.zones.get(index) {
            attempts.set(attempts.get() + 1);
        }
        Some(Chosen::new(u32::try_from(index).ok()?, &self.members[index], errand))
    }

    /// The member that the request belongs to, of those that may be used.
    fn owner(
        &self,
        belongs: Belongs,
        tried: &Tried,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Option<usize> {
        let may =
            |index: &usize| !tried.contains(*index) && self.takes_more(*index) && self.is_usable(*index, now);
        match belongs {
            Belongs::Anywhere => None,
            Belongs::To(key) => self.keys.iter().position(|other| *other == key).filter(may),
            Belongs::By(hash) => (0..self.keys.len())
                .filter(may)
                .max_by_key(|index| fairway_routing::session::weight(self.keys[*index], hash)),
            Belongs::Among(hash, count) => {
                let ranked = || {
                    let usable = (0..self.keys.len()).filter(may);
                    usable.map(|index| (fairway_routing::session::weight(self.keys[index], hash), index))
                };
                let count = usize::from(count.get()).min(ranked().count());
                let mut chosen = ranked().max()?;
                for _ in 0..random.usize(..count) {
                    chosen = ranked().filter(|other| *other < chosen).max()?;
                }
                Some(chosen.1)
            }
        }
    }

    /// By what answers and by chance. Called with members.
    fn balanced(&self, tried: &Tried, random: &mut fastrand::Rng, now: Instant) -> Option<usize> {
        if !self.tiers.is_empty()
            && let Some(near) = self.nearest(tried, random, now)
        {
            return Some(near);
        }
        let start = self.start(self.members.len(), random);
        let chosen = self.best(self.from(start), tried, random, now);
        chosen.or_else(|| self.left(start, tried, now).find(|index| self.takes_more(*index)))
    }

    /// A member of the nearest tier that keeps the request; `None` where the balancing of all members decides.
    fn nearest(&self, tried: &Tried, random: &mut fastrand::Rng, now: Instant) -> Option<usize> {
        let mut begin = 0;
        for end in self.tiers.iter().map(|end| *end as usize) {
            // Turns are those of the first tier: what is left of them for another one would be one-sided.
            let drawn = match begin {
                0 => self.start(end, random),
                _ => random.usize(begin..end),
            };
            if self.is_usable(drawn, now)
                && let Some(chosen) = self.best(turned(begin..end, drawn), tried, random, now)
            {
                return Some(chosen);
            }
            begin = end;
        }
        let farthest = begin..self.members.len();
        let drawn = random.usize(farthest.clone());
        self.best(turned(farthest, drawn), tried, random, now)
    }

    /// How many members are nearest.
    fn first_tier(&self) -> usize {
        self.tiers.first().map_or(self.members.len(), |end| *end as usize)
    }

    /// The one of these that the backend's balancing prefers, of those that were not tried and may be used.
    fn best(
        &self,
        members: impl Iterator<Item = usize>,
        tried: &Tried,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Option<usize> {
        let open = members.filter(|index| !tried.contains(*index) && self.takes_more(*index));
        let usable = open.filter(|index| self.is_usable(*index, now));
        let mut usable =
            usable.filter(|index| self.fitness.is_warm(*index, self.members[*index].began(), random, now));
        match self.backend.balancing {
            Balancing::RoundRobin | Balancing::Random => usable.next(),
            Balancing::PeakEwma => usable.take(2).reduce(|one, two| {
                if self.members[two].cost() < self.members[one].cost() { two } else { one }
            }),
            Balancing::LeastRequests => usable.min_by_key(|index| self.members[*index].in_flight()),
        }
    }

    /// What is left for an attempt, from `start` on: the members that were not tried and are healthy, or due for a probe;
    /// where there is none, those that were not tried, and where all were tried, all. Those that take no more for now are
    /// among them: that they are busy sends nothing to an ejected one.
    fn left(&self, start: usize, tried: &Tried, now: Instant) -> impl Iterator<Item = usize> {
        let untried = move |index: &usize| !tried.contains(*index);
        let is_any_untried = self.from(start).any(|index| untried(&index));
        let is_any_usable = self.from(start).filter(untried).any(|index| self.is_usable(index, now));
        self.from(start).filter(move |index| match (is_any_usable, is_any_untried) {
            (true, _) => untried(index) && self.is_usable(*index, now),
            (false, true) => untried(index),
            (false, false) => true,
        })
    }

    /// Whether it is healthy or is due for a probe, or nothing ejects it here; and whether checks find it fit.
    fn is_usable(&self, index: usize, now: Instant) -> bool {
        if self.fitness.is_out(index) {
            return false;
        }
        let health = self.members[index].health();
        health.is_good() || health.wants_probe(now) || (self.ejecting.is_none() && health.is_ejected())
    }

    /// Whether it has fewer attempts under way than it may.
    #[inline]
    fn takes_more(&self, index: usize) -> bool {
        self.members[index].in_flight() < self.most
    }

    /// Whether one more attempt would find an endpoint that takes it.
    pub fn has_room(&self, tried: &Tried) -> bool {
        self.left(0, tried, Instant::now()).any(|index| self.takes_more(index))
    }

    /// The keys of the members, where requests belong to them.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Whether this endpoint is one of it.
    pub fn has(&self, endpoint: &Rc<Endpoint<H>>) -> bool {
        self.members.iter().any(|member| Rc::ptr_eq(member, endpoint))
    }

    /// Whether it has no endpoint at all.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The same of an endpoint that was not tried.
    pub fn has_untried(&self, tried: &Tried) -> bool {
        let mut left = self.left(0, tried, Instant::now());
        left.any(|index| !tried.contains(index) && self.takes_more(index))
    }

    /// An endpoint to race one whose connect is late: a healthy one that was not tried; where there is none, an ejected one.
    /// Never one that is itself late, nor one that takes no more.
    pub fn rival(&self, tried: &Tried, random: &mut fastrand::Rng) -> Option<Chosen<H>> {
        let start = random.usize(..self.first_tier().max(1));
        let is_left = |index: &usize| !tried.contains(*index) && !self.fitness.is_out(*index);
        let untried = || self.from(start).filter(is_left);
        let is_good = |index: usize| self.members[index].health().is_good();
        let mut rivals = untried().filter(|index| self.takes_more(*index));
        let index = match untried().any(is_good) {
            true => rivals.find(|index| is_good(*index)),
            false => rivals.find(|index| !self.members[*index].health().is_suspect()),
        }?;
        self.chosen_for(index, Errand::Regular)
    }

    /// The member that [`Tried`] knows by its index.
    pub fn member(&self, index: u32) -> &Rc<Endpoint<H>> {
        &self.members[index as usize]
    }

    /// What attempts may follow another one with the backend, where it has a budget of its own.
    pub fn retry_budget(&self) -> Option<&Budget> {
        self.retry_budget.as_deref()
    }

    /// A response head of a member came after `latency`. Returns the members that are ejected because they have been far slower than the others.
    pub fn succeeded(&self, index: u32, latency: Duration, now: Instant) -> Vec<Slow> {
        let index = index as usize;
        self.members[index].succeeded(latency);
        match &self.slowness {
            Some(slowness) if slowness.note(index, latency, now) => self.eject_slow(slowness, now),
            _ => Vec::new(),
        }
    }

    /// Ejects the slowest first: never the last, nor more than half of the members or than the panic threshold allows, those included that are out
    /// already for whatever reason.
    #[cold]
    fn eject_slow(&self, slowness: &Slowness, now: Instant) -> Vec<Slow> {
        let Some(ejecting) = &self.ejecting else { return Vec::new() };
        let is_in = |index: usize| self.members[index].health().is_good() && !self.fitness.fails(index);
        let threshold = self.backend.traffic().health.as_ref().and_then(|health| health.panic_threshold);
        let most = usize::from(threshold.unwrap_or(HALF).min(HALF));
        let mut ejected = Vec::new();
        for slow in slowness.judge() {
            let out = (0..self.members.len()).filter(|index| !is_in(*index)).count();
            let member = slow.member as usize;
            if is_in(member) && (out + 1) * 100 <= self.members.len() * most {
                self.members[member].eject(ejecting.length_after(slowness.ejected(member)), now);
                ejected.push(slow);
            }
        }
        ejected
    }

    /// A failure of a member: ejects it, where the backend says so, unless that would leave fewer than half. Returns whether
    /// it was ejected.
    pub fn failed(&self, member: &Endpoint<H>, blame: Blame, now: Instant) -> bool {
        let is_out = |other: &&Rc<Endpoint<H>>| !std::ptr::eq(&***other, member) && !other.health().is_good();
        let out = self.members.iter().filter(is_out).count();
        let may_eject = self.members.len() > 1 && (out + 1) * 2 <= self.members.len();
        member.failed(blame, self.ejecting.as_ref(), may_eject, now)
    }

    /// Whose turn it is of the first `count` members.
    fn start(&self, count: usize, random: &mut fastrand::Rng) -> usize {
        match self.backend.balancing {
            Balancing::RoundRobin => {
                let start = self.next.get() % count;
                self.next.set(start + 1);
                start
            }
            _ => random.usize(..count),
        }
    }

    fn from(&self, start: usize) -> impl Iterator<Item = usize> {
        turned(0..self.members.len(), start)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiers_tests;
