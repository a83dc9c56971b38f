//! Reads the routes that are marked, and marks the listeners to which they are attached; then gives each its part
//! in hosts, after it is known which of them keep others from a listener.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{self as model, HostKey, HostPattern};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::filling::filling;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::shared::Recent;

use crate::afford::{self, Unaffordable};
use crate::attach::{self, AtParent, Attaching, Attachment};
use crate::backend::PolicyVerdict;
use crate::condition::{ACCEPTED, Condition, Fault, PARTIALLY_INVALID, RESOLVED_REFS};
use crate::listener::{ListenerId, Protocol};
use crate::route::{Route, stream};
use crate::rules::Rules;
use crate::state::{Aged, Contribution, Gateways, Made, Part, RouteMemo, Variant};
use crate::status::{ObjectStatus, OwnStatus, ParentStatus};
use crate::tls_policy;
use crate::work::Work;

thread_local! {
    /// What was last said of routes: the same for most routes of a Gateway.
    static STATUSES: RefCell<Recent<[ParentStatus]>> = const { RefCell::new(Recent::new()) };
}

impl Gateways {
    /// Reads routes.
    pub(crate) fn read_routes(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for reference in filling(std::mem::take(&mut work.routes.read)) {
            let route = Route::find(&reference, inputs.resources);
            let memo = route.map(|route| self.read_route(&reference, route, inputs));
            self.remember_route(&reference, memo.map(Arc::new).as_ref(), work);
        }
    }

    fn read_route(&self, reference: &ObjectRef, route: Route<'_>, inputs: Inputs<'_>) -> RouteMemo {
        let namespace = &reference.key.namespace;
        let named: BTreeSet<_> =
            route.parents().iter().filter_map(|it| attach::parent(it, namespace)).collect();
        let hosts = attach::hosts(route.hostnames());
        let attaching = Attaching { route: reference, hosts: hosts.clone(), references: route.parents() };
        let mut parents = attaching.at(&self.listening.parents, inputs.resources);
        let mut rules: BTreeMap<Variant, Made> = BTreeMap::new();
        for at in &parents {
            for variant in self.variants(at) {
                rules.entry(variant.clone()).or_insert_with(|| self.made(reference, route, &variant, inputs));
            }
        }
        let refusal = rules.values().find_map(|made| made.rules.refusal().cloned());
        if let Some(refusal) = refusal {
            let attached = parents.iter_mut().filter(|at| at.attached.is_ok());
            attached.for_each(|at| at.attached = Err(refusal.clone()));
        }
        let services: BTreeSet<_> =
            rules.values().flat_map(|made| made.rules.found.services.iter().cloned()).collect();
        let pools: BTreeSet<_> =
            rules.values().flat_map(|made| made.rules.found.pools.iter().cloned()).collect();
        let filters = rules.values().flat_map(|made| made.rules.found.filters.iter().cloned());
        let named: BTreeSet<_> =
            filters.map(|key| ObjectRef::new(Kind::RouteFilter, key)).chain(named).collect();
        let created = route.created().unwrap_or(i64::MAX);
        RouteMemo {
            age: Aged { created, key: reference.key.clone(), kind: reference.kind },
            named: named.into_iter().collect(),
            services: services.into_iter().collect(),
            pools: pools.into_iter().collect(),
            hosts: hosts.unwrap_or_default().into(),
            parents: parents.into(),
            made: rules.into_iter().collect(),
        }
    }

    /// What the rules of a route must be made for at a parent. What is wrong with them is found also where it is
    /// not attached.
    fn variants(&self, at: &AtParent) -> BTreeSet<Variant> {
        let attached = at.attached.iter().flatten();
        let mut variants: BTreeSet<_> = attached.map(|it| self.variant(it)).collect();
        if variants.is_empty() {
            variants.insert(Variant::default());
        }
        variants
    }

