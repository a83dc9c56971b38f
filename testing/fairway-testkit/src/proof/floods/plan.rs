//! How each attack is carried out: what the proxy is started with, what the attackers do, what it may cost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::client::Resumption;
use rustls_pki_types::ServerName;

use super::held::{Holding, Then};
use super::kind::Kind;
use super::threads::Work;
use super::{http2, passwords, regex};
use crate::certificates::trusting_anything;
use crate::client::Request;
use crate::process::Fairway;
use crate::proof::site::{HOST, Scheme, Site};

/// The memory budget of the proxy under the attacks on its memory, beyond what it uses at rest: less than the heads of
/// [`HEADS`] connections, which may all arrive between two looks.
const ROOM: u64 = 16 << 20;
const HEADS: usize = 1_000;
/// Honest clients that ask one by one, and attackers that send as much as they may, have a connection each.
const FEW: usize = 8;
/// Open files of the proxy under the attack on its descriptors.
const OPEN_FILES: u32 = 256;
/// Twice as many as may wait for their passwords to be verified (docs/limits.md): the queue stays full, and the proxy
/// has to refuse all others.
const GUESSING: usize = 128;
/// The proxy looks at its memory four times a second; what arrives in between comes on top of the budget: 64 KiB for each
/// of [`HEADS`] connections.
const BETWEEN_LOOKS: u64 = 64 << 20;
/// What every flood may add to resident memory, whatever its connections: buffers and caches of the workers.
const ONCE: u64 = 32 << 20;
const SECOND: Duration = Duration::from_secs(1);
const LARGE_ANSWER: usize = 8 << 20;

/// What a flood needs and may cost.
pub(super) struct Plan {
    /// How clients and attackers speak.
    pub(super) scheme: Scheme,
    /// How much more memory than at rest the proxy may use, where its memory is attacked.
    pub(super) room: Option<u64>,
    /// The limit of open files of the proxy, where it is not that of this process.
    pub(super) open_files: Option<u32>,
    /// Attackers' connections.
    connections: RangeInclusive<usize>,
    /// Streams on each of them.
    streams: usize,
    /// Kibibytes that each of them may cost (docs/limits.md), besides what every connection has.
    kib_each: usize,
}

impl Plan {
    pub(super) fn of(kind: Kind) -> Self {
        let (scheme, connections) = (Scheme::Plain, FEW..=FEW);
        let few = Self { scheme, room: None, open_files: None, connections, streams: 1, kib_each: 64 };
        let any = 0..=usize::MAX;
        match kind {
            // A head.
            Kind::SlowHeads => Self { connections: any, kib_each: 32, ..few },
            // What is held for another attempt.
            Kind::SlowBodies => Self { connections: any, ..few },
            // What one read brings on top of 16 KiB. More connections would use up what the kernel grants all sockets of the
            // machine (`net.ipv4.tcp_mem`).
            Kind::SlowReads | Kind::NoReads => Self { connections: 0..=64, kib_each: 144, ..few },
            Kind::SilentHandshakes | Kind::HalfHandshakes => {
                Self { scheme: Scheme::Tls, connections: any, kib_each: 32, ..few }
            }
            Kind::ReplayedHellos | Kind::Handshakes => Self { scheme: Scheme::Tls, ..few },
            Kind::Descriptors => {
                let connections = 2 * OPEN_FILES as usize..=usize::MAX;
                Self { open_files: Some(OPEN_FILES), connections, ..few }
            }
            // Together they take more than the budget.
            Kind::MemoryHeads => Self { room: Some(ROOM), connections: HEADS..=HEADS, ..few },
            Kind::MemoryBodies => Self { room: Some(ROOM), connections: 2_000..=usize::MAX, ..few },
            Kind::MemoryReads => Self { room: Some(ROOM), connections: 0..=64, ..few },
            Kind::Passwords => Self { connections: GUESSING..=GUESSING, ..few },
            // For each stream a head, and what one read brings on top of its answer.
            Kind::H2TinyWindows => {
                Self { connections: 0..=16, streams: http2::TINY, kib_each: http2::TINY * 48, ..few }
            }
            Kind::H2NoReads => Self {
                connections: 0..=8,
                streams: http2::UNREAD,
                kib_each: 128 + http2::UNREAD * 144,
                ..few
            },
            Kind::H2Connections => Self { connections: any, kib_each: 32, ..few },
            // Its window and its outbox.
            _ if kind.name().starts_with("h2-") => Self { kib_each: 1_024 + 128, ..few },
            _ => few,
        }
    }

