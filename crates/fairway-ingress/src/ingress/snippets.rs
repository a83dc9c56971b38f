//! Combines the snippets of a host and of its paths, as nginx inherits directives.

pub(crate) mod conflicts;

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    ContentCoding, FixedResponseReason, Guard, HostPattern, Phases, ResponseEdit, UpstreamResponseEdit,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::UnsupportedProtection;
use fairway_snippet::{HostSnippet, ReplacementScope, RulePaths};

use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::{GuardStage, PathSnippetEffects, ServerSnippet};
use crate::ingress::defaults::Defaults;
use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, PathKind};
use crate::ingress::ownership::HostIngresses;
use crate::ingress::served::ServedIngress;
use crate::ingress::shared_service::SharedServices;

/// Adds the effects of snippets to the otherwise complete phases of a rule. For a rule that only adds a slash to the
/// path, nginx has entered the location but run nothing of its rewrite phase.
pub(crate) fn add_snippets(
    phases: &mut Phases,
    host: Option<&HostSnippet>,
    location: &Location,
    adds_slash: bool,
    defaults: &Defaults,
    layout: &Layout,
) {
    let owner = location.owner.as_ref();
    let of_settings = defaults.snippets.path.as_deref().filter(|_| owner.is_none());
    if let Some(snippet) = of_settings {
        phases.add(snippet.phases.clone());
    }
    let of_path = match owner {
        Some(owner) => owner.contributions.snippet.clone(),
        None => of_settings.map(|snippet| Arc::new(PathSnippetEffects::from_snippet(snippet))),
    };
    let of_path = of_path.as_deref();
    if let (true, Some(of_path)) = (adds_slash, of_path) {
        phases.answers.edits.extend(of_path.on_entry.iter().cloned());
    }
    if let Some(host) = host {
        let has_lists = owner.is_some_and(|owner| owner.contributions.have_source_ranges());
        // `auth-url` brings an `add_header` of ingress-nginx's own.
        let asks = owner.is_some_and(|owner| owner.contributions.added.external_auth().is_some());
        let replaces_adds =
            asks || of_path.is_some_and(|of_path| of_path.replaces_adds == ReplacementScope::Always);
        add_host(phases, host, of_path, replaces_adds, has_lists);
        let at =
            phases.guards.iter().position(|guard| GuardStage::from_guard(guard) > GuardStage::HostSnippet);
        let at = at.unwrap_or(phases.guards.len());
        let paths = match adds_slash {
            // nginx notices a missing slash before it tries patterns.
            true => LocationPaths { prefix: None, exact: Some(location.path.trim_end_matches('/').into()) },
            false => LocationPaths::for_location(location, layout),
        };
        phases.guards.splice(at..at, host.guards(paths.rule()));
    }
    if host.is_some_and(|host| host.gzip_off) || of_path.is_some_and(|of_path| of_path.gzip_off) {
        let compression = phases.answers.compression.take();
        phases.answers.compression = compression.and_then(|it| it.without(ContentCoding::Gzip)).map(Arc::new);
    }
    if let (false, Some(of_path)) = (adds_slash, of_path) {
        phases.answers.edits.extend(of_path.adds.iter().cloned());
    }
    // `Strict-Transport-Security` is written first, so that snippets see it.
    let edits = &mut phases.answers.edits;
    let hsts = edits.iter().position(|edit| matches!(edit, ResponseEdit::StrictTransportSecurity(_)));
    let first = edits.iter().position(|edit| matches!(edit, ResponseEdit::Chosen(_)));
    if let (Some(hsts), Some(first)) = (hsts, first)
        && first < hsts
    {
        edits[first..=hsts].rotate_right(1);
    }
}

/// Adds the host snippet's responses that precede path selection, to a rule that responds at that stage, too.
pub(crate) fn add_before_paths(phases: &mut Phases, host: Option<&HostSnippet>) {
    let Some(host) = host else { return };
    phases.guards.splice(0..0, host.guards_before_paths());
    phases.answers.edits.extend(host.more_edits.iter().chain(&host.adds).cloned());
}

fn add_host(
    phases: &mut Phases,
    host: &HostSnippet,
    of_path: Option<&PathSnippetEffects>,
    replaces_adds: bool,
    has_lists: bool,
) {
    if phases.client.is_none() {
        phases.client = host.client.clone().map(Box::new);
    }
    phases.unlogged |= host.unlogged;
    if !has_lists && !of_path.is_some_and(|of_path| of_path.hides_access_of_host) {
        phases.guards.extend(host.access.clone().map(Guard::Access));
        phases.guards.sort_by_key(GuardStage::from_guard);
    }
    let responses = &mut phases.answers;
    if !host.hidden_headers.is_empty() && !of_path.is_some_and(|of_path| of_path.hides_hidden_of_host) {
        responses.received.push(UpstreamResponseEdit::Hide(host.hidden_headers.as_slice().into()));
    }
    let chosen_edit = responses.edits.iter().position(|edit| matches!(edit, ResponseEdit::Chosen(_)));
    let at = chosen_edit.unwrap_or(responses.edits.len());
    responses.edits.splice(at..at, host.more_edits.iter().cloned());
    if !replaces_adds {
        responses.edits.extend(host.adds.iter().cloned());
    }
    if !host.requests.is_empty() {
        phases.forwarding.get_or_insert_default().chosen.splice(0..0, host.requests.iter().cloned());
    }
}

