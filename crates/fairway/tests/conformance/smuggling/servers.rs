//! Real servers as readers: they get the forwarded bytes of a proxy and report which requests they saw. Go, Node and Python each
//! run a small program (`conformance/servers`); nginx and HAProxy run in front of the Go server. Servers that are not installed
//! are skipped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fairway_testkit::process::Program;
use fairway_testkit::wait::{eventually, free_address};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::conformance::client::{Silence, Turns, exchange};
use crate::conformance::fronts::{self, Front, HAPROXY, NGINX, Peer};
use crate::conformance::readers::{Message, Rest, strict};

/// A running server.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
    address: SocketAddr,
    _running: Running,
}

#[expect(dead_code, reason = "kept until the server is dropped")]
enum Running {
    Own(Program, TempDir),
    Before(Front),
}

/// The results of a server for all streams.
#[derive(Default)]
pub(crate) struct Read {
    /// Number of requests it responded to.
    pub(crate) requests: usize,
    /// Number of streams of which it refused a part.
    pub(crate) stricter: usize,
    /// Descriptions of streams that it split differently.
    pub(crate) different: Vec<String>,
}

/// All installed servers.
pub(crate) async fn all() -> Vec<Server> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/servers");
    let mut servers = Vec::new();
    if let Some(go) = go(&sources).await {
        let backend = go.address;
        servers.push(go);
        for peer in [&NGINX, &HAPROXY] {
            servers.extend(before(peer, backend).await);
        }
    }
    servers.extend(script("Node", &["node"], &sources.join("server.mjs")).await);
    servers.extend(script("Python", &["python3"], &sources.join("server.py")).await);
    servers
}

/// The version output of a program; `None` if it is not installed.
fn version(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number =
        text.split_whitespace().map(|word| word.trim_start_matches(|c: char| c.is_ascii_alphabetic()));
    Some(number.into_iter().find(|word| word.contains('.')).unwrap_or("unknown").to_owned())
}

async fn go(sources: &Path) -> Option<Server> {
    let version = version("go", "version")?;
    let folder = TempDir::with_prefix("fairway-conformance-").unwrap();
    let program: PathBuf = folder.path().join("server");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(sources).status();
    assert!(built.is_ok_and(|status| status.success()), "cannot build the Go server");
    Some(run("Go", version, &program, &[], folder).await)
}

async fn script(name: &str, command: &[&str], file: &Path) -> Option<Server> {
    let version = version(command[0], "--version")?;
    let folder = TempDir::with_prefix("fairway-conformance-").unwrap();
    Some(run(name, version, Path::new(command[0]), &[&file.display().to_string()], folder).await)
}

async fn run(name: &str, version: String, program: &Path, arguments: &[&str], folder: TempDir) -> Server {
    let address = free_address();
    let arguments: Vec<String> =
        arguments.iter().map(|&argument| argument.to_owned()).chain([address.port().to_string()]).collect();
    let program = Program::start(program, &arguments);
    eventually(&format!("{name} listens"), Duration::from_secs(20), || async {
        TcpStream::connect(address).await.is_ok()
    })
    .await;
    Server { name: name.to_owned(), version, address, _running: Running::Own(program, folder) }
}

async fn before(peer: &'static Peer, backend: SocketAddr) -> Option<Server> {
    let front = fronts::start(peer, (peer.command)()?, backend).await;
    let (name, version, address) = (front.name.to_owned(), front.version.clone(), front.http);
    Some(Server { name, version, address, _running: Running::Before(front) })
}

impl Server {
    /// Sends it every stream.
    pub(crate) async fn read_all(&self, streams: &[Vec<u8>]) -> Read {
        let gate = Arc::new(Semaphore::new(16));
        let mut under_way = Vec::new();
        let turns = Turns::for_address(self.address);
        for stream in streams.iter().flat_map(|stream| behind_upgrades(stream)) {
            let permit = Arc::clone(&gate).acquire_owned().await.unwrap();
            let (address, stream, turns) = (self.address, stream.to_vec(), Arc::clone(&turns));
            under_way.push(tokio::spawn(async move {
                let read = read(address, &stream, turns).await;
                drop(permit);
                read
            }));
        }
        let mut all = Read::default();
        for one in under_way {
            let (requests, verdict) = one.await.unwrap();
            all.requests += requests;
            match verdict {
                Verdict::Same => {}
                Verdict::Stricter => all.stricter += 1,
                Verdict::Different(how) => all.different.push(how),
            }
        }
        all
    }
}

