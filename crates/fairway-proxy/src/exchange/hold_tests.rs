//! Buffered request bodies, in virtual time: no endpoint gets a request before its body is complete, and it gets exactly what
//! was sent.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{BodyBuffer, Buffering, Forwarding, Phases};
use fairway_testkit::wire;
use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::hostile_tests::{
    DATA, FLAG_END_HEADERS, FLAG_END_STREAM, HEADERS, Raw, SETTINGS, SentFrames, field, frame,
};
use crate::buffering::EXTENT_BYTES;
use crate::testing::{
    Client, MAX_DISK_BYTES, OK_RESPONSE, ScriptedConnect, TestWorker, endpoint, read_head, run_local,
};

const MEMORY_BYTES: u32 = 1000;
const MAX_BODY_BYTES: usize = 300_000;

fn holding() -> Phases {
    let requests =
        Some(BodyBuffer { memory: MEMORY_BYTES, disk: (MAX_BODY_BYTES - MEMORY_BYTES as usize) as u64 });
    let buffering = Buffering { requests, responses: None };
    Forwarding { buffering, ..Forwarding::default() }.into()
}

/// Requests as endpoints received them: heads and bodies.
type ReceivedRequests = Rc<RefCell<Vec<(String, Vec<u8>)>>>;

/// Reads complete requests and responds to each, except that the first `fails` ones fail.
async fn serve_failing(mut stream: DuplexStream, received: ReceivedRequests, fails: Rc<Cell<usize>>) {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = wire::head(&bytes).unwrap() {
            let framing = wire::framing(&head.fields).unwrap().unwrap_or(wire::Framing::None);
            let rest = &bytes[head.length..];
            let body = match framing {
                wire::Framing::Length(length) => {
                    (rest.len() >= length).then(|| (rest[..length].to_vec(), length))
                }
                wire::Framing::Chunked => wire::chunked(rest).unwrap().map(|it| (it.content, it.length)),
                _ => Some((Vec::new(), 0)),
            };
            if let Some((body, length)) = body {
                let text = String::from_utf8_lossy(&bytes[..head.length]).to_lowercase();
                let end = head.length + length;
                received.borrow_mut().push((text, body));
                if fails.get() > 0 {
                    fails.set(fails.get() - 1);
                    return;
                }
                bytes.drain(..end);
                stream.write_all(OK_RESPONSE).await.unwrap();
                continue;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// A stage whose rule buffers bodies; the first `failures` requests to any endpoint fail.
fn stage(endpoints: usize, failures: usize) -> (TestWorker, ReceivedRequests) {
    let received = ReceivedRequests::default();
    let (seen_by_endpoint, fails) = (Rc::clone(&received), Rc::new(Cell::new(failures)));
    let script = move |_: SocketAddr| {
        let (seen_by_endpoint, fails) = (Rc::clone(&seen_by_endpoint), Rc::clone(&fails));
        ScriptedConnect::served_by(move |stream| serve_failing(stream, seen_by_endpoint, fails))
    };
    (TestWorker::with_phases(endpoints, vec![holding()], script), received)
}

fn body(length: usize) -> Vec<u8> {
    let mut random = Rng::with_seed(length as u64);
    (0..length).map(|_| random.u8(..)).collect()
}

/// A request with this body, as one chunk if it is chunked.
fn request(method: &str, body: &[u8], chunked: bool) -> Vec<u8> {
    let framing = match chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", body.len()),
    };
    let mut bytes = format!("{method} /x HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").into_bytes();
    match chunked {
        false => bytes.extend_from_slice(body),
        true => {
            for piece in body.chunks(7000) {
                bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                bytes.extend_from_slice(piece);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
    }
    bytes
}

/// Checks that nothing stays buffered once the client is gone.
async fn assert_nothing_buffered(stage: &TestWorker, client: Client) {
    drop(client);
    sleep(Duration::from_secs(120)).await;
    stage.check_idle().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_gets_the_complete_body_with_its_length() {
    run_local(async {
        let (stage, seen) = stage(1, 0);
        let mut client = stage.client();
        for chunked in [false, true] {
            for length in [0, 1, 999, 1000, 1001, 40_000, MAX_BODY_BYTES] {
                let (body, before) = (body(length), stage.connects().len());
                let bytes = request("POST", &body, chunked);
                let (first, last) = bytes.split_at(bytes.len() - 1);
                client.send(first).await;
                sleep(Duration::from_secs(3)).await;
                // Only a request with a body waits for its end.
                let is_waiting = seen.borrow().is_empty();
                assert!(is_waiting || length == 0, "{length}");
                assert!(stage.connects().len() == before || length == 0, "{length}");
                client.send(last).await;
                assert_eq!(client.response().await.unwrap().status, 200, "{length} {chunked}");
                let (head, received_body) = seen.borrow_mut().pop().unwrap();
                assert!(received_body == body, "{length} {chunked}");
                assert!(head.contains(&format!("\r\ncontent-length: {length}\r\n")), "{head}");
                assert!(!head.contains("transfer-encoding"), "{head}");
            }
        }
        assert_nothing_buffered(&stage, client).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_is_the_same_for_any_split() {
    run_local(async {
        let (stage, seen) = stage(1, 0);
        let mut random = Rng::with_seed(36);
        for _ in 0..60 {
            let (length, chunked) = (random.usize(1..120_000), random.bool());
            let body = body(length);
            let bytes = request("POST", &body, chunked);
            let mut client = stage.client();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(random.usize(1..=rest.len().min(30_000)));
                client.send(now).await;
                if random.u8(..4) == 0 {
                    sleep(Duration::from_millis(random.u64(..500))).await;
                }
                rest = later;
            }
            assert_eq!(client.response().await.unwrap().status, 200);
            assert!(seen.borrow_mut().pop().unwrap().1 == body, "{length} {chunked}");
        }
        sleep(Duration::from_secs(120)).await;
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_endpoint_gets_all_of_it_again() {
    run_local(async {
        let (stage, seen) = stage(3, 2);
        let (mut client, body) = (stage.client(), body(200_000));
        assert_eq!(client.request(request("PUT", &body, true)).await.unwrap().status, 200);
        let received = seen.take();
        assert_eq!(received.len(), 3, "far more than is held of a body that streams");
        assert!(received.iter().all(|(_, received_body)| *received_body == body));
        assert_nothing_buffered(&stage, client).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_written_body_is_not_sent_twice_if_that_is_unsafe() {
    run_local(async {
        let (stage, seen) = stage(3, 2);
        let (mut client, body) = (stage.client(), body(2000));
        assert_eq!(client.request(request("POST", &body, false)).await.unwrap().status, 502);
        assert_eq!(seen.borrow().len(), 1);
        assert_nothing_buffered(&stage, client).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_oversized_body_is_refused_before_any_endpoint_is_chosen() {
    run_local(async {
        let (stage, _) = stage(1, 0);
        for chunked in [false, true] {
            let mut client = stage.client();
            let refused = client.request(request("POST", &body(MAX_BODY_BYTES + 1), chunked)).await;
            assert_eq!(refused.unwrap().status, 413, "{chunked}");
            drop(client);
        }
        assert_eq!(stage.connects(), []);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"body_too_large\"}"), 2);
        sleep(Duration::from_secs(120)).await;
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_only_bodies_that_do_not_fit_into_memory() {
    run_local(async {
        let (stage, seen) = stage(1, 0);
        // The data after the last full extent stays in memory.
        let on_disk = (MAX_BODY_BYTES - MEMORY_BYTES as usize) / EXTENT_BYTES * EXTENT_BYTES;
        let count = usize::try_from(MAX_DISK_BYTES).unwrap() / on_disk + 1;
        let mut clients: Vec<Client> = (0..count).map(|_| stage.client()).collect();
        let request_bytes = request("POST", &body(MAX_BODY_BYTES), false);
        for client in &mut clients {
            client.send(&request_bytes[..request_bytes.len() - 1]).await;
            sleep(Duration::from_secs(1)).await;
        }
        let refused = clients.last_mut().unwrap().response_text().await.to_lowercase();
        assert!(refused.starts_with("http/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"buffer_full\"}"), 1);
        let small = stage.client().request(request("POST", &body(MEMORY_BYTES as usize), true)).await;
        assert_eq!(small.unwrap().status, 200);
        for client in clients.iter_mut().rev().skip(1) {
            client.send(&request_bytes[request_bytes.len() - 1..]).await;
            assert_eq!(client.response().await.unwrap().status, 200);
        }
        assert_eq!(seen.borrow().len(), count);
        clients.clear();
        sleep(Duration::from_secs(120)).await;
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_or_stays_silent_reaches_no_endpoint() {
    run_local(async {
        let (stage, _) = stage(1, 0);
        let request_bytes = request("POST", &body(100_000), false);
        for sent in [80, 1080, 40_000, 99_999] {
            let mut client = stage.client();
            client.send(&request_bytes[..sent]).await;
            sleep(Duration::from_millis(20)).await;
            drop(client);
        }
        let mut silent = stage.client();
        silent.send(&request_bytes[..50_000]).await;
        assert_eq!(silent.response().await.unwrap().status, 408, "after body_idle");
        assert_eq!(stage.connects(), []);
        assert_nothing_buffered(&stage, silent).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_expecting_client_gets_one_100_continue_at_once() {
    run_local(async {
        let (stage, seen) = stage(2, 1);
        let mut client = stage.client();
        client
            .send("PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n")
            .await;
        assert_eq!(client.response().await.unwrap().status, 100);
        assert_eq!(stage.connects(), []);
        client.send(&body(2000)).await;
        assert_eq!(client.response().await.unwrap().status, 200);
        let received = seen.take();
        assert!(
            received.len() == 2 && received.iter().all(|(head, _)| !head.contains("expect")),
            "{received:?}"
        );
        assert_nothing_buffered(&stage, client).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_buffered_while_the_response_is_read() {
    run_local(async {
        // It responds before it has read everything, and then continues to read or stops.
        for goes_on in [true, false] {
            let script = move |_| {
                ScriptedConnect::served_by(move |mut stream: DuplexStream| async move {
                    read_head(&mut stream).await;
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n").await.unwrap();
                    let (mut read, mut write) = tokio::io::split(stream);
                    if goes_on {
                        spawn_local(async move { read.read_to_end(&mut Vec::new()).await });
                    } else {
                        drop(read);
                    }
                    let _ = write.write_all(&[b'x'; 300_000]).await;
                    std::future::pending::<()>().await;
                })
            };
            let stage = TestWorker::with_phases(1, vec![holding()], script);
            let mut client = stage.client();
            client.send(request("POST", &body(200_000), false)).await;
            sleep(Duration::from_secs(5)).await;
            if goes_on {
                assert_eq!((stage.worker.body_memory.used_bytes(), stage.worker.disk.used_bytes()), (0, 0));
            }
            assert_nothing_buffered(&stage, client).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_go_on_behind_chunks() {
    run_local(async {
        let (stage, seen) = stage(1, 0);
        let mut client = stage.client();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 9\r\n\r\n").await;
        assert_eq!(client.response().await.unwrap().status, 200);
        let (head, received_body) = seen.borrow_mut().pop().unwrap();
        assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
        assert_eq!(received_body, b"hi");
        assert_nothing_buffered(&stage, client).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_of_http2_without_a_length_gets_one() {
    run_local(async {
        let (stage, seen) = stage(1, 0);
        let mut client = Raw::new(stage.client().stream, &SentFrames::default());
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        client.send(frame(SETTINGS, 0, 0, &[])).await;
        let fields: Vec<u8> =
            [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "a")]
                .iter()
                .flat_map(|(name, value)| field(name, value))
                .collect();
        client.send(frame(HEADERS, FLAG_END_HEADERS, 1, &fields)).await;
        let body = body(50_000);
        for piece in body.chunks(10_000) {
            client.send(frame(DATA, 0, 1, piece)).await;
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(stage.connects(), []);
        client.send(frame(DATA, FLAG_END_STREAM, 1, &[])).await;
        sleep(Duration::from_secs(1)).await;
        let (head, received_body) = seen.borrow_mut().pop().unwrap();
        assert!(received_body == body && head.contains("content-length: 50000"), "{head}");
        drop(client);
        sleep(Duration::from_secs(120)).await;
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_current_endpoints_count_when_the_body_is_complete() {
    run_local(async {
        let (stage, seen) = stage(1, 0);
        let request_bytes = request("POST", &body(5000), false);
        let mut client = stage.client();
        client.send(&request_bytes[..3000]).await;
        sleep(Duration::from_secs(1)).await;
        let mut config = crate::testing::config_with_phases(1, vec![holding()]);
        let backend = config.backends.values().next().unwrap();
        let endpoints = vec![fairway_model::Endpoint::at(endpoint(50))];
        let backend = fairway_model::Backend { endpoints, ..fairway_model::Backend::clone(backend) };
        config.backends.insert(backend.key.clone(), std::sync::Arc::new(backend));
        stage.publish(&config);
        client.send(&request_bytes[3000..]).await;
        assert_eq!(client.response().await.unwrap().status, 200);
        assert_eq!(seen.borrow().len(), 1);
        assert_eq!(stage.connects().last().unwrap().1, endpoint(50));
        assert_nothing_buffered(&stage, client).await;
    })
    .await;
}
