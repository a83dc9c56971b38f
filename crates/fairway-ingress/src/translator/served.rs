//! Index of served Ingresses by Service, port and age, so that the deciding Ingresses are found quickly even if many
//! share a Service. `ingress::shared_service` evaluates what is shared.

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
use crate::ingress::location::{Location, LocationSource, services_of};
use crate::ingress::served::ServedIngress;
use crate::ingress::shared_service::{Deciders, SharedService, SharedServices};

/// The served Ingresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Ingresses {
    by_key: OrdMap<ObjectKey, Arc<ServedIngress>>,
    facts: OrdSet<ServiceFact>,
    /// Canaries of each host, as facts about the Services whose requests they take.
    joins: OrdMap<HostPattern, Arc<[ServiceFact]>>,
    /// Services whose facts changed.
    touched: BTreeSet<Arc<ServiceName>>,
    pub(super) shared: SharedServices,
    /// The contributions of the last read Ingress.
    recent: Option<Arc<Contributions>>,
}

/// A fact about a Service from an Ingress, in search order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ServiceFact {
    /// Shared by all facts of an Ingress about it.
    service: Arc<ServiceName>,
    kind: FactKind,
    /// For [`FactKind::Balance`] and [`FactKind::Cookie`]: equal texts are equal settings.
    text: Arc<str>,
    created: i64,
    ingress: ObjectKey,
    /// For [`FactKind::Joined`]: the rule index in `ingress`.
    rule: u32,
    /// For [`FactKind::Joined`]: the path index in that rule.
    path: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FactKind {
    /// Uses the Service.
    Used,
    /// Requests this load balancing.
    Balance,
    /// Requests sessions.
    Sessions,
    /// Requests no sessions.
    NoSessions,
    /// Requests this cookie.
    Cookie,
    /// Sets the affinity mode.
    Mode,
    /// Is a canary whose own backend is the Service.
    Canary,
    /// Is a canary that takes requests of the Service.
    Joined,
    /// After all others.
    End,
}

impl Ingresses {
    /// Returns the previous Ingress's contributions if they are equal: most Ingresses have the same annotations as
    /// their neighbours, or none.
    pub(super) fn reuse_contributions(&mut self, contributions: Arc<Contributions>) -> Arc<Contributions> {
        match &self.recent {
            Some(recent) if **recent == *contributions => Arc::clone(recent),
            _ => {
                self.recent = Some(Arc::clone(&contributions));
                contributions
            }
        }
    }

