//! The rules of a host: what each location does with a request, phase by phase.

use std::collections::HashSet;
use std::sync::Arc;

use fairway_model::{
    Action, BackendKey, Deny, Extension, FixedResponse, FixedResponseReason, Forwarding, Guard, HeaderEdit,
    HeaderField, Match, Origin, PathMatch, PathRewrite, Phases, Policy, Redirect, RedirectTarget,
    RequestEdit, ResponseEdit, Route, Rule, RuleLabel, RuleLabels, ServiceName, Template, TemplatePart,
    WeightedBackend,
};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::backend::{BackendAddressSource, BackendPurpose, BackendRef, ResolveError};
use fairway_objects::balance::Balance;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{Compat, Options};
use fairway_objects::shared;
use fairway_objects::transport::Transport;
use fairway_snippet::HostSnippet;
use k8s_openapi::api::networking::v1::IngressBackend;

use crate::ingress::canary::{Canary, CanarySessions, fallback_to_main};
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::{GuardStage, HostClients, NamedBackend, ServerSnippet};
use crate::ingress::defaults::Defaults;
use crate::ingress::errors::ErrorPageSettings;
use crate::ingress::firewall;
use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, PathKind, port_text};
use crate::ingress::order::LocationEntry;
use crate::ingress::pattern;
use crate::ingress::served::ServedIngress;
use crate::ingress::shared_service::{self, DefaultBalance, SharedServices};
use crate::ingress::snippets;
use crate::ingress::to_https::ToHttps;

/// How a backend is used.
struct BackendUsage<'a> {
    transport: &'a Transport,
    balance: &'a Balance,
    via: BackendAddressSource,
    /// The consequence if it does not exist.
    consequence: &'static str,
}

/// Builds the rules of one host.
pub(crate) struct Builder<'a> {
    context: Context<'a>,
    services: &'a SharedServices,
    layout: &'a Layout,
    /// Whether the host has a certificate.
    has_certificate: bool,
    /// Which clients it serves; `None` is all.
    clients: Option<&'a HostClients>,
    /// The effect of its snippet on all paths.
    snippet: Option<&'a ServerSnippet>,
    /// Whether a path with a line break returns 400. nginx matches paths with patterns, and so does `--compat nginx`.
    refuses_line_breaks: bool,
    /// The backends of rules.
    pub(crate) backends: Vec<BackendRef>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Shared settings of an Ingress and a Service that have already been reported.
    described: HashSet<(SharedAspect, ObjectKey, ServiceName)>,
}

/// What Ingresses share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SharedAspect {
    BalancingAndSessions,
    Canary,
}

/// ingress-nginx: default of `--health-check-path`.
const HEALTH_PATH: &str = "/healthz";

/// Releases spare capacity: a growing list reserves room for four members, and most have one.
fn shrink_route(mut route: Route) -> Route {
    for rule in &mut route.rules {
        rule.matches.shrink_to_fit();
        rule.phases = Arc::unwrap_or_clone(std::mem::take(&mut rule.phases)).shared();
    }
    route.rules.shrink_to_fit();
    route
}

impl<'a> Builder<'a> {
    /// A builder without rules.
    pub(crate) fn new(
        context: Context<'a>,
        services: &'a SharedServices,
        layout: &'a Layout,
        has_certificate: bool,
        clients: Option<&'a HostClients>,
        snippet: Option<&'a ServerSnippet>,
    ) -> Self {
        let refuses_line_breaks =
            layout.matching == Matching::Patterns && layout.locations.iter().any(Location::is_strict);
        Self {
            context,
            services,
            layout,
            has_certificate,
            clients,
            snippet,
            refuses_line_breaks,
            backends: Vec::new(),
            diagnostics: Vec::new(),
            described: HashSet::new(),
        }
    }

