//! Real servers as readers: they get what a proxy forwarded, byte for byte, and say which requests they saw. Go,
//! Node and Python run a small program each (`conformance/servers`); nginx and HAProxy stand before the one of Go.
//! What is not installed is left out.

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

/// What a server made of all streams.
#[derive(Default)]
pub(crate) struct Read {
    /// Requests it answered.
    pub(crate) requests: usize,
    /// Streams of which it refused a part.
    pub(crate) stricter: usize,
    /// Streams that it cut differently, in words.
    pub(crate) different: Vec<String>,
}

/// Every server that this machine has.
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

/// What a program prints about its version; nothing when it is not installed.
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
    assert!(built.is_ok_and(|status| status.success()), "the server of Go cannot be built");
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
        arguments.iter().map(|&one| one.to_owned()).chain([address.port().to_string()]).collect();
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
    /// Has it read every stream.
    pub(crate) async fn read_all(&self, streams: &[Vec<u8>]) -> Read {
        let gate = Arc::new(Semaphore::new(16));
        let mut under_way = Vec::new();
        let turns = Turns::of(self.address);
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

/// A stream in pieces, each up to a request for an upgrade. A proxy sends nothing behind one before it is answered, and Node
/// drops what comes earlier: the pieces are read apart, as they were sent.
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
    /// It refused what others took, and answered nothing after that.
    Stricter,
    Different(String),
}

/// Sends a stream, with a last request behind it if it is whole, and compares what was seen.
async fn read(address: SocketAddr, stream: &[u8], turns: Arc<Turns>) -> (usize, Verdict) {
    let reading = strict(stream);
    let mut wanted: Vec<String> = reading.messages.iter().map(Message::seen).collect();
    let mut bytes = stream.to_vec();
    // Behind an upgrade nothing may come before its answer.
    let last = reading.messages.iter().rev().nth(1).map_or(0, |message| message.end);
    let asks = stream[last..].to_ascii_lowercase().windows(10).any(|part| part == b"\r\nupgrade:");
    let is_whole = reading.rest == Rest::Nothing && !asks;
    if is_whole {
        bytes.extend_from_slice(b"GET /the-end HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        wanted.push("GET /the-end 0".to_owned());
    }
    let all = wanted.clone();
    // An answer to HEAD does not show what was seen.
    wanted.retain(|seen| !seen.starts_with("HEAD "));
    // What the last request does not end ends when there is no answer too many.
    let returned = exchange(address, &bytes, &Silence::TurnsAfter(wanted.len(), turns), |_| false).await;
    // http.server of Python merges the slashes at the beginning of a target (CVE-2021-28861).
    let merged = |seen: String| seen.replacen(" //", " /", 1);
    let seen: Vec<_> = returned.seen().into_iter().map(merged).collect();
    wanted = wanted.into_iter().map(merged).collect();
    let text = returned.text();
    let verdict = if seen == wanted {
        Verdict::Same
    } else if refuses_the_rest(&text, &all) {
        Verdict::Stricter
    } else {
        Verdict::Different(format!(
            "saw {seen:?}, strict saw {wanted:?}: {:?}",
            text.get(..200).unwrap_or(&text)
        ))
    };
    (seen.len(), verdict)
}

/// Whether the answers are those to `all` requests in their order, each of which the server may refuse, and those behind the
/// last answer are missing only where that is a refusal.
fn refuses_the_rest(text: &str, all: &[String]) -> bool {
    let merged = |seen: &str| seen.replacen(" //", " /", 1);
    let answers = text.split("HTTP/1.").skip(1).filter_map(|answer| {
        let status: u16 = answer.get(2..5)?.parse().ok()?;
        let seen = answer.split("seen ").nth(1).map(|rest| merged(rest.lines().next().unwrap_or_default()));
        (status >= 200).then_some((status >= 400, seen))
    });
    let answers: Vec<_> = answers.collect();
    let is_right = |(one, wanted): (&(bool, Option<String>), &String)| match one {
        (true, _) => true,
        (false, Some(seen)) => *seen == merged(wanted),
        (false, None) => wanted.starts_with("HEAD "),
    };
    let ends_in_refusal = answers.last().is_some_and(|(is_refusal, _)| *is_refusal);
    // A refusal of what is no whole request comes behind the answers to those that are.
    answers.len() <= all.len() + 1 && answers.iter().zip(all).all(is_right) && ends_in_refusal
}

#[test]
fn a_server_is_stricter_only_where_it_refused_and_saw_nothing_else() {
    let all = ["GET /a 0", "HEAD /b 0", "POST /c 3"].map(str::to_owned);
    let ok = |seen: &str| format!("HTTP/1.1 200 OK\r\n\r\nseen {seen}\n");
    let (no, head) = ("HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n");
    let is_stricter = |texts: &[&str]| refuses_the_rest(&texts.concat(), &all);
    assert!(is_stricter(&[&ok("GET /a 0"), no]));
    assert!(is_stricter(&[&ok("GET /a 0"), head, no]));
    assert!(!is_stricter(&[&ok("GET /a 0")]), "the rest is missing without a word");
    assert!(!is_stricter(&[no, &ok("POST /c 3")]), "one is missing between them");
    assert!(!is_stricter(&[&ok("GET /a 3"), no]), "it saw another one");
    assert!(!is_stricter(&[&ok("GET /a 0"), &ok("GET /smuggled 0"), no]));
}
