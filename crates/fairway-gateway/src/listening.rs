//! The listeners of a Gateway for the data plane (`fairway_model::Listener`): one for each port of HTTP in the
//! clear, and one for each listener in front of which TLS stands, among which the name that a client asks for
//! chooses.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{self as model, CertificateKey, HostPattern, ListenerProtocol, ListenerTls};
use fairway_objects::options::IngressListeners;
use fairway_objects::placement::Placement;

use crate::client_traffic::ClientPolicies;
use crate::gateway::{self, Listener, Reading};
use crate::listener::Protocol;
use crate::place;
use crate::policy::Attached;

/// The listeners by name.
pub(crate) type Listeners = BTreeMap<Arc<str>, Arc<model::Listener>>;

/// Those of a Gateway in its place.
pub(crate) fn of(reading: &Reading, placement: &Placement, attached: &Attached) -> Listeners {
    if reading.is_shared {
        return at_ingresses(reading, placement, attached);
    }
    let mut listeners = Listeners::new();
    let clients = ClientPolicies::of(reading, attached);
    for listener in reading.served() {
        let of = listener.entry.protocol;
        let bind = place::bound(placement, of.port_protocol(), listener.entry.port);
        let Some(protocol) = of.served().filter(|_| !bind.is_empty()) else { continue };
        // All of a port in the clear have one table, and the first of them stands for all.
        if listeners.contains_key(&listener.table) {
            continue;
        }
        let entry = &listener.entry;
        let made = model::Listener {
            origin: entry.origin.clone(),
            bind: bind.to_vec(),
            host: if protocol == ListenerProtocol::Http { HostPattern::Any } else { entry.host.clone() },
            tls: tls(listener, reading, protocol, attached),
            clients: clients.traffic(listener),
            ..model::Listener::new(&listener.table, protocol, entry.port, &listener.table)
        };
        listeners.insert(listener.table.clone(), Arc::new(made));
    }
    listeners
}

/// Those of a Gateway at the address of Ingresses: names choose between its listeners and that of Ingresses, whose hosts each of them
/// serves too. What is served in the clear has one listener, that of Ingresses.
fn at_ingresses(reading: &Reading, placement: &Placement, attached: &Attached) -> Listeners {
    let https = reading.served().filter(|listener| listener.entry.protocol == Protocol::Https);
    let made = https.filter_map(|listener| {
        let entry = &listener.entry;
        let (of, name) = (ListenerProtocol::Https, gateway::table(&reading.own()?.gateway, entry));
        let made = model::Listener {
            origin: entry.origin.clone(),
            bind: place::bound(placement, of.port_protocol(), entry.port).to_vec(),
            host: entry.host.clone(),
            routes: Some(listener.table.clone()),
            beside: Some(IngressListeners::HTTPS.into()),
            tls: tls(listener, reading, of, attached),
            ..model::Listener::new(&name, of, entry.port, IngressListeners::TABLE)
        };
        Some((name, Arc::new(made)))
    });
    made.collect()
}

fn tls(
    listener: &Listener,
    reading: &Reading,
    protocol: ListenerProtocol,
    attached: &Attached,
) -> ListenerTls {
    let entry = &listener.entry;
    let key = |key: &fairway_objects::object::ObjectKey| CertificateKey(key.to_string().into());
    let by_policy = || attached.verification(&reading.own()?.gateway, &entry.id);
    let clients = reading.frontend.of(entry.port).verification.clone().or_else(by_policy);
    ListenerTls {
        certificates: entry.certificates.iter().map(key).collect(),
        clients: clients.filter(|_| protocol == ListenerProtocol::Https),
    }
}