    fn snippet(&self) -> Option<&'a HostSnippet> {
        match self.snippet? {
            ServerSnippet::Acts(snippet) => Some(snippet),
            ServerSnippet::Refused => None,
        }
    }

    /// The operator's options.
    pub(crate) fn options(&self) -> &'a Options {
        self.context.inputs.options
    }

    /// The rules of a host, grouped into runs of the same Ingress. `root` is the location whose Ingress redirects
    /// `/`.
    pub(crate) fn routes(&mut self, entries: &[LocationEntry], root: Option<&Location>) -> Vec<Arc<Route>> {
        let layout = self.layout;
        let mut routes: Vec<Route> = Vec::new();
        if let Some(location) = root {
            append(&mut routes, location, self.guarded(self.app_root(location)));
        }
        // The actions of a location are built once: nginx tries some locations at two positions.
        let mut actions: Vec<Option<LocationActions>> = layout.locations.iter().map(|_| None).collect();
        for entry in entries {
            let at_root = entry.condition.path == PathMatch::Exact("/".into());
            if root.is_some() && at_root && layout.matching == Matching::Text {
                continue;
            }
            let location = &layout.locations[entry.location];
            let actions = actions[entry.location].get_or_insert_with(|| self.actions(location));
            let forwards = entry.adds_slash.is_none() && !entry.unusable;
            if !forwards {
                append(&mut routes, location, self.guarded(self.rule(location, entry, not_found())));
                continue;
            }
            let (decisions, phases) = actions.decisions(&entry.condition);
            for (condition, action) in decisions {
                let mut rule = self.rule(location, entry, action);
                rule.matches = vec![condition];
                Arc::make_mut(&mut rule.phases).add(phases.clone());
                append(&mut routes, location, self.guarded(rule));
            }
        }
        let mut routes: Vec<_> = routes.into_iter().map(|route| Arc::new(shrink_route(route))).collect();
        // The list of pointers reuses the memory of the larger list of routes.
        routes.shrink_to_fit();
        routes
    }

    /// The backends for TLS that the location's backend terminates; empty if there is none or it is closed. Problems
    /// are reported with its rules.
    pub(crate) fn passthrough_backends(&mut self, location: &Location) -> Vec<WeightedBackend> {
        let earlier = self.diagnostics.len();
        let destination = self.destination(location);
        self.diagnostics.truncate(earlier);
        let Ok(Some(backend)) = destination else { return Vec::new() };
        let weighted = WeightedBackend::new(backend.key.clone(), 1);
        self.backends.push(backend);
        vec![weighted]
    }

    /// `location /healthz` of the server without a name, which load balancers probe on the traffic ports. `None` if
    /// an Ingress has that path, or a regular expression, which nginx would match first.
    pub(crate) fn health(&self) -> Option<Arc<Route>> {
        let texts = self.layout.matching == Matching::Text && !self.layout.has(PathKind::Prefix, HEALTH_PATH);
        if !texts || self.context.inputs.options.hosts.compat == Compat::Strict {
            return None;
        }
        let defaults = self.context.defaults;
        let mut phases = Phases { unlogged: true, ..Phases::default() };
        phases.answers.edits.extend(defaults.headers.response_edit());
        let rule = self.guarded(Rule {
            origin: Origin::object("Default", "", "health"),
            matches: vec![Match { path: PathMatch::Prefix(HEALTH_PATH.into()), ..Match::default() }],
            phases: Arc::new(phases),
            action: Action::FixedResponse(FixedResponse {
                status: 200,
                reason: FixedResponseReason::NoRoute,
            }),
            policy: Arc::new(defaults.policy(defaults.forwarding.timeouts, None)),
            labels: RuleLabels::default(),
        });
        Some(Arc::new(shrink_route(Route {
            origin: rule.origin.clone(),
            created: None,
            hostname_rank: 0,
            rules: vec![rule],
        })))
    }

    /// Adds the guards for the clients and paths that the host serves.
    fn guarded(&self, mut rule: Rule) -> Rule {
        if matches!(self.snippet, Some(ServerSnippet::Refused)) {
            rule.action = unavailable(FixedResponseReason::ProtectionUnavailable);
            rule.phases = Phases::none();
        }
        if self.refuses_line_breaks {
            Arc::make_mut(&mut rule.phases).guards.insert(0, Guard::Deny(Deny::line_breaks()));
        }
        if let Some(clients) = self.clients {
            clients.add_guards(&mut Arc::make_mut(&mut rule.phases).guards);
        }
        rule
    }

    fn rule(&self, location: &Location, entry: &LocationEntry, action: Action) -> Rule {
        let mut rule = Rule {
            origin: origin(location),
            matches: vec![entry.condition.clone()],
            phases: Phases::none(),
            action,
            policy: self.policy(location),
            labels: labels(location),
        };
        let mut phases = Phases::default();
        if let Some(path) = &entry.adds_slash {
            phases.add(Guard::Redirect(to_trailing_slash(path, location)));
            rule.action = not_found();
        } else if entry.unusable {
            rule.action = unavailable(FixedResponseReason::ProtectionUnavailable);
        } else if location.closed().is_none() {
            phases = self.phases(location);
        }
        let Defaults { headers, hsts, compression, .. } = self.context.defaults;
        if matches!(rule.action, Action::Forward(_)) {
            phases.add(headers.forwarding_phases());
            phases.answers.compression = match &location.owner {
                Some(owner) => owner.contributions.compression.resolve(compression),
                None => compression.of_all.clone(),
            };
        }
        let edits = &mut phases.answers.edits;
        // Replaced by what the annotations set for responses.
        edits.splice(0..0, headers.response_edit());
        edits.extend(hsts.clone().map(ResponseEdit::StrictTransportSecurity));
        let is_usable = !entry.unusable && location.closed().is_none();
        snippets::add_snippets(
            &mut phases,
            self.snippet().filter(|_| is_usable),
            location,
            entry.adds_slash.is_some(),
            self.context.defaults,
            self.layout,
        );
        Rule { phases: Arc::new(phases), ..rule }
    }

    /// Phases from the annotations, and those that depend on the path and host.
    fn phases(&self, location: &Location) -> Phases {
        let Some(owner) = &location.owner else {
            let filtered = self.default_firewall();
            return filtered.map(|(extension, _)| firewall::phases(extension)).unwrap_or_default();
        };
        let mut added = owner.contributions.added.clone();
        let exempt = &self.context.defaults.authentication.exempt;
        if exempt.iter().any(|prefix| location.path.starts_with(&**prefix)) {
            added.remove_authentication();
        }
        let redirects = owner.contributions.redirects;
        if self.goes_to_https(location, redirects.when) {
            let redirect = self.context.defaults.https_redirect(redirects);
            added.add(Guard::HttpsRedirect(redirect));
        }
        let is_guarded = added.has(GuardStage::Limit) || added.has(GuardStage::Access);
        if is_guarded && !location.is_strict() {
            // `balancer.rewrite()` runs after the redirect to https.
            added.add(Guard::NeedsEndpoint);
        }
        if let Some(service) = location.backend().and_then(|backend| backend.service.as_ref())
            && let Some(port) = port_text(service)
        {
            let name = shared::text(&service.name);
            let key = ObjectKey { namespace: owner.key.namespace.clone(), name };
            let secured = self.secured(location, &key, &port).map(|it| it.key);
            added.add(Forwarding { tls_backend: secured, ..Forwarding::default() });
        }
        if let Some(host) = &owner.contributions.upstream.host {
            added.add(RequestEdit::Host(expand_labels(host, &labels(location))));
        }
        if let Some(target) = location.rewrite() {
            if let Some(redirect) = pattern::redirect(&location.path, target) {
                added.add(Guard::Redirect(redirect));
                return added.phases();
            }
            let path = Some(pattern::rewrite(&location.path, target));
            added.add(Forwarding { path, ..Forwarding::default() });
            if let Some(prefix) = &owner.contributions.rewrite.prefix {
                added.add(match pattern::has_captures(prefix) {
                    true => RequestEdit::ForwardedPrefix(pattern::rewrite(&location.path, prefix)),
                    false => RequestEdit::Headers(set_header("X-Forwarded-Prefix", prefix)),
                });
            }
        }
        added.phases()
    }

    fn goes_to_https(&self, location: &Location, to_https: ToHttps) -> bool {
        let exempt = &self.context.defaults.https.never_redirected;
        to_https.applies(self.has_certificate)
            && !exempt.iter().any(|prefix| location.path.starts_with(&**prefix))
    }

    /// The actions for the requests of a location, including its canary and error pages.
    fn actions(&mut self, location: &Location) -> LocationActions {
        match &location.owner {
            Some(owner) => self.name_backends(owner),
            None => self.backends.extend(self.default_firewall().map(|(_, backend)| backend)),
        }
        let main = match self.destination(location) {
            Ok(main) => main,
            Err(answer) => return LocationActions::replaced(answer, Phases::default()),
        };
        let pages = self.error_backend(location);
        let Some(main) = main else {
            return match pages {
                Some(pages) => LocationActions::replaced(
                    forward_to(&pages),
                    ErrorPageSettings::fallback_phases(&labels(location)),
                ),
                None => LocationActions::replaced(
                    unavailable(FixedResponseReason::MissingReference),
                    Phases::default(),
                ),
            };
        };
        self.backends.push(main.clone());
        self.backends.extend(self.secured(location, &main.service, &main.port));
        let joining = self.canary_location(location);
        self.describe_shared(location);
        let earlier = self.diagnostics.len();
        let canary = joining.and_then(|joining| self.canary(&joining, &main));
        if self.layout.canary_of(location).is_none() {
            // Problems of a canary are reported where it names a path.
            self.diagnostics.truncate(earlier);
        }
        let mut phases = canary.iter().map(|_| fallback_to_main(&main).into()).collect::<Phases>();
        if let Some(owner) = &location.owner {
            let otherwise = self.default_backend().ok();
            let errors = &owner.contributions.errors;
            let asks_by_default = pages.is_none() && !errors.statuses.is_empty();
            phases.add(errors.phases(pages, otherwise.as_ref(), &labels(location)));
            self.backends.extend(otherwise.filter(|_| asks_by_default));
        }
        LocationActions {
            destination: Destination::Forwarded(Box::new(ForwardTargets { main, canary })),
            phases,
        }
    }

    /// Load balancing and address source of a location's Service: those of its Ingress, or those shared by all with
    /// the Service.
    fn balance(&self, location: &Location, owner: &ServedIngress) -> (Balance, BackendAddressSource) {
        let upstream = &owner.contributions.upstream;
        match self.services.settings_for(location) {
            None => (upstream.balance.clone(), upstream.via),
            Some(shared) if self.layout.begins_sessions(location) => {
                (shared.balance.clone().with_annotations_of(&upstream.balance), shared.via)
            }
            Some(shared) => (
                shared.balance.clone().with_annotations_of(&upstream.balance).without_new_sessions(),
                shared.via,
            ),
        }
    }

    /// The backend of requests that arrived over TLS, if it differs.
    fn secured(&self, location: &Location, service: &ObjectKey, port: &Arc<str>) -> Option<BackendRef> {
        let owner = location.owner.as_ref()?;
        let (_, secured) = owner.contributions.upstream.transport.by_client();
        let (secured, (balance, via)) = (secured?, self.balance(location, owner));
        Some(BackendRef::new(service.clone(), port.clone(), &secured, &balance).via(via))
    }

    /// The canary of a location: the one that names it, or the Service's, which applies to all its locations.
    fn canary_location(&mut self, location: &Location) -> Option<Location> {
        let (layout, services) = (self.layout, self.services);
        let named = layout.canary_of(location);
        let of_service = services.settings_for(location).and_then(|shared| shared.canary.as_ref());
        let of_service = of_service.filter(|_| !named.is_some_and(Location::is_strict));
        let Some(canary) = of_service else { return named.cloned() };
        let identity = |it: &Location| (it.owner.as_ref().map(|owner| owner.key.clone()), it.service());
        let found = match named {
            Some(named) if identity(named) == identity(canary) => None,
            Some(named) => shared_service::canary_displaced(location, named, canary),
            None if !self.is_first(SharedAspect::Canary, location) => None,
            None => shared_service::canary_shared(location, canary),
        };
        self.diagnostics.extend(found);
        Some(canary.clone())
    }

    /// Reports what an Ingress shares with others of the same Service.
    fn describe_shared(&mut self, location: &Location) {
        let services = self.services;
        let Some(shared) = services.settings_for(location) else { return };
        if self.is_first(SharedAspect::BalancingAndSessions, location) {
            self.diagnostics.extend(shared.describe(location, self.default_balance()));
        }
    }

    fn default_balance(&self) -> DefaultBalance {
        let defaults = self.context.defaults;
        let via = match defaults.values.get("service-upstream", parse_bool) {
            Some(true) => BackendAddressSource::ClusterAddress,
            _ => BackendAddressSource::Endpoints,
        };
        (defaults.forwarding.balancing, via)
    }

    /// Whether this is reported for the first time: one path of an Ingress with a Service represents all.
    fn is_first(&mut self, aspect: SharedAspect, location: &Location) -> bool {
        let owner = location.owner.as_ref().map(|owner| owner.key.clone());
        let identity = owner.zip(location.service());
        identity.is_some_and(|(owner, service)| self.described.insert((aspect, owner, service)))
    }

    /// The backend of a canary, which uses the protocol of the main Ingress.
    fn canary(&mut self, joining: &Location, main: &BackendRef) -> Option<(Canary, BackendRef)> {
        let owner = joining.owner.as_ref()?;
        // Unsupported protection closes a canary, too.
        let own_canary = owner.canary().filter(|_| owner.contributions.closed.is_none())?;
        let shared = self.services.settings_for(joining);
        let share = shared.and_then(|shared| shared.share.as_ref()).and_then(|ingress| ingress.canary());
        let canary = Canary { sessions: own_canary.sessions, ..share.unwrap_or(own_canary).clone() };
        let usual = self.default_balance();
        self.diagnostics.extend(shared.into_iter().flat_map(|shared| shared.describe_canary(joining, usual)));
        let upstream = &owner.contributions.upstream;
        let (mut balance, via) = shared.map_or((upstream.balance.clone(), upstream.via), |it| {
            (it.balance.clone().with_annotations_of(&upstream.balance), it.via)
        });
        balance.cookie = match canary.sessions {
            CanarySessions::OfMain => main.balance.cookie.clone(),
            CanarySessions::Own => balance.cookie.or_else(|| upstream.balance.cookie.clone()),
        };
        let otherwise = "this canary gets no requests";
        let settings =
            BackendUsage { transport: &main.transport, balance: &balance, via, consequence: otherwise };
        let backend = self.reference(joining, owner, joining.backend()?, &settings)?;
        self.backends.push(backend.clone());
        Some((canary, backend))
    }

    /// The backend of the location's error pages.
    fn error_backend(&mut self, location: &Location) -> Option<BackendKey> {
        let (service, named) = location.owner.as_ref()?.contributions.errors.backend.as_deref()?;
        let Some(reference) = BackendRef::first_port(service, self.context.inputs) else {
            let found = Diagnostic::new(Severity::Warning, "missing-reference", named.clone());
            let problem = format!("Service {service} does not exist, has no port or is of type ExternalName");
            self.diagnostics.push(found.because(problem, "error answers that it would replace become 404"));
            return None;
        };
        let key = reference.key.clone();
        self.backends.push(reference);
        Some(key)
    }

    /// The backend of a location, `None` if it does not exist; or a response instead.
    fn destination(&mut self, location: &Location) -> Result<Option<BackendRef>, Action> {
        let Some(owner) = &location.owner else { return self.default_backend().map(Some) };
        let Some(backend) = location.backend() else {
            // Unavailable protection also closes the default backend's paths.
            let may = location.closed().is_none() && !owner.contributions.added.has(GuardStage::Redirect);
            return if may { self.default_backend().map(Some) } else { Err(not_found()) };
        };
        let contributions = &owner.contributions;
        let pages = contributions.errors.backend.as_deref();
        let otherwise =
            match pages.and_then(|(service, _)| BackendRef::first_port(service, self.context.inputs)) {
                Some(_) if location.closed().is_none() => "default-backend serves this path",
                _ => "this path answers 503",
            };
        let (transport, _) = contributions.upstream.transport.by_client();
        let (balance, via) = self.balance(location, owner);
        let settings = BackendUsage { transport: &transport, balance: &balance, via, consequence: otherwise };
        if let Some(Closed(reason)) = location.closed() {
            // Other problems will matter once the paths are open.
            _ = self.reference(location, owner, backend, &settings);
            return Err(unavailable(reason));
        }
        if contributions.added.has(GuardStage::Redirect) {
            // ingress-nginx ignores the Service of a path that is only redirected.
            return Err(not_found());
        }
        Ok(self.reference(location, owner, backend, &settings))
    }

    /// The backend of requests without a rule.
    fn default_backend(&self) -> Result<BackendRef, Action> {
        let service = self.context.inputs.options.defaults.backend.as_ref();
        let reference = service.and_then(|service| BackendRef::first_port(service, self.context.inputs));
        reference.ok_or_else(not_found)
    }

    /// The firewall for requests to the default backend, from the settings.
    fn default_firewall(&self) -> Option<(Extension, BackendRef)> {
        self.default_backend().ok()?;
        firewall::default_extension(&self.context)
    }

    /// Adds the backends that annotations reference.
    fn name_backends(&mut self, owner: &ServedIngress) {
        for NamedBackend { backend, origin, purpose } in owner.contributions.added.backends() {
            let Err(error) = backend.resolve(self.context.inputs) else {
                self.backends.push(backend.clone());
                continue;
            };
            let severity = match purpose {
                BackendPurpose::Mirror => Severity::Warning,
                BackendPurpose::Authentication
                | BackendPurpose::Keys
                | BackendPurpose::Firewall
                | BackendPurpose::Extension => Severity::Error,
            };
            let (code, _, problem) = explain(&error, backend);
            let found = Diagnostic::new(severity, code, origin.clone())
                .because(problem, purpose.unavailable_consequence());
            if !self.diagnostics.contains(&found) {
                self.diagnostics.push(found);
            }
        }
    }

    /// The backend of a path; `None` after reporting why there is none.
    fn reference(
        &mut self,
        location: &Location,
        owner: &ServedIngress,
        backend: &IngressBackend,
        settings: &BackendUsage<'_>,
    ) -> Option<BackendRef> {
        let mut origin = origin(location);
        if !origin.field.ends_with("Backend") {
            origin = origin.at(format!("{}.backend", origin.field));
        }
        let Some(service) = &backend.service else {
            let problem = "its backend is no Service, and other kinds are not supported";
            self.unresolved(origin, problem, settings.consequence);
            return None;
        };
        let Some(port) = port_text(service) else {
            self.unresolved(origin, "its backend names no port", settings.consequence);
            return None;
        };
        let key = ObjectKey { namespace: owner.key.namespace.clone(), name: shared::text(&service.name) };
        let reference = BackendRef::new(key, port, settings.transport, settings.balance).via(settings.via);
        if let Err(error) = reference.resolve(self.context.inputs) {
            self.diagnostics.push(describe(&error, &reference, &origin, settings.consequence));
            return None;
        }
        Some(reference)
    }

    fn unresolved(&mut self, origin: Origin, problem: &str, otherwise: &str) {
        let found = Diagnostic::new(Severity::Error, "unsupported-backend", origin);
        self.diagnostics.push(found.because(problem, otherwise));
    }

    /// `if ($uri = /) { return 302 $scheme://$http_host<app-root>; }` precedes all locations.
    fn app_root(&self, location: &Location) -> Rule {
        let path = location.owner.as_ref().and_then(|owner| owner.contributions.app_root.clone());
        let entry = LocationEntry {
            location: 0,
            condition: Match { path: PathMatch::Exact("/".into()), ..Match::default() },
            adds_slash: None,
            unusable: false,
        };
        let mut rule = self.rule(location, &entry, not_found());
        // It precedes the location, so the location's body limit and response headers do not apply.
        let mut phases = Phases::from_iter(path.map(|path| Guard::Redirect(to_app_root(&path)).into()));
        phases.answers.edits.extend(self.context.defaults.headers.response_edit());
        snippets::add_before_paths(&mut phases, self.snippet());
        rule.phases = Arc::new(phases);
        Arc::make_mut(&mut rule.policy).max_body = None;
        rule
    }

    fn policy(&self, location: &Location) -> Arc<Policy> {
        let defaults = self.context.defaults;
        let policy = location.owner.as_ref().map(|owner| Arc::clone(&owner.contributions.policy));
        let usual = || defaults.policy(defaults.forwarding.timeouts, defaults.forwarding.max_body);
        policy.unwrap_or_else(|| Arc::new(usual()))
    }
}

