//! Responses that are read ahead of slow clients, in virtual time: the endpoint is free at once, and the client gets what was
//! sent.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{BodyBuffer, Buffering, Forwarding, Phases};
use fairway_testkit::wire;
use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{sleep, timeout};

use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, read_head, run_local};

const MAX_DISK_BYTES: usize = 1 << 20;

fn reading_ahead(memory: u32, disk: u64) -> Phases {
    let buffering = Buffering { requests: None, responses: Some(BodyBuffer { memory, disk }) };
    Forwarding { buffering, ..Forwarding::default() }.into()
}

/// An endpoint that sends `response_bytes` to each request and counts what the proxy has read of it.
fn stage_sending(memory: u32, disk: u64, response_bytes: Vec<u8>) -> (TestWorker, Rc<Cell<usize>>) {
    let sent = Rc::new(Cell::new(0));
    let (bytes_taken, response_bytes) = (Rc::clone(&sent), Rc::new(response_bytes));
    let script = move |_| {
        let (bytes_taken, response_bytes) = (Rc::clone(&bytes_taken), Rc::clone(&response_bytes));
        ScriptedConnect::served_by(move |mut stream: DuplexStream| async move {
            while read_head(&mut stream).await {
                for piece in response_bytes.chunks(1000) {
                    if stream.write_all(piece).await.is_err() {
                        return;
                    }
                    bytes_taken.set(bytes_taken.get() + piece.len());
                }
                if response_bytes.ends_with(b"broken") {
                    return;
                }
            }
        })
    };
    (TestWorker::with_phases(1, vec![reading_ahead(memory, disk)], script), sent)
}

fn body(length: usize) -> Vec<u8> {
    let mut random = Rng::with_seed(length as u64);
    (0..length).map(|_| random.u8(..)).collect()
}

