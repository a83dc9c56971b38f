//! The locations of a host: which paths its Ingresses claim, who gets a path that several claim, and the order in which
//! nginx tries them (shared rules: ingress-nginx `getBackendServers`, `updateServerLocations`; nginx `location`).

use std::collections::HashMap;
use std::sync::Arc;

use fairway_model::{HostPattern, Match, PathMatch};
use fairway_pattern::budget::Budget;
use k8s_openapi::api::networking::v1::{HTTPIngressPath, IngressBackend};

use crate::diagnostic::{Diagnostic, Severity};
use crate::ownership::{Parties, decides};
use crate::pattern::{self, Judged, Patterns};
use crate::plan::{Paths, Plan};
use crate::resources::Kind;
use crate::rewrite;

/// One path of a host and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// As the rule wrote it; `/` where it wrote none.
    pub(crate) path: Arc<str>,
    pub(crate) kind: PathKind,
    /// `None` for the answer of a host where nobody has a default backend or annotations for it.
    pub(crate) owner: Option<Arc<Plan>>,
    pub(crate) place: Place,
}

/// The two kinds of paths that ingress-nginx knows; `ImplementationSpecific` is a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathKind {
    Exact,
    Prefix,
}

/// Where in its owner a location is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `spec.rules[.0].http.paths[.1]`.
    Path(usize, usize),
    /// `spec.defaultBackend`.
    DefaultBackend,
    /// Nowhere: the answer is 404.
    Nowhere,
}

/// How the paths of a host are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    /// By text.
    Text,
    /// All as regular expressions: one Ingress of the host asked for it.
    Patterns,
}

/// The locations of a host.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) matching: Matching,
    pub(crate) locations: Vec<Location>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The namespace whose Ingresses decide what holds for the whole host; `None` where all do.
    pub(crate) host_owner: Option<Arc<str>>,
    /// Which location has a path.
    holders: HashMap<(PathKind, Arc<str>), usize>,
}

/// A location as the routing table shall see it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Which location.
    pub(crate) location: usize,
    pub(crate) condition: Match,
    /// The path with the slash, where the location only adds it.
    pub(crate) adds_slash: Option<Arc<str>>,
    /// The regular expression that cannot be used, where it is one.
    pub(crate) unusable: bool,
}

impl Location {
    /// Where its requests go, as the object says.
    pub(crate) fn backend(&self) -> Option<&IngressBackend> {
        let owner = self.owner.as_ref()?;
        match self.place {
            Place::Path(rule, path) => http_path(owner, rule, path).map(|path| &path.backend),
            Place::DefaultBackend => owner.default_backend(),
            Place::Nowhere => None,
        }
    }

    /// The field that wrote it.
    pub(crate) fn field(&self) -> String {
        match self.place {
            Place::Path(rule, path) => format!("spec.rules[{rule}].http.paths[{path}]"),
            Place::DefaultBackend => "spec.defaultBackend".to_owned(),
            Place::Nowhere => String::new(),
        }
    }

    /// What `rewrite-target` makes of its path, where that differs from it (`needsRewrite`).
    pub(crate) fn rewrite(&self) -> Option<&Arc<str>> {
        let target = self.owner.as_ref()?.treatment.rewrite.as_ref()?;
        (*target != self.path).then_some(target)
    }

    /// Whether its Ingress protects it: closes it, or lists who may pass.
    fn is_guard(&self) -> bool {
        let protects =
            |owner: &Arc<Plan>| owner.treatment.closed.is_some() || owner.treatment.access.is_some();
        self.owner.as_ref().is_some_and(protects)
    }

    /// Whether its Ingress wants the paths of the host to be patterns.
    pub(crate) fn wants_patterns(&self) -> bool {
        let by_annotation = |owner: &Arc<Plan>| owner.treatment.paths == Paths::Patterns;
        self.rewrite().is_some() || self.owner.as_ref().is_some_and(by_annotation)
    }
}

