//! `status`: lists the pods, the configuration that each serves, and whether the replicas agree.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use fairway_control::Freshness;
use fairway_control::admin::ServedConfig;
use serde::Serialize;

use super::age::{age, unix_now};
use super::cluster::installation;
use super::exposition::series;
use super::fleet::{Fleet, Replica};
use super::listing::{self, Row, optional_cell, yes_no};
use crate::admin_client::Extent;
use crate::args::{ListFormat, StatusArgs};
use crate::terminal::PlainText;

/// The metric whose labels describe the build. It is the first metric of a scrape.
const BUILD_INFO_METRIC: &str = "nginx_ingress_controller_build_info";

/// The text that follows this metric.
const AFTER_BUILD: &str = "# TYPE fairway_";

/// Number of digits of a digest that a table shows.
const SHOWN_DIGITS: usize = 12;

/// A row of the listing.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodRow {
    namespace: String,
    pod: String,
    #[serde(skip)]
    installation: String,
    ready: bool,
    /// The version of the build.
    version: Option<String>,
    digest: Option<String>,
    config_version: Option<u64>,
    adopted: Option<bool>,
    freshness: Option<Freshness>,
    restarts: Option<i32>,
    age_seconds: Option<i64>,
    phase: Option<String>,
    node: Option<String>,
    image: Option<String>,
    /// Why its configuration is unknown.
    problem: Option<String>,
}

