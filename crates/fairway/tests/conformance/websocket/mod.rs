//! WebSocket (RFC 6455, RFC 8441): the verdict of a real server on the frames of a client, sent directly and through the proxy,
//! with HTTP/1 and HTTP/2 on either side. The verdict and every byte that comes back must be the same.

mod cases;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Request, Version};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::conformance::fronts::{Front, Spoken, fairway_to};
use cases::{Case, Cases};
use server::{Server, proof};

const STEP_TIMEOUT: Duration = Duration::from_secs(20);

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// The server's verdict.
    verdict: Vec<String>,
    /// All bytes that came back.
    returned: Vec<u8>,
}

impl Outcome {
    fn in_words(&self) -> String {
        let end: String =
            self.returned.iter().rev().take(16).rev().map(|byte| format!("{byte:02x}")).collect();
        format!("{:?}; {} bytes came back, the last {end}", self.verdict, self.returned.len())
    }
}

/// The peer of a connection and its protocol.
#[derive(Clone, Copy)]
struct Route {
    address: SocketAddr,
    client: Spoken,
    endpoint: Spoken,
}

/// Sends one case to the peer; the error is the reason why there was no WebSocket.
async fn send_case(route: Route, server: &mut Server, path: &str, case: &Case) -> Result<Outcome, String> {
    let Route { address, client, endpoint } = route;
    let work = async {
        let returned = match client {
            Spoken::Http1 => talk(over_http1(address, path).await?, case).await,
            Spoken::Http2 => talk(over_http2(address, path).await?, case).await,
        };
        let (version, asked, verdict) = server.verdicts.recv().await.expect("the server runs");
        assert_eq!(asked, path, "cases run one at a time");
        assert_eq!(version == Version::HTTP_2, endpoint == Spoken::Http2, "{version:?}");
        Ok(Outcome { verdict, returned })
    };
    timeout(STEP_TIMEOUT, work).await.unwrap_or_else(|_| Err("it did not end".to_owned()))
}

/// Writes all bytes of a case, closes the direction, and returns the bytes that come back until the peer closes.
async fn talk(stream: impl AsyncRead + AsyncWrite, case: &Case) -> Vec<u8> {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut returned = Vec::new();
    let write = async {
        // A server that closes early does not read everything.
        let _ = if case.bytewise {
            let mut written = Ok(());
            for byte in &case.bytes {
                written = written.and(to.write_all(&[*byte]).await);
                written = written.and(to.flush().await);
            }
            written
        } else {
            to.write_all(&case.bytes).await
        };
        let _ = to.shutdown().await;
    };
    let read = async { drop(from.read_to_end(&mut returned).await) };
    tokio::join!(write, read);
    returned
}

async fn over_http1(address: SocketAddr, path: &str) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let handshake = format!(
        "GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(handshake.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.map_err(|error| error.to_string())?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let accept = format!("sec-websocket-accept: {}\r\n", proof(KEY.as_bytes()));
    let proven = head.to_lowercase().contains(&accept.to_lowercase());
    if head.starts_with("HTTP/1.1 101") && proven { Ok(stream) } else { Err(head) }
}

/// With hyper, which implements only the handshake of WebSocket.
async fn over_http2(address: SocketAddr, path: &str) -> Result<impl AsyncRead + AsyncWrite, String> {
    let socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    // The client must have received the server's SETTINGS (RFC 8441 §3); an ordinary exchange waits for them.
    let first = Request::get("http://a.test/settings").version(Version::HTTP_2);
    let first = first.body(String::new()).unwrap();
    sender.send_request(first).await.map_err(|error| error.to_string())?;
    let request = Request::builder()
        .method(Method::CONNECT)
        .version(Version::HTTP_2)
        .uri(format!("http://a.test{path}"))
        .header("sec-websocket-version", "13")
        .extension(Protocol::from_static("websocket"))
        .body(String::new())
        .unwrap();
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if response.status() != 200 {
        return Err(format!("{response:?}"));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
    Ok(TokioIo::new(upgraded))
}

/// The server's results for all cases without a proxy.
async fn direct(server: &mut Server, cases: &[Case]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let route = Route { address: server.address, client: Spoken::Http1, endpoint: Spoken::Http1 };
    for (number, case) in cases.iter().enumerate() {
        let outcome = send_case(route, server, &format!("/direct/{number}"), case).await;
        outcomes.push(outcome.unwrap_or_else(|why| panic!("{}: {why}", case.name)));
    }
    outcomes
}

/// The cases whose result differs from the direct one.
async fn differences(
    route: Route,
    server: &mut Server,
    cases: &[Case],
    direct: &[Outcome],
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (number, (case, expected)) in cases.iter().zip(direct).enumerate() {
        match send_case(route, server, &format!("/proxy/{number}"), case).await {
            Ok(outcome) if outcome == *expected => {}
            Ok(outcome) => {
                let how = format!("{}, directly {}", outcome.in_words(), expected.in_words());
                found.push((case.name.clone(), how));
            }
            Err(why) => found.push((case.name.clone(), why)),
        }
    }
    found
}

const PAIRINGS: [(Spoken, Spoken); 4] = [
    (Spoken::Http1, Spoken::Http1),
    (Spoken::Http2, Spoken::Http1),
    (Spoken::Http1, Spoken::Http2),
    (Spoken::Http2, Spoken::Http2),
];

#[tokio::test]
async fn a_server_judges_frames_as_without_a_proxy_in_every_pairing() {
    let cases = Cases::all();
    let mut server = Server::start().await;
    let direct = direct(&mut server, &cases).await;
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let refused =
        direct.iter().filter(|outcome| outcome.verdict.iter().any(|it| it.contains("protocol error")));
    assert!(refused.count() >= 40, "the server is strict");
    for (client, endpoint) in PAIRINGS {
        let front = fairway_to(server.address, endpoint).await;
        let route = Route { address: front.http, client, endpoint };
        let found = differences(route, &mut server, &cases, &direct).await;
        let lines: Vec<_> = found.iter().map(|(case, how)| format!("{case}: {how}")).collect();
        assert!(lines.is_empty(), "{client:?} to {endpoint:?}, {}:\n{}", lines.len(), lines.join("\n"));
    }
}

/// The changes by a proxy in each pairing, for the report. `to` returns a proxy in front of endpoints of the other version; only
/// Fairway is configured for it.
pub(crate) async fn report(front: impl AsyncFn(SocketAddr, Spoken) -> Option<Front>) -> Value {
    let cases = Cases::all();
    let mut server = Server::start().await;
    let direct = direct(&mut server, &cases).await;
    let mut runs = Vec::new();
    for (client, endpoint) in PAIRINGS {
        let Some(front) = front(server.address, endpoint).await else { continue };
        let route = Route { address: front.http, client, endpoint };
        let pairing = format!("{}->{}", client.name(), endpoint.name());
        if let Err(why) = send_case(route, &mut server, "/first", &cases[0]).await {
            let why = why.lines().next().unwrap_or_default().to_owned();
            runs.push(json!({"pairing": pairing, "cases": cases.len(), "refused": why}));
            continue;
        }
        let found = differences(route, &mut server, &cases, &direct).await;
        let found: Vec<_> = found.iter().map(|(case, how)| json!({"case": case, "came": how})).collect();
        runs.push(json!({"pairing": pairing, "cases": cases.len(), "same": cases.len() - found.len(),
            "different": found}));
    }
    Value::Array(runs)
}
