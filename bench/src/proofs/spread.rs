//! How HTTP/2 connections are spread over the workers, as a table. The proof is `fairway_testkit::proof::spread`.

use fairway_testkit::proof::spread::{self as proof, Spread, WORKERS};

use super::arguments::SpreadArguments;
use super::outcome::ProofReport;
use super::run::to_the_end;

/// Runs one number of connections after another.
pub(crate) fn spread(arguments: &SpreadArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let times = arguments.times.into();
    let mut found = Vec::new();
    for scheme in &arguments.over {
        for connections in &arguments.connections {
            let shown = format!("{scheme:?}, {connections} connections, {times} times");
            let count = usize::from(*connections);
            found.push(to_the_end(proof::spread(&binary, *scheme, count, times), || shown.clone())??);
        }
    }
    let mut rows = vec![("connections".to_owned(), HEADER.join(" | "))];
    rows.extend(found.iter().map(row));
    let broken = found.iter().filter_map(Spread::broken_promises).collect();
    ProofReport::new(&binary, found, broken)?.conclude(&rows, &arguments.place.file("spread"))
}

const HEADER: [&str; 4] = [
    "most on one worker: times",
    "evenly spread",
    "more than its share and one",
    "busiest worker's share of CPU, mean and most",
];

fn row(found: &Spread) -> (String, String) {
    let runs_with =
        |limit: usize| found.times.iter().filter(|placed| placed.busiest_worker() == limit).count();
    let counts = (found.share()..=found.connections).map(|most| (most, runs_with(most)));
    let occurred: Vec<_> = counts.filter(|(_, times)| *times > 0).collect();
    let busiest = found.times.iter().map(proof::WorkerSpread::busiest);
    let mean = busiest.clone().sum::<f64>() / found.times.len().max(1) as f64;
    let cells = [
        occurred.iter().map(|(most, times)| format!("{most}: {times}")).collect::<Vec<_>>().join(", "),
        format!("{} of {}", found.even(), found.times.len()),
        format!("{} of {}", found.uneven(), found.times.len()),
        format!("{:.0}%, {:.0}%", mean * 100.0, busiest.fold(0.0, f64::max) * 100.0),
    ];
    (format!("{:?}, {} on {WORKERS} workers", found.scheme, found.connections), cells.join(" | "))
}
