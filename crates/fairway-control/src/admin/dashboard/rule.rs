//! One rule: what it asks of requests, what it does with them, and where they go.

use fairway_model::{
    Action, Backend, Config, Endpoint, ListenerProtocol, Origin, Phases, Reference, Step, WeightedBackend,
};
use fairway_routing::{HostVerdict, MatchVerdict};
use serde::Serialize;

use super::diagnostics::{self, DiagnosticRow};
use super::hosts;
use super::object::{ObjectLink, ObjectName};
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};
use super::rules::{self, RulePlace, host_query};
use super::sample::Sample;
use super::words::Words;
use crate::pipeline::View;

/// Of candidates, endpoints and diagnostics no more are shown.
const MAX_SHOWN: usize = 100;

#[derive(Serialize)]
struct OneRule {
    host: String,
    host_query: String,
    object: ObjectLink,
    matches: Vec<String>,
    sample: Option<SampleView>,
    filters: Vec<FilterView>,
    answer: Option<String>,
    shares: Vec<ShareView>,
    policy: String,
    diagnostics: Vec<DiagnosticRow>,
}

/// A request for the rule, and what is considered for it, in that order.
#[derive(Serialize)]
struct SampleView {
    text: String,
    /// The parameters of the page that explains it.
    query: String,
    candidates: Vec<CandidateView>,
}

#[derive(Serialize)]
struct CandidateView {
    matched: String,
    verdict: String,
    object: ObjectLink,
}

#[derive(Serialize)]
struct FilterView {
    phase: &'static str,
    text: String,
}

#[derive(Serialize)]
struct ShareView {
    backend: String,
    share: String,
    /// How it is spoken to; empty for a backend that is not there.
    details: String,
    object: Option<ObjectLink>,
    /// Why it serves nothing, where that is so.
    problem: &'static str,
    filters: Vec<FilterView>,
    endpoints: Vec<EndpointView>,
    more_endpoints: usize,
}

#[derive(Serialize)]
struct EndpointView {
    address: String,
    pod: String,
}

/// The rule that the parameters name: by host and position, or as the only one of an object. Of an object with several rules, a list.
pub(super) fn page(view: &View, words: &dyn Words, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let Some(object) = ObjectName::read(query)? else {
        return Ok(show(view, words, rules::rule(rules::host(config, query)?, query)?));
    };
    let mut found = rules::all(config).filter(|place| place.is_of(object));
    match (found.next(), found.next()) {
        (None, _) => Err(Problem::missing("object", "no rule is served that this object gave")),
        (Some(only), None) => Ok(show(view, words, only)),
        (Some(_), Some(_)) => hosts::all(view, words, query),
    }
}

fn show(view: &View, words: &dyn Words, place: RulePlace<'_>) -> Page {
    let config = &view.outcome.translation.config;
    let rule = place.rule.without_secrets();
    let host = &place.host.key.host;
    let matches: Vec<_> = rule.matches.iter().map(|it| words.matched(it)).collect();
    let title = format!("{host}: {}", matches.first().map_or("a rule", String::as_str));
    let (answer, shares) = match &rule.action {
        Action::Answer(it) => (Some(format!("{}: {}", it.status, words.reason(it.reason))), Vec::new()),
        Action::Forward(shares) => (None, share_views(config, words, shares)),
    };
    let about = |origin: &Origin| {
        (&origin.kind, &origin.namespace, &origin.name)
            == (&rule.origin.kind, &rule.origin.namespace, &rule.origin.name)
    };
    let found = view.diagnostics().filter(|it| about(&it.origin)).take(MAX_SHOWN);
    let content = OneRule {
        host: host.to_string(),
        host_query: host_query(&place.host.key),
        object: ObjectLink::from_origin(&rule.origin),
        sample: sample(view, words, place),
        filters: filters(&rule.phases, words),
        answer,
        shares,
        policy: words.policy(&rule.policy),
        diagnostics: found.map(diagnostics::row).collect(),
        matches,
    };
    Page::new("rule.html", "hosts", title, content)
}

