//! HTTP/2 endpoints that send valid frames but misbehave over time: they refuse, accept no streams, close windows, flood.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ClientResult::Whole;
use fairway_model::BackendProtocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;

use super::hostile_tests::{
    CANCEL, ClientResult, DATA, FLAG_END_STREAM, FLOW_CONTROL_ERROR, GOAWAY, HEADERS, POST, RST_STREAM, Raw,
    SETTINGS, SentFrames, client_result, frame, head, run_ready_tasks, serve_well, setting, stage, word,
};
use crate::testing::{ScriptedConnect, TestWorker, run_local};

/// Endpoints that send `says(n, stream)` to the n-th request, counted from 1; with the number of requests.
fn numbered(says: impl Fn(usize, u32) -> Vec<u8> + 'static) -> (TestWorker, Rc<Cell<usize>>) {
    let requests = Rc::new(Cell::new(0));
    let (count, says) = (Rc::clone(&requests), Rc::new(says));
    let (stage, _) = stage(2, move |_, mut raw| {
        let (count, says) = (Rc::clone(&count), Rc::clone(&says));
        async move {
            raw.send(frame(SETTINGS, 0, 0, &[])).await;
            while let Some(id) = raw.request().await {
                count.set(count.get() + 1);
                raw.send(says(count.get(), id)).await;
            }
        }
    });
    (stage, requests)
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_response_is_not_taken_for_a_refused_stream() {
    run_local(async {
        let (stage, requests) =
            numbered(
                |number, id| {
                    if number == 3 { word(RST_STREAM, id, 2) } else { head(id, FLAG_END_STREAM, &[]) }
                },
            );
        let mut client = stage.client();
        for (number, expected) in [(1, 200), (2, 200), (3, 502)] {
            assert_eq!(client.request(POST).await.unwrap().status, expected, "{number}");
        }
        assert_eq!(requests.get(), 3, "no endpoint got the third one again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_post_refused_on_a_used_stream_goes_elsewhere() {
    run_local(async {
        let (stage, requests) =
            numbered(
                |number, id| {
                    if number == 3 { word(RST_STREAM, id, 7) } else { head(id, FLAG_END_STREAM, &[]) }
                },
            );
        let mut client = stage.client();
        for _ in 0..3 {
            assert_eq!(client.request(POST).await.unwrap().status, 200);
        }
        assert_eq!(requests.get(), 4);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_refuses_everything_costs_no_response_and_is_ejected() {
    run_local(async {
        let (refused, stage_of) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let count = Rc::clone(&refused);
        let first = Rc::clone(&stage_of);
        let sent_frames = SentFrames::default();
        let stage = TestWorker::with_protocol(BackendProtocol::H2c, 2, move |address| {
            let (count, sent_frames) = (Rc::clone(&count), Rc::clone(&sent_frames));
            if first.get().is_none() {
                first.set(Some(address));
            }
            let refuses = first.get() == Some(address);
            ScriptedConnect::served_by(move |stream| async move {
                let mut raw = Raw::new(stream, &sent_frames);
                if !refuses {
                    return serve_well(raw).await;
                }
                raw.send(frame(SETTINGS, 0, 0, &[])).await;
                while let Some(id) = raw.request().await {
                    count.set(count.get() + 1);
                    raw.send(word(RST_STREAM, id, 7)).await;
                }
            })
        });
        let mut client = stage.client();
        for _ in 0..40 {
            assert_eq!(client.request(POST).await.unwrap().status, 200);
        }
        assert!(refused.get() <= 8, "{} requests went to it", refused.get());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_no_streams_is_no_place_to_wait_and_leaves_no_connections_behind() {
    run_local(async {
        let (stage, _) = stage(1, |_, mut raw| async move {
            raw.send(setting(3, 0)).await;
            while let Some(id) = raw.request().await {
                raw.send(word(RST_STREAM, id, 7)).await;
            }
        });
        for _ in 0..30 {
            let mut client = stage.client();
            client.send(POST).await;
            assert!(matches!(client_result(&mut client).await, Whole(502 | 503)));
        }
        sleep(Duration::from_secs(2)).await;
        stage.worker.tick();
        assert_eq!(stage.worker.groups.idle_connections(), 0);
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn shrinking_and_closed_windows_stop_only_their_own_body() {
    run_local(async {
        let (stage, sent_frames) = stage(1, |_, mut raw| async move {
            raw.send(setting(4, 100)).await;
            let mut got = 0;
            loop {
                let Some((kind, flags, stream, payload)) = raw.next().await else { return };
                match kind {
                    // It accepts a hundred bytes, then makes the window negative, and keeps it so.
                    DATA => {
                        got += payload.len();
                        if got >= 100 {
                            raw.send(setting(4, 0)).await;
                        }
                    }
                    HEADERS if flags & FLAG_END_STREAM > 0 => {
                        raw.send(head(stream, FLAG_END_STREAM, &[])).await;
                    }
                    SETTINGS if flags & FLAG_END_STREAM == 0 => {
                        raw.send(frame(SETTINGS, FLAG_END_STREAM, 0, &[])).await;
                    }
                    _ => {}
                }
            }
        });
        let mut slow = stage.client();
        slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client_result(&mut slow).await, Whole(200));
        slow.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n{}",
            "x".repeat(50_000)
        ))
        .await;
        run_ready_tasks().await;
        let mut other = stage.client();
        other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client_result(&mut other).await, Whole(200));
        assert!(matches!(client_result(&mut slow).await, Whole(502 | 504)));
        assert!(sent_frames.borrow().iter().any(|frame| (frame.0, frame.2) == (RST_STREAM, CANCEL)));
        assert!(!sent_frames.borrow().iter().any(|frame| frame.0 == GOAWAY));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn data_beyond_the_window_resets_the_stream_and_buffers_are_bounded() {
    run_local(async {
        let (stage, sent_frames) = stage(1, |_, mut raw| async move {
            raw.send(frame(SETTINGS, 0, 0, &[])).await;
            let id = raw.request().await.unwrap();
            raw.send(head(id, 0, &[])).await;
            for _ in 0..64 {
                raw.send(frame(DATA, 0, id, &[b'x'; 16_384])).await;
                run_ready_tasks().await;
            }
            raw.read_to_end().await;
        });
        let mut client = stage.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        // It reads nothing, so it cannot have given credit for a megabyte.
        sleep(Duration::from_secs(1)).await;
        assert!(
            sent_frames.borrow().contains(&(RST_STREAM, 1, FLOW_CONTROL_ERROR)),
            "{:?}",
            sent_frames.borrow()
        );
        let received = client.read_to_end().await.len();
        assert!(received < 400_000, "{received} bytes");
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn clients_that_do_not_read_do_not_end_calls_of_others() {
    run_local(async {
        let (stage, sent_frames) = stage(1, |_, mut raw| async move {
            raw.send(frame(SETTINGS, 0, 0, &[])).await;
            let mut calls = 0;
            while let Some(id) = raw.request().await {
                calls += 1;
                raw.send(head(id, 0, &[])).await;
                if calls <= 6 {
                    // The client's pipe takes these; small frames wait in Fairway.
                    raw.send(frame(DATA, 0, id, &[7; 16_000]).repeat(4)).await;
                    run_ready_tasks().await;
                    raw.send(frame(DATA, 0, id, &[7; 100]).repeat(300)).await;
                } else {
                    raw.send(frame(DATA, FLAG_END_STREAM, id, b"ok")).await;
                }
            }
        });
        let mut idle = Vec::new();
        for _ in 0..6 {
            let mut client = stage.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            idle.push(client);
            run_ready_tasks().await;
        }
        let mut other = stage.client();
        other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client_result(&mut other).await, Whole(200));
        assert_eq!(stage.connects().len(), 1);
        assert!(sent_frames.borrow().is_empty(), "{:?}", sent_frames.borrow());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_complete_response_outlives_its_connection_however_slowly_it_is_read() {
    run_local(async {
        let (stage, _) = stage(1, |_, mut raw| async move {
            raw.send(frame(SETTINGS, 0, 0, &[])).await;
            let id = raw.request().await.unwrap();
            let body = frame(DATA, 0, id, &[b'x'; 16_000]);
            raw.send([head(id, 0, &[("content-length", "64000")]), body.repeat(3)].concat()).await;
            raw.send(frame(DATA, FLAG_END_STREAM, id, &[b'x'; 16_000])).await;
        });
        let mut client = stage.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(client.response().await.unwrap().body.len(), 64_000);
    })
    .await;
}

/// Sends endless one-byte frames as the body of the first response, and responds to the other requests in between.
async fn flooding(raw: Raw) {
    let Raw { stream, sent_frames, .. } = raw;
    let (from, mut to) = tokio::io::split(stream);
    let (ours, mut theirs) = duplex(64 * 1024);
    // A separate task reads requests, so that nothing that Fairway writes waits for the flood.
    let waiting = Rc::new(RefCell::new(Vec::new()));
    let waiting_requests = Rc::clone(&waiting);
    let reader = spawn_local(async move {
        let mut raw = Raw::new(ours, &sent_frames);
        while let Some(id) = raw.request().await {
            waiting_requests.borrow_mut().push(id);
        }
    });
    let feeder = spawn_local(async move {
        let mut from = from;
        let _ = tokio::io::copy(&mut from, &mut theirs).await;
    });
    let mut flood = frame(SETTINGS, 0, 0, &[]);
    let mut first = None;
    while to.write_all(&flood).await.is_ok() {
        flood.clear();
        for id in waiting.borrow_mut().drain(..) {
            let is_first = *first.get_or_insert(id) == id;
            let end = if is_first { Vec::new() } else { frame(DATA, FLAG_END_STREAM, id, b"ok") };
            flood.extend([head(id, 0, &[]), end].concat());
        }
        if let Some(id) = first {
            flood.extend(frame(DATA, 0, id, b"x").repeat(500));
        }
        yield_now().await;
    }
    reader.abort();
    feeder.abort();
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tiny_data_leaves_room_for_others() {
    run_local(async {
        let (stage, _) = stage(1, |_, raw| flooding(raw));
        let mut flooded = stage.client();
        flooded.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let reader = spawn_local(async move {
            let mut chunk = [0; 4096];
            while flooded.stream.read(&mut chunk).await.unwrap_or(0) > 0 {}
        });
        let mut other = stage.client();
        for _ in 0..20 {
            assert_eq!(other.request("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().status, 200);
        }
        reader.abort();
    })
    .await;
}
