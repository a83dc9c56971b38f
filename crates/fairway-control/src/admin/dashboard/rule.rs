//! The page of one rule: its matches, its filters and its backends.

use fairway_model::{
    Action, Backend, Config, ListenerProtocol, Origin, Phases, ReferenceStatus, RuleStep, WeightedBackend,
};
use fairway_routing::{HostVerdict, MatchVerdict};
use serde::Serialize;

use super::backend::backend_query;
use super::caller_text::ConfigDescriber;
use super::diagnostics::{self, DiagnosticRow};
use super::endpoints::{EndpointTable, LiveEndpoints};
use super::hosts;
use super::inspector::Inspector;
use super::object::{ObjectLink, ObjectName};
use super::page::Page;
use super::problem::Problem;
use super::query::{Query, parameters};
use super::rules::{self, LocatedRule, host_query};
use super::sample::SampleRequest;
use crate::pipeline::View;

/// At most this many candidates and diagnostics are shown.
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
    /// Whether any share has endpoints.
    has_endpoints: bool,
    policy: String,
    diagnostics: Vec<DiagnosticRow>,
}

/// A request for the rule, and the matches considered for it, in order.
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
    /// How endpoints are contacted; empty for a missing backend.
    details: String,
    object: Option<ObjectLink>,
    /// Why it serves nothing, if so.
    problem: &'static str,
    filters: Vec<FilterView>,
    /// `None` for a missing backend or one without endpoints.
    endpoints: Option<EndpointTable>,
    /// The parameters of the backend's page; empty if it is missing.
    query: String,
}

/// The rule that the parameters name: by host and position, or as the only rule of an object. For an object with several rules, a
/// list.
pub(super) async fn page(
    view: &View,
    words: &dyn ConfigDescriber,
    inspector: &dyn Inspector,
    query: &Query,
) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let Some(object) = ObjectName::from_query(query)? else {
        let located = rules::find_rule(rules::find_host(config, query)?, query)?;
        return Ok(rule_page(view, words, located, &fetch_live_endpoints(inspector, located).await));
    };
    let found: Vec<_> =
        rules::all_rules(config).filter(|place| place.is_from_object(object)).take(2).collect();
    match found[..] {
        [] => Err(Problem::not_found("object", "no served rule comes from this object")),
        [only] => Ok(rule_page(view, words, only, &fetch_live_endpoints(inspector, only).await)),
        _ => hosts::all_rules_page(view, words, query),
    }
}

/// The state of the endpoints that serve a rule.
async fn fetch_live_endpoints(inspector: &dyn Inspector, located: LocatedRule<'_>) -> LiveEndpoints {
    let backends = match &located.rule.action {
        Action::FixedResponse(_) => Vec::new(),
        Action::Forward(shares) => shares.iter().map(|share| share.backend.clone()).collect(),
    };
    LiveEndpoints::fetch(inspector, backends).await
}

fn rule_page(
    view: &View,
    words: &dyn ConfigDescriber,
    located: LocatedRule<'_>,
    live: &LiveEndpoints,
) -> Page {
    let config = &view.outcome.translation.config;
    let rule = located.rule.without_secrets();
    let host = &located.host.key.host;
    let matches: Vec<_> = rule.matches.iter().map(|it| words.describe_match(it)).collect();
    let title = format!("{host}: {}", matches.first().map_or("a rule", String::as_str));
    let (answer, shares) = match &rule.action {
        Action::FixedResponse(it) => {
            (Some(format!("{}: {}", it.status, words.describe_reason(it.reason))), Vec::new())
        }
        Action::Forward(shares) => (None, share_views(config, words, shares, live)),
    };
    let about = |origin: &Origin| {
        (&origin.kind, &origin.namespace, &origin.name)
            == (&rule.origin.kind, &rule.origin.namespace, &rule.origin.name)
    };
    let found = view.diagnostics().filter(|it| about(&it.origin)).take(MAX_SHOWN);
    let content = OneRule {
        host: host.to_string(),
        host_query: host_query(&located.host.key),
        object: ObjectLink::from_origin(&rule.origin),
        sample: sample_view(view, words, located),
        filters: filters(&rule.phases, words),
        answer,
        has_endpoints: shares.iter().any(|share| share.endpoints.is_some()),
        shares,
        policy: words.describe_policy(&rule.policy),
        diagnostics: found.map(diagnostics::row).collect(),
        matches,
    };
    Page::new("rule.html", "hosts", title, content)
}