    fn variant(&self, attachment: &Attachment) -> Variant {
        let reading = self.listening.readings.get(&attachment.gateway);
        let shown = reading.and_then(|reading| reading.client_certificate.secret.clone());
        let parent = self.listening.parents.get(&attachment.listener.owner);
        let mut listeners = parent.iter().flat_map(|parent| &parent.listeners);
        let listener = listeners.find(|it| it.entry.id == attachment.listener);
        let of = |kind| self.attached.of_listener(kind, &attachment.gateway, &attachment.listener);
        let guards = of(Kind::SecurityPolicy);
        let port = listener.map(|it| it.entry.port).filter(|_| !guards.is_empty());
        let frontend = reading.zip(port).map(|(reading, port)| reading.frontend.of(port));
        Variant {
            client_certificate: shown,
            passes_through: listener.is_some_and(|it| it.entry.protocol == Protocol::Passthrough),
            guards,
            extensions: of(Kind::ExtensionPolicy),
            verified: frontend.is_some_and(|clients| clients.verification.is_some()),
        }
    }

    fn made(&self, reference: &ObjectRef, route: Route<'_>, variant: &Variant, inputs: Inputs<'_>) -> Made {
        let speaks = route.speaks(variant.passes_through);
        let mut rules = self.with_resolver(reference, speaks, variant, inputs, |it| route.rules(it));
        if let Some(policy) = self.attached.for_http_only(variant) {
            rules.close_streams(&policy, route.origin(reference, "spec.rules"));
        }
        let made = model::Route {
            origin: route.origin(reference, ""),
            created: route.created(),
            hostname_rank: 0,
            rules: rules.take(),
        };
        let prices = afford::prices(&made.rules);
        Made { rules: Arc::new(rules), route: Arc::new(made), prices }
    }

    pub(crate) fn policy(&self, service: &ObjectKey, port: Option<&str>) -> Option<PolicyVerdict> {
        let key = tls_policy::deciding(&self.policies.targets, service, port)?;
        let policy = self.policies.by_key.get(key)?;
        Some((key.clone(), policy.tls.clone()))
    }

    fn remember_route(&mut self, reference: &ObjectRef, after: Option<&Arc<RouteMemo>>, work: &mut Work) {
        work.routes.finished.insert(reference.clone());
        let before = match after {
            Some(after) => self.routes.by_key.insert(reference.clone(), after.clone()),
            None => self.routes.by_key.remove(reference),
        };
        let (old, new) = (before.as_deref(), after.map(|memo| &**memo));
        let named = |memo: Option<&RouteMemo>| -> BTreeSet<ObjectRef> {
            memo.iter().flat_map(|memo| memo.named.iter().cloned()).collect()
        };
        let (was, is) = (named(old), named(new));
        was.difference(&is).for_each(|it| self.routes.by_named.remove(it, reference));
        is.difference(&was).for_each(|it| self.routes.by_named.add(it, reference.clone()));
        let services = |memo: Option<&RouteMemo>| -> BTreeSet<ObjectKey> {
            memo.iter().flat_map(|memo| memo.services.iter().cloned()).collect()
        };
        let (was, is) = (services(old), services(new));
        was.difference(&is).for_each(|it| self.routes.by_service.remove(it, reference));
        is.difference(&was).for_each(|it| self.routes.by_service.add(it, reference.clone()));
        let pools = self.exchange_pools(reference, old, new, work);
        let foreign = is.iter().chain(&pools).map(|named| named.namespace.clone());
        self.set_foreign(reference, foreign.filter(|it| *it != reference.key.namespace).collect());
        let (was, is) = (old.map(RouteMemo::reached), new.map(RouteMemo::reached));
        let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
        for (service, _) in was.symmetric_difference(&is) {
            work.statuses.extend(self.policies_for(service));
        }
        // Hosts count too: they decide who keeps whom from a listener.
        let (was, is) = (old.map(RouteMemo::listeners), new.map(RouteMemo::listeners));
        let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
        work.statuses.extend(was.symmetric_difference(&is).map(|listener| listener.owner.clone()));
        for (memo, listener) in was.iter().filter_map(|listener| Some((old?, listener))) {
            self.routes.attached.remove(listener, &memo.age);
            self.routes.grpc.remove(listener, &memo.age);
        }
        for (memo, listener) in is.iter().filter_map(|listener| Some((new?, listener))) {
            self.routes.attached.add(listener, memo.age.clone());
            if memo.age.kind == Kind::GrpcRoute {
                self.routes.grpc.add(listener, memo.age.clone());
            }
        }
        work.attached.extend(was.into_iter().chain(is));
    }

