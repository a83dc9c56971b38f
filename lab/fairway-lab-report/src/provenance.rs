//! What a reader needs to repeat or doubt a figure: machine, programs, parameters, what was shortened, discarded blocks,
//! absent peers, the generator's own lateness, configurations, limitations. Never a figure of a peer.

use std::collections::BTreeSet;

use fairway_lab_measure::results::{
    Completeness, Environment, Lateness, Measure, PeerKind, PeerRecord, Results,
};

use super::builder::{Block, PageBuilder};
use super::gather::Scenario;
use super::number::{self, TOO_FEW, UNKNOWN};
use super::pool::{ENOUGH_ABOVE, distinct, titled};
use super::table::{Cell, Table};

/// What is not complete: which run, and why.
pub(super) fn partial(all: &[Results]) -> Vec<(String, &str)> {
    let mut partial = Vec::new();
    for results in all {
        if let Completeness::Partial { reason } = &results.completeness {
            let which = if all.len() > 1 {
                format!("What began {} is partial: ", results.begun)
            } else {
                "Partial: ".to_owned()
            };
            partial.push((which, reason.as_str()));
        }
    }
    partial
}

/// The parameters of the paper and ours, and what was shortened.
pub(super) fn parameters(run: &Scenario, builder: &mut PageBuilder<'_>) {
    builder.list("Shortened in this run", &run.shortened);
    let mut table = Table::new("Parameters", &["parameter", "the paper's", "this run's"]);
    for parameter in &run.parameters {
        table.row(vec![
            Cell::Text(parameter.name.clone()),
            Cell::Text(parameter.paper.clone()),
            Cell::Text(parameter.used.clone()),
        ]);
    }
    if !table.is_empty() {
        builder.folded("Parameters: the paper's and ours", |builder| builder.table(table));
    }
}

/// Blocks that do not count, with the reason.
pub(super) fn discarded(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let columns = ["case", "peer", "phase", "#block", "#began at s", "reason"];
    let mut table = Table::new("Discarded blocks", &columns);
    for measure in &run.measures {
        let Some(reason) = &measure.discarded else { continue };
        table.row(vec![
            Cell::Text(measure.case.clone()),
            builder.palette.cell(&measure.peer, measure.settings),
            Cell::Text(measure.phase.clone()),
            Cell::Number(measure.block.map_or_else(|| UNKNOWN.to_owned(), |block| block.to_string())),
            Cell::Number(number::figure(measure.begun_s)),
            Cell::Text(reason.clone()),
        ]);
    }
    if table.is_empty() {
        builder.note("No block was discarded.");
        return;
    }
    let heading = format!(
        "Discarded: {} of {} streams",
        run.measures.iter().filter(|measure| measure.discarded.is_some()).count(),
        run.measures.len()
    );
    builder.folded(&heading, |builder| builder.table(table));
}

/// What the generator did itself: what it offered, how late it was, TLS as negotiated.
pub(super) fn generator(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let columns = [
        "case",
        "peer",
        "phase",
        "#blocks",
        "#offered/s",
        "#connections",
        "#threads",
        "#seconds",
        "#late p50 ms",
        "#late p99 ms",
        "#late p99.9 ms",
        "#late max ms",
        "#p99 ms from sending",
        "TLS",
        "CPU read from",
    ];
    let mut table = Table::new("The generator, stream by stream", &columns);
    let key = |measure: &Measure| {
        let place = (measure.case.clone(), measure.workers, measure.peer.clone(), measure.settings);
        (place, measure.phase.clone(), measure.beside.clone(), tls(measure), cost_source(measure))
    };
    for one in distinct(run.measures.iter().map(key)) {
        let blocks: Vec<&Measure> = run.measures.iter().filter(|measure| key(measure) == one).collect();
        table.row(stream(&blocks, builder));
    }
    if !table.is_empty() {
        builder.folded("The generator: what it offered, its own lateness, TLS as negotiated", |builder| {
            builder.reading("Lateness is how long after its time a request was handed to a free connection by the generator itself. Where it nears the latencies above, those are the generator's and not the peer's. Waiting for a free connection is latency and not in here. The p99 from sending counts from when a request was written: what tools report that wait for a connection first. Where a stream has several blocks, seconds are their sum and latenesses and the p99 are those of the worst block.");
            builder.table(table);
        });
    }
}

/// A row for the blocks of one stream, of which there is at least one.
fn stream(blocks: &[&Measure], builder: &PageBuilder<'_>) -> Vec<Cell> {
    let measure = blocks[0];
    let load = &measure.load;
    let worst = |percent: f64, of: fn(&Lateness) -> f64| {
        let stands = |block: &&&Measure| {
            block.load.counts.requests as f64 * (1.0 - percent / 100.0) >= ENOUGH_ABOVE as f64
                || percent >= 100.0
        };
        let latest = blocks.iter().filter(stands).map(|block| of(&block.load.lateness)).reduce(f64::max);
        Cell::Number(latest.map_or_else(|| TOO_FEW.to_owned(), number::figure))
    };
    let sent = |block: &&Measure| {
        let p99 = block.load.service.percentiles.iter().find(|point| (point.percent - 99.0).abs() < 1e-9);
        p99.filter(|point| point.above >= ENOUGH_ABOVE).map(|point| point.ms)
    };
    vec![
        Cell::Text(titled(&measure.case, measure.workers)),
        builder.palette.cell(&measure.peer, measure.settings),
        Cell::Text(measure.phase.clone()),
        Cell::Number(blocks.len().to_string()),
        Cell::Number(load.offered.rate.map_or_else(|| "closed loop".to_owned(), number::figure)),
        Cell::Number(number::count(load.offered.connections.into())),
        Cell::Number(load.offered.threads.to_string()),
        Cell::Number(number::figure(blocks.iter().map(|block| block.load.seconds).sum())),
        worst(50.0, |late| late.p50_ms),
        worst(99.0, |late| late.p99_ms),
        worst(99.9, |late| late.p999_ms),
        worst(100.0, |late| late.max_ms),
        Cell::Number(
            blocks
                .iter()
                .filter_map(sent)
                .reduce(f64::max)
                .map_or_else(|| TOO_FEW.to_owned(), number::figure),
        ),
        Cell::Text(tls(measure)),
        Cell::Text(cost_source(measure)),
    ]
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

/// Where CPU was read.
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
        (None, None) => UNKNOWN.to_owned(),
    }
}

