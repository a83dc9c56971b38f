//! `capacity`: what one proxy can carry with so many worker threads, and what a request costs it. Proxies, backend and
//! generator are processes on loopback; every peer is up, and blocks of load go to Fairway and to one of the others in turn.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;

use super::handover::Handover;
use super::metering::split;
use super::progress::Progress;
use super::site::HOST;
use super::stage::{Contender, file_name, finish, start as begin};
use crate::adapter::TlsChoice;
use crate::load::{Outcome, Plan, Reuse, TlsPlan, TlsVersion};
use crate::measure::{Block, MachineTime, Meter, Spent, Subject, pin, ratio};
use crate::peers::local::{self, LocalProxy, LocalSite};
use crate::results::{Absent, Backstage, Measure, Ratio, Run, Settings};

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

/// A block is discarded when the hypervisor took more than this part of the machine's time.
const STOLEN: f64 = 0.05;
/// Connections are made and caches filled before a block counts.
const WARMING: Duration = Duration::from_millis(300);

/// Where blocks run.
pub(super) struct Yard<'a> {
    pub(super) handover: &'a Handover,
    /// Chain and key, PEM.
    pub(super) certificate: (&'a str, &'a str),
    pub(super) progress: Progress,
    pub(super) contenders: &'a [Contender<'a>],
}

/// A proxy that is up.
struct Runner<'a> {
    contender: &'a Contender<'a>,
    proxy: LocalProxy,
    site: LocalSite,
}

/// All cases by worker count and version of TLS.
pub(super) async fn run(
    yard: &Yard<'_>,
    terms: &Terms,
    run: &mut Run,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let backend = Backend::start(yard, terms.backends)?;
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
                let measured = blocks(yard, terms, case, &runners).await;
                let Ok(measures) = measured else {
                    stop(runners);
                    return measured.map(|_| ());
                };
                run.ratios.extend(ratios(&measures, case, *workers));
                run.measures.extend(measures);
            }
            stop(runners);
        }
    }
    drop(backend);
    Ok(())
}

fn stop(runners: Vec<Runner<'_>>) {
    for runner in runners {
        runner.proxy.stop();
    }
}

fn start<'a>(
    yard: &Yard<'a>,
    backend: &Backend,
    (workers, tls): (u32, TlsChoice),
    absent: &mut Vec<Absent>,
) -> anyhow::Result<Vec<Runner<'a>>> {
    let mut runners = Vec::new();
    for contender in yard.contenders {
        let name = contender.peer.name();
        let tag = file_name(&[
            name,
            &format!("{:?}", contender.settings),
            &format!("{tls:?}"),
            &workers.to_string(),
        ]);
        let folder = yard.handover.workshop.folder.join(tag);
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let site = LocalSite {
            backends: backend.addresses.clone(),
            http: free()?,
            https: free()?,
            hosts: vec![HOST.to_owned()],
            chain_pem: yard.certificate.0.to_owned(),
            key_pem: yard.certificate.1.to_owned(),
            workers,
            settings: contender.settings,
            tls,
            folder,
        };
        let started = local::local(name)
            .and_then(|peer| peer.start(&yard.handover.workshop, &site))
            .and_then(|proxy| placed(proxy, workers));
        match started {
            Ok(proxy) => runners.push(Runner { contender, proxy, site }),
            Err(error) => {
                let record = Absent {
                    peer: name.to_owned(),
                    scenario: Some("capacity".to_owned()),
                    reason: format!("{error:#}"),
                };
                if !absent.contains(&record) {
                    yard.progress.say(&format!("{name} takes no part in capacity: {error:#}"));
                    absent.push(record);
                }
            }
        }
    }
    Ok(runners)
}

/// The last CPUs are the proxy's; generator and backend share the others, if there are any.
fn placed(proxy: LocalProxy, workers: u32) -> anyhow::Result<LocalProxy> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let own = usize::try_from(workers)?;
    if own < cpus {
        pin(&proxy.pids(), &(cpus - own..cpus).collect::<Vec<_>>())?;
    }
    Ok(proxy)
}

/// An address on loopback that is free now.
fn free() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}

