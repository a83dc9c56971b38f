//! The secrets of QUIC endpoints that all workers of a process share, and with them the way from one worker to another.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::hkdf;
use bytes::BytesMut;
use quinn_proto::EcnCodepoint;
use tokio::sync::mpsc;

use super::early::EarlySessions;
use super::ids::IdKey;
use super::resets::{ResetKey, random_secret};
use crate::listener::PortId;
use crate::tls::SessionTickets;

/// Datagrams that wait until their worker takes them over, per worker and port. What comes beyond is dropped.
const MAX_DATAGRAMS_UNDER_WAY: usize = 1024;

/// What the QUIC endpoints of a process share. A clone has the same.
#[derive(Clone)]
pub(crate) struct SharedEndpoints(Arc<Shared>);

struct Shared {
    ids: IdKey,
    resets: Arc<ResetKey>,
    retries: Arc<hkdf::Prk>,
    early: EarlySessions,
    /// To the endpoints of each port, by the number of their worker.
    ways: Mutex<BTreeMap<(PortId, u16), mpsc::Sender<HandedOver>>>,
}

/// A datagram on its way to the worker that its connection id names.
#[derive(Debug)]
pub(super) struct HandedOver {
    pub(super) path: Path,
    pub(super) datagram: BytesMut,
}

/// Where a datagram came from and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) remote: SocketAddr,
    /// The address that it was sent to.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
}

impl SharedEndpoints {
    /// With random keys. Tokens of stateless resets come from the secret of `tickets` where replicas share one.
    pub(crate) fn new(tickets: SessionTickets) -> Self {
        let retries = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&random_secret());
        Self(Arc::new(Shared {
            ids: IdKey::new(),
            resets: Arc::new(ResetKey::new(tickets)),
            retries: Arc::new(retries),
            early: EarlySessions::default(),
            ways: Mutex::default(),
        }))
    }

    pub(super) fn ids(&self) -> &IdKey {
        &self.0.ids
    }

    pub(super) fn resets(&self) -> &Arc<ResetKey> {
        &self.0.resets
    }

    /// Seals the tokens of Retry packets (RFC 9000 §8.1.2).
    pub(super) fn retries(&self) -> &Arc<hkdf::Prk> {
        &self.0.retries
    }

    /// Keeps the sessions that may be resumed with early data.
    pub(super) fn early(&self) -> &EarlySessions {
        &self.0.early
    }

    /// Where the endpoint of a worker at a port gets what other workers received for it.
    pub(super) fn join(&self, port: PortId, worker: u16) -> mpsc::Receiver<HandedOver> {
        let (sender, receiver) = mpsc::channel(MAX_DATAGRAMS_UNDER_WAY);
        self.ways().insert((port, worker), sender);
        receiver
    }

    /// The endpoint is gone.
    pub(super) fn leave(&self, port: PortId, worker: u16) {
        self.ways().remove(&(port, worker));
    }

    /// The way to the endpoint of another worker at the same port.
    pub(super) fn way(&self, port: PortId, worker: u16) -> Option<mpsc::Sender<HandedOver>> {
        self.ways().get(&(port, worker)).cloned()
    }

    // Senders are put in and taken out whole, whoever panics.
    fn ways(&self) -> MutexGuard<'_, BTreeMap<(PortId, u16), mpsc::Sender<HandedOver>>> {
        self.0.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
