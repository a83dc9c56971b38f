//! Looks up the rule of a request, and checks whether its connection may serve its host.

use fairway_connection::sides::Hop;
use fairway_routing::{CompiledHost, CompiledRule, Matched, TableId};

use crate::buffers::Buffers;
use crate::listening::ConnectionTarget;
use crate::peer::Peer;
use crate::request::validation::Intake;
use crate::worker::Adopted;

/// The host and rule of the request in the buffers, and the length of the path prefix that the rule matched.
pub(super) fn lookup<'a, H: Hop>(
    adopted: &'a Adopted<H>,
    table: TableId,
    intake: &Intake,
    buffers: &Buffers,
) -> Option<(&'a CompiledHost, &'a CompiledRule, usize)> {
    match intake.with_routing_request(buffers, |request| adopted.snapshot().lookup(table, request)) {
        Matched::Rule { host, rule, prefix } => Some((host, rule, prefix)),
        Matched::NoRule(_) | Matched::NoHost => None,
    }
}

/// Whether the request's host belongs to another listener of the port, or to one that passes TLS through: then its connection
/// was made for another name (RFC 9110 §15.5.20; Gateway API `Listener.hostname`).
#[inline]
pub(super) fn is_misdirected<H: Hop>(adopted: &Adopted<H>, peer: &Peer, host: &str) -> bool {
    let Some(by) = peer.selected_by_other_name_than(host) else { return false };
    match adopted.target_for(by.port, Some(host)) {
        Some(ConnectionTarget::Listener(listener)) => {
            listener != peer.listener || adopted.passes_through(listener, Some(host))
        }
        // The host belongs to a listener that is not served at this port. Its client rules must not be bypassed.
        Some(ConnectionTarget::Closed) => true,
        None => false,
    }
}
