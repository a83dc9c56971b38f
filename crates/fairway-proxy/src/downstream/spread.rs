//! Connections of HTTP/2 go to the worker that has the fewest: a few of them carry everything, and the kernel may have
//! given all to one (docs/design/0030-connections-spread-over-workers.md). HTTP/1 never comes here.

use std::pin::Pin;
use std::rc::Rc;

use fairway_net::spread::Share;
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use super::http2;
use crate::fault::Fault;
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{Arrivals, Moved, Open, Worker};

/// What serves the connection here until it ends; `None` where another worker has it now.
///
/// Boxed, and not an `async fn`: whoever waits for it has only room for a pointer, and nothing waits in between.
pub(crate) fn serve<N: Network, S: Transport + Send>(
    open: Open<N>,
    peer: Peer,
    wire: Wire<S>,
) -> Option<Pin<Box<impl Future<Output = ()>>>> {
    let neighbours = open.neighbours();
    let share = neighbours.share();
    if share.worker() == neighbours.here() {
        return Some(Box::pin(http2::serve(open, peer, wire, share)));
    }
    let from = Some(neighbours.here());
    let listener = peer.listener;
    let serve = Box::new(move |open, share| begin(open, peer, wire, share));
    if let Err(moved) = neighbours.send(Moved { share, from, listener, serve }) {
        // It drains, or has too many to take over: it is served here all the same.
        let share = neighbours.share_of(neighbours.here());
        (moved.serve)(open, share);
    }
    None
}

/// Serves a connection that another worker accepted.
fn begin<N: Network, S: Transport>(open: Open<N>, peer: Peer, mut wire: Wire<S>, share: Share) {
    match wire.settle() {
        Ok(()) => drop(tokio::task::spawn_local(http2::serve(open, peer, wire, share))),
        Err(_) => open.refused(Fault::Overloaded),
    }
}

/// Takes over what other workers hand to this one, until it drains and nothing is on its way any more.
pub(crate) async fn take_over<N: Network>(worker: Rc<Worker<N>>, mut arrivals: Arrivals<Open<N>>) {
    loop {
        let moved = tokio::select! {
            moved = arrivals.recv() => moved,
            () = worker.draining() => break,
        };
        let Some(moved) = moved else { return };
        arrive(&worker, moved);
    }
    worker.neighbours().leave();
    arrivals.close();
    while let Some(moved) = arrivals.recv().await {
        arrive(&worker, moved);
    }
}

/// What this worker cannot serve goes back, for it was accepted where there was room.
fn arrive<N: Network>(worker: &Rc<Worker<N>>, moved: Moved<Open<N>>) {
    let Moved { share, from, listener, serve } = moved;
    if worker.has_room_for_a_client() && (from.is_none() || worker.has(listener)) {
        return serve(Open::taken_over(worker), share);
    }
    drop(share);
    let Some(from) = from else { return worker.refused(Fault::Overloaded) };
    let share = worker.neighbours().share_of(from);
    if worker.neighbours().send(Moved { share, from: None, listener, serve }).is_err() {
        worker.refused(Fault::Overloaded);
    }
}
