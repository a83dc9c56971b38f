//! Listeners of one Gateway that conflict (Gateway API `Listeners`, "Distinct Listeners"). Listeners of the Gateway
//! take precedence over those of ListenerSets, and older sets over younger ones; conflicting listeners of one object
//! all lose. TCP and UDP have separate ports.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{HostPattern, PortProtocol};
use imbl::OrdSet;

use crate::condition::Fault;
use crate::hostname;
use crate::listener::{ListenerEntry, Protocol};

/// How connections to a port begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionFamily {
    Clear,
    Tls,
    /// Anything, so listeners cannot be distinguished.
    Raw,
}

/// A TCP or UDP port.
type Port = (u16, PortProtocol);

/// The owner of a port.
#[derive(Clone, Debug)]
struct PortClaim {
    family: ConnectionFamily,
    hosts: BTreeMap<HostPattern, Protocol>,
}

/// Port claims of a Gateway, object by object.
#[derive(Debug, Default)]
pub(crate) struct PortClaims(BTreeMap<Port, PortClaim>);

impl PortClaims {
    /// Adds the listeners of the next object; returns the conflict of each.
    pub(crate) fn add<'e>(
        &mut self,
        entries: impl Iterator<Item = &'e ListenerEntry> + Clone,
    ) -> Vec<Option<Fault>> {
        let conflicts: Vec<Option<Fault>> =
            entries.clone().map(|entry| self.conflict_with_claim(entry)).collect();
        let mut claims = Self::default();
        let mut indistinct: BTreeSet<(Port, Option<HostPattern>)> = BTreeSet::new();
        let free =
            || entries.clone().zip(&conflicts).filter(|(entry, fault)| competes(entry) && fault.is_none());
        for (entry, _) in free() {
            match claims.conflict_with_claim(entry) {
                Some(fault) if fault.reason == PROTOCOL_CONFLICT && claims.differs(entry) => {
                    indistinct.insert((port_key(entry), None));
                }
                Some(_) => _ = indistinct.insert((port_key(entry), Some(entry.host.clone()))),
                None => claims.claim(entry),
            }
        }
        let among = |entry: &ListenerEntry| {
            let is_whole_port = indistinct.contains(&(port_key(entry), None));
            let host = indistinct.contains(&(port_key(entry), Some(entry.host.clone())));
            if is_whole_port {
                Some(protocol_conflict(entry))
            } else {
                host.then(|| same_protocol_conflict(entry))
            }
        };
        let faults: Vec<Option<Fault>> = entries
            .clone()
            .zip(&conflicts)
            .map(|(entry, fault)| fault.clone().or_else(|| competes(entry).then(|| among(entry)).flatten()))
            .collect();
        for (entry, _) in entries.zip(&faults).filter(|(entry, fault)| competes(entry) && fault.is_none()) {
            self.claim(entry);
        }
        faults
    }

    /// Whether hosts distinguish it from the claim.
    fn differs(&self, entry: &ListenerEntry) -> bool {
        let family = family(entry.protocol);
        self.0.get(&port_key(entry)).is_some_and(|claim| Some(claim.family) != family)
    }

    fn conflict_with_claim(&self, entry: &ListenerEntry) -> Option<Fault> {
        let claim = self.0.get(&port_key(entry))?;
        let family = family(entry.protocol)?;
        if claim.family != family {
            return Some(protocol_conflict(entry));
        }
        let other = claim.hosts.get(&entry.host)?;
        // TLS passthrough and termination count as the same protocol.
        let is_https = |protocol: Protocol| protocol == Protocol::Https;
        let alike = is_https(*other) == is_https(entry.protocol);
        Some(if alike { same_protocol_conflict(entry) } else { protocol_conflict(entry) })
    }

    fn claim(&mut self, entry: &ListenerEntry) {
        let Some(family) = family(entry.protocol) else { return };
        let claim =
            self.0.entry(port_key(entry)).or_insert_with(|| PortClaim { family, hosts: BTreeMap::new() });
        claim.hosts.insert(entry.host.clone(), entry.protocol);
    }

    /// The overlapping hosts of each TLS port (Gateway API `OverlappingTLSConfig`): a client may reuse a connection
    /// to one of them for another (RFC 9113 §9.1.1).
    pub(crate) fn overlapping(&self) -> BTreeSet<(u16, HostPattern)> {
        let mut overlapping = BTreeSet::new();
        for ((port, _), claim) in &self.0 {
            if claim.family != ConnectionFamily::Tls {
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

const PROTOCOL_CONFLICT: &str = "ProtocolConflict";

fn protocol_conflict(entry: &ListenerEntry) -> Fault {
    let problem = format!("another listener of port {} speaks another protocol", entry.port);
    Fault::new(PROTOCOL_CONFLICT, problem)
}

/// Listeners of the same protocol are distinguished only by hostname, or not at all if the protocol has no hostnames
/// (GEP-2644, GEP-2645).
fn same_protocol_conflict(entry: &ListenerEntry) -> Fault {
    let (port, protocol) = (entry.port, entry.protocol);
    match protocol.has_hosts() {
        true => {
            let problem = format!("another listener of port {port} has the hostname {}", entry.host);
            Fault::new("HostnameConflict", problem)
        }
        false => Fault::new(PROTOCOL_CONFLICT, format!("another {protocol} listener has port {port}")),
    }
}

fn port_key(entry: &ListenerEntry) -> Port {
    (entry.port, entry.protocol.port_protocol())
}

/// Whether it can conflict with others: unserved listeners cannot.
fn competes(entry: &ListenerEntry) -> bool {
    entry.refused.is_none() && entry.protocol.data_plane_protocol().is_some()
}

fn family(protocol: Protocol) -> Option<ConnectionFamily> {
    match protocol {
        Protocol::Http => Some(ConnectionFamily::Clear),
        Protocol::Https | Protocol::Tls | Protocol::Passthrough => Some(ConnectionFamily::Tls),
        Protocol::Tcp | Protocol::Udp => Some(ConnectionFamily::Raw),
        Protocol::Unknown => None,
    }
}
