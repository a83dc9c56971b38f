//! The table of floods in docs/limits.md, from `bench/results/floods.json`. A figure that misses its target is bold.

use std::path::Path;

use serde::Deserialize;

use super::{json, table};

/// What attackers do.
const ATTACKS: [(&str, &str); 38] = [
    ("slow-heads", "request heads at 1 byte/s that never end"),
    ("slow-bodies", "request bodies at 1 byte/s"),
    ("slow-reads", "answers of 8 MiB, read at 1 byte/s"),
    ("no-reads", "answers of 8 MiB, not read at all"),
    ("silent-handshakes", "a ClientHello, then silence"),
    ("half-handshakes", "half a ClientHello, then silence"),
    ("replayed-hellos", "a recorded ClientHello over and over; the client computes nothing"),
    ("handshakes", "full TLS handshakes (RSA-2048), one after the other"),
    ("connection-churn", "connections that are made and reset"),
    ("descriptors", "more connections than the proxy may open files (256)"),
    ("memory-heads", "heads of 28 KiB in two pieces"),
    ("memory-bodies", "bodies held for a retry"),
    ("memory-reads", "answers that are not read"),
    ("regex", "random paths of 8 KiB, the most expensive accepted patterns"),
    ("passwords", "wrong passwords, each sent once, for a bcrypt hash of cost 10"),
    ("large-heads", "heads of 31 KiB with 90 fields"),
    ("pipelined", "pipelined requests that are answered 404"),
    ("tiny-chunks", "bodies in chunks of 1 byte"),
    ("chunk-extensions", "chunks of 1 byte with 900 bytes of extensions"),
    ("h2-rapid-reset", "requests that are reset at once"),
    ("h2-late-resets", "requests that are reset in batches, once they are under way"),
    ("h2-zero-increments", "requests that the proxy must reset: WINDOW_UPDATE of 0"),
    ("h2-large-increments", "requests that the proxy must reset: WINDOW_UPDATE of too much"),
    ("h2-priority-lengths", "requests that the proxy must reset: PRIORITY of 4 bytes"),
    ("h2-priority-loops", "requests that the proxy must reset: PRIORITY on themselves"),
    ("h2-headers-after-end", "requests that the proxy must reset: HEADERS after their end"),
    ("h2-data-after-end", "requests that the proxy must reset: DATA after their end"),
    ("h2-continuations", "a field block in empty CONTINUATION frames that never ends"),
    ("h2-empty-data", "a body in empty DATA frames"),
    ("h2-settings", "SETTINGS without end"),
    ("h2-pings", "PINGs without end"),
    ("h2-priorities", "PRIORITY frames without end"),
    ("h2-window-updates", "WINDOW_UPDATEs of 1 byte without end"),
    ("h2-hpack-bomb", "a field of 4,000 bytes that is named 4,000 times with a byte each"),
    ("h2-crumb-bomb", "4,000 crumbs of a cookie with a byte each"),
    ("h2-tiny-windows", "100 streams a connection, windows that grow by 1 byte/s"),
    ("h2-no-reads", "8 answers of 8 MiB a connection, not read at all"),
    ("h2-connections", "connections that ask once and then stay"),
];

#[derive(Deserialize)]
struct File {
    findings: Findings,
}

#[derive(Deserialize)]
struct Findings {
    floods: Vec<Flood>,
}

#[derive(Deserialize)]
struct Flood {
    kind: String,
    attacked: Attacked,
    memory: Memory,
    flooded: Probed,
    honest: Option<Honest>,
    recovery: Recovery,
}

#[derive(Deserialize)]
struct Attacked {
    attacker_cpu_seconds: f64,
    proxy_cpu_seconds: f64,
    /// A part of it; results from before passwords were a flood do not have it.
    #[serde(default)]
    verifying_cpu_seconds: f64,
}

#[derive(Deserialize)]
struct Memory {
    resident_peak: u64,
    resident_bound: u64,
    sockets_peak: u64,
}

#[derive(Deserialize)]
struct Honest {
    probed: Probed,
}

#[derive(Deserialize)]
struct Probed {
    sent: u64,
    refused: u64,
    latency: Latency,
}

#[derive(Deserialize)]
struct Latency {
    count: u64,
    p99_ms: f64,
}

#[derive(Deserialize)]
struct Recovery {
    served_after_ms: f64,
}

/// The CPU that an attack may cost the proxy for each of its own seconds, and how much longer others may wait.
const MOST_CPU: f64 = 10.0;
const LONGEST_WAIT: f64 = 2.0;
/// Fewer answers have fewer than ten above their p99.
const ENOUGH_ANSWERS: u64 = 1_000;

/// The table.
pub(super) fn page(root: &Path) -> anyhow::Result<String> {
    let file: File = json(root, "bench/results/floods.json")?;
    let columns = ["attack", "what attackers do", "CPU", "wait", "memory", "refused", "served again"];
    let rows: Vec<_> = file.findings.floods.iter().map(row).collect();
    Ok(format!("\n{}", table(&columns, &rows)))
}

