//! Secrets of QUIC endpoints shared by all workers, and channels between their endpoints.

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

/// Datagrams queued for a worker and port. Further ones are dropped.
const MAX_HANDED_OVER_DATAGRAMS: usize = 1024;

/// State shared by the QUIC endpoints of a process. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedEndpoints(Arc<EndpointSecrets>);

struct EndpointSecrets {
    ids: IdKey,
    resets: Arc<ResetKey>,
    retry_key: Arc<hkdf::Prk>,
    early_sessions: EarlySessions,
    /// Senders to the endpoints of each port, by worker.
    senders: Mutex<BTreeMap<(PortId, u16), mpsc::Sender<HandedOverDatagram>>>,
}

/// A datagram in transit to the worker named by its connection id.
#[derive(Debug)]
pub(super) struct HandedOverDatagram {
    pub(super) path: DatagramPath,
    pub(super) datagram: BytesMut,
}

/// Addresses and ECN mark of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramPath {
    pub(super) remote: SocketAddr,
    /// Destination address.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
}

impl SharedEndpoints {
    /// With random keys. Stateless reset tokens derive from the secret of `tickets` if replicas share one.
    pub(crate) fn new(tickets: SessionTickets) -> Self {
        let retries = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&random_secret());
        Self(Arc::new(EndpointSecrets {
            ids: IdKey::new(),
            resets: Arc::new(ResetKey::new(tickets)),
            retry_key: Arc::new(retries),
            early_sessions: EarlySessions::default(),
            senders: Mutex::default(),
        }))
    }

    pub(super) fn ids(&self) -> &IdKey {
        &self.0.ids
    }

    pub(super) fn resets(&self) -> &Arc<ResetKey> {
        &self.0.resets
    }

    /// Seals tokens of Retry packets (RFC 9000 §8.1.2).
    pub(super) fn retry_key(&self) -> &Arc<hkdf::Prk> {
        &self.0.retry_key
    }

    /// Sessions that may be resumed with early data.
    pub(super) fn early_sessions(&self) -> &EarlySessions {
        &self.0.early_sessions
    }

    /// Registers the endpoint of a worker at a port; returns the receiver for datagrams of other workers.
    pub(super) fn register(&self, port: PortId, worker: u16) -> mpsc::Receiver<HandedOverDatagram> {
        let (sender, receiver) = mpsc::channel(MAX_HANDED_OVER_DATAGRAMS);
        self.lock_senders().insert((port, worker), sender);
        receiver
    }

    /// Unregisters an endpoint.
    pub(super) fn unregister(&self, port: PortId, worker: u16) {
        self.lock_senders().remove(&(port, worker));
    }

    /// The sender to another worker's endpoint at the same port.
    pub(super) fn sender_to(&self, port: PortId, worker: u16) -> Option<mpsc::Sender<HandedOverDatagram>> {
        self.lock_senders().get(&(port, worker)).cloned()
    }

    // Insertions and removals are atomic: a panic leaves the map consistent.
    fn lock_senders(&self) -> MutexGuard<'_, BTreeMap<(PortId, u16), mpsc::Sender<HandedOverDatagram>>> {
        self.0.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