    /// The Ingress with this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<ServedIngress>> {
        self.by_key.get(key)
    }

    /// Adds a new Ingress.
    pub(super) fn insert(&mut self, ingress: ServedIngress) {
        let facts = facts(&ingress);
        self.touched.extend(facts.iter().map(|fact| fact.service.clone()));
        self.facts.extend(facts);
        self.by_key.insert(ingress.key.clone(), Arc::new(ingress));
    }

    /// Removes and returns an Ingress.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<ServedIngress>> {
        let ingress = self.by_key.remove(key)?;
        self.forget(facts(&ingress));
        Some(ingress)
    }

    fn forget(&mut self, facts: impl IntoIterator<Item = ServiceFact>) {
        for fact in facts {
            self.facts.remove(&fact);
            self.touched.insert(fact.service);
        }
    }

    /// Records the canaries of a host for the Services of its paths.
    pub(super) fn join_canaries(&mut self, host: &HostPattern, layout: Option<&Layout>) {
        if let Some(before) = self.joins.remove(host) {
            self.forget(before.iter().cloned());
        }
        let joins = layout.into_iter().flat_map(Layout::service_canaries);
        let joins: Arc<[ServiceFact]> =
            joins.filter_map(|(service, canary)| canary_fact(service, canary)).collect();
        if !joins.is_empty() {
            self.touched.extend(joins.iter().map(|fact| fact.service.clone()));
            self.facts.extend(joins.iter().cloned());
            self.joins.insert(host.clone(), joins);
        }
    }

    /// Updates the shared settings of changed Services; returns the hosts for which they changed.
    pub(super) fn update_shared(&mut self) -> BTreeSet<HostPattern> {
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

    /// The hosts whose requests may reach the Services of an Ingress: its own, and for a canary those of all users of
    /// the Services whose requests it takes.
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

    /// The Ingresses that use a Service, oldest first.
    fn users(&self, service: &Arc<ServiceName>) -> impl Iterator<Item = &Arc<ServedIngress>> {
        self.facts_of_kind(service, FactKind::Used).filter_map(|fact| self.by_key.get(&fact.ingress))
    }

    /// The shared settings of a Service; `None` unless there are two users or a canary.
    fn shared_by(&self, service: &Arc<ServiceName>) -> Option<SharedService> {
        let joined = self.facts_of_kind(service, FactKind::Joined).next();
        if joined.is_none() && self.facts_of_kind(service, FactKind::Used).nth(1).is_none() {
            return None;
        }
        let known = |fact: &ServiceFact| self.by_key.get(&fact.ingress).cloned();
        let first = |facet| self.facts_of_kind(service, facet).next();
        let last = |facet| self.facts_of_kind(service, facet).next_back();
        let differ = |facet| first(facet).map(|fact| &fact.text) != last(facet).map(|fact| &fact.text);
        let key = |fact: Option<&ServiceFact>| fact.map(|fact| fact.ingress.clone());
        let oldest = first(FactKind::Used).and_then(known)?;
        let upstream = &oldest.contributions.upstream;
        let mode = first(FactKind::Mode).and_then(known).and_then(|it| it.contributions.upstream.mode);
        let cookie = last(FactKind::Sessions).and_then(known);
        let cookie = cookie
            .and_then(|it| it.contributions.upstream.balance.cookie.clone())
            .map(|it| Arc::new(SessionCookie { stickiness: mode.unwrap_or_default(), ..(*it).clone() }));
        let givers = Deciders {
            balance: key(first(FactKind::Used).filter(|_| differ(FactKind::Balance))),
            sessions: key(first(FactKind::Sessions).filter(|_| first(FactKind::NoSessions).is_some())),
            cookie: key(last(FactKind::Sessions).filter(|_| differ(FactKind::Cookie))),
            mode: key(first(FactKind::Mode).filter(|_| differ(FactKind::Cookie))),
        };
        Some(SharedService {
            balance: Balance { cookie, ..upstream.balance.of_ingress_nginx() },
            via: upstream.via,
            deciders: givers,
            canary: joined
                .and_then(|fact| location_at(&known(fact)?, fact.rule as usize, fact.path as usize)),
            share: first(FactKind::Canary).and_then(known),
        })
    }

    fn facts_of_kind(
        &self,
        service: &Arc<ServiceName>,
        facet: FactKind,
    ) -> impl DoubleEndedIterator<Item = &ServiceFact> {
        self.facts
            .range(ServiceFact::lower_bound(service, facet)..ServiceFact::lower_bound(service, facet.next()))
    }
}

impl ServiceFact {
    fn new(ingress: &ServedIngress, service: &Arc<ServiceName>, facet: FactKind) -> Self {
        let (created, key) = ingress.age();
        let (service, ingress) = (service.clone(), key.clone());
        Self { service, kind: facet, text: Arc::default(), created, ingress, rule: 0, path: 0 }
    }

    /// Sorts before all facts of a kind.
    fn lower_bound(service: &Arc<ServiceName>, facet: FactKind) -> Self {
        let (service, ingress) = (service.clone(), ObjectKey::default());
        Self { service, kind: facet, text: Arc::default(), created: i64::MIN, ingress, rule: 0, path: 0 }
    }

    /// The text determines its position; age is irrelevant.
    fn with_text(self, text: &str) -> Self {
        Self { text: shared::text(text), created: 0, ..self }
    }
}

impl FactKind {
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

/// All facts from an Ingress about its Services.
fn facts(ingress: &ServedIngress) -> Vec<ServiceFact> {
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
        let fact = |facet| ServiceFact::new(ingress, &service, facet);
        facts.extend([fact(FactKind::Used), fact(FactKind::Balance).with_text(&balance)]);
        match (ingress.canary(), &cookie) {
            (Some(_), _) => facts.push(fact(FactKind::Canary)),
            (None, None) => facts.push(fact(FactKind::NoSessions)),
            (None, Some(cookie)) => {
                facts.extend([fact(FactKind::Sessions), fact(FactKind::Cookie).with_text(cookie)]);
                facts.extend(upstream.mode.map(|_| fact(FactKind::Mode)));
            }
        }
    }
    facts
}

fn canary_fact(service: ServiceName, canary: &Location) -> Option<ServiceFact> {
    let (owner, LocationSource::Path(rule, path)) = (canary.owner.as_ref()?, canary.source) else {
        return None;
    };
    let (rule, path) = (u32::try_from(rule).ok()?, u32::try_from(path).ok()?);
    Some(ServiceFact { rule, path, ..ServiceFact::new(owner, &Arc::new(service), FactKind::Joined) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ingress_pays_for_several_facts() {
        assert!(size_of::<ServiceFact>() <= 80, "{}", size_of::<ServiceFact>());
    }
}