fn row(flood: &Flood) -> Vec<String> {
    let Flood { kind, attacked, memory, flooded, recovery, .. } = flood;
    let what = ATTACKS.iter().find(|(name, _)| name == kind).map_or("", |(_, what)| what);
    let mebibytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1_048_576.0);
    let peak = bold_if(memory.resident_peak > memory.resident_bound, &mebibytes(memory.resident_peak));
    let refused = match flooded.refused {
        0 => "0".to_owned(),
        some => format!("{:.0}%", 100.0 * some as f64 / flooded.sent as f64),
    };
    vec![
        format!("`{kind}`"),
        what.to_owned(),
        cpu(attacked),
        wait(flood),
        format!("{peak} of {} MiB, {}", mebibytes(memory.resident_bound), mebibytes(memory.sockets_peak)),
        refused,
        format!("{:.0} ms", recovery.served_after_ms),
    ]
}

/// The proxy's CPU for each of the attackers'. The target is for all but hashing, which is bounded by its threads.
fn cpu(attacked: &Attacked) -> String {
    let Attacked { attacker_cpu_seconds, proxy_cpu_seconds, verifying_cpu_seconds } = attacked;
    let ratio = proxy_cpu_seconds / attacker_cpu_seconds;
    if *verifying_cpu_seconds <= 0.0 {
        return bold_if(ratio >= MOST_CPU, &format!("{ratio:.1}"));
    }
    let rest = (proxy_cpu_seconds - verifying_cpu_seconds) / attacker_cpu_seconds;
    let rest = bold_if(rest >= MOST_CPU, &format!("{rest:.1}"));
    format!("{ratio:.1}, {rest} without hashing")
}

/// How much longer others waited than under the same load of honest clients; nothing where no request was answered.
fn wait(flood: &Flood) -> String {
    let found = &flood.flooded.latency;
    let honest = flood.honest.as_ref().filter(|_| found.count > 0);
    let Some(wait) = honest.map(|honest| found.p99_ms / honest.probed.latency.p99_ms) else {
        return "-".to_owned();
    };
    let few =
        if found.count < ENOUGH_ANSWERS { format!(", only {} answers", found.count) } else { String::new() };
    match wait < LONGEST_WAIT {
        true => format!("{wait:.2}{few}"),
        false => format!("**{wait:.2}** ({:.2} ms{few})", found.p99_ms),
    }
}

fn bold_if(missed: bool, text: &str) -> String {
    if missed { format!("**{text}**") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn flood(kind: &str, attacked: &Value) -> Value {
        let probed = json!({ "sent": 2_160, "refused": 0, "latency": { "count": 2_160, "p99_ms": 2.0 } });
        json!({
            "kind": kind,
            "attacked": attacked,
            "memory": { "resident_peak": 20_971_520, "resident_bound": 67_108_864, "sockets_peak": 0 },
            "flooded": probed,
            "honest": { "probed": probed },
            "recovery": { "served_after_ms": 1.0 },
        })
    }

    fn cells(kind: &str, attacked: &Value) -> Vec<String> {
        row(&serde_json::from_value(flood(kind, attacked)).unwrap())
    }

    #[test]
    fn a_flood_without_results_has_no_row_and_results_without_hashing_are_read() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("bench/results/floods.json");
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let attacked = json!({ "attacker_cpu_seconds": 1.0, "proxy_cpu_seconds": 5.4 });
        let file = json!({ "findings": { "floods": [flood("regex", &attacked)] } });
        std::fs::write(&place, file.to_string()).unwrap();
        let page = page(root.path()).unwrap();
        assert!(page.contains("| `regex` | random paths of 8 KiB") && page.contains("| 5.4 |"), "{page}");
        assert!(!page.contains("passwords"), "{page}");
    }

    #[test]
    fn only_what_is_no_hashing_can_miss_the_target() {
        let cpu = |proxy: f64, verifying: f64| {
            let attacked = json!({
                "attacker_cpu_seconds": 0.4, "proxy_cpu_seconds": proxy, "verifying_cpu_seconds": verifying,
            });
            cells("passwords", &attacked)[2].clone()
        };
        assert_eq!(cpu(13.0, 10.0), "32.5, 7.5 without hashing");
        assert_eq!(cpu(16.0, 10.0), "40.0, **15.0** without hashing");
        assert_eq!(cpu(6.0, 0.0), "**15.0**");
    }

    #[test]
    fn every_flood_says_what_its_attackers_do() {
        let attacked = json!({ "attacker_cpu_seconds": 1.0, "proxy_cpu_seconds": 1.0 });
        for (kind, _) in ATTACKS {
            assert_ne!(cells(kind, &attacked)[1], "", "{kind}");
        }
    }
}
