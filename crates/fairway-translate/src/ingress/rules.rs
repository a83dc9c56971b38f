//! The rules of a host: what each of its locations does with a request, filter by filter.

use std::sync::Arc;

use fairway_model::{
    Action, Answer, AnswerReason, Filter, HeaderEdit, HeaderField, Match, Origin, PathMatch, PathRewrite,
    Policy, Redirect, RedirectTarget, Route, Rule, RuleLabels, WeightedBackend,
};
use k8s_openapi::api::networking::v1::IngressBackend;

use crate::diagnostic::{Diagnostic, Severity};
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Phase;
use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, port_text};
use crate::ingress::order::Entry;
use crate::ingress::pattern;
use crate::ingress::served::ServedIngress;
use crate::ingress::to_https::ToHttps;
use crate::object::ObjectKey;
use crate::shared::backend::{BackendRef, ResolveError};

/// Makes the rules of one host.
pub(crate) struct Builder<'a> {
    context: Context<'a>,
    /// Whether a certificate is known for the host.
    has_certificate: bool,
    /// The backends that rules forward to.
    pub(crate) backends: Vec<BackendRef>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'a> Builder<'a> {
    /// One that has made none yet.
    pub(crate) fn new(context: Context<'a>, has_certificate: bool) -> Self {
        Self { context, has_certificate, backends: Vec::new(), diagnostics: Vec::new() }
    }

    /// The rules of a host, in runs of the same Ingress. `root` is the location whose Ingress redirects `/`.
    pub(crate) fn routes(
        &mut self,
        layout: &Layout,
        entries: &[Entry],
        root: Option<&Location>,
    ) -> Vec<Arc<Route>> {
        let mut routes: Vec<Route> = Vec::new();
        if let Some(location) = root {
            append(&mut routes, location, self.app_root(location));
        }
        // The answers of locations are made once: nginx tries some of them at two places.
        let mut actions: Vec<Option<Action>> = vec![None; layout.locations.len()];
        for entry in entries {
            let at_root = entry.condition.path == PathMatch::Exact("/".into());
            if root.is_some() && at_root && layout.matching == Matching::Text {
                continue;
            }
            let location = &layout.locations[entry.location];
            let action = actions[entry.location].get_or_insert_with(|| self.action(location)).clone();
            append(&mut routes, location, self.rule(location, entry, action));
        }
        routes.into_iter().map(Arc::new).collect()
    }

    fn rule(&self, location: &Location, entry: &Entry, action: Action) -> Rule {
        let mut rule = Rule {
            origin: origin(location),
            matches: vec![entry.condition.clone()],
            filters: Vec::new(),
            action,
            policy: self.policy(location),
            labels: labels(location),
        };
        if let Some(path) = &entry.adds_slash {
            rule.filters.push(Filter::Redirect(to_trailing_slash(path)));
            rule.action = not_found();
        } else if entry.unusable {
            rule.action = unavailable(AnswerReason::ProtectionUnavailable);
        } else if location.closed().is_none() {
            rule.filters = self.filters(location);
        }
        rule.filters.extend(self.context.defaults.hsts.clone().map(Filter::StrictTransportSecurity));
        rule
    }

    /// What the annotations contribute, and what depends on the path and the host.
    fn filters(&self, location: &Location) -> Vec<Filter> {
        let Some(owner) = &location.owner else { return Vec::new() };
        let mut filters = owner.contributions.filters.clone();
        let exempt = &self.context.defaults.authentication.exempt;
        if exempt.iter().any(|prefix| location.path.starts_with(&**prefix)) {
            filters.let_everybody_in();
        }
        if self.goes_to_https(location, owner.contributions.to_https) {
            let redirect = self.context.defaults.https_redirect(owner.contributions.slash);
            filters.push(Phase::Https, Filter::HttpsRedirect(redirect));
        }
        if let Some(target) = location.rewrite() {
            let rewrite = pattern::rewrite(&location.path, target);
            filters.push(Phase::Forward, Filter::RewritePath(rewrite));
            let prefix = owner.contributions.forwarded_prefix.as_ref();
            if let Some(edit) = prefix.map(|prefix| setting("X-Forwarded-Prefix", prefix)) {
                filters.push(Phase::Forward, Filter::RequestHeaders(edit));
            }
        }
        filters.into_ordered().collect()
    }

    fn goes_to_https(&self, location: &Location, to_https: ToHttps) -> bool {
        let exempt = &self.context.defaults.https.never;
        let goes = match to_https {
            ToHttps::Never => false,
            ToHttps::WithCertificate => self.has_certificate,
            ToHttps::Always => true,
        };
        goes && !exempt.iter().any(|prefix| location.path.starts_with(&**prefix))
    }

    fn action(&mut self, location: &Location) -> Action {
        let Some(owner) = &location.owner else { return not_found() };
        self.name_backends(owner);
        let Some(backend) = location.backend() else { return not_found() };
        if let Some(Closed(reason)) = location.closed() {
            // What else is wrong with it will matter once it is open.
            _ = self.backend_ref(location, owner, backend);
            return unavailable(reason);
        }
        if owner.contributions.filters.has(Phase::Redirect) {
            // ingress-nginx does not look at the Service of a path that is only redirected.
            return not_found();
        }
        let Some(reference) = self.backend_ref(location, owner, backend) else {
            return unavailable(AnswerReason::MissingReference);
        };
        let action = Action::Forward(vec![WeightedBackend { backend: reference.key.clone(), weight: 1 }]);
        self.backends.push(reference);
        action
    }

    /// The backends that filters name. One that cannot be found lets nobody pass.
    fn name_backends(&mut self, owner: &ServedIngress) {
        for (reference, origin) in owner.contributions.filters.backends() {
            let Err(error) = reference.target(self.context.inputs) else {
                self.backends.push(reference.clone());
                continue;
            };
            let (code, _, problem) = explain(&error, reference);
            let found = Diagnostic::new(Severity::Error, code, origin.clone());
            let found = found.because(problem, "requests that wait for its word are answered 500");
            if !self.diagnostics.contains(&found) {
                self.diagnostics.push(found);
            }
        }
    }

    /// The backend of a location, or nothing after saying why it has none.
    fn backend_ref(
        &mut self,
        location: &Location,
        owner: &ServedIngress,
        backend: &IngressBackend,
    ) -> Option<BackendRef> {
        let mut origin = origin(location);
        if !origin.field.ends_with("Backend") {
            origin = origin.at(format!("{}.backend", origin.field));
        }
        let Some(service) = &backend.service else {
            self.unresolved(origin, "its backend is no Service, and other kinds are not supported");
            return None;
        };
        let Some(port) = port_text(service) else {
            self.unresolved(origin, "its backend names no port");
            return None;
        };
        let key = ObjectKey { namespace: owner.key.namespace.clone(), name: service.name.as_str().into() };
        let reference =
            BackendRef::new(key, port, (&owner.contributions.transport, owner.contributions.balance));
        if let Err(error) = reference.target(self.context.inputs) {
            self.diagnostics.push(describe(&error, &reference, &origin));
            return None;
        }
        Some(reference)
    }

    fn unresolved(&mut self, origin: Origin, problem: &str) {
        let found = Diagnostic::new(Severity::Error, "unsupported-backend", origin);
        self.diagnostics.push(found.because(problem, "this path answers 503"));
    }

    /// `if ($uri = /) { return 302 $scheme://$http_host<app-root>; }` stands before all locations.
    fn app_root(&self, location: &Location) -> Rule {
        let path = location.owner.as_ref().and_then(|owner| owner.contributions.app_root.clone());
        let entry = Entry {
            location: 0,
            condition: Match { path: PathMatch::Exact("/".into()), ..Match::default() },
            adds_slash: None,
            unusable: false,
        };
        let mut rule = self.rule(location, &entry, not_found());
        rule.filters.retain(|filter| matches!(filter, Filter::StrictTransportSecurity(_)));
        let to = |path| Filter::Redirect(to_app_root(path));
        rule.filters.splice(0..0, path.as_ref().map(to));
        rule
    }

    fn policy(&self, location: &Location) -> Policy {
        let defaults = self.context.defaults;
        let own = location.owner.as_ref().map(|owner| owner.contributions.policy.clone());
        own.unwrap_or_else(|| defaults.policy(defaults.timeouts, defaults.max_body))
    }
}

