//! Listeners of one Gateway that cannot be told apart (Gateway API `Listeners`, "Distinct Listeners"). Those of the
//! Gateway itself come before those of ListenerSets, and older sets before younger ones; of listeners of one object
//! none wins. Owns nothing else of listeners.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::HostPattern;
use imbl::OrdSet;

use crate::condition::Fault;
use crate::hostname;
use crate::listener::{Entry, Protocol};

/// What the connections of a port begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Clear,
    Tls,
    Raw,
}

/// Who has a port.
#[derive(Clone, Debug)]
struct Claim {
    family: Family,
    hosts: BTreeMap<HostPattern, Protocol>,
}

/// The ports of a Gateway, object by object.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<u16, Claim>);

impl Claims {
    /// Takes the listeners of the next object; gives for each what stands in its way.
    pub(crate) fn add<'e>(&mut self, entries: impl Iterator<Item = &'e Entry> + Clone) -> Vec<Option<Fault>> {
        let taken: Vec<Option<Fault>> = entries.clone().map(|entry| self.taken(entry)).collect();
        let mut own = Self::default();
        let mut indistinct: BTreeSet<(u16, Option<HostPattern>)> = BTreeSet::new();
        let free = || entries.clone().zip(&taken).filter(|(entry, fault)| competes(entry) && fault.is_none());
        for (entry, _) in free() {
            match own.taken(entry) {
                Some(fault) if fault.reason == PROTOCOL && own.differs(entry) => {
                    indistinct.insert((entry.port, None));
                }
                Some(_) => _ = indistinct.insert((entry.port, Some(entry.host.clone()))),
                None => own.claim(entry),
            }
        }
        let among = |entry: &Entry| {
            let port = indistinct.contains(&(entry.port, None));
            let host = indistinct.contains(&(entry.port, Some(entry.host.clone())));
            if port { Some(protocol_conflict(entry)) } else { host.then(|| hostname_conflict(entry)) }
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
        self.0.get(&entry.port).is_some_and(|claim| Some(claim.family) != family)
    }

    fn taken(&self, entry: &Entry) -> Option<Fault> {
        let claim = self.0.get(&entry.port)?;
        let family = family(entry.protocol)?;
        if claim.family != family {
            return Some(protocol_conflict(entry));
        }
        let other = claim.hosts.get(&entry.host)?;
        // What differs in nothing but whether TLS is passed through has the same protocol.
        let is_https = |protocol: Protocol| protocol == Protocol::Https;
        let same = is_https(*other) == is_https(entry.protocol);
        Some(if same { hostname_conflict(entry) } else { protocol_conflict(entry) })
    }

    fn claim(&mut self, entry: &Entry) {
        let Some(family) = family(entry.protocol) else { return };
        let claim = self.0.entry(entry.port).or_insert_with(|| Claim { family, hosts: BTreeMap::new() });
        claim.hosts.insert(entry.host.clone(), entry.protocol);
    }

    /// For each HTTPS port the hosts that overlap with others: a client that has a connection for one may use it
    /// for another (RFC 9113 §9.1.1).
    pub(crate) fn overlapping(&self) -> BTreeSet<(u16, HostPattern)> {
        let mut overlapping = BTreeSet::new();
        for (port, claim) in &self.0 {
            let https = claim.hosts.iter().filter(|(_, protocol)| **protocol == Protocol::Https);
            let hosts: OrdSet<HostPattern> = https.map(|(host, _)| host.clone()).collect();
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

fn hostname_conflict(entry: &Entry) -> Fault {
    let problem = format!("another listener of port {} has the hostname {}", entry.port, entry.host);
    Fault::new("HostnameConflict", problem)
}

/// Whether it may stand in the way of others: what is not served does not.
fn competes(entry: &Entry) -> bool {
    entry.refused.is_none() && entry.protocol.served().is_some()
}

fn family(protocol: Protocol) -> Option<Family> {
    match protocol {
        Protocol::Http => Some(Family::Clear),
        Protocol::Https | Protocol::Tls | Protocol::Passthrough => Some(Family::Tls),
        Protocol::Tcp => Some(Family::Raw),
        Protocol::Udp | Protocol::Unknown => None,
    }
}
