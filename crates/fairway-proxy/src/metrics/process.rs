//! The `nginx_process_*` metrics of ingress-nginx, for this process. Their meanings here: docs/metrics.md.

use std::time::{SystemTime, UNIX_EPOCH};

use fairway_net::resource_usage::ProcessUsage;

use crate::fault::Fault;
use crate::metrics::lines::{join_labels, write_line, write_metric, write_type};
use crate::metrics::reason::FaultStage;
use crate::metrics::sample::Sample;

const PROCESS_PREFIX: &str = "nginx_ingress_controller_nginx_process_";

/// Connections and requests of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NginxTraffic {
    open: u64,
    /// Connections accepted and served.
    handled: u64,
    /// Those and the ones refused by a limit.
    accepted: u64,
    in_flight: u64,
    requests: u64,
}

impl NginxTraffic {
    /// Extracts the numbers from a sample.
    pub(crate) fn from_sample(sample: &Sample) -> Self {
        let handled = sample.counts.get("connections_accepted_total").copied().unwrap_or_default();
        let refused = sample.reasons.get(&(FaultStage::Connection, Fault::Overloaded.label()));
        Self {
            open: sample.open_connections,
            handled,
            accepted: handled + refused.copied().unwrap_or_default(),
            in_flight: sample.gauges.exchanges,
            requests: sample.series.requests(),
        }
    }

    /// Writes the metrics. A request whose head is still arriving counts as in flight: `reading` of nginx has
    /// no count of its own.
    pub(crate) fn write(&self, identity: &str, out: &mut String) {
        let idle = self.open.saturating_sub(self.in_flight);
        let now = [("active", self.open), ("writing", self.in_flight), ("waiting", idle)];
        write_states(out, "connections", "gauge", identity, &now);
        let ever = [("accepted", self.accepted), ("handled", self.handled)];
        write_states(out, "connections_total", "counter", identity, &ever);
        write_metric(out, &format!("{PROCESS_PREFIX}requests_total"), "counter", identity, self.requests);
    }
}

fn write_states(out: &mut String, name: &str, kind: &str, identity: &str, states: &[(&str, u64)]) {
    let name = format!("{PROCESS_PREFIX}{name}");
    write_type(out, &name, kind);
    for (state, value) in states {
        write_line(out, &name, &join_labels(identity, &format!("state=\"{state}\"")), value);
    }
}

/// Writes the resource usage of a process that serves since `started`.
pub fn write_spent(spent: &ProcessUsage, started: SystemTime, identity: &str, out: &mut String) {
    let started = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let memory = spent.memory;
    let storage = spent.storage;
    write_metric(
        out,
        &format!("{PROCESS_PREFIX}cpu_seconds_total"),
        "counter",
        identity,
        spent.cpu.as_secs_f64(),
    );
    for (name, kind, value) in [
        ("num_procs", "gauge", Some(1)),
        ("oldest_start_time_seconds", "gauge", Some(started)),
        ("resident_memory_bytes", "gauge", memory.map(|memory| memory.resident)),
        ("virtual_memory_bytes", "gauge", memory.map(|memory| memory.reserved)),
        ("read_bytes_total", "counter", storage.map(|storage| storage.read)),
        ("write_bytes_total", "counter", storage.map(|storage| storage.written)),
    ] {
        if let Some(value) = value {
            write_metric(out, &format!("{PROCESS_PREFIX}{name}"), kind, identity, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counters, Gauges};

    #[test]
    fn connections_refused_by_a_limit_count_as_accepted_but_not_handled() {
        let counters = Counters::default();
        counters.connection_opened();
        counters.connection_opened();
        counters.count_refused(Fault::Overloaded);
        let sample = counters.sample(Gauges { exchanges: 3, ..Gauges::default() });
        let mut text = String::new();
        NginxTraffic::from_sample(&sample).write("pod=\"a\"", &mut text);
        for line in [
            "connections{pod=\"a\",state=\"active\"} 2",
            "connections{pod=\"a\",state=\"writing\"} 3",
            "connections{pod=\"a\",state=\"waiting\"} 0",
            "connections_total{pod=\"a\",state=\"accepted\"} 3",
            "connections_total{pod=\"a\",state=\"handled\"} 2",
            "requests_total{pod=\"a\"} 0",
        ] {
            let line = format!("{PROCESS_PREFIX}{line}");
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn unknown_system_values_are_left_out() {
        let mut text = String::new();
        write_spent(&ProcessUsage::default(), UNIX_EPOCH, "", &mut text);
        assert!(text.contains("cpu_seconds_total 0\n") && !text.contains("memory"), "{text}");
    }
}
