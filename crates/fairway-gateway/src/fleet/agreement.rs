//! Whether all ready replicas serve a Gateway like the leader does, by comparing what each replica reports with the
//! leader's state. Pure; polling happens elsewhere.
//!
//! Agreement lasts until the Gateway or its ports change: a replica is not ready before it has bound the listed
//! ports, so new replicas do not affect it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_objects::object::ObjectKey;
use serde::{Deserialize, Serialize};

/// Consecutive failed polls after which a replica is ignored: a NetworkPolicy may prevent replicas from polling each
/// other, and Gateways must not wait for that forever.
pub const MAX_MISSED_POLLS: u32 = 20;

/// A Gateway as a replica serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedGateway {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.generation` when it was read.
    pub generation: i64,
    /// Pod addresses bound for its TCP ports.
    pub bound: BTreeSet<SocketAddr>,
    /// Pod addresses bound for its UDP ports.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub datagrams: BTreeSet<SocketAddr>,
}

/// The Gateways that a replica serves.
pub type ServedGateways = BTreeMap<ObjectKey, ServedGateway>;

/// What the leader knows about the other replicas.
#[derive(Debug, Default)]
pub struct Agreement {
    /// Gateways that all replicas have served.
    agreed: ServedGateways,
    replicas: BTreeMap<Arc<str>, Replica>,
}

#[derive(Debug, Default)]
struct Replica {
    serves: ServedGateways,
    /// Consecutive failed polls.
    missed_polls: u32,
}

/// What is not agreed yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PendingAgreement {
    /// Gateways that some replica is not known to serve.
    pub gateways: BTreeSet<ObjectKey>,
    /// Those replicas.
    pub replicas: BTreeSet<Arc<str>>,
}

impl ServedGateway {
    /// Whether it is the same Gateway, at this generation or a later one, with all of these addresses bound.
    fn covers(&self, desired: &Self) -> bool {
        let is_bound = desired.bound.is_subset(&self.bound) && desired.datagrams.is_subset(&self.datagrams);
        self.uid == desired.uid && self.generation >= desired.generation && is_bound
    }
}

impl Agreement {
    /// Restores an agreement that an earlier leader reached.
    pub fn restore(&mut self, gateway: ObjectKey, served: ServedGateway) {
        self.agreed.insert(gateway, served);
    }

    /// Records the response of a replica; `None` if the poll failed.
    pub fn answered(&mut self, replica: &Arc<str>, response: Option<ServedGateways>) {
        let replica = self.replicas.entry(replica.clone()).or_default();
        match response {
            Some(serves) => *replica = Replica { serves, missed_polls: 0 },
            None => replica.missed_polls = replica.missed_polls.saturating_add(1),
        }
    }

    /// What is not agreed of the Gateways that the leader serves, given the other `ready` replicas.
    pub fn open(&mut self, desired: &ServedGateways, ready: &BTreeSet<Arc<str>>) -> PendingAgreement {
        self.replicas.retain(|name, _| ready.contains(name));
        self.agreed.retain(|gateway, _| desired.contains_key(gateway));
        let mut open = PendingAgreement::default();
        for (gateway, served) in desired {
            if self.agreed.get(gateway) == Some(served) {
                continue;
            }
            let lacking: Vec<_> =
                ready.iter().filter(|name| !self.serves(name, gateway, served)).cloned().collect();
            if lacking.is_empty() {
                self.agreed.insert(gateway.clone(), served.clone());
            } else {
                open.gateways.insert(gateway.clone());
                open.replicas.extend(lacking);
            }
        }
        open
    }

    fn serves(&self, name: &Arc<str>, gateway: &ObjectKey, desired: &ServedGateway) -> bool {
        self.replicas.get(name).is_some_and(|replica| {
            replica.missed_polls >= MAX_MISSED_POLLS
                || replica.serves.get(gateway).is_some_and(|it| it.covers(desired))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new("shop", "edge")
    }

    fn serving(generation: i64, ports: &[u16]) -> ServedGateways {
        let bound = ports.iter().map(|port| SocketAddr::new("0.0.0.0".parse().unwrap(), *port)).collect();
        [(key(), ServedGateway { uid: "u".to_owned(), generation, bound, ..ServedGateway::default() })].into()
    }

    fn ready(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn is_open(agreement: &mut Agreement, desired: &ServedGateways, names: &[&str]) -> bool {
        !agreement.open(desired, &ready(names)).gateways.is_empty()
    }

    #[test]
    fn a_leader_that_is_alone_agrees_with_itself() {
        assert!(!is_open(&mut Agreement::default(), &serving(1, &[20_000]), &[]));
    }

    #[test]
    fn every_ready_replica_must_serve_the_generation_at_all_addresses() {
        let (mut agreement, wanted) = (Agreement::default(), serving(2, &[20_000, 20_001]));
        let open = agreement.open(&wanted, &ready(&["a", "b"]));
        assert_eq!(open.replicas, ready(&["a", "b"]));
        for (answer, what) in [
            (serving(1, &[20_000, 20_001]), "an earlier generation"),
            (serving(2, &[20_000]), "a port is not bound"),
            (ServedGateways::new(), "it has not read it"),
        ] {
            agreement.answered(&"a".into(), Some(answer));
            agreement.answered(&"b".into(), Some(wanted.clone()));
            assert_eq!(agreement.open(&wanted, &ready(&["a", "b"])).replicas, ready(&["a"]), "{what}");
        }
        agreement.answered(&"a".into(), Some(serving(3, &[20_000, 20_001, 20_002])));
        assert!(!is_open(&mut agreement, &wanted, &["a", "b"]));
    }

    #[test]
    fn another_gateway_of_the_name_is_not_agreed() {
        let (mut agreement, wanted) = (Agreement::default(), serving(1, &[20_000]));
        let mut other = wanted.clone();
        other.get_mut(&key()).unwrap().uid = "earlier".to_owned();
        agreement.answered(&"a".into(), Some(other));
        assert!(is_open(&mut agreement, &wanted, &["a"]));
    }

    #[test]
    fn agreement_survives_new_replicas_but_not_changes() {
        let (mut agreement, wanted) = (Agreement::default(), serving(1, &[20_000]));
        agreement.restore(key(), wanted[&key()].clone());
        assert!(!is_open(&mut agreement, &wanted, &["a", "b"]));
        assert!(is_open(&mut agreement, &serving(2, &[20_000]), &["a"]));
        assert!(is_open(&mut agreement, &serving(1, &[20_000, 20_001]), &["a"]));
    }

    #[test]
    fn an_unreachable_replica_does_not_block_gateways_forever() {
        let (mut agreement, wanted) = (Agreement::default(), serving(1, &[20_000]));
        let mut times = 0;
        while is_open(&mut agreement, &wanted, &["a"]) {
            agreement.answered(&"a".into(), None);
            times += 1;
        }
        assert_eq!(times, MAX_MISSED_POLLS);
        let later = serving(2, &[20_000]);
        agreement.answered(&"a".into(), Some(wanted));
        assert!(is_open(&mut agreement, &later, &["a"]), "it answers again");
    }
}
