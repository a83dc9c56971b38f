//! HTTP/2 clients in virtual time: the client codec sends requests, scripted HTTP/1 endpoints respond.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Client, Code, Config, Event};
use fairway_model::{Policy, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use crate::testing::{OK_RESPONSE, ScriptedConnect, TestWorker, endpoint, read_head, run_local};
use crate::worker::StopPhase;

/// What a stream received.
#[derive(Default)]
pub(super) struct StreamResponse {
    /// 0 before its final head.
    pub(super) status: u16,
    /// Headers of the final head.
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    interim: Vec<u16>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) is_complete: bool,
    pub(super) reset: Option<Code>,
}

/// A client.
pub(super) struct Http2TestClient {
    stream: DuplexStream,
    pub(super) codec: Client,
    head: Head,
    input: Vec<u8>,
    pub(super) responses: BTreeMap<u32, StreamResponse>,
    /// Last stream id of the server's GOAWAY.
    pub(super) goaway_last_stream: Option<u32>,
    /// Whether received data is credited.
    pub(super) consumes: bool,
    /// Streams not released when their response ends.
    pub(super) kept_streams: Vec<u32>,
    is_closed: bool,
}

impl Http2TestClient {
    pub(super) fn new(stage: &TestWorker) -> Self {
        Self::with_config(stage, Config::default())
    }

    pub(super) fn with_config(stage: &TestWorker, config: Config) -> Self {
        Self {
            stream: stage.client().stream,
            codec: Client::new(config, 0),
            head: Head::new(),
            input: Vec::new(),
            responses: BTreeMap::new(),
            goaway_last_stream: None,
            consumes: true,
            kept_streams: Vec::new(),
            is_closed: false,
        }
    }

    /// Sends a request; `end` says whether it is complete.
    fn request(&mut self, method: &[u8], path: &[u8], end: bool) -> u32 {
        self.request_with_headers(method, path, &[], end)
    }

    /// The same with more headers.
    pub(super) fn request_with_headers(
        &mut self,
        method: &[u8],
        path: &[u8],
        fields: &[(&str, &str)],
        end: bool,
    ) -> u32 {
        let mut head = Head::new();
        head.start_request(method, path);
        head.append(b"Host", b"a");
        fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        let id = self.codec.send_head(&head, path, b"http", end).expect("the server takes one more");
        self.responses.insert(id, StreamResponse::default());
        id
    }

    pub(super) fn get(&mut self, path: &str) -> u32 {
        self.request(b"GET", path.as_bytes(), true)
    }

    pub(super) async fn flush(&mut self) {
        let pending = self.codec.pending().to_vec();
        if self.stream.write_all(&pending).await.is_ok() {
            self.codec.mark_written(pending.len());
        }
    }

    /// Writes and reads until `is_done`; panics after an hour of virtual time.
    pub(super) async fn run_until(&mut self, expectation: &str, is_done: impl Fn(&Self) -> bool) {
        let done = async {
            loop {
                self.flush().await;
                if is_done(self) {
                    return;
                }
                let before = self.input.len();
                match self.stream.read_buf(&mut self.input).await {
                    Ok(1..) => self.process_input(),
                    Ok(0) | Err(_) => {
                        self.is_closed = true;
                        assert!(
                            is_done(self),
                            "the connection ended before: {expectation}; {before} bytes left"
                        );
                        return;
                    }
                }
            }
        };
        timeout(Duration::from_secs(3600), done)
            .await
            .unwrap_or_else(|_| panic!("an hour without: {expectation}"));
    }

    /// Reads once, at most this many bytes.
    pub(super) async fn read_some(&mut self, limit: usize) {
        let mut chunk = vec![0; limit];
        let count = self.stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the connection ended");
        self.input.extend_from_slice(&chunk[..count]);
        self.process_input();
        self.flush().await;
    }