fn response_with(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_free_before_its_client_has_read_the_response() {
    run_local(async {
        for (memory, disk) in
            [(MAX_DISK_BYTES as u32, 0), (20_000, MAX_DISK_BYTES as u64), (0, MAX_DISK_BYTES as u64)]
        {
            let body = body(400_000);
            let (stage, taken) = stage_sending(memory, disk, response_with("", &body));
            let mut slow = stage.client();
            slow.send(GET_REQUEST).await;
            sleep(Duration::from_secs(5)).await;
            assert!(taken.get() > body.len(), "{memory} {disk}");
            assert_eq!(stage.worker.groups.in_flight(), 0);
            assert!(stage.worker.body_memory.used_bytes() > 0);
            let mut other = stage.client();
            assert!(other.request(GET_REQUEST).await.unwrap().body == body);
            assert_eq!(stage.connects().len(), 1, "the same connection");
            assert!(slow.response().await.unwrap().body == body);
            assert!(slow.request(GET_REQUEST).await.unwrap().body == body, "and the next one");
            drop((slow, other));
            sleep(Duration::from_secs(120)).await;
            stage.check_idle().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_an_endpoint_waits_for_its_client() {
    run_local(async {
        let body = body(400_000);
        for fields in ["", "X-Accel-Buffering: no\r\n"] {
            let (stage, taken) = match fields {
                "" => stage_sending(0, 0, response_with("", &body)),
                _ => stage_sending(MAX_DISK_BYTES as u32, 0, response_with(fields, &body)),
            };
            let mut slow = stage.client();
            slow.send(GET_REQUEST).await;
            sleep(Duration::from_secs(5)).await;
            assert!(taken.get() < body.len(), "{fields}");
            assert!(slow.response().await.unwrap().body == body);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn buffered_responses_are_relayed_unchanged_for_any_split() {
    run_local(async {
        let mut random = Rng::with_seed(36);
        for _ in 0..60 {
            let body = body(random.usize(..300_000));
            let is_chunked = random.bool();
            let mut response_bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for piece in body.chunks(random.usize(1..9000)) {
                response_bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                response_bytes.extend_from_slice(piece);
                response_bytes.extend_from_slice(b"\r\n");
            }
            response_bytes.extend_from_slice(b"0\r\nX-Sum: 7\r\n\r\n");
            let response_bytes = if is_chunked { response_bytes } else { response_with("", &body) };
            let (memory, disk) = (random.u32(..100_000), random.u64(..300_000));
            let (stage, _) = stage_sending(memory, disk, response_bytes);
            let mut client = stage.client();
            client.send(GET_REQUEST).await;
            let mut received_bytes = Vec::new();
            loop {
                if random.u8(..8) == 0 {
                    sleep(Duration::from_millis(random.u64(..3000))).await;
                }
                let mut chunk = vec![0; random.usize(1..50_000)];
                let count = timeout(Duration::from_secs(9), client.stream.read(&mut chunk)).await;
                match count {
                    Ok(count) => received_bytes.extend_from_slice(&chunk[..count.unwrap()]),
                    // Nothing more comes.
                    Err(_) => break,
                }
            }
            let head = wire::head(&received_bytes).unwrap().unwrap();
            let rest = &received_bytes[head.length..];
            if is_chunked {
                let decoded = wire::chunked(rest).unwrap().unwrap();
                assert!(decoded.content == body && rest.ends_with(b"X-Sum: 7\r\n\r\n"), "{memory} {disk}");
            } else {
                assert!(rest == body, "{memory} {disk}");
            }
            drop(client);
            sleep(Duration::from_secs(120)).await;
            stage.check_idle().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_truncated_response_has_no_end() {
    run_local(async {
        for framing in ["Content-Length: 900000\r\n", "Transfer-Encoding: chunked\r\n"] {
            let mut response_bytes = format!("HTTP/1.1 200 OK\r\n{framing}\r\n").into_bytes();
            let body = body(200_000);
            if framing.starts_with('T') {
                response_bytes.extend_from_slice(b"90000\r\n");
            }
            response_bytes.extend_from_slice(&body);
            response_bytes.extend_from_slice(b"broken");
            let (stage, _) = stage_sending(1000, MAX_DISK_BYTES as u64, response_bytes);
            let mut client = stage.client();
            client.send(GET_REQUEST).await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!(stage.worker.groups.in_flight(), 0, "it has gone");
            let received_bytes = client.read_to_end().await;
            assert!(received_bytes.len() > 100_000 && !received_bytes.ends_with(b"0\r\n\r\n"), "{framing}");
            assert_eq!(stage.metric_value("fairway_faults_total{reason=\"upstream_truncated\"}"), 1);
            sleep(Duration::from_secs(120)).await;
            stage.check_idle().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_more_is_read_ahead_than_there_is_room_for_and_the_rest_streams() {
    run_local(async {
        let body = body(2 * MAX_DISK_BYTES);
        for (memory, disk) in [(100_000, 0), (1000, 200_000), (0, 0)] {
            let (stage, taken) = stage_sending(memory, disk, response_with("", &body));
            let mut client = stage.client();
            client.send(GET_REQUEST).await;
            sleep(Duration::from_secs(5)).await;
            // Bytes in pipes and sockets do not count.
            let limit = memory as usize + disk as usize + 400_000;
            assert!(taken.get() < limit, "{} of {limit}", taken.get());
            assert!(client.response().await.unwrap().body == body);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_or_stalls_leaves_no_buffered_data() {
    run_local(async {
        let (stage, _) = stage_sending(1000, MAX_DISK_BYTES as u64, response_with("", &body(500_000)));
        let mut leaving = stage.client();
        leaving.send(GET_REQUEST).await;
        let mut stalled = stage.client();
        stalled.send(GET_REQUEST).await;
        sleep(Duration::from_secs(2)).await;
        drop(leaving);
        sleep(Duration::from_secs(300)).await;
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"client_stalled\"}"), 1);
        stage.check_idle().unwrap();
        drop(stalled);
    })
    .await;
}
