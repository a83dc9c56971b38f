//! Error pages of another backend, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_model::{ErrorPages, Guard, HeaderTemplate, Phases, ResponseEdit, Template};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::steps_tests::{
    BUSY, NOT_FOUND, POST, ReceivedRequests, field, never_answering, run_ready_tasks, serve_responses, set,
    stage,
};
use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, config_with_phases, read_head, run_local};

pub(super) fn pages() -> Phases {
    Phases::from(ErrorPages {
        statuses: vec![404, 502, 503],
        backend: Some("c".into()),
        fields: vec![("X-Namespace".into(), "shop".into())],
    })
}

const PAGE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nServer: x\r\n\r\npage";

#[tokio::test(start_paused = true)]
async fn another_backend_produces_responses_with_some_statuses() {
    run_local(async {
        let phases = Phases::from(ResponseEdit::Headers(set("X-Frame-Options", "DENY")));
        let of_all = HeaderTemplate { name: "X-Of-All".into(), value: Template::text("1") };
        let filters = vec![pages(), phases, Phases::from(ResponseEdit::Fields([of_all].into()))];
        let (stage, seen) = stage(1, filters, |number| match number {
            102 => Some(PAGE),
            _ => Some(NOT_FOUND),
        });
        let mut client = stage.client();
        for _ in 0..2 {
            client.send(POST).await;
            let text = client.response_text().await;
            assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("\r\n\r\npage"), "{text}");
            assert_eq!(field(&text, "X-Frame-Options"), None, "the rule does not make the page: {text}");
            assert_eq!(field(&text, "X-Of-All"), Some("1"), "{text}");
        }
        let received = seen.borrow();
        assert_eq!(received.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 102, 0, 102]);
        let request = &received[1].1;
        assert!(request.starts_with("GET /?q=1 HTTP/1.1\r\n") && request.ends_with("\r\n\r\n"), "{request}");
        for (name, value) in [
            ("X-Code", Some("404")),
            ("X-Original-URI", Some("/p?q=1")),
            ("X-Format", Some("text/html")),
            ("X-Namespace", Some("shop")),
            ("Host", Some("shop.test")),
            ("X-Forwarded-For", Some("192.0.2.1")),
            ("X-Forwarded-Host", None),
            ("X-Original-Forwarded-For", None),
        ] {
            assert_eq!(field(request, name), value, "{name} in {request}");
        }
        assert_eq!(stage.connects().len(), 2, "answers that were put aside leave their connections usable");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_snapshot_that_was_replaced_leaves_no_idle_connection_behind() {
    run_local(async {
        let stage = TestWorker::with_phases(1, vec![pages()], |to| match to.port() {
            102 => ScriptedConnect::served_by(|stream| {
                serve_responses(102, PAGE.as_bytes(), ReceivedRequests::default(), stream)
            }),
            _ => ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
                sleep(Duration::from_secs(1)).await;
                stream.write_all(BUSY.as_bytes()).await.unwrap();
                never_answering(stream).await;
            }),
        });
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        run_ready_tasks().await;
        let mut without = config_with_phases(1, Vec::new());
        without.hosts.clear();
        without.backends.clear();
        stage.publish(&without);
        assert!(client.response_text().await.ends_with("\r\n\r\npage"), "by the snapshot that it began with");
        assert_eq!(stage.connects().len(), 2);
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.worker.groups.idle_connections(), 0);
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_proxys_own_are_replaced_too_and_once_only() {
    run_local(async {
        let (stage, seen) = stage(1, vec![pages()], |number| (number == 102).then_some(PAGE));
        let text = {
            let mut client = stage.client();
            client.send(GET_REQUEST).await;
            client.response_text().await
        };
        assert!(text.ends_with("\r\n\r\npage"), "{text}");
        assert_eq!(field(&seen.borrow()[0].1, "X-Code"), Some("502"));
        // The backend of the pages has failed as well.
        let (stage, _) = self::stage(1, vec![pages()], |_| None);
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 502);
        let (stage, seen) = self::stage(1, vec![pages()], |number| match number {
            102 => Some(BUSY),
            _ => None,
        });
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().body, b"busy");
        assert_eq!(seen.borrow().len(), 1, "the page's own 503 is not replaced again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_page_has_its_own_time_behind_an_endpoint_that_was_too_slow() {
    run_local(async {
        let pages = ErrorPages { statuses: vec![504], backend: Some("c".into()), fields: Vec::new() };
        let stage = TestWorker::with_phases(1, vec![Phases::from(pages)], |to| match to.port() {
            102 => ScriptedConnect::served_by(|stream| {
                serve_responses(102, PAGE.as_bytes(), ReceivedRequests::default(), stream)
            }),
            _ => ScriptedConnect::served_by(never_answering),
        });
        let began = tokio::time::Instant::now();
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        let text = client.response_text().await;
        assert!(text.ends_with("\r\n\r\npage"), "{text}");
        assert_eq!(began.elapsed().as_secs(), 60);
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unread_body_does_not_become_the_next_request() {
    run_local(async {
        let access = Phases::from(Guard::Access(fairway_model::AccessList {
            deny: vec!["192.0.2.0/24".parse().unwrap()],
            allow: Vec::new(),
        }));
        let pages = ErrorPages { statuses: vec![403], backend: Some("c".into()), fields: Vec::new() };
        let (stage, seen) = stage(1, vec![Phases::from(pages), access], |_| Some(PAGE));
        let mut client = stage.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\n").await;
        assert!(client.response_text().await.ends_with("page"));
        client.send("GET /smuggled HTTP/1.1\r\n\r\n\r").await;
        client.send(GET_REQUEST).await;
        assert!(client.response_text().await.ends_with("page"));
        assert!(seen.borrow().iter().all(|(_, text)| !text.contains("smuggled")), "{:?}", seen.borrow());
        assert_eq!(seen.borrow().len(), 2);
    })
    .await;
}
