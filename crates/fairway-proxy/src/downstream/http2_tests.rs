//! Connections of HTTP/2 clients in virtual time: the codec's other end asks, scripted endpoints of HTTP/1 answer.

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

use crate::testing::{Meeting, OK, Stage, endpoint, on_stage, read_head};
use crate::worker::Phase;

/// What came of a stream.
#[derive(Default)]
pub(super) struct Answer {
    /// 0 before its final head.
    pub(super) status: u16,
    /// Of its final head.
    pub(super) fields: Vec<(Vec<u8>, Vec<u8>)>,
    interim: Vec<u16>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) is_whole: bool,
    pub(super) reset: Option<Code>,
}

/// A client.
pub(super) struct Browser {
    stream: DuplexStream,
    pub(super) codec: Client,
    head: Head,
    input: Vec<u8>,
    pub(super) answers: BTreeMap<u32, Answer>,
    /// The last stream of the server's GOAWAY.
    pub(super) goes_away: Option<u32>,
    /// Whether what comes is given credit for.
    pub(super) consumes: bool,
    /// Streams that are not given up when an answer ends.
    pub(super) kept: Vec<u32>,
    is_closed: bool,
}

impl Browser {
    pub(super) fn new(stage: &Stage) -> Self {
        Self::with(stage, Config::default())
    }

    pub(super) fn with(stage: &Stage, config: Config) -> Self {
        Self {
            stream: stage.client().stream,
            codec: Client::new(config, 0),
            head: Head::new(),
            input: Vec::new(),
            answers: BTreeMap::new(),
            goes_away: None,
            consumes: true,
            kept: Vec::new(),
            is_closed: false,
        }
    }

    /// Asks for `path`; `end` says whether that is all of the request.
    fn ask(&mut self, method: &[u8], path: &[u8], end: bool) -> u32 {
        self.ask_with(method, path, &[], end)
    }

    /// The same with more fields.
    pub(super) fn ask_with(&mut self, method: &[u8], path: &[u8], fields: &[(&str, &str)], end: bool) -> u32 {
        let mut head = Head::new();
        head.start_request(method, path);
        head.append(b"Host", b"a");
        fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        let id = self.codec.send_head(&head, path, b"http", end).expect("the server takes one more");
        self.answers.insert(id, Answer::default());
        id
    }

    pub(super) fn get(&mut self, path: &str) -> u32 {
        self.ask(b"GET", path.as_bytes(), true)
    }

    pub(super) async fn flush(&mut self) {
        let pending = self.codec.pending().to_vec();
        if self.stream.write_all(&pending).await.is_ok() {
            self.codec.wrote(pending.len());
        }
    }

    /// Writes and reads until `is_done`; panics after an hour of virtual time.
    pub(super) async fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let done = async {
            loop {
                self.flush().await;
                if is_done(self) {
                    return;
                }
                let before = self.input.len();
                match self.stream.read_buf(&mut self.input).await {
                    Ok(1..) => self.take(),
                    Ok(0) | Err(_) => {
                        self.is_closed = true;
                        assert!(is_done(self), "the connection ended before: {what}; {before} bytes left");
                        return;
                    }
                }
            }
        };
        timeout(Duration::from_secs(3600), done).await.unwrap_or_else(|_| panic!("an hour without: {what}"));
    }

    /// Reads once, and so many bytes at most.
    pub(super) async fn sip(&mut self, most: usize) {
        let mut piece = vec![0; most];
        let count = self.stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "the connection ended");
        self.input.extend_from_slice(&piece[..count]);
        self.take();
        self.flush().await;
    }

    fn take(&mut self) {
        let mut used = 0;
        loop {
            let (count, event) = self.codec.receive(0, &self.input[used..], &mut self.head);
            used += count;
            match event {
                Event::NeedMore | Event::Wait(_) => break,
                Event::Head { stream, end, .. } => {
                    let answer = self.answers.get_mut(&stream).unwrap();
                    match self.head.status() {
                        interim @ 100..=199 => answer.interim.push(interim),
                        status => {
                            (answer.status, answer.is_whole) = (status, end);
                            let fields = self.head.fields();
                            answer.fields =
                                fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                        }
                    }
                }
                Event::Data { stream, bytes, end } => {
                    let answer = self.answers.get_mut(&stream).unwrap();
                    answer.body.extend_from_slice(bytes);
                    answer.is_whole = end;
                    let count = bytes.len() as u32;
                    if self.consumes {
                        self.codec.consume(stream, count);
                    }
                }
                Event::Trailers { stream } => {
                    let answer = self.answers.get_mut(&stream).unwrap();
                    answer.is_whole = true;
                    let fields = self.head.fields();
                    answer.trailers =
                        fields.map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                }
                Event::Reset { stream, code, .. } => {
                    self.answers.get_mut(&stream).unwrap().reset = Some(code);
                }
                Event::GoAway { last, .. } => self.goes_away = Some(last),
                Event::Closed(fault) => panic!("the server broke a rule: {fault:?}"),
                _ => {}
            }
        }
        self.input.drain(..used);
        let over = self.answers.iter().filter(|(id, one)| one.is_over() && !self.kept.contains(id));
        let over: Vec<u32> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.codec.release(id));
    }

    pub(super) async fn answered(&mut self, id: u32) -> &Answer {
        self.until("an answer", |browser| browser.answers[&id].is_over()).await;
        &self.answers[&id]
    }
}

