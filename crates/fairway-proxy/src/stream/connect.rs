//! Which backend gets a connection, and a connection to one of its endpoints: another one is tried while connecting fails.
//! No byte of the client's goes out before that.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_metrics::{Fault, count};
use fairway_model::{ListenerProtocol, Retry, RetryBy, Timeouts};
use fairway_runtime::clock::Instant;
use fairway_runtime::transport::UpstreamStream;
use fairway_runtime::wire::Wire;
use fairway_session::Belongs;

use super::peer::StreamPeer;
use crate::exchange::blame::{note_connect_failure, unpicked};
use crate::network::Network;
use crate::upstream::{Chosen, Group, Tried};
use crate::worker::{Adopted, ToEndpoint, Worker};

/// Endpoints that are tried for one connection, where their backend says nothing.
const MOST_TRIES: u8 = 8;

type To<N> = ToEndpoint<N>;

/// An endpoint that is connected with.
pub(super) struct Reached<N: Network> {
    pub(super) chosen: Chosen<To<N>>,
    pub(super) group: Rc<Group<To<N>>>,
    pub(super) wire: Wire<UpstreamStream<N::Stream>>,
    /// What the connect took.
    pub(super) took: Duration,
    attempts: u8,
}

impl<N: Network> Reached<N> {
    /// The endpoint, and how many were tried.
    pub(super) fn tried(&self) -> (SocketAddr, u8) {
        (self.chosen.endpoint.identity.address, self.attempts)
    }
}

/// There is no endpoint for a connection.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) fault: Fault,
    /// The last endpoint that was tried, and how many were.
    pub(super) tried: Option<(SocketAddr, u8)>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, tried: None }
    }
}

/// Connects with an endpoint for a client.
///
/// # Errors
/// Nothing serves it, or no endpoint can be reached.
pub(super) async fn connect<N: Network>(
    worker: &Rc<Worker<N>>,
    peer: &StreamPeer,
) -> Result<Reached<N>, Refused> {
    let adopted = worker.adopted();
    let group = group(worker, &adopted, peer)?;
    let is_inside = adopted.protocol(peer.listener) == Some(ListenerProtocol::Tls);
    let retry = *group.retry(&Retry { tries: MOST_TRIES, ..Retry::default() });
    let timeouts = Timeouts::default();
    worker.budgets.retries.earn();
    let (began, mut tried, mut attempts) = (Instant::now(), Tried::default(), 0);
    loop {
        let now = Instant::now();
        let chosen = worker.random(|random| group.pick(&tried, Belongs::Anywhere, random, now));
        let chosen = chosen.ok_or_else(|| unpicked(&group))?;
        tried.insert(chosen.index);
        attempts += 1;
        let limit = timeouts.connect.min(retry.connect_total.saturating_sub(now - began));
        let (to, how) = (&chosen.endpoint.identity, (adopted.identities(), is_inside));
        let connected = worker.connector.stream(to, how, limit).await;
        match connected {
            Ok(stream) => {
                let took = now.elapsed();
                chosen.endpoint.connected(took);
                count(&worker.counters.attempts.connected);
                return Ok(Reached { chosen, group, wire: Wire::new(stream), took, attempts });
            }
            Err(fault) => {
                note_connect_failure(worker, &group, &chosen.endpoint, fault);
                let may = fault.blames_endpoint() && attempts < retry.tries && group.has_untried(&tried);
                let is_in_time = began.elapsed() < retry.connect_total;
                let is_granted =
                    || retry.by == RetryBy::Route || worker.budgets.retries.spend(Instant::now());
                if !(may && is_in_time && is_granted()) {
                    let tried = Some((chosen.endpoint.identity.address, attempts));
                    return Err(Refused { fault, tried });
                }
                count(&worker.counters.attempts.retried);
                drop(chosen);
                if !retry.backoff.is_zero() {
                    tokio::time::sleep(retry.backoff).await;
                }
            }
        }
    }
}

/// The endpoints of the backend whose turn it is.
fn group<N: Network>(
    worker: &Worker<N>,
    adopted: &Adopted<To<N>>,
    peer: &StreamPeer,
) -> Result<Rc<Group<To<N>>>, Fault> {
    let stream = adopted.stream(peer.listener, peer.name.as_deref())?;
    let slot = stream
        .targets()
        .pick(worker.random(|random| random.u32(..)))
        .copied()
        .flatten()
        .ok_or(Fault::NoBackend)?;
    let group = adopted.group(slot, &worker.groups).ok_or(Fault::MissingReference)?;
    if group.is_empty() { Err(Fault::NoEndpoint) } else { Ok(group) }
}