    fn process_input(&mut self) {
        let mut used = 0;
        loop {
            let (count, event) = self.codec.receive(0, &self.input[used..], &mut self.head);
            used += count;
            match event {
                Event::NeedMore | Event::Wait(_) => break,
                Event::Head { stream, end, .. } => {
                    let response = self.responses.get_mut(&stream).unwrap();
                    match self.head.status() {
                        interim @ 100..=199 => response.interim.push(interim),
                        status => {
                            (response.status, response.is_complete) = (status, end);
                            let fields = self.head.fields();
                            response.headers =
                                fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                        }
                    }
                }
                Event::Data { stream, bytes, end } => {
                    let response = self.responses.get_mut(&stream).unwrap();
                    response.body.extend_from_slice(bytes);
                    response.is_complete = end;
                    let count = bytes.len() as u32;
                    if self.consumes {
                        self.codec.consume(stream, count);
                    }
                }
                Event::Trailers { stream } => {
                    let response = self.responses.get_mut(&stream).unwrap();
                    response.is_complete = true;
                    let fields = self.head.fields();
                    response.trailers =
                        fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                }
                Event::Reset { stream, code, .. } => {
                    self.responses.get_mut(&stream).unwrap().reset = Some(code);
                }
                Event::GoAway { last_stream: last, .. } => self.goaway_last_stream = Some(last),
                Event::Closed(fault) => panic!("the server broke a rule: {fault:?}"),
                _ => {}
            }
        }
        self.input.drain(..used);
        let over =
            self.responses.iter().filter(|(id, one)| one.is_finished() && !self.kept_streams.contains(id));
        let over: Vec<u32> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.codec.release(id));
    }

    pub(super) async fn response(&mut self, id: u32) -> &StreamResponse {
        self.run_until("a response", |browser| browser.responses[&id].is_finished()).await;
        &self.responses[&id]
    }
}

impl StreamResponse {
    pub(super) fn is_finished(&self) -> bool {
        self.is_complete || self.reset.is_some()
    }
}

/// Waits until nothing is in flight.
pub(super) async fn wait_until_idle(stage: &TestWorker) {
    for _ in 0..1_000 {
        if stage.check_idle().is_ok() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    stage.check_idle().unwrap();
}

/// Responds with the path as body, after as many milliseconds as the path says.
pub(super) async fn serve_echo(mut stream: DuplexStream) {
    while let Some(path) = read_path(&mut stream).await {
        let wait = path.trim_start_matches('/').parse().unwrap_or(0);
        sleep(Duration::from_millis(wait)).await;
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

pub(super) async fn read_path(stream: &mut DuplexStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(bytes).unwrap();
    text.split(' ').nth(1).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_hundred_concurrent_streams_get_their_own_responses() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        let began = Instant::now();
        let ids: Vec<u32> = (0..100).map(|at| browser.get(&format!("/{}", 1000 - 7 * at))).collect();
        browser
            .run_until("all responses", |browser| browser.responses.values().all(StreamResponse::is_finished))
            .await;
        assert!(began.elapsed() < Duration::from_millis(1100), "they wait side by side");
        assert_eq!(stage.metric_value("fairway_http2_streams_open"), 0);
        for (at, id) in ids.into_iter().enumerate() {
            let response = &browser.responses[&id];
            assert_eq!(
                (response.status, &response.body[..]),
                (200, format!("/{}", 1000 - 7 * at).as_bytes())
            );
        }
        let id = browser.get("/again");
        assert_eq!(browser.response(id).await.body, b"/again", "a slot is used again");
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_its_exchange_and_no_other() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        let (first, second) = (browser.get("/500"), browser.get("/600"));
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.worker.exchanges(), 2);
        assert_eq!(stage.metric_value("fairway_http2_streams_open"), 2);
        browser.codec.reset(first, Code::Cancel);
        browser.flush().await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(stage.worker.exchanges(), 1, "it ended at once");
        assert_eq!(stage.metric_value("fairway_http2_streams_open"), 1);
        assert_eq!(event_count(&stage, "reset_received", "cancel"), 1);
        assert_eq!(browser.response(second).await.body, b"/600");
        assert_eq!(browser.responses[&first].status, 0);
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_its_exchanges() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/5000"));
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.worker.exchanges(), 20);
        drop(browser);
        sleep(Duration::from_millis(1)).await;
        stage.check_idle().unwrap();
    })
    .await;
}

