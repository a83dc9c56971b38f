//! Which endpoint gets the next attempt, and how many it may have in flight: in whatever order attempts begin and end,
//! never more than its backend allows, and none is forgotten.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use fairway_model::{
    BackendProtocol, BackendTraffic, Ejection, Endpoint as Address, Origin, PortProtocol, ServiceName,
    SessionHash, SessionKey,
};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::net::TcpStream;

use super::picked_endpoints::Picks;
use super::*;
use crate::hop::AnyHop;

/// Nothing is sent in these tests, so any hop works.
type Hops = AnyHop<TcpStream>;

fn backend(endpoints: u16, balancing: Balancing, traffic: BackendTraffic) -> Arc<Backend> {
    let address = |number| Address::at(([192, 0, 2, 1], number).into());
    Arc::new(Backend {
        key: "backend".into(),
        origin: Origin::object("Service", "default", "backend"),
        service: ServiceName::default(),
        endpoints: (0..endpoints).map(address).collect(),
        protocol: BackendProtocol::Http1,
        tls: None,
        balancing,
        session: None,
        traffic: traffic.if_not_empty(),
    })
}

fn within(limit: u32) -> BackendTraffic {
    BackendTraffic { in_flight: NonZeroU32::new(limit), ..BackendTraffic::default() }
}

fn tried_members(members: &[u32]) -> TriedMembers {
    let mut tried = TriedMembers::default();
    members.iter().for_each(|member| tried.insert(*member));
    tried
}

fn pick(group: &Group<Hops>, tried: &[u32], belongs: Affinity) -> Option<PickedEndpoint<Hops>> {
    group.pick(&tried_members(tried), belongs, &mut fastrand::Rng::with_seed(7), Instant::now())
}

const ALL: [Balancing; 4] =
    [Balancing::RoundRobin, Balancing::PeakEwma, Balancing::LeastRequests, Balancing::Random];

#[test]
fn an_attempt_beyond_the_limit_gets_no_endpoint_until_another_attempt_ends() {
    for balancing in ALL {
        let groups = Groups::default();
        let group = groups.group(backend(3, balancing, within(2)), PortProtocol::Tcp, None);
        let mut picked: Vec<_> = (0..6).map(|_| pick(&group, &[], Affinity::Anywhere).unwrap()).collect();
        assert!(
            !group.has_room(&TriedMembers::default()) && pick(&group, &[], Affinity::Anywhere).is_none(),
            "{balancing:?}"
        );
        let freed = picked.swap_remove(3).index;
        assert_eq!(pick(&group, &[], Affinity::Anywhere).unwrap().index, freed, "{balancing:?}");
        picked.clear();
        assert_eq!(groups.in_flight(), 0);
    }
}

#[test]
fn retries_and_hedged_connects_respect_the_endpoint_limit() {
    let groups = Groups::default();
    let group = groups.group(backend(2, Balancing::RoundRobin, within(1)), PortProtocol::Tcp, None);
    let picked = pick(&group, &[0], Affinity::Anywhere).unwrap();
    assert_eq!(picked.index, 1);
    let tried = tried_members(&[0]);
    assert!(
        !group.has_untried(&tried)
            && !group.has_room(&tried)
            && pick(&group, &[0], Affinity::Anywhere).is_none()
    );
    assert!(group.rival(&tried, &mut fastrand::Rng::with_seed(7)).is_none());
    let both = tried_members(&[0, 1]);
    assert!(!group.has_untried(&both) && group.has_room(&both), "all were tried: any will do");
    assert_eq!(pick(&group, &[0, 1], Affinity::Anywhere).unwrap().index, 0);
    drop(picked);
    assert!(group.has_untried(&tried) && group.rival(&tried, &mut fastrand::Rng::with_seed(7)).is_some());
}

#[test]
fn an_ejected_endpoint_gets_nothing_even_if_the_others_are_full() {
    let group = Groups::<Hops>::default().group(
        backend(2, Balancing::RoundRobin, within(1)),
        PortProtocol::Tcp,
        None,
    );
    assert!(group.failed(group.member(0), Blame::Connect, Instant::now()));
    let picked = pick(&group, &[], Affinity::Anywhere).unwrap();
    assert_eq!(picked.index, 1);
    assert!(pick(&group, &[], Affinity::Anywhere).is_none());
    assert!(group.rival(&TriedMembers::default(), &mut fastrand::Rng::with_seed(7)).is_none());
    assert_eq!(pick(&group, &[1], Affinity::Anywhere).unwrap().index, 0, "nothing else is left");
}

