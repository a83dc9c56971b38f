//! How each attack is carried out: what the proxy is started with, what the attackers do, what it may cost.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::client::Resumption;
use rustls_pki_types::ServerName;

use super::held::{Holding, Then};
use super::kind::Kind;
use super::rush::Rush;
use super::threads::Work;
use super::{http2, passwords, regex};
use crate::certificates::trusting_anything;
use crate::client::Request;
use crate::process::Fairway;
use crate::proof::site::{HOST, Scheme, Site};

/// The memory budget of the proxy under the attacks on its memory, beyond what it uses at rest: less than the heads of
/// [`HEADS`] connections, which may all arrive between two looks.
const ROOM_MIB: u64 = 16;
const HEADS: usize = 1_000;
/// Honest clients that ask one by one, a connection each: as many as attackers that send as much as they may.
const HONEST: usize = 8;
/// Open files of the proxy under the attack on its descriptors.
const OPEN_FILES: u32 = 256;
/// Twice as many as may wait for their passwords to be verified (docs/limits.md): the queue stays full, and the proxy
/// has to refuse all others.
const GUESSING: usize = 128;
/// The proxy looks at its memory four times a second; what arrives in between comes on top of the budget: 64 KiB for each
/// of [`HEADS`] connections.
const BETWEEN_LOOKS_MIB: u64 = 64;
/// What every flood may add to resident memory, whatever its connections: buffers and caches of the workers.
const ONCE_MIB: u64 = 32;
const SECOND: Duration = Duration::from_secs(1);
const LARGE_ANSWER: usize = 8 << 20;

impl Kind {
    /// How clients and attackers speak.
    pub(super) fn scheme(self) -> Scheme {
        match self {
            Self::SilentHandshakes | Self::HalfHandshakes | Self::ReplayedHellos | Self::Handshakes => {
                Scheme::Tls
            }
            _ => Scheme::Plain,
        }
    }

    /// How much more memory than at rest the proxy may use, where its memory is attacked.
    pub(super) fn room(self) -> Option<u64> {
        matches!(self, Self::MemoryHeads | Self::MemoryBodies | Self::MemoryReads).then_some(ROOM_MIB << 20)
    }

    /// The limit of open files of the proxy, where it is not that of this process.
    pub(super) fn open_files(self) -> Option<u32> {
        (self == Self::Descriptors).then_some(OPEN_FILES)
    }

    /// Attackers' connections: those of `wanted` where the attack is to hold many, few where it is to be fast.
    pub(super) fn connections(self, wanted: usize, work: &Work) -> usize {
        match self {
            Self::Descriptors => wanted.max(2 * OPEN_FILES as usize),
            // Together they take more than the budget.
            Self::MemoryHeads => HEADS,
            Self::MemoryBodies => wanted.max(2_000),
            // More would use up what the kernel grants all sockets of the machine (`net.ipv4.tcp_mem`).
            Self::SlowReads | Self::NoReads | Self::MemoryReads => wanted.min(64),
            // Each has many answers.
            Self::H2TinyWindows => wanted.min(16),
            Self::H2NoReads => wanted.min(8),
            Self::Passwords => GUESSING,
            _ if matches!(work, Work::Hold(_)) => wanted,
            _ => 8,
        }
    }

    /// Resident bytes that the proxy may have under `connections` of attackers when it had `before` without them.
    pub(super) fn bound(self, before: u64, connections: usize) -> u64 {
        if let Some(room) = self.room() {
            return before + room + (BETWEEN_LOOKS_MIB << 20);
        }
        let each = match self {
            // docs/limits.md: a head; what is held for another attempt; what one read brings on top of 16 KiB.
            Self::SlowHeads => 32,
            Self::SlowBodies => 64,
            Self::SlowReads | Self::NoReads => 144,
            Self::SilentHandshakes | Self::HalfHandshakes => 32,
            _ if self.is_http2() => http2::kib_each(self),
            _ => 64,
        };
        // And as much for the connection itself, buffers of TLS included.
        before + (ONCE_MIB << 20) + connections as u64 * (each + 32) * 1024
    }

    /// Objects that the attack needs.
    pub(super) fn furnish(self, site: &Site) {
        match self {
            Self::Regex => regex::furnish(site),
            Self::Passwords => passwords::furnish(site),
            // Every body has its own limit of size; here it is the rate that is looked at.
            Self::TinyChunks | Self::ChunkExtensions | Self::H2EmptyData => site.allow_any_body(),
            Self::ReplayedHellos | Self::Handshakes => site.certify(&site.rsa_leaf()),
            _ => {}
        }
    }

