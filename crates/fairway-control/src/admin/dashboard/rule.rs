//! One rule: what it asks of requests, what it does with them, and where they go.

use fairway_model::{
    Action, Backend, Config, ListenerProtocol, Origin, Phases, Reference, Step, WeightedBackend,
};
use fairway_routing::{HostVerdict, MatchVerdict};
use serde::Serialize;

use super::backend::backend_query;
use super::diagnostics::{self, DiagnosticRow};
use super::endpoints::{EndpointTable, LiveEndpoints};
use super::hosts;
use super::inspector::Inspector;
use super::object::{ObjectLink, ObjectName};
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};
use super::rules::{self, RulePlace, host_query};
use super::sample::Sample;
use super::words::Words;
use crate::pipeline::View;

/// Of candidates and diagnostics no more are shown.
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
    /// Whether some share has endpoints.
    has_endpoints: bool,
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
    /// `None` for a backend that is not there, or that has no endpoint.
    endpoints: Option<EndpointTable>,
    /// The parameters of the page of the backend; empty where it is not there.
    query: String,
}

/// The rule that the parameters name: by host and position, or as the only one of an object. Of an object with several rules, a list.
pub(super) async fn page(
    view: &View,
    words: &dyn Words,
    inspector: &dyn Inspector,
    query: &Query,
) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let Some(object) = ObjectName::read(query)? else {
        let place = rules::rule(rules::host(config, query)?, query)?;
        return Ok(show(view, words, place, &live(inspector, place).await));
    };
    let found: Vec<_> = rules::all(config).filter(|place| place.is_of(object)).take(2).collect();
    match found[..] {
        [] => Err(Problem::missing("object", "no rule is served that this object gave")),
        [only] => Ok(show(view, words, only, &live(inspector, only).await)),
        _ => hosts::all(view, words, query),
    }
}

/// What is known now of the endpoints that the requests of a rule go to.
async fn live(inspector: &dyn Inspector, place: RulePlace<'_>) -> LiveEndpoints {
    let backends = match &place.rule.action {
        Action::Answer(_) => Vec::new(),
        Action::Forward(shares) => shares.iter().map(|share| share.backend.clone()).collect(),
    };
    LiveEndpoints::ask(inspector, backends).await
}

fn show(view: &View, words: &dyn Words, place: RulePlace<'_>, live: &LiveEndpoints) -> Page {
    let config = &view.outcome.translation.config;
    let rule = place.rule.without_secrets();
    let host = &place.host.key.host;
    let matches: Vec<_> = rule.matches.iter().map(|it| words.matched(it)).collect();
    let title = format!("{host}: {}", matches.first().map_or("a rule", String::as_str));
    let (answer, shares) = match &rule.action {
        Action::Answer(it) => (Some(format!("{}: {}", it.status, words.reason(it.reason))), Vec::new()),
        Action::Forward(shares) => (None, share_views(config, words, shares, live)),
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
        has_endpoints: shares.iter().any(|share| share.endpoints.is_some()),
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
    match listeners.any(|it| it.tables().any(|own| own == table) && it.protocol == ListenerProtocol::Https) {
        true => "https",
        false => "http",
    }
}

fn share_views(
    config: &Config,
    words: &dyn Words,
    shares: &[WeightedBackend],
    live: &LiveEndpoints,
) -> Vec<ShareView> {
    let whole: u32 = shares.iter().map(|share| share.weight).sum();
    let of = |share: &WeightedBackend| {
        let backend = config.backends.get(&share.backend);
        let used = backend.filter(|backend| !backend.endpoints.is_empty());
        ShareView {
            backend: share.backend.to_string(),
            share: if shares.len() > 1 { format!("{} of {whole}", share.weight) } else { "all".to_owned() },
            details: backend.map(|backend| words.backend(backend)).unwrap_or_default(),
            object: backend.map(|backend| ObjectLink::from_origin(&backend.origin)),
            problem: problem(share, backend.map(|backend| &**backend)),
            filters: own_filters(share, words),
            endpoints: used.map(|backend| live.table(backend)),
            query: backend.map(|backend| backend_query(&backend.key)).unwrap_or_default(),
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
        Step::Extension(_) => "extensions",
        Step::Path(_)
        | Step::Secured(_)
        | Step::Hop(_)
        | Step::EndpointFields(_)
        | Step::Chosen(_)
        | Step::GrpcWeb
        | Step::RetryStatuses(_)
        | Step::Buffering(_)
        | Step::Sticky(_)
        | Step::Fallback(_)
        | Step::Mirror(_) => "forwarding",
        Step::Received(_) | Step::Pages(_) | Step::Answer(_) | Step::Compression(_) => "response",
        Step::HeadBound(_) | Step::Rate(_) => "bounds",
        Step::Unlogged | Step::Tracing(_) => "log",
    }
}
