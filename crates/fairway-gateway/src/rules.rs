//! The rules of a route as those of the model, one by one: what of a rule cannot be served closes or drops it, and
//! no other. Owns what is said about that; the kinds of routes have files of their own in `route`.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{
    Action, Answer, AnswerReason, BackendKey, BodyHandling, ErrorPages, Extension, Forwarding, Guard, Match,
    Origin, PathMatch, Phases, Policy, RouteFilters, Rule, RuleLabels, SessionCookie, StickyShares,
    WeightedBackend, smaller_limit,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_pattern::budget::Account;

use crate::backend::{Reference, References, Resolver, Speaks};
use crate::condition::Fault;
use crate::filter::Refusal;
use crate::http_route_filter::RuleFilter;
use crate::policies::Wrong;
use crate::policies::security;
use crate::policy::Asked;
use crate::pool::{self, PickedBackend};

/// What becomes of a rule that cannot be served as it was written, in a route that is served.
const ANSWERED_500: &str = "requests that the rule matches are answered 500";

/// The same of a backend whose filters cannot be served.
const BACKEND_ANSWERED_500: &str = "requests for this backend are answered 500";

/// The same where no other rule of the route can be served.
const NOT_SERVED: &str = "no rule of the route is valid, so the route is not accepted: its requests go to other routes of the host, or get 404";

/// What the rules of a route come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    /// Those of HTTP.
    pub(crate) rules: Vec<Rule>,
    /// Where connections go that are not HTTP.
    pub(crate) shares: Vec<WeightedBackend>,
    pub(crate) found: References,
    /// The first reference that leads nowhere.
    pub(crate) unresolved: Option<Fault>,
    /// What cannot be served of which rule.
    pub(crate) invalid: Vec<(usize, Fault)>,
    /// How many rules are served as they were written.
    pub(crate) valid: usize,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A rule, read as far as its kind of route matters.
pub(crate) struct Draft<'r> {
    pub(crate) index: usize,
    pub(crate) name: Option<&'r str>,
    pub(crate) matches: Vec<Result<Match, Fault>>,
    pub(crate) filters: Result<RouteFilters, Refusal>,
    /// What its filters ask others about requests; `None` keeps the rule closed.
    pub(crate) guards: Option<Vec<Guard>>,
    /// Statuses after which another endpoint is asked.
    pub(crate) retry_statuses: Vec<u16>,
    pub(crate) policy: Result<Policy, Fault>,
    /// What keeps requests with an endpoint.
    pub(crate) session: Option<Arc<SessionCookie>>,
    pub(crate) shares: Vec<WeightedBackend>,
}