/// What happens to the requests of a location.
struct LocationActions {
    destination: Destination,
    /// Additional phases of its rules.
    phases: Phases,
}

/// Where the requests of a location go.
enum Destination {
    /// A response, or another backend instead of the location's own.
    Replaced(Action),
    /// They are forwarded.
    Forwarded(Box<ForwardTargets>),
}

/// The backends of a location.
struct ForwardTargets {
    main: BackendRef,
    /// The canary, if any.
    canary: Option<(Canary, BackendRef)>,
}

impl LocationActions {
    fn replaced(action: Action, phases: Phases) -> Self {
        Self { destination: Destination::Replaced(action), phases }
    }

    /// The actions for requests that match `on`; the first match applies. Also returns additional phases.
    fn decisions(&self, on: &Match) -> (Vec<(Match, Action)>, &Phases) {
        let decisions = match &self.destination {
            Destination::Replaced(action) => vec![(on.clone(), action.clone())],
            Destination::Forwarded(forwarded) => match &forwarded.canary {
                None => vec![(on.clone(), forward_to(&forwarded.main.key))],
                Some((canary, backend)) => canary.decisions(on, &forwarded.main, backend),
            },
        };
        (decisions, &self.phases)
    }
}

fn forward_to(backend: &BackendKey) -> Action {
    Action::Forward(vec![WeightedBackend::new(backend.clone(), 1)])
}

