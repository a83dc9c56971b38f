//! The listeners that are there without any object, and the table of routes that they share.

use fairway_model::{Listener, ListenerProtocol};

use crate::options::Options;

/// The route table of all Ingresses.
pub(crate) const INGRESS_TABLE: &str = "ingress";

/// The listeners of all Ingresses.
pub(crate) fn of_ingresses(options: &Options) -> Vec<Listener> {
    let listener = |name: &str, protocol, public_port| Listener {
        name: name.into(),
        protocol,
        public_port,
        table: INGRESS_TABLE.into(),
    };
    vec![
        listener("http", ListenerProtocol::Http, options.public_ports.http),
        listener("https", ListenerProtocol::Https, options.public_ports.https),
    ]
}
