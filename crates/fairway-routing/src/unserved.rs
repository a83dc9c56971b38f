//! What the model can say and nothing serves yet, in one place. None of it is ignored in silence: it is closed where it
//! protects or where another answer would be wrong, and each has a problem that names it.

use fairway_model::{Filter, Listener, ListenerProtocol, Rule, VirtualHost};

const CLIENT_CERTIFICATES: &str = "client certificates are not verified yet";

/// Of a listener: its connections are closed.
pub(crate) fn of_listener(listener: &Listener) -> Option<&'static str> {
    match listener.protocol {
        ListenerProtocol::Http => None,
        ListenerProtocol::Https => listener.tls.clients.is_some().then_some(CLIENT_CERTIFICATES),
        ListenerProtocol::Tls => Some("TLS with anything but HTTP inside is not served yet"),
        ListenerProtocol::TlsPassthrough => Some("TLS is not passed through yet"),
        ListenerProtocol::Tcp => Some("TCP is not forwarded yet"),
        ListenerProtocol::Udp => Some("UDP is not forwarded yet"),
    }
}

/// Of a rule of a host that verifies its clients and that lets everybody pass: it forwards nothing.
pub(crate) fn of_rule(host: &VirtualHost, rule: &Rule) -> Option<&'static str> {
    let verifies = |filter: &Filter| matches!(filter, Filter::ClientCertificate(_));
    (host.clients.is_some() && !rule.filters.iter().any(verifies))
        .then_some("its host verifies clients, and this rule does not")
}
