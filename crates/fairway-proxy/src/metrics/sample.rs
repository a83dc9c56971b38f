//! A copy of a worker's counters, and the sum of several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::attribution::Costs;
use crate::metrics::http2::Event;
use crate::metrics::reason::Reason;
use crate::metrics::series::AllSeries;

/// A copy of a worker's counters.
#[derive(Clone, Default)]
pub struct Sample {
    /// Counters by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Slow connects by outcome.
    pub hedges: BTreeMap<&'static str, u64>,
    /// Gauges.
    pub gauges: Gauges,
    /// Open downstream connections.
    pub open_connections: u64,
    /// Faults and results by stage.
    pub reasons: BTreeMap<Reason, u64>,
    /// Events of downstream HTTP/2 connections.
    pub http2: BTreeMap<Event, u64>,
    /// Events of downstream HTTP/3 connections.
    pub http3: BTreeMap<Event, u64>,
    /// Events of upstream HTTP/2 connections.
    pub upstream_http2: BTreeMap<Event, u64>,
    /// Attempts by zone, and whether it is the local zone.
    pub zones: BTreeMap<(Arc<str>, bool), u64>,
    /// Bytes of compressed responses by coding and side.
    pub compressed: BTreeMap<(&'static str, &'static str), u64>,
    /// Failed and repeated exchanges.
    pub costs: Costs,
    /// Requests by labels.
    pub series: AllSeries,
}

/// Gauges of a worker.
#[derive(Clone, Copy, Default)]
pub struct Gauges {
    /// Idle upstream connections.
    pub upstream_idle: u64,
    /// Log lines dropped because the log's reader was slow.
    pub log_dropped: u64,
    /// Longest time a worker took to adopt the current snapshot.
    pub adoption: Duration,
    /// Workers that refuse work for lack of memory.
    pub shedding_workers: u64,
    /// Open downstream HTTP/2 streams.
    pub http2_streams: u64,
    /// Open downstream HTTP/3 streams.
    pub http3_streams: u64,
    /// Open HTTP/3 connections.
    pub http3_connections: u64,
    /// Bytes by which upload windows have grown.
    pub http2_window: u64,
    /// Bytes of memory reserved for buffered bodies.
    pub buffer_memory: u64,
    /// Exchanges in flight, including forwarded connections.
    pub exchanges: u64,
    /// Forwarded connections.
    pub streams: u64,
    /// Datagram sessions.
    pub sessions: u64,
    /// CPU time of the worker's thread.
    pub cpu: Duration,
}

impl Sample {
    /// Adds the sample of another worker.
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
