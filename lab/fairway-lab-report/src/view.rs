//! A scenario for the template: its run as in the file, without data only needed by plots, and its pooled streams.

use std::collections::{BTreeMap, BTreeSet};

use fairway_lab_measure::results::{Class, Delivered, Deliveries, Lateness, Load, Measure, Propagation, Run};
use minijinja::value::Serde;
use minijinja::{Value, context};

use super::merge::{Scenario, distinct};
use super::number::{self, TOO_FEW};
use super::palette::Palette;
use super::pool::{ENOUGH_ABOVE, Pool, case_title, pools_by_phase, pools_of_run};
use super::{effects, latency_over_time, plots, poisson};

/// Error classes shown even without errors: their absence is a finding.
const SHOWN_CLASSES: [Class; 5] =
    [Class::ConnectRefused, Class::ConnectTimeout, Class::ReadReset, Class::ReadEof, Class::HeadTimeout];

/// The section of a scenario. Notices say that its revision had changes, or is outdated.
pub(super) fn scenario_view(scenario: &Scenario, notices: Vec<String>, palette: &Palette) -> Value {
    let pools = pools_of_run(scenario, palette);
    let mut classes: BTreeSet<Class> = SHOWN_CLASSES.into();
    classes.extend(pools.iter().flat_map(|pool| pool.errors().into_keys()));
    let mut phases = pools_by_phase(scenario, palette);
    if distinct(phases.iter().map(|pool| pool.phase)).len() < 2 {
        phases.clear();
    }
    let run = without_latencies(scenario, palette);
    context! {
        title => scenario.title(),
        // Why it is not one with the part before it.
        apart => &scenario.apart,
        notices,
        rounds => scenario.rounds(),
        pools => pools.iter().map(streams).collect::<Vec<_>>(),
        phases => phases.iter().map(streams).collect::<Vec<_>>(),
        classes => Serde(classes),
        // By how much each spike was above the direct stream.
        above => run.spikes.iter().map(effects::above_direct).collect::<Vec<_>>(),
        times => run.propagations.iter().map(effects::times).collect::<Vec<_>>(),
        notes => Serde(collect_notes(scenario)),
        uncounted => uncounted_reasons(scenario),
        generator => generator(scenario),
        percentiles => plots::percentiles(&pools, palette),
        over_time => latency_over_time::over_time(scenario, palette),
        distributions => effects::distributions(scenario, palette),
        run => Serde(run),
    }
}

/// Spikes and times of propagation in the order of cases, settings and peers.
fn without_latencies(scenario: &Scenario, palette: &Palette) -> Run {
    let mut run = Run::clone(scenario);
    for measure in &mut run.measures {
        let Load { offered, examples, .. } = std::mem::take(&mut measure.load);
        measure.load = Load { offered, examples, ..Load::default() };
    }
    let cases = distinct(scenario.spikes.iter().map(|spike| &spike.case));
    let position = |cases: &[&String], case: &String| cases.iter().position(|known| *known == case);
    run.spikes
        .sort_by_key(|spike| (position(&cases, &spike.case), spike.settings, palette.position(&spike.peer)));
    let cases = distinct(scenario.propagations.iter().map(|entry| &entry.case));
    run.propagations.sort_by_key(|entry: &Propagation| {
        (position(&cases, &entry.case), entry.settings, palette.position(&entry.peer))
    });
    run
}

/// A pool with its figures.
fn streams(pool: &Pool<'_>) -> Value {
    let heading = case_title(pool.case, pool.settings);
    let tails: BTreeMap<_, _> =
        pool.percentiles().into_iter().map(|tail| (tail.percent.to_string(), tail)).collect();
    context! {
        case => pool.case,
        part => if pool.phase.is_empty() { heading } else { format!("{heading}: {}", pool.phase) },
        peer => pool.peer,
        settings => Serde(pool.settings),
        rate => pool.rate(),
        ok => pool.measures.iter().map(|entry| entry.load.counts.ok).sum::<u64>(),
        failed => pool.failed(),
        requests => pool.requests(),
        loss => poisson::rate_of_loss(pool.failed(), pool.requests()),
        tails => Serde(tails),
        highest => pool.highest(),
        cpu => pool.cpu(),
        cpus => pool.cpus(),
        memory => pool.memory(),
        handshakes => pool.handshakes(),
        gigabits => pool.gigabits(),
        errors => Serde(pool.errors()),
        delivered => Serde(delivered(pool)),
    }
}

/// The total, if all were counted: a partial count would look like the total.
fn delivered(pool: &Pool<'_>) -> Option<Delivered> {
    pool.measures.iter().try_fold(Delivered::default(), |sum, measure| match &measure.backstage.deliveries {
        Some(Deliveries::Counted(delivered)) => Some(sum.and(delivered)),
        Some(Deliveries::Uncounted { .. }) | None => None,
    })
}

