//! Composes requests: bytes (HTTP/1), heads (HTTP/2) or field sections (HTTP/3), prepared once per path and completed with
//! an id per request.

use std::io::Write;

use anyhow::Context;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};

use super::outcomes::{Fates, Id, is_post};
use super::plan::{Plan, Protocol, Reuse};
use super::{frames, qpack};

/// The header that identifies a request to the backends.
const ID_FIELD: &str = "x-lab-id";

/// The body of the POSTs that are mixed with other requests.
const POST_BODY: &[u8] = b"a small content that a backend must not be given twice\n";

/// Length of the number at the start of a datagram.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Makes the requests of one thread.
pub(super) struct Composer {
    usual: Form,
    /// The POST requests, which are a fraction of all.
    posts: Form,
    share: f64,
    /// The id of requests, apart from the number.
    id: Option<Id>,
    next: usize,
    buffer: Vec<u8>,
    /// A field section with an id.
    section: Vec<u8>,
}

/// Requests of one method.
struct Form {
    heads: Heads,
    body: Bytes,
}

enum Heads {
    /// Heads without the id and the final empty line.
    Http1(Vec<Vec<u8>>),
    Http2(Vec<http::Request<()>>),
    /// Field sections without the id.
    Http3(Vec<Vec<u8>>),
    /// Datagrams, each starting with its number.
    Datagrams,
}

impl Composer {
    /// # Errors
    /// A method, path or field that HTTP does not allow.
    pub(super) fn new(plan: &Plan, run: u64, thread: usize) -> anyhow::Result<Self> {
        anyhow::ensure!(!plan.request.paths.is_empty(), "the plan has no path");
        let is_short = plan.wire.protocol == Protocol::Datagrams && plan.request.body.len() < NUMBER_BYTES;
        anyhow::ensure!(!is_short, "a datagram has at least {NUMBER_BYTES} bytes");
        let id = plan.request.ids.then_some(Id { run, thread: thread as u64, number: 0 });
        Ok(Self {
            usual: Form::new(plan, &plan.request.method, plan.request.body.clone())?,
            posts: Form::new(plan, "POST", Bytes::from_static(POST_BODY))?,
            share: plan.request.posts,
            id,
            next: 0,
            buffer: Vec::new(),
            section: Vec::new(),
        })
    }

    /// An empty record of the outcomes of requests with an id.
    pub(super) fn fates(&self) -> Option<Fates> {
        self.id.map(|id| Fates::new(id.run, id.thread, self.share))
    }

