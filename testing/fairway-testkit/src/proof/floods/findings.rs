//! The findings of a flood, and their comparison with the targets. Pure.

use serde::Serialize;

use super::kind::Kind;
use super::plan::Plan;
use super::probe::ProbeTally;

/// The proxy may spend less than this many times the attacker's CPU, apart from what verifying passwords costs.
const MAX_CPU_RATIO: f64 = 10.0;
/// CPUs that verifying passwords may keep busy: one thread does it for two workers (docs/limits.md), and the kernel
/// counts its time a little late.
const VERIFYING_CORES: f64 = 1.05;
/// Well-behaved clients wait less than this many times as long as under honest load.
const MAX_LATENCY_RATIO: f64 = 2.0;
/// The CPU ratio is checked only above this share of a core: less harms nobody.
const NOTICED_CORES: f64 = 0.02;
/// Maximum time from the end of the flood until service recovers, milliseconds.
const RECOVERY_MS: f64 = 1_000.0;

/// A flood.
#[derive(Clone, Debug, Serialize)]
pub struct FloodFindings {
    /// The attack.
    pub kind: Kind,
    /// The description of the attack.
    pub what: String,
    /// The attackers' work and the costs on both sides.
    pub attacked: AttackStats,
    /// The proxy's memory.
    pub memory: Memory,
    /// Well-behaved clients before.
    pub quiet: ProbeTally,
    /// Well-behaved clients during the flood.
    pub flooded: ProbeTally,
    /// Well-behaved clients while honest clients cost the proxy as much CPU; `None` if that was not measured.
    pub honest: Option<Honest>,
    /// The recovery.
    pub recovery: Recovery,
}

/// The attackers' work.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct AttackStats {
    /// Duration, seconds.
    pub seconds: f64,
    /// Concurrent connections of the attackers.
    pub connections: usize,
    /// Connections that they began.
    pub opened: u64,
    /// Requests that the proxy counted and that no well-behaved client sent.
    pub requests: f64,
    /// Requests answered with 401: their passwords were verified and wrong.
    pub denied: f64,
    /// Requests that reached a backend, well-behaved clients' among them.
    pub forwarded: f64,
    /// Connections that the proxy made to backends.
    pub upstream_connections: f64,
    /// Their CPU time.
    pub attacker_cpu_seconds: f64,
    /// The proxy's CPU time, less what well-behaved clients cost it before.
    pub proxy_cpu_seconds: f64,
    /// The part of it that the threads spent that verify passwords.
    pub verifying_cpu_seconds: f64,
    /// The backends' CPU time, with what well-behaved clients cost them.
    pub backend_cpu_seconds: f64,
}

impl AttackStats {
    /// CPU time of the proxy for each second of the attackers'.
    pub fn ratio(&self) -> f64 {
        self.proxy_cpu_seconds / self.attacker_cpu_seconds.max(1e-6)
    }

    /// The same without the threads that verify passwords. Hashing is meant to be expensive, and the number of these
    /// threads limits it, whatever attackers send.
    pub fn ratio_without_verifying(&self) -> f64 {
        (self.proxy_cpu_seconds - self.verifying_cpu_seconds) / self.attacker_cpu_seconds.max(1e-6)
    }

    /// CPUs that the flood kept busy in the proxy.
    pub fn cores(&self) -> f64 {
        self.proxy_cpu_seconds / self.seconds.max(1e-6)
    }

    /// CPUs that verifying passwords kept busy.
    pub fn verifying_cores(&self) -> f64 {
        self.verifying_cpu_seconds / self.seconds.max(1e-6)
    }
}

/// Resident memory of the proxy, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    /// Resident before.
    pub resident_before: u64,
    /// The most resident at a time.
    pub resident_peak: u64,
    /// Resident after the recovery.
    pub resident_after: u64,
    /// The limit of resident memory.
    pub resident_bound: u64,
    /// The peak of kernel memory for the proxy's sockets; 0 if the kernel does not report it.
    pub sockets_peak: u64,
}