    /// Takes the InferencePools that a route names, and marks those whose status says something of it; gives what it names now.
    fn exchange_pools(
        &mut self,
        reference: &ObjectRef,
        before: Option<&RouteMemo>,
        after: Option<&RouteMemo>,
        work: &mut Work,
    ) -> Vec<ObjectKey> {
        let named = |memo: Option<&RouteMemo>| memo.map(|memo| memo.pools.to_vec()).unwrap_or_default();
        let (was, is) = (named(before), named(after));
        for pool in was.iter().filter(|pool| !is.contains(pool)) {
            self.routes.by_pool.remove(pool, reference);
        }
        for pool in is.iter().filter(|pool| !was.contains(pool)) {
            self.routes.by_pool.add(pool, reference.clone());
        }
        let marked = was.iter().chain(&is).map(|pool| ObjectRef::new(Kind::InferencePool, pool.clone()));
        work.statuses.extend(marked);
        is
    }

    /// Gives the routes that were read, and those that others keep from a listener or no longer keep, their part in
    /// hosts.
    pub(crate) fn finish_routes(&mut self, work: &mut Work) {
        for reference in filling(std::mem::take(&mut work.routes.finished)) {
            let memo = self.routes.by_key.get(&reference).cloned();
            let contributed = memo.as_ref().map(|memo| self.contributions(memo)).unwrap_or_default();
            let is_served = !contributed.is_empty();
            self.contribute(&reference, contributed, work);
            work.statuses.extend(self.attached.of(&reference).cloned());
            let backends = memo.iter().flat_map(|memo| &memo.made).filter(|_| is_served);
            let backends =
                backends.flat_map(|(_, made)| made.rules.found.backends().iter().cloned()).collect();
            work.pieces.backends.push((reference.clone(), backends));
            work.routes.told.insert(reference);
        }
    }

    /// Makes statuses and diagnostics, after it is known what hosts cannot afford.
    pub(crate) fn tell_routes(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for reference in filling(std::mem::take(&mut work.routes.told)) {
            let memo = self.routes.by_key.get(&reference).cloned();
            let route = Route::find(&reference, inputs.resources);
            let over = self.over_budget(&reference);
            let parents = memo.as_ref().map(|memo| self.at_parents(memo, &over)).unwrap_or_default();
            if !over.is_empty() {
                work.statuses.extend(self.owners(&reference));
            }
            let found = match (route, &memo) {
                (Some(route), Some(memo)) => {
                    let outranked = self.outranked(&reference, route, memo);
                    diagnostics(&reference, route, memo, &parents).chain(outranked).collect()
                }
                _ => Vec::new(),
            };
            let too_expensive = over.iter().map(|(host, refused)| too_expensive(host, refused));
            let found = found.into_iter().chain(too_expensive).collect();
            work.pieces.diagnostics.push((reference.clone(), found));
            let told = Told { parents: &parents, over: &over };
            let status = route.and_then(|route| self.route_status(route, memo.as_deref()?, told));
            self.set_status(&reference, status);
        }
    }

    /// What hosts cannot afford of a route.
    fn over_budget(&self, reference: &ObjectRef) -> Vec<(HostPattern, Unaffordable)> {
        let hosts = self.routes.contributed.get(reference).into_iter().flat_map(|hosts| hosts.iter());
        // A route may have several parts in a host.
        let keys: BTreeSet<&HostKey> = hosts.map(|(key, _)| key).collect();
        let of = |key: &HostKey| Some(self.tables.over_budget.get(key)?.get(reference)?.refused.clone());
        let all = keys.into_iter().filter_map(|key| Some((key, of(key)?)));
        all.flat_map(|(key, refused)| refused.into_iter().map(|it| (key.host.clone(), it))).collect()
    }

