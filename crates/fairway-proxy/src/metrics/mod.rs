//! What a worker counts of its exchanges: the [`record`] that is left of one, the counters that it adds to, and the text of the Prometheus format that is made of them. Never serves a request, and is
//! read by nobody but who scrapes. Labels come from objects, never from clients, and series are bounded in number; counters belong to
//! one worker.

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

pub use compression::{CompressedBytes, Volume};
pub use counters::{Counters, Datagrams, Hedges, Streams, count};
pub(crate) use generations::Generation;
pub use generations::GenerationCounts;
pub use http2::Events;
pub use http3::Http3;
pub use process::write_spent;
pub use quic::Quic;
pub use sample::{Gauges, Sample};
pub use text::{
    Text, write_buffer_disk, write_circuits, write_cpu, write_failing_checks, write_fleet_size, write_memory,
    write_spread,
};
pub(crate) use text::{write_geoip, write_leases, write_stapling, write_tickets};
pub use totals::{TimeBound, Totals};
