//! What of the addresses that Gateways have is bound: told to who says where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use fairway_control::status::Bindings;
use fairway_model::Config;
use fairway_proxy::{BindError, PublishProblem, Publisher};

/// What could not be bound, until it is. The data plane says each only once.
#[derive(Default)]
pub(super) struct BoundAddresses {
    bindings: Bindings,
    failed: Mutex<BTreeMap<SocketAddr, String>>,
}

impl BoundAddresses {
    /// What is told.
    pub(super) fn bindings(&self) -> Bindings {
        self.bindings.clone()
    }

    /// Notes what came of publishing `config`.
    pub(super) fn note(&self, config: &Config, publisher: &Publisher, problems: &[PublishProblem]) {
        // Those of flags have no namespace.
        let of_objects = config.listeners.values().filter(|it| !it.origin.namespace.is_empty());
        let mut names = BTreeMap::<SocketAddr, BTreeSet<&str>>::new();
        for listener in of_objects {
            for address in &listener.bind {
                names.entry(*address).or_default().insert(&listener.name);
            }
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in problems {
            if let PublishProblem::Listener(BindError { address, error, .. }) = problem {
                failed.insert(*address, error.to_string());
            }
        }
        let carried = |address: &SocketAddr, names: &BTreeSet<&str>| {
            names.iter().any(|name| publisher.addresses(name).contains(address))
        };
        if !publisher.is_bound() {
            // At the start the data plane only logs what it could not bind.
            for (address, _) in names.iter().filter(|(address, names)| !carried(address, names)) {
                failed.entry(*address).or_insert_with(|| "it could not be bound at the start".to_owned());
            }
        }
        let is_bound =
            |address: &SocketAddr, names: &BTreeSet<&str>| publisher.is_bound() || carried(address, names);
        failed.retain(|address, _| names.get(address).is_some_and(|names| !is_bound(address, names)));
        let given = names.keys().copied();
        let unbound = failed.iter().map(|(address, problem)| (*address, problem.clone()));
        self.bindings.show(given, unbound);
    }
}
