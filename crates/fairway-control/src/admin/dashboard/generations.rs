//! The configurations of the last day, with their changes and costs, as a page and as JSON. Those with a cost come first.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectRef;
use serde::Serialize;

use super::listing::{Paging, paginate};
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::time_format::utc_to_the_millisecond;
use crate::digest::Digest;
use crate::generations::{Generation, GenerationOrigin, Generations};

/// At most this many configurations with a cost are shown first.
const MAX_COSTLY: usize = 20;

/// The costs that the data plane counted for one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationCost {
    /// The version.
    pub version: u64,
    /// The requests that it served.
    pub requests: u64,
    /// The requests that failed or were repeated. Kinds without any are omitted.
    pub costs: Vec<CostCount>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostCount {
    /// A value of the label `attribution` in docs/metrics.md.
    pub attribution: &'static str,
    /// Whether an endpoint answered a later attempt.
    pub is_repeated: bool,
    /// Whether Fairway itself caused the error.
    pub is_self_inflicted: bool,
    /// How many there were.
    pub count: u64,
}

/// Reads the costs of versions from the data plane.
pub type FetchCosts =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<GenerationCost>> + Send>> + Send + Sync>;

/// The data of the page.
pub(super) struct GenerationsSource {
    generations: Arc<Generations>,
    costs: FetchCosts,
}

impl GenerationsSource {
    /// Reads from these generations and costs.
    pub(super) fn new(generations: Arc<Generations>, costs: FetchCosts) -> Self {
        Self { generations, costs }
    }

    /// Without any configuration.
    pub(super) fn empty() -> Self {
        Self::new(Arc::default(), Box::new(|| Box::pin(async { Vec::new() })))
    }

    /// The configurations of the last day, newest first.
    async fn with_costs(&self) -> Vec<GenerationReport> {
        let costs = (self.costs)().await.into_iter();
        let mut costs: BTreeMap<_, _> = costs.map(|cost| (cost.version, cost)).collect();
        let generations = self.generations.last_day().into_iter();
        let report = generations.map(|it| {
            let cost = costs.remove(&it.version).unwrap_or_default();
            GenerationReport::new(&it, &cost)
        });
        report.collect()
    }

    /// As JSON.
    ///
    /// # Errors
    /// Serialization fails.
    pub(super) async fn json(&self) -> serde_json::Result<String> {
        let report = self.with_costs().await;
        serde_json::to_string(&serde_json::json!({ "generations": report }))
    }

    /// The page.
    pub(super) async fn page(&self, query: &Query) -> Result<Page, Problem> {
        let all = self.with_costs().await;
        let self_inflicted: u64 = all.iter().map(|it| it.self_inflicted_errors).sum();
        let costly: Vec<_> =
            all.iter().filter(|it| it.self_inflicted_errors > 0).map(GenerationRow::new).collect();
        let (count, costly_count) = (all.len(), costly.len());
        let (shown, paging) = paginate(all.iter(), query)?;
        let content = GenerationsPage {
            count,
            costly_count,
            self_inflicted,
            costly: costly.into_iter().take(MAX_COSTLY).collect(),
            rows: shown.into_iter().map(GenerationRow::new).collect(),
            paging,
        };
        Ok(Page::new("generations.html", "generations", "Changes and what they cost", content))
    }
}

/// A configuration and its cost.
#[derive(Debug, Serialize)]
struct GenerationReport {
    version: u64,
    digest: Digest,
    origin: GenerationOrigin,
    published: String,
    /// `None` until every worker serves by it.
    adopted_after_ms: Option<u64>,
    changes: Vec<ChangedObject>,
    more_changes: usize,
    requests: u64,
    self_inflicted_errors: u64,
    failed: BTreeMap<&'static str, u64>,
    repeated: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct ChangedObject {
    kind: &'static str,
    namespace: String,
    name: String,
}

impl GenerationReport {
    fn new(generation: &Generation, cost: &GenerationCost) -> Self {
        let object = |it: &ObjectRef| ChangedObject {
            kind: it.kind.name(),
            namespace: it.key.namespace.to_string(),
            name: it.key.name.to_string(),
        };
        let of_outcome = |is_repeated: bool| {
            let matching = cost.costs.iter().filter(move |it| it.is_repeated == is_repeated);
            matching.map(|it| (it.attribution, it.count)).collect()
        };
        let self_inflicted = cost.costs.iter().filter(|it| it.is_self_inflicted);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            version: generation.version,
            digest: generation.digest,
            origin: generation.origin,
            published: utc_to_the_millisecond(generation.published),
            adopted_after_ms: generation.adopted_after.map(milliseconds),
            changes: generation.changed.named.iter().map(object).collect(),
            more_changes: generation.changed.omitted,
            requests: cost.requests,
            self_inflicted_errors: self_inflicted.map(|it| it.count).sum(),
            failed: of_outcome(false),
            repeated: of_outcome(true),
        }
    }
}

#[derive(Serialize)]
struct GenerationsPage {
    /// The number of configurations, and of those with a cost.
    count: usize,
    costly_count: usize,
    self_inflicted: u64,
    costly: Vec<GenerationRow>,
    rows: Vec<GenerationRow>,
    paging: Paging,
}

/// A configuration as the page shows it.
#[derive(Serialize)]
struct GenerationRow {
    version: u64,
    published: String,
    adopted: String,
    origin: &'static str,
    objects: Vec<ObjectCell>,
    more: usize,
    requests: u64,
    self_inflicted: u64,
    /// Each with its number of requests, as text.
    failed: Vec<(&'static str, u64)>,
    repeated: Vec<(&'static str, u64)>,
}

/// A changed object. Objects that define rules link to them.
#[derive(Serialize)]
struct ObjectCell {
    name: String,
    link: Option<ObjectLink>,
}

impl ObjectCell {
    fn new(object: &ChangedObject) -> Self {
        let ChangedObject { kind, namespace, name } = object;
        let has_rules = ["Ingress", "HTTPRoute", "GRPCRoute"].contains(kind);
        let separator = if namespace.is_empty() { "" } else { "/" };
        Self {
            name: format!("{kind} {namespace}{separator}{name}"),
            link: has_rules.then(|| ObjectLink::from_name(kind, namespace, name)),
        }
    }
}

impl GenerationRow {
    fn new(report: &GenerationReport) -> Self {
        let in_words = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(attribution, count)| (attribution_text(attribution), *count)).collect()
        };
        Self {
            version: report.version,
            published: report.published.clone(),
            adopted: match report.adopted_after_ms {
                Some(time) => format!("served by every worker {time} ms after the source sent it"),
                None => "not yet served by every worker".to_owned(),
            },
            origin: match (report.origin, report.changes.is_empty()) {
                (GenerationOrigin::First, _) => "The first one of this process",
                (GenerationOrigin::Restored, _) => "The last good configuration of an earlier process",
                (GenerationOrigin::Change, true) => "No object: time has passed, or a name has new addresses",
                (GenerationOrigin::Change, false) => "",
            },
            objects: report.changes.iter().map(ObjectCell::new).collect(),
            more: report.more_changes,
            requests: report.requests,
            self_inflicted: report.self_inflicted_errors,
            failed: in_words(&report.failed),
            repeated: in_words(&report.repeated),
        }
    }
}

/// The attribution as text.
fn attribution_text(attribution: &'static str) -> &'static str {
    match attribution {
        "client" => "clients",
        "endpoint" => "endpoints",
        "service" => "services that guards ask",
        "configuration" => "objects with unsupported settings",
        "fairway" => "limits of Fairway",
        "configuration_change" => "this change",
        "roll" => "the end of the process",
        other => other,
    }
}
