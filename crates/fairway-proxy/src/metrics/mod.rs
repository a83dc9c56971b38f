//! What a worker counts, and the text that is made of it.

mod counters;
pub(crate) mod histogram;
mod http2;
mod lines;
mod process;
mod reason;
mod sample;
mod series;
mod text;

pub(crate) use counters::{Counters, Hedges, count};
pub(crate) use http2::Events;
pub(crate) use process::write_spent;
pub(crate) use sample::{Gauges, Sample};
pub(crate) use text::{write as write_text, write_cpu, write_memory, write_spread};