    /// What the attackers do.
    pub(super) async fn work(self, fairway: &Fairway) -> Work {
        match self {
            Self::SlowHeads | Self::SlowBodies | Self::SilentHandshakes | Self::HalfHandshakes => self.slow(),
            Self::SlowReads => reading(Then::Read(1)),
            Self::NoReads | Self::MemoryReads => reading(Then::Hold),
            Self::Descriptors => {
                let request = Request::get(HOST, "/bytes/10").bytes();
                holding(vec![request.clone()], Then::Send(request))
            }
            Self::MemoryHeads => {
                let head = Request::get("nowhere.test", "/").header("X-Long", &"x".repeat(28 * 1024)).bytes();
                let (first, second) = head.split_at(head.len() / 2);
                let holding = Holding::new(vec![first.to_vec(), second.to_vec()], Then::Leave);
                Work::Hold(Holding { step: SECOND / 10, ..holding })
            }
            Self::MemoryBodies => {
                let mut beginning = Request::post(HOST, "/sink", vec![b'x'; 1 << 20]).head_bytes();
                beginning.resize(beginning.len() + 63 * 1024, b'x');
                // Few at a time: between two looks of the proxy at its memory less arrives than the bound has room for.
                let holding = Holding::new(vec![beginning], Then::Send(vec![b'x'; 100]));
                Work::Hold(Holding { step: SECOND / 4, new_in_a_turn: 100, ..holding })
            }
            Self::Regex => Work::Rush(Rush::ask(regex::most_expensive(fairway.http).await)),
            Self::Passwords => {
                let guesses = passwords::guesses(fairway.http).await;
                Work::Rush(Rush::Ask(Arc::new(move || guesses.another().bytes())))
            }
            Self::ReplayedHellos => Work::Rush(Rush::Hello(Arc::new(client_hello()))),
            Self::Handshakes => {
                let mut config = trusting_anything();
                config.resumption = Resumption::disabled();
                Work::Rush(Rush::Handshakes(Arc::new(config), server_name()))
            }
            Self::ConnectionChurn => Work::Rush(Rush::Connections),
            Self::LargeHeads => streaming(&large_head().repeat(16)),
            Self::Pipelined => streaming(&Request::get("nowhere.test", "/").bytes().repeat(1_000)),
            Self::TinyChunks => streaming(&chunked(b"1\r\nx\r\n", 50_000)),
            Self::ChunkExtensions => {
                streaming(&chunked(format!("1;{}\r\nx\r\n", "e".repeat(900)).as_bytes(), 1_000))
            }
            _ => http2::work(self),
        }
    }

    fn slow(self) -> Work {
        match self {
            Self::SlowHeads => {
                let beginning = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ").into_bytes();
                holding(vec![beginning], Then::Send(b"x".to_vec()))
            }
            Self::SlowBodies => {
                let head = Request::post(HOST, "/sink", vec![b'x'; 1 << 20]).head_bytes();
                holding(vec![head], Then::Send(b"x".to_vec()))
            }
            Self::HalfHandshakes => {
                let hello = client_hello();
                holding(vec![hello[..hello.len() / 2].to_vec()], Then::Listen)
            }
            _ => holding(vec![client_hello()], Then::Listen),
        }
    }
}

/// What a well-behaved client asks for, and the length of its answer.
pub(super) const ASKED: (&str, usize) = ("/bytes/1000", 1_000);

/// Honest clients that load the proxy as much as a flood did, at the same times, and how many connections they have.
/// Where attackers go on together at every step, clients of as many connections, or streams, ask together, unless their
/// number is what uses up a resource. All others ask one by one.
pub(super) fn honest(kind: Kind, flood: &Work, connections: usize) -> (Work, usize) {
    let request = Request::get(HOST, ASKED.0).bytes();
    match flood {
        Work::Hold(Holding { step, .. }) if kind != Kind::Descriptors => {
            let holding = Holding::new(Vec::new(), Then::Send(request));
            let holding = Holding { step: *step, paced: true, ..holding };
            (Work::Hold(holding), connections * http2::streams(kind))
        }
        _ => (Work::Rush(Rush::ask(vec![request])), HONEST),
    }
}

fn holding(pieces: Vec<Vec<u8>>, then: Then) -> Work {
    Work::Hold(Holding::new(pieces, then))
}

fn reading(then: Then) -> Work {
    let request = Request::get(HOST, &format!("/bytes/{LARGE_ANSWER}")).bytes();
    // So small that it costs the attacker nothing.
    Work::Hold(Holding { receive_buffer: Some(4 * 1024), ..Holding::new(vec![request], then) })
}

fn streaming(bytes: &[u8]) -> Work {
    Work::Rush(Rush::stream(bytes))
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
    let fields = 88;
    let request = Request::get(HOST, "/bytes/10");
    (0..fields)
        .fold(request, |request, field| request.header(&format!("X-Field-{field}"), &"v".repeat(340)))
        .bytes()
}

fn chunked(chunk: &[u8], count: usize) -> Vec<u8> {
    let head = format!("POST /sink HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    [head.as_bytes(), &chunk.repeat(count), b"0\r\n\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_clients_ask_together_where_attackers_go_on_together_and_else_one_by_one() {
        let seen = |kind: Kind, flood: Work, attackers: usize| {
            let (work, connections) = honest(kind, &flood, attackers);
            (work.step(), connections)
        };
        assert_eq!(seen(Kind::SlowBodies, Kind::SlowBodies.slow(), 1_000), (Some(SECOND), 1_000));
        let windows = http2::work(Kind::H2TinyWindows);
        assert_eq!(seen(Kind::H2TinyWindows, windows, 16), (Some(SECOND), 1_600), "as many as streams");
        let request = holding(vec![Vec::new()], Then::Hold);
        assert_eq!(seen(Kind::Descriptors, request, 1_000), (None, HONEST), "more would be the attack");
        assert_eq!(seen(Kind::Pipelined, streaming(b"GET"), 8), (None, HONEST));
        let guess = Work::Rush(Rush::ask(Vec::new()));
        assert_eq!(seen(Kind::Passwords, guess, GUESSING), (None, HONEST));
    }

    #[test]
    fn wrong_passwords_come_over_a_fixed_number_of_connections_whose_memory_is_bounded() {
        let guess = Work::Rush(Rush::ask(Vec::new()));
        assert_eq!([10, 20_000].map(|wanted| Kind::Passwords.connections(wanted, &guess)), [128; 2]);
        assert!(!Kind::Passwords.exhausts());
        let mib = 1 << 20;
        assert_eq!(Kind::Passwords.bound(20 * mib, 128), 64 * mib);
    }
}
