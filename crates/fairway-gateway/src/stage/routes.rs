//! Reads the marked routes, marks the listeners to which they are attached, and adds the routes to hosts once
//! contests are decided.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{self as model, HostKey, HostPattern};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::inputs::Inputs;
use fairway_objects::insertion_order::filling;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::shared::RecentValues;

use crate::attach::{self, AttachableRoute, Attachment, ParentAttachment};
use crate::backend::PolicyVerdict;
use crate::condition::{ACCEPTED, Condition, Fault, PARTIALLY_INVALID, RESOLVED_REFS};
use crate::listener::{ListenerId, Protocol};
use crate::pattern_budget::{self, RejectedMatch};
use crate::route::{Route, stream};
use crate::rules::RouteRules;
use crate::state::{BuiltRules, Contribution, Gateways, HostContribution, RouteByAge, RouteMemo, Variant};
use crate::status::{ObjectStatus, OwnStatus, ParentStatus};
use crate::tls_policy;
use crate::work::Work;

thread_local! {
    /// Recent route statuses: most routes of a Gateway have equal ones.
    static RECENT_STATUSES: RefCell<RecentValues<[ParentStatus]>> = const { RefCell::new(RecentValues::new()) };
}

impl Gateways {
    /// Reads routes.
    pub(crate) fn read_routes(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for reference in filling(std::mem::take(&mut work.routes.read)) {
            let route = Route::find(&reference, inputs.resources);
            let memo = route.map(|route| self.read_route(&reference, route, inputs));
            self.store_route(&reference, memo.map(Arc::new).as_ref(), work);
        }
    }

    fn read_route(&self, reference: &ObjectRef, route: Route<'_>, inputs: Inputs<'_>) -> RouteMemo {
        let namespace = &reference.key.namespace;
        let named: BTreeSet<_> =
            route.parents().iter().filter_map(|it| attach::parent_object(it, namespace)).collect();
        let hosts = attach::parse_hostnames(route.hostnames());
        let attaching =
            AttachableRoute { route: reference, hosts: hosts.clone(), references: route.parents() };
        let mut parents = attaching.at(&self.listening.parents, inputs.resources);
        let mut rules: BTreeMap<Variant, BuiltRules> = BTreeMap::new();
        for at in &parents {
            for variant in self.variants(at) {
                rules
                    .entry(variant.clone())
                    .or_insert_with(|| self.build_rules(reference, route, &variant, inputs));
            }
        }
        let refusal = rules.values().find_map(|made| made.rules.refusal().cloned());
        if let Some(refusal) = refusal {
            let attached = parents.iter_mut().filter(|at| at.attached.is_ok());
            attached.for_each(|at| at.attached = Err(refusal.clone()));
        }
        let services: BTreeSet<_> =
            rules.values().flat_map(|made| made.rules.references.services.iter().cloned()).collect();
        let pools: BTreeSet<_> =
            rules.values().flat_map(|made| made.rules.references.pools.iter().cloned()).collect();
        let filters = rules.values().flat_map(|made| made.rules.references.filters.iter().cloned());
        let named: BTreeSet<_> =
            filters.map(|key| ObjectRef::new(Kind::RouteFilter, key)).chain(named).collect();
        let created = route.created().unwrap_or(i64::MAX);
        RouteMemo {
            age: RouteByAge { created, key: reference.key.clone(), kind: reference.kind },
            named: named.into_iter().collect(),
            services: services.into_iter().collect(),
            pools: pools.into_iter().collect(),
            hosts: hosts.unwrap_or_default().into(),
            parents: parents.into(),
            rules_by_variant: rules.into_iter().collect(),
        }
    }

    /// The variants of a route's rules needed at a parent. Rules are checked even if the route is not attached.
    fn variants(&self, at: &ParentAttachment) -> BTreeSet<Variant> {
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
        let policies_of =
            |kind| self.own_policies.listener_policies(kind, &attachment.gateway, &attachment.listener);
        let guards = policies_of(Kind::SecurityPolicy);
        let port = listener.map(|it| it.entry.port).filter(|_| !guards.is_empty());
        let frontend = reading.zip(port).map(|(reading, port)| reading.frontend.requirements_of(port));
        Variant {
            client_certificate: shown,
            passes_through: listener.is_some_and(|it| it.entry.protocol == Protocol::Passthrough),
            guards,
            extensions: policies_of(Kind::ExtensionPolicy),
            verified: frontend.is_some_and(|clients| clients.verification.is_some()),
        }
    }