/// Collects the rules of a route.
pub(crate) struct Builder<'a> {
    pub(crate) resolver: Resolver<'a>,
    /// The route at a field.
    pub(crate) place: &'a dyn Fn(&str) -> Origin,
    pub(crate) account: Account,
    pub(crate) rules: Rules,
    /// The HTTPRouteFilters that the rules name, as they were read.
    filters: BTreeMap<ObjectKey, Result<RuleFilter, Fault>>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(resolver: Resolver<'a>, place: &'a dyn Fn(&str) -> Origin) -> Self {
        Self {
            resolver,
            place,
            account: Account::default(),
            rules: Rules::default(),
            filters: BTreeMap::new(),
        }
    }

    /// The share of the backend at field `at` of a rule; one whose reference leads nowhere keeps its share, and answers 500.
    pub(crate) fn share(
        &mut self,
        rule: usize,
        at: &str,
        reference: Reference<'_>,
        weight: Option<i32>,
        filters: Result<RouteFilters, Refusal>,
        session: Option<&Arc<SessionCookie>>,
    ) -> WeightedBackend {
        let weight = u32::try_from(weight.unwrap_or(1)).unwrap_or_default();
        if session.is_some() && pool::is_pool(&reference) {
            let problem = "sessionPersistence of its rule has no effect on an InferencePool";
            self.ignored(at, problem, "its endpoint picker chooses");
        }
        match (self.resolve(reference, session), filters) {
            // The status of the pool says why.
            (Ok(PickedBackend { backend, picker: Err(_) }), Ok(_)) => {
                WeightedBackend::invalid(backend, weight)
            }
            (Ok(PickedBackend { backend, picker: Ok(picker) }), Ok(filters)) => {
                let filters = RouteFilters { extensions: picker.into_iter().collect(), ..filters };
                let filters = (filters != RouteFilters::default()).then(|| Box::new(filters));
                WeightedBackend { filters, ..WeightedBackend::new(backend, weight) }
            }
            (Ok(PickedBackend { backend, .. }), Err(refusal)) => {
                self.report(&format!("{at}.filters"), refusal.fault(), BACKEND_ANSWERED_500);
                self.rules.invalid.push((rule, refusal.fault().clone()));
                WeightedBackend::invalid(backend, weight)
            }
            (Err((backend, fault)), _) => {
                self.unresolved(at, fault, self.resolver.speaks.without_backend());
                WeightedBackend::invalid(backend, weight)
            }
        }
    }

    /// The backend of a reference, and who picks among its endpoints where it is an InferencePool.
    fn resolve(
        &mut self,
        reference: Reference<'_>,
        session: Option<&Arc<SessionCookie>>,
    ) -> Result<PickedBackend, (BackendKey, Fault)> {
        let found = &mut self.rules.found;
        if pool::is_pool(&reference) {
            return pool::resolve(self.resolver, reference, found);
        }
        let backend = self.resolver.resolve_for(reference, session, found)?;
        Ok(PickedBackend { backend, picker: Ok(None) })
    }

    /// The backend of a mirror.
    pub(crate) fn mirror(&mut self, at: &str, reference: Reference<'_>) -> Option<BackendKey> {
        match self.resolver.resolve(reference, &mut self.rules.found) {
            Ok(backend) => Some(backend),
            Err((_, fault)) => {
                self.unresolved(&format!("{at}.filters"), fault, "it gets no copies of requests");
                None
            }
        }
    }

    /// The backend of a filter that protects rule; `None` where the reference leads nowhere, and the rule must stay closed.
    pub(crate) fn protector(
        &mut self,
        at: &str,
        reference: Reference<'_>,
        speaks: Speaks,
    ) -> Option<BackendKey> {
        let resolver = Resolver { speaks, ..self.resolver };
        let resolved = resolver.resolve(reference, &mut self.rules.found);
        resolved.map_err(|(_, fault)| self.unresolved(at, fault, ANSWERED_500)).ok()
    }

    /// A filter that protects rule `index` cannot be applied, and the rule must stay closed.
    pub(crate) fn close(&mut self, index: usize, at: &str, fault: Fault) {
        self.report(at, &fault, ANSWERED_500);
        self.rules.invalid.push((index, fault));
    }

    /// The HTTPRouteFilter of that name in the namespace of the route; what many rules name is read once.
    pub(crate) fn filter(&mut self, name: &str) -> Result<RuleFilter, Fault> {
        let key = ObjectKey { namespace: self.resolver.route.key.namespace.clone(), name: name.into() };
        if let Some(read) = self.filters.get(&key) {
            return read.clone();
        }
        self.rules.found.add_filter(&key);
        let kind = Kind::RouteFilter.name();
        let read = match self.resolver.inputs.resources.gateway.filters.get(&key) {
            None => Err(Fault::new("FilterNotFound", format!("{kind} {key} does not exist"))),
            Some(filter) => RuleFilter::read(&key, &filter.object.spec, &mut self.account).map_err(|wrong| {
                let Wrong { field, problem } = wrong;
                Fault::new("InvalidFilter", format!("{kind} {key} cannot be used: {field}: {problem}"))
            }),
        };
        self.filters.insert(key, read.clone());
        read
    }

    fn unresolved(&mut self, at: &str, fault: Fault, consequence: &str) {
        let found = Diagnostic::new(Severity::Error, "route-reference", (self.place)(at));
        self.rules.diagnostics.push(found.because(fault.message.clone(), consequence));
        self.rules.unresolved.get_or_insert(fault);
    }

    fn report(&mut self, at: &str, fault: &Fault, consequence: &str) {
        let found = Diagnostic::new(Severity::Error, "route-rule", (self.place)(at));
        self.rules.diagnostics.push(found.because(fault.message.clone(), consequence));
    }

    /// Something that has no effect.
    pub(crate) fn ignored(&mut self, at: &str, problem: &str, consequence: &str) {
        let found = Diagnostic::new(Severity::Warning, "not-supported", (self.place)(at));
        self.rules.diagnostics.push(found.because(problem, consequence));
    }

    /// Takes a rule.
    pub(crate) fn add(&mut self, mut draft: Draft<'_>) {
        let at = format!("spec.rules[{}]", draft.index);
        let mut matches = Vec::with_capacity(draft.matches.len().max(1));
        let before = self.rules.invalid.len();
        if draft.matches.is_empty() {
            matches.push(Match::default());
        }
        for (number, it) in draft.matches.into_iter().enumerate() {
            match it {
                Ok(it) => matches.push(it),
                Err(fault) => {
                    self.report(&format!("{at}.matches[{number}]"), &fault, "no request matches it");
                    self.rules.invalid.push((draft.index, fault));
                }
            }
        }
        let closed = match &draft.filters {
            Err(Refusal::Unresolved(fault)) => {
                self.unresolved(&format!("{at}.filters"), fault.clone(), ANSWERED_500);
                draft.policy.as_ref().err()
            }
            Err(Refusal::Invalid(fault)) => Some(fault),
            Ok(_) => draft.policy.as_ref().err(),
        };
        if let Some(fault) = closed.cloned() {
            self.report(&at, &fault, ANSWERED_500);
            self.rules.invalid.push((draft.index, fault));
        }
        // Filters of backends may have closed the rule for a share of its requests before.
        let own = |(index, _): &(usize, Fault)| *index == draft.index;
        let valid = self.rules.invalid.len() == before && !self.rules.invalid.iter().any(own);
        // A rule that is closed is served, so that no other route gets what it protects.
        let is_closed = draft.guards.is_none();
        self.rules.valid += usize::from(valid || is_closed);
        if matches.is_empty() {
            return;
        }
        let labels = self.labels(&matches, &draft.shares);
        let bodies = self.bodies(&mut draft.shares, draft.session.is_some());
        let pages = self.pages(&at, &mut draft.shares);
        let (phases, policy, action) = match (draft.filters, draft.policy, self.protection(draft.name)) {
            (Ok(filters), Ok(policy), Ok(mut protection)) if !is_closed => {
                protection.guards.extend(draft.guards.into_iter().flatten());
                let mut phases = protected(filters, protection);
                let BodyHandling { max_request, compression, buffering } = bodies;
                let retry_statuses = draft.retry_statuses;
                phases.add(Forwarding { retry_statuses, buffering, ..Forwarding::default() });
                phases.add(compression.map(Phases::from).unwrap_or_default());
                let sticky = draft.session.and_then(|session| self.sticky(session, &draft.shares));
                phases.add(Forwarding { sticky, ..Forwarding::default() });
                phases.answers.pages = pages.map(Box::new);
                // The last one: what it picks, no other may change.
                phases.extensions.extend(only_pickers(&mut draft.shares));
                let policy = Policy { max_body: smaller_limit(policy.max_body, max_request), ..policy };
                (phases, policy, Action::Forward(draft.shares))
            }
            (Ok(_), Ok(policy), Err(closed)) => (Phases::default(), policy, Action::Answer(closed)),
            // No backend is answered 500.
            (_, policy, _) => (Phases::default(), policy.unwrap_or_default(), Action::Forward(Vec::new())),
        };
        let (origin, phases, policy) = ((self.place)(&at), phases.kept(), policy.kept());
        self.rules.rules.push(Rule { origin, matches, phases, action, policy, labels });
    }

    /// How bodies of a rule are handled. Where its shares differ in that, each share keeps its own.
    fn bodies(&self, shares: &mut [WeightedBackend], has_sessions: bool) -> BodyHandling {
        let is_used = |share: &&mut WeightedBackend| {
            (share.weight > 0 || has_sessions) && share.reference == fairway_model::Reference::Resolved
        };
        let mut used: Vec<_> = shares.iter_mut().filter(is_used).collect();
        let of = |share: &WeightedBackend| self.rules.found.bodies(&share.backend).cloned();
        let first = used.first().and_then(|share| of(share));
        if used.iter().all(|share| of(share) == first) {
            return first.map(Arc::unwrap_or_clone).unwrap_or_default();
        }
        used.iter_mut().for_each(|share| share.bodies = of(share));
        BodyHandling::default()
    }

    /// How sessions stay with one of several backends.
    fn sticky(&self, session: Arc<SessionCookie>, shares: &[WeightedBackend]) -> Option<Arc<StickyShares>> {
        let tag = |share: &WeightedBackend| -> Arc<str> {
            self.rules.found.backend(&share.backend).map(BackendRef::tag).unwrap_or_default().into()
        };
        let tags = shares.iter().map(tag).collect();
        (shares.len() > 1).then(|| Arc::new(StickyShares { session, tags }))
    }

    /// Which responses of a rule another Service makes. Where its shares differ in that, each share keeps its own.
    fn pages(&mut self, at: &str, shares: &mut [WeightedBackend]) -> Option<ErrorPages> {
        if shares.iter().all(|share| self.rules.found.pages(&share.backend).is_none()) {
            return None;
        }
        let is_used = |share: &WeightedBackend| {
            share.weight > 0 && share.reference == fairway_model::Reference::Resolved
        };
        let of = shares.iter().map(|share| is_used(share).then(|| self.pages_of(at, &share.backend)));
        let of: Vec<Option<Option<ErrorPages>>> = of.collect();
        let first = of.iter().flatten().next()?.clone();
        if of.iter().flatten().all(|it| *it == first) {
            return first;
        }
        for (share, pages) in shares.iter_mut().zip(of) {
            if let Some(pages) = pages.flatten() {
                share.filters.get_or_insert_default().pages = Some(Box::new(pages));
            }
        }
        None
    }

    fn pages_of(&mut self, at: &str, backend: &BackendKey) -> Option<ErrorPages> {
        let (policy, pages) = self.rules.found.pages(backend)?.clone();
        let of = self.rules.found.backend(backend)?;
        let labels = RuleLabels {
            namespace: self.resolver.route.key.namespace.clone(),
            ingress: self.resolver.route.key.name.clone(),
            service: of.service.name.clone(),
            service_port: of.port.clone(),
            path: Arc::default(),
        };
        let asks = Asked { field: String::new(), service: pages.service.clone(), is_grpc: false };
        match self.resolver.asked(&policy, &asks, &mut self.rules.found) {
            Ok(backend) => {
                let (statuses, fields) = (pages.statuses.clone(), labels.fields_for_pages());
                Some(ErrorPages { statuses, backend: Some(backend), fields })
            }
            Err(fault) => {
                let (kind, key) = (policy.kind.name(), &policy.key);
                let problem = format!("{kind} {key} spec.errorPages: {}", fault.message);
                let found = Diagnostic::new(Severity::Warning, "error-pages", (self.place)(at));
                self.rules.diagnostics.push(found.because(problem, "its error responses stay as they are"));
                None
            }
        }
    }

    /// What the policies do that protect a rule, by its name, and the services that see its requests; or what closes it where one of
    /// these cannot be served.
    fn protection(&mut self, name: Option<&str>) -> Result<Phases, Answer> {
        let closed = |status, reason| Answer { status, reason };
        let guards = self.guards(name);
        let mut phases = guards.ok_or_else(|| closed(503, AnswerReason::ProtectionUnavailable))?;
        let extensions = self.extensions(name);
        phases.extensions = extensions.ok_or_else(|| closed(500, AnswerReason::ExtensionUnavailable))?;
        Ok(phases)
    }

    fn guards(&mut self, name: Option<&str>) -> Option<Phases> {
        let (mut phases, mut takes_passwords) = (Phases::default(), false);
        for policy in (self.resolver.guards)(name)? {
            let security = policy.security()?;
            let backend = match policy.asks.first() {
                Some(asks) => Some(self.resolver.asked(&policy.reference, asks, &mut self.rules.found).ok()?),
                None => None,
            };
            security.keys_backends().iter().for_each(|it| self.rules.found.add_named_by_url(&it.backend));
            phases.guards.extend(security.guards(backend));
            takes_passwords |= security.takes_passwords();
        }
        phases.request.extend(takes_passwords.then(security::without_password));
        Some(phases)
    }

    /// The services that see the requests of a rule; `None` where one must see them and cannot be asked.
    fn extensions(&mut self, name: Option<&str>) -> Option<Vec<Arc<Extension>>> {
        let mut extensions = Vec::new();
        for policy in (self.resolver.extensions)(name) {
            for (index, service) in policy.services().iter().enumerate() {
                let extension = service.extension.as_ref().ok().zip(policy.asks.get(index));
                let extension = extension.and_then(|(extension, asks)| {
                    let backend = self.resolver.asked(&policy.reference, asks, &mut self.rules.found).ok()?;
                    Some(asking(extension, backend))
                });
                match extension {
                    Some(extension) => extensions.push(extension),
                    None if service.is_open => {}
                    None => return None,
                }
            }
        }
        Some(extensions)
    }

    fn labels(&self, matches: &[Match], shares: &[WeightedBackend]) -> RuleLabels {
        let only = match shares {
            [share] => self.rules.found.backend(&share.backend),
            _ => None,
        };
        let path: Arc<str> = match &matches[0].path {
            PathMatch::Exact(path) | PathMatch::Prefix(path) => path.clone(),
            PathMatch::Regex { pattern, .. } => pattern.clone(),
        };
        RuleLabels {
            namespace: self.resolver.route.key.namespace.clone(),
            ingress: self.resolver.route.key.name.clone(),
            service: only.map(|backend| backend.service.name.clone()).unwrap_or_default(),
            service_port: only.map(|backend| backend.port.clone()).unwrap_or_default(),
            path,
        }
    }
}

