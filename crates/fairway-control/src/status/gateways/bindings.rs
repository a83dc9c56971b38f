//! Which addresses the data plane has bound: told by whoever publishes to it, read by who says where Gateways are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_translate::PortState;
use tokio::sync::watch;

/// The addresses that are bound, and those that cannot be. A clone is the same.
#[derive(Clone, Debug)]
pub struct Bindings(watch::Sender<Bound>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bound {
    bound: BTreeSet<SocketAddr>,
    failed: BTreeMap<SocketAddr, Arc<str>>,
}

impl Default for Bindings {
    fn default() -> Self {
        Self(watch::Sender::new(Bound::default()))
    }
}

impl Bindings {
    /// The data plane was given these addresses, and could not bind some of them for these reasons.
    pub fn show(
        &self,
        given: impl Iterator<Item = SocketAddr>,
        failed: impl Iterator<Item = (SocketAddr, String)>,
    ) {
        let failed: BTreeMap<_, Arc<str>> =
            failed.map(|(address, problem)| (address, problem.into())).collect();
        let bound = given.filter(|address| !failed.contains_key(address)).collect();
        let now = Bound { bound, failed };
        self.0.send_if_modified(|before| {
            let differs = *before != now;
            *before = now;
            differs
        });
    }

    /// Whether an address is bound.
    #[must_use]
    pub fn has(&self, address: SocketAddr) -> bool {
        self.0.borrow().bound.contains(&address)
    }

    /// What became of an address.
    pub(super) fn state(&self, address: SocketAddr) -> PortState {
        let bound = self.0.borrow();
        if bound.bound.contains(&address) {
            return PortState::Bound;
        }
        match bound.failed.get(&address) {
            Some(problem) => PortState::Failed(format!("{address} cannot be bound: {problem}").into()),
            None => PortState::Pending,
        }
    }

    /// Changes with them.
    pub(super) fn changes(&self) -> impl Future<Output = ()> + use<> {
        let mut receiver = self.0.subscribe();
        async move {
            // The sender lives as long as this does.
            _ = receiver.changed().await;
        }
    }
}
