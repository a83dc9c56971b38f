//! The load generator over real sockets: what it counts, what it calls errors, when requests are sent.

#![allow(
    clippy::unwrap_used,
    reason = "a test may; clippy does not see that functions beside tests are tests"
)]

mod frames;
mod http2;
mod tls;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairway_echo::{EchoOptions, EchoServer};
use fairway_lab_measure::results::Class;
use fairway_lab_traffic::backend::{Collector, Options, Server};
use fairway_lab_traffic::load::{
    Outcome, Pace, Plan, Protocol, Reuse, Stream, TlsPlan, TlsVersion, Verify, at_percent,
};
use fairway_testkit::{Answer, Authority, Backend, Step, free_port};

/// A timeout that a test lets pass. What has to happen before it takes milliseconds.
const SHORT: Duration = Duration::from_secs(1);

/// So many requests, one after another at a rate, over one connection.
fn plan(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = Plan::to(&format!("http://{address}/")).unwrap();
    plan.pace = Pace::Open { rate: 200.0, poisson: false };
    plan.bounds.requests = Some(requests);
    plan.bounds.duration = None;
    plan
}

async fn run(plan: Plan) -> Outcome {
    tokio::task::spawn_blocking(move || Stream::start(plan).unwrap().join().unwrap()).await.unwrap()
}

/// What a script makes of a single request.
async fn class_after(script: Vec<Step>) -> (Class, String) {
    let backend = Backend::scripted(script).await;
    only_error(&run(plan(backend.address(), 1)).await)
}

/// The same where the script leaves the client waiting.
async fn class_of_waiting(script: Vec<Step>) -> (Class, String) {
    let backend = Backend::scripted(script).await;
    let mut plan = plan(backend.address(), 1);
    plan.bounds.timeout = SHORT;
    only_error(&run(plan).await)
}

fn only_error(outcome: &Outcome) -> (Class, String) {
    let load = &outcome.load;
    assert_eq!((load.counts.requests, load.counts.ok), (1, 0), "{:?}", load.errors);
    assert_eq!(load.errors.values().sum::<u64>(), 1, "{:?}", load.errors);
    (load.examples[0].class, load.examples[0].text.clone())
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_told_by_where_it_broke_off() {
    let head = || send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    let part = || send("HTTP/1.1 200 OK\r\nConte");
    assert_eq!(class_after(vec![Step::ReadRequest, Step::Close]).await.0, Class::ReadEof);
    assert_eq!(class_after(vec![Step::ReadRequest, part(), Step::Close]).await.0, Class::ReadEof);
    assert_eq!(class_after(vec![Step::ReadRequest, Step::Reset]).await.0, Class::ReadReset);
    assert_eq!(class_after(vec![Step::ReadRequest, head(), Step::Close]).await.0, Class::Truncated);
    assert_eq!(class_of_waiting(vec![Step::ReadRequest]).await.0, Class::HeadTimeout);
    assert_eq!(class_of_waiting(vec![Step::ReadRequest, part()]).await.0, Class::HeadTimeout);
    let (class, text) = class_of_waiting(vec![Step::ReadRequest, head()]).await;
    assert_eq!(class, Class::BodyTimeout);
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
}

#[tokio::test]
async fn bytes_that_are_no_answer_are_malformed() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
    assert_eq!(class_after(vec![Step::ReadRequest, send("220 smtp\r\n")]).await.0, Class::Malformed);
    let (class, text) = class_after(vec![Step::ReadRequest, send(answer)]).await;
    assert_eq!(class, Class::Malformed);
    assert_eq!(text, "1 bytes after the end of the answer");
}

