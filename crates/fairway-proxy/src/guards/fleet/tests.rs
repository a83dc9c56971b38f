//! Which messages a lender accepts, in virtual time.

use std::net::Ipv4Addr;
use std::time::Duration;

use fairway_model::{SharedTicketSecret, TicketSecret};
use fairway_net::clock::Instant;
use fairway_net::counts::RequestRate;
use fairway_routing::PolicyId;

use super::lender::MAX_MESSAGE_AGE;
use super::limits::{FleetLimits, MAX_REQUEST_BYTES};
use super::message::{ClientName, ClientOfLimit, LendOutcome, LendRequest, Reply};
use crate::tls::{SessionTickets, TicketGroup};

const WALL: u64 = 1_800_000_000;

fn keys(secret: u8) -> SessionTickets {
    let keys = SessionTickets::default();
    let secret = TicketSecret::new(vec![secret; 32]);
    keys.adopt(&[SharedTicketSecret { secret, age: Duration::ZERO, encrypts_in: Duration::ZERO }]);
    keys
}

/// A replica of three with this name.
fn lender(name: &str, keys: SessionTickets) -> FleetLimits {
    let limits = FleetLimits::new(keys);
    limits.size().set(3);
    limits.set_members(name.into(), Vec::new());
    limits
}

fn client(last: u8, interval: Duration) -> ClientOfLimit {
    let full_rate = RequestRate { interval, burst: Duration::ZERO };
    let client = ClientName::Address([192, 0, 2, last].into());
    ClientOfLimit { policy: PolicyId::from_name("p"), client, fleet_rate: full_rate }
}

fn lend_request_bytes(borrower: u64, number: u64, clients: &[ClientOfLimit]) -> Vec<u8> {
    LendRequest { borrower, number, replicas: 3, clients: clients.to_vec() }.encode()
}

fn sealed(keys: &SessionTickets, lender: &str, wall: u64, request: &[u8]) -> Vec<u8> {
    keys.seal_shared(TicketGroup::lease("ask", lender), wall, request).unwrap()
}

/// The outcome for each client of a message; `None` if there is no response.
fn outcomes(lender: &FleetLimits, keys: &SessionTickets, request: &[u8]) -> Option<Vec<LendOutcome>> {
    let response = lender.respond_at(&sealed(keys, "a", WALL, request), Instant::now(), WALL)?;
    let (_, reply) = keys.open_shared(TicketGroup::lease("answer", "a"), &response).unwrap();
    Some(Reply::decode(&reply).unwrap().outcomes)
}

