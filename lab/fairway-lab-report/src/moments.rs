//! Latency over time, with what was done to the cluster: all peers on one axis, and each by itself beside the stream
//! straight to the pods that ran with it. Never merges what ran at different times.

use fairway_lab_measure::results::{Event, Measure, Settings};

use super::builder::PageBuilder;
use super::figure::{Axis, Figure, Look, Panel, Series};
use super::gather::Scenario;
use super::palette::Palette;
use super::pool::distinct;
use super::scale::Spread;

/// The streams of a peer in a case, and those straight to the pods that ran at the same time. Their clock begins with the
/// case, for every peer anew.
struct Strand<'a> {
    peer: &'a str,
    settings: Settings,
    measures: Vec<&'a Measure>,
    beside: Vec<&'a Measure>,
}

/// Draws latency over time for every case in which something happened.
pub(super) fn over_time(run: &Scenario, builder: &mut PageBuilder<'_>) {
    for case in distinct(run.events.iter().map(|event| event.case.as_str())) {
        let strands = strands(run, case, builder.palette);
        if strands.iter().all(|strand| strand.measures.iter().all(|one| one.load.over_time.series.is_empty()))
        {
            continue;
        }
        if run.rounds() > 1 {
            builder.note(&format!(
                "Of {} rounds the two plots below show the first; the tables are of all.",
                run.rounds()
            ));
        }
        builder.plot(&together(run, case, &strands));
        builder.plot(&apart(run, case, &strands));
    }
}

fn strands<'a>(run: &'a Scenario, case: &str, palette: &Palette) -> Vec<Strand<'a>> {
    let first = run.first_rounds();
    let of_case = || first.iter().copied().filter(|one| one.case == case);
    let through = || of_case().filter(|one| !palette.is_neutral(&one.peer));
    let mut whose = distinct(through().map(|one| (one.settings, one.peer.as_str())));
    whose.sort_by_key(|(settings, peer)| (*settings, palette.place(peer)));
    let strand = |(settings, peer): (Settings, &'a str)| {
        let mut measures: Vec<&Measure> =
            through().filter(|one| one.peer == peer && one.settings == settings).collect();
        measures.sort_by(|a, b| a.begun_s.total_cmp(&b.begun_s));
        // The sum of the phases says nothing new here.
        if measures.iter().any(|one| one.phase != "pooled" && !one.load.over_time.series.is_empty()) {
            measures.retain(|one| one.phase != "pooled");
        }
        let meanwhile = |one: &&Measure| {
            palette.is_neutral(&one.peer) && one.beside.as_deref() == Some(peer) && one.settings == settings
        };
        let beside = of_case().filter(meanwhile).collect();
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

    fn series(
        &self,
        label: &str,
        look: Look,
        value: impl Fn(&fairway_lab_measure::results::Bucket) -> f64,
    ) -> Series {
        let peer = self.peer;
        points(&self.measures, peer, value).labelled(label, look)
    }

    fn direct(&self) -> Option<Series> {
        let first = self.beside.first()?;
        let series = points(&self.beside, &first.peer, |bucket| bucket.max_ms);
        Some(series.labelled(&format!("{}, highest", first.peer), Look::Faint))
    }

    fn failures(&self) -> Series {
        let mut series = self.series("failed requests", Look::Failures, |bucket| bucket.errors as f64);
        series.points.retain(|(_, errors)| *errors > 0.0);
        series
    }

    fn events(&self, run: &Scenario, case: &str) -> Vec<(f64, String)> {
        let own =
            |event: &&Event| event.case == case && event.peer == self.peer && event.settings == self.settings;
        run.events.iter().filter(own).map(|event| (event.at_s, event.label.clone())).collect()
    }
}

impl Series {
    fn labelled(mut self, label: &str, look: Look) -> Self {
        label.clone_into(&mut self.label);
        self.look = look;
        self
    }
}

fn points(
    measures: &[&Measure],
    peer: &str,
    value: impl Fn(&fairway_lab_measure::results::Bucket) -> f64,
) -> Series {
    let mut points: Vec<(f64, f64)> = measures
        .iter()
        .flat_map(|one| one.load.over_time.series.iter().map(move |bucket| (one.begun_s, bucket)))
        .filter(|(_, bucket)| bucket.requests > 0)
        .map(|(begun, bucket)| (begun + bucket.at_s, value(bucket)))
        .filter(|(at, value)| at.is_finite() && value.is_finite())
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Series { peer: peer.to_owned(), label: String::new(), look: Look::Solid, points }
}

fn figure(title: String, reading: &str, panels: Vec<Panel>) -> Figure {
    Figure {
        title,
        reading: reading.to_owned(),
        x: Axis { label: "seconds since the case began", spread: Spread::Linear },
        y: Axis { label: "latency, ms", spread: Spread::Log },
        panels,
    }
}

fn together(run: &Scenario, case: &str, strands: &[Strand<'_>]) -> Figure {
    let mut panel = Panel::default();
    // The direct stream goes behind, Fairway on top: with log axes spikes of others hide nothing below them.
    panel.series.extend(strands.first().and_then(Strand::direct));
    for strand in strands.iter().rev() {
        let look = if strand.settings == Settings::Defaults { Look::Dashed } else { Look::Solid };
        panel.series.push(strand.series(&strand.name(), look, |bucket| bucket.max_ms));
    }
    let marked = strands.iter().find(|strand| !strand.events(run, case).is_empty());
    panel.events = marked.map_or_else(Vec::new, |strand| strand.events(run, case));
    let whose = marked.map_or_else(String::new, Strand::name);
    let reading = format!(
        "The highest latency in each piece of time, so no spike is averaged away. Peers ran one after another; time counts from the beginning of each one's run. Vertical lines are what was done to the cluster, in the run of {whose}; each panel below has the events of its own run. The thin grey line is the stream straight to the pods while {} ran: spikes in it are the machine's.",
        strands.first().map_or_else(String::new, Strand::name)
    );
    figure(format!("Latency over time, {case}: all peers"), &reading, vec![panel])
}

fn apart(run: &Scenario, case: &str, strands: &[Strand<'_>]) -> Figure {
    let panels = strands.iter().map(|strand| {
        let mut series: Vec<Series> = strand.direct().into_iter().collect();
        series.push(strand.series("highest", Look::Solid, |bucket| bucket.max_ms));
        series.push(strand.series("median", Look::Dashed, |bucket| bucket.p50_ms));
        series.push(strand.failures());
        series.retain(|series| !series.points.is_empty());
        Panel { title: strand.name(), series, events: strand.events(run, case) }
    });
    figure(
        format!("Latency over time, {case}: each peer by itself"),
        "The unbroken line is the highest latency in each piece of time, the broken one its median, the thin grey one the stream straight to the pods that ran beside it. Red ticks at the bottom are pieces of time in which requests failed. All panels have the same axes.",
        panels.collect(),
    )
}
