//! What of the addresses that Gateways have is bound: told to who says where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use fairway_cluster::status::Bindings;
use fairway_model::{Config, PortProtocol};
use fairway_proxy::{BindError, PublishProblem, Publisher};

/// What could not be bound, until it is. The data plane says each only once.
#[derive(Default)]
pub(super) struct BoundAddresses {
    bindings: Bindings,
    failed: Mutex<BTreeMap<Bind, String>>,
}

/// An address to bind, of TCP or UDP.
type Bind = (PortProtocol, SocketAddr);

impl BoundAddresses {
    /// What is told.
    pub(super) fn bindings(&self) -> Bindings {
        self.bindings.clone()
    }

    /// Notes what came of publishing `config`.
    pub(super) fn note(&self, config: &Config, publisher: &Publisher, problems: &[PublishProblem]) {
        // Those of flags have no namespace.
        let of_objects = config.listeners.values().filter(|it| !it.origin.namespace.is_empty());
        let mut names = BTreeMap::<Bind, BTreeSet<&str>>::new();
        for listener in of_objects {
            let protocol = listener.protocol.port_protocol();
            for address in &listener.bind {
                names.entry((protocol, *address)).or_default().insert(&listener.name);
            }
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = |(_, address): &Bind, names: &BTreeSet<&str>| {
            names.iter().any(|name| publisher.addresses(name).contains(address))
        };
        for problem in problems {
            // Without HTTP/3 the listener is served all the same.
            if let PublishProblem::Listener(BindError { address, is_for_http3: false, error, .. }) = problem {
                // The other transport of the address may be bound.
                let there = names.iter().filter(|(bind, names)| bind.1 == *address && !carried(bind, names));
                failed.extend(there.map(|(bind, _)| (*bind, error.to_string())));
            }
        }
        if !publisher.is_bound() {
            // At the start the data plane only logs what it could not bind.
            for (bind, _) in names.iter().filter(|(bind, names)| !carried(bind, names)) {
                failed.entry(*bind).or_insert_with(|| "it could not be bound at the start".to_owned());
            }
        }
        let is_bound = |bind: &Bind, names: &BTreeSet<&str>| publisher.is_bound() || carried(bind, names);
        failed.retain(|bind, _| names.get(bind).is_some_and(|names| !is_bound(bind, names)));
        let given = names.keys().copied();
        let unbound = failed.iter().map(|(bind, problem)| (*bind, problem.clone()));
        self.bindings.show(given, unbound);
    }
}
