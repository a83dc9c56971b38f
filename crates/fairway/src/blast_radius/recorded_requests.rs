//! Fetches the recorded requests of replicas and the configuration that they serve.

use anyhow::{Context, Error, Result, anyhow, bail};
use fairway_model::Config;
use fairway_proxy::{RecordedExchange, RecordedSamples, SampledRequest};
use serde::Deserialize;

use crate::admin_client::Extent;
use crate::args::{Against, CheckArgs, TargetArgs};
use crate::explain::recorded;
use crate::kubectl::fleet::{Fleet, Replica, ReplicaPage};

/// The page with a few sampled requests of each rule.
const SAMPLES_PATH: &str = "/requests?sample=route";
/// Number of exchanges per page.
const EXCHANGES_PER_PAGE: usize = 250;
/// Maximum number of pages to read per worker; more than a worker can have.
const MAX_PAGES: usize = 64;
/// Maximum number of workers to query per replica.
const MAX_WORKERS: usize = 1_024;

/// The recorded requests of all replicas and their configuration.
pub(super) struct RecordedTraffic {
    /// Number of replicas that responded.
    pub(super) replicas: usize,
    /// The configuration that they serve.
    pub(super) config: Config,
    pub(super) exchanges: Vec<RecordedExchange>,
    pub(super) samples: Vec<SampledRequest>,
    /// Age of the oldest exchange.
    pub(super) oldest_seconds: u64,
    /// The period for which all exchanges are still recorded; `None` if none has been dropped.
    pub(super) complete_seconds: Option<u64>,
    /// How long samples are kept.
    pub(super) sample_seconds: u64,
    /// Why other replicas did not respond.
    pub(super) problems: Vec<String>,
}

/// The recorded requests of one replica.
struct ReplicaRecords {
    samples: RecordedSamples,
    exchanges: Vec<RecordedExchange>,
}

/// The part of the page `/config` that is used here.
#[derive(Deserialize)]
struct ConfigPage {
    config: Config,
}

/// Queries all replicas that `--against` names. Replicas that fail are listed in `problems`.
///
/// # Errors
/// No replica has recorded requests, or the configuration cannot be read.
pub(super) async fn collect_records(args: &CheckArgs) -> Result<RecordedTraffic> {
    let fleet = fleet(args).await.context("--against")?;
    let memories = fleet.query_all(|replica| async move { fetch_records(&replica).await }).await?;
    let (mut of_replicas, mut problems) = (Vec::new(), Vec::new());
    for memory in memories {
        match memory {
            Ok(memory) => of_replicas.push(memory),
            Err(error) => problems.push(format!("--against: {error:#}")),
        }
    }
    if of_replicas.is_empty() {
        bail!("{}", problems.join("; "));
    }
    let ReplicaPage { replica, body } = fleet.first_page("/config").await.context("--against")?;
    let page: ConfigPage = serde_json::from_slice(&body).with_context(|| {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "--against: {replica} serves a configuration that version {version} cannot read; use the version of the replica"
        )
    })?;
    let of_samples = || of_replicas.iter().map(|memory| &memory.samples);
    Ok(RecordedTraffic {
        replicas: of_replicas.len(),
        config: page.config,
        oldest_seconds: of_samples().filter_map(|it| it.oldest_seconds).max().unwrap_or_default(),
        complete_seconds: of_samples().filter_map(|it| it.complete_seconds).min(),
        sample_seconds: of_samples().map(|it| it.sample_seconds).max().unwrap_or_default(),
        samples: of_samples().flat_map(|it| it.samples.iter().cloned()).collect(),
        exchanges: of_replicas.into_iter().flat_map(|memory| memory.exchanges).collect(),
        problems,
    })
}

async fn fleet(args: &CheckArgs) -> Result<Fleet> {
    let against = &args.against;
    if against.queries_cluster() {
        return Fleet::find_one(&TargetArgs { admin: None, pods: against.pods(&args.cluster) }).await;
    }
    let admins = against.against.iter().filter_map(|against| match against {
        Against::Admin(address) => Some(*address),
        Against::Kubernetes => None,
    });
    Ok(Fleet::of_processes(&admins.collect::<Vec<_>>()))
}

/// Fetches all exchanges and samples of a replica. Exchanges come page by page, because each page costs the worker time.
async fn fetch_records(replica: &Replica) -> Result<ReplicaRecords> {
    let page = replica
        .page(SAMPLES_PATH, Extent::Whole)
        .await
        .map_err(|error| explain_older_version(replica, error))?;
    let samples: RecordedSamples =
        serde_json::from_slice(&page).with_context(|| format!("{replica}: {SAMPLES_PATH}"))?;
    if samples.exchanges == 0 {
        bail!("{replica} records no requests: its flight recorder is off (--recorder-exchanges 0)");
    }
    let mut exchanges = Vec::new();
    for worker in 0..samples.workers.min(MAX_WORKERS) {
        exchanges.extend(worker_exchanges(replica, worker).await?);
    }
    Ok(ReplicaRecords { samples, exchanges })
}

async fn worker_exchanges(replica: &Replica, worker: usize) -> Result<Vec<RecordedExchange>> {
    let (mut exchanges, mut before) = (Vec::new(), format!("{worker}-"));
    for _ in 0..MAX_PAGES {
        let before_encoded: String = form_urlencoded::byte_serialize(before.as_bytes()).collect();
        let path = format!("/requests?before={before_encoded}&limit={EXCHANGES_PER_PAGE}");
        let body = replica.page(&path, Extent::Whole).await?;
        let page = recorded::read(&body).with_context(|| format!("{replica}: {path}"))?;
        if page.len() > EXCHANGES_PER_PAGE || page.last().is_some_and(|last| last.number == before) {
            bail!("{replica}: {path}: the page is too long or repeats the previous one");
        }
        let is_last = page.len() < EXCHANGES_PER_PAGE;
        if let Some(last) = page.last() {
            before.clone_from(&last.number);
        }
        exchanges.extend(page);
        if is_last {
            break;
        }
    }
    Ok(exchanges)
}

/// Replaces the error of a server that does not know samples or `/requests` with a message about its version.
fn explain_older_version(replica: &Replica, error: Error) -> Error {
    let text = format!("{error:#}");
    let is_older = text.contains("answered 404") || text.contains("unknown parameter");
    if !is_older {
        return error;
    }
    let version = env!("CARGO_PKG_VERSION");
    anyhow!("{replica} runs an older version of Fairway; --against needs version {version} or later")
}