fn http_path(plan: &Plan, rule: usize, path: usize) -> Option<&HTTPIngressPath> {
    plan.spec()?.rules.as_ref()?.get(rule)?.http.as_ref()?.paths.get(path)
}

/// Lays out the locations of a host.
pub(crate) fn layout(host: &HostPattern, parties: &Parties) -> Layout {
    let deciding: Vec<_> = parties.deciding().collect();
    let mut layout = Layout {
        matching: Matching::Text,
        locations: vec![fallback(host, &deciding)],
        diagnostics: Vec::new(),
        host_owner: parties.owner.clone(),
        holders: [((PathKind::Prefix, "/".into()), 0)].into(),
    };
    for plan in &parties.plans {
        for (_, rule) in plan.rules.iter().filter(|(of, _)| of == host) {
            let rules = plan.spec().and_then(|spec| spec.rules.as_ref());
            let http = rules.and_then(|rules| rules.get(*rule)).and_then(|rule| rule.http.as_ref());
            for (at, path) in http.into_iter().flat_map(|http| &http.paths).enumerate() {
                layout.claim(plan, path, Place::Path(*rule, at));
            }
        }
    }
    if layout.wants_patterns().is_some() {
        layout.matching = Matching::Patterns;
    } else {
        layout.refuse_patterns_of_guests(host);
        layout.note_unused_patterns();
    }
    layout
}

/// What answers a path that no rule of the host has: the default backend of the oldest Ingress that has one, else 404
/// with the annotations of the oldest Ingress. On the catch-all host an Ingress without rules comes first.
fn fallback(host: &HostPattern, plans: &[&Arc<Plan>]) -> Location {
    let catch_all = plans.iter().find(|plan| plan.is_catch_all());
    let owner = catch_all.or_else(|| plans.iter().find(|plan| plan.default_backend().is_some()));
    let (owner, place) = match owner {
        Some(owner) => (Some(owner), Place::DefaultBackend),
        None if *host == HostPattern::Any => (None, Place::Nowhere),
        None => (plans.first(), Place::Nowhere),
    };
    let owner = owner.copied().cloned();
    Location { path: "/".into(), kind: PathKind::Prefix, owner, place }
}

impl Layout {
    /// The Ingress for which all paths of the host are patterns: the first that asks for it and may.
    pub(crate) fn wants_patterns(&self) -> Option<&Arc<Plan>> {
        let asking = self.locations.iter().filter(|location| location.wants_patterns());
        asking.filter_map(|it| it.owner.as_ref()).find(|plan| decides(self.host_owner.as_ref(), plan))
    }

    /// Takes away the patterns of Ingresses that may not turn the paths of the host into patterns: as plain text they
    /// would mean something else.
    fn refuse_patterns_of_guests(&mut self, host: &HostPattern) {
        let Some(owner) = self.host_owner.clone() else { return };
        let is_pattern = |it: &Location| it.wants_patterns() && rewrite::looks_like_pattern(&it.path);
        let (refused, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.locations).into_iter().partition(is_pattern);
        self.locations = kept;
        let held = |(at, it): (usize, &Location)| ((it.kind, it.path.clone()), at);
        self.holders = self.locations.iter().enumerate().map(held).collect();
        for location in &refused {
            let problem = format!(
                "path \"{}\" is a regular expression, and none of namespace {owner}, which owns host {host}, has one there",
                location.path
            );
            self.diagnose(location, "path", ("host-owned", problem), "it is not served");
        }
    }