/// Why the backend at `origin` cannot be found.
fn describe(error: &ResolveError, reference: &BackendRef, origin: &Origin) -> Diagnostic {
    let (code, field, problem) = explain(error, reference);
    let origin = origin.at(format!("{}.{field}", origin.field));
    Diagnostic::new(Severity::Error, code, origin).because(problem, "this path answers 503")
}

/// The code, the field and the problem.
fn explain(error: &ResolveError, reference: &BackendRef) -> (&'static str, &'static str, String) {
    let service = &reference.service;
    match error {
        ResolveError::NoService => {
            ("missing-reference", "service.name", format!("Service {service} does not exist"))
        }
        ResolveError::NoPort { known } => (
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

/// `/` to the root of the application; the query is dropped, as recorded.
fn to_app_root(path: &Arc<str>) -> Redirect {
    same_url_with(302, path.clone(), false)
}

/// To the form of the path that ends in a slash (nginx `location`: "a permanent redirect with the code 301 will be
/// returned to the requested URI with the slash appended").
fn to_trailing_slash(path_with_slash: &str) -> Redirect {
    same_url_with(301, path_with_slash.into(), true)
}

fn same_url_with(status: u16, path: Arc<str>, keep_query: bool) -> Redirect {
    let path = Some(PathRewrite::Full(path));
    Redirect {
        status,
        target: RedirectTarget::Parts { scheme: None, host: None, port: None, path, keep_query },
    }
}

/// Sets one field.
fn setting(name: &str, value: &Arc<str>) -> HeaderEdit {
    let field = HeaderField { name: name.into(), value: value.clone() };
    HeaderEdit { set: vec![field], ..HeaderEdit::default() }
}

/// Adds a rule to the last route, or to a new one when another Ingress wrote it.
fn append(routes: &mut Vec<Route>, location: &Location, rule: Rule) {
    let origin = rule.origin.at("");
    if routes.last().is_none_or(|last| last.origin != whole(&origin, location)) {
        let created = location.owner.as_ref().and_then(|owner| owner.created);
        routes.push(Route { origin: whole(&origin, location), created, rules: Vec::new() });
    }
    let last = routes.last_mut().expect("one was just added where there was none");
    last.rules.push(rule);
}

/// The object as a whole.
fn whole(origin: &Origin, location: &Location) -> Origin {
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
        service: service.map(|service| service.name.as_str().into()).unwrap_or_default(),
        service_port: service.and_then(port_text).unwrap_or_default(),
        path: location.path.clone(),
    }
}

fn not_found() -> Action {
    Action::Answer(Answer { status: 404, reason: AnswerReason::NoRoute })
}

fn unavailable(reason: AnswerReason) -> Action {
    Action::Answer(Answer { status: 503, reason })
}
