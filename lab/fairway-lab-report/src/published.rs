//! The figures of the published studies beside ours. They are of other machines and other years: shown as they were
//! printed, marked, and never divided by ours.

use std::collections::BTreeMap;

use fairway_lab_measure::results::{Class, Settings};
use serde::Deserialize;
use serde_json::Value;

use super::builder::{Block, PageBuilder};
use super::figures::percentile;
use super::gather::Scenario;
use super::number::{self, UNKNOWN};
use super::pool::{Pool, distinct, whole};
use super::table::{Cell, Table};

/// The figures as they were printed; a copy of what the project agreed on.
const PUBLISHED: &str = include_str!("../published.json");

#[derive(Deserialize)]
struct Published {
    note: String,
    #[serde(flatten)]
    studies: BTreeMap<String, Value>,
}

/// The chapter.
pub(super) fn chapter(all: &[Scenario], builder: &mut PageBuilder<'_>) -> anyhow::Result<()> {
    let published: Published = serde_json::from_str(PUBLISHED)?;
    builder.note(&published.note);
    for (name, study) in &published.studies {
        let heading = match name.as_str() {
            "study1_dynamic" => "Study 1: NGINX controllers in a dynamic cloud",
            "study2_capacity" => "Study 2: capacity of one controller by CPUs",
            "study3_comparison" => "Study 3: five default installations",
            "study4_timeline" => "Study 4: latency over time",
            other => other,
        };
        builder.heading(3, heading);
        builder.note(text(&study["source"]));
        let runs: Vec<&Scenario> =
            all.iter().filter(|run| run.question.study.as_deref() == Some(name)).collect();
        match name.as_str() {
            "study1_dynamic" => dynamic(study, &runs, builder),
            "study2_capacity" => capacity(study, &runs, builder),
            "study3_comparison" => comparison(study, &runs, builder),
            "study4_timeline" => timeline(study, &runs, builder),
            _ => {}
        }
        if runs.is_empty() {
            builder.note("No run of this report repeats this study.");
        }
        builder.folded("Everything that the study prints", |builder| {
            builder.blocks.push(Block::Tree(tree(study)));
        });
    }
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A value as it is in the file, so that a figure is not rounded.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => number::count(whole),
            None => number.to_string(),
        },
        Value::Null => UNKNOWN.to_owned(),
        other => other.to_string(),
    }
}

fn theirs(name: &str) -> Cell {
    Cell::Published(name.replace('_', " "))
}

