//! The locations of a host: which paths its Ingresses claim, and who gets a path that several claim (shared rules:
//! ingress-nginx `getBackendServers`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fairway_model::{HostPattern, ServiceName};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::shared;
use k8s_openapi::api::networking::v1::HTTPIngressPath;

use crate::ingress::location::{Location, LocationSource, PathKind, http_path};
use crate::ingress::ownership::{HostIngresses, decides};
use crate::ingress::pattern;
use crate::ingress::served::ServedIngress;

/// How the paths of a host are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// As text.
    Text,
    /// All as regular expressions, because one Ingress of the host requests it.
    Patterns,
}

/// The locations of a host.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) matching: Matching,
    pub(crate) locations: Vec<Location>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The namespace whose Ingresses decide host-wide settings; `None` if all do.
    pub(crate) host_owner: Option<Arc<str>>,
    /// The canary of a path, and where it is defined.
    pub(crate) canaries: HashMap<(PathKind, Arc<str>), Location>,
    /// Services whose sessions may start at a path, because an Ingress with that path requests affinity.
    sessions: HashSet<(ServiceName, Arc<str>)>,
    /// Locations by path.
    by_path: HashMap<(PathKind, Arc<str>), usize>,
}

/// Creates the locations of a host.
pub(crate) fn layout(host: &HostPattern, serving: &HostIngresses) -> Layout {
    let deciding: Vec<_> = serving.deciding_ingresses().collect();
    let mut layout = Layout {
        matching: Matching::Text,
        locations: vec![fallback(host, &deciding)],
        diagnostics: Vec::new(),
        host_owner: serving.owner.clone(),
        canaries: HashMap::new(),
        sessions: HashSet::new(),
        by_path: [((PathKind::Prefix, "/".into()), 0)].into(),
    };
    for ingress in &serving.ingresses {
        paths_of(ingress, host).for_each(|(place, path)| layout.claim(ingress, path, place));
    }
    for ingress in &serving.canaries {
        paths_of(ingress, host).for_each(|(place, path)| layout.add_canary(ingress, path, place));
        layout.diagnostics.extend(catch_all_unused(ingress, host));
    }
    if layout.pattern_requester().is_some() {
        layout.matching = Matching::Patterns;
    } else {
        layout.refuse_patterns_of_guests(host);
        layout.report_unused_patterns();
    }
    layout
}

/// Reports canaries of a host without main Ingresses.
pub(crate) fn without_main(host: &HostPattern, canaries: &[Arc<ServedIngress>]) -> Vec<Diagnostic> {
    let unused = |ingress: &Arc<ServedIngress>| {
        let paths =
            paths_of(ingress, host).map(|(place, path)| unused_canary(&location(ingress, path, place), None));
        paths.collect::<Vec<_>>()
    };
    canaries.iter().flat_map(unused).collect()
}

/// The paths of an Ingress on a host, in rule order.
fn paths_of<'i>(
    ingress: &'i ServedIngress,
    host: &HostPattern,
) -> impl Iterator<Item = (LocationSource, &'i HTTPIngressPath)> {
    let all = ingress.spec().and_then(|spec| spec.rules.as_ref());
    ingress.rules.iter().filter(move |(rule_host, _)| rule_host == host).flat_map(move |(_, rule)| {
        let http = all.and_then(|rules| rules.get(*rule)).and_then(|rule| rule.http.as_ref());
        let paths = http.into_iter().flat_map(|http| &http.paths).enumerate();
        paths.map(move |(at, path)| (LocationSource::Path(*rule, at), path))
    })
}