/// Prints the pods. Exits with 0 if all are ready and serve the same, current configuration.
pub(super) async fn status(args: &StatusArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(&args.target).await?;
    let rows = fleet.query_all(describe).await?;
    listing::print(&rows, args.output, "")?;
    let agreements = agreements(&rows);
    if matches!(args.output, ListFormat::Table | ListFormat::Wide) {
        for row in &rows {
            if let Some(problem) = &row.problem {
                writeln!(PlainText(io::stderr()), "{problem}")?;
            }
        }
        writeln!(io::stdout())?;
        for agreement in &agreements {
            writeln!(PlainText(io::stdout()), "{}", agreement.sentence)?;
        }
    }
    let is_well = rows.iter().all(is_healthy) && agreements.iter().all(|it| it.is_complete);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn describe(replica: Replica) -> PodRow {
    let (served, version) = tokio::join!(fetch_served(&replica), fetch_version(&replica));
    let row = match &replica {
        Replica::Process(address) => {
            let ready = replica.page("/readyz", Extent::Whole).await.is_ok();
            PodRow { pod: address.to_string(), ready, ..PodRow::default() }
        }
        Replica::Pod { pod, .. } => PodRow {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            installation: installation(pod),
            ready: pod.is_ready,
            restarts: Some(pod.restarts),
            age_seconds: pod.created.map(|created| unix_now() - created),
            phase: Some(pod.phase.clone()),
            node: Some(pod.node.clone()),
            image: Some(pod.image.clone()),
            ..PodRow::default()
        },
    };
    let row = PodRow { version, ..row };
    match served {
        Ok(served) => PodRow {
            digest: Some(served.digest),
            config_version: Some(served.version),
            adopted: Some(served.adopted),
            freshness: Some(served.freshness),
            ..row
        },
        Err(error) => PodRow { problem: Some(format!("{error:#}")), ..row },
    }
}

async fn fetch_served(replica: &Replica) -> Result<ServedConfig> {
    Ok(serde_json::from_slice(&replica.page("/served", Extent::Whole).await?)?)
}

/// The version of the replica's build; `None` if it does not respond.
async fn fetch_version(replica: &Replica) -> Option<String> {
    let text = replica.page("/metrics", Extent::Before(AFTER_BUILD)).await.ok()?;
    let text = String::from_utf8(text).ok()?;
    let build = series(&text, BUILD_INFO_METRIC).next()?;
    Some(build.label("release").to_owned())
}

fn is_healthy(row: &PodRow) -> bool {
    row.ready && row.adopted == Some(true) && row.freshness == Some(Freshness::Current)
}

/// Whether the replicas of an installation serve the same configuration.
#[derive(Debug)]
struct Agreement {
    /// All replicas have responded and serve the same.
    is_complete: bool,
    sentence: String,
}

fn agreements(rows: &[PodRow]) -> Vec<Agreement> {
    let mut installations: BTreeMap<&str, Vec<&PodRow>> = BTreeMap::new();
    for row in rows {
        installations.entry(&row.installation).or_default().push(row);
    }
    installations.into_iter().map(|(name, rows)| agreement(name, &rows)).collect()
}

fn agreement(installation: &str, rows: &[&PodRow]) -> Agreement {
    let digests: BTreeSet<&str> = rows.iter().filter_map(|row| row.digest.as_deref()).collect();
    let answered = rows.iter().filter(|row| row.digest.is_some()).count();
    let suffix = if installation.is_empty() { String::new() } else { format!(" ({installation})") };
    let all = rows.len();
    let sentence = match digests.len() {
        0 => format!("No replica reports what it serves{suffix}."),
        1 if answered == all => {
            let replicas =
                if all == 1 { "1 replica serves".to_owned() } else { format!("All {all} replicas serve") };
            format!("{replicas} the configuration {}{suffix}.", digests.first().copied().unwrap_or_default())
        }
        1 => format!("{answered} of {all} replicas serve the same; the others do not respond{suffix}."),
        _ => {
            let each = rows.iter().filter_map(|row| Some((&row.pod, row.digest.as_deref()?)));
            let each: Vec<_> =
                each.map(|(pod, digest)| format!("{pod} serves {}", short_digest(digest))).collect();
            format!("The replicas do not agree{suffix}: {}.", each.join(", "))
        }
    };
    Agreement { is_complete: digests.len() == 1 && answered == all, sentence }
}

/// The beginning of a digest.
fn short_digest(digest: &str) -> &str {
    digest.get(..SHOWN_DIGITS).unwrap_or(digest)
}

impl Row for PodRow {
    const HEADINGS: &'static [&'static str] = &[
        "NAMESPACE",
        "POD",
        "READY",
        "VERSION",
        "DIGEST",
        "CONFIG",
        "ADOPTED",
        "FRESHNESS",
        "RESTARTS",
        "AGE",
    ];
    const WIDE_HEADINGS: &'static [&'static str] = &["PHASE", "NODE", "IMAGE"];

    fn cells(&self) -> Vec<String> {
        let freshness = self.freshness.map(|freshness| match freshness {
            Freshness::Current => "current",
            Freshness::Stale => "stale",
        });
        vec![
            self.namespace.clone(),
            self.pod.clone(),
            yes_no(self.ready).to_owned(),
            optional_cell(self.version.as_deref()),
            optional_cell(self.digest.as_deref().map(short_digest)),
            optional_cell(self.config_version),
            optional_cell(self.adopted.map(yes_no)),
            optional_cell(freshness),
            self.restarts.map(|restarts| restarts.to_string()).unwrap_or_default(),
            self.age_seconds.map(age).unwrap_or_default(),
        ]
    }

    fn wide_cells(&self) -> Vec<String> {
        [&self.phase, &self.node, &self.image].map(|cell| cell.clone().unwrap_or_default()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, digest: Option<&str>) -> PodRow {
        let (pod, installation) = (name.to_owned(), "namespace edge".to_owned());
        PodRow { pod, installation, digest: digest.map(str::to_owned), ..PodRow::default() }
    }

    #[test]
    fn replicas_agree_when_all_respond_and_serve_the_same() {
        let verdict_text = |rows: &[PodRow]| {
            let all = agreements(rows);
            assert_eq!(all.len(), 1);
            (all[0].is_complete, all[0].sentence.clone())
        };
        let (x, y) = (Some("0123456789abcdef"), Some("fedcba9876543210"));
        assert_eq!(
            verdict_text(&[pod("a", x), pod("b", x)]),
            (true, "All 2 replicas serve the configuration 0123456789abcdef (namespace edge).".to_owned())
        );
        assert_eq!(
            verdict_text(&[pod("a", x), pod("b", y)]),
            (
                false,
                "The replicas do not agree (namespace edge): a serves 0123456789ab, b serves fedcba987654."
                    .to_owned()
            )
        );
        assert!(!verdict_text(&[pod("a", x), pod("b", None)]).0);
        assert!(!verdict_text(&[pod("a", None)]).0);
    }

    #[test]
    fn installations_need_not_agree_with_each_other() {
        let mut other = pod("b", Some("2"));
        other.installation = "namespace other".to_owned();
        let all = agreements(&[pod("a", Some("1")), other]);
        assert!(all.len() == 2 && all.iter().all(|it| it.is_complete), "{all:?}");
    }
}
