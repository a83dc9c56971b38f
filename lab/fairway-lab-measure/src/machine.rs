//! The machine of a run, from /proc and /etc. Contains nothing that identifies the machine.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::results::Environment;

/// The facts known without a cluster; the caller adds the place and the Kubernetes version.
#[must_use]
pub fn environment() -> Environment {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, file: &str| {
        if let Ok(text) = fs::read_to_string(file) {
            facts.insert(name.to_owned(), text.trim().to_owned());
        }
    };
    fact("load averages at the beginning", "/proc/loadavg");
    fact("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    fact("frequency governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    fact("hypervisor", "/sys/hypervisor/type");
    if value(&cpus, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")) {
        facts.insert(
            "virtual machine".to_owned(),
            "yes: the CPUs are shared with others that cannot be seen".to_owned(),
        );
    }
    facts.insert("revision".to_owned(), revision());
    Environment {
        cpu: value(&cpus, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1)),
        memory_bytes: kibibytes(&memory, "MemTotal").unwrap_or(0),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        system: system(),
        place: String::new(),
        kubernetes: None,
        laboratory: env!("CARGO_PKG_VERSION").to_owned(),
        facts,
    }
}

/// The commit that is checked out in the working directory, `... with changes` if files differ from it, `unknown` outside
/// of a checkout. It is what a published figure was measured at.
#[must_use]
pub fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|list| !list.is_empty());
    if changed { format!("{revision} with changes") } else { revision }
}

/// The value of the first line `name : value`.
fn value(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    value(text, name)?.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// `PRETTY_NAME` of os-release(5).
fn system() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
}
