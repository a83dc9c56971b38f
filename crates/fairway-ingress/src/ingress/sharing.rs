//! Reports how one Ingress of a host affects another: patterns that take requests of a path, paths that become
//! patterns, a redirected root, plain requests redirected to https. Sharing a host is normal, so everything else is
//! silent: a longer path that takes its own requests from a shorter one is what both authors intended.

use std::sync::Arc;

use fairway_model::{HostPattern, Origin, PathMatch};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::transport::Transport;
use fairway_pattern::{Anchor, OptionalPart, Pattern, literal_start, sample};

use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, LocationSource, PathKind};
use crate::ingress::order::LocationEntry;
use crate::ingress::ownership::decides;
use crate::ingress::pattern::looks_like_pattern;
use crate::ingress::served::ServedIngress;

/// Maximum number of pattern tests per host, because a host with thousands of patterns would delay all other changes.
const MAX_TESTS: usize = 20_000;
/// Maximum length of a path to test.
const MAX_PROBE_BYTES: usize = 1024;
/// Stands for any segment below a path: letters that no rule is likely to contain.
const PROBE_SEGMENT: &str = "zqxjkv";

/// A host as it will be served.
pub(crate) struct SharedHost<'a> {
    pub(crate) host: &'a HostPattern,
    pub(crate) layout: &'a Layout,
    pub(crate) entries: &'a [LocationEntry],
    /// The location whose Ingress redirects `/`.
    pub(crate) root: Option<&'a Location>,
    /// The Ingress whose `tls` section provides the certificate, unless a wildcard does.
    pub(crate) tls: Option<&'a Arc<ServedIngress>>,
    pub(crate) annotations_prefix: &'a str,
}

/// A request that a path would serve by itself.
struct Probe<'a> {
    location: usize,
    path: String,
    kind: ProbeKind,
    /// The entry that serves it, among the entries tried so far.
    answered: Option<&'a LocationEntry>,
    /// Whether its own path matches it, among the entries tried so far.
    matched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeKind {
    /// The text of a path.
    Itself,
    /// Something below it, or a sample of a pattern's matches.
    Below,
}

