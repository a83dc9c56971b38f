//! The charts of the published studies, each beside what was measured here: which of our figures belongs to which of
//! theirs. The figures stay as they were printed; only counts are put on the requests that were sent, so that they share
//! an axis.

use fairway_lab_measure::results::{Class, Settings};
use serde_json::Value;

use super::beside::{Bar, Chart, Drawing, Whose, draw};
use super::builder::PageBuilder;
use super::gather::Scenario;
use super::number::{self, TOO_FEW};
use super::palette::Palette;
use super::pool::{Pool, distinct, whole};
use super::scale::Spread;

/// When and where the studies were made.
const MADE: [(&str, &str); 4] = [
    ("study1_dynamic", "2020, GCP e2-standard-32, across the Internet"),
    ("study2_capacity", "2017, two Xeon Platinum 8168, 40 GbE"),
    ("study3_comparison", "2021, Linode, 4 cores and 8 GB a node"),
    ("study4_timeline", "2019, GKE n1-standard-1"),
];

/// Draws the charts of a study.
pub(super) fn charts(name: &str, study: &Value, runs: &[&Scenario], builder: &mut PageBuilder) {
    let theirs = MADE.iter().find(|(known, _)| *known == name).map_or("", |(_, made)| made);
    let with_ours = |run: &&&Scenario| run.settings().contains(&Settings::Recommended);
    let Some(run) = runs.iter().find(with_ours) else { return };
    let place = Sides { study, run, theirs };
    match name {
        "study1_dynamic" => dynamic(&place, builder),
        "study2_capacity" => capacity(&place, builder),
        "study3_comparison" => comparison(&place, builder),
        "study4_timeline" => timeline(&place, builder),
        _ => {}
    }
}

/// A study and the run that repeats it.
struct Sides<'a> {
    study: &'a Value,
    run: &'a Scenario,
    theirs: &'a str,
}

impl Sides<'_> {
    fn draw(
        &self,
        title: &str,
        reading: &str,
        axis: &str,
        spread: Spread,
        charts: Vec<Chart>,
        builder: &mut PageBuilder,
    ) {
        let (theirs, ours) = (self.theirs, self.run.measured.as_str());
        draw(&Drawing { title, reading, axis, spread, theirs, ours, charts }, builder);
    }

    /// Our proxies with recommended settings, Fairway first.
    fn pools(&self, palette: &Palette) -> Vec<Pool<'_>> {
        let mut pools = whole(self.run, palette);
        pools.retain(|pool| pool.settings == Settings::Recommended && !palette.is_neutral(pool.peer));
        pools
    }
}

fn published(name: &str, value: Option<f64>, text: String) -> Bar {
    Bar { name: name.replace('_', " "), whose: Whose::Published, value, text }
}

fn ours(palette: &Palette, peer: &str, value: Option<f64>, text: String) -> Bar {
    Bar { name: peer.to_owned(), whose: Whose::Ours(palette.class(peer)), value, text }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A figure that may be there; zero has no place on a logarithmic axis.
fn above_zero(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite() && *value > 0.0)
}

/// `12.5`, `1.2 s`.
fn ms(value: f64) -> String {
    if value >= 1_000.0 {
        format!("{} s", number::figure(value / 1e3))
    } else {
        format!("{} ms", number::figure(value))
    }
}

