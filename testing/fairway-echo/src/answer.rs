//! Chooses the answer to a request: the request itself, or what it asks for instead.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Request, Response, StatusCode, request};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::assertions::{self, TlsAssertions};
use crate::body::{self, EchoBody};
use crate::options::Identity;

/// The request field that sets answer fields.
const SET_FIELD: &str = "x-echo-set-header";
/// The request field by which deliveries of the same request are recognised.
const NUMBER_FIELD: &str = "x-request-number";

/// What all connections of a backend share.
pub(crate) struct Backend {
    pub(crate) identity: Identity,
    pub(crate) numbers: Option<File>,
}

/// What requests of one connection know of it.
pub(crate) struct Connection {
    pub(crate) backend: Arc<Backend>,
    pub(crate) peer: SocketAddr,
    pub(crate) port: u16,
    pub(crate) tls: Option<TlsAssertions>,
}

type Answer = Response<EchoBody>;

/// Answers a request.
pub(crate) async fn answer(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Answer, hyper::Error> {
    let (request, body) = request.into_parts();
    connection.backend.note(&request);
    // An unread body would cost the connection.
    let received = if body.is_end_stream() { 0 } else { drained(body).await? };
    match delay(request.uri.query().unwrap_or_default()) {
        None => {}
        Some(Ok(delay)) => tokio::time::sleep(delay).await,
        Some(Err(message)) => return Ok(plain(StatusCode::BAD_REQUEST, message)),
    }
    let answer = redirected(request.uri.path()).or_else(|| asked_for(request.uri.path(), received));
    Ok(answer.unwrap_or_else(|| echo(&connection, &request)))
}

impl Backend {
    /// Notes a numbered request whose head arrived.
    fn note(&self, request: &request::Parts) {
        let Some((mut file, number)) = self.numbers.as_ref().zip(request.headers.get(NUMBER_FIELD)) else {
            return;
        };
        let line = format!("{} {}\n", request.method, String::from_utf8_lossy(number.as_bytes()));
        // One write of O_APPEND: lines of several processes do not mix.
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!("a request number was not written: {error}");
        }
    }
}

async fn drained(mut body: Incoming) -> Result<u64, hyper::Error> {
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        received += frame?.data_ref().map_or(0, |piece| piece.len() as u64);
    }
    Ok(received)
}

/// What `delay=20ms` or `delay=1.5s` in a query says.
fn delay(query: &str) -> Option<Result<Duration, String>> {
    let text = query.split('&').find_map(|pair| pair.strip_prefix("delay="))?;
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, seconds) => (seconds.unwrap_or_default(), 1.0),
    };
    let delay = number.parse().ok().and_then(|number: f64| Duration::try_from_secs_f64(number * unit).ok());
    Some(delay.ok_or_else(|| format!("invalid duration {text:?}")))
}

/// A redirect from a path with dot segments to what it means, as that of the backend whose answers tests recorded.
fn redirected(path: &str) -> Option<Answer> {
    let is_dot = |segment| matches!(segment, "." | "..");
    if !path.split('/').any(is_dot) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        match segment {
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let location = format!("/{}", kept.join("/"));
    let page = format!("<a href=\"{location}\">Temporary Redirect</a>.\n\n");
    let mut answer = typed("text/html; charset=utf-8", body::whole(page));
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    // What stands in a path can stand in a field.
    answer.headers_mut().insert(LOCATION, HeaderValue::from_str(&location).ok()?);
    Some(answer)
}

/// The answer that a path asks for instead of the echo.
fn asked_for(path: &str, received: u64) -> Option<Answer> {
    if let Some(code) = path.strip_prefix("/status/") {
        let status = code.parse().ok().filter(|status: &StatusCode| !status.is_informational());
        let mut answer = Response::new(body::whole(Bytes::new()));
        *answer.status_mut() = status.unwrap_or(StatusCode::BAD_REQUEST);
        return Some(answer);
    }
    if let Some(length) = path.strip_prefix("/bytes/").and_then(|length| length.parse().ok()) {
        let mut answer = typed("application/octet-stream", body::sized(length));
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        return Some(answer);
    }
    if let Some(length) = path.strip_prefix("/chunked/").and_then(|length| length.parse().ok()) {
        return Some(typed("application/octet-stream", body::chunked(length)));
    }
    match path {
        "/health" => Some(plain(StatusCode::OK, "OK")),
        "/sink" => Some(typed("application/json", body::whole(format!("{{\"length\":{received}}}")))),
        _ => None,
    }
}

fn echo(connection: &Connection, request: &request::Parts) -> Answer {
    let Connection { backend, peer, port, tls } = connection;
    tracing::info!("{} {} of {peer}", request.method, assertions::target(request));
    let json = assertions::json(request, *port, &backend.identity, tls.as_ref());
    let mut answer = typed("application/json", body::whole(json));
    set_fields(answer.headers_mut(), &request.headers);
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// `X-Echo-Set-Header: Name:value, Name2:value2`; values of the same name are joined. The type of the echo stays.
fn set_fields(answer: &mut HeaderMap, request: &HeaderMap) {
    let lists = request.get_all(SET_FIELD).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let lists: Vec<_> = lists.collect();
    for pair in lists.iter().flat_map(|list| list.split(',')) {
        let (name, value) = pair.trim().split_once(':').unwrap_or((pair.trim(), ""));
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        let joined = match answer.get(&name) {
            _ if name == CONTENT_TYPE => continue,
            Some(before) => [before.as_bytes(), b",", value.trim().as_bytes()].concat(),
            None => value.trim().as_bytes().to_vec(),
        };
        if let Ok(value) = HeaderValue::from_bytes(&joined) {
            answer.insert(name, value);
        }
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = typed("text/plain; charset=utf-8", body::whole(text));
    *answer.status_mut() = status;
    answer
}

fn typed(content_type: &'static str, body: EchoBody) -> Answer {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