/// The same CPU load by honest clients, at the same times.
#[derive(Clone, Debug, Serialize)]
pub struct Honest {
    /// CPUs of the proxy that these clients kept busy.
    pub cores: f64,
    /// Connections that they had; 0 where the flood was no load.
    pub connections: usize,
    /// Milliseconds between simultaneous requests; `None` if clients sent requests one by one.
    pub together_ms: Option<u64>,
    /// Well-behaved clients during the flood.
    pub probed: ProbeTally,
}

/// The recovery after the flood.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recovery {
    /// From the end of the flood to the first of a series of requests that were all served on new connections; `None` if
    /// there was no such series in time.
    pub served_after_ms: Option<f64>,
    /// Whether `/readyz` returned 200 at the end.
    pub ready: bool,
    /// Whether the process runs and no attacker's thread panicked.
    pub alive: bool,
    /// The number of ejections, although all endpoints were always healthy; `None` if the proxy did not report it.
    pub ejections: Option<f64>,
}

impl FloodFindings {
    /// The p99 of well-behaved clients relative to that under honest load.
    pub fn wait(&self) -> Option<f64> {
        let honest = self.honest.as_ref()?.probed.latency;
        (honest.count > 0 && self.flooded.latency.count > 0)
            .then(|| self.flooded.latency.p99_ms / honest.p99_ms.max(0.001))
    }

    /// Violations of what must hold on any machine, however busy: no well-behaved client fails, memory is bounded, the
    /// proxy recovers and its metrics are right. Empty if there are none.
    pub fn wrongs(&self) -> Vec<String> {
        let Self { kind, attacked, memory, flooded, recovery, .. } = self;
        let mut wrongs = Vec::new();
        let mut require = |well: bool, problem: String| {
            if !well {
                wrongs.push(format!("{}: {problem}", kind.name()));
            }
        };
        require(flooded.failures() == 0, format!("well-behaved requests failed: {:?}", flooded.failed));
        let refused = if Plan::for_kind(*kind).exhausts() { 0 } else { flooded.refused };
        require(refused == 0, format!("{refused} well-behaved requests were refused"));
        require(
            memory.resident_peak <= memory.resident_bound,
            format!(
                "{} MiB were resident, {} may be",
                memory.resident_peak >> 20,
                memory.resident_bound >> 20
            ),
        );
        let verifying = attacked.verifying_cores();
        require(verifying <= VERIFYING_CORES, format!("verifying passwords kept {verifying:.2} CPUs busy"));
        require(recovery.served_after_ms.is_some(), "not served again after the flood".to_owned());
        require(
            recovery.ready == recovery.served_after_ms.is_some(),
            "/readyz does not tell the truth".to_owned(),
        );
        let ejections = recovery.ejections.unwrap_or(0.0);
        require(ejections < 1.0, format!("endpoints without a fault were ejected {ejections} times"));
        require(recovery.alive, "the process ended, or a thread panicked".to_owned());
        wrongs
    }