impl SharedHost<'_> {
    /// Everything that authors of Ingresses of this host should know about each other.
    pub(crate) fn describe(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        self.report_roots(&mut found);
        self.report_https(&mut found);
        self.report_endpoint_tls(&mut found);
        if self.layout.matching == Matching::Patterns && self.is_shared() {
            self.report_paths_as_patterns(&mut found);
            self.report_taken_requests(&mut found);
        }
        found
    }

    fn is_shared(&self) -> bool {
        let mut owners = self.layout.locations.iter().filter_map(|location| location.owner.as_ref());
        let first = owners.next();
        owners.any(|owner| first.is_some_and(|first| first.key != owner.key))
    }

    /// `app-root`: whose `/` is replaced, and whose `app-root` has no effect.
    fn report_roots(&self, found: &mut Vec<Diagnostic>) {
        let winner = self.root.and_then(|root| root.owner.as_ref());
        let mut reported: Vec<&Arc<ServedIngress>> = Vec::new();
        for ingress in self.layout.locations.iter().filter_map(|location| location.owner.as_ref()) {
            let asks = ingress.contributions.app_root.is_some() && ingress.contributions.closed.is_none();
            if !asks || reported.iter().chain(&winner).any(|known| known.key == ingress.key) {
                continue;
            }
            reported.push(ingress);
            found.extend(self.overruled_root(ingress, winner));
        }
        let Some(winner) = winner else { return };
        let Some(location) = self.at_root().filter(|location| is_of_another(location, winner)) else {
            return;
        };
        let to = winner.contributions.app_root.as_deref().unwrap_or_default();
        let problem =
            format!("/ of host {} is redirected to {to} by app-root of {}", self.host, winner.origin(""));
        let origin = origin_of(location, "");
        let found_here = Diagnostic::new(Severity::Warning, "root-redirected", origin);
        found.push(found_here.because(problem, "this path does not answer requests for /"));
    }

    fn overruled_root(
        &self,
        ingress: &ServedIngress,
        winner: Option<&Arc<ServedIngress>>,
    ) -> Option<Diagnostic> {
        let problem = match (winner, &self.layout.host_owner) {
            (_, Some(owner)) if !decides(Some(owner), ingress) => {
                format!("/ of host {} is redirected only by its owner, namespace {owner}", self.host)
            }
            (Some(winner), _) => {
                format!("/ of host {} is redirected by app-root of {}", self.host, winner.origin(""))
            }
            (None, _) => return None,
        };
        let field = format!("metadata.annotations[\"{}/app-root\"]", self.annotations_prefix);
        let found = Diagnostic::new(Severity::Warning, "root-redirected", ingress.origin(&field));
        Some(found.because(problem, "this app-root has no effect there"))
    }

    /// The location that would serve `/`.
    fn at_root(&self) -> Option<&Location> {
        let exact = |entry: &&LocationEntry| entry.condition.path == PathMatch::Exact("/".into());
        let prefix = |entry: &&LocationEntry| entry.condition.path == PathMatch::Prefix("/".into());
        let pattern = |entry: &&LocationEntry| {
            may_match(entry, "/") && EntryMatcher::from_entry(entry).is_some_and(|tester| tester.matches("/"))
        };
        let entries = || self.entries.iter();
        let entry = match self.layout.matching {
            Matching::Text => entries().find(exact).or_else(|| entries().find(prefix)),
            Matching::Patterns => entries().find(pattern),
        };
        entry.map(|entry| &self.layout.locations[entry.location])
    }

    /// A `tls` section redirects plain requests of older Ingresses to https.
    fn report_https(&self, found: &mut Vec<Diagnostic>) {
        let Some(tls) = self.tls else { return };
        let mut reported: Vec<&Arc<ServedIngress>> = Vec::new();
        for location in self.layout.locations.iter().filter(|location| is_of_another(location, tls)) {
            let Some(owner) = &location.owner else { continue };
            let to_https = owner.contributions.redirects.when;
            let is_open = owner.contributions.closed.is_none();
            let is_sent = to_https.with_certificate && !to_https.always && is_open;
            if !is_sent || owner.age() > tls.age() || reported.iter().any(|known| known.key == owner.key) {
                continue;
            }
            reported.push(owner);
            let problem =
                format!("{}, which is younger, gives host {} a certificate", tls.origin(""), self.host);
            let found_here = Diagnostic::new(Severity::Warning, "sent-to-https", origin_of(location, ""));
            found.push(
                found_here
                    .because(problem, "plain requests for paths of this Ingress are redirected to https"),
            );
        }
    }

    /// In ingress-nginx, the oldest Ingress with a `proxy-ssl-secret` decides for all paths of the host.
    fn report_endpoint_tls(&self, found: &mut Vec<Diagnostic>) {
        let owners = self.layout.locations.iter().filter_map(|location| location.owner.as_ref());
        let deciding = owners.filter(|owner| decides(self.layout.host_owner.as_ref(), owner));
        let with_secret = deciding.filter(|owner| has_endpoint_secret(owner) == Some(true));
        let Some(oldest) = with_secret.min_by(|one, other| one.age().cmp(&other.age())) else { return };
        let mut reported: Vec<&Arc<ServedIngress>> = Vec::new();
        for location in self.layout.locations.iter().filter(|location| is_of_another(location, oldest)) {
            let Some(owner) = &location.owner else { continue };
            let without = has_endpoint_secret(owner) == Some(false) && owner.contributions.closed.is_none();
            if !without || reported.iter().any(|known| known.key == owner.key) {
                continue;
            }
            reported.push(owner);
            let problem = format!(
                "ingress-nginx would use the proxy-ssl-secret of {} for all paths of host {}",
                oldest.origin(""),
                self.host
            );
            let field = format!("metadata.annotations[\"{}/backend-protocol\"]", self.annotations_prefix);
            let consequence =
                "this Ingress has none, so its endpoints are not verified and get no client certificate";
            let found_here = Diagnostic::new(Severity::Warning, "proxy-ssl-not-shared", owner.origin(&field));
            found.push(found_here.because(problem, consequence));
        }
    }

    /// Paths that are patterns because of another Ingress.
    fn report_paths_as_patterns(&self, found: &mut Vec<Diagnostic>) {
        let Some(cause) = self.layout.pattern_requester() else { return };
        let mut reported: Vec<&Arc<ServedIngress>> = Vec::new();
        for location in &self.layout.locations {
            let Some(owner) = &location.owner else { continue };
            let plain = location.is_path() && &*location.path != "/" && !location.asks_for_patterns();
            if !plain || owner.key == cause.key || reported.iter().any(|known| known.key == owner.key) {
                continue;
            }
            reported.push(owner);
            let problem = format!(
                "all paths of host {} are regular expressions, because {} has use-regex or a rewrite-target there",
                self.host,
                cause.origin("")
            );
            let consequence = "paths of this Ingress also answer requests that only begin with their text, in upper or lower case";
            let found_here = Diagnostic::new(Severity::Note, "path-as-pattern", origin_of(location, ".path"));
            found.push(found_here.because(problem, consequence));
        }
    }

    /// Requests of a path that a pattern of another Ingress takes.
    fn report_taken_requests(&self, found: &mut Vec<Diagnostic>) {
        let mut probes = self.probes();
        let mut tests = 0;
        for entry in self.entries {
            let mut tester = None;
            for probe in &mut probes {
                let is_own = probe.location == entry.location;
                let open = if is_own { !probe.matched } else { probe.answered.is_none() };
                if !open || !may_match(entry, &probe.path) {
                    continue;
                }
                tests += 1;
                if tests > MAX_TESTS {
                    return;
                }
                let tester = tester.get_or_insert_with(|| EntryMatcher::from_entry(entry));
                if !tester.as_ref().is_some_and(|tester| tester.matches(&probe.path)) {
                    continue;
                }
                probe.answered.get_or_insert(entry);
                if is_own {
                    probe.matched = true;
                }
            }
        }
        let mut reported = None;
        for probe in probes.iter().filter(|probe| probe.matched) {
            if reported == Some(probe.location) {
                continue;
            }
            if let Some(diagnostic) = self.loss(probe) {
                reported = Some(probe.location);
                found.push(diagnostic);
            }
        }
    }

    fn probes<'a>(&self) -> Vec<Probe<'a>> {
        let mut probes = Vec::new();
        for (at, location) in self.layout.locations.iter().enumerate().filter(|(_, it)| it.is_path()) {
            let mut push = |kind, path: String| {
                if path.len() <= MAX_PROBE_BYTES {
                    probes.push(Probe { location: at, path, kind, answered: None, matched: false });
                }
            };
            if location.is_pattern() {
                for optional in [OptionalPart::Absent, OptionalPart::Once] {
                    push(ProbeKind::Below, sample(&location.path, optional, MAX_PROBE_BYTES));
                }
            } else {
                push(ProbeKind::Itself, location.path.to_string());
                if location.kind == PathKind::Prefix {
                    push(
                        ProbeKind::Below,
                        format!("{}/{PROBE_SEGMENT}", location.path.trim_end_matches('/')),
                    );
                }
            }
        }
        probes
    }

    fn loss(&self, probe: &Probe<'_>) -> Option<Diagnostic> {
        let taker = &self.layout.locations[probe.answered?.location];
        let location = &self.layout.locations[probe.location];
        let owner = taker.owner.as_ref().filter(|owner| is_of_another(location, owner))?;
        if probe.kind == ProbeKind::Below && !looks_like_pattern(&taker.path) {
            return None;
        }
        let problem = format!(
            "path \"{}\" of {} is tried before this one, because all paths of host {} are regular expressions, the \
             longest first",
            taker.path,
            owner.origin(""),
            self.host
        );
        let consequence = format!("it gets requests of this path, such as {}", probe.path);
        let found = Diagnostic::new(Severity::Warning, "taken-by-pattern", origin_of(location, ".path"));
        Some(found.because(problem, consequence))
    }
}

