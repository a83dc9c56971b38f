//! What a change would have meant for the requests that are remembered, in numbers for each route.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fairway_model::Config;
use fairway_proxy::{RecordedExchange, RecordedRule, SampledRequest};
use fairway_routing::compile;
use fairway_routing::impact::{
    Compared, Comparison, KnownClient, KnownRequest, KnownRule, ServedRoute, Verdict,
};
use serde::Serialize;

use super::remembered::Remembered;

/// The kind of a rule that no object asks for.
const OF_NOBODY: &str = "Default";
/// Why an exchange without a rule was refused, where a route was looked for.
const NO_ROUTE: &str = "no_route";

/// What a change would have meant.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// Replicas that were asked.
    pub(super) replicas: usize,
    /// Why others were not.
    pub(super) problems: Vec<String>,
    /// Exchanges that were examined.
    pub(super) requests: usize,
    /// How long ago the oldest of them was.
    pub(super) oldest_seconds: u64,
    /// For how long all exchanges are remembered; absent where none was forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) complete_seconds: Option<u64>,
    /// Samples that were examined besides: none of the exchanges is like them.
    pub(super) samples: usize,
    /// The routes that they are of.
    pub(super) sampled_routes: usize,
    /// For how long samples are remembered.
    pub(super) sample_seconds: u64,
    /// Exchanges that were refused before a route was looked for.
    pub(super) left_out: usize,
    /// Whether the change was read without all Services or all Secrets.
    pub(super) incomplete: bool,
    pub(super) totals: Counts,
    /// Those with the most requests that are treated otherwise first.
    pub(super) routes: Vec<RouteReport>,
}

/// How many requests there are of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
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
    pub(super) counts: Counts,
    /// What becomes of those that are not treated in the same way.
    pub(super) changes: Vec<Change>,
}

/// A rule as people look for it; all is empty for requests without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct RouteName {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) field: String,
    pub(super) host: String,
    pub(super) path: String,
}

/// What becomes of some requests.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    /// `otherwise`, `settings` or `undecided`.
    pub(super) verdict: &'static str,
    /// In what, or by what: docs/observe.md lists them.
    pub(super) kind: &'static str,
    pub(super) count: usize,
    pub(super) example: Example,
}

/// One of these requests: the last one.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    pub(super) time: String,
    pub(super) method: String,
    pub(super) url: String,
    /// The status that it got; 0 where it got none.
    pub(super) status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}

/// A request that is examined.
struct Examined<'r> {
    known: KnownRequest<'r>,
    time: &'r str,
    status: u16,
    is_sample: bool,
}

impl Report {
    /// What it would have meant for what is remembered if `after` had been served. `is_incomplete`: rules of it may lack objects.
    pub(super) fn of(remembered: &Remembered, after: &Config, is_incomplete: bool) -> Self {
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
        for request in examined(remembered, &mut report.left_out) {
            report.add(&request, comparison.compare(&request.known), &mut routes);
        }
        report.sampled_routes = routes.values().filter(|route| route.samples > 0).count();
        report.routes = routes.into_values().collect();
        report.routes.sort_by(|one, other| one.rank().cmp(&other.rank()));
        report
    }

    fn add(
        &mut self,
        request: &Examined<'_>,
        compared: Compared<'_>,
        routes: &mut BTreeMap<RouteName, RouteReport>,
    ) {
        let name = RouteName::of(compared.route, &request.known);
        let route = routes.entry(name.clone()).or_insert_with(|| RouteReport {
            route: name,
            requests: 0,
            samples: 0,
            counts: Counts::default(),
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
        route.note(request, compared.verdict);
    }
}

impl Counts {
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
    /// Whether all of its requests are treated in the same way.
    pub(super) fn is_untouched(&self) -> bool {
        self.changes.is_empty()
    }

    /// What it is sorted by.
    fn rank(&self) -> impl Ord + use<'_> {
        let Counts { settings, otherwise, undecided, .. } = self.counts;
        let examined = self.requests + self.samples;
        (Reverse(otherwise), Reverse(undecided), Reverse(settings), Reverse(examined), &self.route)
    }

    fn note(&mut self, request: &Examined<'_>, verdict: Verdict) {
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
    fn of(route: Option<ServedRoute<'_>>, known: &KnownRequest<'_>) -> Self {
        if let Some(ServedRoute { origin, host, path }) = route {
            if *origin.kind == *OF_NOBODY {
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
        // What is remembered of it; which path of the object that is, nobody knows any more.
        known.rule.filter(|rule| rule.kind != OF_NOBODY).map_or_else(Self::default, |rule| Self {
            kind: rule.kind.to_owned(),
            namespace: rule.namespace.to_owned(),
            name: rule.name.to_owned(),
            field: rule.field.to_owned(),
            ..Self::default()
        })
    }
}

impl Examined<'_> {
    fn example(&self, words: Option<(String, String)>) -> Example {
        let KnownRequest { over_tls, method, host, path, has_query, .. } = self.known;
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

/// The exchanges for which a route was looked for, and the samples that are like none of them.
fn examined<'r>(remembered: &'r Remembered, left_out: &mut usize) -> Vec<Examined<'r>> {
    let was_routed = |it: &&RecordedExchange| it.rule.is_some() || it.reason.as_deref() == Some(NO_ROUTE);
    let (routed, others): (Vec<_>, Vec<_>) = remembered.exchanges.iter().partition(was_routed);
    *left_out = others.len();
    let mut all: Vec<_> = routed.into_iter().map(of_exchange).collect();
    let kinds: BTreeSet<_> = all.iter().map(|it| likeness(&it.known)).collect();
    let samples = remembered.samples.iter().map(of_sample);
    let mut seen = BTreeSet::new();
    let new: Vec<_> = samples
        .filter(|it| {
            let likeness = likeness(&it.known);
            !kinds.contains(&likeness) && seen.insert(likeness)
        })
        .collect();
    all.extend(new);
    all
}

/// What two requests have in common of which one stands for the other.
fn likeness<'r>(known: &KnownRequest<'r>) -> [&'r str; 8] {
    let KnownRequest { listener, over_tls, method, host, path, rule, .. } = *known;
    let rule = rule.unwrap_or(KnownRule { kind: "", namespace: "", name: "", field: "" });
    let listener = listener.unwrap_or(if over_tls { "(https)" } else { "(http)" });
    [listener, method, host, path, rule.kind, rule.namespace, rule.name, rule.field]
}

fn of_exchange(it: &RecordedExchange) -> Examined<'_> {
    let client = match it.client {
        Some(address) => KnownClient::Address(address),
        None => KnownClient::Nameless,
    };
    Examined {
        known: KnownRequest {
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

fn of_sample(it: &SampledRequest) -> Examined<'_> {
    Examined {
        known: KnownRequest {
            listener: it.listener.as_deref(),
            over_tls: it.scheme == "https",
            method: &it.method,
            host: &it.host,
            path: &it.path,
            has_query: it.has_query,
            client: KnownClient::NotKept,
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
