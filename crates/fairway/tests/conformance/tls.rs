//! The checks of a TLS scanner: fragmented ClientHellos, unusual server names, unknown protocols, old versions, and invalid
//! records. ClientHellos are written by hand; the result is the first record that comes back.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::{Client, Request, TlsOffer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::conformance::client::{Silence, exchange};
use crate::conformance::fronts::{Front, fairway};
use crate::conformance::recorder::Recorder;

/// The first reaction of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    ServerHello,
    /// An alert with its description (RFC 8446 §6).
    Alert(u8),
    /// The connection ends without a record.
    Closed,
    /// Something else, or silence.
    Other,
}

use Reaction::{Alert, Closed, ServerHello};

const UNEXPECTED_MESSAGE: u8 = 10;
const HANDSHAKE_FAILURE: u8 = 40;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// Timeout for an end or an alert; no case waits for silence.
const QUIET: Duration = Duration::from_secs(30);

async fn reaction(address: SocketAddr, bytes: &[u8]) -> Reaction {
    let returned = exchange(address, bytes, &Silence::Time(QUIET), |came| came.len() >= 7).await;
    match returned.bytes[..] {
        [22, 3, _, _, _, 2, ..] => ServerHello,
        [21, 3, _, 0, 2, _, description, ..] => Alert(description),
        [] if returned.closed => Closed,
        _ => Reaction::Other,
    }
}

/// A ClientHello of TLS 1.2, with the parts that a scanner would vary.
struct Hello {
    version: [u8; 2],
    /// The content of the server name extension.
    name: Option<Vec<u8>>,
    protocols: Vec<&'static [u8]>,
    suites: Vec<u16>,
}

fn hello() -> Hello {
    // ECDHE with AES-GCM and ECDSA or RSA, and a TLS 1.0 suite of old clients.
    let suites = vec![0xc02b, 0xc02f, 0xc02c, 0xc030, 0xc009, 0x002f];
    Hello { version: [3, 3], name: Some(host_name(b"a.test")), protocols: vec![b"http/1.1"], suites }
}

/// `ServerNameList` with one host name (RFC 6066 §3).
fn host_name(name: &[u8]) -> Vec<u8> {
    let entry = [&[0], &sized(name)[..]].concat();
    sized(&entry)
}

/// Prefixed with its length in two bytes.
fn sized(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

impl Hello {
    /// The handshake message.
    fn message(&self) -> Vec<u8> {
        let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &sized(content)].concat();
        let mut extensions = Vec::new();
        if let Some(name) = &self.name {
            extensions.extend(extension(0, name));
        }
        extensions.extend(extension(10, &sized(&[0, 29, 0, 23])));
        extensions.extend(extension(11, &[1, 0]));
        extensions.extend(extension(13, &sized(&[4, 3, 8, 4, 4, 1])));
        // Extended master secret.
        extensions.extend(extension(23, &[]));
        if !self.protocols.is_empty() {
            let entry = |name: &&[u8]| [&[u8::try_from(name.len()).unwrap()], *name].concat();
            extensions
                .extend(extension(16, &sized(&self.protocols.iter().flat_map(entry).collect::<Vec<_>>())));
        }
        let suites: Vec<u8> = self.suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
        let body =
            [&self.version[..], &[7; 32], &[0], &sized(&suites), &[1, 0], &sized(&extensions)].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &length[1..], &body].concat()
    }

    /// In records of at most `size` bytes.
    fn records(&self, size: usize) -> Vec<u8> {
        self.message().chunks(size).flat_map(|piece| record(22, piece)).collect()
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 1], &sized(content)[..]].concat()
}