/// How many of four datagram sessions that begin at `now` go to the first of two endpoints.
fn sessions_of_the_first(group: &Group<Hops>, now: Instant) -> usize {
    let none = TriedMembers::default();
    let mut random = fastrand::Rng::with_seed(7);
    let pick = || {
        let first_pick = group.pick(&none, Affinity::Anywhere, &mut random, now).unwrap();
        if first_pick.reason == PickReason::Probe {
            first_pick.endpoint.probe_sent();
        }
        first_pick
    };
    let picked: Vec<_> = std::iter::repeat_with(pick).take(4).collect();
    picked.iter().filter(|chosen| chosen.index == 0).count()
}

#[test]
fn a_datagram_endpoint_that_refuses_no_datagram_of_a_probe_is_healthy_without_responses() {
    let traffic = BackendTraffic::default();
    let group =
        Groups::<Hops>::default().group(backend(2, Balancing::RoundRobin, traffic), PortProtocol::Udp, None);
    let start = Instant::now();
    assert!(group.failed(group.member(0), Blame::Connect, start));
    assert_eq!(sessions_of_the_first(&group, start), 0);
    let due = start + Duration::from_secs(1);
    // It ends without a response.
    assert_eq!(sessions_of_the_first(&group, due), 1, "one probe");
    assert_eq!(sessions_of_the_first(&group, due), 2, "it is back");
    assert!(group.member(0).health().is_healthy());
    // One that refuses is not.
    assert!(group.failed(group.member(0), Blame::Connect, due));
    let due = due + Duration::from_secs(1);
    let mut random = fastrand::Rng::with_seed(7);
    let mut pick = || group.pick(&tried_members(&[1]), Affinity::Anywhere, &mut random, due).unwrap();
    let probe = pick();
    assert_eq!((probe.index, probe.reason), (0, PickReason::Probe));
    drop(probe);
    let probe = pick();
    assert_eq!((probe.index, probe.reason), (0, PickReason::Probe), "nothing of the first was sent");
    probe.endpoint.probe_sent();
    assert!(!group.failed(group.member(0), Blame::Connect, due), "it was ejected before");
    drop(probe);
    assert_eq!((pick().reason, sessions_of_the_first(&group, due)), (PickReason::Regular, 0));
}

fn picks(group: &Group<Hops>, ports: &[u16]) -> Picks {
    let addresses: Vec<_> = ports.iter().map(|port| SocketAddr::from(([192, 0, 2, 1], *port))).collect();
    Picks::from_addresses(group, &addresses)
}

#[test]
fn picks_are_tried_in_their_order_before_an_ejected_one_and_no_other_endpoint_is() {
    let traffic = BackendTraffic { in_flight: NonZeroU32::new(1), ..BackendTraffic::default() };
    let group =
        Groups::<Hops>::default().group(backend(5, Balancing::RoundRobin, traffic), PortProtocol::Tcp, None);
    let (now, picked) = (Instant::now(), picks(&group, &[3, 1, 99, 2]));
    let index =
        |tried: &[u32]| group.pick_among(&picked, &tried_members(tried), now).map(|chosen| chosen.index);
    assert_eq!([index(&[]), index(&[3]), index(&[3, 1])], [Some(3), Some(1), Some(2)]);
    assert_eq!(index(&[3, 1, 2]), Some(3), "all were tried");
    let last_pick = group.pick_among(&picked, &TriedMembers::default(), now).unwrap();
    assert_eq!(index(&[]), Some(1), "the first has no room");
    assert!(group.failed(group.member(1), Blame::Connect, now));
    assert_eq!(
        [index(&[]), index(&[2])],
        [Some(2), None],
        "one without room sends nothing to an ejected one"
    );
    assert_eq!(group.rival_among(&picked, &tried_members(&[])).map(|rival| rival.index), Some(2));
    assert!(
        group.has_untried_among(&picked, &tried_members(&[1]))
            && !group.has_untried_among(&picked, &tried_members(&[1, 2]))
    );
    drop(last_pick);
    assert_eq!(index(&[2, 3]), Some(1), "nothing else is left");
    assert!(group.rival_among(&picked, &tried_members(&[1, 2, 3])).is_none());
}