/// The matches considered for a request that fits the first match of a rule.
fn sample_view(view: &View, words: &dyn ConfigDescriber, located: LocatedRule<'_>) -> Option<SampleView> {
    let key = &located.host.key;
    let sample = SampleRequest::for_match(located.rule.matches.first()?, &key.host)?;
    let snapshot = &view.outcome.snapshot;
    let explanation = snapshot.explain(snapshot.table(&key.table)?, &sample.request());
    let considered = explanation.hosts.iter().filter(|step| step.verdict != HostVerdict::LessSpecific);
    let applies = considered.flat_map(|step| &step.matches).filter(|it| it.verdict != MatchVerdict::Path);
    let candidates = applies.take(MAX_SHOWN).map(|it| CandidateView {
        matched: words.describe_match(it.source),
        verdict: words.describe_verdict(&it.verdict),
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

/// `https` if a listener serves the table over TLS.
fn scheme(config: &Config, table: &str) -> &'static str {
    let mut listeners = config.listeners.values();
    match listeners.any(|it| it.tables().any(|own| own == table) && it.protocol == ListenerProtocol::Https) {
        true => "https",
        false => "http",
    }
}

fn share_views(
    config: &Config,
    words: &dyn ConfigDescriber,
    shares: &[WeightedBackend],
    live: &LiveEndpoints,
) -> Vec<ShareView> {
    let total_weight: u32 = shares.iter().map(|share| share.weight).sum();
    let share_text = |share: &WeightedBackend| {
        let backend = config.backends.get(&share.backend);
        let used = backend.filter(|backend| !backend.endpoints.is_empty());
        ShareView {
            backend: share.backend.to_string(),
            share: if shares.len() > 1 {
                format!("{} of {total_weight}", share.weight)
            } else {
                "all".to_owned()
            },
            details: backend.map(|backend| words.describe_backend(backend)).unwrap_or_default(),
            object: backend.map(|backend| ObjectLink::from_origin(&backend.origin)),
            problem: share_problem(share, backend.map(|backend| &**backend)),
            filters: own_filters(share, words),
            endpoints: used.map(|backend| live.table(backend)),
            query: backend.map(|backend| backend_query(&backend.key)).unwrap_or_default(),
        }
    };
    shares.iter().map(share_text).collect()
}

fn share_problem(share: &WeightedBackend, backend: Option<&Backend>) -> &'static str {
    match (share.reference, backend) {
        (ReferenceStatus::Invalid, _) => "The reference is invalid: its requests get 500.",
        (ReferenceStatus::Resolved, None) => "There is no such backend: its requests get 503.",
        (ReferenceStatus::Resolved, Some(backend)) if backend.endpoints.is_empty() => {
            "It has no endpoint: its requests get 503."
        }
        _ => "",
    }
}

fn own_filters(share: &WeightedBackend, words: &dyn ConfigDescriber) -> Vec<FilterView> {
    let phases = share.filters.as_deref().cloned().map(Phases::from).unwrap_or_default();
    filters(&phases, words)
}

fn filters(phases: &Phases, words: &dyn ConfigDescriber) -> Vec<FilterView> {
    phases.steps().map(|step| FilterView { phase: phase(&step), text: words.describe_step(step) }).collect()
}

/// The phase of a step.
fn phase(step: &RuleStep<'_>) -> &'static str {
    match step {
        RuleStep::Client(_) => "client",
        RuleStep::Guard(_) => "guards",
        RuleStep::Request(_) => "request",
        RuleStep::Extension(_) => "extensions",
        RuleStep::Path(_)
        | RuleStep::TlsBackend(_)
        | RuleStep::Http1(_)
        | RuleStep::RequestHeaders(_)
        | RuleStep::ConditionalHeaders(_)
        | RuleStep::GrpcWeb
        | RuleStep::RetryStatuses(_)
        | RuleStep::Buffering(_)
        | RuleStep::Sticky(_)
        | RuleStep::Fallback(_)
        | RuleStep::Mirror(_) => "forwarding",
        RuleStep::UpstreamResponse(_)
        | RuleStep::ErrorPages(_)
        | RuleStep::Response(_)
        | RuleStep::Compression(_) => "response",
        RuleStep::HeadLimit(_) | RuleStep::ResponseRate(_) => "bounds",
        RuleStep::Unlogged | RuleStep::Tracing(_) => "log",
    }
}
