//! What of a Gateway is served at the address of Ingresses (`address: shared`): HTTP and HTTPS at the two ports that Ingresses have, and
//! each host of a port for the oldest Gateway that wants it. Owns these rules; binds nothing.

use std::collections::BTreeSet;

use fairway_model::HostPattern;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::IngressListeners;

use crate::condition::Fault;
use crate::listener::{Entry, Protocol};

/// The tables of the routes of all Gateways there, in the clear and over TLS: the hosts of their listeners differ. A connection that
/// began before its name had a listener of its own finds them too.
const TABLES: [&str; 2] = ["routes", "routes/https"];

/// The table of the routes of a listener.
pub(crate) fn table(protocol: Protocol) -> &'static str {
    TABLES[usize::from(protocol != Protocol::Http)]
}

/// A host of a listener, and its port.
pub(crate) type SharedHost = (u16, HostPattern);

/// A Gateway, and since when it is there.
pub(crate) type Claimant = (i64, ObjectKey);

/// What a Gateway wants, and since when it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) created: i64,
    pub(crate) hosts: BTreeSet<SharedHost>,
}

/// The address of Ingresses, as a Gateway sees it.
#[derive(Clone, Copy)]
pub(crate) struct SharedAddress<'a> {
    /// The listeners of Ingresses.
    pub(crate) ingresses: &'a IngressListeners,
    /// The Gateway that has a host, where it is another one.
    pub(crate) taken: &'a dyn Fn(&SharedHost) -> Option<ObjectKey>,
    /// Whether a ClientTrafficPolicy decides for a listener.
    pub(crate) has_policy: &'a dyn Fn(&Entry) -> bool,
}

/// Why a listener cannot be at that address, whoever else is there.
pub(crate) fn misfit(entry: &Entry, ingresses: &IngressListeners) -> Option<Fault> {
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

/// The hosts that listeners want there.
pub(crate) fn wanted<'e>(
    entries: impl Iterator<Item = &'e Entry>,
    ingresses: &IngressListeners,
) -> impl Iterator<Item = SharedHost> {
    let fits = |entry: &&Entry| entry.refused.is_none() && misfit(entry, ingresses).is_none();
    entries.filter(fits).map(|entry| (entry.port, entry.host.clone()))
}

impl SharedAddress<'_> {
    /// Which other Gateway has the host of a listener that could be there.
    pub(crate) fn conflict(&self, entry: &Entry) -> Option<Fault> {
        if entry.refused.is_some() || misfit(entry, self.ingresses).is_some() {
            return None;
        }
        let other = (self.taken)(&(entry.port, entry.host.clone()))?;
        let (host, port) = (&entry.host, entry.port);
        let problem = format!("Gateway {other} has the hostname {host} at port {port} of the shared address");
        Some(Fault::new("HostnameConflict", problem))
    }

    /// Why a listener is not accepted there. What a policy says of clients would hold for those of Ingresses too, or for nobody.
    pub(crate) fn refusal(&self, entry: &Entry) -> Option<Fault> {
        misfit(entry, self.ingresses).or_else(|| {
            let problem = "a ClientTrafficPolicy is for it, and the clients of the shared address are those of Ingresses";
            (self.has_policy)(entry).then(|| Fault::new("UnsupportedValue", problem))
        })
    }
}