/// The location for paths without a rule: the default backend of the oldest Ingress that has one, else 404 with the
/// annotations of the oldest Ingress. On the catch-all host, an Ingress without rules comes first.
fn fallback(host: &HostPattern, ingresses: &[&Arc<ServedIngress>]) -> Location {
    let catch_all = ingresses.iter().find(|ingress| ingress.is_catch_all());
    let owner = catch_all.or_else(|| ingresses.iter().find(|ingress| ingress.default_backend().is_some()));
    let (owner, place) = match owner {
        Some(owner) => (Some(owner), LocationSource::DefaultBackend),
        None if *host == HostPattern::Any => (None, LocationSource::Nowhere),
        None => (ingresses.first(), LocationSource::Nowhere),
    };
    let owner = owner.copied().cloned();
    Location { path: "/".into(), kind: PathKind::Prefix, owner, source: place }
}

impl Layout {
    /// Whether a location has this path.
    pub(crate) fn has(&self, kind: PathKind, path: &str) -> bool {
        self.by_path.contains_key(&(kind, path.into()))
    }

    /// The Ingress that turns all paths of the host into patterns: the first that requests it and is allowed to.
    pub(crate) fn pattern_requester(&self) -> Option<&Arc<ServedIngress>> {
        let asking = self.locations.iter().filter(|location| location.asks_for_patterns());
        asking.filter_map(|it| it.owner.as_ref()).find(|ingress| decides(self.host_owner.as_ref(), ingress))
    }

    /// Removes the patterns of Ingresses that may not turn the paths of the host into patterns: as plain text they
    /// would mean something else.
    fn refuse_patterns_of_guests(&mut self, host: &HostPattern) {
        let Some(owner) = self.host_owner.clone() else { return };
        let (refused, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.locations).into_iter().partition(Location::is_pattern);
        self.locations = kept;
        let key_of = |(at, it): (usize, &Location)| ((it.kind, it.path.clone()), at);
        self.by_path = self.locations.iter().enumerate().map(key_of).collect();
        for location in &refused {
            let problem = format!(
                "path \"{}\" is a regular expression, and none of namespace {owner}, which owns host {host}, has one there",
                location.path
            );
            let found = Diagnostic::new(Severity::Error, "host-owned", location.origin(".path"));
            self.diagnostics.push(found.because(problem, "it is not served"));
        }
    }

    /// Gives a path to an Ingress, unless an older one has it.
    fn claim(&mut self, ingress: &Arc<ServedIngress>, path: &HTTPIngressPath, source: LocationSource) {
        let claimed = location(ingress, path, source);
        let (kind, text) = (claimed.kind, claimed.path.clone());
        if ingress.contributions.upstream.balance.cookie.is_some() && !claimed.is_strict() {
            self.sessions.extend(claimed.service().map(|service| (service, text.clone())));
        }
        if !text.starts_with('/') {
            let found = Diagnostic::new(Severity::Error, "invalid-path", claimed.origin(".path"));
            let problem = format!("path \"{text}\" does not begin with /");
            self.diagnostics.push(found.because(problem, "it is not served"));
            return;
        }
        let holder = self.by_path.get(&(kind, claimed.path.clone())).copied();
        match holder.map(|at| &mut self.locations[at]) {
            None => {
                self.by_path.insert((kind, claimed.path.clone()), self.locations.len());
                self.locations.push(claimed);
            }
            Some(older) if !older.is_path() => *older = claimed,
            Some(older) => self.diagnostics.push(conflict(&claimed, older)),
        }
    }

    /// Adds a canary for a path, unless an older one exists.
    fn add_canary(&mut self, ingress: &Arc<ServedIngress>, path: &HTTPIngressPath, source: LocationSource) {
        let joining = location(ingress, path, source);
        let key = (joining.kind, joining.path.clone());
        let has_main = self.by_path.get(&key).is_some_and(|at| self.locations[*at].is_path());
        let older = self.canaries.get(&key);
        if has_main && older.is_none() {
            self.canaries.insert(key, joining);
        } else {
            self.diagnostics.push(unused_canary(&joining, older));
        }
    }

