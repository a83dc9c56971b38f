//! Which addresses the data plane has bound: told by whoever publishes to it, read by who says where Gateways are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::PortProtocol;
use fairway_objects::placement::PortState;
use tokio::sync::watch;

/// The addresses that are bound, and those that cannot be. A clone is the same.
#[derive(Clone, Debug)]
pub struct Bindings(watch::Sender<Bound>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bound {
    bound: BTreeSet<Bind>,
    failed: BTreeMap<Bind, Arc<str>>,
}

/// An address to bind, of TCP or UDP.
type Bind = (PortProtocol, SocketAddr);

impl Default for Bindings {
    fn default() -> Self {
        Self(watch::Sender::new(Bound::default()))
    }
}

impl Bindings {
    /// The data plane was given these addresses, and could not bind some of them for these reasons.
    pub fn show(&self, given: impl Iterator<Item = Bind>, failed: impl Iterator<Item = (Bind, String)>) {
        let failed: BTreeMap<_, Arc<str>> = failed.map(|(bind, problem)| (bind, problem.into())).collect();
        let bound = given.filter(|bind| !failed.contains_key(bind)).collect();
        let now = Bound { bound, failed };
        self.0.send_if_modified(|before| {
            let differs = *before != now;
            *before = now;
            differs
        });
    }

    /// Whether an address is bound.
    #[must_use]
    pub fn has(&self, bind: (PortProtocol, SocketAddr)) -> bool {
        self.0.borrow().bound.contains(&bind)
    }

    /// What became of an address.
    pub(super) fn state(&self, bind: Bind) -> PortState {
        let bound = self.0.borrow();
        if bound.bound.contains(&bind) {
            return PortState::Bound;
        }
        match bound.failed.get(&bind) {
            Some(problem) => PortState::Failed(format!("{} cannot be bound: {problem}", bind.1).into()),
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