#[test]
fn addresses_that_are_no_members_are_no_picks() {
    let groups = Groups::<Hops>::default();
    let group = groups.group(backend(2, Balancing::RoundRobin, within(9)), PortProtocol::Tcp, None);
    let none = picks(&group, &[7, 8]);
    assert!(none.is_empty() && group.pick_among(&none, &TriedMembers::default(), Instant::now()).is_none());
    assert!(!group.has_room_among(&none, &TriedMembers::default()));
}

#[test]
fn a_session_of_a_full_endpoint_goes_to_another_one() {
    let mut model = Backend::clone(&backend(3, Balancing::RoundRobin, within(1)));
    model.session = Some(SessionKey::Hash(SessionHash { parts: Vec::new(), spread: None }));
    let group = Groups::default().group(Arc::new(model), PortProtocol::Tcp, None);
    for belongs in [
        Affinity::To(group.affinity_keys()[1]),
        Affinity::By(77),
        Affinity::Among(77, NonZeroU16::new(1).unwrap()),
    ] {
        let first: PickedEndpoint<Hops> = pick(&group, &[], belongs).unwrap();
        let second = pick(&group, &[], belongs).unwrap();
        assert_ne!(first.index, second.index, "{belongs:?}");
        drop(first);
        let again = pick(&group, &[], belongs).unwrap();
        assert_ne!(again.index, second.index, "{belongs:?}");
    }
}

#[test]
fn requests_of_other_backends_count_for_the_endpoint_limit() {
    let groups = Groups::<Hops>::default();
    let bounded = groups.group(backend(1, Balancing::RoundRobin, within(1)), PortProtocol::Tcp, None);
    let other =
        groups.group(backend(1, Balancing::RoundRobin, BackendTraffic::default()), PortProtocol::Tcp, None);
    let picked = pick(&other, &[], Affinity::Anywhere).unwrap();
    assert!(pick(&bounded, &[], Affinity::Anywhere).is_none());
    assert!(pick(&other, &[], Affinity::Anywhere).is_some(), "it has no limit of its own");
    drop(picked);
    assert!(pick(&bounded, &[], Affinity::Anywhere).is_some());
}

#[test]
fn without_ejection_an_endpoint_ejected_by_another_backend_is_used() {
    let groups = Groups::<Hops>::default();
    let never = BackendTraffic { ejection: Some(Ejection::Never), ..BackendTraffic::default() };
    let (strict, lenient) = (
        groups.group(backend(2, Balancing::RoundRobin, BackendTraffic::default()), PortProtocol::Tcp, None),
        groups.group(backend(2, Balancing::RoundRobin, never), PortProtocol::Tcp, None),
    );
    let member = Rc::clone(lenient.member(0));
    assert!(!lenient.failed(&member, Blame::Connect, Instant::now()) && member.health().is_healthy());
    assert!(strict.failed(&member, Blame::Connect, Instant::now()) && !member.health().is_healthy());
    let picked_endpoint = |group: &Rc<Group<Hops>>| {
        (0..4).map(|_| pick(group, &[], Affinity::Anywhere).unwrap().index).collect::<Vec<_>>()
    };
    assert_eq!((picked_endpoint(&lenient), picked_endpoint(&strict)), (vec![0, 1, 0, 1], vec![1, 1, 1, 1]));
}

#[test]
fn a_backend_has_its_own_retries_or_those_of_the_rule() {
    let own_retry = Retry { tries: 7, ..Retry::default() };
    let with = BackendTraffic { retry: Some(own_retry), ..BackendTraffic::default() };
    let groups = Groups::<Hops>::default();
    let group_of = |traffic| {
        groups
            .group(backend(1, Balancing::Random, traffic), PortProtocol::Tcp, None)
            .retry(&Retry::default())
            .tries
    };
    assert_eq!((group_of(with), group_of(BackendTraffic::default())), (7, 3));
}