/// Errors of wrk2's three counters, and the percentiles that the study prints.
fn dynamic(place: &Sides<'_>, builder: &mut PageBuilder) {
    let Sides { study, .. } = place;
    let number = |key: &str| study["parameters"][key].as_f64().unwrap_or(f64::NAN);
    let sent = number("rate") * number("seconds");
    let palette = &builder.palette;
    let mut pools = place.pools(palette);
    pools.retain(|pool| pool.case == "dynamic");
    let kinds = [
        ("connection_errors", "connection errors"),
        ("connection_timeouts", "time-outs"),
        ("read_errors", "read errors"),
    ];
    let errors = kinds.iter().enumerate().map(|(at, (key, title))| {
        let theirs = entries(&study["dynamic_errors"]).map(|(name, errors)| {
            let count = errors[*key].as_u64().unwrap_or_default();
            let share = count as f64 * 1e6 / sent;
            published(name, above_zero(share), number::figure(share))
        });
        let own = pools.iter().map(|pool| {
            let share = counters(pool)[at] as f64 * 1e6 / pool.requests() as f64;
            ours(palette, pool.peer, above_zero(share), number::figure(share))
        });
        Chart { title: (*title).to_owned(), bars: theirs.chain(own).collect() }
    });
    let errors = errors.collect();
    let percentiles = [("p99", 99.0), ("p99.99", 99.99), ("p99.9999", 99.9999)].map(|(key, percent)| {
        let theirs = entries(&study["dynamic_latency_ms"]).map(|(name, latency)| {
            let value = latency[key].as_f64();
            published(name, value, value.map_or_else(|| "not printed".to_owned(), ms))
        });
        let own = pools.iter().map(|pool| {
            let value = pool.percentile(percent).map(|point| point.ms);
            ours(palette, pool.peer, value, value.map_or_else(|| "too few requests".to_owned(), ms))
        });
        Chart { title: key.to_owned(), bars: theirs.chain(own).collect() }
    });
    place.draw(
        "While pods come and go: errors",
        "Errors of a million requests, by the counters of wrk2. The study prints counts; it offered 30,000 requests a second for 180 s, and its counts are divided by that. A bar of 0 has no length. The axis is logarithmic, the same in all three charts.",
        "errors of a million requests",
        Spread::Log,
        errors,
        builder,
    );
    place.draw(
        "While pods come and go: latency",
        "Latency at the percentiles that the study prints. “Too few requests” stands where fewer than ten of ours were slower. The axis is logarithmic, the same in all three charts.",
        "latency, ms",
        Spread::Log,
        percentiles.into(),
        builder,
    );
}

/// The counters of wrk2 that study 1 prints: connect, timeout, read.
pub(super) fn counters(pool: &Pool<'_>) -> [u64; 3] {
    let mut counters = [0; 3];
    for (class, count) in pool.errors() {
        let counter = match class {
            Class::ConnectRefused | Class::ConnectReset | Class::ConnectOther | Class::Tls => 0,
            Class::ConnectTimeout | Class::TlsTimeout | Class::HeadTimeout | Class::BodyTimeout => 1,
            Class::ReadReset | Class::ReadEof | Class::Truncated | Class::Malformed => 2,
            _ => continue,
        };
        counters[counter] += count;
    }
    counters
}

/// Charts of study 2 that share an axis.
struct Capacities {
    title: &'static str,
    axis: &'static str,
    charts: &'static [Capacity],
}

