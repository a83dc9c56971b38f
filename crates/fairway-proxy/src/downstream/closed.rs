//! A closed HTTP/3 connection whose client may not know yet: late datagrams are answered with the same
//! CONNECTION_CLOSE (RFC 9000 §10.2). Serves no request.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_net::clock::{Deadline, Instant};
use quinn_proto::Connection as Quic;

use super::datagram_transport::Carrier;

/// How long a closed connection is kept. QUIC usually forgets it sooner, after three probe timeouts.
const MAX_LINGER_TIME: Duration = Duration::from_secs(2);

/// Answers until QUIC has drained the connection or the carrier gives it up.
pub(super) async fn linger(carrier: impl Carrier, mut quic: Box<Quic>) {
    let mut closed =
        LingeringConnection { ends_at: Instant::now() + MAX_LINGER_TIME, deadline: Deadline::unset() };
    poll_fn(|cx| closed.poll(cx, &carrier, &mut quic)).await;
}

struct LingeringConnection {
    ends_at: Instant,
    deadline: Deadline,
}

impl LingeringConnection {
    fn poll(&mut self, cx: &mut Context<'_>, carrier: &impl Carrier, quic: &mut Quic) -> Poll<()> {
        let now = Instant::now();
        carrier.poll_input(cx, quic, now.into_std());
        if quic.poll_timeout().is_some_and(|at| at <= now.into_std()) {
            quic.handle_timeout(now.into_std());
        }
        // Events of a closed connection have no receiver.
        while quic.poll().is_some() {}
        carrier.poll_output(cx, quic, now.into_std());
        if quic.is_drained() || self.ends_at <= now || !carrier.may_linger() {
            return Poll::Ready(());
        }
        let next = quic.poll_timeout().map_or(self.ends_at, |at| self.ends_at.min(Instant::from_std(at)));
        self.deadline.set(now, next.saturating_duration_since(now));
        if self.deadline.poll_passed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
