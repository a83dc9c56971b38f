//! Incremental adoption leaves the table as adoption from scratch would, whatever changed and whichever
//! snapshots the worker skipped; an exchange of an older snapshot never gets another backend than its own.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use fairway_connection::hop::AnyHop;
use fairway_model::{
    Backend, BackendKey, BackendProtocol, Balancing, Config, Endpoint as Address, HostPattern, Origin,
    PortProtocol, ServiceName, StreamKey, StreamPolicy, StreamRoute, WeightedBackend,
};
use fairway_routing::{BackendSlot, Snapshot, compile};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tokio::net::TcpStream;

use super::group_table::GroupTable;
use crate::testing::{ScriptedConnect, TestWorker, config_with_phases, endpoint, run_local};
use crate::upstream::{Endpoint, Group, Groups};

/// Nothing is sent in these tests: any hop will do.
type Hops = AnyHop<TcpStream>;

const NAMES: [&str; 4] = ["a", "b", "c", "named"];
const TRANSPORTS: [PortProtocol; 2] = [PortProtocol::Tcp, PortProtocol::Udp];

fn backend(name: &str, endpoints: &[u16]) -> Arc<Backend> {
    let address = |number: &u16| Address::at(endpoint(*number));
    Arc::new(Backend {
        key: name.into(),
        origin: Origin::object("Service", "default", name),
        service: ServiceName::default(),
        endpoints: endpoints.iter().map(address).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing: Balancing::RoundRobin,
        session: None,
        traffic: None,
    })
}

/// A configuration whose route names `named`, which keeps its slot without a backend.
fn naming() -> Config {
    let key = StreamKey { table: "tcp".into(), host: HostPattern::Any };
    let backends = vec![WeightedBackend::new("named".into(), 1)];
    let (origin, policy) = (Origin::default(), StreamPolicy::default());
    let route = StreamRoute { key: key.clone(), origin, backends, policy };
    let mut config = Config::default();
    config.streams.insert(key, Arc::new(route));
    config
}

