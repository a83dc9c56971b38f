//! How each attack is carried out: the proxy's arguments, the attackers' work, the permitted costs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::client::Resumption;
use rustls_pki_types::ServerName;

use super::held_connections::{Holding, Then};
use super::kind::Kind;
use super::threads::Work;
use super::{http2, passwords, regex};
use crate::certificates::unverified_client_config;
use crate::client::Request;
use crate::process::Fairway;
use crate::proof::site::{HOST, Scheme, Site};

/// The proxy's memory budget under attacks on its memory, on top of its use at rest: less than the heads of
/// [`HEADER_FLOOD_CONNECTIONS`] connections, which may all arrive between two checks.
const MEMORY_BUDGET: u64 = 16 << 20;
const HEADER_FLOOD_CONNECTIONS: usize = 1_000;
/// Honest clients that ask one by one, and attackers that send as much as they may, have a connection each.
const SINGLE_CONNECTIONS: usize = 8;
/// Open files of the proxy under the attack on its descriptors.
const OPEN_FILES: u32 = 256;
/// Twice as many as may wait for their passwords to be verified (docs/limits.md): the queue stays full, and the proxy
/// has to refuse all others.
const PASSWORD_GUESS_CONNECTIONS: usize = 128;
/// The proxy checks its memory four times a second; what arrives in between exceeds the budget: 64 KiB for each of
/// [`HEADER_FLOOD_CONNECTIONS`] connections.
const BETWEEN_LOOKS: u64 = 64 << 20;
/// What any flood may add to resident memory regardless of its connections: buffers and caches of the workers.
const MAX_FIXED_GROWTH: u64 = 32 << 20;
const SECOND: Duration = Duration::from_secs(1);
const LARGE_ANSWER: usize = 8 << 20;

/// The requirements and permitted costs of a flood.
pub(super) struct Plan {
    /// The scheme of clients and attackers.
    pub(super) scheme: Scheme,
    /// The memory the proxy may use beyond that at rest, if its memory is attacked.
    pub(super) room: Option<u64>,
    /// The limit of open files of the proxy, where it is not that of this process.
    pub(super) open_files: Option<u32>,
    /// Attackers' connections.
    connections: RangeInclusive<usize>,
    /// Streams on each of them.
    streams: usize,
    /// Kibibytes per connection (docs/limits.md), on top of what every connection needs.
    kib_each: usize,
}

impl Plan {
    pub(super) fn for_kind(kind: Kind) -> Self {
        let (scheme, connections) = (Scheme::Plain, SINGLE_CONNECTIONS..=SINGLE_CONNECTIONS);
        let few = Self { scheme, room: None, open_files: None, connections, streams: 1, kib_each: 64 };
        let any = 0..=usize::MAX;
        match kind {
            // A head.
            Kind::SlowHeads => Self { connections: any, kib_each: 32, ..few },
            // A request whose body the proxy buffers for a retry.
            Kind::SlowBodies => Self { connections: any, ..few },
            // One read on top of 16 KiB. More connections would exhaust the kernel's memory for all sockets of the machine
            // (`net.ipv4.tcp_mem`).
            Kind::SlowReads | Kind::NoReads => Self { connections: 0..=64, kib_each: 144, ..few },
            Kind::SilentHandshakes | Kind::HalfHandshakes => {
                Self { scheme: Scheme::Tls, connections: any, kib_each: 32, ..few }
            }
            Kind::ReplayedHellos | Kind::Handshakes => Self { scheme: Scheme::Tls, ..few },
            Kind::Descriptors => {
                let connections = 2 * OPEN_FILES as usize..=usize::MAX;
                Self { open_files: Some(OPEN_FILES), connections, ..few }
            }
            // Together they exceed the budget.
            Kind::MemoryHeads => Self {
                room: Some(MEMORY_BUDGET),
                connections: HEADER_FLOOD_CONNECTIONS..=HEADER_FLOOD_CONNECTIONS,
                ..few
            },
            Kind::MemoryBodies => Self { room: Some(MEMORY_BUDGET), connections: 2_000..=usize::MAX, ..few },
            Kind::MemoryReads => Self { room: Some(MEMORY_BUDGET), connections: 0..=64, ..few },
            Kind::Passwords => {
                Self { connections: PASSWORD_GUESS_CONNECTIONS..=PASSWORD_GUESS_CONNECTIONS, ..few }
            }
            // For each stream a head, and one read on top of its response.
            Kind::H2TinyWindows => Self {
                connections: 0..=16,
                streams: http2::TINY_WINDOW_STREAMS,
                kib_each: http2::TINY_WINDOW_STREAMS * 48,
                ..few
            },
            Kind::H2NoReads => Self {
                connections: 0..=8,
                streams: http2::UNREAD_STREAMS,
                kib_each: 128 + http2::UNREAD_STREAMS * 144,
                ..few
            },
            Kind::H2Connections => Self { connections: any, kib_each: 32, ..few },
            // Its window and its outbox.
            _ if kind.name().starts_with("h2-") => Self { kib_each: 1_024 + 128, ..few },
            _ => few,
        }
    }

