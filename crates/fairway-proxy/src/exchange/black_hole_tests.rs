//! Endpoints that vanish and answer nothing any more, in virtual time: what each request then costs.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use super::tests::{assert_took, seconds};
use crate::options::Limits;
use crate::testing::{GET, Meeting, OK, Owed, Stage, answering, endpoint, on_stage, read_head};

/// `true` while the first endpoint is a black hole: it takes connects and bytes, and nothing comes back.
fn first_may_vanish(gone: &Rc<Cell<bool>>) -> impl Fn(std::net::SocketAddr) -> Meeting + 'static {
    let gone = Rc::clone(gone);
    move |to| match to == endpoint(0) {
        true if gone.get() => Meeting::Silence,
        true => Meeting::mortal(&gone, answering),
        false => Meeting::with(answering),
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_vanishes_behind_a_pooled_connection_costs_a_quarter_of_a_second_and_then_nothing() {
    on_stage(async {
        let vanished = Rc::new(Cell::new(false));
        let edit = |policy: &mut fairway_model::Policy, _: &mut _| policy.timeouts.connect = seconds(5);
        let stage = Stage::new(2, edit, first_may_vanish(&vanished));
        let mut client = stage.client();
        for _ in 0..4 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
        let connected = stage.connects().len();
        assert_eq!(connected, 2, "both are pooled");
        vanished.set(true);
        let began = Instant::now();
        for _ in 0..10 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
        assert!(began.elapsed() <= LOOKED_AT, "{:?}", began.elapsed());
        assert_eq!(stage.connects().len(), connected, "no connect goes to it within its ejection");
        assert!(stage.counts("fairway_upstream_unacknowledged_total 1"));
    })
    .await;
}

/// A quarter of a second, and until the table of waits is looked through.
const LOOKED_AT: Duration = Duration::from_millis(310);

#[tokio::test(start_paused = true)]
async fn a_post_on_a_connection_that_went_dead_is_answered_504_after_two_seconds_and_never_sent_twice() {
    on_stage(async {
        let vanished = Rc::new(Cell::new(false));
        let stage = Stage::new(2, |_, _| {}, first_may_vanish(&vanished));
        let mut client = stage.client();
        for _ in 0..2 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
        vanished.set(true);
        let began = Instant::now();
        assert_eq!(client.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().status, 504);
        assert_took(began, seconds(2));
        assert!(stage.counts("fairway_upstream_lost_non_idempotent_total 1"));
    })
    .await;
}

/// Endpoints that answer 600 ms after a head, and owe acknowledgements as `owed` says; with how many heads they have read.
fn slow_and_owing(owed: &Owed) -> (Stage, Rc<Cell<u32>>) {
    let asked = Rc::new(Cell::new(0));
    let (owed, counted) = (Rc::clone(owed), Rc::clone(&asked));
    let script = move |_| {
        let asked = Rc::clone(&counted);
        Meeting::owing(&owed, move |mut stream| async move {
            while read_head(&mut stream).await {
                asked.set(asked.get() + 1);
                sleep(Duration::from_millis(600)).await;
                if stream.write_all(OK).await.is_err() {
                    return;
                }
            }
        })
    };
    (Stage::new(2, |_, _| {}, script), asked)
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_was_just_heard_is_waited_for_whatever_it_owes() {
    on_stage(async {
        let owed = Owed::default();
        owed.set(Some(Duration::from_millis(1)));
        let (stage, asked) = slow_and_owing(&owed);
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 200);
        assert_eq!(asked.get(), 1);
        assert!(stage.counts("fairway_upstream_unacknowledged_total 0"));
        assert!(stage.counts("fairway_upstream_ejections_total 0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_last_piece_of_a_body_has_its_own_time_to_be_acknowledged() {
    on_stage(async {
        let owed = Owed::default();
        let (stage, asked) = slow_and_owing(&owed);
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n").await;
        sleep(Duration::from_millis(240)).await;
        // The endpoint has said nothing since it acknowledged the head.
        owed.set(Some(Duration::from_millis(300)));
        client.send("body").await;
        sleep(Duration::from_millis(100)).await;
        owed.set(None);
        assert_eq!(client.answer().await.unwrap().status, 200);
        assert_eq!(asked.get(), 1);
        assert!(stage.counts("fairway_upstream_unacknowledged_total 0"));
        assert!(stage.counts("fairway_upstream_ejections_total 0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_costs_every_method_a_quarter_of_a_second_and_then_nothing() {
    on_stage(async {
        for method in ["GET", "POST"] {
            let script = |to| if to == endpoint(0) { Meeting::Silence } else { Meeting::with(answering) };
            let stage = Stage::new(2, |policy, _| policy.timeouts.connect = seconds(5), script);
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut client = stage.client();
            let began = Instant::now();
            assert_eq!(client.ask(&request).await.unwrap().status, 200);
            assert_took(began, Duration::from_millis(250));
            let began = Instant::now();
            for _ in 0..10 {
                assert_eq!(client.ask(&request).await.unwrap().status, 200);
            }
            assert_took(began, Duration::ZERO);
            assert!(stage.counts("fairway_upstream_hedges_total{outcome=\"won\"} 1"));
            assert!(stage.counts("fairway_upstream_retries_total 0"));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_lost_its_race_is_the_only_one_there_and_is_pooled_when_it_completes() {
    on_stage(async {
        let slow = |to| match to == endpoint(0) {
            true => Meeting::after(seconds(3), answering),
            false => Meeting::with(answering),
        };
        let edit = |policy: &mut fairway_model::Policy, _: &mut _| policy.timeouts.connect = seconds(5);
        let stage = Stage::new(2, edit, slow);
        let mut client = stage.client();
        let to_the_slow =
            |stage: &Stage| stage.connects().iter().filter(|(_, to)| *to == endpoint(0)).count();
        for _ in 0..20 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(to_the_slow(&stage), 1);
        assert_eq!(stage.worker.groups.idle_connections(), 1);
        sleep(seconds(2)).await;
        assert_eq!(stage.worker.groups.idle_connections(), 2);
        for _ in 0..4 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
        assert_eq!(to_the_slow(&stage), 1, "the connection that lost is used");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_into_a_black_hole_is_carried_by_moving_and_not_by_the_budget() {
    on_stage(async {
        let script = |to| if to == endpoint(0) { Meeting::Silence } else { Meeting::with(answering) };
        let edit = |policy: &mut fairway_model::Policy, _: &mut _| policy.timeouts.connect = seconds(5);
        let stage = Stage::new(2, edit, script);
        let began = Instant::now();
        let asked: Vec<_> = (0..200)
            .map(|_| {
                let mut client = stage.client();
                tokio::task::spawn_local(async move { client.ask(GET).await.unwrap().status })
            })
            .collect();
        for status in asked {
            assert_eq!(status.await.unwrap(), 200);
        }
        assert_took(began, Duration::from_millis(250));
        let hedges =
            |outcome: &str| stage.value(&format!("fairway_upstream_hedges_total{{outcome=\"{outcome}\"}}"));
        // A tenth of 200 connects and one second's ten.
        assert!(hedges("won") + hedges("lost") <= 30, "{} and {}", hedges("won"), hedges("lost"));
        assert!(hedges("moved") + hedges("reused") >= 70);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_hedging_a_black_hole_costs_the_connect_time_out() {
    on_stage(async {
        let script = |to| if to == endpoint(0) { Meeting::Silence } else { Meeting::with(answering) };
        let limits = Limits { connect_hedge: Duration::ZERO, ..Limits::default() };
        let stage = Stage::within(limits, 2, |_, _| {}, script);
        let began = Instant::now();
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 200);
        assert_took(began, seconds(1));
    })
    .await;
}