/// Reports why the backend at `origin` cannot be resolved.
fn describe(error: &ResolveError, reference: &BackendRef, origin: &Origin, otherwise: &str) -> Diagnostic {
    let (code, field, problem) = explain(error, reference);
    let origin = origin.at(format!("{}.{field}", origin.field));
    Diagnostic::new(Severity::Error, code, origin).because(problem, otherwise)
}

/// The diagnostic code, the field and the problem.
fn explain(error: &ResolveError, reference: &BackendRef) -> (&'static str, &'static str, String) {
    let service = &reference.service;
    match error {
        ResolveError::NoService => {
            ("missing-reference", "service.name", format!("Service {service} does not exist"))
        }
        ResolveError::NoPort { known_names: known } => (
            "missing-reference",
            "service.port",
            format!("Service {service} has no port {}; it has {known}", reference.port),
        ),
        ResolveError::External => (
            "external-name-refused",
            "service.name",
            format!("Service {service} is of type ExternalName, which is not served unless a flag allows it"),
        ),
    }
}

/// Redirects `/` to the root of the application; the query is dropped, as recorded.
fn to_app_root(path: &Arc<str>) -> Redirect {
    same_url_with(302, path.clone(), false)
}

/// Redirects to the path with a trailing slash (nginx `location`: "a permanent redirect with the code 301 will be
/// returned to the requested URI with the slash appended").
fn to_trailing_slash(path_with_slash: &str, location: &Location) -> Redirect {
    match location.owner.as_ref().is_some_and(|owner| owner.contributions.redirects.relative) {
        true => Redirect { status: 301, target: RedirectTarget::Path(path_with_slash.into()) },
        false => same_url_with(301, path_with_slash.into(), true),
    }
}

