//! Resolves the external names that Services refer to, periodically and on its own thread, with the system's resolver.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use fairway_objects::resources::Change;

use crate::input::Inlet;

/// How long a result is used. The system's resolver does not report a TTL.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(10);

/// A handle to the resolving thread.
#[derive(Debug)]
pub(crate) struct Resolver {
    wanted_names: Sender<Vec<Arc<str>>>,
}

impl Resolver {
    /// Starts the thread, which sends changes to `inlet`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(inlet: Inlet) -> io::Result<Self> {
        let (wanted, names) = channel();
        thread::Builder::new().name("fairway-dns".into()).spawn(move || run(&names, &inlet))?;
        Ok(Self { wanted_names: wanted })
    }

    /// Sets the names to resolve.
    pub(crate) fn set_names(&self, names: Vec<Arc<str>>) {
        // The thread is gone only during shutdown.
        _ = self.wanted_names.send(names);
    }
}

fn run(names: &Receiver<Vec<Arc<str>>>, inlet: &Inlet) {
    let mut wanted_names: Vec<Arc<str>> = Vec::new();
    let mut known = BTreeMap::<Arc<str>, Vec<IpAddr>>::new();
    let mut next = Instant::now() + RESOLVE_INTERVAL;
    loop {
        match names.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(names) => {
                known.retain(|name, _| names.contains(name));
                wanted_names = names;
                wanted_names.iter().filter(|name| !known.contains_key(*name)).cloned().collect::<Vec<_>>()
            }
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + RESOLVE_INTERVAL;
                wanted_names.clone()
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
        .iter()
        .for_each(|name| resolve_name(name, &mut known, inlet));
    }
}

/// An error keeps the last addresses: a failing resolver must not empty a backend.
fn resolve_name(name: &Arc<str>, known: &mut BTreeMap<Arc<str>, Vec<IpAddr>>, inlet: &Inlet) {
    let mut addresses: Vec<IpAddr> = match (&**name, 0).to_socket_addrs() {
        Ok(addresses) => addresses.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!(%name, %error, "an external name cannot be resolved; keeping its last addresses");
            return;
        }
    };
    addresses.sort_unstable();
    addresses.dedup();
    if known.get(name) != Some(&addresses) {
        known.insert(name.clone(), addresses.clone());
        inlet.send_change(Change::Resolved { name: name.clone(), addresses });
    }
}