#[tokio::test]
async fn a_request_that_cannot_be_written_is_a_write_error() {
    let backend = Backend::scripted([Step::ReadHead, Step::Reset]).await;
    let mut plan = plan(backend.address(), 1);
    plan.request.method = "POST".to_owned();
    plan.request.body = vec![b'x'; 64 * 1024 * 1024].into();
    assert_eq!(only_error(&run(plan).await).0, Class::Write);
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_fails_each_request_that_needed_it() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let load = run(plan(address, 8)).await.load;
    assert_eq!(load.errors.iter().collect::<Vec<_>>(), [(&Class::ConnectRefused, &8)]);
    assert_eq!(load.examples.len(), 5);
    assert!(load.examples.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
    assert_eq!(load.counts.connections, 0);
}

#[tokio::test]
async fn a_connection_to_where_nothing_can_be_is_told_apart_from_one_that_is_refused() {
    // The broadcast address of loopback: TCP has no route to it, and nothing leaves the machine.
    let (class, text) = only_error(&run(plan("127.255.255.255:80".parse().unwrap(), 1)).await);
    assert_eq!(class, Class::ConnectOther);
    assert!(text.contains("unreachable"), "{text}");
}

#[tokio::test]
async fn a_connection_that_is_not_taken_times_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Fills the line of connections that nobody accepts.
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, SHORT) {
        waiting.push(stream);
    }
    let mut plan = plan(address, 1);
    plan.bounds.timeout = SHORT;
    assert_eq!(only_error(&run(plan).await).0, Class::ConnectTimeout);
}