/// A chart of study 2, and which of our cases belongs to it.
struct Capacity {
    keys: &'static [(&'static str, &'static str)],
    title: &'static str,
    is_meant: fn(&Pool<'_>) -> bool,
    value: fn(&Pool<'_>) -> f64,
}

const CAPACITIES: [Capacities; 3] = [
    Capacities {
        title: "Capacity: requests",
        axis: "requests a second",
        charts: &[
            Capacity {
                keys: &[("http_rps", "NGINX")],
                title: "HTTP, 1 KB",
                is_meant: |pool| is_small(pool) && !has_tls(pool),
                value: |pool| pool.rate(),
            },
            Capacity {
                keys: &[("https_rps", "NGINX")],
                title: "HTTPS, 1 KB",
                is_meant: |pool| is_small(pool) && has_tls(pool),
                value: |pool| pool.rate(),
            },
        ],
    },
    Capacities {
        title: "Capacity: new TLS connections",
        axis: "handshakes a second",
        charts: &[Capacity {
            keys: &[("tls_tps", "NGINX"), ("tls_tps_hyper_threading", "NGINX, HT")],
            title: "Full handshakes (HT: with hyper-threading)",
            is_meant: |pool| pool.is_about_handshakes() && !pool.case.contains("resumed"),
            value: |pool| pool.handshakes(),
        }],
    },
    Capacities {
        title: "Capacity: throughput",
        axis: "Gbit/s",
        charts: &[Capacity {
            keys: &[("throughput_gbps", "NGINX")],
            title: "HTTPS, 1 MB",
            is_meant: |pool| pool.is_about_throughput(),
            value: |pool| pool.gigabits(),
        }],
    },
];

fn is_small(pool: &Pool<'_>) -> bool {
    !pool.is_about_handshakes() && !pool.is_about_throughput()
}

fn has_tls(pool: &Pool<'_>) -> bool {
    pool.case.to_lowercase().starts_with("https")
}

fn capacity(place: &Sides<'_>, builder: &mut PageBuilder) {
    for Capacities { title, axis, charts } in &CAPACITIES {
        let made = charts.iter().map(|one| of_capacity(one, place, &builder.palette));
        let (charts, cases): (Vec<Chart>, Vec<String>) = made.unzip();
        let reading = format!(
            "By CPUs in the study, whose controller had a machine of its own and a fast network; by worker threads here, where generator, proxy and backends share one small machine. Ours: {}. Longer is better.",
            cases.join("; ")
        );
        place.draw(title, &reading, axis, Spread::Linear, charts, builder);
    }
}

/// A chart, and the names of our cases in it.
fn of_capacity(one: &Capacity, place: &Sides<'_>, palette: &Palette) -> (Chart, String) {
    let mut pools = place.pools(palette);
    pools.retain(|pool| (one.is_meant)(pool));
    // The study has TLS 1.2; where we have it too, it is the one to compare.
    if pools.iter().any(|pool| pool.case.contains("1.2")) {
        pools.retain(|pool| pool.case.contains("1.2"));
    }
    let theirs = one.keys.iter().flat_map(|(key, name)| {
        let values = place.study[*key].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let cpus = place.study["cpus"].as_array().into_iter().flatten().filter_map(Value::as_u64);
        cpus.zip(values).map(move |(cpus, value)| {
            let plural = if cpus == 1 { "" } else { "s" };
            published(&format!("{name}, {cpus} CPU{plural}"), Some(value), number::figure(value))
        })
    });
    let mut bars: Vec<Bar> = theirs.collect();
    for workers in distinct(pools.iter().filter_map(|pool| pool.workers)) {
        bars.extend(pools.iter().filter(|pool| pool.workers == Some(workers)).map(|pool| {
            let value = (one.value)(pool);
            let plural = if workers == 1 { "" } else { "s" };
            let bar = ours(palette, pool.peer, Some(value), number::figure(value));
            Bar { name: format!("{}, {workers} worker{plural}", pool.peer), ..bar }
        }));
    }
    let cases = distinct(pools.iter().map(|pool| pool.case)).join(", ");
    (Chart { title: one.title.to_owned(), bars }, cases)
}

/// Percentiles of both variants, and failed requests of a million.
fn comparison(place: &Sides<'_>, builder: &mut PageBuilder) {
    const PERCENTILES: [f64; 4] = [75.0, 90.0, 95.0, 99.0];
    let palette = &builder.palette;
    let pools = place.pools(palette);
    let (mut latencies, mut failures) = (Vec::new(), Vec::new());
    for (latency, codes, generators) in [
        ("one_generator_latency_s", "one_generator_codes", "1"),
        ("five_generators_latency_s", "five_generators_errors", "5"),
    ] {
        let named = if generators == "1" { "one generator" } else { "five generators" };
        let is_own = |pool: &&Pool<'_>| pool.case.split(' ').next() == Some(generators);
        for (at, percent) in PERCENTILES.iter().enumerate() {
            let theirs = entries(&place.study[latency]).filter(|(name, _)| *name != "percentiles");
            let theirs = theirs.map(|(name, values)| {
                let value = values[at].as_f64().map(|seconds| seconds * 1e3);
                published(name, value, value.map_or_else(|| "not printed".to_owned(), ms))
            });
            let own = pools.iter().filter(is_own).map(|pool| {
                let value = pool.percentile(*percent).map(|point| point.ms);
                ours(palette, pool.peer, value, value.map_or_else(|| TOO_FEW.to_owned(), ms))
            });
            latencies
                .push(Chart { title: format!("p{percent}, {named}"), bars: theirs.chain(own).collect() });
        }
        let theirs = entries(&place.study[codes]).map(|(name, codes)| {
            let failed =
                entries(codes).filter(|(code, _)| *code != "200").filter_map(|(_, count)| count.as_f64());
            let failed: f64 = failed.sum();
            published(name, above_zero(failed), number::figure(failed))
        });
        let own = pools.iter().filter(is_own).map(|pool| {
            let share = pool.failed() as f64 * 1e6 / pool.requests() as f64;
            ours(palette, pool.peer, above_zero(share), number::figure(share))
        });
        failures.push(Chart { title: named.to_owned(), bars: theirs.chain(own).collect() });
    }
    place.draw(
        "The proxy scales and its configuration changes: latency",
        "Latency by percentile, with one generator and with five. The axis is logarithmic, the same in all charts.",
        "latency, ms",
        Spread::Log,
        latencies,
        builder,
    );
    place.draw(
        "The proxy scales and its configuration changes: failed requests",
        "Answers with an error, and with us every other failure too, of a million requests; the study sent a million with one generator, and its counts are drawn as printed. A bar of 0 has no length. The axis is logarithmic, the same in both charts.",
        "failed of a million requests",
        Spread::Log,
        failures,
        builder,
    );
}

/// The highest spike that the study describes, and the highest latency of ours after an event.
fn timeline(place: &Sides<'_>, builder: &mut PageBuilder) {
    let palette = &builder.palette;
    let spikes = || {
        let all = place.run.spikes.iter().filter(|spike| spike.beside.is_none());
        all.filter(|spike| spike.settings == Settings::Recommended && spike.highest_ms.is_finite())
    };
    let mut peers = distinct(spikes().map(|spike| spike.peer.as_str()));
    peers.sort_by_key(|peer| palette.place(peer));
    let charts = ["100", "500", "1000"].map(|rate| {
        let theirs = ["haproxy", "nginx", "envoy"].map(|name| {
            let value = place.study[name][rate].as_str().and_then(spike);
            published(name, value, value.map_or_else(|| "no figure printed".to_owned(), ms))
        });
        let own = peers.iter().map(|peer| {
            let own = spikes().filter(|spike| spike.peer == *peer && spike.case == format!("{rate}/s"));
            let value = own.map(|spike| spike.highest_ms).reduce(f64::max);
            ours(palette, peer, value, value.map_or_else(|| "no event".to_owned(), ms))
        });
        Chart { title: format!("{rate} requests/s"), bars: theirs.into_iter().chain(own).collect() }
    });
    place.draw(
        "Latency over time: the highest spike",
        "The study describes its curves in words: what it calls a spike is drawn, with the figure that it names (“about”, “up to”). Ours is the highest latency within a second after any event. The axis is logarithmic, the same in all three charts.",
        "highest latency, ms",
        Spread::Log,
        charts.into(),
        builder,
    );
}

/// The height of a spike in milliseconds, if words name one: not how long it lasted, and not what latency was usually under.
fn spike(words: &str) -> Option<f64> {
    let words: Vec<&str> = words.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let mut found: Option<f64> = None;
    for (at, pair) in words.windows(2).enumerate() {
        let factor = match pair[1] {
            "ms" => 1.0,
            "s" => 1e3,
            _ => continue,
        };
        let Ok(number) = pair[0].parse::<f64>() else { continue };
        let before = &words[at.saturating_sub(2)..at];
        if before.iter().any(|word| ["lasting", "under"].contains(word)) {
            continue;
        }
        let value = number * factor;
        found = Some(found.map_or(value, |known| known.max(value)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heights_of_spikes_are_read_from_the_words_of_the_study() {
        let study = &super::super::published::figures().unwrap()["study4_timeline"];
        let found =
            |name: &str| ["100", "500", "1000"].map(|rate| study[name][rate].as_str().and_then(spike));
        assert_eq!(found("haproxy"), [Some(1_000.0), Some(10_000.0), Some(25_000.0)]);
        assert_eq!(found("nginx"), [Some(750.0), Some(1_000.0), None]);
        assert_eq!(found("envoy"), [Some(25.0), Some(200.0), None]);
    }
}