fn refused(lender: &FleetLimits) -> Vec<(&'static str, u64)> {
    lender.figures().refused.into_iter().filter(|(_, count)| *count > 0).collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn only_a_replica_gets_a_reply_or_changes_a_count() {
    let (keys, other) = (keys(1), keys(2));
    let lender = lender("a", keys.clone());
    let clients = [client(1, SECOND / 10)];
    let good = |number| lend_request_bytes(7, number, &clients);
    let mut flipped = sealed(&keys, "a", WALL, &good(1));
    *flipped.last_mut().unwrap() ^= 1;
    let response = keys.seal_shared(TicketGroup::lease("answer", "a"), WALL, &good(1)).unwrap();
    let login = keys.seal_login(TicketGroup::login("session", b"", ""), &good(1)).unwrap();
    let bad = [
        ("unsigned", vec![]),
        ("unsigned", vec![0; 100]),
        ("unsigned", sealed(&other, "a", WALL, &good(1))),
        ("unsigned", sealed(&keys, "b", WALL, &good(1))),
        ("unsigned", flipped),
        ("unsigned", response),
        ("unsigned", login),
        ("oversized", vec![0; MAX_REQUEST_BYTES + 1]),
        ("malformed", sealed(&keys, "a", WALL, b"")),
        ("malformed", sealed(&keys, "a", WALL, &[&good(1)[..], &[1]].concat())),
        ("stale", sealed(&keys, "a", WALL - MAX_MESSAGE_AGE - 1, &good(1))),
        ("stale", sealed(&keys, "a", WALL + MAX_MESSAGE_AGE + 1, &good(1))),
    ];
    for (reason, message) in &bad {
        let before = refused(&lender).iter().find(|(it, _)| it == reason).map_or(0, |(_, count)| *count);
        assert_eq!(lender.respond_at(message, Instant::now(), WALL), None, "{reason}");
        assert!(refused(&lender).contains(&(*reason, before + 1)), "{reason}: {:?}", refused(&lender));
    }
    assert!(lender.figures().answered.iter().all(|(_, count)| *count == 0));
    let full_rate = clients[0].fleet_rate;
    let asks =
        || lender.admits(PolicyId::from_name("p"), None, [192, 0, 2, 1].into(), full_rate, Instant::now());
    assert!(asks(), "the share is not lent");
    tokio::time::sleep(SECOND).await;
    // A clock that is ahead, and one that is behind.
    for (number, made) in [(1, WALL - MAX_MESSAGE_AGE), (2, WALL + MAX_MESSAGE_AGE)] {
        let message = sealed(&keys, "a", made, &good(number));
        assert!(lender.respond_at(&message, Instant::now(), WALL).is_some());
    }
    assert!(asks() && !asks(), "a sixteenth is left");
    assert_eq!(FleetLimits::default().respond(&sealed(&keys, "", WALL, &good(9))), None, "it shares no key");
}

#[tokio::test(start_paused = true)]
async fn an_ask_is_taken_once_and_none_after_a_later_one() {
    let keys = keys(1);
    let lender = lender("a", keys.clone());
    let clients = [client(1, SECOND / 10)];
    assert_eq!(outcomes(&lender, &keys, &lend_request_bytes(7, 2, &clients)), Some(vec![LendOutcome::Lent]));
    for number in [2, 1] {
        assert_eq!(outcomes(&lender, &keys, &lend_request_bytes(7, number, &clients)), None);
    }
    assert_eq!(refused(&lender), [("replayed", 2)]);
    assert_eq!(
        outcomes(&lender, &keys, &lend_request_bytes(7, 3, &clients)),
        Some(vec![LendOutcome::Lent]),
        "renewed"
    );
    // A forgotten borrower could only replay messages that are too old by then.
    tokio::time::sleep(SECOND * 30).await;
    assert_eq!(outcomes(&lender, &keys, &lend_request_bytes(7, 1, &clients)), Some(vec![LendOutcome::Lent]));
    let others = (0..2_000)
        .filter(|other| outcomes(&lender, &keys, &lend_request_bytes(100 + other, 1, &[])).is_some());
    assert_eq!(others.count(), 1023);
    assert!(refused(&lender).contains(&("too_many_senders", 977)));
}

#[tokio::test(start_paused = true)]
async fn a_share_is_lent_to_one_replica_at_a_time_while_its_client_does_not_need_it() {
    let keys = keys(1);
    let lender = lender("a", keys.clone());
    let (fast, slow) = (client(1, SECOND / 10), client(2, SECOND * 6));
    let mut number = 0;
    let mut lend = |borrower: u64, clients: &[ClientOfLimit]| {
        number += 1;
        outcomes(&lender, &keys, &lend_request_bytes(borrower, number, clients)).unwrap()
    };
    let clients = [fast.clone(), slow];
    assert_eq!(
        lend(7, &clients),
        [LendOutcome::Lent, LendOutcome::InUse],
        "shares of slow limits are not lent"
    );
    assert_eq!(lend(8, &clients[..1]), [LendOutcome::Taken]);
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(lend(7, &clients[..1]), [LendOutcome::Lent]);
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(lend(8, &clients[..1]), [LendOutcome::Taken], "it was renewed");
    // The client needs more than the rest of its share here.
    assert!(lender.0.lender.is_reclaiming(fast.key(lender.counts()), Instant::now()));
    assert_eq!(lend(7, &clients[..1]), [LendOutcome::Taken]);
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(lend(8, &clients[..1]), [LendOutcome::Taken], "it keeps it for a while");
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(lend(8, &clients[..1]), [LendOutcome::Lent]);
    lender.size().set(4);
    assert_eq!(lend(9, &clients[..1]), [LendOutcome::OtherCount]);
    lender.size().set(3);
    let many: Vec<_> = (0..1_100_u32)
        .map(|it| ClientOfLimit { client: ClientName::Address(Ipv4Addr::from(it).into()), ..fast.clone() })
        .collect();
    let all: Vec<_> = many.chunks(32).flat_map(|some| lend(9, some)).collect();
    let count_of = |wanted| all.iter().filter(|outcome| **outcome == wanted).count();
    assert_eq!(count_of(LendOutcome::Lent), 1_023, "with that of the first client, all that may be lent");
    // A few may be in use instead of full: the hash key is random, and a set of the table can have no room for a client.
    assert!(all[1_050..].iter().all(|outcome| *outcome == LendOutcome::Full), "{all:?}");
}