fn same_url_with(status: u16, path: Arc<str>, keep_query: bool) -> Redirect {
    let path = Some(PathRewrite::Full(path));
    Redirect {
        status,
        target: RedirectTarget::Parts { scheme: None, host: None, port: None, path, keep_query },
    }
}

/// Sets one header.
fn set_header(name: &str, value: &Arc<str>) -> HeaderEdit {
    let field = HeaderField { name: name.into(), value: value.clone() };
    HeaderEdit { set: vec![field], ..HeaderEdit::default() }
}

/// Adds a rule to the last route, or to a new one if another Ingress defines it.
fn append(routes: &mut Vec<Route>, location: &Location, rule: Rule) {
    let origin = rule.origin.at("");
    if routes.last().is_none_or(|last| last.origin != object_origin(&origin, location)) {
        let created = location.owner.as_ref().and_then(|owner| owner.created);
        routes.push(Route {
            origin: object_origin(&origin, location),
            created,
            hostname_rank: 0,
            rules: Vec::new(),
        });
    }
    let last = routes.last_mut().expect("one was just added where there was none");
    last.rules.push(rule);
}

/// The object as a whole.
fn object_origin(origin: &Origin, location: &Location) -> Origin {
    location.owner.as_ref().map_or_else(|| origin.clone(), |owner| owner.origin(""))
}

