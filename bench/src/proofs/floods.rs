//! `fairway-bench floods`: one attack after another, each against a separate proxy, and a table of their costs.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fairway_testkit::proof::floods::{AttackStats, Effort, FloodFindings, Kind, run};
use serde::Serialize;

use super::arguments::Paths;
use super::outcome::ProofReport;
use super::run::to_the_end;

#[derive(Args, Debug)]
#[command(after_help = "\
Every attack runs against a proxy of its own with two workers, on the loopback address:
  quiet      well-behaved clients alone, up to 5 s
  flood      the attackers and the same clients, --seconds
  recovery   from the end of the flood to 20 requests in a row that are served on new connections
  honest     honest clients make the proxy spend as much CPU as the flood did, over as many connections and at the
             same moments, and the same clients ask, --seconds

Examples:
  fairway-bench floods
  fairway-bench floods --only slow-heads,regex --seconds 20
  fairway-bench floods --only slow-heads --connections 5000
  fairway-bench floods --only passwords --seconds 20

The command fails when a well-behaved request failed, an endpoint was ejected, memory exceeded its bound, the proxy did
not recover, or a target was missed: less than 10 times the attackers' CPU, p99 less than twice that under honest load,
recovery within 1 s.
Handshakes and regular expressions are asymmetric by nature: see docs/limits.md. Verifying passwords is meant to be
expensive: its CPU is not compared with the attackers', but may not exceed one CPU for two workers.")]
pub(crate) struct FloodsArguments {
    /// Attacks, by name, comma-separated [default: all].
    #[arg(long, value_name = "KIND", value_delimiter = ',', hide_default_value = true)]
    only: Vec<Kind>,
    /// Seconds of flood, and of honest load, for each attack.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=600))]
    seconds: u16,
    /// Connections of attackers that hold connections. Attacks that need more to exhaust a resource use more; those with
    /// large responses use at most 64, because the kernel's socket memory is shared by the whole machine.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(10..=20_000))]
    connections: u16,
    /// Requests of well-behaved clients per second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(10..=5_000))]
    rate: u16,
    /// CPUs that an attack may keep busy in the proxy, without the threads that verify passwords. Honest clients need as
    /// much again for themselves; a value above the number of CPUs is no limit.
    #[arg(long, default_value_t = 0.5, value_name = "CPUS", value_parser = cores)]
    proxy_cpu: f64,
    /// Leaves out the honest load, and with it the comparison of p99.
    #[arg(long)]
    no_comparison: bool,
    #[command(flatten)]
    place: Paths,
}

fn cores(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(cores) if (0.05..=1_024.0).contains(&cores) => Ok(cores),
        _ => Err("a number of CPUs from 0.05 to 1024".to_owned()),
    }
}

#[derive(Serialize)]
struct Floods {
    effort: Effort,
    floods: Vec<FloodFindings>,
}

/// Runs one attack after another.
pub(crate) fn floods(arguments: &FloodsArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let effort = Effort {
        time: Duration::from_secs(arguments.seconds.into()),
        connections: arguments.connections.into(),
        rate: arguments.rate.into(),
        cores: arguments.proxy_cpu,
        compared: !arguments.no_comparison,
    };
    let selected = if arguments.only.is_empty() { Kind::value_variants() } else { arguments.only.as_slice() };
    let mut floods = Vec::new();
    for (number, kind) in selected.iter().enumerate() {
        let shown = format!("{}/{} {}", number + 1, selected.len(), kind.name());
        floods.push(to_the_end(run(&binary, *kind, &effort), || shown.clone())?);
    }
    let mut rows = vec![("attack".to_owned(), HEADER.join(" | "))];
    rows.extend(floods.iter().map(row));
    let broken = floods.iter().flat_map(|flood| [flood.wrongs(), flood.misses()].concat()).collect();
    ProofReport::new(&binary, Floods { effort, floods }, broken)?
        .conclude(&rows, &arguments.place.file("floods"))
}

const HEADER: [&str; 8] = [
    "connections",
    "CPUs",
    "proxy/attacker CPU",
    "resident + sockets MiB (bound)",
    "p99 quiet, flood, honest ms",
    "flood/honest",
    "refused, failed",
    "served again",
];

fn row(flood: &FloodFindings) -> (String, String) {
    let FloodFindings { kind, attacked, memory, quiet, flooded, honest, recovery, .. } = flood;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    // Honest clients that use less CPU would make the comparison look worse than it is.
    let honest_p99 = honest.as_ref().map_or("-".to_owned(), |honest| {
        format!("{:.2} at {:.2} CPUs", honest.probed.latency.p99_ms, honest.cores)
    });
    let cells = [
        attacked.connections.to_string(),
        cpus(attacked),
        ratio(attacked),
        format!(
            "{:.0} + {:.0} ({:.0})",
            mib(memory.resident_peak),
            mib(memory.sockets_peak),
            mib(memory.resident_bound)
        ),
        format!("{:.2}, {:.2}, {honest_p99}", quiet.latency.p99_ms, flooded.latency.p99_ms),
        flood.wait().map_or("-".to_owned(), |wait| format!("{wait:.2}")),
        format!("{}, {} of {}", flooded.refused, flooded.failures(), flooded.sent),
        recovery.served_after_ms.map_or("never".to_owned(), |after| format!("{after:.0} ms")),
    ];
    (kind.name(), cells.join(" | "))
}

/// The CPUs that the flood kept busy, and those of them that verified passwords.
fn cpus(attacked: &AttackStats) -> String {
    match attacked.verifying_cores() {
        verifying if verifying > 0.0 => format!("{:.2} ({verifying:.2} hashing)", attacked.cores()),
        _ => format!("{:.2}", attacked.cores()),
    }
}

/// CPU of the proxy for each second of the attackers', and without hashing where there was any.
fn ratio(attacked: &AttackStats) -> String {
    let (ratio, rest) = (attacked.ratio(), attacked.ratio_without_verifying());
    match attacked.verifying_cpu_seconds > 0.0 {
        true => format!("{ratio:.1} ({rest:.1} without hashing)"),
        false => format!("{ratio:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashing_is_shown_apart_where_there_was_any() {
        let mut attacked = AttackStats {
            seconds: 10.0,
            connections: 128,
            opened: 128,
            requests: 30_000.0,
            denied: 160.0,
            forwarded: 2_000.0,
            upstream_connections: 0.0,
            attacker_cpu_seconds: 2.0,
            proxy_cpu_seconds: 15.0,
            verifying_cpu_seconds: 9.8,
            backend_cpu_seconds: 0.1,
        };
        assert_eq!(cpus(&attacked), "1.50 (0.98 hashing)");
        assert_eq!(ratio(&attacked), "7.5 (2.6 without hashing)");
        attacked.verifying_cpu_seconds = 0.0;
        assert_eq!((cpus(&attacked), ratio(&attacked)), ("1.50".to_owned(), "7.5".to_owned()));
    }
}
