//! Latency over time with the events in the cluster: each peer separately, next to its concurrent direct stream. Never
//! merges periods.

use fairway_lab_measure::results::{Bucket, Event, Measure, Settings};
use minijinja::Value;

use super::figure::{Axis, Figure, Look, Panel, Series};
use super::merge::Scenario;
use super::merge::distinct;
use super::palette::Palette;
use super::scale::Spread;

/// The streams of a peer in a case, and the concurrent direct ones. Their clock restarts with the case, for every peer.
struct Strand<'a> {
    peer: &'a str,
    settings: Settings,
    measures: Vec<&'a Measure>,
    beside: Vec<&'a Measure>,
}

/// Latency over time for every case in which something happened.
pub(super) fn over_time(run: &Scenario, palette: &Palette) -> Vec<Value> {
    let cases = distinct(run.events.iter().map(|event| event.case.as_str()));
    let figures = cases.into_iter().map(|case| {
        let strands = strands(run, case, palette);
        let has_series = |measure: &&Measure| !measure.load.over_time.series.is_empty();
        strands
            .iter()
            .flat_map(|strand| &strand.measures)
            .any(has_series)
            .then(|| failures_figure(run, case, &strands))
    });
    figures.flatten().filter_map(|figure| figure.plot(palette)).collect()
}

fn strands<'a>(run: &'a Scenario, case: &str, palette: &Palette) -> Vec<Strand<'a>> {
    let first = run.first_rounds();
    let of_case = || first.iter().copied().filter(|measure| measure.case == case);
    let through = || of_case().filter(|measure| !palette.is_neutral(&measure.peer));
    let mut whose = distinct(through().map(|measure| (measure.settings, measure.peer.as_str())));
    whose.sort_by_key(|(settings, peer)| (*settings, palette.position(peer)));
    let strand = |(settings, peer): (Settings, &'a str)| {
        let mut measures: Vec<&Measure> =
            through().filter(|measure| measure.peer == peer && measure.settings == settings).collect();
        measures.sort_by(|a, b| a.begun_s.total_cmp(&b.begun_s));
        // The sum of the phases adds nothing here.
        if measures
            .iter()
            .any(|measure| measure.phase != "pooled" && !measure.load.over_time.series.is_empty())
        {
            measures.retain(|measure| measure.phase != "pooled");
        }
        let is_at_same_time = |measure: &&Measure| {
            palette.is_neutral(&measure.peer)
                && measure.beside.as_deref() == Some(peer)
                && measure.settings == settings
        };
        let beside = of_case().filter(is_at_same_time).collect();
        Strand { peer, settings, measures, beside }
    };
    whose.into_iter().map(strand).collect()
}

impl Strand<'_> {
    fn name(&self) -> String {
        match self.settings {
            Settings::Recommended => self.peer.to_owned(),
            Settings::Defaults => format!("{}, defaults", self.peer),
        }
    }

    fn series(&self, label: &str, look: Look, value: impl Fn(&Bucket) -> f64) -> Series {
        let points = points(&self.measures, value);
        Series { peer: self.peer.to_owned(), label: label.to_owned(), look, points }
    }

    fn direct(&self) -> Option<Series> {
        let peer = self.beside.first()?.peer.clone();
        let points = points(&self.beside, |bucket| bucket.max_ms);
        Some(Series { label: format!("{peer}, highest"), peer, look: Look::Faint, points })
    }

    fn failures(&self) -> Series {
        let mut series = self.series("failed requests", Look::Failures, |bucket| bucket.errors as f64);
        series.points.retain(|(_, errors)| *errors > 0.0);
        series
    }

    fn events(&self, run: &Scenario, case: &str) -> Vec<f64> {
        let is_own_event =
            |event: &&Event| event.case == case && event.peer == self.peer && event.settings == self.settings;
        run.events.iter().filter(is_own_event).map(|event| event.at_s).collect()
    }
}

fn points(measures: &[&Measure], value: impl Fn(&Bucket) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = measures
        .iter()
        .flat_map(|measure| measure.load.over_time.series.iter().map(move |bucket| (measure.begun_s, bucket)))
        .filter(|(_, bucket)| bucket.requests > 0)
        .map(|(begun, bucket)| (begun + bucket.at_s, value(bucket)))
        .filter(|(at, value)| at.is_finite() && value.is_finite())
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn failures_figure(run: &Scenario, case: &str, strands: &[Strand<'_>]) -> Figure {
    let panels = strands.iter().map(|strand| {
        let mut series: Vec<Series> = strand.direct().into_iter().collect();
        series.push(strand.series("highest", Look::Solid, |bucket| bucket.max_ms));
        series.push(strand.series("median", Look::Dashed, |bucket| bucket.p50_ms));
        series.push(strand.failures());
        series.retain(|series| !series.points.is_empty());
        Panel { title: strand.name(), series, events: strand.events(run, case) }
    });
    let events = run.events.iter().filter(|event| event.case == case);
    let done = distinct(events.map(|event| event.label.as_str()));
    Figure {
        title: format!("Latency over time, {case}"),
        reading: format!(
            "The unbroken line is the highest latency in each piece of time, so no spike is averaged away, the broken one its median, the thin grey one the stream straight to the pods that ran beside it: spikes in it are the machine's. Vertical lines are what was done to the cluster: {}. Red ticks at the bottom are pieces of time in which requests failed. Peers ran one after another; time counts from the beginning of each one's run. All panels have the same axes.",
            done.join(", ")
        ),
        x: Axis { label: "seconds since the case began", spread: Spread::Linear },
        y: Axis { label: "latency, ms", spread: Spread::Log },
        panels: panels.collect(),
    }
}