fn origin(location: &Location) -> Origin {
    match &location.owner {
        Some(_) => location.origin(""),
        None => Origin::object("Default", "", "no-route"),
    }
}

fn labels(location: &Location) -> RuleLabels {
    let Some(owner) = &location.owner else { return RuleLabels::default() };
    let service = location.backend().and_then(|backend| backend.service.as_ref());
    RuleLabels {
        namespace: owner.key.namespace.clone(),
        ingress: owner.key.name.clone(),
        service: service.map(|service| shared::text(&service.name)).unwrap_or_default(),
        service_port: service.and_then(port_text).unwrap_or_default(),
        path: location.path.clone(),
    }
}

/// The text of a template without request parts.
fn expand_labels(template: &Template, labels: &RuleLabels) -> Arc<str> {
    let text = template.0.iter().map(|part| match part {
        TemplatePart::Text(text) => text,
        TemplatePart::Label(RuleLabel::Namespace) => &labels.namespace,
        TemplatePart::Label(RuleLabel::Ingress) => &labels.ingress,
        TemplatePart::Label(RuleLabel::Service) => &labels.service,
        TemplatePart::Label(RuleLabel::ServicePort) => &labels.service_port,
        _ => "",
    });
    text.collect::<String>().into()
}

fn not_found() -> Action {
    Action::FixedResponse(FixedResponse { status: 404, reason: FixedResponseReason::NoRoute })
}

fn unavailable(reason: FixedResponseReason) -> Action {
    let status = if reason == FixedResponseReason::Refused { 404 } else { 503 };
    Action::FixedResponse(FixedResponse { status, reason })
}