/// The extension at a backend, which may be another one than that of most routes: a Gateway shows endpoints a certificate of its own.
fn asking(extension: &Arc<Extension>, backend: BackendKey) -> Arc<Extension> {
    let mut extension = extension.clone();
    if extension.service.backend != backend {
        Arc::make_mut(&mut extension).service.backend = backend;
    }
    extension
}

/// Who picks among the endpoints of the only backend of a rule. The rule itself then asks, and needs no rule for its share.
fn only_pickers(shares: &mut [WeightedBackend]) -> Vec<Arc<Extension>> {
    let [WeightedBackend { filters, reference: fairway_model::Reference::Resolved, weight: 1.., .. }] =
        shares
    else {
        return Vec::new();
    };
    let asks_only = |it: &RouteFilters| {
        let bare = RouteFilters { extensions: it.extensions.clone(), ..RouteFilters::default() };
        *it == bare
    };
    match filters.take_if(|filters| asks_only(filters)) {
        Some(filters) => filters.extensions,
        None => Vec::new(),
    }
}

/// What filters do, behind what protects. A preflight has no credentials and is answered before; a redirect tells nothing, so that
/// requests in the clear may be sent to https.
fn protected(filters: RouteFilters, protection: Phases) -> Phases {
    let Phases { guards: mut protecting, request, extensions, .. } = protection;
    if filters.redirect.is_some() {
        protecting.retain(|guard| !matches!(guard, Guard::OverTls));
    }
    let mut phases = Phases::from(filters);
    let preflights = phases.guards.iter().take_while(|guard| matches!(guard, Guard::Preflight(_))).count();
    phases.guards.splice(preflights..preflights, protecting);
    phases.request.splice(0..0, request);
    phases.extensions = extensions;
    phases
}