impl Answer {
    pub(super) fn is_over(&self) -> bool {
        self.is_whole || self.reset.is_some()
    }
}

/// Ends when the proxy has closed its side and nothing is under way.
pub(super) async fn comes_to_rest(stage: &Stage) {
    for _ in 0..1_000 {
        if stage.at_rest().is_ok() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    stage.at_rest().unwrap();
}

/// Answers with the path as body, each after as many milliseconds as the path says.
pub(super) async fn echoing(mut stream: DuplexStream) {
    while let Some(path) = read_path(&mut stream).await {
        let wait = path.trim_start_matches('/').parse().unwrap_or(0);
        sleep(Duration::from_millis(wait)).await;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
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
async fn a_hundred_streams_at_once_get_their_own_answers_as_they_come() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let began = Instant::now();
        let ids: Vec<u32> = (0..100).map(|at| browser.get(&format!("/{}", 1000 - 7 * at))).collect();
        browser.until("all answers", |browser| browser.answers.values().all(Answer::is_over)).await;
        assert!(began.elapsed() < Duration::from_millis(1100), "they wait side by side");
        assert_eq!(stage.value("fairway_http2_streams_open"), 0);
        for (at, id) in ids.into_iter().enumerate() {
            let answer = &browser.answers[&id];
            assert_eq!((answer.status, &answer.body[..]), (200, format!("/{}", 1000 - 7 * at).as_bytes()));
        }
        let id = browser.get("/again");
        assert_eq!(browser.answered(id).await.body, b"/again", "a slot is used again");
        drop(browser);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_its_exchange_and_no_other() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let (first, second) = (browser.get("/500"), browser.get("/600"));
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.worker.exchanges(), 2);
        assert_eq!(stage.value("fairway_http2_streams_open"), 2);
        browser.codec.reset(first, Code::Cancel);
        browser.flush().await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(stage.worker.exchanges(), 1, "it ended at once");
        assert_eq!(stage.value("fairway_http2_streams_open"), 1);
        assert_eq!(events(&stage, "reset_received", "cancel"), 1);
        assert_eq!(browser.answered(second).await.body, b"/600");
        assert_eq!(browser.answers[&first].status, 0);
        drop(browser);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_its_exchanges_with_it() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/5000"));
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.worker.exchanges(), 20);
        drop(browser);
        sleep(Duration::from_millis(1)).await;
        stage.at_rest().unwrap();
    })
    .await;
}

/// Requests in one write, each with the frame `after` right behind it; gives how many of them ended as cancelled.
async fn cancelled_at_once(stage: &Stage, after: impl Fn(u32) -> Vec<u8>) -> u64 {
    let before = stage.value("fairway_faults_total{reason=\"client_gone\"}");
    let mut browser = Browser::new(stage);
    let mut bytes = Vec::new();
    for _ in 0..ALL_AT_ONCE {
        let id = browser.get("/0");
        bytes.extend_from_slice(browser.codec.pending());
        browser.codec.wrote(browser.codec.pending().len());
        bytes.extend(after(id));
    }
    browser.stream.write_all(&bytes).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    drop(browser);
    comes_to_rest(stage).await;
    stage.value("fairway_faults_total{reason=\"client_gone\"}") - before
}

const ALL_AT_ONCE: u64 = 90;

/// A frame of this type and these flags on a stream.
fn frame_on(id: u32, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let header = [&[0, 0, payload.len() as u8, kind, flags][..], &id.to_be_bytes()].concat();
    [&header, payload].concat()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_reset_in_the_read_that_brought_it_reaches_no_endpoint() {
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
        on_stage(async move {
            let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
            assert_eq!(cancelled_at_once(&stage, after).await, ALL_AT_ONCE, "way {way} is not counted");
            assert_eq!(stage.connects(), [], "way {way}: nobody waits for an answer");
            assert_eq!(stage.value("fairway_upstream_requests_total"), 0);
        })
        .await;
    }
}