/// Sends requests in one write, each followed by the frame `after`; returns how many ended as cancelled.
async fn cancelled_in_one_write(stage: &TestWorker, after: impl Fn(u32) -> Vec<u8>) -> u64 {
    let before = stage.metric_value("fairway_faults_total{reason=\"client_gone\"}");
    let mut browser = Http2TestClient::new(stage);
    let mut bytes = Vec::new();
    for _ in 0..REQUESTS_IN_ONE_WRITE {
        let id = browser.get("/0");
        bytes.extend_from_slice(browser.codec.pending());
        browser.codec.mark_written(browser.codec.pending().len());
        bytes.extend(after(id));
    }
    browser.stream.write_all(&bytes).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    drop(browser);
    wait_until_idle(stage).await;
    stage.metric_value("fairway_faults_total{reason=\"client_gone\"}") - before
}

const REQUESTS_IN_ONE_WRITE: u64 = 90;

/// A frame of this type and flags on a stream.
fn frame_on(id: u32, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let header = [&[0, 0, payload.len() as u8, kind, flags][..], &id.to_be_bytes()].concat();
    [&header, payload].concat()
}

#[tokio::test(start_paused = true)]
async fn a_request_reset_in_the_same_read_reaches_no_endpoint() {
    let ways: [fn(u32) -> Vec<u8>; 7] = [
        // CVE-2023-44487
        |id| frame_on(id, 3, 0, &8_u32.to_be_bytes()),
        // CVE-2025-8671: WINDOW_UPDATE, PRIORITY, HEADERS and DATA for which the server must reset the stream.
        |id| frame_on(id, 8, 0, &[0; 4]),
        |id| frame_on(id, 8, 0, &0x7fff_ffff_u32.to_be_bytes()),
        |id| frame_on(id, 2, 0, &[0; 4]),
        |id| frame_on(id, 2, 0, &[&id.to_be_bytes()[..], &[16]].concat()),
        |id| frame_on(id, 1, 5, &[0x82, 0x86, 0x84]),
        |id| frame_on(id, 0, 1, b"x"),
    ];
    for (way, after) in ways.into_iter().enumerate() {
        run_local(async move {
            let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
            assert_eq!(
                cancelled_in_one_write(&stage, after).await,
                REQUESTS_IN_ONE_WRITE,
                "way {way} is not counted"
            );
            assert_eq!(stage.connects(), [], "way {way}: nothing waits for a response");
            assert_eq!(stage.metric_value("fairway_upstream_requests_total"), 0);
        })
        .await;
    }
}