fn ours(pool: &Pool<'_>, builder: &PageBuilder<'_>) -> Cell {
    builder.palette.cell(pool.peer, pool.settings)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn figure(value: &Value) -> Cell {
    Cell::Number(printed(value))
}

fn dynamic(study: &Value, runs: &[&Scenario], builder: &mut PageBuilder<'_>) {
    let columns = [
        "",
        "#connection errors",
        "#time-outs",
        "#read errors",
        "#p99 ms",
        "#p99.99 ms",
        "#p99.9999 ms",
        "as printed",
    ];
    let mut table = Table::new("Dynamic: errors and latency", &columns);
    for (name, errors) in entries(&study["dynamic_errors"]) {
        let latency = &study["dynamic_latency_ms"][name];
        let above =
            latency.get("above").map_or_else(String::new, |above| format!("above p99: {}", text(above)));
        table.row(vec![
            theirs(name),
            figure(&errors["connection_errors"]),
            figure(&errors["connection_timeouts"]),
            figure(&errors["read_errors"]),
            figure(&latency["p99"]),
            figure(&latency["p99.99"]),
            figure(&latency["p99.9999"]),
            Cell::Text(above),
        ]);
    }
    for pool in runs.iter().flat_map(|run| whole(run, builder.palette)) {
        table.group(&format!("ours, {}", pool.case));
        let mut cells = vec![ours(&pool, builder)];
        cells.extend(counters(&pool).map(|count| Cell::Number(number::count(count))));
        cells.extend([99.0, 99.99, 99.9999].map(|percent| Cell::Number(percentile(&pool, percent))));
        cells.push(Cell::Text(String::new()));
        table.row(cells);
    }
    builder.table(table);
    builder.note(&format!("Static, as printed: {}. Our classes are counted as wrk2 counts them: time-outs are of connections, TLS and answers; see the errors of the scenario for each class by itself.", text(&study["static"])));
}

/// The counters of wrk2 that study 1 prints: connect, timeout, read.
fn counters(pool: &Pool<'_>) -> [u64; 3] {
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

fn capacity(study: &Value, runs: &[&Scenario], builder: &mut PageBuilder<'_>) {
    let cpus: Vec<u64> = study["cpus"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let pools: Vec<Pool<'_>> = runs.iter().flat_map(|run| whole(run, builder.palette)).collect();
    let mut counts =
        distinct(cpus.iter().copied().chain(pools.iter().filter_map(|pool| pool.workers.map(u64::from))));
    counts.sort_unstable();
    let mut columns = vec![String::new(), "figure".to_owned()];
    columns.extend(counts.iter().map(|count| format!("#{count}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Capacity by CPUs (published) and by worker threads (ours)", &columns);
    for (key, text) in [
        ("http_rps", "HTTP, RPS"),
        ("https_rps", "HTTPS, RPS"),
        ("tls_tps", "new TLS connections, TPS"),
        ("tls_tps_hyper_threading", "new TLS connections with hyper-threading, TPS"),
        ("throughput_gbps", "throughput, Gbit/s"),
    ] {
        let mut cells = vec![theirs("NGINX"), Cell::Text(text.to_owned())];
        cells.extend(counts.iter().map(|count| {
            let place = cpus.iter().position(|cpu| cpu == count);
            place.map_or_else(|| Cell::Number(UNKNOWN.to_owned()), |place| figure(&study[key][place]))
        }));
        table.row(cells);
    }
    for (case, peer, settings) in distinct(pools.iter().map(|pool| (pool.case, pool.peer, pool.settings))) {
        let own: Vec<&Pool<'_>> = pools
            .iter()
            .filter(|pool| (pool.case, pool.peer, pool.settings) == (case, peer, settings))
            .collect();
        capacity_row(&own, &counts, &mut table, builder);
    }
    builder.table(table);
}

fn capacity_row(own: &[&Pool<'_>], counts: &[u64], table: &mut Table, builder: &PageBuilder<'_>) {
    let Some(first) = own.first() else { return };
    let (unit, value): (_, fn(&Pool<'_>) -> f64) = if first.is_about_handshakes() {
        ("TPS", |pool| pool.handshakes())
    } else if first.is_about_throughput() {
        ("Gbit/s", |pool| pool.gigabits())
    } else {
        ("RPS", |pool| pool.rate())
    };
    table.group(&format!("ours, {}", first.case));
    let mut cells = vec![ours(first, builder), Cell::Text(format!("{}, {unit}", first.case))];
    cells.extend(counts.iter().map(|count| {
        let found = own.iter().find(|pool| pool.workers.map(u64::from) == Some(*count));
        Cell::Number(found.map_or_else(|| UNKNOWN.to_owned(), |pool| number::figure(value(pool))))
    }));
    table.row(cells);
}

fn comparison(study: &Value, runs: &[&Scenario], builder: &mut PageBuilder<'_>) {
    const CODES: [&str; 5] = ["200", "404", "502", "503", "504"];
    const PERCENTILES: [f64; 4] = [75.0, 90.0, 95.0, 99.0];
    let columns = [
        "",
        "generators",
        "#200",
        "#404",
        "#502",
        "#503",
        "#504",
        "#other failures",
        "#p75 s",
        "#p90 s",
        "#p95 s",
        "#p99 s",
    ];
    let mut table = Table::new("Answers and latency", &columns);
    for (codes, latency, text) in [
        ("one_generator_codes", "one_generator_latency_s", "1 x 250"),
        ("five_generators_errors", "five_generators_latency_s", "5 x 50"),
    ] {
        for (name, codes) in entries(&study[codes]) {
            let mut cells = vec![theirs(name), Cell::Text(text.to_owned())];
            cells.extend(CODES.map(|code| figure(&codes[code])));
            cells.push(Cell::Number(UNKNOWN.to_owned()));
            cells.extend((0..PERCENTILES.len()).map(|at| figure(&study[latency][name][at])));
            table.row(cells);
        }
    }
    for pool in runs.iter().flat_map(|run| whole(run, builder.palette)) {
        let errors = pool.errors();
        let status = |code: u16| errors.get(&Class::Status(code)).copied().unwrap_or_default();
        let named: u64 = [404, 502, 503, 504].map(status).iter().sum();
        let answered = pool.measures.iter().map(|one| one.load.counts.ok).sum();
        table.group(&format!("ours, {}", pool.case));
        let mut cells = vec![ours(&pool, builder), Cell::Text(pool.case.to_owned())];
        cells.push(Cell::Number(number::count(answered)));
        cells.extend([404, 502, 503, 504].map(|code| Cell::Number(number::count(status(code)))));
        cells.push(Cell::Number(number::count(pool.failed().saturating_sub(named))));
        cells.extend(PERCENTILES.map(|percent| {
            let seconds = pool.percentile(percent).map(|point| point.ms / 1e3);
            Cell::Number(seconds.map_or_else(|| UNKNOWN.to_owned(), |seconds| format!("{seconds:.4}")))
        }));
        table.row(cells);
    }
    builder.table(table);
    builder.note(&format!("The study's verdict: {}", text(&study["verdict"])));
}

fn timeline(study: &Value, runs: &[&Scenario], builder: &mut PageBuilder<'_>) {
    let rates: Vec<u64> =
        study["parameters"]["rates"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let cases = distinct(runs.iter().flat_map(|run| &run.spikes).map(|spike| spike.case.as_str()));
    let mut columns = vec![String::new()];
    columns.extend(rates.iter().map(|rate| format!("{rate}/s")));
    columns.extend(
        cases
            .iter()
            .filter(|case| !columns.iter().any(|known| known == *case))
            .map(|case| (*case).to_owned())
            .collect::<Vec<_>>(),
    );
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Spikes", &names);
    for name in ["haproxy", "nginx", "envoy"] {
        let mut cells = vec![theirs(name)];
        cells.extend(columns.iter().skip(1).map(|case| {
            let text = &study[name][case.trim_end_matches("/s")];
            Cell::Text(text.as_str().unwrap_or(UNKNOWN).to_owned())
        }));
        table.row(cells);
    }
    let spikes = || {
        runs.iter()
            .flat_map(|run| &run.spikes)
            .filter(|spike| spike.settings == Settings::Recommended && spike.beside.is_none())
    };
    let mut peers = distinct(spikes().map(|spike| spike.peer.as_str()));
    peers.sort_by_key(|peer| builder.palette.place(peer));
    for peer in peers {
        table.group("ours");
        let mut cells = vec![builder.palette.cell(peer, Settings::Recommended)];
        cells.extend(columns.iter().skip(1).map(|case| {
            let own = || spikes().filter(|spike| spike.peer == peer && spike.case == *case);
            let highest = own().map(|spike| spike.highest_ms).reduce(f64::max);
            let longest = own().map(|spike| spike.lasted_s).reduce(f64::max);
            Cell::Text(match (highest, longest) {
                (Some(highest), Some(longest)) => format!(
                    "highest {} ms after an event, longest {} s",
                    number::figure(highest),
                    number::figure(longest)
                ),
                _ => UNKNOWN.to_owned(),
            })
        }));
        table.row(cells);
    }
    builder.table(table);
}

/// The same values with figures as they are printed, and lists of them on one line.
fn tree(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), tree(field))).collect(),
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().map(tree).collect(),
        Value::Array(items) => items.iter().map(printed).collect::<Vec<_>>().join(" · ").into(),
        other => printed(other).into(),
    }
}