    /// The canary of a location.
    pub(crate) fn canary_of(&self, location: &Location) -> Option<&Location> {
        self.canaries.get(&(location.kind, location.path.clone())).filter(|_| location.is_path())
    }

    /// Canaries that apply to all requests of a Service, because they claim a path with it.
    pub(crate) fn service_canaries(&self) -> impl Iterator<Item = (ServiceName, &Location)> {
        self.canaries.iter().filter_map(|(path, joining)| {
            let main = self.locations.get(*self.by_path.get(path)?)?;
            let service = main.service()?;
            let share = !main.is_strict() && !joining.is_strict() && joining.closed().is_none();
            (share && joining.service()? != service).then_some((service, joining))
        })
    }

    /// Whether responses of a location set the cookie of its Service's sessions.
    pub(crate) fn begins_sessions(&self, location: &Location) -> bool {
        let asks = |owner: &Arc<ServedIngress>| owner.contributions.upstream.balance.cookie.is_some();
        let shared =
            || location.service().is_some_and(|it| self.sessions.contains(&(it, location.path.clone())));
        location.owner.as_ref().is_some_and(asks) || (location.is_path() && shared())
    }

    fn report_unused_patterns(&mut self) {
        for location in self.locations.iter().filter(|location| location.is_path()) {
            if pattern::looks_like_pattern(&location.path) {
                let problem = format!(
                    "path \"{}\" looks like a regular expression, but use-regex is off",
                    location.path
                );
                let origin = location.origin(".path");
                let found = Diagnostic::new(Severity::Warning, "pattern-not-used", origin);
                self.diagnostics.push(found.because(problem, "it is matched as plain text"));
            }
        }
    }
}

/// The location of a path, by rule and path index.
pub(crate) fn location_at(ingress: &Arc<ServedIngress>, rule: usize, path: usize) -> Option<Location> {
    Some(location(ingress, http_path(ingress, rule, path)?, LocationSource::Path(rule, path)))
}

/// The location that a path of an Ingress requests.
fn location(ingress: &Arc<ServedIngress>, path: &HTTPIngressPath, source: LocationSource) -> Location {
    let text = path.path.as_deref().filter(|text| !text.is_empty()).unwrap_or("/");
    let kind = if path.path_type == "Exact" { PathKind::Exact } else { PathKind::Prefix };
    Location { path: shared::text(text), kind, owner: Some(ingress.clone()), source }
}

/// Reports a canary without effect: another one exists, or there is no such path.
fn unused_canary(joining: &Location, older: Option<&Location>) -> Diagnostic {
    let path = &joining.path;
    let problem = match older {
        Some(older) => format!("{} is the canary of path \"{path}\" already", older.origin("")),
        None => format!("no other Ingress has path \"{path}\" with this type on this host"),
    };
    let found = Diagnostic::new(Severity::Warning, "canary-unused", joining.origin(""));
    found.because(problem, "this canary gets no requests")
}

/// Reports that the default backend of a canary has no effect.
fn catch_all_unused(ingress: &ServedIngress, host: &HostPattern) -> Option<Diagnostic> {
    let takes = *host == HostPattern::Any && ingress.is_catch_all();
    let found = Diagnostic::new(Severity::Warning, "canary-unused", ingress.origin("spec.defaultBackend"));
    takes.then(|| found.because("default backends have no canaries", "this canary gets no requests"))
}

/// Reports that a path belongs to another Ingress.
fn conflict(claimed: &Location, older: &Location) -> Diagnostic {
    let same_object = claimed.owner.as_ref().map(|it| &it.key) == older.owner.as_ref().map(|it| &it.key);
    let why = if same_object { "listed before" } else { "older" };
    let problem = format!(
        "path \"{}\" of this type and host belongs to {}, which is {why}",
        claimed.path,
        older.origin("")
    );
    let found = Diagnostic::new(Severity::Error, "conflict", claimed.origin(""));
    found.because(problem, "this one gets no requests")
}
