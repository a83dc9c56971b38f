//! The HTTP and HTTPS listeners for Ingresses. Command-line flags define them, so they exist without any Kubernetes
//! object; all Ingresses share their route table.

use std::sync::{Arc, LazyLock};

use fairway_model::{
    ClientTraffic, Config, HostPattern, Listener, ListenerProtocol, Origin, StreamKey, StreamRoute,
};
use fairway_objects::options::{IngressListeners, ListenAddresses, Options};

/// Name of the route table that holds the rules of all Ingresses.
pub(crate) const INGRESS_TABLE: &str = IngressListeners::TABLE;

/// [`INGRESS_TABLE`] as a shared string, so that the keys of all hosts refer to one allocation.
pub(crate) fn ingress_table() -> Arc<str> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| INGRESS_TABLE.into());
    NAME.clone()
}

/// Inserts the two Ingress listeners into `config`, or replaces them. The flags give their addresses, and the
/// settings say whether clients send a PROXY protocol header. A replaced listener keeps its Gateway route table.
pub(crate) fn set_ingress_listeners(options: &Options, config: &mut Config) {
    let addresses = &options.listeners;
    for (name, flag, protocol, ListenAddresses { bind, public_port }) in [
        (IngressListeners::HTTP, "--http", ListenerProtocol::Http, &addresses.http),
        (IngressListeners::HTTPS, "--https", ListenerProtocol::Https, &addresses.https),
    ] {
        let listener = Listener {
            origin: Origin::object("Flag", "", flag),
            bind: bind.clone(),
            routes: config.listeners.get(name).and_then(|listener| listener.routes.clone()),
            clients: ClientTraffic {
                proxy_protocol: config.settings.proxy_protocol.clone(),
                ..ClientTraffic::default()
            },
            ..Listener::new(name, protocol, *public_port, INGRESS_TABLE)
        };
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
}

/// Gives each Gateway listener that shares the address of an Ingress listener that listener's current address. The
/// two differ if `config` comes from an earlier process with other flags.
pub(crate) fn align_gateway_listeners(config: &mut Config) {
    let followers = config.listeners.values().filter_map(|listener| {
        let address_owner = config.listeners.get(listener.address_owner.as_ref()?)?;
        let bind = address_owner.bind.clone();
        Some(Arc::new(Listener { bind, ..(**listener).clone() }))
    });
    for listener in followers.collect::<Vec<_>>() {
        config.listeners.insert(listener.name.clone(), listener);
    }
}

/// Sets or removes the Gateway route tables of the Ingress listeners. Gateways have such a table where they use the
/// address of an Ingress listener.
pub(crate) fn set_gateway_tables([http_routes, https_routes]: [Option<Arc<str>>; 2], config: &mut Config) {
    for (name, routes) in [(IngressListeners::HTTP, http_routes), (IngressListeners::HTTPS, https_routes)] {
        let listener = config.listeners.get(name);
        if let Some(listener) = listener.filter(|listener| listener.routes != routes) {
            let updated = Arc::new(Listener { routes, ..(**listener).clone() });
            config.listeners.insert(updated.name.clone(), updated);
        }
    }
}

/// Sets or removes the TLS passthrough route of an Ingress host. Fairway terminates the TLS of a host without one.
pub(crate) fn set_passthrough(host: &HostPattern, route: Option<StreamRoute>, config: &mut Config) {
    let Some(route) = route else {
        config.streams.remove(&StreamKey { table: ingress_table(), host: host.clone() });
        return;
    };
    if config.streams.get(&route.key).is_none_or(|current| **current != route) {
        config.streams.insert(route.key.clone(), Arc::new(route));
    }
}
