//! Synthetic results, computed by a formula for tests of the report. Nothing was measured, and every text says so.

use fairway_lab_measure::results::{
    Bucket, Class, Delivered, Deliveries, Event, Example, Latency, Load, Measure, OverTime, Percentile,
    Propagation, Results, Run, SCHEMA, Settings, Spike,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The name of a peer that would be a script if it were not escaped.
pub(crate) const HOSTILE: &str = "<script>window.harmed=1</script>";

/// Peers with how slow, how dear and how easily disturbed the formula makes them.
const PEERS: [(&str, f64, f64, f64); 7] = [
    ("fairway", 0.7, 21.0, 0.0),
    ("nginx-reload", 0.9, 29.0, 700.0),
    ("haproxy", 0.8, 26.0, 240.0),
    ("envoy", 1.3, 47.0, 14.0),
    ("contour", 1.4, 49.0, 22.0),
    ("traefik", 1.9, 74.0, 60.0),
    (HOSTILE, 1.6, 60.0, 35.0),
];
const PERCENTS: [f64; 24] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9,
    99.95, 99.975, 99.99, 99.995, 99.999, 99.9995, 99.9999,
];

/// How large the results are.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Seconds of each stream.
    pub seconds: u32,
    /// Intervals per second.
    pub chunks: u32,
}

/// The results that most tests use.
pub(crate) const SMALL: Extent = Extent { seconds: 60, chunks: 10 };

struct Formula {
    random: fastrand::Rng,
    extent: Extent,
}

