//! The rule of a request, and whether its connection is the one for its host.

use fairway_connection::sides::Hop;
use fairway_routing::{CompiledHost, CompiledRule, Matched, TableId};

use crate::buffers::Buffers;
use crate::listening::Choice;
use crate::peer::Peer;
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

/// Whether another listener of the port is the one for the request's host, or its TLS does not end here at all: its connection
/// was made for another name (RFC 9110 §15.5.20; Gateway API `Listener.hostname`).
#[inline]
pub(super) fn is_misdirected<H: Hop>(adopted: &Adopted<H>, peer: &Peer, host: &str) -> bool {
    let Some(by) = peer.chosen_by_other_than(host) else { return false };
    match adopted.choice(by.port, Some(host)) {
        Some(Choice::Listener(listener)) => {
            listener != peer.listener || adopted.passes_through(listener, Some(host))
        }
        // The host is another listener's, which is not served at this port: its rules for clients must not be passed by.
        Some(Choice::Closed) => true,
        None => false,
    }
}