    /// Whether the flood uses up a resource, so that refusing work with 503 or by closing a new connection is the
    /// right answer, to well-behaved clients too.
    pub(super) fn exhausts(&self) -> bool {
        self.room.is_some() || self.open_files.is_some()
    }

    /// Attackers' connections: those of `wanted` where the attack is to hold many, few where it is to be fast.
    pub(super) fn connections(&self, wanted: usize) -> usize {
        wanted.clamp(*self.connections.start(), *self.connections.end())
    }

    /// Resident bytes that the proxy may have under `connections` of attackers when it had `before` without them.
    pub(super) fn bound(&self, before: u64, connections: usize) -> u64 {
        match self.room {
            Some(room) => before + room + BETWEEN_LOOKS,
            // And 32 KiB for the connection itself, buffers of TLS included.
            None => before + ONCE + (connections * (self.kib_each + 32) * 1024) as u64,
        }
    }

    /// Honest clients that load the proxy as much as a flood did, at the same times, and how many connections they have.
    /// Where attackers go on together at every step, clients of as many connections, or streams, ask together, unless
    /// their number is what uses up a resource. All others ask one by one.
    pub(super) fn honest(&self, flood: &Work, connections: usize) -> (Work, usize) {
        let request = Request::get(HOST, ASKED.0).bytes();
        match flood.step() {
            Some(step) if self.open_files.is_none() => {
                let holding = Holding::new(Vec::new(), Then::Send(request));
                (Work::Hold(Holding { step, paced: true, ..holding }), connections * self.streams)
            }
            _ => (Work::ask(vec![request]), FEW),
        }
    }
}

/// What a well-behaved client asks for, and the length of its answer.
pub(super) const ASKED: (&str, usize) = ("/bytes/1000", 1_000);

/// Objects that the attack needs.
pub(super) fn furnish(kind: Kind, site: &Site) {
    match kind {
        Kind::Regex => regex::furnish(site),
        Kind::Passwords => passwords::furnish(site),
        // Every body has its own limit of size; here it is the rate that is looked at.
        Kind::TinyChunks | Kind::ChunkExtensions | Kind::H2EmptyData => site.allow_any_body(),
        Kind::ReplayedHellos | Kind::Handshakes => site.certify(&site.rsa_leaf()),
        _ => {}
    }
}

/// What the attackers do.
pub(super) async fn work(kind: Kind, fairway: &Fairway) -> Work {
    let holding = |piece: Vec<u8>, then: Then| Holding::new(vec![piece], then);
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
            // Few at a time: between two looks of the proxy at its memory less arrives than the bound has room for.
            let holding = holding(beginning, Then::Send(vec![b'x'; 100]));
            Holding { step: SECOND / 4, new_in_a_turn: 100, ..holding }
        }
        _ => return fast(kind, fairway).await,
    })
}

/// What attackers do who go as fast as they may.
async fn fast(kind: Kind, fairway: &Fairway) -> Work {
    match kind {
        Kind::Regex => Work::ask(regex::most_expensive(fairway.http).await),
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
            let mut config = trusting_anything();
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
    let config = Arc::new(trusting_anything());
    let mut session = ClientConnection::new(config, server_name()).expect("the configuration is complete");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("a vector takes every byte");
    hello
}

/// Nearly what is allowed: 100 fields and 32 KiB, less what the proxy adds for the endpoint.
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