impl Rules {
    /// Closes connections that are not HTTP: a policy is for their listener, and none of it can be asked of them.
    pub(crate) fn close_streams(&mut self, policy: &ObjectRef, origin: Origin) {
        if self.shares.is_empty() {
            return;
        }
        self.shares.clear();
        let (kind, key) = (policy.kind.name(), &policy.key);
        let problem = format!("{kind} {key} is for its listener, and protects HTTP only");
        let found = Diagnostic::new(Severity::Error, "protection-unavailable", origin);
        self.diagnostics.push(found.because(problem, "connections there are closed"));
    }

    /// Takes the rules of HTTP out. Lists grow while they are read and end with room for four members, which is most of them
    /// where they have one.
    pub(crate) fn take(&mut self) -> Vec<Rule> {
        let mut rules = std::mem::take(&mut self.rules);
        rules.shrink_to_fit();
        self.shares.shrink_to_fit();
        rules
    }

    /// Why the route as a whole is not accepted: nothing of it can be served as it was written.
    pub(crate) fn refusal(&self) -> Option<&Fault> {
        self.invalid.first().map(|(_, fault)| fault).filter(|_| self.valid == 0)
    }

    /// What is wrong with them. A route that is not accepted is not served: its rules answer nothing.
    pub(crate) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        let is_refused = self.refusal().is_some();
        let answered = [ANSWERED_500, BACKEND_ANSWERED_500, Speaks::Http.without_backend()];
        self.diagnostics.iter().cloned().map(move |mut found| {
            if is_refused && answered.contains(&&*found.consequence) {
                found.consequence = NOT_SERVED.to_owned();
            }
            found
        })
    }

    /// Which rules cannot be served, where others can.
    pub(crate) fn partly(&self) -> Option<Fault> {
        let (_, first) = self.invalid.first()?;
        let mut rules: Vec<String> = self.invalid.iter().map(|(index, _)| index.to_string()).collect();
        rules.dedup();
        let problem = format!("Dropped Rule(s) {}: {}", rules.join(", "), first.message);
        (self.valid > 0).then(|| Fault::new(first.reason, problem))
    }
}