/// Says which peers' figures of CPU are not the kernel's own counters, and what could not be read or had no effect.
pub(super) fn notes(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let mut sentences: BTreeSet<String> = BTreeSet::new();
    for measure in &run.measures {
        let said = match (&measure.cost, &measure.backstage.uncosted) {
            (Some(cost), _) if cost.source == "kubelet" => {
                "CPU is from the counters of its pods' kubelets, which are renewed every 10 s or so: the mean between the \
                 samples, taken for the whole. It is coarser than what is read from cgroups."
            }
            (Some(cost), _) if cost.source == "metrics-api" => {
                "CPU is from the metrics API: means of windows of some 15 s. It is the coarsest figure of CPU here."
            }
            (None, Some(reason)) => {
                &format!("no figure of CPU in {}, {}: {reason}.", measure.case, measure.phase)
            }
            _ => continue,
        };
        sentences.insert(format!("{}: {said}", measure.peer));
    }
    builder.list("", sentences.iter().chain(&run.supplement.notes));
}

/// What should have been measured and could not be.
pub(super) fn absent(all: &[Results], builder: &mut PageBuilder<'_>) {
    let mut table = Table::new("Absent", &["peer", "scenario", "reason"]);
    for absent in distinct(all.iter().flat_map(|results| &results.absent)) {
        table.row(vec![
            Cell::Text(absent.peer.clone()),
            Cell::Text(absent.scenario.clone().unwrap_or_else(|| "all".to_owned())),
            Cell::Text(absent.reason.clone()),
        ]);
    }
    builder.table(table);
}

/// Machines, command lines and peers of all results. What several have alike is there once.
pub(super) fn grounds(all: &[Results], builder: &mut PageBuilder<'_>) {
    for results in all {
        environment(results, builder);
    }
    let of_peers = |results: &Results| serde_json::to_string(&results.peers).unwrap_or_default();
    for text in distinct(all.iter().map(of_peers)) {
        let own: Vec<&Results> = all.iter().filter(|results| of_peers(results) == text).collect();
        builder.heading(3, "Peers");
        if own.len() < all.len() {
            let begun: Vec<&str> = own.iter().map(|results| results.begun.as_str()).collect();
            builder.note(&format!("In what began {}.", begun.join(", ")));
        }
        peers(own[0], builder);
    }
}

/// The machine, the programs, the command line.
fn environment(results: &Results, builder: &mut PageBuilder<'_>) {
    let Environment { cpu, cpus, memory_bytes, kernel, system, place, kubernetes, laboratory, facts } =
        &results.environment;
    let named = [
        ("began", results.begun.clone()),
        ("took", number::duration(results.seconds)),
        ("CPU", cpu.clone()),
        ("logical CPUs", cpus.to_string()),
        ("memory", number::bytes(*memory_bytes)),
        ("kernel", kernel.clone()),
        ("system", system.clone()),
        ("place", place.clone()),
        ("Kubernetes", kubernetes.clone().unwrap_or_else(|| "none".to_owned())),
        ("laboratory", laboratory.clone()),
    ];
    let named = named.into_iter().map(|(name, value)| (name.to_owned(), value));
    let facts = facts.iter().map(|(name, value)| (name.clone(), value.clone()));
    builder.blocks.push(Block::Facts(named.chain(facts).collect()));
    builder.heading(4, "Command line");
    builder.blocks.push(Block::Verbatim(quoted(&results.command)));
}

/// A command line that a shell reads as the same words.
fn quoted(words: &[String]) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The peers with versions and full configurations.
fn peers(results: &Results, builder: &mut PageBuilder<'_>) {
    let mut table = Table::new("Peers", &["peer", "what it is", "kind", "stands for", "versions"]);
    let mut order: Vec<&PeerRecord> = results.peers.iter().collect();
    order.sort_by_key(|peer| builder.palette.place(&peer.name));
    for peer in &order {
        let versions: Vec<String> =
            peer.versions.iter().map(|(program, version)| format!("{program} {version}")).collect();
        table.row(vec![
            builder.palette.cell(&peer.name, fairway_lab_measure::results::Settings::Recommended),
            Cell::Text(peer.title.clone()),
            Cell::Text(kind(peer.kind).to_owned()),
            Cell::Text(peer.stands_for.clone()),
            Cell::Text(versions.join(", ")),
        ]);
    }
    builder.table(table);
    for peer in order {
        for text in &peer.configurations {
            builder.folded(&format!("{}: {}", peer.name, text.name), |builder| {
                builder.blocks.push(Block::Verbatim(text.text.clone()));
            });
        }
    }
}

fn kind(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Controller => "the real controller",
        PeerKind::Adapter => "the proxy under the laboratory's own adapter",
        PeerKind::Described => "a controller described by the user",
        PeerKind::Direct => "no proxy: straight to the pods",
    }
}
