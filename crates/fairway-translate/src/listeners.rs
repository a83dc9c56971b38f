//! The listeners that are there without any object, and the table of routes that they share.

use std::sync::{Arc, LazyLock};

use fairway_model::{Config, HostPattern, Listener, ListenerProtocol, Origin, StreamKey, StreamRoute};

use fairway_objects::options::{ListenAt, Options};

/// The route table of all Ingresses.
pub(crate) const INGRESS_TABLE: &str = "ingress";

/// Its name as one text that all hosts share.
pub(crate) fn ingress_table() -> Arc<str> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| INGRESS_TABLE.into());
    NAME.clone()
}

/// Puts the listeners of all Ingresses into `config`, in place of those that are there under their names.
pub(crate) fn of_ingresses(options: &Options, config: &mut Config) {
    let at = &options.listeners;
    for (name, flag, protocol, ListenAt { bind, public_port }) in [
        ("http", "--http", ListenerProtocol::Http, &at.http),
        ("https", "--https", ListenerProtocol::Https, &at.https),
    ] {
        let listener = Listener {
            origin: Origin::object("Flag", "", flag),
            bind: bind.clone(),
            ..Listener::new(name, protocol, *public_port, INGRESS_TABLE)
        };
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
    let passing = |listener: &&Arc<Listener>| {
        listener.protocol == ListenerProtocol::TlsPassthrough && *listener.table == *INGRESS_TABLE
    };
    for listener in config.listeners.values().filter(passing).cloned().collect::<Vec<_>>() {
        let moved = passing_tls(options, &listener.host, &listener.origin);
        config.listeners.insert(moved.name.clone(), Arc::new(moved));
    }
}

/// Puts the listener that passes the TLS of a host of Ingresses through into `config`, with where it goes; takes both out
/// without a route.
pub(crate) fn pass_through(
    options: &Options,
    host: &HostPattern,
    route: Option<StreamRoute>,
    config: &mut Config,
) {
    let Some(route) = route else {
        let key = StreamKey { table: INGRESS_TABLE.into(), host: host.clone() };
        if config.streams.remove(&key).is_some() {
            config.listeners.remove(&*passing_name(host));
        }
        return;
    };
    let listener = passing_tls(options, host, &route.origin);
    if config.listeners.get(&listener.name).is_none_or(|before| **before != listener) {
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
    }
    if config.streams.get(&route.key).is_none_or(|before| **before != route) {
        config.streams.insert(route.key.clone(), Arc::new(route));
    }
}

fn passing_name(host: &HostPattern) -> String {
    format!("https/{host}")
}

fn passing_tls(options: &Options, host: &HostPattern, origin: &Origin) -> Listener {
    let ListenAt { bind, public_port } = &options.listeners.https;
    let name = passing_name(host);
    Listener {
        origin: origin.clone(),
        bind: bind.clone(),
        host: host.clone(),
        ..Listener::new(&name, ListenerProtocol::TlsPassthrough, *public_port, INGRESS_TABLE)
    }
}