    /// Gives a path to a plan, unless an older one has it.
    fn claim(&mut self, plan: &Arc<Plan>, path: &HTTPIngressPath, place: Place) {
        let text = path.path.as_deref().filter(|text| !text.is_empty()).unwrap_or("/");
        let kind = if path.path_type == "Exact" { PathKind::Exact } else { PathKind::Prefix };
        let claimed = Location { path: text.into(), kind, owner: Some(plan.clone()), place };
        if !text.starts_with('/') {
            let problem = format!("path \"{text}\" does not begin with /");
            return self.diagnose(&claimed, "path", ("invalid-path", problem), "it is not served");
        }
        let holder = self.holders.get(&(kind, claimed.path.clone())).copied();
        match holder.map(|at| &mut self.locations[at]) {
            None => {
                self.holders.insert((kind, claimed.path.clone()), self.locations.len());
                self.locations.push(claimed);
            }
            Some(older) if !matches!(older.place, Place::Path(..)) => *older = claimed,
            Some(older) => {
                let older = older.clone();
                self.conflict(&claimed, &older);
            }
        }
    }

    fn conflict(&mut self, claimed: &Location, older: &Location) {
        let same_object = claimed.owner.as_ref().map(|it| &it.key) == older.owner.as_ref().map(|it| &it.key);
        let why = if same_object { "listed before" } else { "older" };
        let problem = format!(
            "path \"{}\" of this type and host belongs to {}, which is {why}",
            claimed.path,
            origin(older, "")
        );
        self.diagnose(claimed, "", ("conflict", problem), "this one gets no requests");
    }

    fn note_unused_patterns(&mut self) {
        for at in 0..self.locations.len() {
            let location = self.locations[at].clone();
            if matches!(location.place, Place::Path(..)) && rewrite::looks_like_pattern(&location.path) {
                let problem = format!(
                    "path \"{}\" looks like a regular expression, but use-regex is off",
                    location.path
                );
                let consequence = "it is matched as plain text";
                let origin = origin(&location, ".path");
                let found = Diagnostic::new(Severity::Warning, "pattern-not-used", origin);
                self.diagnostics.push(found.because(problem, consequence));
            }
        }
    }

    fn diagnose(
        &mut self,
        location: &Location,
        field: &str,
        (code, problem): (&'static str, String),
        consequence: &str,
    ) {
        let field = if field.is_empty() { String::new() } else { format!(".{field}") };
        let found = Diagnostic::new(Severity::Error, code, origin(location, &field));
        self.diagnostics.push(found.because(problem, consequence));
    }

    /// The locations as the routing table shall see them, in the order in which it shall try them.
    pub(crate) fn entries(&mut self) -> Vec<Entry> {
        match self.matching {
            Matching::Text => self.text_entries(),
            Matching::Patterns => self.pattern_entries(),
        }
    }

    fn text_entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (at, location) in self.locations.iter().enumerate() {
            let path = location.path.clone();
            if let Some(without) = path.strip_suffix('/').filter(|without| !without.is_empty()) {
                let taken = |kind| self.holders.contains_key(&(kind, without.into()));
                if !taken(PathKind::Exact) && !taken(PathKind::Prefix) {
                    let condition = on_path(PathMatch::Exact(without.into()));
                    entries.push(Entry {
                        location: at,
                        condition,
                        adds_slash: Some(path.clone()),
                        unusable: false,
                    });
                }
            }
            let condition = on_path(match location.kind {
                PathKind::Exact => PathMatch::Exact(path),
                PathKind::Prefix => PathMatch::Prefix(path),
            });
            entries.push(Entry { location: at, condition, adds_slash: None, unusable: false });
        }
        entries
    }