    /// The hosts that a route has a part in.
    fn contributions(&self, memo: &RouteMemo) -> BTreeSet<Part> {
        let mut contributions = BTreeSet::new();
        for attachment in memo.attached().filter(|it| !self.loses(it, &memo.age)) {
            let Some(table) = &attachment.table else { continue };
            let contribution = Arc::new(Contribution {
                route: memo.age.clone(),
                listener: attachment.host.clone(),
                variant: self.variant(attachment),
            });
            let key = |host: &HostPattern| HostKey { table: table.clone(), host: host.clone() };
            contributions.extend(attachment.hosts.iter().map(|host| (key(host), contribution.clone())));
        }
        contributions
    }

    fn contribute(&mut self, reference: &ObjectRef, after: BTreeSet<Part>, work: &mut Work) {
        let before = self.routes.contributed.remove(reference).unwrap_or_default();
        let gone = before.iter().filter(|part| !after.contains(*part));
        gone.for_each(|(key, it)| self.tables.hosts.remove(key, it));
        let new = after.iter().filter(|part| before.binary_search(part).is_err());
        new.for_each(|(key, it)| self.tables.hosts.add(key, it.clone()));
        // Also where it has the same part: its rules may be others.
        work.hosts.extend(before.iter().chain(&after).map(|(key, _)| key.clone()));
        if !after.is_empty() {
            self.routes.contributed.insert(reference.clone(), after.into_iter().collect());
        }
    }

    /// The BackendTLSPolicies for a Service and its ports.
    pub(crate) fn policies_for(&self, service: &ObjectKey) -> Vec<ObjectRef> {
        let all = self.policies.targets.from((service.clone(), None));
        let of = all.take_while(|((it, _), _)| it == service).flat_map(|(_, policies)| policies.iter());
        of.map(|(_, key)| ObjectRef::new(Kind::BackendTlsPolicy, key.clone())).collect()
    }

    /// Whether another route keeps this one from a listener.
    pub(crate) fn loses(&self, attachment: &Attachment, route: &Aged) -> bool {
        let losers = self.routes.losers.get(&attachment.listener);
        losers.is_some_and(|losers| losers.contains(&route.reference()))
    }

    /// The parents, with those refused at all of whose listeners another route is in the way, or hosts can afford no rule.
    fn at_parents(&self, memo: &RouteMemo, over: &[(HostPattern, Unaffordable)]) -> Vec<AtParent> {
        let mut parents = memo.parents.to_vec();
        for at in &mut parents {
            let Ok(attached) = &at.attached else { continue };
            let mut winning = attached.iter().filter(|it| !self.loses(it, &memo.age)).peekable();
            if winning.peek().is_none() {
                let problem = "an older route of another kind has the same hosts at the listener";
                at.attached = Err(Fault::new("HostnameConflict", problem));
            } else if let Some((host, first)) = over.first()
                && self.is_spent(&memo.age.reference(), winning)
            {
                let problem =
                    format!("no rule of it is left at the host \"{host}\": {}", first.fault.message);
                at.attached = Err(Fault::new(first.fault.reason, problem));
            }
        }
        parents
    }

    /// What is said of a route at listeners that another one serves alone.
    fn outranked(&self, reference: &ObjectRef, route: Route<'_>, memo: &RouteMemo) -> Vec<Diagnostic> {
        if !stream::serves_alone(reference.kind) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for at in &memo.parents {
            let index = route.parents().iter().position(|it| *it == *at.reference).unwrap_or_default();
            for listener in at.attached.iter().flatten().map(|it| &it.listener) {
                let first = self.routes.attached.of(listener).next().filter(|first| **first != memo.age);
                let Some(first) = first else { continue };
                let origin = route.origin(reference, &format!("spec.parentRefs[{index}]"));
                let (kind, name) = (first.kind.name(), &listener.name);
                let problem = format!("{kind} {} comes first at the listener {name}", first.key);
                let nothing = "the route is accepted, and gets nothing from this listener";
                let outranked = Diagnostic::new(Severity::Warning, "route-outranked", origin);
                found.push(outranked.because(problem, nothing));
            }
        }
        found
    }

