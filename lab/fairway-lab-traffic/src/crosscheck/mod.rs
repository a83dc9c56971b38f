//! Whether the load generator can be believed: wrk, hey, h2load and oha run against the same backend, and the figures are
//! put next to its own.
//!
//! ```text
//! backend (a process of its own) ◄─ own, tool, tool, own: a block for each tool (A B B A)
//!                                       └ own against own: the noise floor of the machine
//! ```
//!
//! wrk has no rate, so that it runs in a closed loop against the closed loop; the others run at the same rate, and because
//! they count from the send time they are compared with service times. Never takes a figure for granted that a tool did
//! not print: a tool that is absent is absent, with the reason.

pub mod command;

mod block;
mod figures;
mod oha;
mod table;
mod tools;

pub use block::{Block, Report};
pub use figures::Figures;
