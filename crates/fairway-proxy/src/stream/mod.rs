//! A connection that is forwarded as it comes: choose, connect, copy, remember.
//!
//! ```text
//! route ─► backend ─► connect ─► relay ─┬─► both sides have ended
//!            ▲           │              ├─► one broke it: the other sees a reset
//!            └── another endpoint       └─► idle, or its listener is gone for too long
//! ```
//!
//! [`datagrams`] does the same for sessions of datagrams.

mod connect;
mod datagrams;
mod end;
mod peer;
mod relay;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::task::Poll;

use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use crate::access_log::StreamSeen;
use crate::inspection::ClientProtocol;
use crate::log::Forwarded;
use crate::network::Network;
use crate::worker::Open;
use connect::Refused;
use end::End;

pub(crate) use datagrams::serve_datagrams;
pub(crate) use peer::StreamPeer;

/// Forwards the connection until it ends. `input` was read already.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the connection lives.
pub(crate) fn serve<N: Network, S: Transport>(
    mut open: Open<N>,
    peer: StreamPeer,
    stream: S,
    input: Vec<u8>,
) -> impl Future<Output = ()> {
    open.served_by(peer.listener, ClientProtocol::Forwarded);
    let ahead = input.len() as u64;
    let mut client = Wire::with_input(stream, input);
    async move {
        let worker = &*open;
        let listener = worker.adopted().listening().model(peer.listener).cloned();
        let _ticket = worker.begin_stream();
        let _registered = poll_fn(|cx| Poll::Ready(worker.register(cx.waker()))).await;
        let began = Instant::now();
        worker.counters.streams.moved(ahead, 0);
        let connecting = connect::connect(worker, &peer, &mut client);
        let (end, upstream) = match Box::pin(connecting).await {
            Ok(mut reached) => {
                let end = relay::relay(worker, &peer, &mut client, &mut reached).await;
                (end, Some(reached.upstream()))
            }
            Err(Refused { end, upstream }) => {
                worker.counters.streams.moved(client.received(), 0);
                (end, upstream)
            }
        };
        worker.counters.stream_ended(end.label());
        let seen = StreamSeen {
            forwarded: Forwarded::Tcp,
            client: peer.client.ip(),
            name: peer.name.as_deref(),
            upstream,
            status: end.status(),
            received: ahead + client.received(),
            sent: client.sent(),
            took: began.elapsed(),
            reason: (end != End::Closed).then(|| end.label()),
        };
        worker.log.write_stream(listener.as_ref().map_or("", |listener| &listener.name), &seen);
    }
}
