//! Requests as bytes (HTTP/1) or heads (HTTP/2), prepared once for each path and finished with an id for each request.

use anyhow::Context;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};

use super::{Plan, Protocol, Reuse};

/// The field by which backends know a request.
pub const ID_FIELD: &str = "x-lab-id";

/// Makes the requests of one thread.
pub(super) struct Composer {
    heads: Heads,
    body: Bytes,
    ids: Option<Ids>,
    turn: usize,
    buffer: Vec<u8>,
}

enum Heads {
    /// All of a head but the id and the empty line.
    Http1(Vec<Vec<u8>>),
    Http2(Vec<http::Request<()>>),
}

/// `<run>-<thread>-<number>`: unique over runs, threads and requests.
struct Ids {
    prefix: String,
    number: u64,
}

impl Composer {
    /// # Errors
    /// A method, path or field that HTTP does not allow.
    pub(super) fn new(plan: &Plan, run: u64, thread: usize) -> anyhow::Result<Self> {
        anyhow::ensure!(!plan.request.paths.is_empty(), "the plan has no path");
        let requests =
            plan.request.paths.iter().map(|path| request(plan, path)).collect::<anyhow::Result<Vec<_>>>()?;
        let heads = match plan.wire.protocol {
            Protocol::Http1 => {
                Heads::Http1(requests.iter().map(|request| http1_head(plan, request)).collect())
            }
            Protocol::Http2 => Heads::Http2(requests),
        };
        let ids = plan.request.ids.then(|| Ids { prefix: format!("{run:x}-{thread:x}-"), number: 0 });
        Ok(Self { heads, body: plan.request.body.clone(), ids, turn: 0, buffer: Vec::new() })
    }

    /// The bytes of the next request.
    pub(super) fn http1(&mut self) -> &[u8] {
        self.buffer.clear();
        if let Heads::Http1(heads) = &self.heads {
            self.buffer.extend_from_slice(&heads[self.turn % heads.len()]);
        }
        self.turn = self.turn.wrapping_add(1);
        if let Some(ids) = &mut self.ids {
            self.buffer.extend_from_slice(b"X-Lab-Id: ");
            self.buffer.extend_from_slice(ids.prefix.as_bytes());
            ids.write(&mut self.buffer);
            self.buffer.extend_from_slice(b"\r\n");
        }
        self.buffer.extend_from_slice(b"\r\n");
        self.buffer.extend_from_slice(&self.body);
        &self.buffer
    }

    /// The next request and its content.
    pub(super) fn http2(&mut self) -> (http::Request<()>, Bytes) {
        let mut request = match &self.heads {
            Heads::Http2(requests) => requests[self.turn % requests.len()].clone(),
            Heads::Http1(_) => http::Request::new(()),
        };
        self.turn = self.turn.wrapping_add(1);
        if let Some(ids) = &mut self.ids {
            self.buffer.clear();
            self.buffer.extend_from_slice(ids.prefix.as_bytes());
            ids.write(&mut self.buffer);
            let value = HeaderValue::from_bytes(&self.buffer).expect("hexadecimal digits and dashes");
            request.headers_mut().insert(HeaderName::from_static(ID_FIELD), value);
        }
        (request, self.body.clone())
    }
}

impl Ids {
    fn write(&mut self, buffer: &mut Vec<u8>) {
        let digits = (64 - self.number.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            buffer.push(b"0123456789abcdef"[(self.number >> (4 * place) & 15) as usize]);
        }
        self.number += 1;
    }
}

/// Checked as `http` checks it; also what HTTP/2 sends.
fn request(plan: &Plan, path: &str) -> anyhow::Result<http::Request<()>> {
    let scheme = if plan.wire.tls.is_some() { "https" } else { "http" };
    let uri = http::Uri::builder()
        .scheme(scheme)
        .authority(plan.target.authority.as_str())
        .path_and_query(path)
        .build()
        .with_context(|| format!("{path:?} cannot be asked of {:?}", plan.target.authority))?;
    let mut request = http::Request::builder().method(plan.request.method.as_str()).uri(uri);
    for (name, value) in &plan.request.headers {
        let own = ["host", "content-length", "connection", "transfer-encoding"];
        anyhow::ensure!(
            !own.contains(&name.to_ascii_lowercase().as_str()),
            "the field {name} is the generator's own and cannot be set"
        );
        request = request.header(name, value);
    }
    request.body(()).context("the request is not what HTTP allows")
}

fn http1_head(plan: &Plan, request: &http::Request<()>) -> Vec<u8> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut head =
        format!("{} {path} HTTP/1.1\r\nHost: {}\r\n", request.method(), plan.target.authority).into_bytes();
    for (name, value) in request.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    if !plan.request.body.is_empty() || matches!(plan.request.method.as_str(), "POST" | "PUT" | "PATCH") {
        head.extend_from_slice(format!("Content-Length: {}\r\n", plan.request.body.len()).as_bytes());
    }
    if plan.wire.reuse == Reuse::ConnectionPerRequest {
        head.extend_from_slice(b"Connection: close\r\n");
    }
    head
}
