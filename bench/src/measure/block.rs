//! Interleaved blocks. In every round each proxy gets one block, forwards in even rounds and backwards in odd ones
//! (A B B A), so that what drifts on the machine falls on all alike; ratios are taken within a round.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_lab_measure::{CpuTime, Distance, MachineTime, during};

use super::handshakes::Handshakes;
use crate::load::{Ask, Generator, Tally, send};
use crate::running_proxy::{RunningProxy, sleep_after_check};
use crate::scenario::{Load, Scenario};

/// Load before the clock starts: pools fill, caches and branch predictors warm.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long to wait after the last response, while the proxy still cleans up, before its CPU time is read.
const SETTLE_TIME: Duration = Duration::from_millis(10);
/// A block during which the hypervisor took more than this share of the machine is discarded.
const STOLEN_AT_MOST: f64 = 0.02;

/// The effort of a measurement.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Effort {
    pub(crate) blocks: usize,
    pub(crate) seconds: f64,
}

/// Latency from the send time in a closed loop, microseconds.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// Other activity of the machine.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Around {
    /// The share of the machine that the hypervisor took.
    pub(crate) stolen: f64,
    /// The share of a CPU that generator and backend used together.
    pub(crate) generator_busy: f64,
}

#[derive(serde::Serialize)]
pub(crate) struct Block {
    pub(crate) round: usize,
    pub(crate) peer: String,
    pub(crate) requests: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) seconds: f64,
    pub(crate) cpu: CpuTime,
    pub(crate) latency_us: Latency,
    #[serde(flatten)]
    pub(crate) around: Around,
    /// The distance of the CPUs before and after.
    pub(crate) distance: Distance,
    pub(crate) distance_ns: [Option<f64>; 2],
    /// The handshakes of the block's connections; `None` without TLS.
    pub(crate) handshakes: Option<Handshakes>,
    /// Why this block is discarded; `None` if it counts.
    pub(crate) discarded: Option<String>,
}

impl Block {
    /// Microseconds of the proxy's CPU time per answered request.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.total_ns as f64 / 1000.0 / self.requests.max(1) as f64
    }

    /// Responses per second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }
}

/// The name of a peer's second block in a round.
pub(crate) fn repeat_command(peer: &str) -> String {
    format!("{peer} again")
}

/// Measures every proxy in every round. The first of `proxies` runs again as `... again`: the difference between the two is
/// the noise of the method.
///
/// After the requested rounds, up to half as many follow while `are_few` returns true. It may look at the number of blocks,
/// never at their figures: stopping at a figure one likes would be a bias.
pub(crate) fn blocks(
    scenario: &Scenario,
    proxies: &mut [(String, RunningProxy)],
    effort: Effort,
    are_few: impl Fn(&[Block]) -> bool,
) -> anyhow::Result<Vec<Block>> {
    let mut order: Vec<(usize, String)> =
        proxies.iter().enumerate().map(|(index, (name, _))| (index, name.clone())).collect();
    order.push((0, repeat_command(&proxies[0].0)));
    let mut blocks: Vec<Block> = Vec::new();
    for round in 0..effort.blocks + effort.blocks / 2 {
        if round >= effort.blocks && !are_few(&blocks) {
            break;
        }
        let mut line = format!("  {} {}/{}:", scenario.name, round + 1, effort.blocks);
        for (index, name) in &order {
            let block = Measurement::take(scenario, &mut proxies[*index].1, effort)?.into_block(round, name);
            let mark = if block.discarded.is_some() { "!" } else { "" };
            line += &format!(" {name} {:.1}{mark}", block.cpu_us());
            blocks.push(block);
        }
        eprintln!("{line}");
        order.reverse();
    }
    Ok(blocks)
}

/// Measures one block, before it is checked.
struct Measurement {
    tally: Tally,
    cpu: CpuTime,
    generator_cpu: CpuTime,
    stolen: f64,
    distance: [Distance; 2],
    distance_ns: [Option<f64>; 2],
    obituary: Option<String>,
    are_to_resume: bool,
}

impl Measurement {
    fn take(scenario: &Scenario, proxy: &mut RunningProxy, effort: Effort) -> anyhow::Result<Self> {
        let before_ns = proxy.placement.probe();
        let ask = request_for(scenario, proxy);
        send(&ask, WARM_UP)?;
        let mut generator = Generator::open(&ask, Duration::from_secs_f64(effort.seconds))?;
        sleep_after_check(SETTLE_TIME)?;
        let own_cpu = || CpuTime::for_processes(&[std::process::id()]);
        let (cpu, generator_cpu, machine) =
            (CpuTime::for_processes(&proxy.processes), own_cpu(), MachineTime::now());
        generator.run()?;
        sleep_after_check(SETTLE_TIME)?;
        let cpu = CpuTime::for_processes(&proxy.processes).since(cpu);
        let generator_cpu = own_cpu().since(generator_cpu);
        let stolen = MachineTime::now().stolen_since(machine);
        let tally = generator.end()?;
        let distance_ns = [before_ns, proxy.placement.probe()];
        let distance = distance_ns.map(|ns| proxy.placement.distance(ns));
        let (obituary, are_to_resume) = (proxy.obituary(), scenario.load == Load::Resumed);
        Ok(Self { tally, cpu, generator_cpu, stolen, distance, distance_ns, obituary, are_to_resume })
    }

    fn into_block(self, round: usize, peer: &str) -> Block {
        let discarded = self.verdict();
        let Self { tally, cpu, generator_cpu, stolen, distance, distance_ns, .. } = self;
        let (latency, seconds) = (&tally.outcome.latency, tally.outcome.load.seconds);
        let handshakes = Handshakes::from_outcome(&tally.outcome);
        Block {
            round,
            peer: peer.to_owned(),
            requests: tally.requests,
            errors: tally.errors,
            seconds,
            cpu,
            latency_us: Latency {
                p50: latency.value_at_quantile(0.5),
                p99: latency.value_at_quantile(0.99),
                max: latency.max(),
            },
            around: Around {
                stolen,
                generator_busy: generator_cpu.total_ns as f64 / 1e9 / seconds.max(1e-9),
            },
            distance: if distance[0] == Distance::Unknown { distance[1] } else { distance[0] },
            distance_ns,
            handshakes,
            discarded,
        }
    }

    fn verdict(&self) -> Option<String> {
        let failed = self.tally.failed();
        if self.obituary.is_some() {
            return self.obituary.clone();
        }
        if failed > 0 || self.tally.requests == 0 {
            return Some(format!("{failed} requests failed, {} were answered", self.tally.requests));
        }
        if let Some(why) = Handshakes::from_outcome(&self.tally.outcome)
            .and_then(|these| these.objection(self.are_to_resume))
        {
            return Some(why);
        }
        if self.stolen > STOLEN_AT_MOST {
            return Some(format!("{:.1}% of the machine was stolen", self.stolen * 100.0));
        }
        during(self.distance[0], self.distance[1]).err()
    }
}

/// The load of a scenario's clients on a proxy.
pub(super) fn request_for(scenario: &Scenario, proxy: &RunningProxy) -> Ask {
    Ask {
        address: if scenario.tls.is_some() { proxy.site.https } else { proxy.site.http },
        // A peer that shows the cost of a protocol gets a different load.
        scenario: Scenario { downstream: proxy.site.scenario.downstream, ..*scenario },
        announces_length: proxy.site.announces_length,
    }
}
