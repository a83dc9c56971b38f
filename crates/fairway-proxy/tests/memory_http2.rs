//! Measures the allocated memory of an idle HTTP/2 connection and of a waiting stream: live requested bytes, without the
//! allocator's overhead. Alone in its process, with clients and endpoints that allocate nothing while it counts.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[allow(dead_code, reason = "the wire tests use all of it")]
#[path = "wire/support.rs"]
mod support;

use std::alloc::System;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairway_model::{Backend, BackendProtocol};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::Setup;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONNECTIONS: usize = 2;
/// Per connection.
const STREAMS: usize = 100;
const ALL: usize = CONNECTIONS * STREAMS;

/// The maximum live bytes for each, slightly above the measured values: docs/design/0032-memory-of-a-waiting-stream.md.
const IDLE: usize = 2_960;
const WAITING_FOR_HTTP2: usize = 2_835;
/// Including its own connection to the endpoint.
const WAITING_FOR_HTTP1: usize = 2_680;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame, and the acknowledgement of the peer's (RFC 9113 §6.5).
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
/// `GET http://example.com/a/b?c=d`: fields of the static table, and literals that enter no table (RFC 7541 §6).
const ASKED: &[u8] = b"\x82\x86\x04\x08/a/b?c=d\x01\x0bexample.com";

/// Requests that reached the endpoint.
static RECEIVED_REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// An endpoint that accepts requests and responds to none.
fn endpoint(protocol: BackendProtocol) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections: Vec<Connection> = Vec::with_capacity(2 * ALL);
    let mut input = vec![0; 1 << 16];
    std::thread::spawn(move || {
        loop {
            while connections.len() < connections.capacity()
                && let Ok((stream, _)) = listener.accept()
            {
                stream.set_nonblocking(true).unwrap();
                if protocol == BackendProtocol::H2c {
                    (&stream).write_all(SETTINGS).unwrap();
                }
                connections.push(Connection { stream, protocol, bytes_seen: 0, frame: [0; 9] });
            }
            connections.iter_mut().for_each(|connection| connection.read(&mut input));
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    address
}

/// A connection of the endpoint.
struct Connection {
    stream: TcpStream,
    protocol: BackendProtocol,
    /// For HTTP/1, matched bytes of the end of a head; for HTTP/2, bytes of the preface, then of a frame header and its
    /// payload.
    bytes_seen: usize,
    frame: [u8; 9],
}

impl Connection {
    fn read(&mut self, input: &mut [u8]) {
        match self.stream.read(input) {
            Ok(count) => input[..count].iter().for_each(|byte| self.take(*byte)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn take(&mut self, byte: u8) {
        if self.protocol == BackendProtocol::Http1 {
            self.bytes_seen = if byte == b"\r\n\r\n"[self.bytes_seen] {
                self.bytes_seen + 1
            } else {
                usize::from(byte == b'\r')
            };
            if self.bytes_seen == 4 {
                self.bytes_seen = 0;
                RECEIVED_REQUESTS.fetch_add(1, Ordering::SeqCst);
            }
            return;
        }
        if let Some(at) = self.bytes_seen.checked_sub(PREFACE.len())
            && at < 9
        {
            self.frame[at] = byte;
        }
        self.bytes_seen += 1;
        let [a, b, c, kind, ..] = self.frame;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if self.bytes_seen >= PREFACE.len() + 9 && self.bytes_seen == PREFACE.len() + 9 + length {
            self.bytes_seen = PREFACE.len();
            RECEIVED_REQUESTS.fetch_add(usize::from(kind == 1), Ordering::SeqCst);
        }
    }
}

/// Live bytes since `region` began, once they have been stable for longer than the worker keeps unused memory. While they are
/// above `most`, a worker without CPU time may still have something to free: it has a minute.
fn settled(region: &Region<'_, System>, limit: usize) -> usize {
    let live = || {
        let change = region.change();
        change.bytes_allocated.wrapping_sub(change.bytes_deallocated)
    };
    let (began, mut same_since, mut last) = (Instant::now(), Instant::now(), live());
    while same_since.elapsed() < Duration::from_millis(2_500) || last > limit {
        if began.elapsed() > Duration::from_secs(60) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        let now = live();
        if now != last {
            (same_since, last) = (Instant::now(), now);
        }
    }
    last
}

/// Live bytes of an idle connection, and of a waiting stream on it.
fn measure(protocol: BackendProtocol, most_waiting: usize) -> (usize, usize) {
    // A stalled machine must not cause a second connection to the endpoint, or end a request.
    let setup = Setup::to(&[endpoint(protocol)])
        .options(|options| options.limits.connect_hedge = Duration::ZERO)
        .policy(|policy| policy.timeouts.read = Duration::from_secs(600));
    let mut config = setup.config();
    let key = "backend".into();
    let backend = Backend { protocol, ..(*config.backends[&key]).clone() };
    config.backends.insert(key, Arc::new(backend));
    let proxy = setup.start_by(&config);
    RECEIVED_REQUESTS.store(0, Ordering::SeqCst);
    settled(&Region::new(&INSTRUMENTED_SYSTEM), usize::MAX);

    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let clients: [TcpStream; CONNECTIONS] = std::array::from_fn(|_| {
        let mut client = TcpStream::connect(proxy.http).unwrap();
        client.write_all(PREFACE).unwrap();
        client.write_all(SETTINGS).unwrap();
        client
    });
    let idle = settled(&region, IDLE * CONNECTIONS) / CONNECTIONS;

    let region = Region::new(&INSTRUMENTED_SYSTEM);
    for mut client in &clients {
        for number in 0..u32::try_from(STREAMS).unwrap() {
            let mut frame = [0; 9 + ASKED.len()];
            // HEADERS with END_STREAM and END_HEADERS.
            frame[2..5].copy_from_slice(&[u8::try_from(ASKED.len()).unwrap(), 1, 5]);
            frame[5..9].copy_from_slice(&(2 * number + 1).to_be_bytes());
            frame[9..].copy_from_slice(ASKED);
            client.write_all(&frame).unwrap();
        }
    }
    let began = Instant::now();
    while RECEIVED_REQUESTS.load(Ordering::SeqCst) < ALL {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{} came",
            RECEIVED_REQUESTS.load(Ordering::SeqCst)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    (idle, settled(&region, most_waiting * ALL) / ALL)
}

#[test]
fn idle_connections_and_waiting_streams_keep_little() {
    for (name, protocol, most) in [
        ("HTTP/2 to HTTP/2", BackendProtocol::H2c, WAITING_FOR_HTTP2),
        ("HTTP/2 to HTTP/1", BackendProtocol::Http1, WAITING_FOR_HTTP1),
    ] {
        let (idle, waiting) = measure(protocol, most);
        println!("{name}: {idle} bytes for an idle connection, {waiting} for a waiting stream");
        assert!(idle > 500 && idle <= IDLE, "{name}: {idle} bytes for an idle connection");
        assert!(waiting > 500 && waiting <= most, "{name}: {waiting} bytes for a waiting stream");
    }
}
