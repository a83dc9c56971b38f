//! Steps that change bodies while they stream: everything else in the request and response stays the same. `pairing_tests`
//! covers ends that die at every byte.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;

use fairway_model::Rule;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::body_steps::upper_case;
use crate::testing::{ScriptedConnect, TestWorker, run_local};

/// What the endpoint received, and what a client got that sent this request and then closed its side.
async fn exchange(request: &str, response: &'static str) -> (String, String) {
    let received = Rc::new(RefCell::new(String::new()));
    let theirs = Rc::clone(&received);
    let edit = |rule: &mut Rule| rule.labels.path = upper_case::PATH.into();
    let stage = TestWorker::with_rule(1, edit, move |_| {
        let received = Rc::clone(&theirs);
        ScriptedConnect::served_by(move |mut stream: DuplexStream| async move {
            let mut input = Vec::new();
            // Fairway sends all of a small request before it reads.
            while stream.read_buf(&mut input).await.unwrap_or(0) > 0 {
                let text = String::from_utf8_lossy(&input).into_owned();
                if (text.contains("\r\n0\r\n") && text.ends_with("\r\n\r\n"))
                    || (!text.contains("chunked") && text.ends_with("\r\n\r\n"))
                {
                    *received.borrow_mut() = text;
                    stream.write_all(response.as_bytes()).await.unwrap();
                }
            }
        })
    });
    let mut client = stage.client().stream;
    client.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    client.read_to_end(&mut text).await.unwrap();
    let received_text = received.borrow().clone();
    (received_text, String::from_utf8(text).unwrap())
}

const HELLO: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
    HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\nhello";

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: b\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn both_bodies_are_changed_without_a_length_and_interim_responses_pass() {
    run_local(async {
        let request = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody";
        let (seen, text) = exchange(request, HELLO).await;
        assert!(seen.contains("Transfer-Encoding: chunked") && !seen.contains("Content-Length"), "{seen}");
        assert!(seen.ends_with("4\r\nBODY\r\n1\r\n!\r\n0\r\n\r\n"), "{seen}");
        assert!(text.starts_with("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n"), "{text}");
        assert!(text.contains("ETag: \"a\"") && !text.contains("Content-Length"), "{text}");
        assert!(text.ends_with("5\r\nHELLO\r\n1\r\n!\r\n0\r\n\r\n"), "{text}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_follow_the_output_of_the_steps() {
    run_local(async {
        let chunked = "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: b\r\n\r\n";
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{chunked}");
        let (seen, text) = exchange(&request, CHUNKED).await;
        assert!(seen.ends_with("4\r\nBODY\r\n1\r\n!\r\n0\r\nX-Sum: b\r\n\r\n"), "{seen}");
        assert!(text.ends_with("5\r\nHELLO\r\n1\r\n!\r\n0\r\nX-Sum: b\r\n\r\n"), "{text}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn messages_without_a_body_get_none() {
    run_local(async {
        for (request, response) in [
            (
                "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 204 No\r\n\r\n"),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n",
            ),
        ] {
            let (seen, text) = exchange(request, response).await;
            assert!(seen.ends_with("\r\n\r\n") && !seen.contains("Transfer-Encoding"), "{seen}");
            assert!(text.ends_with("\r\n\r\n") && !text.contains('!'), "{text}");
            assert!(!text.contains("Content-Length") && !text.contains("chunked"), "{text}");
        }
    })
    .await;
}
