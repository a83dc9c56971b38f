//! `capacity`: what one proxy can carry with so many worker threads, and what a request costs it. Proxies, backend and
//! generator are processes on loopback; every peer is up, and blocks of load go to Fairway and to one of the others in turn.

mod block;
mod ratios;
mod runners;

use std::time::Duration;

use serde::Deserialize;

use self::block::blocks;
use self::ratios::ratios;
use self::runners::start;
use super::handover::Handover;
use super::progress::Progress;
use super::site::HOST;
use super::stage::Contender;
use crate::adapter::TlsChoice;
use crate::backend::Spawned;
use crate::load::{Plan, Reuse, TlsPlan, TlsVersion};
use crate::peers::local::LocalSite;
use crate::results::{Absent, Run};

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
    connections: usize,
    threads: usize,
    seconds: f64,
    workers: Vec<u32>,
    blocks: u32,
    backends: usize,
    timeout_s: f64,
    cases: Vec<Case>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    tls: Tls,
    bytes: u64,
    connect: Connect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Tls {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Connect {
    KeepAlive,
    New,
    Resumed,
}

/// Where blocks run.
pub(super) struct Yard<'a> {
    pub(super) handover: &'a Handover,
    /// Chain and key, PEM.
    pub(super) certificate: (&'a str, &'a str),
    pub(super) progress: Progress,
    pub(super) contenders: &'a [Contender<'a>],
}

/// All cases by worker count and version of TLS.
pub(super) async fn run(
    yard: &Yard<'_>,
    terms: &Terms,
    run: &mut Run,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let program = &yard.handover.workshop.laboratory;
    let backend = Spawned::start(program, terms.backends.max(1), &["--name", "backend"])?;
    for workers in
        terms.workers.iter().filter(|workers| usize::try_from(**workers).is_ok_and(|count| count <= cpus))
    {
        for choice in [TlsChoice::Tls13, TlsChoice::Tls12] {
            let of_choice = |case: &&Case| (case.tls == Tls::Tls12) == matches!(choice, TlsChoice::Tls12);
            let cases: Vec<_> = terms.cases.iter().filter(of_choice).collect();
            if cases.is_empty() {
                continue;
            }
            let runners = start(yard, &backend, (*workers, choice), absent)?;
            for case in cases {
                let measures = blocks(yard, terms, case, &runners).await?;
                let (found, missing) = ratios(&measures, &case.name, *workers);
                run.ratios.extend(found);
                run.notes.extend(missing);
                run.measures.extend(measures);
            }
        }
    }
    Ok(())
}

fn plan(terms: &Terms, case: &Case, site: &LocalSite) -> anyhow::Result<Plan> {
    let scheme = if case.tls == Tls::None { "http" } else { "https" };
    let address = if case.tls == Tls::None { site.http } else { site.https };
    let mut plan = Plan::at(&format!("{scheme}://{HOST}/?size={}", case.bytes), vec![address])?;
    plan.shape.connections = terms.connections;
    plan.shape.threads = terms.threads;
    plan.bounds.duration = None;
    plan.bounds.timeout = Duration::from_secs_f64(terms.timeout_s);
    if case.connect != Connect::KeepAlive {
        plan.wire.reuse = Reuse::ConnectionPerRequest;
    }
    plan.wire.tls = match case.tls {
        Tls::None => None,
        Tls::Tls12 => Some(TlsPlan {
            versions: vec![TlsVersion::Tls12],
            ciphers: vec!["ECDHE-RSA-AES256-GCM-SHA384".to_owned()],
            resumption: case.connect == Connect::Resumed,
            ..TlsPlan::default()
        }),
        Tls::Tls13 => Some(TlsPlan {
            versions: vec![TlsVersion::Tls13],
            ciphers: vec!["TLS_AES_256_GCM_SHA384".to_owned()],
            resumption: case.connect == Connect::Resumed,
            ..TlsPlan::default()
        }),
    };
    Ok(plan)
}
