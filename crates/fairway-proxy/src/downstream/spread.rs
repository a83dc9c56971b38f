//! Spreads HTTP/2 connections: each goes to the worker with the fewest. Few connections can carry all traffic,
//! and the kernel may have given them all to one worker (docs/design/0030-connections-spread-over-workers.md).
//! HTTP/1 is not spread.

use std::pin::Pin;
use std::rc::Rc;

use fairway_net::spread::SpreadConnection;
use fairway_net::transport::Transport;
use fairway_net::wire::Wire;

use super::http2;
use crate::fault::Fault;
use crate::network::Network;
use crate::peer::Peer;
use crate::worker::{Arrivals, OpenConnection, TransferredConnection, Worker};

/// Serves the connection on this worker; `None` if another worker takes it.
///
/// Boxed and not an `async fn`: the waiting task only has room for a pointer, and nothing waits in between.
pub(crate) fn serve<N: Network, S: Transport + Send>(
    open: OpenConnection<N>,
    peer: Peer,
    wire: Wire<S>,
) -> Option<Pin<Box<impl Future<Output = ()>>>> {
    let neighbours = open.neighbours();
    let share = neighbours.share();
    if share.worker() == neighbours.index() {
        return Some(Box::pin(http2::serve(open, peer, wire, share)));
    }
    let accepted_by = Some(neighbours.index());
    let listener = peer.listener;
    let serve = Box::new(move |open, share| start_moved(open, peer, wire, share));
    if let Err(moved) = neighbours.send(TransferredConnection { share, accepted_by, listener, serve }) {
        // That worker drains or its queue is full: serve the connection here.
        let share = neighbours.share_at(neighbours.index());
        (moved.serve)(open, share);
    }
    None
}

/// Serves a connection accepted by another worker.
fn start_moved<N: Network, S: Transport>(
    open: OpenConnection<N>,
    peer: Peer,
    mut wire: Wire<S>,
    share: SpreadConnection,
) {
    match wire.register_with_runtime() {
        Ok(()) => drop(tokio::task::spawn_local(http2::serve(open, peer, wire, share))),
        Err(_) => open.record_refusal(Fault::Overloaded),
    }
}

/// Takes over connections from other workers until this one drains and none is in transit.
pub(crate) async fn take_over<N: Network>(worker: Rc<Worker<N>>, mut arrivals: Arrivals<OpenConnection<N>>) {
    loop {
        let moved = tokio::select! {
            moved = arrivals.recv() => moved,
            () = worker.draining() => break,
        };
        let Some(moved) = moved else { return };
        accept_moved(&worker, moved);
    }
    worker.neighbours().stop_receiving();
    arrivals.close();
    while let Some(moved) = arrivals.recv().await {
        accept_moved(&worker, moved);
    }
}

/// Serves a moved connection, or returns it to the worker that accepted it and had room.
fn accept_moved<N: Network>(worker: &Rc<Worker<N>>, moved: TransferredConnection<OpenConnection<N>>) {
    let TransferredConnection { share, accepted_by, listener, serve } = moved;
    if worker.has_room_for_a_client() && (accepted_by.is_none() || worker.has_listener(listener)) {
        return serve(OpenConnection::taken_over_from_worker(worker), share);
    }
    drop(share);
    let Some(accepted_by) = accepted_by else { return worker.record_refusal(Fault::Overloaded) };
    let share = worker.neighbours().share_at(accepted_by);
    if worker.neighbours().send(TransferredConnection { share, accepted_by: None, listener, serve }).is_err()
    {
        worker.record_refusal(Fault::Overloaded);
    }
}
