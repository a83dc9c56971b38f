//! The picture in the README: the effect of a change on the requests of each controller, and the CPU time of a
//! request. Has colours for light and dark pages.

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::super::number;
use super::super::palette::{FAIRWAY, Palette};
use super::peers::failures;
use super::suites::{Suites, environment};

/// The file.
pub(super) const PICTURE: &str = "docs/overview.svg";

/// The scenario of the benchmark whose CPU is shown.
const CPU: &str = "https-1k-50";

/// A column of bars.
#[derive(Serialize)]
struct Panel {
    title: [&'static str; 2],
    /// A bar for each peer that has a value: its length as a fraction of 1, and its label.
    bars: Vec<Option<(f64, String)>>,
}

/// The picture, as SVG.
///
/// # Errors
/// Results of the benchmark that cannot be read, or the template, which is part of this program, cannot be rendered.
pub(super) fn picture(suites: &Suites) -> anyhow::Result<String> {
    let of_a_million = |scenario: &str| -> BTreeMap<String, f64> {
        let found = failures(&suites.runs, scenario).into_iter();
        found.map(|(peer, failed, requests)| (peer, failed as f64 * 1e6 / requests.max(1) as f64)).collect()
    };
    let (pods, others) = (of_a_million("dynamic"), of_a_million("comparison"));
    let mut cpu = BTreeMap::new();
    for findings in suites.benches()?.into_iter().flat_map(|bench| bench.results) {
        if findings.scenario.name == CPU {
            // Of two states of the CPUs, the one with more blocks.
            for one in &findings.summary {
                let total = cpu.entry(one.peer.clone()).or_insert((0, 0.0));
                if one.kept > total.0 {
                    *total = (one.kept, one.total_us);
                }
            }
        }
    }
    let cpu: BTreeMap<String, f64> = cpu.into_iter().map(|(peer, (_, us))| (peer, us)).collect();
    let palette = Palette::for_runs(&suites.runs);
    let mut peers: Vec<String> = pods.keys().chain(others.keys()).cloned().collect();
    peers.sort_by_key(|peer| (palette.position(peer), peer.clone()));
    peers.dedup();
    let panel = |title, values: &BTreeMap<String, f64>| {
        let limit = values.values().copied().fold(f64::MIN_POSITIVE, f64::max);
        let bar = |value: &f64| (value / limit, number::figure(*value));
        Panel { title, bars: peers.iter().map(|peer| values.get(peer).map(bar)).collect() }
    };
    let panels = [
        panel(["failed of a million requests", "while pods are scaled"], &pods),
        panel(["failed of a million requests", "while proxies and routes change"], &others),
        panel(["CPU µs for a request of 1 KiB", "over TLS 1.3"], &cpu),
    ];
    let mut environment = environment();
    environment.add_template("overview.svg", include_str!("overview.svg.jinja"))?;
    let context = context! {
        peers,
        own => FAIRWAY,
        panels => panels.iter().map(|panel| Value::from(Serde(panel))).collect::<Vec<_>>(),
    };
    Ok(environment.get_template("overview.svg")?.render(context)?)
}
