//! Translates the rules of a route one by one. A rule that cannot be served is closed or dropped without affecting
//! others. `route` contains the parts specific to each kind of route.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{
    Action, BackendKey, BodyHandling, ErrorPages, Extension, FixedResponse, FixedResponseReason, Forwarding,
    Guard, Match, Origin, PathMatch, Phases, Policy, RouteFilters, Rule, RuleLabels, SessionCookie,
    StickyBackends, WeightedBackend, smaller_limit,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_pattern::budget::Account;

use crate::backend::{BackendReference, ResolvedReferences, Resolver, RouteProtocol};
use crate::condition::Fault;
use crate::filter::FilterError;
use crate::http_route_filter::RuleFilter;
use crate::policies::PolicyError;
use crate::policies::security;
use crate::policy::AskedService;
use crate::pool::{self, PickedBackend};

/// Consequence for a rule that cannot be served as written, in a route that is served.
const RULE_RETURNS_500: &str = "requests that the rule matches are answered 500";

/// Consequence for a backend whose filters cannot be served.
const BACKEND_RETURNS_500: &str = "requests for this backend are answered 500";

/// Consequence if no other rule of the route can be served.
const ROUTE_NOT_SERVED: &str = "no rule of the route is valid, so the route is not accepted: its requests go to other routes of the host, or get 404";

/// The translated rules of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RouteRules {
    /// HTTP rules.
    pub(crate) rules: Vec<Rule>,
    /// Backends of non-HTTP connections.
    pub(crate) shares: Vec<WeightedBackend>,
    pub(crate) references: ResolvedReferences,
    /// The first invalid reference.
    pub(crate) unresolved: Option<Fault>,
    /// Rules that cannot be served, by index.
    pub(crate) invalid: Vec<(usize, Fault)>,
    /// Number of rules that are served as written.
    pub(crate) valid: usize,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A rule after the part that depends on the kind of route.
pub(crate) struct RuleDraft<'r> {
    pub(crate) index: usize,
    pub(crate) name: Option<&'r str>,
    pub(crate) matches: Vec<Result<Match, Fault>>,
    pub(crate) filters: Result<RouteFilters, FilterError>,
    /// External checks in its filters; `None` keeps the rule closed.
    pub(crate) guards: Option<Vec<Guard>>,
    /// Response statuses that are retried on another endpoint.
    pub(crate) retry_statuses: Vec<u16>,
    pub(crate) policy: Result<Policy, Fault>,
    /// Session persistence.
    pub(crate) session: Option<Arc<SessionCookie>>,
    pub(crate) shares: Vec<WeightedBackend>,
}

/// Collects the rules of a route.
pub(crate) struct RuleBuilder<'a> {
    pub(crate) resolver: Resolver<'a>,
    /// The origin of a field of the route.
    pub(crate) origin_of: &'a dyn Fn(&str) -> Origin,
    pub(crate) account: Account,
    pub(crate) rules: RouteRules,
    /// HTTPRouteFilters referenced by the rules, once read.
    filters: BTreeMap<ObjectKey, Result<RuleFilter, Fault>>,
}

impl<'a> RuleBuilder<'a> {
    pub(crate) fn new(resolver: Resolver<'a>, origin_of: &'a dyn Fn(&str) -> Origin) -> Self {
        Self {
            resolver,
            origin_of,
            account: Account::default(),
            rules: RouteRules::default(),
            filters: BTreeMap::new(),
        }
    }

