//! Blocks of load of `capacity`: their order, and what one of them came to. Never compares them.

use std::time::{Duration, Instant};

use fairway_lab_measure::results::{Backstage, Distance, ENOUGH_PAIRS, Measure};
use fairway_lab_measure::{FIGURES, MachineTime, Meter, Spent, Subject, during};
use fairway_lab_traffic::load::Outcome;

use super::definition::{Case, Parameters, WARMING, odd_handshakes, plan};
use super::ratios::ratios;
use super::runners::{LocalRun, Runner};
use crate::scenario::metering::split;
use crate::scenario::running_peer::{file_name, finish, start as begin};

/// A block is discarded when the hypervisor took more than this part of the machine's time.
const STOLEN: f64 = 0.05;

/// The phase of the blocks that show the noise floor.
const AGAIN: &str = "the same again";

/// The blocks of a case from this place on. Every other block is the first runner's, so that each block of another has one of it right beside
/// both sides of it: a machine whose speed changes every few seconds hurts both, or is seen. Forth, back, forth; the first
/// runner is among the others too, for the noise floor, and closes the order. Before that, those of whom too few pairs count
/// have more blocks.
pub(super) async fn blocks(
    local: &LocalRun<'_>,
    parameters: &Parameters,
    case: &Case,
    runners: &[Runner<'_>],
    place: &mut u32,
) -> anyhow::Result<Vec<Measure>> {
    let Some(first) = runners.first() else { return Ok(Vec::new()) };
    let mut order: Vec<(&Runner<'_>, bool)> = Vec::new();
    for runner in runners {
        let is_again = std::ptr::eq(runner, first);
        order.extend([(first, false), (runner, is_again)]);
    }
    let mut measures = Vec::new();
    for _ in 0..parameters.blocks {
        for (runner, again) in &order {
            let mut measure = block(local, parameters, case, runner, *place).await?;
            if *again {
                AGAIN.clone_into(&mut measure.phase);
            }
            measures.push(measure);
            *place += 1;
        }
        order.reverse();
    }
    for _ in 0..parameters.more_blocks {
        let lacking = lacking(runners, &measures, case);
        if lacking.is_empty() {
            break;
        }
        for runner in lacking {
            for (runner, phase) in [(first, None), (runner, std::ptr::eq(runner, first).then_some(AGAIN))] {
                let mut measure = block(local, parameters, case, runner, *place).await?;
                measure.phase = phase.map_or(measure.phase, str::to_owned);
                measures.push(measure);
                *place += 1;
            }
        }
    }
    measures.push(block(local, parameters, case, first, *place).await?);
    *place += 1;
    Ok(measures)
}

/// Those of whom fewer pairs count than a ratio needs, in the state of the CPUs in which there are most.
fn lacking<'r, 'a>(runners: &'r [Runner<'a>], measures: &[Measure], case: &Case) -> Vec<&'r Runner<'a>> {
    let workers = runners.first().map_or(0, |first| first.site.workers);
    let (found, _) = ratios(measures, &case.name, workers);
    let of_cost = || found.iter().filter(|ratio| ratio.figure == FIGURES[0].name);
    let pairs = |name: &str| of_cost().filter(|ratio| ratio.peer == name).map(|ratio| ratio.pairs).max();
    let is_lacking = |runner: &&Runner<'_>| pairs(runner.contender.peer.name()) < Some(ENOUGH_PAIRS);
    runners.iter().filter(is_lacking).collect()
}

async fn block(
    local: &LocalRun<'_>,
    parameters: &Parameters,
    case: &Case,
    runner: &Runner<'_>,
    place: u32,
) -> anyhow::Result<Measure> {
    let name = runner.contender.peer.name();
    let plan = plan(parameters, case, &runner.site)?;
    let before = runner.distance();
    let mut stream = begin(plan)?;
    tokio::time::sleep(WARMING).await;
    let warming = tokio::task::block_in_place(|| stream.split())?.outcome().load;
    // The first of them has the others below it.
    let subjects: Vec<_> = runner.proxy.pids().into_iter().take(1).map(Subject::Process).collect();
    let (begun, machine) = (Instant::now(), MachineTime::now());
    let mut meter = Meter::begin(&subjects);
    tokio::time::sleep(Duration::from_secs_f64(parameters.seconds)).await;
    let mut outcome = tokio::task::block_in_place(|| stream.split())?.outcome();
    meter.read(&subjects);
    let stolen = MachineTime::now().stolen_since(machine);
    stream.stop();
    finish(stream).await?;
    let distance = before.zip(runner.distance()).map(|(before, after)| during(before, after));
    let figure = format!(
        "{:.0}/s, p99 {:.1} ms",
        outcome.load.rate,
        outcome.latency.value_at_quantile(0.99) as f64 / 1e3
    );
    local
        .progress
        .say(&format!("capacity: {name}: {}, {} workers: {figure}", case.name, runner.site.workers));
    // Connections that stay open were opened before the block.
    outcome.load.tls = outcome.load.tls.or(warming.tls);
    let handshakes = odd_handshakes(case, [&warming.counts, &outcome.load.counts], outcome.load.tls.as_ref());
    let conditions = Conditions { stolen, distance, handshakes };
    let finished = Finished { outcome, spent: meter.spent(), conditions, begun };
    measure(local, runner, &case.name, place, finished)
}

fn measure(
    local: &LocalRun<'_>,
    runner: &Runner<'_>,
    case: &str,
    place: u32,
    finished: Finished,
) -> anyhow::Result<Measure> {
    let Finished { mut outcome, spent, conditions, begun } = finished;
    let (name, workers) = (runner.contender.peer.name(), runner.site.workers);
    let settings = runner.contender.settings;
    let tag = format!("{settings:?}");
    outcome.save(
        &local.handover.folder,
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
        discarded: conditions.complaint(),
        workers: Some(workers),
        begun_s: outcome.begun.saturating_duration_since(begun).as_secs_f64(),
        load: outcome.load,
        cost,
        backstage: Backstage {
            uncosted,
            deliveries: None,
            distance: conditions.distance.and_then(Result::ok),
        },
    })
}

/// A block that has ended.
struct Finished {
    outcome: Outcome,
    spent: Spent,
    conditions: Conditions,
    begun: Instant,
}

/// What the machine was like during a block.
struct Conditions {
    stolen: f64,
    distance: Option<Result<Distance, String>>,
    /// Why its handshakes are not those of its case, if they are not.
    handshakes: Option<String>,
}

impl Conditions {
    /// Why the block does not count, if it does not.
    fn complaint(&self) -> Option<String> {
        if self.stolen > STOLEN {
            return Some(format!(
                "the hypervisor took {:.0}% of the machine; more than {:.0}% is too much",
                self.stolen * 100.0,
                STOLEN * 100.0
            ));
        }
        let moved = self.distance.as_ref().and_then(|distance| distance.as_ref().err().cloned());
        moved.or_else(|| self.handshakes.clone())
    }
}