    /// The longest text first, then reverse lexical (`controller.go`: two stable sorts).
    fn pattern_entries(&mut self) -> Vec<Entry> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut budget = Budget::default();
        for (at, location) in self.locations.iter().enumerate() {
            let path = location.path.to_string();
            let splits = location.kind == PathKind::Prefix && path != "/" && !location.wants_patterns();
            if !splits {
                candidates.push(Candidate::new(at, location, path, &mut budget));
                continue;
            }
            // As without regular expressions it is two nginx locations: `/path/` and, if free, `= /path`.
            let taken = self.holders.contains_key(&(PathKind::Exact, location.path.clone()));
            let slashed = if path.ends_with('/') { path.clone() } else { format!("{path}/") };
            if slashed != path && !taken {
                candidates.push(Candidate::new(at, location, path, &mut budget));
            }
            candidates.push(Candidate::new(at, location, slashed, &mut budget));
        }
        candidates.sort_by(|a, b| {
            let by_text = b.rank.len().cmp(&a.rank.len()).then_with(|| b.rank.cmp(&a.rank));
            by_text.then(a.turn.cmp(&b.turn))
        });
        candidates.into_iter().map(|candidate| self.pattern_entry(candidate)).collect()
    }

    fn pattern_entry(&mut self, candidate: Candidate) -> Entry {
        let Candidate { at, path, flaw, .. } = candidate;
        let unusable = flaw.is_some();
        let pattern = match flaw {
            None => pattern::of_path(&path).into_owned(),
            Some((code, why)) => {
                let problem = format!("the regular expression \"{path}\" {why}");
                let location = self.locations[at].clone();
                let start = unread_start(&path);
                let start = if start.is_empty() { "/".to_owned() } else { start };
                let other = if location.is_guard() { "a longer" } else { "another" };
                let consequence = format!(
                    "paths that begin with {start} answer 503, except those that {other} path of the host matches"
                );
                self.diagnose(&location, "path", (code, problem), &consequence);
                fairway_pattern::literal_pattern(&start)
            }
        };
        let condition = on_path(PathMatch::Regex { pattern: pattern.into(), ignore_case: true });
        Entry { location: at, condition, adds_slash: None, unusable }
    }
}

/// The text that the matches of an unusable pattern begin with.
fn unread_start(path: &str) -> String {
    fairway_pattern::literal_start(&pattern::of_path(path))
}

/// A pattern that waits for its place in the order.
struct Candidate {
    at: usize,
    path: String,
    /// Why it cannot be used: a code, and what follows "the regular expression" in a sentence.
    flaw: Option<(&'static str, Arc<str>)>,
    /// The text that decides about its place.
    rank: String,
    turn: Turn,
}

/// Who comes first at equal texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Usable,
    Unusable,
    /// The 404 of the host.
    Nowhere,
}

impl Candidate {
    /// Takes what the pattern costs from the host's budget; locations come in the order of age.
    fn new(at: usize, location: &Location, path: String, budget: &mut Budget) -> Self {
        let owner = location.owner.as_ref();
        let judged =
            owner.map_or_else(|| Patterns::default().judged(&path), |owner| owner.patterns.judged(&path));
        let namespace = owner.map(|owner| owner.key.namespace.clone()).unwrap_or_default();
        let flaw = match judged {
            Judged::Refused(why) => Some(("invalid-regex", why)),
            Judged::TooMuch(why) => Some(("regex-cost", why)),
            Judged::Usable { start, steps } => budget
                .admit(&namespace, &start, steps)
                .err()
                .map(|exceeded| ("regex-cost", exceeded.to_string().into())),
        };
        // An unusable guard stands where its text would: no request passes it that the pattern would have stopped. Any
        // other unusable pattern only has the paths that are left, so that it takes none from those that work.
        let steps_back = flaw.is_some() && !location.is_guard();
        let rank = if steps_back { unread_start(&path) } else { path.clone() };
        let turn = match (location.place, steps_back) {
            (Place::Nowhere, _) => Turn::Nowhere,
            (_, true) => Turn::Unusable,
            (_, false) => Turn::Usable,
        };
        Self { at, path, flaw, rank, turn }
    }
}

fn on_path(path: PathMatch) -> Match {
    Match { path, ..Match::default() }
}

fn origin(location: &Location, field: &str) -> fairway_model::Origin {
    location.owner.as_ref().map_or_else(Default::default, |owner| {
        owner.ingress.origin(Kind::Ingress, &owner.key, &format!("{}{field}", location.field()))
    })
}