#[tokio::test]
async fn tls_that_fails_is_not_taken_for_a_connection_that_fails() {
    let refusing = Backend::scripted([Step::ReadBody(1), send("HTTP/1.1 400 Bad\r\n\r\n")]).await;
    let silent = Backend::scripted([]).await;
    for (backend, class) in [(refusing, Class::Tls), (silent, Class::TlsTimeout)] {
        let mut plan = plan(backend.address(), 1);
        plan.wire.tls = Some(TlsPlan::default());
        if class == Class::TlsTimeout {
            plan.bounds.timeout = SHORT;
        }
        assert_eq!(only_error(&run(plan).await).0, class);
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_fails_when_it_is_verified() {
    let authority = Authority::new("lab");
    let config = authority.leaf(&["a.test"]).server_config(&["http/1.1"]);
    let backend = Backend::https(config, |_| Answer::ok("")).await;
    for (name, class) in [("a.test", None), ("b.test", Some(Class::Tls))] {
        let mut plan = Plan::at(&format!("https://{name}/"), vec![backend.address()]).unwrap();
        plan.bounds.requests = Some(1);
        plan.wire.tls.as_mut().unwrap().verify = Verify::Roots(authority.pem().to_owned());
        let outcome = run(plan).await;
        assert_eq!(outcome.load.examples.first().map(|example| example.class), class, "{name}");
    }
}

#[tokio::test]
async fn statuses_and_routes_that_were_not_expected_have_classes_of_their_own() {
    let backend = Backend::http(|request| match request.target.as_str() {
        "/busy" => Answer::status(503, ""),
        "/other" => Answer::with_headers(200, &[("X-Lab-Backend", "other")], ""),
        _ => Answer::with_headers(200, &[("X-Lab-Backend", "mine")], ""),
    })
    .await;
    let mut plan = plan(backend.address(), 9);
    plan.request.paths = vec!["/".into(), "/busy".into(), "/other".into()];
    plan.expect.header = Some(("X-Lab-Backend".into(), "mine".into()));
    let load = run(plan).await.load;
    assert_eq!(load.counts.ok, 3);
    assert_eq!(
        load.errors.into_iter().collect::<Vec<_>>(),
        [(Class::Status(503), 3), (Class::WrongRoute, 3)]
    );
    assert_eq!(load.latency.count, 9, "answers of every status have a latency");
}

#[tokio::test]
async fn what_was_due_and_never_sent_is_said() {
    let backend = Backend::http(|_| Answer::Silence).await;
    let mut plan = plan(backend.address(), 1_000);
    plan.pace = Pace::Open { rate: 1_000.0, poisson: false };
    plan.bounds.requests = None;
    plan.bounds.duration = Some(SHORT);
    plan.bounds.timeout = SHORT;
    let load = run(plan).await.load;
    assert_eq!(load.counts.requests, 1_000);
    assert_eq!(load.errors.values().sum::<u64>(), 1_000, "{:?}", load.errors);
    assert!(load.errors[&Class::NotSent] >= 950, "{:?}", load.errors);
}

/// Answers one connection after another with an empty 200, and calls `before` with the number of each request.
fn blocking_server(before: impl Fn(u64) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (before, number) = (Arc::new(before), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, before, number) = (stream.unwrap(), before.clone(), number.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while stream.read(&mut bytes).is_ok_and(|length| length > 0) {
                    before(number.fetch_add(1, Ordering::Relaxed));
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_stall_is_seen_by_all_requests_that_were_due_meanwhile() {
    let stall = Duration::from_secs(1);
    let address = blocking_server(move |number| {
        if number == 200 {
            std::thread::sleep(stall);
        }
    });
    let mut plan = plan(address, 2_000);
    plan.pace = Pace::Open { rate: 1_000.0, poisson: false };
    let load = run(plan).await.load;
    assert_eq!(load.counts.ok, 2_000);
    // 1,000 of 2,000 were due in the stall and waited 500 ms on average; one was sent in it.
    let latency = at_percent(&load.latency, 90.0).unwrap();
    assert!(latency >= 400.0, "p90 from the intended time: {latency} ms");
    // They are sent one after the other: a tenth of them takes as long only on a machine that stands still for 40 s.
    let service = at_percent(&load.service, 90.0).unwrap();
    assert!(service < 200.0, "p90 from the send time: {service} ms");
    assert!(load.service.max_ms >= 999.0, "{}", load.service.max_ms);
    let piece = load.over_time.series.iter().map(|bucket| bucket.max_ms).fold(0.0, f64::max);
    assert!(piece >= 999.0, "{piece}");
}

#[tokio::test]
async fn a_constant_rate_is_kept_and_sums_agree() {
    let address = blocking_server(|_| {});
    let mut plan = plan(address, 0);
    plan.pace = Pace::Open { rate: 1_000.0, poisson: false };
    plan.bounds.requests = None;
    plan.bounds.duration = Some(Duration::from_secs(1));
    plan.shape.connections = 8;
    plan.shape.threads = 3;
    plan.records.bucket = Duration::from_millis(100);
    plan.records.sample = 1.0;
    let load = run(plan).await.load;
    assert_eq!((load.counts.requests, load.counts.ok), (1_000, 1_000), "{:?}", load.errors);
    assert_eq!(load.counts.connections, 8);
    assert_eq!(load.over_time.samples.len(), 1_000);
    let series: Vec<_> = load.over_time.series.iter().map(|bucket| bucket.requests).collect();
    assert_eq!(series, [100; 10]);
    assert_eq!((load.latency.count, load.service.count), (1_000, 1_000));
}

#[tokio::test]
async fn a_closed_loop_sends_exactly_as_many_as_it_may() {
    let collector = Collector::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let record = Some(collector.address());
    let server = Server::start(Options { record, ..Options::default() }).unwrap();
    let mut plan = plan(server.addresses()[0], 501);
    plan.pace = Pace::Closed;
    plan.shape.connections = 7;
    plan.shape.threads = 2;
    plan.request.ids = true;
    let load = run(plan).await.load;
    assert_eq!((load.counts.requests, load.counts.ok, load.counts.connections), (501, 501, 7));
    let deadline = Instant::now() + Duration::from_secs(30);
    while collector.seen().requests < 501 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    server.end();
    let seen = collector.seen();
    assert_eq!((seen.requests, seen.again), (501, 0));
    collector.stop();
}

#[tokio::test]
async fn each_request_may_have_a_connection_of_its_own() {
    let server = Server::start(Options::default()).unwrap();
    for pace in [Pace::Closed, Pace::Open { rate: 500.0, poisson: true }] {
        let mut plan = plan(server.addresses()[0], 60);
        plan.pace = pace;
        plan.wire.reuse = Reuse::ConnectionPerRequest;
        plan.shape.connections = 5;
        let load = run(plan).await.load;
        assert_eq!((load.counts.ok, load.counts.connections), (60, 60), "{:?}", load.errors);
    }
    server.end();
}

#[tokio::test]
async fn a_connection_that_ended_while_it_was_idle_is_not_used_again() {
    let backend = Backend::scripted([
        Step::ReadRequest,
        send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        Step::Close,
    ])
    .await;
    let mut plan = plan(backend.address(), 12);
    plan.pace = Pace::Open { rate: 10.0, poisson: false };
    let load = run(plan).await.load;
    assert_eq!((load.counts.ok, load.errors.len()), (12, 0), "{:?}", load.errors);
    assert!(load.counts.connections >= 12);
}

#[tokio::test]
async fn handshakes_are_resumed_unless_told_otherwise() {
    let authority = Authority::new("lab");
    let backend = Backend::https(authority.leaf(&["a.test"]).server_config(&["http/1.1"]), |_| {
        Answer::with_headers(200, &[("Connection", "close")], "")
    })
    .await;
    for (version, name) in [(TlsVersion::Tls12, "TLSv1.2"), (TlsVersion::Tls13, "TLSv1.3")] {
        for (resumption, resumed) in [(true, 9), (false, 0)] {
            let mut plan = Plan::at("https://a.test/", vec![backend.address()]).unwrap();
            plan.pace = Pace::Open { rate: 100.0, poisson: false };
            plan.bounds.requests = Some(10);
            plan.wire.reuse = Reuse::ConnectionPerRequest;
            plan.wire.tls = Some(TlsPlan { versions: vec![version], resumption, ..TlsPlan::default() });
            let load = run(plan).await.load;
            assert_eq!(load.counts.ok, 10, "{:?} {:?}", load.errors, load.examples);
            assert_eq!(load.counts.resumed_handshakes, resumed, "{name} {resumption}");
            assert_eq!(load.counts.full_handshakes, 10 - resumed);
            let tls = load.tls.unwrap();
            assert_eq!((tls.version.as_str(), tls.protocol.as_str()), (name, "http/1.1"));
        }
    }
}

#[tokio::test]
async fn a_cipher_suite_is_chosen_by_either_name_and_an_unknown_one_is_refused() {
    let authority = Authority::new("lab");
    let backend =
        Backend::https(authority.leaf(&["a.test"]).server_config(&["http/1.1"]), |_| Answer::ok("")).await;

    for cipher in ["ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"] {
        let mut plan = Plan::at("https://a.test/", vec![backend.address()]).unwrap();
        plan.bounds.requests = Some(1);
        plan.wire.tls = Some(TlsPlan { ciphers: vec![cipher.to_owned()], ..TlsPlan::default() });
        plan.wire.tls.as_mut().unwrap().versions = vec![TlsVersion::Tls12];
        let load = run(plan).await.load;
        assert_eq!(load.counts.ok, 1, "{:?}", load.examples);
        assert_eq!(load.tls.unwrap().cipher, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    }
    let mut plan = Plan::at("https://a.test/", vec![backend.address()]).unwrap();
    plan.wire.tls = Some(TlsPlan { ciphers: vec!["RC4-MD5".to_owned()], ..TlsPlan::default() });
    let error = Stream::start(plan).err().unwrap().to_string();
    assert!(error.contains("RC4-MD5") && error.contains("TLS_AES_128_GCM_SHA256"), "{error}");
}

#[tokio::test]
async fn http_2_carries_many_requests_on_few_connections() {
    let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let server = EchoServer::bind(EchoOptions { listen, ..EchoOptions::default() }).await.unwrap();
    let address = server.addresses()[0];
    let (shutdown, told) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(server.run(async move { told.await.unwrap_or(()) }));
    for pace in [Pace::Closed, Pace::Open { rate: 500.0, poisson: false }] {
        let mut plan = plan(address, 200);
        plan.pace = pace;
        plan.wire.protocol = Protocol::Http2;
        plan.shape.connections = 2;
        plan.shape.streams = 8;
        let load = run(plan).await.load;
        assert_eq!(
            (load.counts.ok, load.counts.connections),
            (200, 2),
            "{:?} {:?}",
            load.errors,
            load.examples
        );
    }
    // Nobody waits for the server any more if it has ended on its own, which the next line would show.
    _ = shutdown.send(());
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_has_the_p99_of_slow_answers_too() {
    let delay = Duration::from_millis(30);
    let server = Server::start(Options { delay, ..Options::default() }).unwrap();
    let mut plan = Plan::to(&format!("http://{}/", server.addresses()[0])).unwrap();
    plan.pace = Pace::Closed;
    plan.shape.connections = 4;
    let shown = tokio::task::spawn_blocking(move || {
        let stream = Stream::start(plan).unwrap();
        let patience = Instant::now() + Duration::from_secs(30);
        while stream.progress().rate == 0.0 {
            assert!(Instant::now() < patience, "{:?}", stream.progress());
            std::thread::yield_now();
        }
        let shown = stream.progress();
        stream.stop();
        stream.join().unwrap();
        shown
    })
    .await
    .unwrap();
    assert!(shown.p99_ms >= 29.0, "{shown:?}");
    server.end();
}

#[tokio::test]
async fn a_stream_that_is_stopped_tells_what_there_is() {
    let server = Server::start(Options::default()).unwrap();
    let mut plan = plan(server.addresses()[0], 0);
    plan.bounds.requests = None;
    let outcome = tokio::task::spawn_blocking(move || {
        let stream = Stream::start(plan).unwrap();
        let patience = Instant::now() + Duration::from_secs(30);
        while stream.progress().ok < 20 {
            assert!(Instant::now() < patience, "{:?}", stream.progress());
            std::thread::yield_now();
        }
        stream.stop();
        stream.join().unwrap()
    })
    .await
    .unwrap();
    let load = outcome.load;
    assert!(load.counts.ok >= 20 && load.counts.ok == load.counts.requests, "{:?}", load.counts);
    assert!(load.rate > 0.0 && load.seconds > 0.0, "{} {}", load.rate, load.seconds);
    server.end();
}

/// Opens a stream, lets it run to its last answer, and gives it back.
async fn opened_and_run(plan: Plan, turns: &Arc<AtomicU64>, before: impl AsyncFn()) -> Stream {
    let turned = turns.clone();
    let between = move || {
        turned.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let opening = tokio::task::spawn_blocking(move || Stream::open(plan, Some(Box::new(between))).unwrap());
    let mut stream = opening.await.unwrap();
    before().await;
    tokio::task::spawn_blocking(move || {
        stream.begin();
        while !stream.is_finished() {
            std::thread::yield_now();
        }
        stream
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_stream_that_was_opened_sends_when_told_and_keeps_its_connections_until_it_is_joined() {
    let backend = Backend::http(|_| Answer::ok("")).await;
    let mut plan = plan(backend.address(), 20);
    (plan.pace, plan.shape.connections) = (Pace::Closed, 4);
    let turns = Arc::new(AtomicU64::new(0));
    let stream = opened_and_run(plan, &turns, async || {
        backend.until("4 connections are open", |backend| backend.open_count() == 4).await;
        assert_eq!(backend.request_count(), 0);
    })
    .await;
    assert_eq!((backend.request_count(), backend.open_count()), (20, 4));
    let outcome = tokio::task::spawn_blocking(|| stream.join().unwrap()).await.unwrap();
    assert_eq!((outcome.load.counts.ok, outcome.open), (20, 4));
    assert!(turns.load(Ordering::Relaxed) > 20, "{turns:?}");
    backend.until("no connection is open", |backend| backend.open_count() == 0).await;
}

#[tokio::test]
async fn connections_that_are_used_one_after_the_other_stay_open() {
    let backend = Backend::http(|_| Answer::ok("")).await;
    let mut plan = plan(backend.address(), 30);
    plan.wire.reuse = Reuse::OneAfterTheOther;
    (plan.pace, plan.shape.connections) = (Pace::Closed, 30);
    let nothing_is_opened_yet = async || assert_eq!(backend.open_count(), 0);
    let stream = opened_and_run(plan, &Arc::default(), nothing_is_opened_yet).await;
    assert_eq!((backend.request_count(), backend.connection_count(), backend.open_count()), (30, 30, 30));
    // A stream that nobody joins closes them all the same.
    drop(stream);
    backend.until("no connection is open", |backend| backend.open_count() == 0).await;
}

#[tokio::test]
async fn histograms_are_saved_and_read_back() {
    let server = Server::start(Options::default()).unwrap();
    let mut outcome = run(plan(server.addresses()[0], 50)).await;
    let folder = tempfile::tempdir().unwrap();
    outcome.save(folder.path(), "fairway-1").unwrap();
    let name = outcome.load.latency.histogram.clone().unwrap();
    assert_eq!(name, "fairway-1.latency.hdr");
    let mut tar = std::process::Command::new("tar");
    let bytes = tar.args(["-xOf", "histograms.tar", &name]).current_dir(&folder).output().unwrap().stdout;
    let read: hdrhistogram::Histogram<u64> =
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!((read.len(), read.max()), (50, outcome.latency.max()));
    server.end();
}
