//! Figures that are neither latencies nor times of changes: a row for each, a column for each peer.

use fairway_lab_measure::results::{Finding, Settings};

use super::builder::PageBuilder;
use super::figures::part;
use super::gather::Scenario;
use super::number::{self, UNKNOWN};
use super::pool::distinct;
use super::table::{Cell, Table};

/// The unit that is shown as KB, MB and so on.
const BYTES: &str = "bytes";

/// The table; nothing where there are none.
pub(super) fn table(run: &Scenario, builder: &mut PageBuilder<'_>) {
    if run.supplement.findings.is_empty() {
        return;
    }
    let mut peers = distinct(run.supplement.findings.iter().map(|one| one.peer.as_str()));
    peers.sort_by_key(|peer| builder.palette.place(peer));
    let mut columns = vec!["figure".to_owned()];
    columns.extend(peers.iter().map(|peer| format!("#{peer}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Figures of objects and pods", &columns);
    let mut parts = distinct(run.supplement.findings.iter().map(|one| (one.case.as_str(), one.settings)));
    parts.sort_by_key(|(_, settings)| *settings);
    for (case, settings) in parts {
        table.group(&part(case, settings));
        rows(&run.supplement.findings, case, settings, &peers).into_iter().for_each(|row| table.row(row));
    }
    builder.heading(4, "Figures of objects and pods");
    builder.reading("What is not a latency: how often a status was written, what pods spent, how many requests an endpoint got. With rounds it is the median of the rounds, and in brackets stand the lowest and the highest. A dash means that the peer did not take part.");
    builder.table(table);
}

fn rows(findings: &[Finding], case: &str, settings: Settings, peers: &[&str]) -> Vec<Vec<Cell>> {
    let own: Vec<&Finding> =
        findings.iter().filter(|one| one.case == case && one.settings == settings).collect();
    let figures = distinct(own.iter().map(|one| (one.figure.as_str(), one.unit.as_str())));
    let row = |(figure, unit): (&str, &str)| {
        let cell = |peer: &&str| {
            let of = own.iter().filter(|one| (one.peer.as_str(), one.figure.as_str()) == (*peer, figure));
            Cell::Number(shown(of.map(|one| one.value).collect(), unit))
        };
        let title = match unit {
            "" | BYTES => figure.to_owned(),
            unit => format!("{figure}, {unit}"),
        };
        [Cell::Text(title)].into_iter().chain(peers.iter().map(cell)).collect()
    };
    figures.into_iter().map(row).collect()
}

/// The median of the rounds with their range.
fn shown(mut values: Vec<f64>, unit: &str) -> String {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else { return UNKNOWN.to_owned() };
    let middle = values.len() / 2;
    let median =
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
    if unit != BYTES {
        return number::with_range(median, (values.len() > 1).then_some((*low, *high)));
    }
    let bytes = |value: f64| number::bytes(value.max(0.0) as u64);
    match values.len() {
        1 => bytes(median),
        _ => format!("{} ({} – {})", bytes(median), bytes(*low), bytes(*high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(peer: &str, figure: &str, value: f64) -> Finding {
        let text = |text: &str| text.to_owned();
        Finding {
            peer: text(peer),
            settings: Settings::Recommended,
            case: text("scale"),
            figure: text(figure),
            unit: text("s"),
            value,
        }
    }

    #[test]
    fn rounds_are_a_median_with_its_range_and_bytes_are_shown_as_such() {
        assert_eq!(shown(vec![3.0], ""), "3.00");
        assert_eq!(shown(vec![3.0, 1.0, 2.0], "s"), "2.00 (1.00 – 3.00)");
        assert_eq!(shown(vec![2_000_000.0], BYTES), number::bytes(2_000_000));
        assert_eq!(shown(vec![f64::NAN], "s"), UNKNOWN);
    }

    #[test]
    fn a_peer_that_did_not_take_part_has_a_dash() {
        let all = [
            finding("fairway", "CPU", 1.0),
            finding("contour", "CPU", 2.0),
            finding("fairway", "writes", 3.0),
        ];
        let rows = rows(&all, "scale", Settings::Recommended, &["fairway", "contour"]);
        let text = |cell: &Cell| match cell {
            Cell::Text(text) | Cell::Number(text) => text.clone(),
            _ => "?".to_owned(),
        };
        let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(text).collect()).collect();
        assert_eq!(texts, [["CPU, s", "1.00", "2.00"], ["writes, s", "3.00", UNKNOWN]]);
    }
}
