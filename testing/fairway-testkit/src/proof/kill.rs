//! kill -9 of a backend in the middle of a response: what each kind of client sees. An end that looks like success would be
//! wrong.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;
use tokio::time::Instant;

use crate::client::{Client, Request};
use crate::proof::fleet::Fleet;
use crate::proof::site::{Endpoint, HOST, Scheme, Site};
use crate::wait::WAIT_TIMEOUT;

/// Far more than all buffers on the way hold, so that the backend dies in the middle.
const BODY_BYTES: usize = 64 * 1024 * 1024;
/// Bytes a client reads before the backend dies.
const BYTES_BEFORE_KILL: usize = 200 * 1024;

/// The framing of the backend's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// With a Content-Length.
    Sized,
    /// In chunks.
    Chunked,
}

/// A kind of client and its results.
#[derive(Clone, Debug, Serialize)]
pub struct Cut {
    /// Its protocol.
    pub scheme: Scheme,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: &'static str,
    /// The backend's response.
    pub body: Body,
    /// The results and their counts.
    pub seen: BTreeMap<ClientView, u64>,
}

/// The end of the response as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientView {
    /// The connection was reset.
    Reset,
    /// TLS ended without close_notify (RFC 8446 §6.1).
    TlsTruncated,
    /// Fewer bytes than Content-Length, then a clean end.
    ShortOfItsLength,
    /// No last chunk, then a clean end.
    NoLastChunk,
    /// A clean end that looks like a complete response.
    ShortSuccess,
}

/// Kills a backend `times` times for each kind of client.
pub async fn cut_answers(binary: &Path, times: usize) -> Vec<Cut> {
    let site = Site::new();
    let mut fleet = Fleet::new(binary, &site.numbers());
    let fairway = site.serve(binary, &[]).await;
    let mut cuts = Vec::new();
    for scheme in Scheme::ALL {
        for (version, body) in [
            ("HTTP/1.1", Body::Sized),
            ("HTTP/1.1", Body::Chunked),
            ("HTTP/1.0", Body::Sized),
            ("HTTP/1.0", Body::Chunked),
        ] {
            let mut cut = Cut { scheme, version, body, seen: BTreeMap::new() };
            for _ in 0..times {
                fleet.grow(1).await;
                site.list(&fleet.addresses());
                let (client, begun) = start_exchange(&site.endpoint(&fairway, scheme), &cut).await;
                *cut.seen.entry(end(client, begun, &mut fleet, body).await).or_default() += 1;
            }
            cuts.push(cut);
        }
    }
    cuts
}

/// A client that has read the start of the response.
async fn start_exchange(endpoint: &Endpoint, cut: &Cut) -> (Client, Vec<u8>) {
    let mut client = wait_until_served(endpoint).await;
    let path = match cut.body {
        Body::Sized => format!("/bytes/{BODY_BYTES}"),
        Body::Chunked => format!("/chunked/{BODY_BYTES}"),
    };
    let request = Request::get(HOST, &path);
    let request = if cut.version == "HTTP/1.0" { request.http10() } else { request };
    client.send(request.bytes()).await.expect("Fairway takes the request");
    let started = client.read_bytes(BYTES_BEFORE_KILL).await.expect("the answer begins");
    assert!(started.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&started[..200]));
    (client, started)
}

/// A client of a worker that serves the new backend: another worker may not have heard of it yet.
async fn wait_until_served(endpoint: &Endpoint) -> Client {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        let mut client = endpoint.connect().await.expect("Fairway takes connections");
        let response = client.exchange(&Request::get(HOST, "/health")).await.expect("Fairway answers");
        if response.status == 200 {
            return client;
        }
        assert!(Instant::now() < deadline, "the new backend is not served: {}", response.text());
    }
}

/// Kills the backend and returns what the client sees.
async fn end(mut client: Client, mut started: Vec<u8>, fleet: &mut Fleet, body: Body) -> ClientView {
    for member in fleet.take_oldest(1) {
        member.kill();
        fleet.bury(member);
    }
    let rest = client.read_to_end().await;
    match rest {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => ClientView::Reset,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ClientView::TlsTruncated,
        Err(error) => panic!("neither an end nor a truncation: {error}"),
        Ok(rest) => {
            started.extend(rest);
            judge_response(&started, body)
        }
    }
}

/// How a client that checks the framing interprets a clean end.
fn judge_response(response: &[u8], body: Body) -> ClientView {
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the head was there");
    let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
    let chunked = head.contains("transfer-encoding: chunked");
    if head.contains("content-length: ") && body == Body::Sized && response.len() < end + 4 + BODY_BYTES {
        ClientView::ShortOfItsLength
    } else if chunked && !response.ends_with(b"0\r\n\r\n") {
        ClientView::NoLastChunk
    } else {
        ClientView::ShortSuccess
    }
}
