//! What carries the datagrams of a connection of HTTP/3: its link to the endpoint at a socket, or memory in tests.

use std::task::Context;
use std::time::Instant;

use quinn_proto::Connection as Quic;

use crate::quic::endpoint::Link;

/// What carries the datagrams of one connection.
pub(crate) trait Carrier {
    /// Takes what came since the last call into `quic`, and wakes the task when more comes.
    fn poll_input(&self, cx: &mut Context<'_>, quic: &mut Quic, now: Instant);

    /// Sends what `quic` has to send as far as the socket takes it. The task is woken when there is room for the rest.
    fn poll_output(&self, cx: &mut Context<'_>, quic: &mut Quic, now: Instant);

    /// Whether a connection that is closed may be kept for what still comes. To be asked again whenever its task is woken.
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