/// Value of an event counter.
fn event_count(stage: &TestWorker, event: &str, reason: &str) -> u64 {
    stage.metric_value(&format!("fairway_http2_events_total{{event=\"{event}\",reason=\"{reason}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn ended_streams_and_connections_are_counted_by_reason() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/5000");
        browser.flush().await;
        // A WINDOW_UPDATE of nothing ends its stream (RFC 9113 §6.9).
        let nothing = [0, 0, 4, 8, 0, 0, 0, 0, id as u8, 0, 0, 0, 0];
        browser.stream.write_all(&nothing).await.unwrap();
        assert_eq!(browser.response(id).await.reset, Some(Code::Protocol));
        assert_eq!(event_count(&stage, "stream_fault", "increment_zero"), 1);
        // More PINGs than are answered.
        for _ in 0..600 {
            browser.codec.ping(*b"flooding");
        }
        let flood = browser.codec.pending().to_vec();
        let mut rest = Vec::new();
        browser.stream.write_all(&flood).await.unwrap();
        _ = browser.stream.read_to_end(&mut rest).await;
        assert_eq!(event_count(&stage, "warned", "abuse"), 1);
        assert_eq!(event_count(&stage, "connection_fault", "abuse"), 1);
        assert_eq!(event_count(&stage, "goaway_sent", "no_error"), 1);
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_header_block_ends_with_the_head_timeout() {
    run_local(async {
        let patience = Duration::from_secs(7);
        let stage = TestWorker::new(
            1,
            |_, settings| settings.downstream.head_timeout = patience,
            |_| ScriptedConnect::served_by(serve_echo),
        );
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200);
        // HEADERS with `:method: GET` and no END_HEADERS (RFC 9113 §6.2).
        let began = Instant::now();
        browser.stream.write_all(&[0, 0, 1, 1, 1, 0, 0, 0, 3, 0x82]).await.unwrap();
        let mut rest = Vec::new();
        browser.stream.read_to_end(&mut rest).await.unwrap();
        let took = began.elapsed();
        assert!((patience..patience + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert!(rest.ends_with(b"head_timeout"), "GOAWAY says why");
        assert_eq!(event_count(&stage, "connection_fault", "head_timeout"), 1);
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_client_stops_the_endpoint_and_is_closed() {
    run_local(async {
        let written = Rc::new(Cell::new(0));
        let counter = Rc::clone(&written);
        let stage = TestWorker::new(
            1,
            |_, _| {},
            move |_| {
                let counter = Rc::clone(&counter);
                ScriptedConnect::served_by(move |mut stream| async move {
                    assert!(read_head(&mut stream).await);
                    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n";
                    stream.write_all(head).await.unwrap();
                    while stream.write_all(&[b'x'; 1000]).await.is_ok() {
                        counter.set(counter.get() + 1000);
                    }
                })
            },
        );
        let mut browser =
            Http2TestClient::with_config(&stage, Config { stream_window: 16 * 1024, ..Config::default() });
        browser.consumes = false;
        let id = browser.get("/");
        let began = Instant::now();
        browser.run_until("a window full", |browser| browser.responses[&id].body.len() == 16 * 1024).await;
        sleep(Duration::from_secs(1)).await;
        // The client's window and the pipe to the endpoint; the proxy itself reads nothing beyond.
        assert!(written.get() <= 16 * 1024 + 64 * 1024 + 1000, "{} bytes were taken", written.get());
        assert!(browser.response(id).await.reset.is_some());
        assert!(began.elapsed() >= Duration::from_secs(30), "after {:?}", began.elapsed());
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_draining_worker_closes_the_connection_after_the_last_response() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/3000");
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        stage.worker.enter_phase(StopPhase::Draining);
        browser.run_until("GOAWAY", |browser| browser.goaway_last_stream.is_some()).await;
        assert_eq!(browser.response(id).await.body, b"/3000");
        browser.run_until("the end", |browser| browser.is_closed).await;
        assert_eq!(browser.goaway_last_stream, Some(id), "the second GOAWAY says which stream was the last");
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn streams_open_at_the_drain_timeout_are_reset() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::Silence);
        let mut browser = Http2TestClient::new(&stage);
        let ids = [browser.get("/1"), browser.get("/2")];
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        stage.worker.enter_phase(StopPhase::Draining);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.worker.exchanges(), 2);
        stage.worker.enter_phase(StopPhase::Cutting);
        browser.run_until("the end", |browser| browser.is_closed).await;
        for id in ids {
            assert_eq!(browser.responses[&id].reset, Some(Code::Internal));
        }
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"drained\"}"), 2);
        assert_eq!(stage.metric_value("fairway_self_inflicted_errors_total{cause=\"roll\"}"), 2);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_during_the_drain_delay_is_served_before_goaway() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        stage.worker.enter_phase(StopPhase::Leaving);
        let mut browser = Http2TestClient::new(&stage);
        browser.flush().await;
        sleep(Duration::from_secs(2)).await;
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200);
        browser.run_until("GOAWAY", |browser| browser.goaway_last_stream.is_some()).await;
        browser.run_until("the end", |browser| browser.is_closed).await;
        let mut idle = Http2TestClient::new(&stage);
        idle.flush().await;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(idle.goaway_last_stream, None);
        stage.worker.enter_phase(StopPhase::Draining);
        idle.run_until("the end", |idle| idle.is_closed).await;
        assert!(idle.goaway_last_stream.is_some(), "then everyone gets GOAWAY");
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_after_the_idle_timeout() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/0");
        browser.response(id).await;
        let idle = stage.worker.adopted().settings().downstream.idle_timeout;
        let began = Instant::now();
        browser.run_until("the end", |browser| browser.is_closed).await;
        assert!(
            began.elapsed() >= idle && began.elapsed() < idle + Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        assert!(browser.goaway_last_stream.is_some(), "it gets GOAWAY");
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pings_do_not_keep_an_idle_connection_open() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        for asked in [true, false] {
            let mut browser = Http2TestClient::new(&stage);
            if asked {
                let id = browser.get("/90000");
                browser.response(id).await;
            }
            let idle = stage.worker.adopted().settings().downstream.idle_timeout;
            let began = Instant::now();
            while !browser.is_closed {
                assert!(began.elapsed() < idle + Duration::from_secs(5), "{:?}", began.elapsed());
                browser.codec.ping(*b"anybody?");
                // Until nothing arrives for a second.
                let quiet = browser.run_until("the end", |browser| browser.is_closed);
                _ = timeout(Duration::from_secs(1), quiet).await;
            }
            assert!(began.elapsed() >= idle, "{:?}", began.elapsed());
            assert!(browser.goaway_last_stream.is_some(), "it gets GOAWAY");
            wait_until_idle(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_with_an_open_stream_is_pinged_and_then_closed() {
    run_local(async {
        let patient =
            |policy: &mut Policy, _: &mut Settings| policy.timeouts.read = Duration::from_secs(3600);
        let stage = TestWorker::new(1, patient, |_| ScriptedConnect::served_by(serve_echo));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/0");
        browser.response(id).await;
        browser.get("/3000000");
        browser.flush().await;
        let began = Instant::now();
        let mut bytes = Vec::new();
        // It reads, but sends nothing.
        browser.stream.read_to_end(&mut bytes).await.unwrap();
        let took = began.elapsed().as_secs();
        assert!((75..80).contains(&took), "60 s of silence and 15 s for the PING response, not {took}");
        assert!(bytes.windows(8).any(|eight| eight == b"are you?"));
        drop(browser);
        wait_until_idle(&stage).await;

        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/300000");
        assert_eq!(browser.response(id).await.status, 200, "PINGs were answered");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_and_interim_responses_pass() {
    async fn with_trailers(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        let response = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Checksum\r\n\r\n\
            3\r\nabc\r\n0\r\nChecksum: 17\r\n\r\n";
        stream.write_all(response).await.unwrap();
    }
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(with_trailers));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/");
        let response = browser.response(id).await;
        assert_eq!(
            (response.status, &response.interim[..], &response.body[..]),
            (200, &[103][..], &b"abc"[..])
        );
        assert_eq!(response.trailers, [(b"checksum".to_vec(), b"17".to_vec())]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_truncated_response_is_a_reset() {
    async fn breaking(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").await.unwrap();
    }
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(breaking));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.get("/");
        let response = browser.response(id).await;
        assert_eq!(
            (response.status, response.is_complete, response.reset),
            (200, false, Some(Code::Internal))
        );
        let id = browser.get("/");
        browser.run_until("another head", |browser| browser.responses[&id].status == 200).await;
    })
    .await;
}

/// Wherever a connection is dropped, all counts return to zero.
#[tokio::test(start_paused = true)]
async fn a_connection_can_be_dropped_at_any_point() {
    run_local(async {
        for step in 0..60 {
            let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
            let (client, serving) = stage.unserved_client();
            let mut browser = Http2TestClient { stream: client.stream, ..Http2TestClient::new(&stage) };
            (0..4).for_each(|at| _ = browser.get(&format!("/{at}")));
            browser.flush().await;
            let polls = RefCell::new(0);
            let mut serving = Box::pin(serving);
            let reader = std::future::poll_fn(|cx| {
                *polls.borrow_mut() += 1;
                if *polls.borrow() > step {
                    return std::task::Poll::Ready(());
                }
                serving.as_mut().poll(cx)
            });
            let _ = timeout(Duration::from_secs(1), reader).await;
            drop(serving);
            drop(browser);
            wait_until_idle(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_preface_is_refused_as_http1() {
    run_local(async {
        let stage = TestWorker::new(
            1,
            |_, _| {},
            |to| {
                assert_eq!(to, endpoint(0));
                ScriptedConnect::served_by(|mut stream| async move {
                    read_head(&mut stream).await;
                    stream.write_all(OK_RESPONSE).await.unwrap();
                })
            },
        );
        let mut client = stage.client();
        assert_eq!(client.request("PRI * HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().status, 400);
    })
    .await;
}
