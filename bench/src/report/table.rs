//! The tables on standard output. Owns widths and rounding, nothing else.

use fairway_lab_measure::Distance;

use super::findings::{Findings, Report, Summary};
use crate::measure::{Handshakes, Memory};
use crate::scenario::{Downstream, ForwardedUnit};

pub(crate) fn print(report: &Report) {
    let origin = &report.origin;
    println!("\nrevision {}, kernel {}, {} x {}", origin.revision, origin.kernel, origin.cpus, origin.cpu);
    println!("{} blocks of {} s for each proxy", report.effort.blocks, report.effort.seconds);
    for (peer, version) in &report.versions {
        println!("  {peer}: {version}");
    }
    for (peer, why) in &report.absent {
        println!("  {peer}: NOT MEASURED: {why}");
    }
    report.results.iter().for_each(print_findings);
}

fn print_findings(findings: &Findings) {
    let scenario = &findings.scenario;
    let streams = match scenario.downstream {
        Downstream::Http1 => String::new(),
        Downstream::Http2 { streams } | Downstream::Http3 { streams } => format!(" x {streams} streams"),
    };
    let unit = if scenario.forwarded == ForwardedUnit::Datagrams { "sessions" } else { "connections" };
    println!("\n{} ({} {unit}{streams})", scenario.name, scenario.connections);
    for rows in findings.summary.chunk_by(|one, next| one.distance == next.distance) {
        println!(
            "  {:<17} {:>8} {:>8} {:>9}   {:<34} {:>8} {:>6} {:>5} {:>5} {:>8} {:>8}  blocks",
            words(rows[0].distance),
            "user us",
            "sys us",
            "us/req",
            format!("x {}", findings.base),
            "req/s",
            "x",
            "busy",
            "gen",
            "p50 us",
            "p99 us"
        );
        rows.iter().for_each(print_summary);
    }
    for (peer, these) in &findings.handshakes {
        print_handshakes(peer, these);
    }
    findings.memory.iter().for_each(print_memory);
    for (peer, why) in &findings.missing {
        println!("  {peer:<17} no row: {why}");
    }
    for block in findings.blocks.iter().filter(|block| block.discarded.is_some()) {
        let why = block.discarded.as_deref().unwrap_or_default();
        println!("  discarded: {} round {}: {why} {:?}", block.peer, block.round + 1, block.errors);
    }
}

fn words(distance: Distance) -> &'static str {
    match distance {
        Distance::OneCore => "CPUs on one core",
        Distance::TwoCores => "CPUs on two cores",
        Distance::Unknown => "CPUs anywhere",
    }
}

fn print_summary(row: &Summary) {
    let ratio = row.to_base.map_or_else(
        || "-".to_owned(),
        |ratio| match ratio.enough {
            true => format!(
                "{:.3} [{:.3}, {:.3}] {:.1}% of {}",
                ratio.median,
                ratio.low,
                ratio.high,
                ratio.coverage * 100.0,
                ratio.pairs
            ),
            false => format!("{:.3}, too few: {} pairs", ratio.median, ratio.pairs),
        },
    );
    let rate = row.speed.rate_to_base.map_or_else(|| "-".to_owned(), |ratio| format!("{:.3}", ratio.median));
    let p99 = row.p99_us.map_or_else(|| "-".to_owned(), |p99| p99.to_string());
    let blocks = match row.discarded {
        0 => row.kept.to_string(),
        discarded => format!("{} ({discarded} discarded)", row.kept),
    };
    println!(
        "  {:<17} {:>8.2} {:>8.2} {:>9.2}   {ratio:<34} {:>8.0} {rate:>6} {:>4.0}% {:>4.0}% {:>8} {p99:>8}  {blocks}",
        row.peer,
        row.user_us,
        row.system_us,
        row.total_us,
        row.speed.requests_per_second,
        row.busy * 100.0,
        row.speed.generator_busy * 100.0,
        row.p50_us
    );
}

fn print_handshakes(peer: &str, counts: &Handshakes) {
    let tls = &counts.negotiated;
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    println!(
        "  {peer:<17} {} {} {} {}, {} full handshakes, {:.2} tickets each",
        tls.version,
        tls.cipher,
        known(&tls.group),
        known(&tls.signature),
        counts.full,
        counts.tickets_each()
    );
}

fn print_memory(row: &Memory) {
    println!(
        "  {:<17} {:>8.2} KiB per {} ({} open, {} -> {} KiB) {:?}",
        row.peer,
        row.kib_each(),
        row.each,
        row.open,
        row.before_bytes / 1024,
        row.after_bytes / 1024,
        row.errors
    );
}
