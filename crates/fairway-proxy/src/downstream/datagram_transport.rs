//! Transport of the datagrams of an HTTP/3 connection: its link to the endpoint at a socket, or memory in
//! tests.

use std::task::Context;
use std::time::Instant;

use quinn_proto::Connection as Quic;

use crate::quic::endpoint::Link;

/// Transports the datagrams of one connection.
pub(crate) trait Carrier {
    /// Passes received datagrams to `quic`, and wakes the task when more arrive.
    fn poll_input(&self, cx: &mut Context<'_>, quic: &mut Quic, now: Instant);

    /// Sends pending output of `quic` as far as the socket takes it. The task is woken when there is room for
    /// more.
    fn poll_output(&self, cx: &mut Context<'_>, quic: &mut Quic, now: Instant);

    /// Whether a closed connection may be kept to answer late datagrams. Ask again whenever the task is woken.
    fn may_linger(&self) -> bool;
}

impl Carrier for Link {
    fn poll_input(&self, cx: &mut Context<'_>, quic: &mut Quic, now: Instant) {
        Link::poll_input(self, cx, quic, now);
    }

    fn poll_output(&self, cx: &mut Context<'_>, quic: &mut Quic, now: Instant) {
        Link::poll_output(self, cx, quic, now);
    }

    fn may_linger(&self) -> bool {
        Link::may_linger(self)
    }
}