    /// The weighted backend at field `at` of a rule; an invalid reference keeps its weight and returns 500.
    pub(crate) fn share(
        &mut self,
        rule: usize,
        at: &str,
        reference: BackendReference<'_>,
        weight: Option<i32>,
        filters: Result<RouteFilters, FilterError>,
        session: Option<&Arc<SessionCookie>>,
    ) -> WeightedBackend {
        let weight = u32::try_from(weight.unwrap_or(1)).unwrap_or_default();
        if session.is_some() && pool::is_pool(&reference) {
            let problem = "sessionPersistence of its rule has no effect on an InferencePool";
            self.report_ignored(at, problem, "its endpoint picker chooses");
        }
        match (self.resolve(reference, session), filters) {
            // The status of the pool states the reason.
            (Ok(PickedBackend { backend, picker: Err(_) }), Ok(_)) => {
                WeightedBackend::invalid(backend, weight)
            }
            (Ok(PickedBackend { backend, picker: Ok(picker) }), Ok(filters)) => {
                let filters = RouteFilters { extensions: picker.into_iter().collect(), ..filters };
                let filters = (filters != RouteFilters::default()).then(|| Box::new(filters));
                WeightedBackend { filters, ..WeightedBackend::new(backend, weight) }
            }
            (Ok(PickedBackend { backend, .. }), Err(refusal)) => {
                self.report(&format!("{at}.filters"), refusal.fault(), BACKEND_RETURNS_500);
                self.rules.invalid.push((rule, refusal.fault().clone()));
                WeightedBackend::invalid(backend, weight)
            }
            (Err((backend, fault)), _) => {
                self.report_unresolved(at, fault, self.resolver.speaks.missing_backend_effect());
                WeightedBackend::invalid(backend, weight)
            }
        }
    }

    /// The backend of a reference, with the picker of an InferencePool.
    fn resolve(
        &mut self,
        reference: BackendReference<'_>,
        session: Option<&Arc<SessionCookie>>,
    ) -> Result<PickedBackend, (BackendKey, Fault)> {
        let found = &mut self.rules.references;
        if pool::is_pool(&reference) {
            return pool::resolve(self.resolver, reference, found);
        }
        let backend = self.resolver.resolve_with_session(reference, session, found)?;
        Ok(PickedBackend { backend, picker: Ok(None) })
    }

    /// The backend of a mirror.
    pub(crate) fn mirror(&mut self, at: &str, reference: BackendReference<'_>) -> Option<BackendKey> {
        match self.resolver.resolve(reference, &mut self.rules.references) {
            Ok(backend) => Some(backend),
            Err((_, fault)) => {
                self.report_unresolved(&format!("{at}.filters"), fault, "it gets no copies of requests");
                None
            }
        }
    }

    /// The backend of a protective filter; `None` if the reference is invalid and the rule must stay closed.
    pub(crate) fn auth_backend(
        &mut self,
        at: &str,
        reference: BackendReference<'_>,
        speaks: RouteProtocol,
    ) -> Option<BackendKey> {
        let resolver = Resolver { speaks, ..self.resolver };
        let resolved = resolver.resolve(reference, &mut self.rules.references);
        resolved.map_err(|(_, fault)| self.report_unresolved(at, fault, RULE_RETURNS_500)).ok()
    }

    /// Closes rule `index` because a protective filter cannot be applied.
    pub(crate) fn close(&mut self, index: usize, at: &str, fault: Fault) {
        self.report(at, &fault, RULE_RETURNS_500);
        self.rules.invalid.push((index, fault));
    }

    /// The HTTPRouteFilter with this name in the route's namespace; cached for filters that many rules reference.
    pub(crate) fn filter(&mut self, name: &str) -> Result<RuleFilter, Fault> {
        let key = ObjectKey { namespace: self.resolver.route.key.namespace.clone(), name: name.into() };
        if let Some(read) = self.filters.get(&key) {
            return read.clone();
        }
        self.rules.references.add_filter(&key);
        let kind = Kind::RouteFilter.name();
        let read = match self.resolver.inputs.resources.gateway.filters.get(&key) {
            None => Err(Fault::new("FilterNotFound", format!("{kind} {key} does not exist"))),
            Some(filter) => RuleFilter::read(&key, &filter.object.spec, &mut self.account).map_err(|wrong| {
                let PolicyError { field, problem } = wrong;
                Fault::new("InvalidFilter", format!("{kind} {key} cannot be used: {field}: {problem}"))
            }),
        };
        self.filters.insert(key, read.clone());
        read
    }

    fn report_unresolved(&mut self, at: &str, fault: Fault, consequence: &str) {
        let found = Diagnostic::new(Severity::Error, "route-reference", (self.origin_of)(at));
        self.rules.diagnostics.push(found.because(fault.message.clone(), consequence));
        self.rules.unresolved.get_or_insert(fault);
    }

