//! The cost of many routes, from a directory and from an API server, as a table. The proof is
//! `fairway_testkit::proof::routes`.

use fairway_testkit::proof::delays::Delays;
use fairway_testkit::proof::routes::{Kind, Routes, Shape, Source, measure};

use super::arguments::RoutesArguments;
use super::outcome::ProofReport;
use super::run::to_the_end;

/// Maximum time until ready, seconds.
const READY_SECONDS: f64 = 10.0;
/// Routes, and the resident megabytes that they may have. Other numbers of routes are on the line through both.
const RESIDENT_MB: [(f64, f64); 2] = [(5_000.0, 80.0), (100_000.0, 1_000.0)];
/// Bytes of a MiB in millions.
const MIB: f64 = 1.048_576;
/// Maximum p99 time from an event to its adoption, milliseconds.
const ADOPTED_MS: f64 = 5.0;

/// One form after the other.
pub(crate) fn routes(arguments: &RoutesArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let (shape, changes) = arguments.effort();
    anyhow::ensure!(shape.hosts <= shape.routes, "--hosts: there are more hosts than routes");
    let mut found = Vec::new();
    for kind in &arguments.kind {
        for source in &arguments.source {
            let shown = format!("{} routes as {kind:?} from {source:?}, {changes} changes", shape.routes);
            found.push(to_the_end(measure(&binary, *kind, *source, shape, changes), || shown.clone())?);
        }
    }
    let mut rows = vec![(counts(shape), HEADER.join(" | "))];
    rows.extend(found.iter().map(row));
    let broken = found.iter().flat_map(broken).collect();
    ProofReport::new(&binary, found, broken)?.conclude(&rows, &arguments.place.file("routes"))
}

const HEADER: [&str; 4] = [
    "start -> ready",
    "resident MiB, after changes (goal)",
    "event -> adopted p50, p99 ms",
    "changed -> served on every connection p50, p99 ms",
];

fn counts(Shape { routes, hosts, endpoints }: Shape) -> String {
    format!("{routes} routes, {hosts} hosts, {endpoints} endpoints")
}

fn row(found: &Routes) -> (String, String) {
    let bound = resident_mib(found.shape.routes);
    let delays = |delays: &Delays| format!("{:.2}, {:.2}", delays.p50_ms, delays.p99_ms);
    let cells = [
        format!("{:.2} s", found.ready_seconds),
        format!("{:.1}, {:.1} ({bound:.1})", found.resident_mib, found.resident_after_mib),
        delays(&found.adoption),
        found.visible.as_ref().map_or("-".to_owned(), delays),
    ];
    (format!("{:?} from {:?}", found.kind, found.source), cells.join(" | "))
}

/// The limit of resident memory.
fn resident_mib(routes: usize) -> f64 {
    let [(few, of_few), (many, of_many)] = RESIDENT_MB;
    (of_few + (of_many - of_few) * (routes as f64 - few) / (many - few)) / MIB
}

fn broken(found: &Routes) -> Vec<String> {
    let name = |kind: Kind, source: Source| format!("{kind:?} from {source:?}");
    let object = name(found.kind, found.source);
    let mut broken = Vec::new();
    if found.ready_seconds > READY_SECONDS {
        broken.push(format!(
            "{object}: ready after {:.1} s, not within {READY_SECONDS} s",
            found.ready_seconds
        ));
    }
    let bound = resident_mib(found.shape.routes);
    if found.resident_after_mib > bound {
        broken.push(format!("{object}: {:.1} MiB resident, not {bound:.1} MiB", found.resident_after_mib));
    }
    if found.adoption.p99_ms > ADOPTED_MS {
        broken.push(format!(
            "{object}: adopted after {:.1} ms (p99), not {ADOPTED_MS} ms",
            found.adoption.p99_ms
        ));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_routes_has_a_goal_for_few_and_for_many() {
        let shown = [5_000, 100_000, 20_000].map(|routes| format!("{:.1}", resident_mib(routes)));
        assert_eq!(shown, ["76.3", "953.7", "214.8"]);
    }
}
