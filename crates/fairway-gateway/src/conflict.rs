//! Listeners of one Gateway that cannot be told apart (Gateway API `Listeners`, "Distinct Listeners"). Those of the
//! Gateway itself come before those of ListenerSets, and older sets before younger ones; of listeners of one object
//! none wins. TCP and UDP have ports of their own. Owns nothing else of listeners.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{HostPattern, PortProtocol};
use imbl::OrdSet;

use crate::condition::Fault;
use crate::hostname;
use crate::listener::{Entry, Protocol};

/// What the connections of a port begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Clear,
    Tls,
    /// Anything, so that no two listeners can be told apart.
    Raw,
}

/// A port, of TCP or UDP.
type Port = (u16, PortProtocol);

/// Who has a port.
#[derive(Clone, Debug)]
struct Claim {
    family: Family,
    hosts: BTreeMap<HostPattern, Protocol>,
}

/// The ports of a Gateway, object by object.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<Port, Claim>);

impl Claims {
    /// Takes the listeners of the next object; gives for each what stands in its way.
    pub(crate) fn add<'e>(&mut self, entries: impl Iterator<Item = &'e Entry> + Clone) -> Vec<Option<Fault>> {
        let taken: Vec<Option<Fault>> = entries.clone().map(|entry| self.taken(entry)).collect();
        let mut own = Self::default();
        let mut indistinct: BTreeSet<(Port, Option<HostPattern>)> = BTreeSet::new();
        let free = || entries.clone().zip(&taken).filter(|(entry, fault)| competes(entry) && fault.is_none());
        for (entry, _) in free() {
            match own.taken(entry) {
                Some(fault) if fault.reason == PROTOCOL && own.differs(entry) => {
                    indistinct.insert((port(entry), None));
                }
                Some(_) => _ = indistinct.insert((port(entry), Some(entry.host.clone()))),
                None => own.claim(entry),
            }
        }
        let among = |entry: &Entry| {
            let whole = indistinct.contains(&(port(entry), None));
            let host = indistinct.contains(&(port(entry), Some(entry.host.clone())));
            if whole { Some(protocol_conflict(entry)) } else { host.then(|| same(entry)) }
        };
        let faults: Vec<Option<Fault>> = entries
            .clone()
            .zip(&taken)
            .map(|(entry, fault)| fault.clone().or_else(|| competes(entry).then(|| among(entry)).flatten()))
            .collect();
        for (entry, _) in entries.zip(&faults).filter(|(entry, fault)| competes(entry) && fault.is_none()) {
            self.claim(entry);
        }
        faults
    }

    /// The hosts of a port.
    fn differs(&self, entry: &Entry) -> bool {
        let family = family(entry.protocol);
        self.0.get(&port(entry)).is_some_and(|claim| Some(claim.family) != family)
    }

    fn taken(&self, entry: &Entry) -> Option<Fault> {
        let claim = self.0.get(&port(entry))?;
        let family = family(entry.protocol)?;
        if claim.family != family {
            return Some(protocol_conflict(entry));
        }
        let other = claim.hosts.get(&entry.host)?;
        // What differs in nothing but whether TLS is passed through has the same protocol.
        let is_https = |protocol: Protocol| protocol == Protocol::Https;
        let alike = is_https(*other) == is_https(entry.protocol);
        Some(if alike { same(entry) } else { protocol_conflict(entry) })
    }

    fn claim(&mut self, entry: &Entry) {
        let Some(family) = family(entry.protocol) else { return };
        let claim = self.0.entry(port(entry)).or_insert_with(|| Claim { family, hosts: BTreeMap::new() });
        claim.hosts.insert(entry.host.clone(), entry.protocol);
    }

    /// For each port with TLS the hosts that overlap with others (Gateway API `OverlappingTLSConfig`): a client that has a
    /// connection for one may use it for another (RFC 9113 §9.1.1).
    pub(crate) fn overlapping(&self) -> BTreeSet<(u16, HostPattern)> {
        let mut overlapping = BTreeSet::new();
        for ((port, _), claim) in &self.0 {
            if claim.family != Family::Tls {
                continue;
            }
            let hosts: OrdSet<HostPattern> = claim.hosts.keys().cloned().collect();
            for host in &hosts {
                for other in hostname::covering(&hosts, host).filter(|other| *other != host) {
                    overlapping.extend([(*port, host.clone()), (*port, other.clone())]);
                }
            }
        }
        overlapping
    }
}

const PROTOCOL: &str = "ProtocolConflict";

fn protocol_conflict(entry: &Entry) -> Fault {
    let problem = format!("another listener of port {} speaks another protocol", entry.port);
    Fault::new(PROTOCOL, problem)
}

/// Two of the same protocol, which are told apart by nothing but the hostname, and by nothing at all where there are no
/// hostnames (GEP-2644, GEP-2645).
fn same(entry: &Entry) -> Fault {
    let (port, protocol) = (entry.port, entry.protocol);
    match protocol.has_hosts() {
        true => {
            let problem = format!("another listener of port {port} has the hostname {}", entry.host);
            Fault::new("HostnameConflict", problem)
        }
        false => Fault::new(PROTOCOL, format!("another {protocol} listener has port {port}")),
    }
}

fn port(entry: &Entry) -> Port {
    (entry.port, entry.protocol.port_protocol())
}

/// Whether it may stand in the way of others: what is not served does not.
fn competes(entry: &Entry) -> bool {
    entry.refused.is_none() && entry.protocol.served().is_some()
}

fn family(protocol: Protocol) -> Option<Family> {
    match protocol {
        Protocol::Http => Some(Family::Clear),
        Protocol::Https | Protocol::Tls | Protocol::Passthrough => Some(Family::Tls),
        Protocol::Tcp | Protocol::Udp => Some(Family::Raw),
        Protocol::Unknown => None,
    }
}