    fn build_rules(
        &self,
        reference: &ObjectRef,
        route: Route<'_>,
        variant: &Variant,
        inputs: Inputs<'_>,
    ) -> BuiltRules {
        let speaks = route.protocol(variant.passes_through);
        let mut rules = self.with_resolver(reference, speaks, variant, inputs, |it| route.rules(it));
        if let Some(policy) = self.own_policies.http_only_policy(variant) {
            rules.close_streams(&policy, route.origin(reference, "spec.rules"));
        }
        let model_route = model::Route {
            origin: route.origin(reference, ""),
            created: route.created(),
            hostname_rank: 0,
            rules: rules.take_http_rules(),
        };
        let prices = pattern_budget::match_costs(&model_route.rules);
        BuiltRules { rules: Arc::new(rules), route: Arc::new(model_route), match_costs: prices }
    }

    pub(crate) fn policy(&self, service: &ObjectKey, port: Option<&str>) -> Option<PolicyVerdict> {
        let key = tls_policy::deciding_policy(&self.tls_policies.targets, service, port)?;
        let policy = self.tls_policies.by_key.get(key)?;
        Some((key.clone(), policy.tls.clone()))
    }

    fn store_route(&mut self, reference: &ObjectRef, after: Option<&Arc<RouteMemo>>, work: &mut Work) {
        work.routes.contributing.insert(reference.clone());
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
        let pools = self.replace_pools(reference, old, new, work);
        let foreign = is.iter().chain(&pools).map(|named| named.namespace.clone());
        self.set_foreign_namespaces(reference, foreign.filter(|it| *it != reference.key.namespace).collect());
        let (was, is) = (old.map(RouteMemo::reached_services), new.map(RouteMemo::reached_services));
        let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
        for (service, _) in was.symmetric_difference(&is) {
            work.statuses.extend(self.policies_for(service));
        }
        // Hosts count too: they decide which route keeps another from a listener.
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

    /// Updates the InferencePools that a route names, and marks those whose status depends on it; returns the current
    /// ones.
    fn replace_pools(
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

    /// Adds the routes that were read, or whose contests changed, to hosts.
    pub(crate) fn contribute_routes(&mut self, work: &mut Work) {
        for reference in filling(std::mem::take(&mut work.routes.contributing)) {
            let memo = self.routes.by_key.get(&reference).cloned();
            let contributed = memo.as_ref().map(|memo| self.contributions(memo)).unwrap_or_default();
            let is_served = !contributed.is_empty();
            self.contribute(&reference, contributed, work);
            work.statuses.extend(self.own_policies.policies_for(&reference).cloned());
            let backends = memo.iter().flat_map(|memo| &memo.rules_by_variant).filter(|_| is_served);
            let backends =
                backends.flat_map(|(_, made)| made.rules.references.backends().iter().cloned()).collect();
            work.changes.backends.push((reference.clone(), backends));
            work.routes.statuses.insert(reference);
        }
    }

    /// Creates statuses and diagnostics, once it is known what exceeds the budget of hosts.
    pub(crate) fn make_route_statuses(&mut self, inputs: Inputs<'_>, work: &mut Work) {
        for reference in filling(std::mem::take(&mut work.routes.statuses)) {
            let memo = self.routes.by_key.get(&reference).cloned();
            let route = Route::find(&reference, inputs.resources);
            let over = self.over_budget(&reference);
            let parents = memo.as_ref().map(|memo| self.at_parents(memo, &over)).unwrap_or_default();
            if !over.is_empty() {
                work.statuses.extend(self.listener_owners(&reference));
            }
            let found = match (route, &memo) {
                (Some(route), Some(memo)) => {
                    let outranked = self.outranked(&reference, route, memo);
                    diagnostics(&reference, route, memo, &parents).chain(outranked).collect()
                }
                _ => Vec::new(),
            };
            let too_expensive = over.iter().map(|(host, refused)| over_budget_diagnostic(host, refused));
            let found = found.into_iter().chain(too_expensive).collect();
            work.changes.diagnostics.push((reference.clone(), found));
            let findings = RouteFindings { parents: &parents, over: &over };
            let status = route.and_then(|route| self.route_status(route, memo.as_deref()?, findings));
            self.set_status(&reference, status);
        }
    }

    /// Matches of a route that exceed the budget of hosts.
    fn over_budget(&self, reference: &ObjectRef) -> Vec<(HostPattern, RejectedMatch)> {
        let hosts = self.routes.contributed.get(reference).into_iter().flat_map(|hosts| hosts.iter());
        // A route may contribute to a host several times.
        let keys: BTreeSet<&HostKey> = hosts.map(|(key, _)| key).collect();
        let refused_of =
            |key: &HostKey| Some(self.tables.over_budget.get(key)?.get(reference)?.refused.clone());
        let all = keys.into_iter().filter_map(|key| Some((key, refused_of(key)?)));
        all.flat_map(|(key, refused)| refused.into_iter().map(|it| (key.host.clone(), it))).collect()
    }

    /// The hosts that a route contributes to.
    fn contributions(&self, memo: &RouteMemo) -> BTreeSet<HostContribution> {
        let mut contributions = BTreeSet::new();
        for attachment in memo.attachments().filter(|it| !self.loses_contest(it, &memo.age)) {
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

    fn contribute(&mut self, reference: &ObjectRef, after: BTreeSet<HostContribution>, work: &mut Work) {
        let before = self.routes.contributed.remove(reference).unwrap_or_default();
        let gone = before.iter().filter(|part| !after.contains(*part));
        gone.for_each(|(key, it)| self.tables.hosts.remove(key, it));
        let new = after.iter().filter(|part| before.binary_search(part).is_err());
        new.for_each(|(key, it)| self.tables.hosts.add(key, it.clone()));
        // Also if the contribution is equal: its rules may have changed.
        work.hosts.extend(before.iter().chain(&after).map(|(key, _)| key.clone()));
        if !after.is_empty() {
            self.routes.contributed.insert(reference.clone(), after.into_iter().collect());
        }
    }

    /// The BackendTLSPolicies for a Service and its ports.
    pub(crate) fn policies_for(&self, service: &ObjectKey) -> Vec<ObjectRef> {
        let all = self.tls_policies.targets.from((service.clone(), None));
        let applicable =
            all.take_while(|((it, _), _)| it == service).flat_map(|(_, policies)| policies.iter());
        applicable.map(|(_, key)| ObjectRef::new(Kind::BackendTlsPolicy, key.clone())).collect()
    }

    /// Whether another route keeps this one from a listener.
    pub(crate) fn loses_contest(&self, attachment: &Attachment, route: &RouteByAge) -> bool {
        let losers = self.routes.losers.get(&attachment.listener);
        losers.is_some_and(|losers| losers.contains(&route.reference()))
    }

    /// The parents. A parent refuses the route if at all of its listeners another route wins or no rule fits into the
    /// budget.
    fn at_parents(&self, memo: &RouteMemo, over: &[(HostPattern, RejectedMatch)]) -> Vec<ParentAttachment> {
        let mut parents = memo.parents.to_vec();
        for at in &mut parents {
            let Ok(attached) = &at.attached else { continue };
            let mut winning = attached.iter().filter(|it| !self.loses_contest(it, &memo.age)).peekable();
            if winning.peek().is_none() {
                let problem = "an older route of another kind has the same hosts at the listener";
                at.attached = Err(Fault::new("HostnameConflict", problem));
            } else if let Some((host, first)) = over.first()
                && self.is_over_budget(&memo.age.reference(), winning)
            {
                let problem =
                    format!("no rule of it is left at the host \"{host}\": {}", first.fault.message);
                at.attached = Err(Fault::new(first.fault.reason, problem));
            }
        }
        parents
    }

    /// Diagnostics for a route at listeners that another route serves alone.
    fn outranked(&self, reference: &ObjectRef, route: Route<'_>, memo: &RouteMemo) -> Vec<Diagnostic> {
        if !stream::serves_alone(reference.kind) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for at in &memo.parents {
            let index = route.parents().iter().position(|it| *it == *at.reference).unwrap_or_default();
            for listener in at.attached.iter().flatten().map(|it| &it.listener) {
                let first =
                    self.routes.attached.users_of(listener).next().filter(|first| **first != memo.age);
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

    fn route_status(
        &self,
        route: Route<'_>,
        memo: &RouteMemo,
        findings: RouteFindings<'_>,
    ) -> Option<ObjectStatus> {
        let RouteFindings { parents, over } = findings;
        if parents.is_empty() && !route.has_status_of(&self.controller) {
            return None;
        }
        let status = |at: &ParentAttachment| {
            let rules: Vec<&RouteRules> = self
                .variants(at)
                .iter()
                .filter_map(|variant| memo.rules_for(variant))
                .map(|made| &*made.rules)
                .collect();
            ParentStatus { parent: at.reference.clone(), conditions: conditions(at, &rules, over) }
        };
        let statuses: Arc<[ParentStatus]> = parents.iter().map(status).collect();
        let own_status = OwnStatus::Route(RECENT_STATUSES.with_borrow_mut(|recent| recent.shared(statuses)));
        Some(ObjectStatus::new(route.metadata(), &self.controller, own_status))
    }
}

/// Inputs of a route's status, besides its rules.
#[derive(Clone, Copy)]
struct RouteFindings<'a> {
    parents: &'a [ParentAttachment],
    over: &'a [(HostPattern, RejectedMatch)],
}

impl RouteMemo {
    /// Each named Service with each Gateway that the route is attached to.
    fn reached_services(&self) -> BTreeSet<(&ObjectKey, &ObjectKey)> {
        let gateways = || self.attachments().map(|it| &it.gateway);
        self.services.iter().flat_map(|service| gateways().map(move |gateway| (service, gateway))).collect()
    }

    fn listeners(&self) -> BTreeSet<ListenerId> {
        self.attachments().map(|it| it.listener.clone()).collect()
    }

    /// Its rules in a variant.
    pub(crate) fn rules_for(&self, variant: &Variant) -> Option<&BuiltRules> {
        self.rules_by_variant.iter().find(|(it, _)| it == variant).map(|(_, made)| made)
    }

    /// Its attachments.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().flat_map(|at| at.attached.iter().flatten())
    }
}

fn conditions(
    at: &ParentAttachment,
    rules: &[&RouteRules],
    over: &[(HostPattern, RejectedMatch)],
) -> Vec<Condition> {
    let unresolved = rules.iter().find_map(|rules| rules.unresolved.as_ref());
    let mut conditions = vec![
        Condition::true_unless(
            ACCEPTED,
            at.attached.as_ref().err(),
            "Accepted",
            "the parent takes the route",
        ),
        Condition::true_unless(RESOLVED_REFS, unresolved, "ResolvedRefs", "all that it refers to is there"),
    ];
    let partly = rules.iter().find_map(|rules| rules.partial_fault()).or_else(|| dropped_rules(over));
    let partly = partly.filter(|_| at.attached.is_ok());
    conditions.extend(partly.map(|fault| Condition::met(PARTIALLY_INVALID, fault.reason, fault.message)));
    conditions
}

/// The fault for rules that exceed the budget of some of their hosts.
fn dropped_rules(over: &[(HostPattern, RejectedMatch)]) -> Option<Fault> {
    let (host, first) = over.first()?;
    let problem = format!("Dropped Rule(s) at the host \"{host}\": {}", first.fault.message);
    Some(Fault::new(first.fault.reason, problem))
}

fn over_budget_diagnostic(host: &HostPattern, refused: &RejectedMatch) -> Diagnostic {
    let found = Diagnostic::new(Severity::Error, "route-rule", refused.origin.clone());
    let consequence = format!("no request for the host \"{host}\" matches it");
    found.because(refused.fault.message.clone(), consequence)
}

fn diagnostics<'m>(
    reference: &'m ObjectRef,
    route: Route<'m>,
    memo: &'m RouteMemo,
    parents: &'m [ParentAttachment],
) -> impl Iterator<Item = Diagnostic> + 'm {
    let rule_diagnostics = memo.rules_by_variant.iter().flat_map(|(_, made)| made.rules.diagnostics());
    let all = route.parents();
    let refused = parents.iter().filter_map(move |at| {
        let fault = at.attached.as_ref().err()?;
        let index = all.iter().position(|it| *it == *at.reference).unwrap_or_default();
        let origin = route.origin(reference, &format!("spec.parentRefs[{index}]"));
        let found = Diagnostic::new(Severity::Error, "route-not-accepted", origin);
        Some(found.because(fault.message.clone(), format!("{} does not serve it", at.reference.name)))
    });
    rule_diagnostics.chain(refused)
}