/// The paths of a location in nginx's configuration.
struct LocationPaths {
    prefix: Option<String>,
    exact: Option<Arc<str>>,
}

impl LocationPaths {
    fn for_location(location: &Location, layout: &Layout) -> Self {
        let path = &location.path;
        let is_pattern = layout.matching == Matching::Patterns;
        let splits = location.kind == PathKind::Prefix && !location.asks_for_patterns();
        match location.kind {
            PathKind::Exact if !is_pattern => Self { prefix: None, exact: Some(path.clone()) },
            _ if &**path == "/" => Self { prefix: Some(path.to_string()), exact: None },
            _ if path.ends_with('/') && (is_pattern && !splits) => {
                Self { prefix: Some(path.to_string()), exact: None }
            }
            PathKind::Prefix if !is_pattern || splits => {
                // Another location may have the path itself.
                let exact = (!layout.has(PathKind::Exact, path)).then(|| path.clone());
                let slash = if path.ends_with('/') { "" } else { "/" };
                Self { prefix: Some(format!("{path}{slash}")), exact }
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

/// The snippet of a host: that of the oldest Ingress that has one and decides about the host, else of the settings.
/// If it conflicts with the paths of the host, the host is closed, as for an unreadable one.
pub(crate) fn snippet_of_host(
    host: &HostPattern,
    serving: &HostIngresses,
    layout: &Layout,
    context: &Context<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ServerSnippet> {
    let defaults = context.defaults;
    let with_snippet = |ingress: &&Arc<ServedIngress>| ingress.contributions.host.snippet.is_some();
    let ingress = serving.deciding_ingresses().find(with_snippet);
    let own_snippet = ingress.and_then(|ingress| ingress.contributions.host.snippet.as_ref());
    let snippet = match (own_snippet, &defaults.snippets.host) {
        (Some(ServerSnippet::Refused), _) => return Some(ServerSnippet::Refused),
        (Some(ServerSnippet::Acts(snippet)), _) | (None, Some(snippet)) => snippet,
        (None, None) => return None,
    };
    let paths: Vec<_> =
        layout.locations.iter().map(|location| LocationPaths::for_location(location, layout)).collect();
    let rules: Vec<_> = paths.iter().map(LocationPaths::rule).collect();
    let problem = match snippet.check(&rules, layout.matching == Matching::Patterns) {
        Err(problem) => Some(format!(", {problem}")),
        Ok(()) => {
            conflicts::host_snippet_conflict(snippet, layout, defaults).map(|conflict| format!(" {conflict}"))
        }
    };
    let Some(problem) = problem else { return Some(ServerSnippet::Acts(Arc::clone(snippet))) };
    let origin = match ingress {
        Some(ingress) => {
            let prefix = &context.inputs.options.annotations_prefix;
            ingress.origin(&format!("metadata.annotations[\"{prefix}/server-snippet\"]"))
        }
        None => defaults.snippets.origin.clone(),
    };
    let (severity, consequence, outcome) = match context.inputs.options.hosts.unsupported_protection {
        UnsupportedProtection::Ignored => {
            (Severity::Warning, format!("host {host} is served without it, as the flag says"), None)
        }
        UnsupportedProtection::Closed => {
            (Severity::Error, format!("all paths of host {host} answer 503"), Some(ServerSnippet::Refused))
        }
    };
    let found = Diagnostic::new(severity, "unsupported-protection", origin);
    diagnostics.push(found.because(format!("server-snippet{problem}"), consequence));
    outcome
}

/// Closes Ingresses whose snippets change request headers that a canary may use: it selects by requests as received.
pub(crate) fn close_snippets_with_canaries(
    layout: &mut Layout,
    services: &SharedServices,
    context: &Context<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let has_canary = |location: &Location| {
        layout.canary_of(location).is_some()
            || services.settings_for(location).is_some_and(|shared| shared.canary.is_some())
    };
    let beside: Vec<bool> = layout.locations.iter().map(has_canary).collect();
    let prefix = &context.inputs.options.annotations_prefix;
    let closed = layout.locations.iter_mut().zip(beside).filter(|(_, beside)| *beside);
    for owner in closed.filter_map(|(location, _)| location.owner.as_mut()) {
        let inputs = owner.contributions.snippet.as_ref().map(|snippet| &snippet.uses.inputs);
        if inputs.is_none_or(BTreeSet::is_empty) {
            continue;
        }
        let origin = owner.origin(&format!("metadata.annotations[\"{prefix}/configuration-snippet\"]"));
        let (severity, consequence) = match context.inputs.options.hosts.unsupported_protection {
            UnsupportedProtection::Ignored => (Severity::Warning, "the canary does not see them"),
            UnsupportedProtection::Closed => {
                let contributions = Arc::make_mut(&mut Arc::make_mut(owner).contributions);
                contributions.closed = Some(Closed(FixedResponseReason::ProtectionUnavailable));
                (Severity::Error, "the paths with a canary answer 503")
            }
        };
        let found = Diagnostic::new(severity, "unsupported-protection", origin);
        let problem = "configuration-snippet has more_*_input_headers, by which a canary may choose";
        diagnostics.push(found.because(problem, consequence));
    }
}
