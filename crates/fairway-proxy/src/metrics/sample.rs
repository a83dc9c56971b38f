//! A worker's counters as a value, and the sum of several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::attribution::Costs;
use crate::metrics::http2::Event;
use crate::metrics::reason::Reason;
use crate::metrics::series::AllSeries;

/// What a worker counted until now.
#[derive(Clone, Default)]
pub struct Sample {
    /// Counters by their names.
    pub counts: BTreeMap<&'static str, u64>,
    /// Late connects by what became of them.
    pub hedges: BTreeMap<&'static str, u64>,
    /// What it holds now.
    pub gauges: Gauges,
    /// Connections of clients.
    pub open_connections: u64,
    /// Faults by where they were met.
    pub reasons: BTreeMap<Reason, u64>,
    /// Of clients' connections of HTTP/2.
    pub http2: BTreeMap<Event, u64>,
    /// Of clients' connections of HTTP/3.
    pub http3: BTreeMap<Event, u64>,
    /// Of connections of HTTP/2 to endpoints.
    pub upstream_http2: BTreeMap<Event, u64>,
    /// Attempts on endpoints by their zone, and whether it is the own one.
    pub zones: BTreeMap<(Arc<str>, bool), u64>,
    /// Bytes of responses that were compressed, by coding and side.
    pub compressed: BTreeMap<(&'static str, &'static str), u64>,
    /// Exchanges that failed or were repeated.
    pub costs: Costs,
    /// Requests by their labels.
    pub series: AllSeries,
}

/// What a worker holds now.
#[derive(Clone, Copy, Default)]
pub struct Gauges {
    /// Idle connections to endpoints.
    pub upstream_idle: u64,
    /// Log lines that were dropped because the log's reader was slow.
    pub log_dropped: u64,
    /// How long the last worker took to adopt the current snapshot after its publication.
    pub adoption: Duration,
    /// Workers that refuse work for want of memory.
    pub shedding_workers: u64,
    /// Open streams of clients.
    pub http2_streams: u64,
    /// The same over HTTP/3.
    pub http3_streams: u64,
    /// Connections of HTTP/3.
    pub http3_connections: u64,
    /// Bytes that windows of clients' uploads have grown by.
    pub http2_window: u64,
    /// Bytes of memory that bodies which are held may take.
    pub buffer_memory: u64,
    /// Exchanges under way, and connections that are forwarded as they come.
    pub exchanges: u64,
    /// Those among them that are forwarded as they come.
    pub streams: u64,
    /// Sessions of datagrams.
    pub sessions: u64,
    /// Time that the worker's thread has spent on CPUs.
    pub cpu: Duration,
}

impl Sample {
    /// Adds another worker's.
    pub fn merge(&mut self, other: Self) {
        for (name, value) in other.counts {
            *self.counts.entry(name).or_default() += value;
        }
        for (outcome, value) in other.hedges {
            *self.hedges.entry(outcome).or_default() += value;
        }
        for (reason, value) in other.reasons {
            *self.reasons.entry(reason).or_default() += value;
        }
        for (event, value) in other.http2 {
            *self.http2.entry(event).or_default() += value;
        }
        for (event, value) in other.http3 {
            *self.http3.entry(event).or_default() += value;
        }
        for (event, value) in other.upstream_http2 {
            *self.upstream_http2.entry(event).or_default() += value;
        }
        for (zone, value) in other.zones {
            *self.zones.entry(zone).or_default() += value;
        }
        for (side, value) in other.compressed {
            *self.compressed.entry(side).or_default() += value;
        }
        self.costs.merge(&other.costs);
        self.gauges.http2_streams += other.gauges.http2_streams;
        self.gauges.http3_streams += other.gauges.http3_streams;
        self.gauges.http3_connections += other.gauges.http3_connections;
        self.gauges.http2_window += other.gauges.http2_window;
        self.gauges.buffer_memory += other.gauges.buffer_memory;
        self.gauges.exchanges += other.gauges.exchanges;
        self.gauges.streams += other.gauges.streams;
        self.gauges.sessions += other.gauges.sessions;
        self.gauges.cpu += other.gauges.cpu;
        self.gauges.upstream_idle += other.gauges.upstream_idle;
        self.gauges.log_dropped += other.gauges.log_dropped;
        self.gauges.adoption = self.gauges.adoption.max(other.gauges.adoption);
        self.gauges.shedding_workers += other.gauges.shedding_workers;
        self.open_connections += other.open_connections;
        self.series.merge(other.series);
    }
}
