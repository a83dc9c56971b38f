//! The results of a run: the table for people and the JSON with every block. Never measures.

mod file;
mod findings;
mod origin;
mod table;

pub(crate) use file::{is_writable, write};
pub(crate) use findings::{Findings, Report, handshakes, lacks_pairs, summarise};
pub(crate) use origin::Origin;
pub(crate) use table::print;