/// The blocks of a case. Every other block is the first runner's, so that each block of another has one of it right beside
/// it: a machine whose speed changes every few seconds hurts both. Forth, back, forth; the first runner is among the
/// others too, for the noise floor.
async fn blocks(
    yard: &Yard<'_>,
    terms: &Terms,
    case: &Case,
    runners: &[Runner<'_>],
) -> anyhow::Result<Vec<Measure>> {
    let Some(first) = runners.first() else { return Ok(Vec::new()) };
    let mut order: Vec<(&Runner<'_>, bool)> = Vec::new();
    for runner in runners {
        let is_again = std::ptr::eq(runner, first);
        order.extend([(first, false), (runner, is_again)]);
    }
    let mut measures = Vec::new();
    let mut place = 0;
    for _ in 0..terms.blocks {
        for (runner, again) in &order {
            let mut measure = block(yard, terms, case, (runner, place)).await?;
            if *again {
                AGAIN.clone_into(&mut measure.phase);
            }
            measures.push(measure);
            place += 1;
        }
        order.reverse();
    }
    Ok(measures)
}

/// The phase of the blocks that show the noise floor.
const AGAIN: &str = "the same again";

async fn block(
    yard: &Yard<'_>,
    terms: &Terms,
    case: &Case,
    (runner, place): (&Runner<'_>, u32),
) -> anyhow::Result<Measure> {
    let name = runner.contender.peer.name();
    let plan = plan(terms, case, &runner.site)?;
    let mut stream = begin(plan)?;
    tokio::time::sleep(WARMING).await;
    tokio::task::block_in_place(|| stream.split())?;
    // The first of them has the others below it.
    let subjects: Vec<_> = runner.proxy.pids().into_iter().take(1).map(Subject::Process).collect();
    let (begun, machine) = (Instant::now(), MachineTime::now());
    let mut meter = Meter::begin(&subjects);
    tokio::time::sleep(Duration::from_secs_f64(terms.seconds)).await;
    let outcome = tokio::task::block_in_place(|| stream.split())?.outcome();
    meter.read(&subjects);
    let stolen = MachineTime::now().stolen_since(machine);
    stream.stop();
    finish(stream).await?;
    let figure = format!(
        "{:.0}/s, p99 {:.1} ms",
        outcome.load.rate,
        outcome.latency.value_at_quantile(0.99) as f64 / 1e3
    );
    yard.progress.say(&format!("capacity: {name}: {}, {} workers: {figure}", case.name, runner.site.workers));
    measure(yard, (runner, &case.name, place), outcome, (meter.spent(), stolen, begun))
}

fn measure(
    yard: &Yard<'_>,
    (runner, case, place): (&Runner<'_>, &str, u32),
    mut outcome: Outcome,
    (spent, stolen, begun): (Spent, f64, Instant),
) -> anyhow::Result<Measure> {
    let (name, workers) = (runner.contender.peer.name(), runner.site.workers);
    let settings = runner.contender.settings;
    let tag = format!("{settings:?}");
    outcome.save(
        &yard.handover.folder,
        &file_name(&["capacity", name, &tag, case, &format!("{workers}-{place}")]),
    )?;
    let (cost, uncosted) = split(spent.cost(outcome.load.counts.ok, "process", "the proxy's processes"));
    Ok(Measure {
        peer: name.to_owned(),
        settings,
        case: case.to_owned(),
        phase: "block".to_owned(),
        beside: None,
        block: Some(place),
        discarded: (stolen > STOLEN).then(|| {
            format!(
                "the hypervisor took {:.0}% of the machine; more than {:.0}% is too much",
                stolen * 100.0,
                STOLEN * 100.0
            )
        }),
        workers: Some(workers),
        begun_s: outcome.begun.saturating_duration_since(begun).as_secs_f64(),
        load: outcome.load,
        cost,
        backstage: Backstage { uncosted, deliveries: None },
    })
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

/// Of every other contender against Fairway, or against the first where Fairway is not among them; and of that one
/// against itself.
fn ratios(measures: &[Measure], case: &Case, workers: u32) -> Vec<Ratio> {
    let Some(base) = measures.iter().find(|one| one.peer == "fairway").or(measures.first()) else {
        return Vec::new();
    };
    let base = (base.peer.clone(), base.settings);
    let mut pairs: Vec<(&str, Settings, &str)> = Vec::new();
    for one in measures {
        let key = (one.peer.as_str(), one.settings, one.phase.as_str());
        if !pairs.contains(&key) && key != (base.0.as_str(), base.1, "block") {
            pairs.push(key);
        }
    }
    let mut found = Vec::new();
    for (figure, of) in FIGURES {
        for (peer, settings, phase) in &pairs {
            let blocks = |name: &str, settings: Settings, phase: &str| -> Vec<Block> {
                let counts = measures.iter().filter(|one| {
                    one.peer == name
                        && one.settings == settings
                        && one.phase == phase
                        && one.discarded.is_none()
                });
                counts.filter_map(|one| Some(Block { place: one.block?, figure: of(one)? })).collect()
            };
            let of_peer = blocks(peer, *settings, phase);
            let Some((median, interval, pairs)) = ratio(&of_peer, &blocks(&base.0, base.1, "block")) else {
                continue;
            };
            found.push(Ratio {
                figure: figure.to_owned(),
                case: case.name.clone(),
                peer: (*peer).to_owned(),
                settings: *settings,
                base: base.0.clone(),
                workers: Some(workers),
                median,
                interval,
                pairs,
            });
        }
    }
    found
}

type Figure = (&'static str, fn(&Measure) -> Option<f64>);

const FIGURES: [Figure; 2] = [
    ("CPU per request", |one| {
        one.cost.as_ref().map(|cost| cost.us_per_request).filter(|figure| *figure > 0.0)
    }),
    ("requests/s", |one| Some(one.load.rate).filter(|figure| *figure > 0.0)),
];

/// The backend of all proxies: this program, in a process of its own. It is ended when it is dropped, so that it does not
/// outlive a run that is interrupted.
struct Backend {
    addresses: Vec<SocketAddr>,
    child: Child,
}

impl Backend {
    fn start(yard: &Yard<'_>, count: usize) -> anyhow::Result<Self> {
        let addresses: Vec<_> = (0..count.max(1)).map(|_| free()).collect::<Result<_, _>>()?;
        let mut command = Command::new(&yard.handover.workshop.laboratory);
        command.arg("backend").args(["--name", "backend"]).stdout(Stdio::null());
        for address in &addresses {
            command.arg("--listen").arg(address.to_string());
        }
        let child = command.spawn().context("start the backend")?;
        let backend = Self { addresses, child };
        backend.wait_for()?;
        Ok(backend)
    }

    fn wait_for(&self) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(10);
        for address in &self.addresses {
            while std::net::TcpStream::connect(address).is_err() {
                anyhow::ensure!(Instant::now() < end, "the backend does not listen on {address}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // It may have ended by itself, by the same signal that interrupts the run.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "the backend cannot be ended");
        }
    }
}
