//! The listeners that are there without any object, and the table of routes that they share.

use std::sync::{Arc, LazyLock};

use fairway_model::{
    ClientTraffic, Config, HostPattern, Listener, ListenerProtocol, Origin, StreamKey, StreamRoute,
};
use fairway_objects::options::{IngressListeners, ListenAt, Options};

/// The route table of all Ingresses.
pub(crate) const INGRESS_TABLE: &str = IngressListeners::TABLE;

/// Its name as one text that all hosts share.
pub(crate) fn ingress_table() -> Arc<str> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| INGRESS_TABLE.into());
    NAME.clone()
}

/// Puts the listeners of all Ingresses into `config`, in place of those that are there under their names. Its settings say how
/// their connections begin.
pub(crate) fn of_ingresses(options: &Options, config: &mut Config) {
    let at = &options.listeners;
    for (name, flag, protocol, ListenAt { bind, public_port }) in [
        (IngressListeners::HTTP, "--http", ListenerProtocol::Http, &at.http),
        (IngressListeners::HTTPS, "--https", ListenerProtocol::Https, &at.https),
    ] {
        let listener = Listener {
            origin: Origin::object("Flag", "", flag),
            bind: bind.clone(),
            routes: config.listeners.get(name).and_then(|listener| listener.routes.clone()),
            clients: ClientTraffic {
                introduction: config.settings.introduction.clone(),
                ..ClientTraffic::default()
            },
            ..Listener::new(name, protocol, *public_port, INGRESS_TABLE)
        };
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
}

/// Puts the listeners of Gateways at the addresses of those of Ingresses, which an earlier process may have had elsewhere.
pub(crate) fn follow_ingresses(config: &mut Config) {
    let followers = config.listeners.values().filter_map(|listener| {
        let bind = config.listeners.get(listener.beside.as_ref()?)?.bind.clone();
        Some(Arc::new(Listener { bind, ..(**listener).clone() }))
    });
    for listener in followers.collect::<Vec<_>>() {
        config.listeners.insert(listener.name.clone(), listener);
    }
}

/// Gives the listeners of Ingresses tables of routes beside their own, or takes them away.
pub(crate) fn share([http, https]: [Option<Arc<str>>; 2], config: &mut Config) {
    for (name, routes) in [(IngressListeners::HTTP, http), (IngressListeners::HTTPS, https)] {
        let listener = config.listeners.get(name);
        if let Some(listener) = listener.filter(|listener| listener.routes != routes) {
            let listener = Arc::new(Listener { routes, ..(**listener).clone() });
            config.listeners.insert(listener.name.clone(), listener);
        }
    }
}

/// Puts the route for the TLS of a host of Ingresses into `config`, or takes it out: without one, TLS of the host ends here.
pub(crate) fn pass_through(host: &HostPattern, route: Option<StreamRoute>, config: &mut Config) {
    let Some(route) = route else {
        config.streams.remove(&StreamKey { table: ingress_table(), host: host.clone() });
        return;
    };
    if config.streams.get(&route.key).is_none_or(|before| **before != route) {
        config.streams.insert(route.key.clone(), Arc::new(route));
    }
}
