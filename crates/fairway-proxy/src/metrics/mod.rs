//! Metrics of exchanges: the [`record`] of each, the counters it is added to, and the Prometheus text made from
//! them. Serves no requests; only scrapers read it. Labels come from objects, never from clients, and the
//! number of series is bounded; counters belong to one worker.

mod compression;
mod counters;
mod generations;
pub mod histogram;
mod http2;
mod http3;
mod lines;
mod process;
mod quic;
mod reason;
pub mod record;
mod sample;
mod series;
mod text;
mod totals;

pub use compression::{CodingBytes, CompressedBytes};
pub use counters::{Counters, Datagrams, Hedges, Streams, increment};
pub(crate) use generations::Generation;
pub use generations::GenerationCounts;
pub use http2::EventCounts;
pub use http3::Http3;
pub use process::write_spent;
pub use quic::Quic;
pub use sample::{Gauges, Sample};
pub use text::{
    ScrapeText, write_buffer_disk, write_circuits, write_cpu, write_failing_checks, write_fleet_size,
    write_memory, write_spread,
};
pub(crate) use text::{write_geoip, write_leases, write_stapling, write_tickets};
pub use totals::{TimeBound, Totals};