    /// Whether the flood exhausts a resource, so that refusing work with 503 or closing new connections is correct, even
    /// for well-behaved clients.
    pub(super) fn exhausts(&self) -> bool {
        self.room.is_some() || self.open_files.is_some()
    }

    /// The number of the attackers' connections: `count` for attacks that hold many, few for fast attacks.
    pub(super) fn connections(&self, count: usize) -> usize {
        count.clamp(*self.connections.start(), *self.connections.end())
    }

    /// Resident bytes that the proxy may have under `connections` of attackers when it had `before` without them.
    pub(super) fn bound(&self, before: u64, connections: usize) -> u64 {
        match self.room {
            Some(room) => before + room + BETWEEN_LOOKS,
            // And 32 KiB for the connection itself, buffers of TLS included.
            None => before + MAX_FIXED_GROWTH + (connections * (self.kib_each + 32) * 1024) as u64,
        }
    }

    /// Honest clients that load the proxy as much as the flood did, and their number of connections. If attackers continue
    /// together at each step, these clients send together, on as many connections or streams, unless that number itself
    /// exhausts the resource. All others send one by one.
    pub(super) fn honest(&self, flood: &Work, connections: usize) -> (Work, usize) {
        let request = Request::get(HOST, PROBE_REQUEST.0).bytes();
        match flood.step() {
            Some(step) if self.open_files.is_none() => {
                let holding = Holding::new(Vec::new(), Then::Send(request));
                (Work::Hold(Holding { step, paced: true, ..holding }), connections * self.streams)
            }
            _ => (Work::ask_each(vec![request]), SINGLE_CONNECTIONS),
        }
    }
}

/// A well-behaved client's path and the length of the response.
pub(super) const PROBE_REQUEST: (&str, usize) = ("/bytes/1000", 1_000);

/// Objects that the attack needs.
pub(super) fn furnish(kind: Kind, site: &Site) {
    match kind {
        Kind::Regex => regex::furnish(site),
        Kind::Passwords => passwords::furnish(site),
        // Every body has its own size limit; here the rate is tested.
        Kind::TinyChunks | Kind::ChunkExtensions | Kind::H2EmptyData => site.allow_any_body(),
        Kind::ReplayedHellos | Kind::Handshakes => site.certify(&site.rsa_leaf()),
        _ => {}
    }
}