/// A stream in pieces, each ending with an upgrade request. A proxy sends nothing after one before the response, and Node drops
/// bytes that come earlier, so the pieces are read separately, as they were sent.
fn behind_upgrades(stream: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut from, mut start) = (Vec::new(), 0, 0);
    for message in strict(stream).messages {
        let asks =
            stream[start..message.end].to_ascii_lowercase().windows(10).any(|part| part == b"\r\nupgrade:");
        start = message.end;
        if asks {
            pieces.push(&stream[from..start]);
            from = start;
        }
    }
    pieces.extend(stream.get(from..).filter(|piece| !piece.is_empty()));
    pieces
}

enum Verdict {
    Same,
    /// It refused what others accepted, and did not respond to anything after that.
    Stricter,
    Different(String),
}

/// Sends a stream, followed by a last request if it is complete, and compares the requests that were seen.
async fn read(address: SocketAddr, stream: &[u8], turns: Arc<Turns>) -> (usize, Verdict) {
    let reading = strict(stream);
    let mut expected: Vec<String> = reading.messages.iter().map(Message::echoed_text).collect();
    let mut bytes = stream.to_vec();
    // After an upgrade nothing may be sent before its response.
    let last = reading.messages.iter().rev().nth(1).map_or(0, |message| message.end);
    let asks = stream[last..].to_ascii_lowercase().windows(10).any(|part| part == b"\r\nupgrade:");
    let is_whole = reading.unread == Rest::Nothing && !asks;
    if is_whole {
        bytes.extend_from_slice(b"GET /the-end HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        expected.push("GET /the-end 0".to_owned());
    }
    let all = expected.clone();
    // A response to HEAD does not show the request that was seen.
    expected.retain(|received| !received.starts_with("HEAD "));
    // If the last request does not end the exchange, it ends when there is no excess response.
    let returned = exchange(address, &bytes, &Silence::TurnsAfter(expected.len(), turns), |_| false).await;
    // Python's http.server merges leading slashes of a target (CVE-2021-28861).
    let merged = |received: String| received.replacen(" //", " /", 1);
    let received: Vec<_> = returned.requests_seen().into_iter().map(merged).collect();
    expected = expected.into_iter().map(merged).collect();
    let text = returned.text();
    let verdict = if received == expected {
        Verdict::Same
    } else if refuses_the_rest(&text, &all) {
        Verdict::Stricter
    } else {
        Verdict::Different(format!(
            "saw {received:?}, strict saw {expected:?}: {:?}",
            text.get(..200).unwrap_or(&text)
        ))
    };
    (received.len(), verdict)
}

/// Whether these are the responses to `all` requests in their order. The server may refuse each request, and responses after the
/// last one may be missing only if that is a refusal.
fn refuses_the_rest(text: &str, all: &[String]) -> bool {
    let merged = |received: &str| received.replacen(" //", " /", 1);
    let responses = text.split("HTTP/1.").skip(1).filter_map(|response| {
        let status: u16 = response.get(2..5)?.parse().ok()?;
        let received =
            response.split("seen ").nth(1).map(|rest| merged(rest.lines().next().unwrap_or_default()));
        (status >= 200).then_some((status >= 400, received))
    });
    let responses: Vec<_> = responses.collect();
    let is_right = |(one, wanted): (&(bool, Option<String>), &String)| match one {
        (true, _) => true,
        (false, Some(received)) => *received == merged(wanted),
        (false, None) => wanted.starts_with("HEAD "),
    };
    let ends_in_refusal = responses.last().is_some_and(|(is_refusal, _)| *is_refusal);
    // The refusal of an incomplete request comes after the responses to complete ones.
    responses.len() <= all.len() + 1 && responses.iter().zip(all).all(is_right) && ends_in_refusal
}

#[test]
fn a_server_is_stricter_only_if_it_refused_and_read_nothing_else() {
    let all = ["GET /a 0", "HEAD /b 0", "POST /c 3"].map(str::to_owned);
    let ok = |received: &str| format!("HTTP/1.1 200 OK\r\n\r\nseen {received}\n");
    let (no, head) = ("HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n");
    let is_stricter = |texts: &[&str]| refuses_the_rest(&texts.concat(), &all);
    assert!(is_stricter(&[&ok("GET /a 0"), no]));
    assert!(is_stricter(&[&ok("GET /a 0"), head, no]));
    assert!(!is_stricter(&[&ok("GET /a 0")]), "the rest is missing without a word");
    assert!(!is_stricter(&[no, &ok("POST /c 3")]), "one is missing between them");
    assert!(!is_stricter(&[&ok("GET /a 3"), no]), "it saw another one");
    assert!(!is_stricter(&[&ok("GET /a 0"), &ok("GET /smuggled 0"), no]));
}
