//! The arguments of `fairway-lab crosscheck`, and its order of runs. Never parses what tools print.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::block::{Block, Report, own};
use super::tools::{Task, Tool};
use crate::backend::{Delay, Spawned};

/// Arguments of `fairway-lab crosscheck`.
#[derive(clap::Args)]
pub struct CrosscheckArguments {
    /// Requests a second of the tools that can keep a rate; a multiple of --connections, because hey and h2load have a rate
    /// for each connection.
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Seconds of a run; there are four for each tool.
    #[arg(long, default_value_t = 10)]
    duration: u64,
    /// Connections of each generator.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// How long answers take, as `fairway-lab backend` has it. hey and h2load send from all connections at the same moment,
    /// and hey prints tenths of milliseconds: without a delay their latency is that of their bursts, and wrk's that of a
    /// backend that is overloaded.
    #[arg(long, default_value = "5ms")]
    delay: String,
    /// Requests a second at which the generator's own lateness is measured.
    #[arg(long, default_value_t = 5_000)]
    lateness_rate: u64,
    /// Write everything as JSON to a file, or with - to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl CrosscheckArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::ensure!(
            self.connections > 0 && self.duration > 0,
            "--connections and --duration must be above 0"
        );
        anyhow::ensure!(
            self.rate > 0 && self.rate.is_multiple_of(self.connections as u64),
            "--rate {} is not a multiple of --connections {}: hey and h2load have a rate for each connection",
            self.rate,
            self.connections
        );
        self.delay.parse::<Delay>().map_err(|error| anyhow::anyhow!("--delay: {error}"))?;
        let program = std::env::current_exe().context("find this program")?;
        let backend = Spawned::start(&program, 1, &["--delay", &self.delay])?;
        let report = self.report(&format!("http://{}/", backend.addresses()[0]))?;
        drop(backend);
        self.write(&report)?;
        let is_good = report.blocks.iter().all(Block::agrees);
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn report(&self, url: &str) -> anyhow::Result<Report> {
        let (mut blocks, mut absent) = (Vec::new(), Vec::new());
        let task = Task {
            url: url.to_owned(),
            rate: self.rate,
            seconds: self.duration,
            connections: self.connections,
        };
        for tool in Tool::ALL {
            let block = tool.find().and_then(|installed| {
                // Progress that nobody can read is no reason to end.
                _ = writeln!(io::stderr(), "{} ({})", tool.name(), installed.version);
                Block::run(&installed, &task)
            });
            match block {
                Ok(block) => blocks.push(block),
                Err(error) => absent.push((tool.name().to_owned(), format!("{error:#}"))),
            }
        }
        let lateness = own(&task, Some(self.lateness_rate))?.load.lateness;
        Ok(Report {
            rate: self.rate,
            seconds: self.duration,
            connections: self.connections,
            delay: self.delay.clone(),
            noise: Report::floor(&blocks),
            blocks,
            absent,
            lateness,
            lateness_rate: self.lateness_rate,
        })
    }

    fn write(&self, report: &Report) -> anyhow::Result<()> {
        let json = || serde_json::to_vec_pretty(report).context("turn the result into JSON");
        match &self.json {
            Some(place) if place.as_os_str() == "-" => {
                io::stdout().write_all(&json()?).context("write the JSON to standard output")
            }
            Some(place) => {
                std::fs::write(place, json()?).with_context(|| {
                    format!("--json {}: the file is not complete; is the disk full?", place.display())
                })?;
                write!(io::stdout(), "{report}").context("write the table")
            }
            None => write!(io::stdout(), "{report}").context("write the table"),
        }
    }
}
