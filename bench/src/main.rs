//! `fairway-bench`: the CPU time a proxy spends per request, compared with nginx, HAProxy, Envoy and a bare epoll floor.
//!
//! Owns the command line. `campaign` is a complete run; `peers` start proxies, `load` and `backend` are both ends of the
//! wire, `measure` alternates the blocks, `report` writes the results. Uses loopback only. Load generation and measurement
//! are the laboratory's.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool: table on one, progress on the other"
)]

mod backend;
mod body;
mod campaign;
mod collector;
mod credential;
mod extension;
mod interrupt;
mod load;
mod measure;
mod peers;
mod pinning;
mod proofs;
mod report;
mod running_proxy;
mod scenario;
mod site;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fairway_testkit::proof::floods::Kind;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::campaign::Campaign;
use crate::measure::Effort;
use crate::peers::Binaries;
use crate::pinning::{Pin, Placement};
use crate::proofs::{
    ChangesArguments, CheckArguments, ChurnArguments, CompareArguments, FloodsArguments, KillArguments,
    RoutesArguments, ScaleArguments, SpreadArguments,
};

/// The paired benchmark: microseconds of the proxy's CPU time per answered request.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure proxies side by side in interleaved blocks; a table on stdout, every block in a JSON file.
    Run(RunArguments),
    /// Requests while endpoints go 5 -> 7 -> 5: no GET may fail, no POST may arrive twice.
    Churn(ChurnArguments),
    /// Time until every worker serves a changed file, and how many connections changes close.
    Changes(ChangesArguments),
    /// The cost of thousands of Ingresses, and of a change in one of them.
    Scale(ScaleArguments),
    /// The cost of 100,000 routes, from a directory and from an API server, and of a change in one.
    Routes(RoutesArguments),
    /// Time and memory of `fairway check` for the manifests of thousands of Ingresses.
    Check(CheckArguments),
    /// Time of `fairway compare` for thousands of Ingresses, and whether it reports differences where there are none.
    Compare(CompareArguments),
    /// kill -9 of a backend in the middle of its response: what clients see.
    Kill(KillArguments),
    /// Attacks of every kind: the cost for the proxy and its other clients, and the time to recover.
    Floods(FloodsArguments),
    /// A few long HTTP/2 connections: how many each worker has, and its load.
    Spread(SpreadArguments),
    /// List scenarios, peers and floods.
    List,
}

#[derive(Args)]
struct RunArguments {
    /// Scenarios, by name or by the beginning of a name, separated by commas [default: all].
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Peers, comma-separated [default: all]. nginx and haproxy are today's (`make lab-peers`); `nginx@1.22` or
    /// `nginx@system` is another release.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Blocks for each peer and scenario. From 15 on, up to half as many follow where a peer has fewer than 15 pairs.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=200))]
    blocks: u16,
    /// Seconds of load in a block. The machine varies from block to block, so more blocks help more than longer ones.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// A smoke test: two blocks of 0.3 s and at most 500 idle connections. Its figures mean little.
    #[arg(long)]
    quick: bool,
    /// Which CPUs the proxies and the generator run on.
    #[arg(long, value_enum, default_value_t = Pin::Apart)]
    pin: Pin,
    /// Worker threads or processes of each proxy: the processors that Go's proxies use (GOMAXPROCS).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// The Fairway to measure.
    #[arg(long, default_value = "target/release/fairway")]
    fairway: PathBuf,
    /// Path of the JSON results.
    #[arg(long, default_value = "target/bench/cpu.json")]
    out: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 60".to_owned()),
    }
}

fn main() -> anyhow::Result<()> {
    interrupt::watch()?;
    match CommandLine::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::Churn(arguments) => proofs::churn(&arguments),
        Command::Changes(arguments) => proofs::changes(&arguments),
        Command::Scale(arguments) => proofs::scale(&arguments),
        Command::Routes(arguments) => proofs::routes(&arguments),
        Command::Check(arguments) => proofs::check(&arguments),
        Command::Compare(arguments) => proofs::compare(&arguments),
        Command::Kill(arguments) => proofs::kill(&arguments),
        Command::Floods(arguments) => proofs::floods(&arguments),
        Command::Spread(arguments) => proofs::spread(&arguments),
        Command::List => {
            println!("scenarios: {}", scenario::ALL.map(|scenario| scenario.name).join(", "));
            println!(
                "peers: {}",
                peers::with_variants().map(|peer| peer.name).collect::<Vec<_>>().join(", ")
            );
            let floods: Vec<_> = Kind::value_variants().iter().map(|kind| kind.name()).collect();
            println!("floods: {}", floods.join(", "));
            Ok(())
        }
    }
}

fn run(arguments: &RunArguments) -> anyhow::Result<()> {
    let mut scenarios = scenario::matching_scenarios(&arguments.scenario)?;
    let mut effort = Effort { blocks: arguments.blocks.into(), seconds: arguments.seconds };
    if arguments.quick {
        effort = Effort { blocks: 2, seconds: 0.3 };
        scenarios.iter_mut().for_each(|scenario| scenario.connections = scenario.connections.min(500));
    }
    report::is_writable(&arguments.out)?;
    allow_many_files();
    let campaign = Campaign::prepare(
        &arguments.peers,
        &binaries(&arguments.fairway)?,
        effort,
        Placement { pin: arguments.pin, workers: arguments.workers.into() }.possible(),
    )?;
    let report = campaign.run(&scenarios)?;
    report::print(&report);
    report::write(&report, &arguments.out)
}

fn binaries(fairway: &Path) -> anyhow::Result<Binaries> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(Binaries {
        fairway: fairway.to_owned(),
        floor: std::env::current_exe()?.with_file_name("floor"),
        cache: cache.join("fairway-bench"),
        current: cache.join("fairway").join("lab"),
    })
}

/// The idle scenarios need more open files than the usual soft limit; the proxies inherit the limit.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        eprintln!("the limit of open files stays at {:?}: {error}", limit.current);
    }
}