    /// Missed targets for a quiet machine: CPU ratio, latency, recovery time.
    pub fn misses(&self) -> Vec<String> {
        let name = self.kind.name();
        let mut misses = Vec::new();
        let ratio = self.attacked.ratio_without_verifying();
        let cores = self.attacked.cores() - self.attacked.verifying_cores();
        if ratio >= MAX_CPU_RATIO && cores > NOTICED_CORES {
            misses.push(format!("{name}: {ratio:.1} times the attacker's CPU"));
        }
        if let Some(wait) = self.wait().filter(|wait| *wait >= MAX_LATENCY_RATIO) {
            misses.push(format!("{name}: p99 is {wait:.1} times that under honest load"));
        }
        if let Some(after) = self.recovery.served_after_ms.filter(|after| *after >= RECOVERY_MS) {
            misses.push(format!("{name}: served again after {after:.0} ms"));
        }
        misses
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::proof::delays::Delays;

    fn probed(p99_ms: f64) -> ProbeTally {
        let latency = Delays { count: 100, p50_ms: 0.1, p99_ms, max_ms: p99_ms };
        ProbeTally { sent: 100, answered: 100, latency, ..ProbeTally::default() }
    }

    fn flooded(kind: Kind) -> FloodFindings {
        let attacked = AttackStats {
            seconds: 10.0,
            attacker_cpu_seconds: 1.0,
            proxy_cpu_seconds: 5.0,
            ..AttackStats::default()
        };
        FloodFindings {
            kind,
            what: kind.description(),
            attacked,
            memory: Memory { resident_peak: 30 << 20, resident_bound: 40 << 20, ..Memory::default() },
            quiet: probed(0.5),
            flooded: probed(3.0),
            honest: Some(Honest { cores: 0.5, connections: 8, together_ms: None, probed: probed(2.0) }),
            recovery: Recovery { served_after_ms: Some(3.0), ready: true, alive: true, ejections: Some(0.0) },
        }
    }

    #[test]
    fn violations_always_fail_and_missed_targets_only_on_a_quiet_machine() {
        type Case = (Kind, fn(&mut FloodFindings), &'static [&'static str], &'static [&'static str]);
        let cases: [Case; 7] = [
            (Kind::Pipelined, |_| {}, &[], &[]),
            // Refusals are right only where something is used up.
            (Kind::MemoryHeads, |found| found.flooded.refused = 7, &[], &[]),
            (
                Kind::Pipelined,
                |found| found.flooded.refused = 7,
                &["7 well-behaved requests were refused"],
                &[],
            ),
            // Hashing is bounded by its threads, and all else by what attackers spend.
            (Kind::Passwords, |found| spend(found, 13.0, 10.0), &[], &[]),
            (Kind::Passwords, |found| spend(found, 16.0, 10.0), &[], &["15.0 times the attacker's CPU"]),
            (
                Kind::Passwords,
                |found| spend(found, 16.0, 15.0),
                &["verifying passwords kept 1.50 CPUs busy"],
                &[],
            ),
            (
                Kind::Pipelined,
                |found| {
                    found.attacked.attacker_cpu_seconds = 0.2;
                    found.flooded = probed(5.0);
                    found.recovery.served_after_ms = Some(1_500.0);
                },
                &[],
                &[
                    "25.0 times the attacker's CPU",
                    "p99 is 2.5 times that under honest load",
                    "served again after 1500 ms",
                ],
            ),
        ];
        for (kind, change, wrongs, misses) in cases {
            let mut found = flooded(kind);
            change(&mut found);
            let named = |all: &[&str]| all.iter().map(|what| format!("{}: {what}", kind.name())).collect();
            let expected: (Vec<_>, Vec<_>) = (named(wrongs), named(misses));
            assert_eq!((found.wrongs(), found.misses()), expected, "{found:#?}");
        }
    }

    #[test]
    fn every_flood_describes_its_attack() {
        let finding_of = |kind: Kind| flooded(kind).what;
        assert_eq!(finding_of(Kind::SilentHandshakes), "a ClientHello, then silence");
        assert_eq!(finding_of(Kind::H2Pings), "PINGs without end");
        assert!(Kind::value_variants().iter().all(|kind| !finding_of(*kind).is_empty()));
    }

    fn spend(found: &mut FloodFindings, proxy: f64, verifying: f64) {
        found.attacked.attacker_cpu_seconds = 0.4;
        (found.attacked.proxy_cpu_seconds, found.attacked.verifying_cpu_seconds) = (proxy, verifying);
    }

    #[test]
    fn ready_without_being_served_is_no_truth() {
        let mut found = flooded(Kind::MemoryHeads);
        found.recovery.served_after_ms = None;
        let wrongs = ["not served again after the flood", "/readyz does not tell the truth"];
        assert_eq!(found.wrongs(), wrongs.map(|what| format!("memory-heads: {what}")));
    }
}