/// How often something happened on connections.
fn events(stage: &Stage, event: &str, reason: &str) -> u64 {
    stage.value(&format!("fairway_http2_events_total{{event=\"{event}\",reason=\"{reason}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn what_ends_streams_and_connections_is_counted_by_reason() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/5000");
        browser.flush().await;
        // A WINDOW_UPDATE of nothing ends its stream (RFC 9113 §6.9).
        let nothing = [0, 0, 4, 8, 0, 0, 0, 0, id as u8, 0, 0, 0, 0];
        browser.stream.write_all(&nothing).await.unwrap();
        assert_eq!(browser.answered(id).await.reset, Some(Code::Protocol));
        assert_eq!(events(&stage, "stream_fault", "increment_zero"), 1);
        // More PINGs than are worth an answer.
        for _ in 0..600 {
            browser.codec.ping(*b"flooding");
        }
        let flood = browser.codec.pending().to_vec();
        let mut rest = Vec::new();
        browser.stream.write_all(&flood).await.unwrap();
        _ = browser.stream.read_to_end(&mut rest).await;
        assert_eq!(events(&stage, "warned", "abuse"), 1);
        assert_eq!(events(&stage, "connection_fault", "abuse"), 1);
        assert_eq!(events(&stage, "goaway_sent", "no_error"), 1);
        drop(browser);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_field_block_without_end_is_given_up_with_the_time_for_a_head() {
    on_stage(async {
        let patience = Duration::from_secs(7);
        let stage = Stage::new(
            1,
            |_, settings| settings.downstream.head_timeout = patience,
            |_| Meeting::with(echoing),
        );
        let mut browser = Browser::new(&stage);
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200);
        // HEADERS with `:method: GET` and no END_HEADERS (RFC 9113 §6.2).
        let began = Instant::now();
        browser.stream.write_all(&[0, 0, 1, 1, 1, 0, 0, 0, 3, 0x82]).await.unwrap();
        let mut rest = Vec::new();
        browser.stream.read_to_end(&mut rest).await.unwrap();
        let took = began.elapsed();
        assert!((patience..patience + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert!(rest.ends_with(b"head_timeout"), "GOAWAY says why");
        assert_eq!(events(&stage, "connection_fault", "head_timeout"), 1);
        drop(browser);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_stops_the_endpoint_and_is_given_up() {
    on_stage(async {
        let written = Rc::new(Cell::new(0));
        let counter = Rc::clone(&written);
        let stage = Stage::new(
            1,
            |_, _| {},
            move |_| {
                let counter = Rc::clone(&counter);
                Meeting::with(move |mut stream| async move {
                    assert!(read_head(&mut stream).await);
                    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n";
                    stream.write_all(head).await.unwrap();
                    while stream.write_all(&[b'x'; 1000]).await.is_ok() {
                        counter.set(counter.get() + 1000);
                    }
                })
            },
        );
        let mut browser = Browser::with(&stage, Config { stream_window: 16 * 1024, ..Config::default() });
        browser.consumes = false;
        let id = browser.get("/");
        let began = Instant::now();
        browser.until("a window full", |browser| browser.answers[&id].body.len() == 16 * 1024).await;
        sleep(Duration::from_secs(1)).await;
        // A window at the client, and what the pipe to the endpoint holds; the proxy itself reads nothing beyond.
        assert!(written.get() <= 16 * 1024 + 64 * 1024 + 1000, "{} bytes were taken", written.get());
        assert!(browser.answered(id).await.reset.is_some());
        assert!(began.elapsed() >= Duration::from_secs(30), "after {:?}", began.elapsed());
        drop(browser);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_drains_ends_the_connection_behind_the_last_answer() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/3000");
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        stage.worker.enter(Phase::Draining);
        browser.until("GOAWAY", |browser| browser.goes_away.is_some()).await;
        assert_eq!(browser.answered(id).await.body, b"/3000");
        browser.until("the end", |browser| browser.is_closed).await;
        assert_eq!(browser.goes_away, Some(id), "the second GOAWAY says which stream was the last");
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_open_when_the_time_of_a_drain_is_over_is_reset() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::Silence);
        let mut browser = Browser::new(&stage);
        let ids = [browser.get("/1"), browser.get("/2")];
        browser.flush().await;
        sleep(Duration::from_millis(100)).await;
        stage.worker.enter(Phase::Draining);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.worker.exchanges(), 2);
        stage.worker.enter(Phase::Cutting);
        browser.until("the end", |browser| browser.is_closed).await;
        for id in ids {
            assert_eq!(browser.answers[&id].reset, Some(Code::Internal));
        }
        assert_eq!(stage.value("fairway_faults_total{reason=\"drained\"}"), 2);
        assert_eq!(stage.value("fairway_self_inflicted_errors_total{cause=\"roll\"}"), 2);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_a_worker_leaves_is_served_before_it_is_told_to_go() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        stage.worker.enter(Phase::Leaving);
        let mut browser = Browser::new(&stage);
        browser.flush().await;
        sleep(Duration::from_secs(2)).await;
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200);
        browser.until("GOAWAY", |browser| browser.goes_away.is_some()).await;
        browser.until("the end", |browser| browser.is_closed).await;
        let mut idle = Browser::new(&stage);
        idle.flush().await;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(idle.goes_away, None);
        stage.worker.enter(Phase::Draining);
        idle.until("the end", |idle| idle.is_closed).await;
        assert!(idle.goes_away.is_some(), "then everybody is told");
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_streams_ends_after_the_idle_time() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/0");
        browser.answered(id).await;
        let idle = stage.worker.adopted().settings().downstream.idle_timeout;
        let began = Instant::now();
        browser.until("the end", |browser| browser.is_closed).await;
        assert!(
            began.elapsed() >= idle && began.elapsed() < idle + Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        assert!(browser.goes_away.is_some(), "it is told");
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pings_do_not_keep_a_connection_without_streams_open() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        for asked in [true, false] {
            let mut browser = Browser::new(&stage);
            if asked {
                let id = browser.get("/90000");
                browser.answered(id).await;
            }
            let idle = stage.worker.adopted().settings().downstream.idle_timeout;
            let began = Instant::now();
            while !browser.is_closed {
                assert!(began.elapsed() < idle + Duration::from_secs(5), "{:?}", began.elapsed());
                browser.codec.ping(*b"anybody?");
                // Until nothing comes for a second.
                let quiet = browser.until("the end", |browser| browser.is_closed);
                _ = timeout(Duration::from_secs(1), quiet).await;
            }
            assert!(began.elapsed() >= idle, "{:?}", began.elapsed());
            assert!(browser.goes_away.is_some(), "it is told");
            comes_to_rest(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_silent_with_a_stream_open_is_asked_and_ended_where_it_says_nothing() {
    on_stage(async {
        let patient =
            |policy: &mut Policy, _: &mut Settings| policy.timeouts.read = Duration::from_secs(3600);
        let stage = Stage::new(1, patient, |_| Meeting::with(echoing));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/0");
        browser.answered(id).await;
        browser.get("/3000000");
        browser.flush().await;
        let began = Instant::now();
        let mut bytes = Vec::new();
        // It reads, and answers nothing.
        browser.stream.read_to_end(&mut bytes).await.unwrap();
        let took = began.elapsed().as_secs();
        assert!((75..80).contains(&took), "60 s of silence and 15 s for the answer, not {took}");
        assert!(bytes.windows(8).any(|eight| eight == b"are you?"));
        drop(browser);
        comes_to_rest(&stage).await;

        let mut browser = Browser::new(&stage);
        let id = browser.get("/300000");
        assert_eq!(browser.answered(id).await.status, 200, "PINGs were answered");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn trailers_and_interim_answers_pass() {
    async fn with_trailers(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        let answer = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Checksum\r\n\r\n\
            3\r\nabc\r\n0\r\nChecksum: 17\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    }
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(with_trailers));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/");
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, &answer.interim[..], &answer.body[..]), (200, &[103][..], &b"abc"[..]));
        assert_eq!(answer.trailers, [(b"checksum".to_vec(), b"17".to_vec())]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_a_reset() {
    async fn breaking(mut stream: DuplexStream) {
        assert!(read_head(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").await.unwrap();
    }
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(breaking));
        let mut browser = Browser::new(&stage);
        let id = browser.get("/");
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, answer.is_whole, answer.reset), (200, false, Some(Code::Internal)));
        let id = browser.get("/");
        browser.until("another head", |browser| browser.answers[&id].status == 200).await;
    })
    .await;
}

/// Wherever a connection is dropped, every count comes to rest.
#[tokio::test(start_paused = true)]
async fn a_connection_can_be_dropped_at_any_point() {
    on_stage(async {
        for step in 0..60 {
            let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
            let (client, serving) = stage.unserved();
            let mut browser = Browser { stream: client.stream, ..Browser::new(&stage) };
            (0..4).for_each(|at| _ = browser.get(&format!("/{at}")));
            browser.flush().await;
            let polls = RefCell::new(0);
            let mut serving = Box::pin(serving);
            let some = std::future::poll_fn(|cx| {
                *polls.borrow_mut() += 1;
                if *polls.borrow() > step {
                    return std::task::Poll::Ready(());
                }
                serving.as_mut().poll(cx)
            });
            let _ = timeout(Duration::from_secs(1), some).await;
            drop(serving);
            drop(browser);
            comes_to_rest(&stage).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_preface_is_refused_as_before() {
    on_stage(async {
        let stage = Stage::new(
            1,
            |_, _| {},
            |to| {
                assert_eq!(to, endpoint(0));
                Meeting::with(|mut stream| async move {
                    read_head(&mut stream).await;
                    stream.write_all(OK).await.unwrap();
                })
            },
        );
        let mut client = stage.client();
        assert_eq!(client.ask("PRI * HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap().status, 400);
    })
    .await;
}
