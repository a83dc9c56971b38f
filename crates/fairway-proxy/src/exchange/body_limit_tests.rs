//! Limits of request bodies by a rule, its share and the listener, in virtual time: the smallest limit applies.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_model::{Action, BodyHandling, Listener, Rule, WeightedBackend};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::testing::{OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, endpoint, run_local};

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Responds to each request when its body is complete, which ends with `!` or with the last chunk.
async fn answering(mut stream: DuplexStream) {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {
        if bytes.ends_with(b"!") || bytes.ends_with(b"0\r\n\r\n") {
            bytes.clear();
            stream.write_all(OK_RESPONSE).await.unwrap();
        }
    }
}

fn script(_: SocketAddr) -> ScriptedConnect {
    ScriptedConnect::served_by(answering)
}

fn share(backend: &str, limit: Option<u64>) -> WeightedBackend {
    let bodies = BodyHandling { max_request: limit, ..BodyHandling::default() }.if_not_empty();
    WeightedBackend { bodies, ..WeightedBackend::new(backend.into(), 1) }
}

fn with_length(length: usize) -> String {
    let body = "x".repeat(length - 1);
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}!")
}

/// A request with chunks of one byte.
fn chunked(length: usize) -> String {
    format!("{CHUNKED}{}0\r\n\r\n", "1\r\nx\r\n".repeat(length))
}

/// One endpoint behind a listener and a rule with these limits.
fn limited(of_listener: Option<u64>, of_rule: Option<u64>) -> TestWorker {
    let mut config = config_with_phases(1, Vec::new());
    let mut listener = Listener::clone(&config.listeners["http"]);
    listener.clients.max_body = of_listener;
    config.listeners.insert("http".into(), Arc::new(listener));
    for host in config.hosts.values().cloned().collect::<Vec<_>>() {
        let mut host = fairway_model::VirtualHost::clone(&host);
        let route = Arc::make_mut(&mut host.routes[0]);
        Arc::make_mut(&mut route.rules[0].policy).max_body = of_rule;
        config.hosts.insert(host.key.clone(), Arc::new(host));
    }
    TestWorker::with_config(&config, script)
}

#[tokio::test(start_paused = true)]
async fn the_smaller_limit_of_listener_and_rule_counts_by_length_and_by_count() {
    run_local(async {
        for (of_listener, of_rule, most) in
            [(Some(5), None, 5), (None, Some(5), 5), (Some(5), Some(9), 5), (Some(9), Some(5), 5)]
        {
            let stage = limited(of_listener, of_rule);
            for request in [with_length as fn(usize) -> String, chunked] {
                assert_eq!(stage.client().request(request(most)).await.unwrap().status, 200);
                let refused = stage.client().request(request(most + 1)).await.unwrap().status;
                assert_eq!(refused, 413, "{of_listener:?} {of_rule:?}");
            }
        }
        let unlimited = limited(None, None);
        assert_eq!(unlimited.client().request(chunked(5000)).await.unwrap().status, 200);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_share_has_the_limit_of_its_backend_and_never_more_than_its_rule() {
    run_local(async {
        let edit = |rule: &mut Rule| {
            Arc::make_mut(&mut rule.policy).max_body = Some(20);
            rule.action = Action::Forward(vec![share("a", Some(5)), share("b", Some(90)), share("c", None)]);
        };
        let stage = TestWorker::with_rule(1, edit, script);
        for (request, length) in
            [with_length as fn(usize) -> String, chunked].into_iter().flat_map(|it| [(it, 6), (it, 21)])
        {
            let mut refused = 0;
            for _ in 0..60 {
                refused += u32::from(stage.client().request(request(length)).await.unwrap().status == 413);
            }
            match length {
                6 => assert!((8..35).contains(&refused), "a third: {refused}"),
                _ => assert_eq!(refused, 60),
            }
        }
        let before = stage.connects().len();
        for _ in 0..20 {
            assert_eq!(stage.client().request(with_length(21)).await.unwrap().status, 413);
        }
        assert_eq!(stage.connects().len(), before, "no endpoint is asked");
        assert!(stage.connects().iter().any(|(_, to)| *to == endpoint(100)), "smaller bodies pass");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_a_word_is_refused_without_one() {
    run_local(async {
        let of_share =
            TestWorker::with_rule(1, |rule| rule.action = Action::Forward(vec![share("a", Some(5))]), script);
        for stage in [limited(Some(5), None), of_share] {
            let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n";
            assert_eq!(stage.client().request(head).await.unwrap().status, 413);
            assert_eq!(stage.connects(), []);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_oversized_grpc_call_gets_a_grpc_status() {
    run_local(async {
        let stage = limited(Some(5), None);
        let mut client = stage.client();
        let head =
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 6\r\n\r\n";
        client.send(head).await;
        let response = client.response_text().await.to_ascii_lowercase();
        assert!(
            response.starts_with("http/1.1 200 ") && response.contains("grpc-status: 8\r\n"),
            "{response}"
        );
    })
    .await;
}