    fn report(&mut self, at: &str, fault: &Fault, consequence: &str) {
        let found = Diagnostic::new(Severity::Error, "route-rule", (self.origin_of)(at));
        self.rules.diagnostics.push(found.because(fault.message.clone(), consequence));
    }

    /// Reports a setting that has no effect.
    pub(crate) fn report_ignored(&mut self, at: &str, problem: &str, consequence: &str) {
        let found = Diagnostic::new(Severity::Warning, "not-supported", (self.origin_of)(at));
        self.rules.diagnostics.push(found.because(problem, consequence));
    }

    /// Adds a rule.
    pub(crate) fn add(&mut self, mut draft: RuleDraft<'_>) {
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
            Err(FilterError::Unresolved(fault)) => {
                self.report_unresolved(&format!("{at}.filters"), fault.clone(), RULE_RETURNS_500);
                draft.policy.as_ref().err()
            }
            Err(FilterError::Invalid(fault)) => Some(fault),
            Ok(_) => draft.policy.as_ref().err(),
        };
        if let Some(fault) = closed.cloned() {
            self.report(&at, &fault, RULE_RETURNS_500);
            self.rules.invalid.push((draft.index, fault));
        }
        // Backend filters may already have closed the rule for some of its requests.
        let belongs_to_draft = |(index, _): &(usize, Fault)| *index == draft.index;
        let valid = self.rules.invalid.len() == before && !self.rules.invalid.iter().any(belongs_to_draft);
        // A closed rule is served, so that no other route gets the requests that it protects.
        let is_closed = draft.guards.is_none();
        self.rules.valid += usize::from(valid || is_closed);
        if matches.is_empty() {
            return;
        }
        let labels = self.labels(&matches, &draft.shares);
        let bodies = self.body_handling(&mut draft.shares, draft.session.is_some());
        let pages = self.error_pages(&at, &mut draft.shares);
        let (phases, policy, action) = match (draft.filters, draft.policy, self.protection(draft.name)) {
            (Ok(filters), Ok(policy), Ok(mut protection)) if !is_closed => {
                protection.guards.extend(draft.guards.into_iter().flatten());
                let mut phases = with_protection(filters, protection);
                let BodyHandling { max_request, compression, buffering } = bodies;
                let retry_statuses = draft.retry_statuses;
                phases.add(Forwarding { retry_statuses, buffering, ..Forwarding::default() });
                phases.add(compression.map(Phases::from).unwrap_or_default());
                let sticky = draft.session.and_then(|session| self.sticky_backends(session, &draft.shares));
                phases.add(Forwarding { sticky, ..Forwarding::default() });
                phases.answers.pages = pages.map(Box::new);
                // The picker comes last, because no other service may change its choice.
                phases.extensions.extend(single_backend_pickers(&mut draft.shares));
                let policy = Policy { max_body: smaller_limit(policy.max_body, max_request), ..policy };
                (phases, policy, Action::Forward(draft.shares))
            }
            (Ok(_), Ok(policy), Err(closed)) => (Phases::default(), policy, Action::FixedResponse(closed)),
            // A rule without backends returns 500.
            (_, policy, _) => (Phases::default(), policy.unwrap_or_default(), Action::Forward(Vec::new())),
        };
        let (origin, phases, policy) = ((self.origin_of)(&at), phases.shared(), policy.shared());
        self.rules.rules.push(Rule { origin, matches, phases, action, policy, labels });
    }

    /// Body handling of a rule. If its backends differ, each keeps its own.
    fn body_handling(&self, shares: &mut [WeightedBackend], has_sessions: bool) -> BodyHandling {
        let is_used = |share: &&mut WeightedBackend| {
            (share.weight > 0 || has_sessions) && share.reference == fairway_model::ReferenceStatus::Resolved
        };
        let mut used: Vec<_> = shares.iter_mut().filter(is_used).collect();
        let bodies_of = |share: &WeightedBackend| self.rules.references.bodies(&share.backend).cloned();
        let first = used.first().and_then(|share| bodies_of(share));
        if used.iter().all(|share| bodies_of(share) == first) {
            return first.map(Arc::unwrap_or_clone).unwrap_or_default();
        }
        used.iter_mut().for_each(|share| share.bodies = bodies_of(share));
        BodyHandling::default()
    }

    /// Session persistence across several backends.
    fn sticky_backends(
        &self,
        session: Arc<SessionCookie>,
        shares: &[WeightedBackend],
    ) -> Option<Arc<StickyBackends>> {
        let tag = |share: &WeightedBackend| -> Arc<str> {
            self.rules
                .references
                .backend(&share.backend)
                .map(BackendRef::cookie_tag)
                .unwrap_or_default()
                .into()
        };
        let tags = shares.iter().map(tag).collect();
        (shares.len() > 1).then(|| Arc::new(StickyBackends { session, tags }))
    }

    /// Error pages of a rule. If its backends differ, each keeps its own.
    fn error_pages(&mut self, at: &str, shares: &mut [WeightedBackend]) -> Option<ErrorPages> {
        if shares.iter().all(|share| self.rules.references.pages(&share.backend).is_none()) {
            return None;
        }
        let is_used = |share: &WeightedBackend| {
            share.weight > 0 && share.reference == fairway_model::ReferenceStatus::Resolved
        };
        let pages_of =
            shares.iter().map(|share| is_used(share).then(|| self.backend_error_pages(at, &share.backend)));
        let error_pages: Vec<Option<Option<ErrorPages>>> = pages_of.collect();
        let first = error_pages.iter().flatten().next()?.clone();
        if error_pages.iter().flatten().all(|it| *it == first) {
            return first;
        }
        for (share, pages) in shares.iter_mut().zip(error_pages) {
            if let Some(pages) = pages.flatten() {
                share.filters.get_or_insert_default().pages = Some(Box::new(pages));
            }
        }
        None
    }

    fn backend_error_pages(&mut self, at: &str, backend: &BackendKey) -> Option<ErrorPages> {
        let (policy, pages) = self.rules.references.pages(backend)?.clone();
        let target = self.rules.references.backend(backend)?;
        let labels = RuleLabels {
            namespace: self.resolver.route.key.namespace.clone(),
            ingress: self.resolver.route.key.name.clone(),
            service: target.service.name.clone(),
            service_port: target.port.clone(),
            path: Arc::default(),
        };
        let asks = AskedService { field: String::new(), service: pages.service.clone(), is_grpc: false };
        match self.resolver.resolve_asked_service(&policy, &asks, &mut self.rules.references) {
            Ok(backend) => {
                let (statuses, fields) = (pages.statuses.clone(), labels.error_page_headers());
                Some(ErrorPages { statuses, backend: Some(backend), fields })
            }
            Err(fault) => {
                let (kind, key) = (policy.kind.name(), &policy.key);
                let problem = format!("{kind} {key} spec.errorPages: {}", fault.message);
                let found = Diagnostic::new(Severity::Warning, "error-pages", (self.origin_of)(at));
                self.rules.diagnostics.push(found.because(problem, "its error responses stay as they are"));
                None
            }
        }
    }

    /// Guards and extensions from the policies of a rule, by rule name; or the response that closes the rule if one
    /// of them is unusable.
    fn protection(&mut self, name: Option<&str>) -> Result<Phases, FixedResponse> {
        let closed = |status, reason| FixedResponse { status, reason };
        let guards = self.guards(name);
        let mut phases = guards.ok_or_else(|| closed(503, FixedResponseReason::ProtectionUnavailable))?;
        let extensions = self.extensions(name);
        phases.extensions =
            extensions.ok_or_else(|| closed(500, FixedResponseReason::ExtensionUnavailable))?;
        Ok(phases)
    }

    fn guards(&mut self, name: Option<&str>) -> Option<Phases> {
        let (mut phases, mut takes_passwords) = (Phases::default(), false);
        for policy in (self.resolver.guards)(name)? {
            let security = policy.security()?;
            let backend = match policy.asked_services.first() {
                Some(asks) => Some(
                    self.resolver
                        .resolve_asked_service(&policy.reference, asks, &mut self.rules.references)
                        .ok()?,
                ),
                None => None,
            };
            security
                .keys_backends()
                .iter()
                .for_each(|it| self.rules.references.add_named_by_url(&it.backend));
            phases.guards.extend(security.guards(backend));
            takes_passwords |= security.reads_passwords();
        }
        phases.request.extend(takes_passwords.then(security::remove_authorization));
        Some(phases)
    }

    /// The services that see the requests of a rule; `None` if a required one is unusable.
    fn extensions(&mut self, name: Option<&str>) -> Option<Vec<Arc<Extension>>> {
        let mut extensions = Vec::new();
        for policy in (self.resolver.extensions)(name) {
            for (index, service) in policy.services().iter().enumerate() {
                let extension = service.extension.as_ref().ok().zip(policy.asked_services.get(index));
                let extension = extension.and_then(|(extension, asks)| {
                    let backend = self
                        .resolver
                        .resolve_asked_service(&policy.reference, asks, &mut self.rules.references)
                        .ok()?;
                    Some(with_backend(extension, backend))
                });
                match extension {
                    Some(extension) => extensions.push(extension),
                    None if service.fails_open => {}
                    None => return None,
                }
            }
        }
        Some(extensions)
    }

    fn labels(&self, matches: &[Match], shares: &[WeightedBackend]) -> RuleLabels {
        let only = match shares {
            [share] => self.rules.references.backend(&share.backend),
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

/// The extension with its backend, which may differ between routes: a Gateway may present its own client certificate.
fn with_backend(extension: &Arc<Extension>, backend: BackendKey) -> Arc<Extension> {
    let mut extension = extension.clone();
    if extension.service.backend != backend {
        Arc::make_mut(&mut extension).service.backend = backend;
    }
    extension
}

/// The picker of a rule's only backend, moved to the rule itself, which then needs no backend filters.
fn single_backend_pickers(shares: &mut [WeightedBackend]) -> Vec<Arc<Extension>> {
    let [WeightedBackend { filters, reference: fairway_model::ReferenceStatus::Resolved, weight: 1.., .. }] =
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

/// Filters combined with protection. Preflight requests carry no credentials, so they are answered first; redirects
/// reveal nothing, so plain requests can be redirected to https first.
fn with_protection(filters: RouteFilters, protection: Phases) -> Phases {
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

impl RouteRules {
    /// Closes non-HTTP connections, because a policy for their listener cannot be enforced on them.
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

    /// Takes the HTTP rules and releases spare capacity: a growing list reserves room for four members, and most have
    /// one.
    pub(crate) fn take_http_rules(&mut self) -> Vec<Rule> {
        let mut rules = std::mem::take(&mut self.rules);
        rules.shrink_to_fit();
        self.shares.shrink_to_fit();
        rules
    }

    /// Why the whole route is not accepted: none of its rules can be served as written.
    pub(crate) fn refusal(&self) -> Option<&Fault> {
        self.invalid.first().map(|(_, fault)| fault).filter(|_| self.valid == 0)
    }

    /// Diagnostics for the rules. A route that is not accepted is not served, so its rules return nothing.
    pub(crate) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        let is_refused = self.refusal().is_some();
        let answered = [RULE_RETURNS_500, BACKEND_RETURNS_500, RouteProtocol::Http.missing_backend_effect()];
        self.diagnostics.iter().cloned().map(move |mut found| {
            if is_refused && answered.contains(&&*found.consequence) {
                found.consequence = ROUTE_NOT_SERVED.to_owned();
            }
            found
        })
    }

    /// The rules that cannot be served, if others can.
    pub(crate) fn partial_fault(&self) -> Option<Fault> {
        let (_, first) = self.invalid.first()?;
        let mut rules: Vec<String> = self.invalid.iter().map(|(index, _)| index.to_string()).collect();
        rules.dedup();
        let problem = format!("Dropped Rule(s) {}: {}", rules.join(", "), first.message);
        (self.valid > 0).then(|| Fault::new(first.reason, problem))
    }
}