    fn route_status(&self, route: Route<'_>, memo: &RouteMemo, told: Told<'_>) -> Option<ObjectStatus> {
        let Told { parents, over } = told;
        if parents.is_empty() && !route.has_entry_of(&self.controller) {
            return None;
        }
        let status = |at: &AtParent| {
            let rules: Vec<&Rules> = self
                .variants(at)
                .iter()
                .filter_map(|variant| memo.made(variant))
                .map(|made| &*made.rules)
                .collect();
            ParentStatus { parent: at.reference.clone(), conditions: conditions(at, &rules, over) }
        };
        let own: Arc<[ParentStatus]> = parents.iter().map(status).collect();
        let own = OwnStatus::Route(STATUSES.with_borrow_mut(|recent| recent.shared(own)));
        Some(ObjectStatus::new(route.metadata(), &self.controller, own))
    }
}

/// What the status of a route is made of besides its rules.
#[derive(Clone, Copy)]
struct Told<'a> {
    parents: &'a [AtParent],
    over: &'a [(HostPattern, Unaffordable)],
}

impl RouteMemo {
    /// Each Service that it names, with each Gateway that it is attached to.
    fn reached(&self) -> BTreeSet<(&ObjectKey, &ObjectKey)> {
        let gateways = || self.attached().map(|it| &it.gateway);
        self.services.iter().flat_map(|service| gateways().map(move |gateway| (service, gateway))).collect()
    }

    fn listeners(&self) -> BTreeSet<ListenerId> {
        self.attached().map(|it| it.listener.clone()).collect()
    }

    /// Its rules in a variant.
    pub(crate) fn made(&self, variant: &Variant) -> Option<&Made> {
        self.made.iter().find(|(it, _)| it == variant).map(|(_, made)| made)
    }

    /// Where it is attached.
    pub(crate) fn attached(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().flat_map(|at| at.attached.iter().flatten())
    }
}

fn conditions(at: &AtParent, rules: &[&Rules], over: &[(HostPattern, Unaffordable)]) -> Vec<Condition> {
    let unresolved = rules.iter().find_map(|rules| rules.unresolved.as_ref());
    let mut conditions = vec![
        Condition::of(ACCEPTED, at.attached.as_ref().err(), "Accepted", "the parent takes the route"),
        Condition::of(RESOLVED_REFS, unresolved, "ResolvedRefs", "all that it refers to is there"),
    ];
    let partly = rules.iter().find_map(|rules| rules.partly()).or_else(|| dropped(over));
    let partly = partly.filter(|_| at.attached.is_ok());
    conditions.extend(partly.map(|fault| Condition::met(PARTIALLY_INVALID, fault.reason, fault.message)));
    conditions
}

/// Rules that some of their hosts cannot afford.
fn dropped(over: &[(HostPattern, Unaffordable)]) -> Option<Fault> {
    let (host, first) = over.first()?;
    let problem = format!("Dropped Rule(s) at the host \"{host}\": {}", first.fault.message);
    Some(Fault::new(first.fault.reason, problem))
}

fn too_expensive(host: &HostPattern, refused: &Unaffordable) -> Diagnostic {
    let found = Diagnostic::new(Severity::Error, "route-rule", refused.origin.clone());
    let consequence = format!("no request for the host \"{host}\" matches it");
    found.because(refused.fault.message.clone(), consequence)
}

fn diagnostics<'m>(
    reference: &'m ObjectRef,
    route: Route<'m>,
    memo: &'m RouteMemo,
    parents: &'m [AtParent],
) -> impl Iterator<Item = Diagnostic> + 'm {
    let own = memo.made.iter().flat_map(|(_, made)| made.rules.diagnostics());
    let all = route.parents();
    let refused = parents.iter().filter_map(move |at| {
        let fault = at.attached.as_ref().err()?;
        let index = all.iter().position(|it| *it == *at.reference).unwrap_or_default();
        let origin = route.origin(reference, &format!("spec.parentRefs[{index}]"));
        let found = Diagnostic::new(Severity::Error, "route-not-accepted", origin);
        Some(found.because(fault.message.clone(), format!("{} does not serve it", at.reference.name)))
    });
    own.chain(refused)
}
