//! Endpoints that vanish and no longer respond, in virtual time: what each request then costs.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use super::tests::{assert_took, seconds};
use crate::options::Limits;
use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, UnacknowledgedFor, endpoint, read_head, run_local,
    serve_ok,
};

/// An endpoint that is a black hole while `gone` is true: it accepts connects and bytes, and sends nothing.
fn first_may_vanish(gone: &Rc<Cell<bool>>) -> impl Fn(std::net::SocketAddr) -> ScriptedConnect + 'static {
    let gone = Rc::clone(gone);
    move |to| match to == endpoint(0) {
        true if gone.get() => ScriptedConnect::Silence,
        true => ScriptedConnect::vanishing(&gone, serve_ok),
        false => ScriptedConnect::served_by(serve_ok),
    }
}

#[tokio::test(start_paused = true)]
async fn a_vanished_endpoint_behind_a_pooled_connection_costs_a_quarter_of_a_second_once() {
    run_local(async {
        let vanished = Rc::new(Cell::new(false));
        let edit = |policy: &mut fairway_model::Policy, _: &mut _| policy.timeouts.connect = seconds(5);
        let stage = TestWorker::new(2, edit, first_may_vanish(&vanished));
        let mut client = stage.client();
        for _ in 0..4 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        let connected = stage.connects().len();
        assert_eq!(connected, 2, "both are pooled");
        vanished.set(true);
        let began = Instant::now();
        for _ in 0..10 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        assert!(began.elapsed() <= FIRST_CHECK_AFTER, "{:?}", began.elapsed());
        assert_eq!(stage.connects().len(), connected, "no connect goes to it within its ejection");
        assert!(stage.has_metric_line("fairway_upstream_unacknowledged_total 1"));
    })
    .await;
}

/// A quarter of a second, plus the time until the wait table is scanned.
const FIRST_CHECK_AFTER: Duration = Duration::from_millis(310);

