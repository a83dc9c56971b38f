//! Blocks of runs, own and of a tool in turn, and what they come to.

use fairway_lab_measure::results::Lateness;
use serde::Serialize;

use super::figures::Figures;
use super::tools::{Installed, Task};
use crate::load::{Pace, Plan, Stream};

/// Everything that a cross-check found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Requests a second where there is a rate.
    pub rate: u64,
    /// Of a run.
    pub seconds: u64,
    /// Of each generator.
    pub connections: usize,
    /// How long answers took at the backend.
    pub delay: String,
    /// The noise floor: how far our own runs of a block were apart at most, percent.
    pub noise: Figures,
    /// One for each tool.
    pub blocks: Vec<Block>,
    /// Tools that are not here, and why.
    pub absent: Vec<(String, String)>,
    /// How late the generator itself was at [`Report::lateness_rate`].
    pub lateness: Lateness,
    /// Requests a second.
    pub lateness_rate: u64,
}

/// Four runs: own, tool, tool, own.
#[derive(Debug, Serialize)]
pub struct Block {
    /// The tool.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// `closed loop` or `2000/s`.
    pub case: String,
    /// Our two runs.
    pub own: [Figures; 2],
    /// Its two runs.
    pub other: [Figures; 2],
    /// The tool against us, percent.
    pub disagreement: Figures,
    /// Our second run against our first, percent.
    pub noise: Figures,
}

impl Report {
    /// The largest distance between two runs of ours in a block.
    pub(super) fn floor(blocks: &[Block]) -> Figures {
        blocks.iter().fold(Figures::default(), |floor, block| Figures {
            rate: floor.rate.max(block.noise.rate.abs()),
            p50_ms: floor.p50_ms.max(block.noise.p50_ms.abs()),
            p99_ms: floor.p99_ms.max(block.noise.p99_ms.abs()),
        })
    }
}

impl Block {
    /// Runs the four.
    pub(super) fn run(installed: &Installed, task: &Task) -> anyhow::Result<Self> {
        let has_rate = installed.tool.has_rate();
        let first = Figures::own(&own(task, has_rate.then_some(task.rate))?);
        let other = [installed.run(task)?, installed.run(task)?];
        let last = Figures::own(&own(task, has_rate.then_some(task.rate))?);
        Ok(Self {
            tool: installed.tool.name().to_owned(),
            version: installed.version.clone(),
            case: if has_rate { format!("{}/s", task.rate) } else { "closed loop".to_owned() },
            own: [first, last],
            other,
            disagreement: Figures::mean(other[0], other[1]).against(Figures::mean(first, last)),
            noise: last.against(first),
        })
    }

    /// Whether the rates agree within five percent.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.disagreement.rate.abs() <= 5.0
    }
}

/// One run of the laboratory's own generator; in a closed loop without a rate.
pub(super) fn own(task: &Task, rate: Option<u64>) -> anyhow::Result<crate::load::Outcome> {
    let mut plan = Plan::to(&task.url)?;
    plan.pace = rate.map_or(Pace::Closed, |rate| Pace::Open { rate: rate as f64, poisson: false });
    plan.shape.connections = task.connections;
    plan.bounds.duration = Some(std::time::Duration::from_secs(task.seconds));
    Stream::start(plan)?.join()
}