/// Matches an entry against paths.
enum EntryMatcher<'a> {
    Text(&'a str),
    Pattern(Arc<Pattern>),
}

impl<'a> EntryMatcher<'a> {
    /// `None` if its pattern cannot be compiled.
    fn from_entry(entry: &'a LocationEntry) -> Option<Self> {
        let PathMatch::Regex { pattern, .. } = &entry.condition.path else { return None };
        if !is_special(pattern) {
            return Some(Self::Text(pattern));
        }
        Pattern::shared(pattern, Anchor::Start, true).ok().map(Self::Pattern)
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Text(text) => starts_with(path, text),
            Self::Pattern(pattern) => pattern.is_match(path.as_bytes()),
        }
    }
}

fn is_special(pattern: &str) -> bool {
    literal_start(pattern).len() < pattern.len()
}

/// Whether an entry can match a path, by its literal prefix: most cannot, and are not compiled.
fn may_match(entry: &LocationEntry, path: &str) -> bool {
    let PathMatch::Regex { pattern, .. } = &entry.condition.path else { return false };
    starts_with(path, &literal_start(pattern))
}

fn starts_with(path: &str, start: &str) -> bool {
    path.as_bytes().get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
}

/// Whether there is a `proxy-ssl-secret` for the endpoints of an Ingress; `None` if they do not use TLS.
fn has_endpoint_secret(ingress: &ServedIngress) -> Option<bool> {
    match &ingress.contributions.upstream.transport {
        Transport::Tls(tls) | Transport::AsClient(tls) | Transport::H2(tls) => Some(tls.secret.is_some()),
        _ => None,
    }
}

fn is_of_another(location: &Location, ingress: &ServedIngress) -> bool {
    location.source != LocationSource::Nowhere
        && location.owner.as_ref().is_some_and(|owner| owner.key != ingress.key)
}

fn origin_of(location: &Location, field: &str) -> Origin {
    location.origin(if location.is_path() { field } else { "" })
}