#[test]
fn a_group_keeps_its_endpoints_and_their_state_when_traffic_settings_change() {
    let groups = Groups::<Hops>::default();
    let before =
        groups.group(backend(4, Balancing::RoundRobin, BackendTraffic::default()), PortProtocol::Tcp, None);
    assert!(before.failed(before.member(2), Blame::Connect, Instant::now()));
    let picked = pick(&before, &[], Affinity::Anywhere).unwrap();
    let after = groups.group(backend(4, Balancing::RoundRobin, within(1)), PortProtocol::Tcp, Some(&before));
    groups.retire(&before);
    for member in 0..4 {
        assert!(Rc::ptr_eq(before.member(member), after.member(member)));
    }
    assert!(after.member(2).health().is_ejected());
    assert_eq!((picked.index, after.member(0).in_flight()), (0, 1));
    assert_eq!(pick(&after, &[], Affinity::Anywhere).unwrap().index, 1, "it goes on where the older one was");
}

#[test]
fn the_state_of_a_backend_is_that_of_its_first_endpoints_that_are_known() {
    let groups = Groups::<Hops>::default();
    let config = backend(4, Balancing::RoundRobin, BackendTraffic::default());
    let now = Instant::now();
    assert!(groups.states(&config, 4, now).is_empty(), "nothing is known before the first request");
    let group = groups.group(Arc::clone(&config), PortProtocol::Tcp, None);
    assert!(group.failed(group.member(1), Blame::Connect, now));
    group.member(0).succeeded(Duration::from_millis(7));
    let picked = pick(&group, &[], Affinity::Anywhere).unwrap();
    let states = groups.states(&config, 3, now);
    let found: Vec<_> = states.iter().map(|(address, _, state)| (address.port(), state.ejected_by)).collect();
    assert_eq!((picked.index, found), (0, vec![(0, 0), (1, 1), (2, 0)]));
    let first = states[0].2;
    assert_eq!((first.workers, first.in_flight, first.busy, first.idle), (1, 1, 1, 0));
    assert_eq!((first.latency, first.connect_time), (Some(Duration::from_millis(7)), None));
    assert_eq!((groups.total_state(now).workers, groups.total_state(now).busy), (4, 1));
    let other = Backend { protocol: BackendProtocol::H2c, ..Backend::clone(&config) };
    assert!(groups.states(&other, 4, now).is_empty(), "what is spoken with is another endpoint");
}

/// Possible events of attempts.
#[derive(Clone, Debug)]
enum Act {
    /// An attempt begins, for a backend, after these members were tried.
    Pick(usize, Vec<u32>),
    /// A late attempt is raced.
    Rival(usize, Vec<u32>),
    /// An attempt succeeds.
    Succeed(prop::sample::Index),
    /// An attempt fails.
    Fail(prop::sample::Index, Blame),
    /// An attempt is dropped in any state.
    Drop(prop::sample::Index),
    /// An attempt's connect lost its race and continues as the probe.
    LoseRace(prop::sample::Index),
    /// A snapshot changes the limit of a backend; 0 is none.
    Change(usize, u32),
    /// This many milliseconds pass.
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let tried = || vec(0..ENDPOINTS, 0..3);
    let blame = prop_oneof![Just(Blame::Connect), Just(Blame::BeforeHead), Just(Blame::Unconfirmed)];
    let any = any::<prop::sample::Index>;
    prop_oneof![
        8 => (0..2_usize, tried()).prop_map(|(group, tried)| Act::Pick(group, tried)),
        2 => (0..2_usize, tried()).prop_map(|(group, tried)| Act::Rival(group, tried)),
        3 => any().prop_map(Act::Succeed),
        2 => (any(), blame).prop_map(|(which, blame)| Act::Fail(which, blame)),
        3 => any().prop_map(Act::Drop),
        1 => any().prop_map(Act::LoseRace),
        1 => (0..2_usize, 0..4_u32).prop_map(|(group, most)| Act::Change(group, most)),
        1 => (1..40_000_u64).prop_map(Act::Pass),
    ]
}

const ENDPOINTS: u32 = 3;

/// Two backends with the same endpoints, and the attempts in flight.
struct TwoBackends {
    groups: Groups<Hops>,
    pair: [Rc<Group<Hops>>; 2],
    picked: Vec<(usize, PickedEndpoint<Hops>)>,
    balancing: Balancing,
    now: Instant,
}

impl TwoBackends {
    fn new(balancing: Balancing) -> Self {
        let groups = Groups::default();
        let pair = [1, 2].map(|most| {
            groups.group(backend(ENDPOINTS as u16, balancing, within(most)), PortProtocol::Tcp, None)
        });
        Self { groups, pair, picked: Vec::new(), balancing, now: Instant::now() }
    }

