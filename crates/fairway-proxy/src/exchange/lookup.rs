//! The rule of a request.

use fairway_connection::sides::Hop;
use fairway_routing::{CompiledHost, CompiledRule, Matched, TableId};

use crate::buffers::Buffers;
use crate::request::intake::Intake;
use crate::worker::Adopted;

/// The rule of the request in the buffers, its host, and how much of the path its prefix covers.
pub(super) fn lookup<'a, H: Hop>(
    adopted: &'a Adopted<H>,
    table: TableId,
    intake: &Intake,
    buffers: &Buffers,
) -> Option<(&'a CompiledHost, &'a CompiledRule, usize)> {
    match intake.as_routed(buffers, |request| adopted.snapshot().lookup(table, request)) {
        Matched::Rule { host, rule, prefix } => Some((host, rule, prefix)),
        Matched::NoRule(_) | Matched::NoHost => None,
    }
}
