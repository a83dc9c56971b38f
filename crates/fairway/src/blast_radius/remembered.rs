//! What replicas remember of the requests that they served, and what they serve now.

use anyhow::{Context, Error, Result, anyhow, bail};
use fairway_model::Config;
use fairway_proxy::{RecordedExchange, RecordedSamples, SampledRequest};
use serde::Deserialize;

use crate::args::{Against, AskedArgs, CheckArgs};
use crate::ask::Extent;
use crate::explain::recorded;
use crate::kubectl::fleet::{Answer, Fleet, Replica};

/// The page with a few requests of each rule.
const SAMPLES: &str = "/requests?sample=route";
/// How many exchanges are on a page.
const PAGE: usize = 250;
/// How many pages of a worker are read: more than it has.
const MAX_PAGES: usize = 64;
/// How many workers of a replica are asked.
const MAX_WORKERS: usize = 1_024;

/// What replicas remember.
pub(super) struct Remembered {
    /// How many of them have answered.
    pub(super) replicas: usize,
    /// What they serve.
    pub(super) config: Config,
    pub(super) exchanges: Vec<RecordedExchange>,
    pub(super) samples: Vec<SampledRequest>,
    /// How long ago the oldest of the exchanges was.
    pub(super) oldest_seconds: u64,
    /// For how long all exchanges are remembered; `None` where none was forgotten.
    pub(super) complete_seconds: Option<u64>,
    /// For how long samples are.
    pub(super) sample_seconds: u64,
    /// Why others have not answered.
    pub(super) problems: Vec<String>,
}

/// What one replica remembers.
struct Memory {
    samples: RecordedSamples,
    exchanges: Vec<RecordedExchange>,
}

/// The page `/config`, as far as it is needed.
#[derive(Deserialize)]
struct ConfigPage {
    config: Config,
}

/// Asks everybody that `--against` names. A replica that does not answer hides no other one.
///
/// # Errors
/// None remembers anything, or what is served cannot be read.
pub(super) async fn ask(args: &CheckArgs) -> Result<Remembered> {
    let fleet = fleet(args).await.context("--against")?;
    let memories = fleet.each(|replica| async move { memory(&replica).await }).await?;
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
    let Answer { replica, body } = fleet.any("/config").await.context("--against")?;
    let page: ConfigPage = serde_json::from_slice(&body).with_context(|| {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "--against: {replica} serves a configuration that version {version} cannot read; use its version"
        )
    })?;
    let of_samples = || of_replicas.iter().map(|memory| &memory.samples);
    Ok(Remembered {
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
    if against.asks_a_cluster() {
        return Fleet::find_one(&AskedArgs { admin: None, pods: against.pods(&args.cluster) }).await;
    }
    let admins = against.against.iter().filter_map(|against| match against {
        Against::Admin(address) => Some(*address),
        Against::Kubernetes => None,
    });
    Ok(Fleet::of_processes(&admins.collect::<Vec<_>>()))
}

/// What a replica remembers: all exchanges, page by page, as each page takes a worker a moment.
async fn memory(replica: &Replica) -> Result<Memory> {
    let page =
        replica.page(SAMPLES, Extent::Whole).await.map_err(|error| of_older_version(replica, error))?;
    let samples: RecordedSamples =
        serde_json::from_slice(&page).with_context(|| format!("{replica}: {SAMPLES}"))?;
    if samples.exchanges == 0 {
        bail!("{replica} remembers no requests: its flight recorder is off (--recorder-exchanges 0)");
    }
    let mut exchanges = Vec::new();
    for worker in 0..samples.workers.min(MAX_WORKERS) {
        exchanges.extend(of_worker(replica, worker).await?);
    }
    Ok(Memory { samples, exchanges })
}

async fn of_worker(replica: &Replica, worker: usize) -> Result<Vec<RecordedExchange>> {
    let (mut exchanges, mut before) = (Vec::new(), format!("{worker}-"));
    for _ in 0..MAX_PAGES {
        let before_encoded: String = form_urlencoded::byte_serialize(before.as_bytes()).collect();
        let path = format!("/requests?before={before_encoded}&limit={PAGE}");
        let body = replica.page(&path, Extent::Whole).await?;
        let page = recorded::read(&body).with_context(|| format!("{replica}: {path}"))?;
        if page.len() > PAGE || page.last().is_some_and(|last| last.number == before) {
            bail!("{replica}: {path}: more exchanges than were asked for, or the same ones again");
        }
        let is_last = page.len() < PAGE;
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

/// What a server says that knows no samples, or no requests at all, in other words.
fn of_older_version(replica: &Replica, error: Error) -> Error {
    let text = format!("{error:#}");
    let is_older = text.contains("answered 404") || text.contains("unknown parameter");
    if !is_older {
        return error;
    }
    let version = env!("CARGO_PKG_VERSION");
    anyhow!(
        "{replica} is of a version of Fairway that remembers too little for --against, which needs {version} or later"
    )
}