    /// The bytes of the thread's next request or datagram, with this number.
    pub(super) fn http1(&mut self, number: u64) -> &[u8] {
        let form = if is_post(self.share, number) { &self.posts } else { &self.usual };
        self.buffer.clear();
        match &form.heads {
            Heads::Http1(heads) => self.buffer.extend_from_slice(&heads[self.next % heads.len()]),
            Heads::Http2(_) | Heads::Http3(_) => {}
            Heads::Datagrams => {
                self.buffer.extend_from_slice(&form.body);
                self.buffer[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
                return &self.buffer;
            }
        }
        self.next = self.next.wrapping_add(1);
        if let Some(id) = self.id {
            // Writing to memory cannot fail.
            _ = write!(self.buffer, "X-Lab-Id: {}\r\n", Id { number, ..id });
        }
        self.buffer.extend_from_slice(b"\r\n");
        self.buffer.extend_from_slice(&form.body);
        &self.buffer
    }

    /// The thread's next request, with this number, and its body.
    pub(super) fn http2(&mut self, number: u64) -> http::Request<Bytes> {
        let form = if is_post(self.share, number) { &self.posts } else { &self.usual };
        let mut request = match &form.heads {
            Heads::Http2(requests) => requests[self.next % requests.len()].clone(),
            Heads::Http1(_) | Heads::Http3(_) | Heads::Datagrams => http::Request::new(()),
        };
        self.next = self.next.wrapping_add(1);
        if let Some(id) = self.id {
            let value = HeaderValue::from_str(&Id { number, ..id }.to_string());
            let value = value.expect("hexadecimal digits and dashes");
            request.headers_mut().insert(HeaderName::from_static(ID_FIELD), value);
        }
        request.map(|()| form.body.clone())
    }

    /// The frames of the thread's next request, with this number.
    pub(super) fn http3(&mut self, number: u64) -> &[u8] {
        let form = if is_post(self.share, number) { &self.posts } else { &self.usual };
        self.buffer.clear();
        let Heads::Http3(sections) = &form.heads else { return &self.buffer };
        let section = &sections[self.next % sections.len()];
        self.next = self.next.wrapping_add(1);
        match self.id {
            None => frames::push_request(&mut self.buffer, section, &form.body),
            Some(id) => {
                self.section.clear();
                self.section.extend_from_slice(section);
                qpack::push(&mut self.section, ID_FIELD, &Id { number, ..id }.to_string());
                frames::push_request(&mut self.buffer, &self.section, &form.body);
            }
        }
        &self.buffer
    }
}

impl Form {
    fn new(plan: &Plan, method: &str, body: Bytes) -> anyhow::Result<Self> {
        let requests = plan.request.paths.iter().map(|path| request(plan, method, path));
        let requests = requests.collect::<anyhow::Result<Vec<_>>>()?;
        let heads = match plan.wire.protocol {
            Protocol::Http1 => {
                Heads::Http1(requests.iter().map(|request| http1_head(plan, request, &body)).collect())
            }
            Protocol::Http2 => Heads::Http2(requests),
            Protocol::Http3 => {
                let sections = requests.iter().map(|request| http3_section(plan, request, &body));
                Heads::Http3(sections.collect::<anyhow::Result<_>>()?)
            }
            Protocol::Datagrams => Heads::Datagrams,
        };
        Ok(Self { heads, body })
    }
}

/// The field section of a request without an id (RFC 9114 §4.3.1).
fn http3_section(plan: &Plan, request: &http::Request<()>, body: &Bytes) -> anyhow::Result<Vec<u8>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut section = Vec::new();
    qpack::write_prefix(&mut section);
    for (name, value) in [
        (":method", request.method().as_str()),
        (":scheme", "https"),
        (":authority", plan.target.authority.as_str()),
        (":path", path),
    ] {
        qpack::push(&mut section, name, value);
    }
    for (name, value) in request.headers() {
        let value = value.to_str().with_context(|| format!("the value of {name} is not ASCII"))?;
        qpack::push(&mut section, name.as_str(), value);
    }
    if has_length(request, body) {
        qpack::push(&mut section, "content-length", &body.len().to_string());
    }
    Ok(section)
}

/// Whether the request has a Content-Length.
fn has_length(request: &http::Request<()>, body: &Bytes) -> bool {
    !body.is_empty() || matches!(request.method().as_str(), "POST" | "PUT" | "PATCH")
}

/// Builds the request for HTTP/2; the `http` crate validates it for all protocols.
fn request(plan: &Plan, method: &str, path: &str) -> anyhow::Result<http::Request<()>> {
    let scheme = if plan.wire.tls.is_some() { "https" } else { "http" };
    let uri = http::Uri::builder()
        .scheme(scheme)
        .authority(plan.target.authority.as_str())
        .path_and_query(path)
        .build()
        .with_context(|| format!("{path:?} cannot be asked of {:?}", plan.target.authority))?;
    let mut request = http::Request::builder().method(method).uri(uri);
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

fn http1_head(plan: &Plan, request: &http::Request<()>, body: &Bytes) -> Vec<u8> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut head =
        format!("{} {path} HTTP/1.1\r\nHost: {}\r\n", request.method(), plan.target.authority).into_bytes();
    for (name, value) in request.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    if has_length(request, body) {
        head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    if plan.wire.reuse == Reuse::ConnectionPerRequest {
        head.extend_from_slice(b"Connection: close\r\n");
    }
    head
}