#[tokio::test(start_paused = true)]
async fn a_post_on_a_dead_connection_is_504_after_two_seconds_and_never_sent_twice() {
    run_local(async {
        let vanished = Rc::new(Cell::new(false));
        let stage = TestWorker::new(2, |_, _| {}, first_may_vanish(&vanished));
        let mut client = stage.client();
        for _ in 0..2 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        vanished.set(true);
        let began = Instant::now();
        assert_eq!(client.request("POST / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().status, 504);
        assert_took(began, seconds(2));
        assert!(stage.has_metric_line("fairway_upstream_lost_non_idempotent_total 1"));
    })
    .await;
}

/// Endpoints that respond 600 ms after a head, and owe acknowledgements as `owed` says; with the number of heads that they have
/// read.
fn slow_and_owing(owed: &UnacknowledgedFor) -> (TestWorker, Rc<Cell<u32>>) {
    let request_count = Rc::new(Cell::new(0));
    let (owed, counted) = (Rc::clone(owed), Rc::clone(&request_count));
    let script = move |_| {
        let request_count = Rc::clone(&counted);
        ScriptedConnect::unacknowledging(&owed, move |mut stream| async move {
            while read_head(&mut stream).await {
                request_count.set(request_count.get() + 1);
                sleep(Duration::from_millis(600)).await;
                if stream.write_all(OK_RESPONSE).await.is_err() {
                    return;
                }
            }
        })
    };
    (TestWorker::new(2, |_, _| {}, script), request_count)
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_was_just_heard_is_waited_for_whatever_it_owes() {
    run_local(async {
        let owed = UnacknowledgedFor::default();
        owed.set(Some(Duration::from_millis(1)));
        let (stage, request_count) = slow_and_owing(&owed);
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        assert_eq!(request_count.get(), 1);
        assert!(stage.has_metric_line("fairway_upstream_unacknowledged_total 0"));
        assert!(stage.has_metric_line("fairway_upstream_ejections_total 0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_last_piece_of_a_body_has_its_own_time_to_be_acknowledged() {
    run_local(async {
        let owed = UnacknowledgedFor::default();
        let (stage, request_count) = slow_and_owing(&owed);
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n").await;
        sleep(Duration::from_millis(240)).await;
        // The endpoint has sent nothing since it acknowledged the head.
        owed.set(Some(Duration::from_millis(300)));
        client.send("body").await;
        sleep(Duration::from_millis(100)).await;
        owed.set(None);
        assert_eq!(client.response().await.unwrap().status, 200);
        assert_eq!(request_count.get(), 1);
        assert!(stage.has_metric_line("fairway_upstream_unacknowledged_total 0"));
        assert!(stage.has_metric_line("fairway_upstream_ejections_total 0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_costs_every_method_a_quarter_of_a_second_once() {
    run_local(async {
        for method in ["GET", "POST"] {
            let script = |to| {
                if to == endpoint(0) {
                    ScriptedConnect::Silence
                } else {
                    ScriptedConnect::served_by(serve_ok)
                }
            };
            let stage = TestWorker::new(2, |policy, _| policy.timeouts.connect = seconds(5), script);
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut client = stage.client();
            let began = Instant::now();
            assert_eq!(client.request(&request).await.unwrap().status, 200);
            assert_took(began, Duration::from_millis(250));
            let began = Instant::now();
            for _ in 0..10 {
                assert_eq!(client.request(&request).await.unwrap().status, 200);
            }
            assert_took(began, Duration::ZERO);
            assert!(stage.has_metric_line("fairway_upstream_hedges_total{outcome=\"won\"} 1"));
            assert!(stage.has_metric_line("fairway_upstream_retries_total 0"));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_lost_its_race_is_the_only_one_there_and_is_pooled_when_it_completes() {
    run_local(async {
        let slow = |to| match to == endpoint(0) {
            true => ScriptedConnect::served_after(seconds(3), serve_ok),
            false => ScriptedConnect::served_by(serve_ok),
        };
        let edit = |policy: &mut fairway_model::Policy, _: &mut _| policy.timeouts.connect = seconds(5);
        let stage = TestWorker::new(2, edit, slow);
        let mut client = stage.client();
        let to_the_slow =
            |stage: &TestWorker| stage.connects().iter().filter(|(_, to)| *to == endpoint(0)).count();
        for _ in 0..20 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(to_the_slow(&stage), 1);
        assert_eq!(stage.worker.groups.idle_connections(), 1);
        sleep(seconds(2)).await;
        assert_eq!(stage.worker.groups.idle_connections(), 2);
        for _ in 0..4 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        assert_eq!(to_the_slow(&stage), 1, "the connection that lost is used");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_into_a_black_hole_is_carried_by_moving_and_not_by_the_budget() {
    run_local(async {
        let script = |to| {
            if to == endpoint(0) { ScriptedConnect::Silence } else { ScriptedConnect::served_by(serve_ok) }
        };
        let edit = |policy: &mut fairway_model::Policy, _: &mut _| policy.timeouts.connect = seconds(5);
        let stage = TestWorker::new(2, edit, script);
        let began = Instant::now();
        let request_count: Vec<_> = (0..200)
            .map(|_| {
                let mut client = stage.client();
                tokio::task::spawn_local(async move { client.request(GET_REQUEST).await.unwrap().status })
            })
            .collect();
        for status in request_count {
            assert_eq!(status.await.unwrap(), 200);
        }
        assert_took(began, Duration::from_millis(250));
        let hedges = |outcome: &str| {
            stage.metric_value(&format!("fairway_upstream_hedges_total{{outcome=\"{outcome}\"}}"))
        };
        // A tenth of 200 connects, plus the ten of one second.
        assert!(hedges("won") + hedges("lost") <= 30, "{} and {}", hedges("won"), hedges("lost"));
        assert!(hedges("moved") + hedges("reused") >= 70);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_hedging_a_black_hole_costs_the_connect_time_out() {
    run_local(async {
        let script = |to| {
            if to == endpoint(0) { ScriptedConnect::Silence } else { ScriptedConnect::served_by(serve_ok) }
        };
        let limits = Limits { connect_hedge: Duration::ZERO, ..Limits::default() };
        let stage = TestWorker::with_limits(limits, 2, |_, _| {}, script);
        let began = Instant::now();
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        assert_took(began, seconds(1));
    })
    .await;
}
