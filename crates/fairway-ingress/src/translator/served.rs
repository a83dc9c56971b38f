//! The Ingresses that are served, and which of them use a Service and port: an index by their ages, so that those who decide
//! are found at once, however many share it. What is shared, and what is said of it, is in `ingress::shared_service`.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{HostPattern, ServiceName, SessionCookie};
use fairway_objects::balance::Balance;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::Compat;
use fairway_objects::shared;
use imbl::{OrdMap, OrdSet};

use crate::ingress::contributions::Contributions;
use crate::ingress::layout::{Layout, location_at};
use crate::ingress::location::{Location, Place, services_of};
use crate::ingress::served::ServedIngress;
use crate::ingress::shared_service::{Givers, SharedService, SharedServices};

/// The Ingresses that are served.
#[derive(Clone, Debug, Default)]
pub(super) struct Ingresses {
    by_key: OrdMap<ObjectKey, Arc<ServedIngress>>,
    facts: OrdSet<Fact>,
    /// The canaries of each host, as facts about the Services whose requests they take.
    joins: OrdMap<HostPattern, Arc<[Fact]>>,
    /// What is said about these Services changed.
    touched: BTreeSet<Arc<ServiceName>>,
    pub(super) shared: SharedServices,
    /// The contributions of the Ingress that was read last.
    recent: Option<Arc<Contributions>>,
}

/// One thing that an Ingress says about a Service. The order is that in which they are searched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fact {
    /// All facts of an Ingress about it share this.
    service: Arc<ServiceName>,
    facet: Facet,
    /// Of [`Facet::Balance`] and [`Facet::Cookie`]: the same text is the same wish.
    text: Arc<str>,
    created: i64,
    ingress: ObjectKey,
    /// Of [`Facet::Joined`]: the index of the rule of `ingress`.
    rule: u32,
    /// Of [`Facet::Joined`]: the index of the path of that rule.
    path: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Facet {
    /// It uses the Service.
    Used,
    /// It wants this balancing.
    Balance,
    /// It wants sessions.
    Sessions,
    /// It wants none.
    NoSessions,
    /// It wants this cookie.
    Cookie,
    /// It says how sessions and endpoints belong together.
    Mode,
    /// It is a canary, and the Service is its own.
    Canary,
    /// It is a canary, and takes a part of the Service's requests.
    Joined,
    /// Behind all others.
    End,
}

impl Ingresses {
    /// These contributions, or those of the Ingress before where they are the same: most Ingresses of a cluster say the same
    /// as their neighbours, or nothing.
    pub(super) fn shared(&mut self, contributions: Arc<Contributions>) -> Arc<Contributions> {
        match &self.recent {
            Some(recent) if **recent == *contributions => Arc::clone(recent),
            _ => {
                self.recent = Some(Arc::clone(&contributions));
                contributions
            }
        }
    }

    /// One of them.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<ServedIngress>> {
        self.by_key.get(key)
    }

    /// Takes one in that is not there.
    pub(super) fn insert(&mut self, ingress: ServedIngress) {
        let facts = facts(&ingress);
        self.touched.extend(facts.iter().map(|fact| fact.service.clone()));
        self.facts.extend(facts);
        self.by_key.insert(ingress.key.clone(), Arc::new(ingress));
    }

    /// Forgets one, and gives it.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<ServedIngress>> {
        let ingress = self.by_key.remove(key)?;
        self.forget(facts(&ingress));
        Some(ingress)
    }

    fn forget(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            self.facts.remove(&fact);
            self.touched.insert(fact.service);
        }
    }

    /// The canaries of a host join the Services of its paths, as laid out where it has canaries.
    pub(super) fn join_canaries(&mut self, host: &HostPattern, layout: Option<&Layout>) {
        if let Some(before) = self.joins.remove(host) {
            self.forget(before.iter().cloned());
        }
        let joins = layout.into_iter().flat_map(Layout::joins);
        let joins: Arc<[Fact]> = joins.filter_map(|(service, canary)| joined(service, canary)).collect();
        if !joins.is_empty() {
            self.touched.extend(joins.iter().map(|fact| fact.service.clone()));
            self.facts.extend(joins.iter().cloned());
            self.joins.insert(host.clone(), joins);
        }
    }

    /// Finds again what is shared of the Services that were touched; gives the hosts of those for whom it changed.
    pub(super) fn share(&mut self) -> BTreeSet<HostPattern> {
        let mut hosts = BTreeSet::new();
        for service in std::mem::take(&mut self.touched) {
            let shared = self.shared_by(&service);
            if self.shared.set(&service, shared) {
                self.mark_users(&service, &mut hosts);
            }
        }
        hosts
    }

    fn mark_users(&self, service: &Arc<ServiceName>, hosts: &mut BTreeSet<HostPattern>) {
        self.users(service).for_each(|ingress| hosts.extend(self.hosts_reached(ingress)));
    }

    /// The hosts whose requests may reach the Services of an Ingress: its own, and where it is a canary those of all that
    /// use a Service whose requests it takes.
    pub(super) fn hosts_reached(&self, ingress: &ServedIngress) -> BTreeSet<HostPattern> {
        let mut hosts = ingress.hosts();
        let joins: Vec<_> = hosts.iter().filter_map(|host| self.joins.get(host)).collect();
        for join in
            joins.into_iter().flat_map(|joins| joins.iter()).filter(|join| join.ingress == ingress.key)
        {
            hosts.extend(self.users(&join.service).flat_map(|user| user.hosts()));
        }
        hosts
    }

    /// The Ingresses that use a Service, the oldest first.
    fn users(&self, service: &Arc<ServiceName>) -> impl Iterator<Item = &Arc<ServedIngress>> {
        self.all(service, Facet::Used).filter_map(|fact| self.by_key.get(&fact.ingress))
    }

    /// What the Ingresses with a Service share; `None` where there are not two, or a canary of it.
    fn shared_by(&self, service: &Arc<ServiceName>) -> Option<SharedService> {
        let joined = self.all(service, Facet::Joined).next();
        if joined.is_none() && self.all(service, Facet::Used).nth(1).is_none() {
            return None;
        }
        let known = |fact: &Fact| self.by_key.get(&fact.ingress).cloned();
        let first = |facet| self.all(service, facet).next();
        let last = |facet| self.all(service, facet).next_back();
        let differ = |facet| first(facet).map(|fact| &fact.text) != last(facet).map(|fact| &fact.text);
        let key = |fact: Option<&Fact>| fact.map(|fact| fact.ingress.clone());
        let oldest = first(Facet::Used).and_then(known)?;
        let upstream = &oldest.contributions.upstream;
        let mode = first(Facet::Mode).and_then(known).and_then(|it| it.contributions.upstream.mode);
        let cookie = last(Facet::Sessions).and_then(known);
        let cookie = cookie
            .and_then(|it| it.contributions.upstream.balance.cookie.clone())
            .map(|it| Arc::new(SessionCookie { stickiness: mode.unwrap_or_default(), ..(*it).clone() }));
        let givers = Givers {
            balance: key(first(Facet::Used).filter(|_| differ(Facet::Balance))),
            sessions: key(first(Facet::Sessions).filter(|_| first(Facet::NoSessions).is_some())),
            cookie: key(last(Facet::Sessions).filter(|_| differ(Facet::Cookie))),
            mode: key(first(Facet::Mode).filter(|_| differ(Facet::Cookie))),
        };
        Some(SharedService {
            balance: Balance { cookie, ..upstream.balance.of_ingress_nginx() },
            via: upstream.via,
            givers,
            canary: joined
                .and_then(|fact| location_at(&known(fact)?, fact.rule as usize, fact.path as usize)),
            share: first(Facet::Canary).and_then(known),
        })
    }

    fn all(&self, service: &Arc<ServiceName>, facet: Facet) -> impl DoubleEndedIterator<Item = &Fact> {
        self.facts.range(Fact::begin(service, facet)..Fact::begin(service, facet.next()))
    }
}

