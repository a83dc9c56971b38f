//! The clients whose requests were refused, on their way from the workers to whoever asks other replicas for their shares. A worker never
//! waits for it, and a client is there once.

use std::sync::atomic::{AtomicU64, Ordering};

use fairway_net::counts::ClientKey;
use tokio::sync::mpsc;

use super::message::ClientOfLimit;

/// Clients for which shares are asked or borrowed at a time. Those whose keys collide wait for each other.
const SLOTS: usize = 1024;
/// Those that wait to be noticed.
const MAX_WAITING: usize = 256;

/// A client that wants more than its share here.
pub(super) struct Wanted {
    pub(super) key: ClientKey,
    pub(super) client: ClientOfLimit,
}

pub(super) struct WantedClients {
    /// The keys of the clients; 0 is free.
    slots: Box<[AtomicU64]>,
    sender: mpsc::Sender<Wanted>,
}

/// Why a client is not asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNoted {
    /// It is already.
    Known,
    /// There are too many.
    Full,
}

impl WantedClients {
    pub(super) fn new() -> (Self, mpsc::Receiver<Wanted>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), sender }, receiver)
    }

    /// Notes a client, unless it is noted. `client` is made only then.
    pub(super) fn note(
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
        let taken = slot.compare_exchange(0, key.number(), Ordering::AcqRel, Ordering::Relaxed);
        match taken {
            Err(other) if other == key.number() => return Err(NotNoted::Known),
            Err(_) => return Err(NotNoted::Full),
            Ok(_) => {}
        }
        self.sender.try_send(Wanted { key, client }).map_err(|_| {
            self.forget(key);
            NotNoted::Full
        })
    }

    /// It may be noted again.
    pub(super) fn forget(&self, key: ClientKey) {
        _ = self.slot(key).compare_exchange(key.number(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn slot(&self, key: ClientKey) -> &AtomicU64 {
        &self.slots[(key.number() >> 1) as usize % SLOTS]
    }
}
