//! The load generator over real sockets: its counts, its classes of errors, and when it sends requests.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

mod frames;
mod http2;
mod tls;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use fairway_lab_measure::results::Class;
use fairway_lab_traffic::backend::{Collector, Options, Server, Spoken};
use fairway_lab_traffic::load::{Outcome, Pace, Plan, Protocol, Reuse, Stream, TlsPlan, at_percent};
use fairway_testkit::{Backend, BackendResponse, ScriptStep, free_port};
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

/// A timeout that expires in a test. Everything that must happen earlier takes milliseconds.
const SHORT: Duration = Duration::from_secs(1);

/// `requests` requests at a constant rate over one connection.
fn plan(address: SocketAddr, requests: u64) -> Plan {
    let mut plan = Plan::for_url(&format!("http://{address}/")).unwrap();
    plan.pace = Pace::Open { rate: 200.0, poisson: false };
    plan.bounds.requests = Some(requests);
    plan.bounds.duration = None;
    plan
}

async fn run(plan: Plan) -> Outcome {
    tokio::task::spawn_blocking(move || Stream::start(plan).unwrap().join().unwrap()).await.unwrap()
}

fn only_error(outcome: &Outcome) -> (Class, String) {
    let load = &outcome.load;
    assert_eq!((load.counts.requests, load.counts.ok), (1, 0), "{:?}", load.errors);
    assert_eq!(load.errors.values().sum::<u64>(), 1, "{:?}", load.errors);
    (load.examples[0].class, load.examples[0].text.clone())
}

/// Asserts that every request got the expected response, and the number of connections.
fn all_ok(outcome: &Outcome) -> u64 {
    let load = &outcome.load;
    assert_eq!(load.counts.ok, load.counts.requests, "{:?} {:?}", load.errors, load.examples);
    load.counts.connections
}

fn send(text: &str) -> ScriptStep {
    ScriptStep::Send(text.as_bytes().to_vec())
}

/// Asserts the class and the message of a single request to a scripted server.
async fn script_is_called(script: Vec<ScriptStep>, class: Class, text: &str) {
    let backend = Backend::scripted(script).await;
    let mut plan = plan(backend.address(), 1);
    if matches!(class, Class::HeadTimeout | Class::BodyTimeout) {
        plan.bounds.timeout = SHORT;
    }
    let (found, said) = only_error(&run(plan).await);
    assert_eq!(found, class, "{said}");
    assert!(said.contains(text), "{said}");
}

