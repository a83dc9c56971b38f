//! A forwarded TCP connection: pick a backend, connect, relay, log.
//!
//! ```text
//! route ─► backend ─► connect ─► relay ─┬─► both sides have ended
//!            ▲           │              ├─► one side failed: the other sees a reset
//!            └── another endpoint       └─► idle timeout, or drain timeout after its listener is gone
//! ```
//!
//! [`datagrams`] does the same for datagram sessions.

mod connect;
mod datagrams;
mod end_reason;
mod peer;
mod relay;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::task::Poll;

use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use crate::access_log::StreamLogEntry;
use crate::inspection::ClientProtocol;
use crate::log::Forwarded;
use crate::network::Network;
use crate::worker::OpenConnection;
use connect::ConnectFailure;
use end_reason::StreamEnd;

pub(crate) use datagrams::serve_datagrams;
pub(crate) use peer::StreamPeer;

/// Forwards the connection until it ends, starting with `input`, which was already read.
///
/// Not an `async fn`, which would hold its arguments twice for the life of the connection.
pub(crate) fn serve<N: Network, S: Transport>(
    mut open: OpenConnection<N>,
    peer: StreamPeer,
    stream: S,
    input: Vec<u8>,
) -> impl Future<Output = ()> {
    open.set_listener(peer.listener, ClientProtocol::Forwarded);
    let ahead = input.len() as u64;
    let mut client = Wire::with_input(stream, input);
    async move {
        let worker = &*open;
        let listener = worker.adopted().listening().model(peer.listener).cloned();
        let _ticket = worker.start_stream();
        let _registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
        let started_at = Instant::now();
        worker.counters.streams.moved(ahead, 0);
        let connecting = connect::connect(worker, &peer, &mut client);
        let (end, upstream) = match Box::pin(connecting).await {
            Ok(mut connected) => {
                let end = relay::relay(worker, &peer, &mut client, &mut connected).await;
                (end, Some(connected.upstream()))
            }
            Err(ConnectFailure { end, upstream }) => {
                worker.counters.streams.moved(client.received(), 0);
                (end, upstream)
            }
        };
        worker.counters.count_stream_end(end.label());
        let entry = StreamLogEntry {
            forwarded: Forwarded::Tcp,
            client: peer.client.ip(),
            name: peer.name.as_deref(),
            upstream,
            status: end.status(),
            received: ahead + client.received(),
            sent: client.sent(),
            duration: started_at.elapsed(),
            reason: (end != StreamEnd::Closed).then(|| end.label()),
        };
        worker.log.write_stream(listener.as_ref().map_or("", |listener| &listener.name), &entry);
    }
}