impl Fact {
    fn new(ingress: &ServedIngress, service: &Arc<ServiceName>, facet: Facet) -> Self {
        let (created, key) = ingress.age();
        let (service, ingress) = (service.clone(), key.clone());
        Self { service, facet, text: Arc::default(), created, ingress, rule: 0, path: 0 }
    }

    /// Before all facts of a facet.
    fn begin(service: &Arc<ServiceName>, facet: Facet) -> Self {
        let (service, ingress) = (service.clone(), ObjectKey::default());
        Self { service, facet, text: Arc::default(), created: i64::MIN, ingress, rule: 0, path: 0 }
    }

    /// A text decides about its place, and age about nothing.
    fn with_text(self, text: &str) -> Self {
        Self { text: shared::text(text), created: 0, ..self }
    }
}

impl Facet {
    fn next(self) -> Self {
        match self {
            Self::Used => Self::Balance,
            Self::Balance => Self::Sessions,
            Self::Sessions => Self::NoSessions,
            Self::NoSessions => Self::Cookie,
            Self::Cookie => Self::Mode,
            Self::Mode => Self::Canary,
            Self::Canary => Self::Joined,
            Self::Joined | Self::End => Self::End,
        }
    }
}

/// All that an Ingress by itself says about its Services.
fn facts(ingress: &ServedIngress) -> Vec<Fact> {
    if ingress.compat == Compat::Strict {
        return Vec::new();
    }
    let upstream = &ingress.contributions.upstream;
    let balance =
        format!("{}{:?}", upstream.balance.of_ingress_nginx().without_sessions().suffix(), upstream.via);
    let cookie = upstream.balance.cookie.as_ref().filter(|_| ingress.canary().is_none()).map(|cookie| {
        let wish = Balance { cookie: Some(cookie.clone()), ..Balance::default() };
        format!("{}{:?}", wish.suffix(), upstream.mode)
    });
    let mut facts = Vec::new();
    for service in services_of(ingress).into_iter().map(Arc::new) {
        let fact = |facet| Fact::new(ingress, &service, facet);
        facts.extend([fact(Facet::Used), fact(Facet::Balance).with_text(&balance)]);
        match (ingress.canary(), &cookie) {
            (Some(_), _) => facts.push(fact(Facet::Canary)),
            (None, None) => facts.push(fact(Facet::NoSessions)),
            (None, Some(cookie)) => {
                facts.extend([fact(Facet::Sessions), fact(Facet::Cookie).with_text(cookie)]);
                facts.extend(upstream.mode.map(|_| fact(Facet::Mode)));
            }
        }
    }
    facts
}

fn joined(service: ServiceName, canary: &Location) -> Option<Fact> {
    let (owner, Place::Path(rule, path)) = (canary.owner.as_ref()?, canary.place) else { return None };
    let (rule, path) = (u32::try_from(rule).ok()?, u32::try_from(path).ok()?);
    Some(Fact { rule, path, ..Fact::new(owner, &Arc::new(service), Facet::Joined) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ingress_pays_for_several_facts() {
        assert!(size_of::<Fact>() <= 80, "{}", size_of::<Fact>());
    }
}
