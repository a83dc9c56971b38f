//! Creates the data plane listeners of a Gateway (`fairway_model::Listener`): one for each plain HTTP port, and one
//! for each TLS listener, selected by SNI.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{self as model, CertificateKey, HostPattern, ListenerProtocol, ListenerTls};
use fairway_objects::options::IngressListeners;
use fairway_objects::placement::Placement;

use crate::client_traffic::ClientPolicies;
use crate::gateway::{self, GatewayReading, Listener};
use crate::listener::Protocol;
use crate::placement;
use crate::policy::AttachedPolicies;

/// Listeners by name.
pub(crate) type Listeners = BTreeMap<Arc<str>, Arc<model::Listener>>;

/// The listeners of a placed Gateway.
pub(crate) fn build_listeners(
    reading: &GatewayReading,
    placement: &Placement,
    attached: &AttachedPolicies,
) -> Listeners {
    if reading.is_shared {
        return for_shared_gateway(reading, placement, attached);
    }
    let mut listeners = Listeners::new();
    let clients = ClientPolicies::for_gateway(reading, attached);
    for listener in reading.served() {
        let listener_protocol = listener.entry.protocol;
        let bind =
            placement::bound_addresses(placement, listener_protocol.port_protocol(), listener.entry.port);
        let Some(protocol) = listener_protocol.data_plane_protocol().filter(|_| !bind.is_empty()) else {
            continue;
        };
        // Plain HTTP listeners of a port share a table, so the first represents all.
        if listeners.contains_key(&listener.table) {
            continue;
        }
        let entry = &listener.entry;
        let listener_entry = model::Listener {
            origin: entry.origin.clone(),
            bind: bind.to_vec(),
            host: if protocol == ListenerProtocol::Http { HostPattern::Any } else { entry.host.clone() },
            tls: listener_tls(listener, reading, protocol, attached),
            clients: clients.traffic(listener),
            ..model::Listener::new(&listener.table, protocol, entry.port, &listener.table)
        };
        listeners.insert(listener.table.clone(), Arc::new(listener_entry));
    }
    listeners
}

/// The listeners of a Gateway that shares the address of Ingresses: SNI selects between them and the Ingress
/// listener, whose hosts each of them serves too. Plain HTTP has one listener, that of Ingresses.
fn for_shared_gateway(
    reading: &GatewayReading,
    placement: &Placement,
    attached: &AttachedPolicies,
) -> Listeners {
    let https = reading.served().filter(|listener| listener.entry.protocol == Protocol::Https);
    let entries = https.filter_map(|listener| {
        let entry = &listener.entry;
        let (protocol, name) =
            (ListenerProtocol::Https, gateway::route_table(&reading.own_parent()?.gateway, entry));
        let listener_entry = model::Listener {
            origin: entry.origin.clone(),
            bind: placement::bound_addresses(placement, protocol.port_protocol(), entry.port).to_vec(),
            host: entry.host.clone(),
            routes: Some(listener.table.clone()),
            address_owner: Some(IngressListeners::HTTPS.into()),
            tls: listener_tls(listener, reading, protocol, attached),
            ..model::Listener::new(&name, protocol, entry.port, IngressListeners::TABLE)
        };
        Some((name, Arc::new(listener_entry)))
    });
    entries.collect()
}

fn listener_tls(
    listener: &Listener,
    reading: &GatewayReading,
    protocol: ListenerProtocol,
    attached: &AttachedPolicies,
) -> ListenerTls {
    let entry = &listener.entry;
    let key = |key: &fairway_objects::object::ObjectKey| CertificateKey(key.to_string().into());
    let by_policy = || attached.verification(&reading.own_parent()?.gateway, &entry.id);
    let clients = reading.frontend.requirements_of(entry.port).verification.clone().or_else(by_policy);
    ListenerTls {
        certificates: entry.certificates.iter().map(key).collect(),
        clients: clients.filter(|_| protocol == ListenerProtocol::Https),
    }
}