#[tokio::test]
async fn a_truncated_response_is_classified_by_its_position_and_other_bytes_are_malformed() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    let part = "HTTP/1.1 200 OK\r\nConte";
    let longer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
    for (sent, then, class, text) in [
        ("", Some(ScriptStep::Close), Class::ReadEof, "instead of an answer"),
        (part, Some(ScriptStep::Close), Class::ReadEof, "within the head"),
        ("", Some(ScriptStep::Reset), Class::ReadReset, ""),
        (head, Some(ScriptStep::Close), Class::Truncated, "HTTP/1.1 200 OK"),
        ("", None, Class::HeadTimeout, ""),
        (part, None, Class::HeadTimeout, ""),
        (head, None, Class::BodyTimeout, "HTTP/1.1 200 OK"),
        ("220 smtp\r\n", None, Class::Malformed, ""),
        (longer, None, Class::Malformed, "1 bytes after the end of the answer"),
    ] {
        let sent = (!sent.is_empty()).then(|| send(sent));
        let script = [Some(ScriptStep::ReadRequest), sent, then].into_iter().flatten().collect();
        script_is_called(script, class, text).await;
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_written_is_a_write_error() {
    let backend = Backend::scripted([ScriptStep::ReadHead, ScriptStep::Reset]).await;
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
async fn an_unreachable_address_is_distinguished_from_a_refused_connection() {
    // The broadcast address of loopback: TCP has no route to it, and nothing leaves the machine.
    let (class, text) = only_error(&run(plan("127.255.255.255:80".parse().unwrap(), 1)).await);
    assert_eq!(class, Class::ConnectOther);
    assert!(text.contains("unreachable"), "{text}");
}

#[tokio::test]
async fn a_connection_that_is_not_accepted_times_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Fills the accept queue.
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
    let refusing = Backend::scripted([ScriptStep::ReadBody(1), send("HTTP/1.1 400 Bad\r\n\r\n")]).await;
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
async fn unexpected_statuses_and_routes_have_their_own_classes() {
    let backend = Backend::http(|request| match request.target.as_str() {
        "/busy" => BackendResponse::status(503, ""),
        "/other" => BackendResponse::with_headers(200, &[("X-Lab-Backend", "other")], ""),
        _ => BackendResponse::with_headers(200, &[("X-Lab-Backend", "mine")], ""),
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
async fn due_and_unsent_requests_are_reported() {
    let backend = Backend::http(|_| BackendResponse::Silence).await;
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

/// Serves one connection after another with empty 200 responses, and calls `before` with the number of each request.
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
    let chunk = load.over_time.series.iter().map(|bucket| bucket.max_ms).fold(0.0, f64::max);
    assert!(chunk >= 999.0, "{chunk}");
}

#[tokio::test]
async fn a_constant_rate_is_held_and_sums_agree() {
    let address = blocking_server(|_| {});
    let mut plan = plan(address, 0);
    plan.pace = Pace::Open { rate: 1_000.0, poisson: false };
    plan.bounds.requests = None;
    plan.bounds.duration = Some(Duration::from_secs(1));
    plan.shape.connections = 8;
    plan.shape.threads = 3;
    plan.records.bucket = Duration::from_millis(100);
    let load = run(plan).await.load;
    assert_eq!((load.counts.requests, load.counts.ok), (1_000, 1_000), "{:?}", load.errors);
    assert_eq!(load.counts.connections, 8);
    let series: Vec<_> = load.over_time.series.iter().map(|bucket| bucket.requests).collect();
    assert_eq!(series, [100; 10]);
    assert_eq!((load.latency.count, load.service.count), (1_000, 1_000));
}

#[tokio::test]
async fn a_closed_loop_sends_exactly_its_limit() {
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
    while collector.totals().requests < 501 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    server.end();
    let totals = collector.totals();
    assert_eq!((totals.requests, totals.repeated), (501, 0));
    collector.stop();
}

#[tokio::test]
async fn each_request_may_have_its_own_connection_and_http2_connections_carry_many() {
    for (spoken, pace, connections) in [
        (Spoken::Http1, Pace::Closed, 60),
        (Spoken::Http1, Pace::Open { rate: 500.0, poisson: true }, 60),
        (Spoken::H2c, Pace::Closed, 5),
        (Spoken::H2c, Pace::Open { rate: 500.0, poisson: false }, 5),
    ] {
        let server = Server::start(Options { spoken, ..Options::default() }).unwrap();
        let mut plan = plan(server.addresses()[0], 60);
        (plan.pace, plan.shape.connections, plan.shape.streams) = (pace, 5, 8);
        match spoken {
            Spoken::H2c => plan.wire.protocol = Protocol::Http2,
            _ => plan.wire.reuse = Reuse::ConnectionPerRequest,
        }
        assert_eq!(all_ok(&run(plan).await), connections);
        server.end();
    }
}

/// Responds to every datagram with the result of `answer` for its index and bytes, until none arrives any more.
fn echo(response: impl Fn(usize, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        for place in 0.. {
            let Ok((count, from)) = socket.recv_from(&mut buffer) else { return };
            if let Some(answer) = response(place, &buffer[..count]) {
                socket.send_to(&answer, from).unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn echoes_of_the_right_length_and_number_count_and_others_are_lost_or_wrong() {
    let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let good = || echo(|_, bytes| Some(bytes.to_vec()));
    let faulty = echo(|place, bytes| match place {
        50 => None,
        60 => Some(bytes[..50].to_vec()),
        _ => Some(bytes.to_vec()),
    });
    let wrong = vec![(Class::HeadTimeout, 1), (Class::WrongRoute, 1)];
    for (address, reuse, errors) in [
        (good(), Reuse::KeepAlive, vec![]),
        (good(), Reuse::ConnectionPerRequest, vec![]),
        (faulty, Reuse::KeepAlive, wrong),
        (closed, Reuse::KeepAlive, vec![(Class::ReadReset, 200)]),
    ] {
        let mut plan = plan(address, 200);
        (plan.pace, plan.wire.reuse, plan.wire.protocol) = (Pace::Closed, reuse, Protocol::Datagrams);
        plan.request.body = vec![b'x'; 100].into();
        (plan.shape.connections, plan.bounds.timeout) = (4, SHORT);
        let load = run(plan).await.load;
        assert_eq!(load.errors.into_iter().collect::<Vec<_>>(), errors, "{:?}", load.examples);
        assert_eq!(load.counts.requests, 200);
        if reuse == Reuse::ConnectionPerRequest {
            assert_eq!(load.counts.connections, 200);
        }
    }
}

#[tokio::test]
async fn a_connection_that_ended_while_it_was_idle_is_not_used_again() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        ScriptStep::Close,
    ])
    .await;
    let mut plan = plan(backend.address(), 12);
    plan.pace = Pace::Open { rate: 10.0, poisson: false };
    let load = run(plan).await.load;
    assert_eq!((load.counts.ok, load.errors.len()), (12, 0), "{:?}", load.errors);
    assert!(load.counts.connections >= 12);
}

#[tokio::test]
async fn a_stopped_stream_reports_its_results() {
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

/// Opens a stream, runs it to its last response, and returns it.
async fn opened_and_run(plan: Plan, before: impl AsyncFn()) -> Stream {
    let mut stream = tokio::task::spawn_blocking(move || Stream::open(plan).unwrap()).await.unwrap();
    before().await;
    tokio::task::spawn_blocking(move || {
        stream.start_load();
        while !stream.is_finished() {
            std::thread::yield_now();
        }
        stream
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn an_opened_stream_sends_on_command_and_keeps_its_connections_until_joined() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let mut plan = plan(backend.address(), 20);
    (plan.pace, plan.shape.connections) = (Pace::Closed, 4);
    let stream = opened_and_run(plan, async || {
        backend.wait_until("4 connections are open", |backend| backend.open_count() == 4).await;
        assert_eq!(backend.request_count(), 0);
    })
    .await;
    assert_eq!((backend.request_count(), backend.open_count()), (20, 4));
    let outcome = tokio::task::spawn_blocking(|| stream.join().unwrap()).await.unwrap();
    assert_eq!((outcome.load.counts.ok, outcome.open), (20, 4));
    backend.wait_until("no connection is open", |backend| backend.open_count() == 0).await;
}

#[tokio::test]
async fn connections_that_are_used_one_after_the_other_stay_open() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let mut plan = plan(backend.address(), 30);
    plan.wire.reuse = Reuse::OneAfterTheOther;
    (plan.pace, plan.shape.connections) = (Pace::Closed, 30);
    let nothing_is_opened_yet = async || assert_eq!(backend.open_count(), 0);
    let stream = opened_and_run(plan, nothing_is_opened_yet).await;
    assert_eq!((backend.request_count(), backend.connection_count(), backend.open_count()), (30, 30, 30));
    // A stream closes its connections even if it is not joined.
    drop(stream);
    backend.wait_until("no connection is open", |backend| backend.open_count() == 0).await;
}

#[tokio::test]
async fn histograms_are_saved_and_read_back() {
    let server = Server::start(Options::default()).unwrap();
    let mut outcome = run(plan(server.addresses()[0], 50)).await;
    let folder = tempfile::tempdir().unwrap();
    outcome.save(folder.path(), "fairway-1").unwrap();
    let log = std::fs::read(folder.path().join("histograms.hlog")).unwrap();
    let mut entries = IntervalLogIterator::new(&log);
    let Some(Ok(LogEntry::Interval(first))) = entries.next() else { panic!("a histogram was saved") };
    let tag = first.tag().map(|tag| tag.to_string());
    assert_eq!((tag.as_deref(), &tag), (Some("fairway-1.latency"), &outcome.load.latency.histogram));
    let bytes = base64::engine::general_purpose::STANDARD.decode(first.encoded_histogram()).unwrap();
    let read: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!((read.len(), read.max()), (50, outcome.latency.max()));
    server.end();
}
