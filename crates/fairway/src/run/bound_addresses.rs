//! Tracks which addresses of Gateways are bound, for the code that assigns them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use fairway_cluster::status::Bindings;
use fairway_model::{Config, PortProtocol};
use fairway_proxy::{BindError, PublishProblem, Publisher};

/// The addresses that could not be bound yet. Kept here because the data plane reports each failure only once.
#[derive(Default)]
pub(super) struct BoundAddresses {
    bindings: Bindings,
    failed: Mutex<BTreeMap<BindKey, String>>,
}

/// A TCP or UDP address to bind.
type BindKey = (PortProtocol, SocketAddr);

impl BoundAddresses {
    /// The shared state that is updated.
    pub(super) fn bindings(&self) -> Bindings {
        self.bindings.clone()
    }

    /// Records the result of publishing `config`.
    pub(super) fn record_publication(
        &self,
        config: &Config,
        publisher: &Publisher,
        problems: &[PublishProblem],
    ) {
        // Listeners of flags have no namespace.
        let of_objects = config.listeners.values().filter(|it| !it.origin.namespace.is_empty());
        let mut names = BTreeMap::<BindKey, BTreeSet<&str>>::new();
        for listener in of_objects {
            let protocol = listener.protocol.port_protocol();
            for address in &listener.bind {
                names.entry((protocol, *address)).or_default().insert(&listener.name);
            }
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = |(_, address): &BindKey, names: &BTreeSet<&str>| {
            names.iter().any(|name| publisher.addresses(name).contains(address))
        };
        for problem in problems {
            // Without HTTP/3 the listener is still served.
            if let PublishProblem::Listener(BindError { address, is_for_http3: false, error, .. }) = problem {
                // The address may be bound for the other transport.
                let appeared =
                    names.iter().filter(|(bind, names)| bind.1 == *address && !carried(bind, names));
                failed.extend(appeared.map(|(bind, _)| (*bind, error.to_string())));
            }
        }
        if !publisher.is_bound() {
            // At startup the data plane only logs the addresses that it could not bind.
            for (bind, _) in names.iter().filter(|(bind, names)| !carried(bind, names)) {
                failed.entry(*bind).or_insert_with(|| "could not be bound at startup".to_owned());
            }
        }
        let is_bound = |bind: &BindKey, names: &BTreeSet<&str>| publisher.is_bound() || carried(bind, names);
        failed.retain(|bind, _| names.get(bind).is_some_and(|names| !is_bound(bind, names)));
        let bound = names.keys().copied();
        let unbound = failed.iter().map(|(bind, problem)| (*bind, problem.clone()));
        self.bindings.publish(bound, unbound);
    }
}
