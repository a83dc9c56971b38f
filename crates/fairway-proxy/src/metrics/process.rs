//! The metrics that ingress-nginx has of its nginx processes (`nginx_process_*`), of this process. What each means here:
//! docs/metrics.md.

use std::time::{SystemTime, UNIX_EPOCH};

use fairway_net::spent::Spent;

use crate::fault::Fault;
use crate::metrics::lines::{head, joined, line, single};
use crate::metrics::reason::Stage;
use crate::metrics::sample::Sample;

const PROCESS: &str = "nginx_ingress_controller_nginx_process_";

/// Connections and requests, of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    open: u64,
    /// Connections that were taken.
    handled: u64,
    /// Those, and the ones that a limit refused.
    accepted: u64,
    under_way: u64,
    requests: u64,
}

impl Traffic {
    /// What `sample` says.
    pub(crate) fn of(sample: &Sample) -> Self {
        let handled = sample.counts.get("connections_accepted_total").copied().unwrap_or_default();
        let refused = sample.reasons.get(&(Stage::Connection, Fault::Overloaded.label()));
        Self {
            open: sample.open_connections,
            handled,
            accepted: handled + refused.copied().unwrap_or_default(),
            under_way: sample.gauges.exchanges,
            requests: sample.series.requests(),
        }
    }

    /// Writes it. A request whose head is still arriving is one under way: `reading` of nginx has no count of its own.
    pub(crate) fn write(&self, identity: &str, out: &mut String) {
        let idle = self.open.saturating_sub(self.under_way);
        let now = [("active", self.open), ("writing", self.under_way), ("waiting", idle)];
        by_state(out, "connections", "gauge", identity, &now);
        let ever = [("accepted", self.accepted), ("handled", self.handled)];
        by_state(out, "connections_total", "counter", identity, &ever);
        single(out, &format!("{PROCESS}requests_total"), "counter", identity, self.requests);
    }
}

fn by_state(out: &mut String, name: &str, kind: &str, identity: &str, states: &[(&str, u64)]) {
    let name = format!("{PROCESS}{name}");
    head(out, &name, kind);
    for (state, value) in states {
        line(out, &name, &joined(identity, &format!("state=\"{state}\"")), value);
    }
}

/// Writes what the process has spent, which serves since `started`.
pub fn write_spent(spent: &Spent, started: SystemTime, identity: &str, out: &mut String) {
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let memory = spent.memory;
    let storage = spent.storage;
    single(out, &format!("{PROCESS}cpu_seconds_total"), "counter", identity, spent.cpu.as_secs_f64());
    for (name, kind, value) in [
        ("num_procs", "gauge", Some(1)),
        ("oldest_start_time_seconds", "gauge", Some(started)),
        ("resident_memory_bytes", "gauge", memory.map(|memory| memory.resident)),
        ("virtual_memory_bytes", "gauge", memory.map(|memory| memory.reserved)),
        ("read_bytes_total", "counter", storage.map(|storage| storage.read)),
        ("write_bytes_total", "counter", storage.map(|storage| storage.written)),
    ] {
        if let Some(value) = value {
            single(out, &format!("{PROCESS}{name}"), kind, identity, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counters, Gauges};

    #[test]
    fn connections_that_a_limit_refused_are_accepted_and_not_handled() {
        let counters = Counters::default();
        counters.connection_opened();
        counters.connection_opened();
        counters.refused(Fault::Overloaded);
        let sample = counters.sample(Gauges { exchanges: 3, ..Gauges::default() });
        let mut text = String::new();
        Traffic::of(&sample).write("pod=\"a\"", &mut text);
        for line in [
            "connections{pod=\"a\",state=\"active\"} 2",
            "connections{pod=\"a\",state=\"writing\"} 3",
            "connections{pod=\"a\",state=\"waiting\"} 0",
            "connections_total{pod=\"a\",state=\"accepted\"} 3",
            "connections_total{pod=\"a\",state=\"handled\"} 2",
            "requests_total{pod=\"a\"} 0",
        ] {
            let line = format!("{PROCESS}{line}");
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_the_system_does_not_tell_is_left_out() {
        let mut text = String::new();
        write_spent(&Spent::default(), UNIX_EPOCH, "", &mut text);
        assert!(text.contains("cpu_seconds_total 0\n") && !text.contains("memory"), "{text}");
    }
}
