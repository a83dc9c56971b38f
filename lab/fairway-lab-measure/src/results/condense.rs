//! The part of a run kept in a repository: everything the report and the documents read. The complete file of a run of
//! hours has megabytes even when compressed, and every clone would carry them forever.
//!
//! The file states what is left out or rounded in [`Results::limitations`]. Figures behind a count, a spike or a
//! propagation time lose nothing but digits: like all others they are rounded to seven.

use std::path::Path;

use serde_json::Value;

use crate::results::measure::{Bucket, Measure};
use crate::results::results_file::Results;

/// The sentence about it in the file.
const CONDENSED: &str = "This file is condensed: the names of raw histograms and all percentiles of times from sending but \
     the 99th were left out, figures are rounded to seven digits, latencies in pieces of time to four, and files of the command \
     have no folder.";
/// The start of that sentence, also in older files.
const CONDENSED_PREFIX: &str = "This file is condensed: ";

/// The program that makes results, whatever its file is called.
const PROGRAM: &str = "fairway-lab";

/// The percentile of times from sending that the report shows.
const FROM_SENDING: f64 = 99.0;
/// Significant digits of a figure.
const DIGITS: i32 = 7;
/// Of a latency in a piece of time, which is a point of a plot.
const OF_A_PIECE: i32 = 4;

/// Leaves out what no report reads. To do it again changes nothing.
#[must_use]
pub fn condense_results(mut results: Results) -> Results {
    without_folders(&mut results.command);
    for measure in results.runs.iter_mut().flat_map(|run| &mut run.measures) {
        condense(measure);
    }
    if !results.limitations.iter().any(|sentence| sentence.starts_with(CONDENSED_PREFIX)) {
        results.limitations.push(CONDENSED.to_owned());
    }
    results
}

/// Paths on the machine are private.
fn without_folders(command: &mut [String]) {
    for word in command.iter_mut() {
        let path = Path::new(&*word);
        if let Some(name) = path.file_name().filter(|_| path.is_absolute()) {
            *word = name.to_string_lossy().into_owned();
        }
    }
    if let Some(program) = command.first_mut() {
        PROGRAM.clone_into(program);
    }
}

fn condense(measure: &mut Measure) {
    let load = &mut measure.load;
    for piece in &mut load.over_time.series {
        shorten(piece);
    }
    for latency in [&mut load.latency, &mut load.service] {
        latency.histogram = None;
    }
    load.service.percentiles.retain(|point| (point.percent - FROM_SENDING).abs() < 1e-9);
}

fn shorten(chunk: &mut Bucket) {
    for figure in [&mut chunk.p50_ms, &mut chunk.p99_ms, &mut chunk.max_ms] {
        *figure = round_digits(*figure, OF_A_PIECE);
    }
}

/// The JSON of condensed results, with figures rounded.
///
/// # Errors
/// The results cannot be written as JSON.
pub(crate) fn text(results: &Results) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(results)?;
    round(&mut value);
    serde_json::to_vec(&value)
}

fn round(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            if let Some(figure) = number.as_f64() {
                *value = round_digits(figure, DIGITS).into();
            }
        }
        _ => {}
    }
}

/// Rounds a figure to this many significant digits.
fn round_digits(figure: f64, digits: i32) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return figure;
    }
    // By way of the decimal text: multiplying and dividing by powers of ten leaves long tails of digits.
    format!("{figure:.*e}", (digits - 1).max(0) as usize).parse().unwrap_or(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::measure::{Latency, Load, OverTime, Percentile};
    use crate::results::results_file::Environment;
    use crate::results::run::Run;

    fn point(percent: f64) -> Percentile {
        Percentile { percent, ms: 1.0 + percent / 1e3, above: 100 }
    }

    fn latency() -> Latency {
        let percentiles = [0.0, 10.0, 50.0, 75.0, 90.0, 99.0, 99.5, 99.9].map(point).into();
        Latency { count: 10, percentiles, histogram: Some("a.latency.hdr".to_owned()), ..Latency::default() }
    }

    fn measure() -> Measure {
        let chunk = Bucket { p50_ms: 0.123_456, max_ms: 98_765.4, ..Bucket::default() };
        let load = Load {
            latency: latency(),
            service: latency(),
            rate: 12_345.678_901_234,
            over_time: OverTime { series: vec![chunk] },
            ..Load::default()
        };
        serde_json::from_value(serde_json::json!({
            "peer": "nginx", "settings": "recommended", "case": "http", "phase": "pooled", "begun_s": 0.0,
            "load": load,
        }))
        .unwrap()
    }

    fn results() -> Results {
        let measures = vec![measure(), measure()];
        let run = Run { scenario: "timeline".to_owned(), measures, ..Run::default() };
        serde_json::from_value(serde_json::json!({
            "schema": 1, "completeness": {"state": "complete"}, "begun": "2026-11-25T00:00:00Z", "seconds": 1.0,
            "command": [], "environment": Environment::default(), "peers": [], "absent": [], "runs": [run],
            "limitations": ["Two cores."],
        }))
        .unwrap()
    }

    #[test]
    fn unread_parts_are_removed_and_others_kept() {
        let percents =
            |latency: &Latency| latency.percentiles.iter().map(|point| point.percent).collect::<Vec<_>>();
        let condensed = condense_results(results());
        for one in &condensed.runs[0].measures {
            assert_eq!(percents(&one.load.latency), percents(&latency()));
            assert_eq!(percents(&one.load.service), [99.0]);
            assert_eq!(one.load.latency.histogram, None);
            let chunk = one.load.over_time.series[0];
            assert_eq!((chunk.p50_ms, chunk.max_ms), (0.1235, 98_770.0));
        }
        assert_eq!((condensed.runs[0].measures.len(), condensed.limitations.len()), (2, 2));
    }

    #[test]
    fn the_command_names_files_and_no_folders() {
        let mut command = ["/opt/lab-2", "run", "--set", "workers=[1]", "--out", "/var/x/runs/one", "a/b"]
            .map(str::to_owned);
        without_folders(&mut command);
        assert_eq!(command, ["fairway-lab", "run", "--set", "workers=[1]", "--out", "one", "a/b"]);
    }

    #[test]
    fn condensing_twice_changes_nothing() {
        let once = condense_results(results());
        let first = text(&once).unwrap();
        let again = condense_results(serde_json::from_slice(&first).unwrap());
        assert_eq!(text(&again).unwrap(), first);
    }

    #[test]
    fn figures_have_seven_digits_and_counts_all_of_theirs() {
        let mut value = serde_json::json!([
            0.1 + 0.2,
            12_345.678_901,
            1.0,
            -0.0,
            123_456_789_012_u64,
            null,
            "0.123456789"
        ]);
        round(&mut value);
        assert_eq!(value.to_string(), r#"[0.3,12345.68,1.0,-0.0,123456789012,null,"0.123456789"]"#);
    }
}
