//! The addresses that the data plane has bound: written by its publisher, read to decide where Gateways are reachable.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::placement::PortState;
use tokio::sync::watch;

/// The addresses that are bound and those that failed. Clones share them.
#[derive(Clone, Debug)]
pub struct Bindings(watch::Sender<BindResults>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BindResults {
    bound: BTreeSet<Bind>,
    failed: BTreeMap<Bind, Arc<str>>,
}

/// An address to bind, with its protocol.
type Bind = (PortProtocol, SocketAddr);

impl Default for Bindings {
    fn default() -> Self {
        Self(watch::Sender::new(BindResults::default()))
    }
}

impl Bindings {
    /// Records the addresses given to the data plane, and those that could not be bound, with the reason.
    pub fn publish(
        &self,
        listeners: impl Iterator<Item = Bind>,
        failed: impl Iterator<Item = (Bind, String)>,
    ) {
        let failed: BTreeMap<_, Arc<str>> = failed.map(|(bind, problem)| (bind, problem.into())).collect();
        let bound = listeners.filter(|bind| !failed.contains_key(bind)).collect();
        let now = BindResults { bound, failed };
        self.0.send_if_modified(|before| {
            let differs = *before != now;
            *before = now;
            differs
        });
    }

    /// Whether an address is bound.
    #[must_use]
    pub fn is_bound(&self, bind: (PortProtocol, SocketAddr)) -> bool {
        self.0.borrow().bound.contains(&bind)
    }

    /// The state of an address.
    pub(super) fn port_state(&self, bind: Bind) -> PortState {
        let bound = self.0.borrow();
        if bound.bound.contains(&bind) {
            return PortState::Bound;
        }
        match bound.failed.get(&bind) {
            Some(problem) => PortState::Failed(format!("{} cannot be bound: {problem}", bind.1).into()),
            None => PortState::Pending,
        }
    }

    /// Resolves at the next change.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut receiver = self.0.subscribe();
        async move {
            // The sender lives as long as `self`.
            _ = receiver.changed().await;
        }
    }
}
