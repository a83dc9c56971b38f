//! A connection of HTTP/3 that is closed, while its client may not know: what still comes is answered with the same CONNECTION_CLOSE
//! (RFC 9000 §10.2). Serves no request.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_net::clock::{Deadline, Instant};
use quinn_proto::Connection as Quic;

use super::carrier::Carrier;

/// The longest that a connection is kept which is closed. QUIC forgets it after three probe timeouts, which is less as a rule.
const MAX_LINGERING_TIME: Duration = Duration::from_secs(2);

/// Answers until QUIC needs the connection no more, or the carrier wants it to go.
pub(super) async fn linger(carrier: impl Carrier, mut quic: Box<Quic>) {
    let mut closed = Closed { until: Instant::now() + MAX_LINGERING_TIME, deadline: Deadline::unset() };
    poll_fn(|cx| closed.poll(cx, &carrier, &mut quic)).await;
}

/// When it ends.
struct Closed {
    until: Instant,
    deadline: Deadline,
}

impl Closed {
    fn poll(&mut self, cx: &mut Context<'_>, carrier: &impl Carrier, quic: &mut Quic) -> Poll<()> {
        let now = Instant::now();
        carrier.poll_input(cx, quic, now.into_std());
        if quic.poll_timeout().is_some_and(|at| at <= now.into_std()) {
            quic.handle_timeout(now.into_std());
        }
        // It has nothing to say to anybody.
        while quic.poll().is_some() {}
        carrier.poll_output(cx, quic, now.into_std());
        if quic.is_drained() || self.until <= now || !carrier.may_linger() {
            return Poll::Ready(());
        }
        let next = quic.poll_timeout().map_or(self.until, |at| self.until.min(Instant::from_std(at)));
        self.deadline.set(now, next.saturating_duration_since(now));
        if self.deadline.poll_passed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
