//! Rate and concurrency limits, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_model::{ConcurrencyLimit, Guard, LimitKey, LimitScope, Phases, RateLimit};
use tokio::time::sleep;

use super::steps_tests::{never_answering, ok, run_ready_tasks, stage};
use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, config_with_phases, run_local};

#[tokio::test(start_paused = true)]
async fn a_rate_lets_through_its_burst_and_then_one_for_each_interval() {
    run_local(async {
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
                statuses.push(client.request(GET_REQUEST).await.unwrap().status);
            }
            statuses
        };
        assert_eq!(statuses(6).await, [200, 200, 200, 200, 429, 429]);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(statuses(2).await, [200, 429]);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(statuses(5).await, [200, 200, 200, 200, 429]);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"too_many_requests\"}"), 4);
        let exempt = RateLimit { exempt: vec!["192.0.2.0/24".parse().unwrap()], ..limit };
        let (stage, _) = self::stage(1, vec![Phases::from(Guard::RateLimit(exempt))], |_| Some(ok()));
        let mut client = stage.client();
        for _ in 0..10 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
    })
    .await;
}

/// All requests come through a trusted proxy that is itself exempt.
#[tokio::test(start_paused = true)]
async fn clients_with_unknown_addresses_share_a_count_and_have_no_exemption() {
    run_local(async {
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
        let mut config = config_with_phases(1, vec![Phases::from(Guard::RateLimit(limit))]);
        config.settings.forwarded.ranges = vec!["192.0.2.0/24".parse().unwrap()];
        let stage =
            TestWorker::with_config(&config, |_| ScriptedConnect::served_by(crate::testing::serve_ok));
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
            assert_eq!(client.request(&ask(list)).await.unwrap().status, status, "{list:?}");
        }
        // The proxy itself is not limited.
        for _ in 0..4 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
    })
    .await;
}

/// How many requests of one client pass that sends one each `every` for ten seconds, to these workers in turn.
async fn passed(workers: &[TestWorker], every: Duration) -> u32 {
    let mut clients: Vec<_> = workers.iter().map(TestWorker::client).collect();
    let (began, mut passed) = (tokio::time::Instant::now(), 0);
    for turn in 0_u32.. {
        tokio::time::sleep_until(began + every * turn).await;
        if began.elapsed() >= Duration::from_secs(10) {
            break;
        }
        let client = turn as usize % clients.len();
        match clients[client].request(GET_REQUEST).await.unwrap().status {
            200 => passed += 1,
            status => assert_eq!(status, 429),
        }
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn rates_hold_over_ten_seconds_however_many_workers_count() {
    run_local(async {
        // Requests, the interval in seconds, and the burst.
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
            let mut config = config_with_phases(1, vec![Phases::from(Guard::RateLimit(limit))]);
            config.settings.downstream.requests_per_connection = u64::MAX;
            let script = |_| ScriptedConnect::served_by(crate::testing::serve_ok);
            let due = 10 * requests / u32::try_from(seconds).unwrap();
            // Three and ten times the allowed rate.
            for parts in [3, 10] {
                let every = Duration::from_secs(10) / (parts * (due + burst));
                let single_worker = passed(&[TestWorker::with_config(&config, script)], every).await;
                let two = passed(&TestWorker::two_workers(&config, script), every).await;
                for passed in [single_worker, two] {
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
    run_local(async {
        let limit = ConcurrencyLimit { policy: "p".into(), max: 2, status: 503, exempt: Vec::new() };
        let filters = vec![Phases::from(Guard::ConcurrencyLimit(limit))];
        let stage = TestWorker::with_phases(1, filters, |_| ScriptedConnect::served_by(never_answering));
        let (mut one, mut two) = (stage.client(), stage.client());
        one.send(GET_REQUEST).await;
        two.send(GET_REQUEST).await;
        run_ready_tasks().await;
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 503);
        drop(one);
        run_ready_tasks().await;
        let mut three = stage.client();
        three.send(GET_REQUEST).await;
        run_ready_tasks().await;
        assert_eq!(stage.worker.guards.counts.in_flight(), 2, "the place of the one that left");
        drop((two, three));
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}