/// Runs `work` against the proxy and checks that it still serves afterwards.
async fn on_the_proxy(work: impl AsyncFnOnce(&Front)) {
    let recorder = Recorder::start().await;
    let front = fairway(recorder.address).await;
    work(&front).await;
    let mut client =
        Client::connect_tls(front.https, &TlsOffer::new(unverified_client_config(), "a.test")).await.unwrap();
    assert_eq!(client.exchange(&Request::get("a.test", "/")).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_client_hello_is_understood_in_pieces_of_any_size() {
    on_the_proxy(async |front| {
        for size in [1, 2, 3, 4, 5, 7, 50, 10_000] {
            assert_eq!(reaction(front.https, &hello().records(size)).await, ServerHello, "{size}");
        }
        // The name is also split across packets.
        let mut socket = tokio::net::TcpStream::connect(front.https).await.unwrap();
        socket.set_nodelay(true).unwrap();
        for byte in hello().records(1) {
            socket.write_all(&[byte]).await.unwrap();
        }
        let mut first = [0];
        socket.read_exact(&mut first).await.unwrap();
        assert_eq!(first, [22]);
    })
    .await;
}

#[tokio::test]
async fn odd_server_names_are_served_by_default_or_refused_with_an_alert() {
    let long = [b'a'; 63].iter().chain(b".").copied().cycle().take(300).collect::<Vec<u8>>();
    let names: [(&str, Option<Vec<u8>>, Reaction); 16] = [
        ("none", None, ServerHello),
        ("upper case", Some(host_name(b"A.TEST")), ServerHello),
        ("unknown", Some(host_name(b"other.test")), ServerHello),
        ("underscore", Some(host_name(b"_a.test")), ServerHello),
        ("one label", Some(host_name(b"localhost")), ServerHello),
        ("IPv4", Some(host_name(b"127.0.0.1")), ServerHello),
        ("IPv6", Some(host_name(b"::1")), ServerHello),
        ("trailing dot", Some(host_name(b"a.test.")), ServerHello),
        ("empty", Some(host_name(b"")), Alert(DECODE_ERROR)),
        ("300 bytes", Some(host_name(&long)), Alert(ILLEGAL_PARAMETER)),
        ("a label of 64 bytes", Some(host_name(&[b'a'; 64])), Alert(ILLEGAL_PARAMETER)),
        ("two dots", Some(host_name(b"a..test")), Alert(ILLEGAL_PARAMETER)),
        ("NUL", Some(host_name(b"a.test\0.b.test")), Alert(ILLEGAL_PARAMETER)),
        ("wildcard", Some(host_name(b"*.test")), Alert(ILLEGAL_PARAMETER)),
        ("UTF-8", Some(host_name("é.test".as_bytes())), Alert(ILLEGAL_PARAMETER)),
        ("list cut short", Some(vec![0, 9, 0, 0, 6, b'a']), Alert(DECODE_ERROR)),
    ];
    on_the_proxy(async |front| {
        let mut wrong = Vec::new();
        for (what, name, expected) in names {
            let found = reaction(front.https, &Hello { name, ..hello() }.records(10_000)).await;
            if found != expected {
                wrong.push(format!("{what}: {found:?}, expected {expected:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    })
    .await;
}

#[tokio::test]
async fn an_unknown_protocol_is_refused_with_its_alert() {
    on_the_proxy(async |front| {
        let cases: [(Vec<&'static [u8]>, Reaction); 7] = [
            (vec![], ServerHello),
            (vec![b"http/1.1"], ServerHello),
            (vec![b"h2", b"http/1.1"], ServerHello),
            (vec![b"spdy/3", b"http/1.1"], ServerHello),
            (vec![b"spdy/3"], Alert(NO_APPLICATION_PROTOCOL)),
            (vec![b"h3", b"HTTP/1.1"], Alert(NO_APPLICATION_PROTOCOL)),
            (vec![b""], Alert(DECODE_ERROR)),
        ];
        for (protocols, expected) in cases {
            let bytes = Hello { protocols: protocols.clone(), ..hello() }.records(10_000);
            assert_eq!(reaction(front.https, &bytes).await, expected, "{protocols:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn old_versions_and_unknown_ciphers_are_refused() {
    on_the_proxy(async |front| {
        for version in [[2, 0], [3, 0], [3, 1], [3, 2]] {
            let bytes = Hello { version, ..hello() }.records(10_000);
            assert_eq!(reaction(front.https, &bytes).await, Alert(PROTOCOL_VERSION), "{version:?}");
        }
        // Only CBC and RSA key exchange, and suites that do not exist.
        for suites in [vec![0xc009, 0x002f], vec![0x0a0a]] {
            let bytes = Hello { suites: suites.clone(), ..hello() }.records(10_000);
            assert_eq!(reaction(front.https, &bytes).await, Alert(HANDSHAKE_FAILURE), "{suites:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_handshakes_end_the_connection() {
    on_the_proxy(async |front| {
        let plain = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec();
        let sslv2 = [&[0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10][..], &[0; 37]].concat();
        let huge = [&[22, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat();
        let endless = record(22, &[1, 0xff, 0xff, 0xff, 3, 3]);
        let cases: [(&str, Vec<u8>); 8] = [
            ("HTTP", plain),
            ("SSLv2", sslv2),
            ("a record over the limit", huge),
            ("a message over the limit", endless),
            ("an empty record", record(22, &[])),
            ("data first", record(23, b"x")),
            ("an unknown record", record(99, b"x")),
            ("a server's message first", record(22, &[2, 0, 0, 0])),
        ];
        for (what, bytes) in cases {
            let found = reaction(front.https, &bytes).await;
            assert!(matches!(found, Alert(_) | Closed), "{what}: {found:?}");
        }
        let mut socket = tokio::net::TcpStream::connect(front.https).await.unwrap();
        socket.write_all(&hello().records(10_000)).await.unwrap();
        let mut flight = [0; 16 * 1024];
        // The flight of the server ends with ServerHelloDone, which has no content.
        let mut filled = 0;
        while !flight[..filled].ends_with(&[14, 0, 0, 0]) {
            let count = socket.read(&mut flight[filled..]).await.unwrap();
            assert!(count > 0, "the connection ended before ServerHelloDone");
            filled += count;
        }
        socket.write_all(&record(22, &[20, 0, 0, 0])).await.unwrap();
        let mut alert = Vec::new();
        tokio::time::timeout(QUIET, socket.read_to_end(&mut alert)).await.unwrap().unwrap();
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, UNEXPECTED_MESSAGE], "unexpected Finished");
    })
    .await;
}

/// With openssl, if it is installed: the only client that requests it.
#[tokio::test]
async fn a_client_cannot_renegotiate() {
    if Command::new("openssl").arg("version").output().await.is_err() {
        println!("skipped: openssl is not installed");
        return;
    }
    on_the_proxy(async |front| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-tls1_2", "-connect", &front.https.to_string(), "-servername", "a.test"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (mut input, mut errors) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        let mut transcript = Vec::new();
        // The output shows a certificate verification for each handshake.
        until(&mut errors, &mut transcript, b"verify return:1").await;
        input.write_all(b"R\n").await.unwrap();
        until(&mut errors, &mut transcript, b"RENEGOTIATING").await;
        let before = transcript.len();
        let _ = tokio::time::timeout(Duration::from_secs(2), errors.read_to_end(&mut transcript)).await;
        let after = String::from_utf8_lossy(&transcript[before..]);
        assert!(!after.contains("verify return"), "{after}");
        child.kill().await.unwrap();
    })
    .await;
}

async fn until(source: &mut (impl tokio::io::AsyncRead + Unpin), transcript: &mut Vec<u8>, text: &[u8]) {
    while !transcript.windows(text.len()).any(|part| part == text) {
        let count = tokio::time::timeout(QUIET, source.read_buf(transcript)).await.unwrap().unwrap();
        assert!(count > 0, "openssl ended: {}", String::from_utf8_lossy(transcript));
    }
}
