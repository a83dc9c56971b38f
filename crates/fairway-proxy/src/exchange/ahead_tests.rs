//! Answers that are read ahead of slow clients, in virtual time: their endpoints are free at once, and clients get what was sent.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{BodyBuffer, Buffering, Forwarding, Phases};
use fairway_testkit::wire;
use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{sleep, timeout};

use crate::testing::{GET, Meeting, Stage, on_stage, read_head};

const MOST: usize = 1 << 20;

fn reading_ahead(memory: u32, disk: u64) -> Phases {
    let buffering = Buffering { requests: None, responses: Some(BodyBuffer { memory, disk }) };
    Forwarding { buffering, ..Forwarding::default() }.into()
}

/// Writes this to each request, counting what the proxy took of it.
fn saying(memory: u32, disk: u64, said: Vec<u8>) -> (Stage, Rc<Cell<usize>>) {
    let taken = Rc::new(Cell::new(0));
    let (told, said) = (Rc::clone(&taken), Rc::new(said));
    let script = move |_| {
        let (told, said) = (Rc::clone(&told), Rc::clone(&said));
        Meeting::with(move |mut stream: DuplexStream| async move {
            while read_head(&mut stream).await {
                for piece in said.chunks(1000) {
                    if stream.write_all(piece).await.is_err() {
                        return;
                    }
                    told.set(told.get() + piece.len());
                }
                if said.ends_with(b"broken") {
                    return;
                }
            }
        })
    };
    (Stage::filtered(1, vec![reading_ahead(memory, disk)], script), taken)
}

fn body(length: usize) -> Vec<u8> {
    let mut random = Rng::with_seed(length as u64);
    (0..length).map(|_| random.u8(..)).collect()
}

fn answer(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_free_before_its_client_has_taken_the_answer() {
    on_stage(async {
        for (memory, disk) in [(MOST as u32, 0), (20_000, MOST as u64), (0, MOST as u64)] {
            let body = body(400_000);
            let (stage, taken) = saying(memory, disk, answer("", &body));
            let mut slow = stage.client();
            slow.send(GET).await;
            sleep(Duration::from_secs(5)).await;
            assert!(taken.get() > body.len(), "{memory} {disk}");
            assert_eq!(stage.worker.groups.in_flight(), 0);
            assert!(stage.worker.held.taken() > 0);
            let mut other = stage.client();
            assert!(other.ask(GET).await.unwrap().body == body);
            assert_eq!(stage.connects().len(), 1, "the same connection");
            assert!(slow.answer().await.unwrap().body == body);
            assert!(slow.ask(GET).await.unwrap().body == body, "and the next one");
            drop((slow, other));
            sleep(Duration::from_secs(120)).await;
            stage.at_rest().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_an_endpoint_waits_for_its_client() {
    on_stage(async {
        let body = body(400_000);
        for fields in ["", "X-Accel-Buffering: no\r\n"] {
            let (stage, taken) = match fields {
                "" => saying(0, 0, answer("", &body)),
                _ => saying(MOST as u32, 0, answer(fields, &body)),
            };
            let mut slow = stage.client();
            slow.send(GET).await;
            sleep(Duration::from_secs(5)).await;
            assert!(taken.get() < body.len(), "{fields}");
            assert!(slow.answer().await.unwrap().body == body);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn whatever_comes_in_whatever_pieces_goes_on_as_it_came() {
    on_stage(async {
        let mut random = Rng::with_seed(36);
        for _ in 0..60 {
            let body = body(random.usize(..300_000));
            let is_chunked = random.bool();
            let mut said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for piece in body.chunks(random.usize(1..9000)) {
                said.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                said.extend_from_slice(piece);
                said.extend_from_slice(b"\r\n");
            }
            said.extend_from_slice(b"0\r\nX-Sum: 7\r\n\r\n");
            let said = if is_chunked { said } else { answer("", &body) };
            let (memory, disk) = (random.u32(..100_000), random.u64(..300_000));
            let (stage, _) = saying(memory, disk, said);
            let mut client = stage.client();
            client.send(GET).await;
            let mut came = Vec::new();
            loop {
                if random.u8(..8) == 0 {
                    sleep(Duration::from_millis(random.u64(..3000))).await;
                }
                let mut piece = vec![0; random.usize(1..50_000)];
                let count = timeout(Duration::from_secs(9), client.stream.read(&mut piece)).await;
                match count {
                    Ok(count) => came.extend_from_slice(&piece[..count.unwrap()]),
                    // Nothing more comes.
                    Err(_) => break,
                }
            }
            let head = wire::head(&came).unwrap().unwrap();
            let rest = &came[head.length..];
            if is_chunked {
                let decoded = wire::chunked(rest).unwrap().unwrap();
                assert!(decoded.content == body && rest.ends_with(b"X-Sum: 7\r\n\r\n"), "{memory} {disk}");
            } else {
                assert!(rest == body, "{memory} {disk}");
            }
            drop(client);
            sleep(Duration::from_secs(120)).await;
            stage.at_rest().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_has_no_end() {
    on_stage(async {
        for framing in ["Content-Length: 900000\r\n", "Transfer-Encoding: chunked\r\n"] {
            let mut said = format!("HTTP/1.1 200 OK\r\n{framing}\r\n").into_bytes();
            let body = body(200_000);
            if framing.starts_with('T') {
                said.extend_from_slice(b"90000\r\n");
            }
            said.extend_from_slice(&body);
            said.extend_from_slice(b"broken");
            let (stage, _) = saying(1000, MOST as u64, said);
            let mut client = stage.client();
            client.send(GET).await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!(stage.worker.groups.in_flight(), 0, "it has gone");
            let came = client.rest().await;
            assert!(came.len() > 100_000 && !came.ends_with(b"0\r\n\r\n"), "{framing}");
            assert_eq!(stage.value("fairway_faults_total{reason=\"upstream_truncated\"}"), 1);
            sleep(Duration::from_secs(120)).await;
            stage.at_rest().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_more_is_read_ahead_than_there_is_room_for_and_the_rest_streams() {
    on_stage(async {
        let body = body(2 * MOST);
        for (memory, disk) in [(100_000, 0), (1000, 200_000), (0, 0)] {
            let (stage, taken) = saying(memory, disk, answer("", &body));
            let mut client = stage.client();
            client.send(GET).await;
            sleep(Duration::from_secs(5)).await;
            // What is on its way in the pipes and sockets is no part of it.
            let most = memory as usize + disk as usize + 400_000;
            assert!(taken.get() < most, "{} of {most}", taken.get());
            assert!(client.answer().await.unwrap().body == body);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_or_takes_nothing_leaves_nothing_behind() {
    on_stage(async {
        let (stage, _) = saying(1000, MOST as u64, answer("", &body(500_000)));
        let mut leaving = stage.client();
        leaving.send(GET).await;
        let mut stalled = stage.client();
        stalled.send(GET).await;
        sleep(Duration::from_secs(2)).await;
        drop(leaving);
        sleep(Duration::from_secs(300)).await;
        assert_eq!(stage.value("fairway_faults_total{reason=\"client_stalled\"}"), 1);
        stage.at_rest().unwrap();
        drop(stalled);
    })
    .await;
}