/// What is considered for a request that the first match of a rule asks for.
fn sample(view: &View, words: &dyn Words, place: RulePlace<'_>) -> Option<SampleView> {
    let key = &place.host.key;
    let sample = Sample::for_match(place.rule.matches.first()?, &key.host)?;
    let snapshot = &view.outcome.snapshot;
    let explanation = snapshot.explain(snapshot.table(&key.table)?, &sample.request());
    let considered = explanation.hosts.iter().filter(|step| step.verdict != HostVerdict::LessSpecific);
    let applies = considered.flat_map(|step| &step.matches).filter(|it| it.verdict != MatchVerdict::Path);
    let candidates = applies.take(MAX_SHOWN).map(|it| CandidateView {
        matched: words.matched(it.of),
        verdict: words.verdict(&it.verdict),
        object: ObjectLink::from_origin(&it.rule.rule().origin),
    });
    let url = sample.url(scheme(&view.outcome.translation.config, &key.table));
    let (method, headers) = (sample.method(), sample.headers());
    Some(SampleView {
        text: format!("{method} {url}"),
        query: parameters(&[("url", &url), ("method", method), ("headers", &headers)]),
        candidates: candidates.collect(),
    })
}

/// `https` where a listener serves the table so.
fn scheme(config: &Config, table: &str) -> &'static str {
    let mut listeners = config.listeners.values();
    match listeners.any(|it| *it.table == *table && it.protocol == ListenerProtocol::Https) {
        true => "https",
        false => "http",
    }
}

fn share_views(config: &Config, words: &dyn Words, shares: &[WeightedBackend]) -> Vec<ShareView> {
    let whole: u32 = shares.iter().map(|share| share.weight).sum();
    let of = |share: &WeightedBackend| {
        let backend = config.backends.get(&share.backend);
        let endpoints: &[Endpoint] = backend.map_or(&[], |backend| &backend.endpoints);
        let shown = endpoints.iter().take(MAX_SHOWN).map(|endpoint| EndpointView {
            address: endpoint.address.to_string(),
            pod: endpoint.name.as_deref().unwrap_or_default().to_owned(),
        });
        ShareView {
            backend: share.backend.to_string(),
            share: if shares.len() > 1 { format!("{} of {whole}", share.weight) } else { "all".to_owned() },
            details: backend.map(|backend| words.backend(backend)).unwrap_or_default(),
            object: backend.map(|backend| ObjectLink::from_origin(&backend.origin)),
            problem: problem(share, backend.map(|backend| &**backend)),
            filters: own_filters(share, words),
            endpoints: shown.collect(),
            more_endpoints: endpoints.len().saturating_sub(MAX_SHOWN),
        }
    };
    shares.iter().map(of).collect()
}

fn problem(share: &WeightedBackend, backend: Option<&Backend>) -> &'static str {
    match (share.reference, backend) {
        (Reference::Invalid, _) => "The reference is invalid: its requests get 500.",
        (Reference::Resolved, None) => "There is no such backend: its requests get 503.",
        (Reference::Resolved, Some(backend)) if backend.endpoints.is_empty() => {
            "It has no endpoint: its requests get 503."
        }
        _ => "",
    }
}

fn own_filters(share: &WeightedBackend, words: &dyn Words) -> Vec<FilterView> {
    let own = share.filters.as_deref().cloned().map(Phases::from).unwrap_or_default();
    filters(&own, words)
}

fn filters(phases: &Phases, words: &dyn Words) -> Vec<FilterView> {
    phases.steps().map(|step| FilterView { phase: phase(&step), text: words.step(step) }).collect()
}

/// The phase that a step belongs to.
fn phase(step: &Step<'_>) -> &'static str {
    match step {
        Step::Client(_) => "client",
        Step::Guard(_) => "guards",
        Step::Request(_) => "request",
        Step::Path(_)
        | Step::Secured(_)
        | Step::Hop(_)
        | Step::EndpointFields(_)
        | Step::Chosen(_)
        | Step::GrpcWeb
        | Step::RetryStatuses(_)
        | Step::Buffering(_)
        | Step::Fallback(_)
        | Step::Mirror(_) => "forwarding",
        Step::Received(_) | Step::Pages(_) | Step::Answer(_) | Step::Compression(_) => "response",
        Step::HeadBound(_) | Step::Rate(_) => "bounds",
        Step::Unlogged => "log",
    }
}
