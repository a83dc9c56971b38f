//! The laboratory's backend over real sockets: its knobs, its ledger of ids, how it ends.

#![allow(
    clippy::unwrap_used,
    reason = "tests may panic; clippy does not know that helper functions belong to tests"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fairway_lab_traffic::backend::{Collector, Faults, Options, Server, Spoken};
use fairway_lab_traffic::load::{Plan, Stream};
use fairway_testkit::free_port;

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    stream
}

/// Sends a request that ends the connection, and reads all that comes.
fn send_request(address: SocketAddr, target: &str, fields: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8(response).unwrap()
}

fn start(options: Options) -> (Server, SocketAddr) {
    let server = Server::start(options).unwrap();
    let address = server.addresses()[0];
    (server, address)
}

fn eventually(expectation: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited for {expectation}");
        std::thread::yield_now();
    }
}

#[test]
fn answers_say_who_gave_them_and_echo_the_id() {
    let (server, address) =
        start(Options { name: "blue".to_owned(), pod: "blue-1".to_owned(), size: 3, ..Options::default() });
    let response = send_request(address, "/", "X-Lab-Id: a-7\r\n");
    for line in
        ["HTTP/1.1 200 OK\r\n", "X-Lab-Backend: blue\r\n", "X-Lab-Pod: blue-1\r\n", "X-Lab-Id: a-7\r\n"]
    {
        assert!(response.contains(line), "{line:?} is not in {response}");
    }
    assert!(response.ends_with("\r\n\r\nxxx"), "{response}");
    server.end();
}

#[test]
fn a_target_sets_the_size_of_the_response() {
    let (server, address) = start(Options::default());
    for (target, size) in [("/", 1_024), ("/0kb.bin", 0), ("/1mb.bin", 1 << 20), ("/?size=70000", 70_000)] {
        let response = send_request(address, target, "");
        let body = response.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.len(), size, "{target}");
        assert!(response.contains(&format!("Content-Length: {size}\r\n")));
    }
    server.end();
}

#[test]
fn requests_follow_each_other_on_a_connection_whatever_their_bodies_are() {
    let (server, address) = start(Options { size: 1, ..Options::default() });
    let mut stream = connect(address);
    stream
        .write_all(
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloPUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
              3\r\nabc\r\n0\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut responses = String::new();
    stream.read_to_string(&mut responses).unwrap();
    assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 3);
    assert!(responses.ends_with("Connection: close\r\n\r\n"), "HEAD has no content: {responses}");
    server.end();
}

#[test]
fn a_collector_finds_requests_that_two_backends_received_even_after_they_ended() {
    let collector = Collector::start("127.0.0.1:0".parse().unwrap()).unwrap();
    for (pod, ids) in [("one", ["1-0-a", "1-0-b"]), ("two", ["1-0-b", "1-0-c"])] {
        let record = Some(collector.address());
        let (server, address) = start(Options { pod: pod.to_owned(), record, ..Options::default() });
        for id in ids {
            send_request(address, "/", &format!("X-Lab-Id: {id}\r\n"));
        }
        server.end();
    }
    eventually("all ids at the collector", || collector.totals().requests == 4);
    assert_eq!(collector.totals().repeated, 1);
    collector.stop();
}

#[test]
fn injected_faults_happen_as_named() {
    let always = |faults| start(Options { faults, size: 100, ..Options::default() });
    let (server, address) = always(Faults { reset: 1.0, ..Faults::default() });
    let mut stream = connect(address);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(stream.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(send_request(address, "/healthz", "").contains("200 OK"), "probes are not part of the load");
    server.end();

    let (server, address) = always(Faults { truncate: 1.0, ..Faults::default() });
    let response = send_request(address, "/", "");
    assert!(response.contains("Content-Length: 100\r\n"));
    assert_eq!(response.split_once("\r\n\r\n").unwrap().1.len(), 50);
    server.end();

    let (server, address) = always(Faults { statuses: vec![(418, 0.5), (503, 0.5)], ..Faults::default() });
    let responses: Vec<_> = (0..60).map(|_| send_request(address, "/", "")).collect();
    for status in ["418", "503"] {
        let count =
            responses.iter().filter(|answer| answer.starts_with(&format!("HTTP/1.1 {status}"))).count();
        // Of 60 tosses of a coin, fewer than 8 of one side happen once in 10^9.
        assert!(count >= 8, "{status}: {count} of 60");
    }
    server.end();
}

#[test]
fn a_response_takes_the_configured_time() {
    let delay = Duration::from_millis(80);
    let (server, address) = start(Options { delay, ..Options::default() });
    let started = Instant::now();
    send_request(address, "/", "");
    assert!(started.elapsed() >= Duration::from_millis(80), "{:?}", started.elapsed());
    server.end();
}

/// The backend as a process, killed when a test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Process {
    fn start(arguments: &[&str]) -> (Self, SocketAddr) {
        let address = format!("127.0.0.1:{}", free_port());
        let mut child = Command::new(env!("CARGO_BIN_EXE_fairway-lab"))
            .args(["backend", "--listen", &address])
            .args(arguments)
            .env("POD_NAME", "pod-9")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(&address), "{line}");
        (Self(child), address.parse().unwrap())
    }

    fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}

#[test]
fn sigterm_ends_the_backend_at_once() {
    let (mut process, address) = Process::start(&[]);
    assert!(send_request(address, "/", "").contains("X-Lab-Pod: pod-9\r\n"));
    process.terminate();
    assert!(process.0.wait().unwrap().success());
}

#[test]
fn ids_are_reported_on_request_and_before_a_backend_ends() {
    let collector = Collector::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let record = collector.address().to_string();
    for turn in 0..2 {
        let (mut process, address) = Process::start(&["--record", &record]);
        let mut sent = 0;
        let mut ask_with_id = |count: u64| {
            for _ in 0..count {
                sent += 1;
                send_request(address, "/", &format!("X-Lab-Id: {turn:x}-0-{sent:x}\r\n"));
            }
            turn * 60 + sent
        };
        // The backend connects to the collector with its first response, and delivers queued ids once it is
        // connected.
        let first = ask_with_id(1);
        eventually("the backend at the collector", || collector.totals().requests == first);
        let expected = ask_with_id(29);
        collector.wait_until_settled(WAIT_TIMEOUT).unwrap();
        assert_eq!(collector.totals().requests, expected);
        let expected = ask_with_id(30);
        process.terminate();
        assert!(process.0.wait().unwrap().success());
        collector.wait_until_settled(WAIT_TIMEOUT).unwrap();
        assert_eq!((collector.totals().requests, collector.totals().repeated), (expected, 0));
    }
    collector.stop();
}

#[test]
fn grpc_calls_get_a_message_and_a_status_on_any_number_of_streams() {
    let (server, address) = start(Options { spoken: Spoken::Grpc, threads: 2, ..Options::default() });
    let mut plan = Plan::for_addresses("http://a.test/", vec![address]).unwrap();
    plan.call();
    plan.shape.connections = 4;
    plan.shape.streams = 100;
    (plan.bounds.duration, plan.bounds.requests) = (None, Some(5_000));
    let load = Stream::start(plan).unwrap().join().unwrap().load;
    assert_eq!(
        (load.counts.ok, load.counts.connections),
        (5_000, 4),
        "{:?} {:?}",
        load.errors,
        load.examples
    );
    server.end();
}

#[test]
fn a_backend_of_grpc_refuses_options_that_it_would_not_follow() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway-lab"));
    let output =
        command.args(["backend", "--listen", "127.0.0.1:0", "--grpc", "--size", "5"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("'--grpc' cannot be used with '--size"), "{stderr}");
}
