//! Counts allocations over HTTP/2 on either side, as `allocations` does for HTTP/1: no request allocates what a reused buffer
//! can avoid. Clients and endpoints are threads with blocking sockets, buffers on their stacks and raw frames, so that only the
//! worker's allocations are counted.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[allow(dead_code, reason = "the wire tests use all of it")]
#[path = "wire/support.rs"]
mod support;

use std::alloc::System;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use fairway_model::{Backend, BackendProtocol};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use support::Setup;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WARM: usize = 200;
const ROUNDS: usize = 2_000;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What a connection to an endpoint may allocate over its lifetime, which 900 streams share: its buffers, its tables, and what
/// ten concurrent streams need.
const A_NEW_CONNECTION: f64 = 120.0;

const BODY: &[u8] = b"0123456789";

// Frame types (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET http://example.com/a/b?c=d`: fields of the static table, and literals that enter no table (RFC 7541 §6).
const ASKED: &[u8] = b"\x82\x86\x04\x08/a/b?c=d\x01\x0bexample.com";

/// 200, with a length of ten.
const ANSWERED: &[u8] = b"\x88\x0f\x0d\x0210";

fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Reads and writes frames for both ends, without allocations once it is warm.
struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    /// How much of the buffer is filled, and how much of that was parsed.
    filled: usize,
    bytes_seen: usize,
    output: Vec<u8>,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            input: vec![0; 1 << 17],
            filled: 0,
            bytes_seen: 0,
            output: Vec::with_capacity(1 << 16),
        }
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        put(&mut self.output, kind, flags, stream, payload);
    }

    fn flush(&mut self) {
        self.stream.write_all(&self.output).unwrap();
        self.output.clear();
    }

    /// The next frame's type, flags, stream and length, if it is buffered.
    fn next(&mut self) -> Option<(u8, u8, u32, u32)> {
        let frame = &self.input[self.bytes_seen..self.filled];
        let head: [u8; 9] = frame.get(..9)?.try_into().unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        if frame.len() < 9 + length as usize {
            return None;
        }
        self.bytes_seen += 9 + length as usize;
        Some((head[3], head[4], u32::from_be_bytes(head[5..].try_into().unwrap()), length))
    }

    /// Reads once; returns whether something was received.
    fn read(&mut self) -> bool {
        self.input.copy_within(self.bytes_seen..self.filled, 0);
        (self.filled, self.bytes_seen) = (self.filled - self.bytes_seen, 0);
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(count) => {
                self.filled += count;
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// An endpoint that responds to each request with ten bytes.
fn endpoint() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || response(Peer::new(stream.unwrap())));
        }
    });
    address
}

fn response(mut peer: Peer) {
    peer.put(SETTINGS, 0, 0, &[]);
    while peer.filled < PREFACE.len() {
        assert!(peer.read());
    }
    assert!(peer.input.starts_with(PREFACE));
    peer.bytes_seen = PREFACE.len();
    loop {
        while let Some((kind, flags, stream, _)) = peer.next() {
            match kind {
                SETTINGS if flags & ACK == 0 => peer.put(SETTINGS, ACK, 0, &[]),
                HEADERS => {
                    assert!(flags & END_STREAM != 0, "these requests have no bodies");
                    peer.put(HEADERS, END_HEADERS, stream, ANSWERED);
                    peer.put(DATA, END_STREAM, stream, BODY);
                }
                PING if flags & ACK == 0 => panic!("a worker that is busy has nothing to ask"),
                _ => {}
            }
        }
        peer.flush();
        if !peer.read() {
            return;
        }
    }
}

/// A client with `streams` concurrent requests.
struct Client {
    peer: Peer,
    next: u32,
    streams: u32,
}

impl Client {
    fn connect(to: SocketAddr, streams: u32) -> Self {
        let mut peer = Peer::new(TcpStream::connect(to).unwrap());
        peer.output.extend_from_slice(PREFACE);
        peer.put(SETTINGS, 0, 0, &[]);
        Self { peer, next: 1, streams }
    }

    fn run_requests(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for _ in 0..self.streams {
                self.peer.put(HEADERS, END_HEADERS | END_STREAM, self.next, ASKED);
                self.next += 2;
            }
            self.peer.flush();
            let (mut answered, mut bytes) = (0, 0);
            while answered < self.streams {
                while let Some((kind, flags, _, length)) = self.peer.next() {
                    match kind {
                        SETTINGS if flags & ACK == 0 => self.peer.put(SETTINGS, ACK, 0, &[]),
                        DATA => {
                            bytes += length;
                            answered += u32::from(flags & END_STREAM);
                        }
                        HEADERS => assert_eq!(flags & END_STREAM, 0, "each answer has a body"),
                        SETTINGS | WINDOW_UPDATE => {}
                        other => panic!("a frame of type {other}"),
                    }
                }
                assert!(answered == self.streams || self.peer.read(), "the connection stays");
            }
            assert_eq!(bytes, self.streams * 10);
            self.peer.put(WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes());
        }
    }
}

/// Allocations per request of a warm worker.
fn per_request(protocol: BackendProtocol, to: SocketAddr, streams: u32) -> f64 {
    let setup = Setup::to(&[to])
        .settings(|settings| settings.downstream.requests_per_connection = u64::MAX)
        .settings(|settings| settings.upstream.requests_per_connection = u64::MAX);
    let mut config = setup.config();
    let key = "backend".into();
    let backend = Backend { protocol, ..(*config.backends[&key]).clone() };
    config.backends.insert(key, Arc::new(backend));
    let proxy = setup.start_by(&config);
    let mut client = Client::connect(proxy.http, streams);
    client.run_requests(WARM);
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    client.run_requests(ROUNDS);
    let change = region.change();
    let requests = f64::from(streams) * f64::from(u32::try_from(ROUNDS).unwrap());
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let per_request = (change.allocations + change.reallocations) as f64 / requests;
    per_request
}

/// The same endpoint over HTTP/1.
fn endpoint_of_http1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut peer = Peer::new(stream.unwrap());
            std::thread::spawn(move || {
                while peer.read() {
                    if peer.input[..peer.filled].ends_with(b"\r\n\r\n") {
                        peer.bytes_seen = peer.filled;
                        peer.output
                            .extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
                        peer.flush();
                    }
                }
            });
        }
    });
    address
}

#[test]
fn requests_on_warm_streams_allocate_almost_nothing() {
    for (name, protocol, to, most) in [
        ("HTTP/2 to HTTP/1", BackendProtocol::Http1, endpoint_of_http1(), 0.02),
        ("HTTP/2 to HTTP/2", BackendProtocol::H2c, endpoint(), 0.02 + A_NEW_CONNECTION / 900.0),
    ] {
        for streams in [1, 10] {
            let allocations = per_request(protocol, to, streams);
            println!("{name}, {streams} at a time: {allocations:.4} allocations per request");
            assert!(allocations < most, "{name}, {streams} at a time: {allocations} allocations per request");
        }
    }
}
