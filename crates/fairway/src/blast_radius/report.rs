//! Evaluates recorded requests against the configuration before and after a change and counts the results for each route.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fairway_model::Config;
use fairway_proxy::{RecordedExchange, RecordedRule, SampledRequest};
use fairway_routing::compile;
use fairway_routing::impact::{
    ComparedRequest, Comparison, KnownClient, KnownRequest, KnownRule, ServedRoute, Verdict,
};
use serde::Serialize;

use super::recorded_requests::RecordedTraffic;

/// The kind of the built-in rules, which come from no object.
const DEFAULT_KIND: &str = "Default";
/// The reason of an exchange that was routed but matched no rule.
const NO_ROUTE: &str = "no_route";

/// The effect of a change on recorded requests.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// Number of replicas that responded.
    pub(super) replicas: usize,
    /// Why other replicas did not respond.
    pub(super) problems: Vec<String>,
    /// Number of examined exchanges.
    pub(super) requests: usize,
    /// Age of the oldest exchange.
    pub(super) oldest_seconds: u64,
    /// The period for which all exchanges are still recorded; absent if none has been dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) complete_seconds: Option<u64>,
    /// Number of examined samples: those that no exchange is similar to.
    pub(super) samples: usize,
    /// Number of routes of these samples.
    pub(super) sampled_routes: usize,
    /// How long samples are kept.
    pub(super) sample_seconds: u64,
    /// Number of exchanges that were refused before routing.
    pub(super) left_out: usize,
    /// Whether the input of the change contains no Services or no Secrets.
    pub(super) incomplete: bool,
    pub(super) totals: VerdictCounts,
    /// Sorted by the number of requests that are handled differently, largest first.
    pub(super) routes: Vec<RouteReport>,
}

/// Number of requests per verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct VerdictCounts {
    pub(super) same: usize,
    pub(super) settings: usize,
    pub(super) otherwise: usize,
    pub(super) undecided: usize,
}

/// The requests of one route.
#[derive(Debug, Serialize)]
pub(super) struct RouteReport {
    #[serde(flatten)]
    pub(super) route: RouteName,
    pub(super) requests: usize,
    pub(super) samples: usize,
    #[serde(flatten)]
    pub(super) counts: VerdictCounts,
    /// The differences, grouped by kind.
    pub(super) changes: Vec<Change>,
}

/// The object, host and path of a rule; all empty for requests without a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct RouteName {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) field: String,
    pub(super) host: String,
    pub(super) path: String,
}

/// Requests that differ in the same way.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    /// `otherwise`, `settings` or `undecided`.
    pub(super) verdict: &'static str,
    /// What differs or why it is undecided (see docs/observe.md).
    pub(super) kind: &'static str,
    pub(super) count: usize,
    pub(super) example: Example,
}

/// The most recent of these requests.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    pub(super) time: String,
    pub(super) method: String,
    pub(super) url: String,
    /// The status of the response; 0 if there was none.
    pub(super) status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}

/// A recorded request that is evaluated.
struct ExaminedRequest<'r> {
    known_request: KnownRequest<'r>,
    time: &'r str,
    status: u16,
    is_sample: bool,
}

impl Report {
    /// Evaluates the recorded requests against `after`. `is_incomplete`: objects that rules of `after` refer to may be missing.
    pub(super) fn from_remembered(remembered: &RecordedTraffic, after: &Config, is_incomplete: bool) -> Self {
        let (before, after) = (compile(&remembered.config, None).snapshot, compile(after, None).snapshot);
        let mut comparison = Comparison::new(&before, &after);
        if is_incomplete {
            comparison = comparison.of_incomplete_objects();
        }
        let mut report = Self {
            replicas: remembered.replicas,
            problems: remembered.problems.clone(),
            oldest_seconds: remembered.oldest_seconds,
            complete_seconds: remembered.complete_seconds,
            sample_seconds: remembered.sample_seconds,
            incomplete: is_incomplete,
            ..Self::default()
        };
        let mut routes = BTreeMap::new();
        for request in requests_to_examine(remembered, &mut report.left_out) {
            report.add(&request, comparison.compare(&request.known_request), &mut routes);
        }
        report.sampled_routes = routes.values().filter(|route| route.samples > 0).count();
        report.routes = routes.into_values().collect();
        report.routes.sort_by(|one, other| one.rank().cmp(&other.rank()));
        report
    }

    fn add(
        &mut self,
        request: &ExaminedRequest<'_>,
        compared: ComparedRequest<'_>,
        routes: &mut BTreeMap<RouteName, RouteReport>,
    ) {
        let name = RouteName::from_route(compared.route, &request.known_request);
        let route = routes.entry(name.clone()).or_insert_with(|| RouteReport {
            route: name,
            requests: 0,
            samples: 0,
            counts: VerdictCounts::default(),
            changes: Vec::new(),
        });
        if request.is_sample {
            self.samples += 1;
            route.samples += 1;
        } else {
            self.requests += 1;
            route.requests += 1;
        }
        self.totals.add(&compared.verdict);
        route.counts.add(&compared.verdict);
        route.add_change(request, compared.verdict);
    }
}

impl VerdictCounts {
    fn add(&mut self, verdict: &Verdict) {
        let count = match verdict {
            Verdict::Same => &mut self.same,
            Verdict::Settings(_) => &mut self.settings,
            Verdict::Otherwise(_) => &mut self.otherwise,
            Verdict::Undecided(_) => &mut self.undecided,
        };
        *count += 1;
    }
}

impl RouteReport {
    /// Whether all of its requests are handled in the same way.
    pub(super) fn is_untouched(&self) -> bool {
        self.changes.is_empty()
    }

