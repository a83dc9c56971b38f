//! The configurations of the last day with their changes and what they cost, as a page and as JSON. Those that cost something come first.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectRef;
use serde::Serialize;

use super::listing::{Paging, list};
use super::moment::utc_to_the_millisecond;
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use crate::digest::Digest;
use crate::generations::{Generation, GenerationOrigin, Generations};

/// How many of those that cost something are shown first.
const MAX_COSTLY: usize = 20;

/// What the data plane has counted of one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationCost {
    /// The version.
    pub version: u64,
    /// The requests that it served.
    pub requests: u64,
    /// Those that failed or were repeated. Kinds without any are left out.
    pub costs: Vec<CostCount>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostCount {
    /// A value of the label `attribution` in docs/metrics.md.
    pub attribution: &'static str,
    /// Whether a later attempt was answered by an endpoint.
    pub is_repeated: bool,
    /// Whether it is an error on nobody else's account.
    pub is_self_inflicted: bool,
    /// How many there were.
    pub count: u64,
}

/// Asks the data plane what versions cost.
pub type AskCosts = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<GenerationCost>> + Send>> + Send + Sync>;

/// Where the page has its content from.
pub(super) struct Source {
    generations: Arc<Generations>,
    costs: AskCosts,
}

impl Source {
    /// The configurations that are noted there, with what they cost.
    pub(super) fn new(generations: Arc<Generations>, costs: AskCosts) -> Self {
        Self { generations, costs }
    }

    /// No configuration.
    pub(super) fn empty() -> Self {
        Self::new(Arc::default(), Box::new(|| Box::pin(async { Vec::new() })))
    }

    /// Each configuration of the last day, the newest first.
    async fn told(&self) -> Vec<Told> {
        let costs = (self.costs)().await.into_iter();
        let mut costs: BTreeMap<_, _> = costs.map(|cost| (cost.version, cost)).collect();
        let generations = self.generations.last_day().into_iter();
        let told = generations.map(|it| {
            let cost = costs.remove(&it.version).unwrap_or_default();
            Told::of(&it, &cost)
        });
        told.collect()
    }

    /// All of it as JSON.
    ///
    /// # Errors
    /// Nothing that could be written so.
    pub(super) async fn json(&self) -> serde_json::Result<String> {
        let told = self.told().await;
        serde_json::to_string(&serde_json::json!({ "generations": told }))
    }

    /// The page.
    pub(super) async fn page(&self, query: &Query) -> Result<Page, Problem> {
        let all = self.told().await;
        let own: u64 = all.iter().map(|it| it.self_inflicted_errors).sum();
        let costly: Vec<_> = all.iter().filter(|it| it.self_inflicted_errors > 0).map(Row::of).collect();
        let (count, costly_count) = (all.len(), costly.len());
        let (shown, paging) = list(all.iter(), query)?;
        let content = Changes {
            count,
            costly_count,
            self_inflicted: own,
            costly: costly.into_iter().take(MAX_COSTLY).collect(),
            rows: shown.into_iter().map(Row::of).collect(),
            paging,
        };
        Ok(Page::new("generations.html", "generations", "Changes and what they cost", content))
    }
}

/// A configuration with what it cost.
#[derive(Debug, Serialize)]
struct Told {
    version: u64,
    digest: Digest,
    origin: GenerationOrigin,
    published: String,
    /// None while a worker does not serve by it.
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

impl Told {
    fn of(generation: &Generation, cost: &GenerationCost) -> Self {
        let object = |it: &ObjectRef| ChangedObject {
            kind: it.kind.name(),
            namespace: it.key.namespace.to_string(),
            name: it.key.name.to_string(),
        };
        let of_outcome = |is_repeated: bool| {
            let own = cost.costs.iter().filter(move |it| it.is_repeated == is_repeated);
            own.map(|it| (it.attribution, it.count)).collect()
        };
        let own = cost.costs.iter().filter(|it| it.is_self_inflicted);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            version: generation.version,
            digest: generation.digest,
            origin: generation.origin,
            published: utc_to_the_millisecond(generation.published),
            adopted_after_ms: generation.adopted_after.map(milliseconds),
            changes: generation.changed.named.iter().map(object).collect(),
            more_changes: generation.changed.more,
            requests: cost.requests,
            self_inflicted_errors: own.map(|it| it.count).sum(),
            failed: of_outcome(false),
            repeated: of_outcome(true),
        }
    }
}

#[derive(Serialize)]
struct Changes {
    /// How many configurations there are, and how many of them cost something.
    count: usize,
    costly_count: usize,
    self_inflicted: u64,
    costly: Vec<Row>,
    rows: Vec<Row>,
    paging: Paging,
}

/// A configuration as the page shows it.
#[derive(Serialize)]
struct Row {
    version: u64,
    published: String,
    adopted: String,
    origin: &'static str,
    objects: Vec<ObjectCell>,
    more: usize,
    requests: u64,
    self_inflicted: u64,
    /// With how many requests each, in words.
    failed: Vec<(&'static str, u64)>,
    repeated: Vec<(&'static str, u64)>,
}

/// An object that changed. Those that rules come from lead to their rules.
#[derive(Serialize)]
struct ObjectCell {
    name: String,
    link: Option<ObjectLink>,
}

impl ObjectCell {
    fn of(object: &ChangedObject) -> Self {
        let ChangedObject { kind, namespace, name } = object;
        let has_rules = ["Ingress", "HTTPRoute", "GRPCRoute"].contains(kind);
        let separator = if namespace.is_empty() { "" } else { "/" };
        Self {
            name: format!("{kind} {namespace}{separator}{name}"),
            link: has_rules.then(|| ObjectLink::named(kind, namespace, name)),
        }
    }
}

impl Row {
    fn of(told: &Told) -> Self {
        let in_words = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(attribution, count)| (words(attribution), *count)).collect()
        };
        Self {
            version: told.version,
            published: told.published.clone(),
            adopted: match told.adopted_after_ms {
                Some(time) => format!("served by every worker {time} ms after the source sent it"),
                None => "not yet served by every worker".to_owned(),
            },
            origin: match (told.origin, told.changes.is_empty()) {
                (GenerationOrigin::First, _) => "The first one of this process",
                (GenerationOrigin::Restored, _) => "The last good one of an earlier process",
                (GenerationOrigin::Change, true) => {
                    "No object: time has passed, or a name has other addresses"
                }
                (GenerationOrigin::Change, false) => "",
            },
            objects: told.changes.iter().map(ObjectCell::of).collect(),
            more: told.more_changes,
            requests: told.requests,
            self_inflicted: told.self_inflicted_errors,
            failed: in_words(&told.failed),
            repeated: in_words(&told.repeated),
        }
    }
}

/// On whose account, as people say it.
fn words(attribution: &'static str) -> &'static str {
    match attribution {
        "client" => "clients",
        "endpoint" => "endpoints",
        "service" => "services that guards ask",
        "configuration" => "objects that ask for what cannot be done",
        "fairway" => "limits of Fairway",
        "configuration_change" => "this change",
        "roll" => "the end of the process",
        other => other,
    }
}
