//! Requests whose endpoints a service picked, in virtual time. A request header stands in for the service.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::time::Duration;

use fairway_model::RetrySource;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use crate::testing::{ScriptedConnect, TestWorker, endpoint, run_local};

/// Responds with the endpoint's number.
async fn answering(number: u16, mut stream: DuplexStream) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Endpoints 0 to 4: 0 refuses connections, 1 is silent, and 2 closes without a response.
fn start_stage() -> TestWorker {
    TestWorker::new(
        5,
        |policy, _| policy.retry.by = RetrySource::Route,
        |to: SocketAddr| match to.port() {
            0 => ScriptedConnect::Refused,
            1 => ScriptedConnect::Silence,
            2 => {
                ScriptedConnect::served_by(
                    |mut stream: DuplexStream| async move { drop(stream.read_u8().await) },
                )
            }
            number => ScriptedConnect::served_by(move |stream| answering(number, stream)),
        },
    )
}

/// The status, and the endpoint that responded.
async fn send_request(stage: &TestWorker, field: &str) -> (u16, String) {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    let response = stage.client().request(request).await.unwrap();
    (response.status, String::from_utf8(response.body).unwrap())
}

fn connected(stage: &TestWorker) -> Vec<u16> {
    stage.connects().iter().map(|(_, to)| to.port()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_to_the_endpoint_that_was_picked_for_it() {
    run_local(async {
        let stage = start_stage();
        for number in [3, 4, 3, 3, 4, 4] {
            let field = format!("x-test-pick: {}", endpoint(number));
            assert_eq!(send_request(&stage, &field).await, (200, number.to_string()));
        }
        assert_eq!(connected(&stage), [3, 4]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn further_picks_are_tried_in_order_and_no_other_endpoint() {
    run_local(async {
        let stage = start_stage();
        let picks = [0, 2, 4].map(|number| endpoint(number).to_string()).join(",");
        assert_eq!(send_request(&stage, &format!("x-test-pick: {picks}")).await, (200, "4".to_owned()));
        assert_eq!(connected(&stage), [0, 2, 4]);
        let refused = start_stage();
        let (status, _) = send_request(&refused, &format!("x-test-pick: {}", endpoint(0))).await;
        assert_eq!(status, 502);
        assert!(connected(&refused).iter().all(|to| *to == 0), "{:?}", connected(&refused));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_late_connect_is_raced_with_the_next_pick_only() {
    run_local(async {
        let stage = start_stage();
        let (began, picks) = (Instant::now(), format!("{},{}", endpoint(1), endpoint(4)));
        assert_eq!(send_request(&stage, &format!("x-test-pick: {picks}")).await, (200, "4".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(connected(&stage), [1, 4]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_picked_address_that_is_no_endpoint_is_never_connected_to() {
    run_local(async {
        let stage = start_stage();
        for strangers in ["198.51.100.1:80", "192.0.2.1:99", "nonsense", ""] {
            let (status, _) = send_request(&stage, &format!("x-test-pick: {strangers}")).await;
            assert_eq!(status, 503, "{strangers}");
        }
        assert_eq!(connected(&stage), [] as [u16; 0]);
        let both = format!("x-test-pick: 198.51.100.1:80, {}", endpoint(3));
        assert_eq!(send_request(&stage, &both).await, (200, "3".to_owned()));
        assert_eq!(connected(&stage), [3]);
        let number = |to: SocketAddr| to.port();
        let stage = TestWorker::new(
            2,
            |_, _| (),
            move |to| ScriptedConnect::served_by(move |stream| answering(number(to), stream)),
        );
        let (status, number) = send_request(&stage, "x-test-prefer: 198.51.100.1:80").await;
        assert_eq!(status, 200, "the backend's own balancing chooses");
        assert!(["0", "1"].contains(&&*number), "{number}");
    })
    .await;
}