    /// The sort key.
    fn rank(&self) -> impl Ord + use<'_> {
        let VerdictCounts { settings, otherwise, undecided, .. } = self.counts;
        let examined = self.requests + self.samples;
        (Reverse(otherwise), Reverse(undecided), Reverse(settings), Reverse(examined), &self.route)
    }

    fn add_change(&mut self, request: &ExaminedRequest<'_>, verdict: Verdict) {
        let (verdict, kind, words) = match verdict {
            Verdict::Same => return,
            Verdict::Settings(settings) => ("settings", settings.label(), None),
            Verdict::Otherwise(it) => ("otherwise", it.kind.label(), Some((it.before, it.after))),
            Verdict::Undecided(unknown) => ("undecided", unknown.label(), None),
        };
        let known = self.changes.iter_mut().find(|it| it.verdict == verdict && it.kind == kind);
        if let Some(change) = known {
            change.count += 1;
            if *change.example.time >= *request.time {
                return;
            }
            change.example = request.example(words);
        } else {
            let example = request.example(words);
            self.changes.push(Change { verdict, kind, count: 1, example });
        }
    }
}

impl RouteName {
    fn from_route(route: Option<ServedRoute<'_>>, known: &KnownRequest<'_>) -> Self {
        if let Some(ServedRoute { origin, host, path }) = route {
            if *origin.kind == *DEFAULT_KIND {
                return Self::default();
            }
            return Self {
                kind: origin.kind.to_string(),
                namespace: origin.namespace.to_string(),
                name: origin.name.to_string(),
                field: origin.field.to_string(),
                host: host.to_string(),
                path: path.to_owned(),
            };
        }
        // Fall back to the recorded rule, which does not include host and path.
        known.rule.filter(|rule| rule.kind != DEFAULT_KIND).map_or_else(Self::default, |rule| Self {
            kind: rule.kind.to_owned(),
            namespace: rule.namespace.to_owned(),
            name: rule.name.to_owned(),
            field: rule.field.to_owned(),
            ..Self::default()
        })
    }
}

impl ExaminedRequest<'_> {
    fn example(&self, words: Option<(String, String)>) -> Example {
        let KnownRequest { over_tls, method, host, path, has_query, .. } = self.known_request;
        let scheme = if over_tls { "https" } else { "http" };
        let query = if has_query { "?..." } else { "" };
        let (before, after) = words.unzip();
        Example {
            time: self.time.to_owned(),
            method: method.to_owned(),
            url: format!("{scheme}://{host}{path}{query}"),
            status: self.status,
            before,
            after,
        }
    }
}

/// The exchanges that were routed, and the samples that no exchange is similar to. Counts the others in `left_out`.
fn requests_to_examine<'r>(
    remembered: &'r RecordedTraffic,
    left_out: &mut usize,
) -> Vec<ExaminedRequest<'r>> {
    let was_routed = |it: &&RecordedExchange| it.rule.is_some() || it.reason.as_deref() == Some(NO_ROUTE);
    let (routed, others): (Vec<_>, Vec<_>) = remembered.exchanges.iter().partition(was_routed);
    *left_out = others.len();
    let mut all: Vec<_> = routed.into_iter().map(examine_exchange).collect();
    let kinds: BTreeSet<_> = all.iter().map(|it| similarity_key(&it.known_request)).collect();
    let samples = remembered.samples.iter().map(examine_sample);
    let mut known_requests = BTreeSet::new();
    let new: Vec<_> = samples
        .filter(|it| {
            let likeness = similarity_key(&it.known_request);
            !kinds.contains(&likeness) && known_requests.insert(likeness)
        })
        .collect();
    all.extend(new);
    all
}

/// The key by which requests are similar: one of them stands for the others.
fn similarity_key<'r>(known: &KnownRequest<'r>) -> [&'r str; 8] {
    let KnownRequest { listener, over_tls, method, host, path, rule, .. } = *known;
    let rule = rule.unwrap_or(KnownRule { kind: "", namespace: "", name: "", field: "" });
    let listener = listener.unwrap_or(if over_tls { "(https)" } else { "(http)" });
    [listener, method, host, path, rule.kind, rule.namespace, rule.name, rule.field]
}

fn examine_exchange(it: &RecordedExchange) -> ExaminedRequest<'_> {
    let client = match it.client {
        Some(address) => KnownClient::Address(address),
        None => KnownClient::UnknownAddress,
    };
    ExaminedRequest {
        known_request: KnownRequest {
            listener: it.listener.as_deref(),
            over_tls: it.scheme == "https",
            method: &it.method,
            host: &it.host,
            path: &it.path,
            has_query: it.has_query,
            client,
            rule: it.rule.as_ref().map(rule),
            forwarded: it.upstream.is_some(),
            endpoint: it.upstream.as_ref().map(|upstream| upstream.endpoint),
        },
        time: &it.time,
        status: it.status,
        is_sample: false,
    }
}

fn examine_sample(it: &SampledRequest) -> ExaminedRequest<'_> {
    ExaminedRequest {
        known_request: KnownRequest {
            listener: it.listener.as_deref(),
            over_tls: it.scheme == "https",
            method: &it.method,
            host: &it.host,
            path: &it.path,
            has_query: it.has_query,
            client: KnownClient::UnrecordedAddress,
            rule: it.rule.as_ref().map(rule),
            forwarded: it.forwarded,
            endpoint: None,
        },
        time: &it.time,
        status: it.status,
        is_sample: true,
    }
}

fn rule(it: &RecordedRule) -> KnownRule<'_> {
    KnownRule { kind: &it.kind, namespace: &it.namespace, name: &it.name, field: &it.field }
}
