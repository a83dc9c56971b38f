//! The listeners that are there without any object, and the table of routes that they share.

use std::sync::Arc;

use fairway_model::{Config, Listener, ListenerProtocol, Origin};

use fairway_objects::options::{ListenAt, Options};

/// The route table of all Ingresses.
pub(crate) const INGRESS_TABLE: &str = "ingress";

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
}