/// The attackers' work.
pub(super) async fn work(kind: Kind, fairway: &Fairway) -> Work {
    let holding = |chunk: Vec<u8>, then: Then| Holding::new(vec![chunk], then);
    let get = |target: &str| Request::get(HOST, target).bytes();
    let large = get(&format!("/bytes/{LARGE_ANSWER}"));
    let body = Request::post(HOST, "/sink", vec![b'x'; 1 << 20]).head_bytes();
    Work::Hold(match kind {
        Kind::SlowHeads => {
            let beginning = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ").into_bytes();
            holding(beginning, Then::Send(b"x".to_vec()))
        }
        Kind::SlowBodies => holding(body, Then::Send(b"x".to_vec())),
        Kind::SlowReads => holding(large, Then::Read(1)).with_small_buffer(),
        Kind::NoReads | Kind::MemoryReads => holding(large, Then::Hold).with_small_buffer(),
        Kind::SilentHandshakes => holding(client_hello(), Then::Listen),
        Kind::HalfHandshakes => {
            let hello = client_hello();
            holding(hello[..hello.len() / 2].to_vec(), Then::Listen)
        }
        Kind::Descriptors => holding(get("/bytes/10"), Then::Send(get("/bytes/10"))),
        Kind::MemoryHeads => {
            let head = Request::get("nowhere.test", "/").header("X-Long", &"x".repeat(28 * 1024)).bytes();
            let (first, second) = head.split_at(head.len() / 2);
            let holding = Holding::new(vec![first.to_vec(), second.to_vec()], Then::Leave);
            Holding { step: SECOND / 10, ..holding }
        }
        Kind::MemoryBodies => {
            let beginning = [body, vec![b'x'; 63 * 1024]].concat();
            // Few at a time, so that less arrives between two memory checks of the proxy than the bound allows.
            let holding = holding(beginning, Then::Send(vec![b'x'; 100]));
            Holding { step: SECOND / 4, new_in_a_turn: 100, ..holding }
        }
        _ => return fast(kind, fairway).await,
    })
}

/// The work of attackers that send as fast as they can.
async fn fast(kind: Kind, fairway: &Fairway) -> Work {
    match kind {
        Kind::Regex => Work::ask_each(regex::most_expensive(fairway.http).await),
        Kind::Passwords => {
            let guesses = passwords::guesses(fairway.http).await;
            Work::Ask(Arc::new(move || guesses.another().bytes()))
        }
        Kind::ReplayedHellos => {
            let hello = client_hello();
            Work::Once(Arc::new(move |stream: &mut TcpStream| {
                stream.write_all(&hello)?;
                stream.read(&mut [0; 16 * 1024]).map(drop)
            }))
        }
        Kind::Handshakes => {
            let mut config = unverified_client_config();
            config.resumption = Resumption::disabled();
            let config = Arc::new(config);
            Work::Once(Arc::new(move |stream: &mut TcpStream| {
                let session = ClientConnection::new(Arc::clone(&config), server_name());
                let mut session = session.map_err(std::io::Error::other)?;
                while session.is_handshaking() {
                    session.complete_io(stream)?;
                }
                Ok(())
            }))
        }
        Kind::ConnectionChurn => Work::Once(Arc::new(|_: &mut TcpStream| Ok(()))),
        Kind::LargeHeads => Work::stream(&large_head().repeat(16)),
        Kind::Pipelined => Work::stream(&Request::get("nowhere.test", "/").bytes().repeat(1_000)),
        Kind::TinyChunks => Work::stream(&chunked(b"1\r\nx\r\n", 50_000)),
        Kind::ChunkExtensions => {
            Work::stream(&chunked(format!("1;{}\r\nx\r\n", "e".repeat(900)).as_bytes(), 1_000))
        }
        _ => http2::work(kind),
    }
}

fn server_name() -> ServerName<'static> {
    ServerName::try_from(HOST).expect("the host of a proof is a name")
}

fn client_hello() -> Vec<u8> {
    let config = Arc::new(unverified_client_config());
    let mut session = ClientConnection::new(config, server_name()).expect("the configuration is complete");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("a vector takes every byte");
    hello
}

/// Nearly the limit: 100 headers and 32 KiB, less what the proxy adds for the endpoint.
fn large_head() -> Vec<u8> {
    let request = Request::get(HOST, "/bytes/10");
    (0..88)
        .fold(request, |request, field| request.header(&format!("X-Field-{field}"), &"v".repeat(340)))
        .bytes()
}

fn chunked(chunk: &[u8], count: usize) -> Vec<u8> {
    let head = format!("POST /sink HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    [head.as_bytes(), &chunk.repeat(count), b"0\r\n\r\n"].concat()
}