#[derive(Clone, Debug)]
enum Step {
    Insert(&'static str, Vec<u16>),
    Remove(&'static str),
    /// Compile the configuration.
    Compile,
    /// Adopt the last compiled snapshot.
    Adopt,
    Use(&'static str, PortProtocol),
}

fn step() -> impl Strategy<Value = Step> {
    let endpoints = subsequence(vec![1, 2, 3, 4], 0..=4);
    prop_oneof![
        3 => (select(&NAMES), endpoints).prop_map(|(name, endpoints)| Step::Insert(name, endpoints)),
        2 => select(&NAMES).prop_map(Step::Remove),
        3 => Just(Step::Compile),
        2 => Just(Step::Adopt),
        4 => (select(&NAMES), select(&TRANSPORTS)).prop_map(|(name, transport)| Step::Use(name, transport)),
    ]
}

/// A group table and its expected contents.
struct TableFixture {
    config: Config,
    compiled: Arc<Snapshot>,
    adopted: Arc<Snapshot>,
    table: GroupTable<Hops>,
    groups: Groups<Hops>,
    /// Backends used, as long as every later snapshot has them in the same slot.
    used: BTreeSet<(BackendSlot, &'static str, PortProtocol)>,
    /// Every endpoint that a group has had.
    seen_endpoints: BTreeMap<(PortProtocol, SocketAddr), Weak<Endpoint<Hops>>>,
}

fn members(group: &Group<Hops>) -> impl Iterator<Item = &Rc<Endpoint<Hops>>> {
    (0..group.backend().endpoints.len()).map(|index| group.member(u32::try_from(index).unwrap()))
}

fn addresses(group: &Group<Hops>) -> Vec<SocketAddr> {
    members(group).map(|member| member.identity.address).collect()
}

impl TableFixture {
    fn new() -> Self {
        let config = naming();
        let first = compile(&config, None).snapshot;
        Self {
            config,
            compiled: Arc::clone(&first),
            adopted: first,
            table: GroupTable::default(),
            groups: Groups::default(),
            used: BTreeSet::new(),
            seen_endpoints: BTreeMap::new(),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Insert(name, endpoints) => {
                self.config.backends.insert(name.into(), backend(name, &endpoints));
            }
            Step::Remove(name) => {
                self.config.backends.remove(&BackendKey::from(name));
            }
            Step::Compile => self.compiled = compile(&self.config, Some(&self.compiled)).snapshot,
            Step::Adopt => self.adopt(),
            Step::Use(name, transport) => self.use_backend(name, transport),
        }
    }

    fn adopt(&mut self) {
        self.table.adopt(&self.adopted, &self.compiled, &self.groups);
        self.adopted = Arc::clone(&self.compiled);
        let now = &self.adopted;
        self.used.retain(|(slot, name, _)| {
            let backend = now.backend(*slot);
            backend.is_some_and(|backend| backend.key == BackendKey::from(*name))
        });
        for (slot, _, transport) in self.used.clone() {
            let group = self.table.existing_for(slot, transport);
            self.record_endpoints(transport, &group.expect("a group stays with its backend"));
        }
    }

    fn use_backend(&mut self, name: &'static str, transport: PortProtocol) {
        let Some(slot) = self.adopted.slot(&name.into()) else { return };
        let Some(group) = self.table.group(slot, transport, &self.adopted, &self.groups) else { return };
        assert_eq!(&group.backend().key, &BackendKey::from(name));
        self.used.insert((slot, name, transport));
        self.record_endpoints(transport, &group);
    }

    fn record_endpoints(&mut self, transport: PortProtocol, group: &Group<Hops>) {
        for member in members(group) {
            let known =
                self.seen_endpoints.insert((transport, member.identity.address), Rc::downgrade(member));
            let known = known.and_then(|known| known.upgrade());
            assert!(known.is_none_or(|known| Rc::ptr_eq(&known, member)), "an address has one state");
        }
    }

    fn check(&self) {
        let (fresh, fresh_groups) = (GroupTable::default(), Groups::default());
        let (mut count, mut held) = (0, BTreeSet::new());
        for slot in (0..u32::try_from(self.adopted.slots()).unwrap()).map(BackendSlot) {
            for transport in TRANSPORTS {
                let Some(group) = self.table.existing_for(slot, transport) else { continue };
                let scratch = fresh.group(slot, transport, &self.adopted, &fresh_groups).unwrap();
                assert!(Arc::ptr_eq(group.backend(), scratch.backend()));
                assert_eq!(addresses(&group), addresses(&scratch));
                held.extend(addresses(&group).into_iter().map(|address| (transport, address)));
                count += 1;
            }
        }
        assert_eq!(count, self.used.len(), "groups of backends that stay are kept, and no others");
        for (place, endpoint) in &self.seen_endpoints {
            let is_kept = endpoint.strong_count() > 0;
            assert_eq!(
                is_kept,
                held.contains(place),
                "{place:?} has its state for as long as a backend has it"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn incremental_adoption_equals_adoption_from_scratch(steps in vec(step(), 1..60)) {
        let mut world = TableFixture::new();
        for step in steps {
            world.apply(step);
            world.check();
        }
    }
}

/// A configuration whose backend `other` has one endpoint.
fn config(other: Option<u16>) -> Config {
    let mut config = config_with_phases(1, Vec::new());
    if let Some(number) = other {
        config.backends.insert("other".into(), backend("other", &[number]));
    }
    config
}

#[tokio::test(start_paused = true)]
async fn an_exchange_of_an_older_snapshot_gets_the_current_endpoints_of_its_backend() {
    run_local(async {
        let stage = TestWorker::with_config(&config(Some(7)), |_| ScriptedConnect::Refused);
        let (older, groups) = (stage.worker.adopted(), &stage.worker.groups);
        let slot = older.snapshot().slot(&"other".into()).unwrap();
        let address = |group: Rc<Group<_>>| group.member(0).identity.address;
        assert_eq!(older.group(slot, groups).map(address), Some(endpoint(7)));
        stage.publish(&config(Some(8)));
        assert_eq!(older.group(slot, groups).map(address), Some(endpoint(8)));
        stage.publish(&config(None));
        assert_eq!(older.group(slot, groups).map(address), Some(endpoint(7)), "the last that it knows of");
        assert!(stage.worker.adopted().group(slot, groups).is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_of_an_older_snapshot_never_gets_another_backend_in_its_slot() {
    run_local(async {
        let stage = TestWorker::with_config(&config(Some(7)), |_| ScriptedConnect::Refused);
        let (older, groups) = (stage.worker.adopted(), &stage.worker.groups);
        let slot = older.snapshot().slot(&"other".into()).unwrap();
        stage.publish(&config(None));
        let mut newer = config(None);
        newer.backends.insert("stranger".into(), backend("stranger", &[9]));
        stage.publish(&newer);
        let adopted = stage.worker.adopted();
        assert_eq!(adopted.snapshot().slot(&"stranger".into()), Some(slot));
        for _ in 0..2 {
            let (own, now) = (older.group(slot, groups).unwrap(), adopted.group(slot, groups).unwrap());
            assert_eq!(own.member(0).identity.address, endpoint(7));
            assert_eq!(now.member(0).identity.address, endpoint(9));
        }
    })
    .await;
}
