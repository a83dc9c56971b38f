//! Rates and counts of requests under way, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_model::{ConcurrencyLimit, Guard, LimitKey, LimitScope, Phases, RateLimit};
use tokio::time::sleep;

use super::steps_tests::{never_answering, ok, settle, stage};
use crate::testing::{GET, Meeting, Stage, filtered, on_stage};

#[tokio::test(start_paused = true)]
async fn a_rate_lets_through_its_burst_and_then_one_for_each_interval() {
    on_stage(async {
        let limit = RateLimit {
            key: LimitKey::Address,
            policy: "p".into(),
            requests: 2,
            per: Duration::from_secs(1),
            burst: 3,
            status: 429,
            exempt: Vec::new(),
            scope: LimitScope::Replica,
        };
        let (stage, _) = stage(1, vec![Phases::from(Guard::RateLimit(limit.clone()))], |_| Some(ok()));
        let mut client = stage.client();
        let mut statuses = async |count| {
            let mut statuses = Vec::new();
            for _ in 0..count {
                statuses.push(client.ask(GET).await.unwrap().status);
            }
            statuses
        };
        assert_eq!(statuses(6).await, [200, 200, 200, 200, 429, 429]);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(statuses(2).await, [200, 429]);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(statuses(5).await, [200, 200, 200, 200, 429]);
        assert_eq!(stage.value("fairway_faults_total{reason=\"too_many_requests\"}"), 4);
        let exempt = RateLimit { exempt: vec!["192.0.2.0/24".parse().unwrap()], ..limit };
        let (stage, _) = self::stage(1, vec![Phases::from(Guard::RateLimit(exempt))], |_| Some(ok()));
        let mut client = stage.client();
        for _ in 0..10 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
    })
    .await;
}

/// Their requests all come through a trusted proxy that is exempt itself.
#[tokio::test(start_paused = true)]
async fn clients_whose_address_is_unknown_share_a_count_and_no_exemption() {
    on_stage(async {
        let limit = RateLimit {
            key: LimitKey::Address,
            policy: "p".into(),
            requests: 1,
            per: Duration::from_secs(1),
            burst: 1,
            status: 429,
            exempt: vec!["192.0.2.0/24".parse().unwrap()],
            scope: LimitScope::Replica,
        };
        let mut config = filtered(1, vec![Phases::from(Guard::RateLimit(limit))]);
        config.settings.forwarded.ranges = vec!["192.0.2.0/24".parse().unwrap()];
        let stage = Stage::serving(&config, |_| Meeting::with(crate::testing::answering));
        let mut client = stage.client();
        let ask = |list: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {list}\r\n\r\n");
        for (list, status) in [
            ("203.0.113.7", 200),
            ("203.0.113.7", 200),
            ("203.0.113.7", 429),
            ("unknown", 200),
            ("_hidden", 200),
            ("", 429),
        ] {
            assert_eq!(client.ask(&ask(list)).await.unwrap().status, status, "{list:?}");
        }
        // The proxy itself may ask as often as it likes.
        for _ in 0..4 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
    })
    .await;
}

/// How many of the requests pass that one client sends for ten seconds, one each `every`, to each of these workers in turn.
async fn passed(workers: &[Stage], every: Duration) -> u32 {
    let mut clients: Vec<_> = workers.iter().map(Stage::client).collect();
    let (began, mut passed) = (tokio::time::Instant::now(), 0);
    for turn in 0_u32.. {
        tokio::time::sleep_until(began + every * turn).await;
        if began.elapsed() >= Duration::from_secs(10) {
            break;
        }
        let client = turn as usize % clients.len();
        match clients[client].ask(GET).await.unwrap().status {
            200 => passed += 1,
            status => assert_eq!(status, 429),
        }
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn rates_hold_over_ten_seconds_however_many_workers_count() {
    on_stage(async {
        // Requests, within how many seconds, and how many more may come early.
        for (requests, seconds, burst) in [(10, 1, 50), (100, 1, 100), (100, 1, 500), (300, 60, 300)] {
            let limit = RateLimit {
                key: LimitKey::Address,
                policy: "p".into(),
                requests,
                per: Duration::from_secs(seconds),
                burst,
                status: 429,
                exempt: Vec::new(),
                scope: LimitScope::Replica,
            };
            let mut config = filtered(1, vec![Phases::from(Guard::RateLimit(limit))]);
            config.settings.downstream.requests_per_connection = u64::MAX;
            let script = |_| Meeting::with(crate::testing::answering);
            let due = 10 * requests / u32::try_from(seconds).unwrap();
            // Three and ten times as many requests as may pass.
            for parts in [3, 10] {
                let every = Duration::from_secs(10) / (parts * (due + burst));
                let one = passed(&[Stage::serving(&config, script)], every).await;
                let two = passed(&Stage::two_workers(&config, script), every).await;
                for passed in [one, two] {
                    assert!(
                        passed.abs_diff(burst + due) * 20 <= due,
                        "{passed} of {due} and {burst} early, one each {every:?}"
                    );
                }
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_has_no_more_under_way_than_its_limit() {
    on_stage(async {
        let limit = ConcurrencyLimit { policy: "p".into(), most: 2, status: 503, exempt: Vec::new() };
        let filters = vec![Phases::from(Guard::ConcurrencyLimit(limit))];
        let stage = Stage::filtered(1, filters, |_| Meeting::with(never_answering));
        let (mut one, mut two) = (stage.client(), stage.client());
        one.send(GET).await;
        two.send(GET).await;
        settle().await;
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 503);
        drop(one);
        settle().await;
        let mut three = stage.client();
        three.send(GET).await;
        settle().await;
        assert_eq!(stage.worker.guards.counts.under_way(), 2, "the place of the one that left");
        drop((two, three));
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
    })
    .await;
}
