//! What a run found: the table that people read and the JSON that holds every block. Never measures.

mod file;
mod findings;
mod origin;
mod table;

pub(crate) use file::{is_writable, write};
pub(crate) use findings::{Findings, Report, handshakes, lacks_pairs, summarise};
pub(crate) use origin::Origin;
pub(crate) use table::print;
