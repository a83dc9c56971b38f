//! Gateways that share the address of Ingresses (`address: shared`): HTTP and HTTPS at the two ports of Ingresses,
//! with each host of a port owned by the oldest Gateway that requests it.

use std::collections::BTreeSet;

use fairway_model::HostPattern;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::IngressListeners;

use crate::condition::Fault;
use crate::listener::{ListenerEntry, Protocol};

/// Route tables of all such Gateways, for plain HTTP and for TLS: the hosts of their listeners are disjoint. A
/// connection opened before its SNI name had its own listener finds these routes too.
const SHARED_TABLES: [&str; 2] = ["routes", "routes/https"];

/// The route table of a listener.
pub(crate) fn shared_table(protocol: Protocol) -> &'static str {
    SHARED_TABLES[usize::from(protocol != Protocol::Http)]
}

/// A listener host and its port.
pub(crate) type SharedHost = (u16, HostPattern);

/// A Gateway and its creation time.
pub(crate) type HostClaimant = (i64, ObjectKey);

/// The hosts that a Gateway requests, and its creation time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostClaims {
    pub(crate) created: i64,
    pub(crate) hosts: BTreeSet<SharedHost>,
}

/// The address of Ingresses, from the view of a Gateway.
#[derive(Clone, Copy)]
pub(crate) struct SharedAddress<'a> {
    /// The listeners of Ingresses.
    pub(crate) ingresses: &'a IngressListeners,
    /// The other Gateway that owns a host, if any.
    pub(crate) other_owner: &'a dyn Fn(&SharedHost) -> Option<ObjectKey>,
    /// Whether a ClientTrafficPolicy applies to a listener.
    pub(crate) has_policy: &'a dyn Fn(&ListenerEntry) -> bool,
}

/// Why a listener cannot use the shared address, regardless of other listeners.
pub(crate) fn unsupported_listener(entry: &ListenerEntry, ingresses: &IngressListeners) -> Option<Fault> {
    let (http, https) = (ingresses.http.public_port, ingresses.https.public_port);
    match entry.protocol {
        Protocol::Http if entry.port == http => None,
        Protocol::Https if entry.port == https && entry.host == HostPattern::Any => {
            let problem =
                "an HTTPS listener at the address of Ingresses needs a hostname, by which clients choose it";
            Some(Fault::new("UnsupportedValue", problem))
        }
        Protocol::Https if entry.port == https => None,
        Protocol::Http | Protocol::Https => {
            let problem =
                format!("the address of Ingresses has HTTP at port {http} and HTTPS at port {https} only");
            Some(Fault::new("PortUnavailable", problem))
        }
        protocol => {
            let problem = format!("the address of Ingresses has HTTP and HTTPS only, not {protocol}");
            Some(Fault::new("UnsupportedProtocol", problem))
        }
    }
}

/// The hosts that listeners request there.
pub(crate) fn wanted_hosts<'e>(
    entries: impl Iterator<Item = &'e ListenerEntry>,
    ingresses: &IngressListeners,
) -> impl Iterator<Item = SharedHost> {
    let fits =
        |entry: &&ListenerEntry| entry.refused.is_none() && unsupported_listener(entry, ingresses).is_none();
    entries.filter(fits).map(|entry| (entry.port, entry.host.clone()))
}

impl SharedAddress<'_> {
    /// The conflict if another Gateway owns the listener's host.
    pub(crate) fn conflict(&self, entry: &ListenerEntry) -> Option<Fault> {
        if entry.refused.is_some() || unsupported_listener(entry, self.ingresses).is_some() {
            return None;
        }
        let other = (self.other_owner)(&(entry.port, entry.host.clone()))?;
        let (host, port) = (&entry.host, entry.port);
        let problem = format!("Gateway {other} has the hostname {host} at port {port} of the shared address");
        Some(Fault::new("HostnameConflict", problem))
    }

    /// Why a listener is not accepted there. A ClientTrafficPolicy would also affect the clients of Ingresses, or
    /// none.
    pub(crate) fn refusal(&self, entry: &ListenerEntry) -> Option<Fault> {
        unsupported_listener(entry, self.ingresses).or_else(|| {
            let problem = "a ClientTrafficPolicy is for it, and the clients of the shared address are those of Ingresses";
            (self.has_policy)(entry).then(|| Fault::new("UnsupportedValue", problem))
        })
    }
}
