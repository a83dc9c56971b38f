//! Mirroring to a second backend, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Forwarding, Mirror, MirrorTarget, Phases};
use fairway_net::permits::Permits;
use tokio::time::sleep;

use super::steps_tests::{
    BUSY, POST, ReceivedRequests, field, never_answering, ok, run_ready_tasks, serve_responses, stage,
};
use crate::peer::ConnectionDetails;
use crate::testing::{GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, run_local};

pub(super) fn mirror(most_body: u64) -> Phases {
    Phases::from(Mirror {
        backend: "b".into(),
        numerator: 1,
        denominator: 1,
        max_body: most_body,
        target: MirrorTarget::Forwarded,
        host: None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_mirror_gets_the_request_of_its_rule() {
    for (target, most_body, line) in [
        (MirrorTarget::Received("/copy".into()), u64::MAX, "POST /copy/p?q=1 HTTP/1.1\r\n"),
        (MirrorTarget::Received("".into()), 0, "POST /p?q=1 HTTP/1.1\r\n"),
        (MirrorTarget::Fixed("/all".into()), u64::MAX, "POST /all HTTP/1.1\r\n"),
    ] {
        run_local(async {
            let mut copied = mirror(most_body);
            let copying = &mut copied.forwarding.as_mut().unwrap().mirrors[0];
            (copying.target, copying.host) = (target, Some("copy.test".into()));
            let rewrite = Phases::from(Forwarding {
                path: Some(fairway_model::PathRewrite::Full("/new".into())),
                ..Forwarding::default()
            });
            let (stage, seen) = stage(1, vec![rewrite, copied], |_| Some(ok()));
            assert_eq!(stage.client().request(POST).await.unwrap().status, 200);
            run_ready_tasks().await;
            let received = seen.borrow();
            let request_at = |number: u16| &received.iter().find(|(to, _)| *to == number).unwrap().1;
            let (own, copy) = (request_at(0), request_at(101));
            assert!(own.starts_with("POST /new") && own.ends_with("\r\n\r\nbody"), "{own}");
            assert_eq!(field(own, "Host"), Some("shop.test"));
            assert!(copy.starts_with(line), "{copy}");
            assert_eq!(field(copy, "Host"), Some("copy.test"));
            assert_eq!(field(copy, "X-Forwarded-Host"), Some("shop.test"));
            let body = if most_body == 0 { "" } else { "body" };
            assert!(copy.ends_with(&format!("\r\n\r\n{body}")), "{copy}");
            assert_eq!(field(copy, "Content-Length").is_some(), most_body > 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_gets_the_complete_request_and_its_response_is_ignored() {
    run_local(async {
        let (stage, seen) = stage(1, vec![mirror(1024)], |number| match number {
            101 => Some(BUSY),
            _ => Some(ok()),
        });
        let mut client = stage.client();
        for request in [POST, std::str::from_utf8(GET_REQUEST).unwrap()] {
            assert_eq!(client.request(request).await.unwrap().status, 200);
        }
        run_ready_tasks().await;
        let received = seen.borrow();
        let requests_at = |number: u16| -> Vec<&str> {
            received.iter().filter(|(to, _)| *to == number).map(|(_, text)| text.as_str()).collect()
        };
        let (own, copies) = (requests_at(0), requests_at(101));
        assert_eq!((own.len(), copies.len()), (2, 2));
        let without_id = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("X-Request-ID")).map(str::to_owned).collect()
        };
        for (own, copy) in own.iter().zip(&copies) {
            assert_eq!(without_id(own), without_id(copy));
        }
        assert!(copies[0].ends_with("\r\n\r\nbody"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_slow_or_limited_mirror_changes_nothing() {
    let large =
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n{}", "x".repeat(300_000));
    for (most_body, mirror_is) in [(u64::MAX, "refused"), (u64::MAX, "deaf"), (1000, "small")] {
        run_local(async {
            let received = ReceivedRequests::default();
            let script = {
                let received = Rc::clone(&received);
                move |to: SocketAddr| match (to.port(), mirror_is) {
                    (101, "refused") => ScriptedConnect::Refused,
                    (101, "deaf") => ScriptedConnect::served_by(|stream| async move {
                        sleep(Duration::from_secs(1000)).await;
                        drop(stream);
                    }),
                    (number, _) => {
                        let received = Rc::clone(&received);
                        ScriptedConnect::served_by(move |stream| {
                            serve_responses(number, OK_RESPONSE, received, stream)
                        })
                    }
                }
            };
            let stage = TestWorker::with_phases(1, vec![mirror(most_body)], script);
            let mut client = stage.client();
            let began = tokio::time::Instant::now();
            assert_eq!(client.request(&large).await.unwrap().status, 200, "{mirror_is}");
            assert!(began.elapsed() < Duration::from_secs(1), "{mirror_is}: nothing waits for a mirror");
            assert!(
                received.borrow().iter().all(|(to, text)| *to == 0 && text.len() > 300_000),
                "{mirror_is}"
            );
            drop(client);
            sleep(Duration::from_secs(200)).await;
            assert_eq!(stage.check_idle(), Ok(()), "{mirror_is}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_mirror_does_not_keep_the_place_of_a_client_that_left() {
    run_local(async {
        let stage = TestWorker::with_phases(1, vec![mirror(1024)], |to| match to.port() {
            101 => ScriptedConnect::served_by(never_answering),
            _ => ScriptedConnect::served_by(crate::testing::serve_ok),
        });
        let permits = Arc::new(Permits::default());
        for copies in 1..=2 {
            let permit = permits.take(1);
            assert!(permit.is_some(), "the client before has left");
            let mut client =
                stage.client_with_details(ConnectionDetails::from_parts(None, None, None, permit, None));
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
            drop(client);
            run_ready_tasks().await;
            assert_eq!(stage.worker.copies(), copies, "the mirror is still waited for");
        }
        assert_eq!(permits.in_use(), 0);
    })
    .await;
}