/// Why it is not known what backends saw; nothing where no stream had ids.
fn uncounted_reasons(run: &Run) -> Vec<String> {
    if run.measures.iter().all(|measure| measure.backstage.deliveries.is_none()) {
        return Vec::new();
    }
    let reasons = run.measures.iter().filter_map(|measure| match &measure.backstage.deliveries {
        Some(Deliveries::Uncounted { reason }) => Some((&measure.peer, reason.as_str())),
        None => Some((&measure.peer, "its requests carried no ids")),
        Some(Deliveries::Counted(_)) => None,
    });
    distinct(reasons).into_iter().map(|(peer, reason)| format!("Not counted for {peer}: {reason}.")).collect()
}

/// Notes about CPU figures that are not the kernel's counters or could not be read.
fn collect_notes(run: &Run) -> BTreeSet<String> {
    let cost_of = |measure: &Measure| match (&measure.cost, &measure.backstage.uncosted) {
        (Some(cost), _) if cost.source == "kubelet" => Some(format!(
            "{}: CPU is from the counters of its pods' kubelets, which are renewed every 10 s or so: the mean between the \
             samples, taken for the whole. It is coarser than what is read from cgroups.",
            measure.peer
        )),
        (None, Some(reason)) => {
            let Measure { peer, case, phase, .. } = measure;
            Some(format!("{peer}: no figure of CPU in {case}, {phase}: {reason}."))
        }
        _ => None,
    };
    run.measures.iter().filter_map(cost_of).collect()
}

/// The generator's own figures for each stream: offered load, lateness, negotiated TLS.
fn generator(run: &Run) -> Vec<Value> {
    let key = |measure: &Measure| {
        let sort_key = (measure.case.clone(), measure.peer.clone(), measure.settings);
        (sort_key, measure.phase.clone(), measure.beside.clone(), tls(measure), cost_source(measure))
    };
    let blocks_of = |entry| run.measures.iter().filter(|measure| key(measure) == entry).collect::<Vec<_>>();
    distinct(run.measures.iter().map(key)).into_iter().map(|entry| stream(&blocks_of(entry))).collect()
}

/// The blocks of one stream, of which there is at least one. Of lateness the worst block counts.
fn stream(blocks: &[&Measure]) -> Value {
    let worst = |percent: f64, field: fn(&Lateness) -> f64| {
        let stands = |block: &&&Measure| {
            let above = block.load.counts.requests as f64 * (1.0 - percent / 100.0);
            above >= ENOUGH_ABOVE as f64 || percent >= 100.0
        };
        blocks.iter().filter(stands).map(|block| field(&block.load.lateness)).reduce(f64::max)
    };
    let sent = |block: &&Measure| {
        let p99 = block.load.service.percentiles.iter().find(|point| (point.percent - 99.0).abs() < 1e-9);
        p99.filter(|point| point.above >= ENOUGH_ABOVE).map(|point| point.ms)
    };
    let late = [
        worst(50.0, |late| late.p50_ms),
        worst(99.0, |late| late.p99_ms),
        worst(99.9, |late| late.p999_ms),
        worst(100.0, |late| late.max_ms),
        blocks.iter().filter_map(sent).reduce(f64::max),
    ];
    let (measure, offered) = (blocks[0], &blocks[0].load.offered);
    let figures = [
        blocks.len().to_string(),
        offered.rate.map_or_else(|| "closed loop".to_owned(), number::figure),
        number::count(offered.connections.into()),
        offered.threads.to_string(),
        number::figure(blocks.iter().map(|block| block.load.seconds).sum()),
    ];
    let late = late.map(|ms| ms.map_or_else(|| TOO_FEW.to_owned(), number::figure));
    context! {
        case => &measure.case,
        peer => &measure.peer,
        settings => Serde(measure.settings),
        phase => &measure.phase,
        figures => figures.into_iter().chain(late).collect::<Vec<_>>(),
        tls => tls(measure),
        cost => cost_source(measure),
    }
}

/// TLS as it was negotiated.
fn tls(measure: &Measure) -> String {
    measure.load.tls.as_ref().map_or_else(
        || "none".to_owned(),
        |tls| {
            let key = tls.key.as_deref().unwrap_or("key unknown");
            let group = tls.group.as_deref().unwrap_or("group unknown");
            format!("{} {} {group} {key} {}", tls.version, tls.cipher, tls.protocol)
        },
    )
}

/// The source of CPU figures.
fn cost_source(measure: &Measure) -> String {
    match (&measure.cost, &measure.backstage.uncosted) {
        (Some(cost), _) => {
            let covered = cost
                .covered
                .map(|part| format!(", samples cover {:.0}% of the time", part * 100.0))
                .unwrap_or_default();
            format!("{}, {}{covered}", cost.source, cost.of)
        }
        (None, Some(reason)) => format!("not read: {reason}"),
        (None, None) => number::UNKNOWN.to_owned(),
    }
}
