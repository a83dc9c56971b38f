//! What snippets make of the rules of a host: that of the host, and that of each path within it, as nginx inherits directives.

use std::sync::Arc;

use fairway_model::{AnswerEdit, Guard, Phases, ReceivedEdit};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_snippet::{HostSnippet, RulePaths};

use crate::ingress::closed::{self, Closed};
use crate::ingress::contributions::{SnippetOfPath, Turn};
use crate::ingress::defaults::Defaults;
use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, PathKind};
use crate::ingress::ownership::HostIngresses;

/// Adds what snippets do to the phases of a rule, in which all else stands already.
pub(crate) fn add(
    phases: &mut Phases,
    host: Option<&HostSnippet>,
    location: &Location,
    defaults: &Defaults,
    layout: &Layout,
) {
    let owner = location.owner.as_ref();
    let mut of_path = owner.map(|owner| owner.contributions.snippet.clone()).unwrap_or_default();
    if let Some(snippet) = defaults.snippets.path.as_deref().filter(|_| owner.is_none()) {
        phases.add(snippet.phases.clone());
        of_path = SnippetOfPath {
            hides_adds_of_host: !snippet.adds.is_empty(),
            hides_access_of_host: snippet.has_access,
            hides_hidden_of_host: !snippet.phases.answers.received.is_empty(),
            adds: snippet.adds.clone(),
        };
    }
    if let Some(host) = host {
        let has_lists = owner.is_some_and(|owner| owner.contributions.check_source_ranges());
        add_host(phases, host, &of_path, has_lists);
        let at = phases.guards.iter().position(|guard| Turn::of(guard) > Turn::HostSnippet);
        let at = at.unwrap_or(phases.guards.len());
        phases.guards.splice(at..at, host.guards(Paths::of(location, layout).rule()));
    }
    phases.answers.edits.extend(of_path.adds);
    // `Strict-Transport-Security` is written first, so that snippets see it.
    let edits = &mut phases.answers.edits;
    let hsts = edits.iter().position(|edit| matches!(edit, AnswerEdit::StrictTransportSecurity(_)));
    let first = edits.iter().position(|edit| matches!(edit, AnswerEdit::Chosen(_)));
    if let (Some(hsts), Some(first)) = (hsts, first)
        && first < hsts
    {
        edits[first..=hsts].rotate_right(1);
    }
}

/// Adds what the snippet of a host answers before a path is chosen, to a rule that answers at that time, too.
pub(crate) fn add_before_paths(phases: &mut Phases, host: Option<&HostSnippet>) {
    let Some(host) = host else { return };
    phases.guards.splice(0..0, host.guards_before_paths());
    phases.answers.edits.extend(host.more.iter().chain(&host.adds).cloned());
}

fn add_host(phases: &mut Phases, host: &HostSnippet, of_path: &SnippetOfPath, has_lists: bool) {
    if phases.client.is_none() {
        phases.client = host.client.clone().map(Box::new);
    }
    phases.unlogged |= host.unlogged;
    if !of_path.hides_access_of_host && !has_lists {
        phases.guards.extend(host.access.clone().map(Guard::Access));
        phases.guards.sort_by_key(Turn::of);
    }
    let answers = &mut phases.answers;
    if !host.hides.is_empty() && !of_path.hides_hidden_of_host {
        answers.received.push(ReceivedEdit::Hide(host.hides.as_slice().into()));
    }
    let chosen = answers.edits.iter().position(|edit| matches!(edit, AnswerEdit::Chosen(_)));
    let at = chosen.unwrap_or(answers.edits.len());
    answers.edits.splice(at..at, host.more.iter().cloned());
    if !of_path.hides_adds_of_host {
        answers.edits.extend(host.adds.iter().cloned());
    }
    if !host.requests.is_empty() {
        phases.forwarding.get_or_insert_default().chosen.splice(0..0, host.requests.iter().cloned());
    }
}

/// The paths of a location, as nginx has them in its configuration.
struct Paths {
    prefix: Option<String>,
    exact: Option<Arc<str>>,
}

impl Paths {
    fn of(location: &Location, layout: &Layout) -> Self {
        let path = &location.path;
        let is_pattern = layout.matching == Matching::Patterns;
        let splits = location.kind == PathKind::Prefix && !location.asks_for_patterns();
        match location.kind {
            PathKind::Exact if !is_pattern => Self { prefix: None, exact: Some(path.clone()) },
            _ if &**path == "/" || path.ends_with('/') => {
                Self { prefix: Some(path.to_string()), exact: None }
            }
            PathKind::Prefix if !is_pattern || splits => {
                // Another location may have the path itself.
                let exact = (!layout.has(PathKind::Exact, path)).then(|| path.clone());
                Self { prefix: Some(format!("{path}/")), exact }
            }
            _ => Self { prefix: Some(path.to_string()), exact: None },
        }
    }

    fn rule(&self) -> RulePaths<'_> {
        match (&self.prefix, &self.exact) {
            (None, exact) => RulePaths::Exact(exact.as_deref().unwrap_or("/")),
            (Some(prefix), exact) => RulePaths::Prefix { prefix, exact: exact.as_deref() },
        }
    }
}

/// The snippet of a host: that of the oldest Ingress that has one and may decide about the host, or else of the settings. Where its
/// `location` blocks do not go with the paths of the host, it is left out, and the paths of its Ingress are closed.
pub(crate) fn of_host(
    serving: &HostIngresses,
    layout: &mut Layout,
    defaults: &Defaults,
    prefix: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<HostSnippet>> {
    let found =
        serving.deciding().find_map(|ingress| Some((ingress, ingress.contributions.host.snippet.clone()?)));
    let Some((ingress, snippet)) = found else { return defaults.snippets.host.clone() };
    let paths: Vec<_> = layout.locations.iter().map(|location| Paths::of(location, layout)).collect();
    let rules: Vec<_> = paths.iter().map(Paths::rule).collect();
    let has_patterns = layout.matching == Matching::Patterns;
    let Err(problem) = snippet.check(&rules, has_patterns) else {
        return Some(snippet);
    };
    let origin = ingress.origin(&format!("metadata.annotations[\"{prefix}/server-snippet\"]"));
    let found = Diagnostic::new(Severity::Error, "unsupported-protection", origin);
    diagnostics.push(found.because(format!("server-snippet, {problem}"), closed::CONSEQUENCE));
    for location in &mut layout.locations {
        if let Some(owner) = location.owner.as_mut().filter(|owner| owner.key == ingress.key) {
            let owner = Arc::make_mut(owner);
            let contributions = Arc::make_mut(&mut owner.contributions);
            contributions.closed = Some(Closed(fairway_model::AnswerReason::ProtectionUnavailable));
        }
    }
    defaults.snippets.host.clone()
}