/// Four scenarios, seven peers, the direct stream, absent peers, errors, spikes.
pub(crate) fn results(extent: Extent) -> Results {
    let mut formula = Formula { random: fastrand::Rng::with_seed(4), extent };
    let runs = vec![formula.dynamic(), formula.comparison(), formula.timeline(), formula.propagation()];
    let mut peers: Vec<Value> = PEERS.iter().map(|(name, ..)| record(name, "adapter")).collect();
    peers.push(record("direct", "direct"));
    read(json!({
        "schema": SCHEMA, "completeness": {"state": "complete"}, "begun": "2026-01-02T03:04:05Z", "seconds": 1_234.0,
        "command": ["fairway-lab", "run", "--quick", "--note", "made up by a test; it's synthetic"],
        "environment": {
            "cpu": "Synthetic CPU @ 2.00 GHz", "cpus": 2, "memory_bytes": 8_u64 << 30, "kernel": "6.0.0-synthetic",
            "system": "Synthetic Linux", "place": "testbed", "kubernetes": "v1.36.0", "laboratory": "0.0.0 (synthetic)",
            "facts": {"clock source": "synthetic"},
        },
        "peers": peers,
        "absent": [{"peer": "caddy", "scenario": null, "reason": "synthetic: apt-get has no package caddy"}],
        "runs": runs,
        "limitations": [
            "Synthetic: every figure comes from a formula in a test.", "Generator, proxies and backends share two CPUs.",
        ],
    }))
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn record(name: &str, kind: &str) -> Value {
    let text = "workers 1;\n# </pre><script>window.harmed=2</script>\n".repeat(12);
    json!({
        "name": name, "title": format!("{name}, synthetic"), "kind": kind, "stands_for": "nothing real",
        "versions": {name: "1.2.3-synthetic"},
        "configurations": [{"name": "synthetic.conf (recommended)", "text": text}],
    })
}

fn empty(scenario: &str, study: Option<&str>) -> Run {
    read(json!({
        "scenario": scenario, "study": study,
        "purpose": format!("Synthetic {scenario}: does the report show what it should?"),
        "parameters": [
            {"name": "seconds", "paper": "180 s", "used": "60 s"}, {"name": "rate", "paper": "30,000/s", "used": "2,000/s"},
        ],
        "shortened": ["60 s instead of 180 s (--quick)"], "seconds": 60.0,
        "measures": [], "events": [], "spikes": [], "propagations": [],
    }))
}

/// Half of the peers deliver some requests twice; one has no counts, and one was not measured.
fn count_deliveries(run: &mut Run) {
    for measure in &mut run.measures {
        let counts = measure.load.counts;
        let failed = measure.load.errors.values().sum::<u64>();
        let repeated = failed / 7;
        measure.backstage.deliveries = match measure.peer.as_str() {
            "envoy" => {
                Some(Deliveries::Uncounted { reason: "synthetic: <b>nobody</b> could tell".to_owned() })
            }
            "contour" => None,
            _ => Some(Deliveries::Counted(Delivered {
                sent: counts.requests,
                posts: counts.requests / 20,
                seen: counts.ok + failed / 2,
                repeated_gets: repeated,
                repeated_posts: repeated / 3,
                answered_unseen: 0,
                failed_seen: failed / 2,
                failed_unseen: failed - failed / 2,
                examples: (repeated > 0)
                    .then(|| "POST 1f-0-2a, 2 times, answered".to_owned())
                    .into_iter()
                    .collect(),
            })),
        };
    }
}

impl Formula {
    fn around(&mut self, value: f64) -> f64 {
        value * (0.92 + 0.16 * self.random.f64())
    }

    fn measure(&mut self, peer: usize, case: &str, phase: &str, rate: f64) -> Measure {
        let (name, slow, cpu, disturbed) = PEERS[peer];
        let spike = if case == "static" || case.starts_with("http") { 0.0 } else { disturbed };
        let seconds = f64::from(self.extent.seconds);
        let ok = (rate * seconds) as u64;
        let cpu = self.around(cpu);
        let mut measure: Measure = read(json!({
            "peer": name, "settings": "recommended", "case": case, "phase": phase, "begun_s": 0.0,
            "load": Load::default(),
            "cost": {
                "cpu_s": cpu * ok as f64 / 1e6, "us_per_request": cpu, "cpus": cpu * rate / 1e6,
                "memory_bytes": 40 << 20, "source": "cgroup", "of": "5 pods",
            },
        }));
        let load = &mut measure.load;
        if spike > 100.0 {
            load.errors.insert(Class::ConnectRefused, self.random.u64(20..400));
            load.errors.insert(Class::ReadReset, self.random.u64(1..60));
            load.errors.insert(Class::Status(502), self.random.u64(1..30));
        }
        let example = |class: &Class| Example {
            class: *class,
            at_s: 12.3,
            after_ms: 0.8,
            text: format!("synthetic: <b>{}</b>", class.name()),
        };
        load.examples = load.errors.keys().map(example).collect();
        load.offered = read(json!({"rate": rate, "connections": 100, "threads": 2}));
        load.counts = read(json!({
            "requests": ok + load.errors.values().sum::<u64>(), "ok": ok, "connections": 100, "full_handshakes": 100,
            "resumed_handshakes": 0, "tickets": 100, "bytes": ok * 1_200,
        }));
        load.lateness = read(json!({"p50_ms": 0.01, "p99_ms": 0.08, "p999_ms": 0.4, "max_ms": 1.2}));
        load.tls = read(json!({
            "version": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "key": "RSA-2048", "protocol": "http/1.1",
            "group": "X25519", "signature": "RSA_PSS_SHA256",
        }));
        (load.rate, load.bytes_rate, load.seconds) = (rate, rate * 1_200.0, seconds);
        load.latency = self.latency(ok, slow, spike);
        load.over_time = self.over_time(rate, slow, spike);
        measure
    }

    fn latency(&mut self, count: u64, slow: f64, spike: f64) -> Latency {
        let at = |percent: f64| {
            let nines = -(1.0f64 - percent / 100.0).max(1e-7).log10();
            slow * (0.4 + 0.5 * nines + 0.06 * nines.powi(3))
                + if nines > 2.5 { spike * (nines - 2.5) } else { 0.0 }
        };
        let wobble = self.around(1.0);
        let points = PERCENTS.iter().map(|percent| Percentile {
            percent: *percent,
            ms: at(*percent) * wobble,
            above: (count as f64 * (1.0 - percent / 100.0)) as u64,
        });
        let percentiles: Vec<Percentile> = points.collect();
        Latency {
            count,
            min_ms: at(0.0) * wobble,
            mean_ms: at(50.0),
            deviation_ms: slow,
            max_ms: at(99.99999) * wobble,
            percentiles,
            histogram: None,
        }
    }

    fn over_time(&mut self, rate: f64, slow: f64, spike: f64) -> OverTime {
        let chunks = self.extent.chunks;
        let length = 1.0 / f64::from(chunks);
        let series = (0..self.extent.seconds * chunks).map(|piece| {
            let at_s = f64::from(piece) * length;
            let after = at_s % 10.0;
            let disturbed =
                if at_s > 9.0 && after < 0.9 { spike * (1.0 - after) * self.random.f64() } else { 0.0 };
            let usual = self.around(slow * 1.6) * if self.random.u32(0..90) == 0 { 2.5 } else { 1.0 };
            Bucket {
                at_s,
                seconds: length,
                requests: (rate * length) as u64,
                errors: if disturbed > 200.0 { self.random.u64(0..9) } else { 0 },
                p50_ms: slow * 0.55,
                p99_ms: usual,
                max_ms: usual * 1.5 + disturbed,
            }
        });
        OverTime { series: series.collect() }
    }

    fn direct(&mut self, beside: &Measure, rate: f64) -> Measure {
        let mut direct = self.measure(0, "static", &beside.phase, rate);
        direct.case.clone_from(&beside.case);
        direct.peer = "direct".to_owned();
        direct.beside = Some(beside.peer.clone());
        direct.cost = None;
        direct
    }

    fn events(&mut self, run: &mut Run, case: &str, labels: &[(&str, &str)]) {
        for (name, slow, _, spike) in PEERS {
            for (at, (label, kind)) in labels.iter().enumerate() {
                let at_s = 10.0 * (at + 1) as f64;
                run.events.push(Event {
                    peer: name.to_owned(),
                    settings: Settings::Recommended,
                    case: case.to_owned(),
                    at_s,
                    label: (*label).to_owned(),
                    kind: (*kind).to_owned(),
                });
                let spike = Spike {
                    peer: name.to_owned(),
                    settings: Settings::Recommended,
                    case: case.to_owned(),
                    event: (*label).to_owned(),
                    at_s,
                    highest_ms: self.around(slow * 3.0 + spike),
                    direct_ms: Some(2.2),
                    lasted_s: if spike > 10.0 { self.around(0.8) } else { 0.0 },
                    errors: if spike > 200.0 { 12 } else { 0 },
                    beside: None,
                };
                run.spikes.push(Spike {
                    peer: "direct".to_owned(),
                    highest_ms: 2.2,
                    direct_ms: None,
                    lasted_s: if at == 0 { 0.1 } else { 0.0 },
                    errors: 0,
                    beside: Some(name.to_owned()),
                    ..spike.clone()
                });
                run.spikes.push(spike);
            }
        }
    }

    fn dynamic(&mut self) -> Run {
        let mut run = empty("dynamic", Some("study1_dynamic"));
        for peer in 0..PEERS.len() {
            for case in ["static", "dynamic"] {
                let measure = self.measure(peer, case, "pooled", 2_000.0);
                let direct = self.direct(&measure, 200.0);
                run.measures.extend([measure, direct]);
            }
        }
        count_deliveries(&mut run);
        let (up, down) = (("backend 5 -> 7", "scale"), ("backend 7 -> 5", "scale"));
        self.events(&mut run, "dynamic", &[up, down, up, down]);
        run
    }

    fn comparison(&mut self) -> Run {
        let mut run = empty("comparison", Some("study3_comparison"));
        for peer in 0..PEERS.len() {
            for case in ["1 x 250", "5 x 50"] {
                for phase in ["replicas 5 -> 7", "replicas 7 -> 5", "CORS added", "pooled"] {
                    let mut measure = self.measure(peer, case, phase, 1_500.0);
                    measure.load.over_time = OverTime::default();
                    run.measures.push(measure);
                }
                let mut defaults = self.measure(peer, case, "pooled", 1_500.0);
                defaults.load.over_time = OverTime::default();
                defaults.settings = Settings::Defaults;
                run.measures.push(defaults);
            }
        }
        run
    }

    fn timeline(&mut self) -> Run {
        let mut run = empty("timeline", Some("study4_timeline"));
        for (case, rate) in [("100/s", 100.0), ("500/s", 500.0), ("1000/s", 1_000.0)] {
            for peer in 0..PEERS.len() {
                let measure = self.measure(peer, case, "pooled", rate);
                let direct = self.direct(&measure, 100.0);
                run.measures.extend([measure, direct]);
            }
            let labels = [
                ("backend 3 -> 4", "scale"),
                ("backend 4 -> 3", "scale"),
                ("CORS headers added", "route"),
                ("header added", "route"),
                ("path rewritten", "route"),
            ];
            self.events(&mut run, case, &labels);
        }
        run
    }

    fn propagation(&mut self) -> Run {
        let mut run = empty("propagation", None);
        for (name, slow, _, spike) in PEERS {
            for case in ["add one by one", "change under load"] {
                let ms = (0..300).map(|_| (slow * 4.0 + spike) * (0.3 + 2.0 * self.random.f64().powi(3)));
                let ms: Vec<f64> = ms.collect();
                run.propagations.push(read::<Propagation>(json!({
                    "peer": name, "settings": "recommended", "case": case, "ms": ms, "lost": if spike > 600.0 { 7 } else { 0 },
                    "wrong": 0, "routes": 300, "memory_bytes": 60 << 20,
                })));
            }
        }
        run
    }
}