    /// Attempts in flight of an endpoint.
    fn count(&self, endpoint: u32) -> u32 {
        self.picked.iter().filter(|(_, chosen)| chosen.index == endpoint).count() as u32
    }

    fn play(&mut self, act: Act) {
        let now = self.now;
        let mut take_endpoint = |position: prop::sample::Index| {
            (!self.picked.is_empty()).then(|| self.picked.swap_remove(position.index(self.picked.len())))
        };
        match act {
            Act::Pick(by, tried) => self.pick(by, &tried),
            Act::Rival(by, members) => {
                let rival = self.pair[by].rival(&tried_members(&members), &mut fastrand::Rng::with_seed(9));
                assert!(rival.as_ref().is_none_or(|rival| !members.contains(&rival.index)));
                self.hold(by, rival);
            }
            Act::Succeed(which) => {
                if let Some((_, chosen)) = take_endpoint(which) {
                    chosen.endpoint.connected(Duration::from_millis(1));
                    chosen.endpoint.succeeded(Duration::from_millis(1));
                }
            }
            Act::Fail(which, blame) => {
                if let Some((by, chosen)) = take_endpoint(which) {
                    self.pair[by].failed(&chosen.endpoint, blame, now);
                }
            }
            Act::Drop(which) => drop(take_endpoint(which)),
            Act::LoseRace(which) => {
                if let Some((by, mut chosen)) = take_endpoint(which) {
                    chosen.endpoint.lost_race(now);
                    chosen.reason = PickReason::Probe;
                    self.picked.push((by, chosen));
                }
            }
            Act::Change(by, most) => {
                let newer = backend(ENDPOINTS as u16, self.balancing, within(most));
                let newer = self.groups.group(newer, PortProtocol::Tcp, Some(&self.pair[by]));
                let older = std::mem::replace(&mut self.pair[by], newer);
                self.groups.retire(&older);
            }
            Act::Pass(milliseconds) => self.now += Duration::from_millis(milliseconds),
        }
    }

    /// The picked endpoint follows the rules: a candidate that has room, or none if no candidate has.
    fn pick(&mut self, backend: usize, tried: &[u32]) {
        let group = &self.pair[backend];
        let is_usable = |endpoint: &u32| group.is_usable(*endpoint as usize, self.now);
        let mut untried: Vec<u32> = (0..ENDPOINTS).filter(|endpoint| !tried.contains(endpoint)).collect();
        if untried.iter().any(is_usable) {
            untried.retain(is_usable);
        } else if untried.is_empty() {
            untried = (0..ENDPOINTS).collect();
        }
        untried.retain(|endpoint| self.count(*endpoint) < group.max_in_flight);
        let mut random = fastrand::Rng::with_seed(self.picked.len() as u64);
        let picked = group.pick(&tried_members(tried), Affinity::Anywhere, &mut random, self.now);
        match &picked {
            Some(chosen) => assert!(untried.contains(&chosen.index), "{} of {untried:?}", chosen.index),
            None => assert!(untried.is_empty(), "none of {untried:?}"),
        }
        self.hold(backend, picked);
    }

    fn hold(&mut self, backend: usize, picked: Option<PickedEndpoint<Hops>>) {
        let Some(chosen) = picked else { return };
        let max_in_flight = self.pair[backend].max_in_flight;
        assert!(
            chosen.endpoint.in_flight() <= max_in_flight,
            "{} of {max_in_flight}",
            chosen.endpoint.in_flight()
        );
        self.picked.push((backend, chosen));
    }

    /// The counters equal what is in flight.
    fn check(&self) {
        for endpoint in 0..ENDPOINTS {
            assert_eq!(self.pair[0].member(endpoint).in_flight(), self.count(endpoint));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_endpoint_has_more_under_way_than_its_backend_allows_and_every_attempt_that_ends_makes_room(
        balancing in prop::sample::select(ALL.to_vec()),
        acts in vec(act(), 1..120),
    ) {
        let mut world = TwoBackends::new(balancing);
        for act in acts {
            world.play(act);
            world.check();
        }
        world.picked.clear();
        prop_assert_eq!(world.groups.in_flight(), 0);
        for group in &world.pair {
            prop_assert!(group.has_room(&TriedMembers::default()));
        }
    }
}
