//! Passes clients whose requests were refused from the workers to the borrower. A worker never waits, and a client is queued
//! once.

use std::sync::atomic::{AtomicU64, Ordering};

use fairway_net::counts::ClientKey;
use tokio::sync::mpsc;

use super::message::ClientOfLimit;

/// Clients for which shares may be asked or borrowed at a time. Clients whose keys collide wait for each other.
const FILTER_SLOTS: usize = 1024;
/// Clients that may wait for the borrower.
const MAX_WAITING: usize = 256;

/// A client that needs more than its share on this replica.
pub(super) struct WantedShare {
    pub(super) key: ClientKey,
    pub(super) client: ClientOfLimit,
}

pub(super) struct WantedClients {
    /// The keys of the clients; 0 is free.
    slots: Box<[AtomicU64]>,
    sender: mpsc::Sender<WantedShare>,
}

/// Why a client was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNoted {
    /// It is queued or borrowed already.
    Known,
    /// There are too many.
    Full,
}

impl WantedClients {
    pub(super) fn new() -> (Self, mpsc::Receiver<WantedShare>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self { slots: (0..FILTER_SLOTS).map(|_| AtomicU64::new(0)).collect(), sender }, receiver)
    }

    /// Queues a client, unless it is known. `client` is only called then.
    pub(super) fn request_share(
        &self,
        key: ClientKey,
        client: impl FnOnce() -> Option<ClientOfLimit>,
    ) -> Result<(), NotNoted> {
        let slot = self.slot(key);
        match slot.load(Ordering::Relaxed) {
            known if known == key.number() => return Err(NotNoted::Known),
            0 => {}
            _ => return Err(NotNoted::Full),
        }
        let Some(client) = client() else { return Ok(()) };
        let exchanged = slot.compare_exchange(0, key.number(), Ordering::AcqRel, Ordering::Relaxed);
        match exchanged {
            Err(other) if other == key.number() => return Err(NotNoted::Known),
            Err(_) => return Err(NotNoted::Full),
            Ok(_) => {}
        }
        self.sender.try_send(WantedShare { key, client }).map_err(|_| {
            self.forget(key);
            NotNoted::Full
        })
    }

    /// Lets a client be queued again.
    pub(super) fn forget(&self, key: ClientKey) {
        _ = self.slot(key).compare_exchange(key.number(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn slot(&self, key: ClientKey) -> &AtomicU64 {
        &self.slots[(key.number() >> 1) as usize % FILTER_SLOTS]
    }
}
