//! Chooses the answer to a request: the knobs of the conformance suite, and those for load.
//!
//! The pattern bodies come first and touch nothing but the path: they are what benchmarks ask for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version, request};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use serde::Serialize;

use crate::assertions::{self, TlsAssertions};
use crate::body::EchoBody;
use crate::numbers::{NUMBER_FIELD, Numbers};
use crate::options::Identity;
use crate::query::{Query, cleaned};
use crate::retry::{Attempt, Retries, final_status};
use crate::tasks::Tasks;
use crate::transport::ResetOrder;
use crate::websocket;

/// The request field that sets answer fields.
const SET_FIELD: &str = "x-echo-set-header";

/// What all connections of a backend share.
pub(crate) struct Backend {
    pub(crate) identity: Identity,
    pub(crate) numbers: Numbers,
    pub(crate) retries: Retries,
    pub(crate) tasks: Tasks,
}

/// What requests of one connection know of it.
pub(crate) struct Connection {
    pub(crate) backend: Arc<Backend>,
    pub(crate) peer: SocketAddr,
    pub(crate) port: u16,
    pub(crate) tls: Option<Arc<TlsAssertions>>,
    pub(crate) reset: ResetOrder,
}

type Answer = Response<EchoBody>;

/// Answers a request.
pub(crate) async fn answer(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Answer, hyper::Error> {
    if let Some(number) = request.headers().get(NUMBER_FIELD) {
        connection.backend.numbers.note(request.method(), &String::from_utf8_lossy(number.as_bytes()));
    }
    let upgraded = match request.uri().path() {
        "/ws" => Some(request.extensions().get::<hyper::upgrade::OnUpgrade>().cloned()),
        _ => None,
    };
    let (request, body) = request.into_parts();
    if let Some(on_upgrade) = upgraded {
        return Ok(open_websocket(&connection, &request, on_upgrade));
    }
    // An unread body would cost the connection.
    let received = if body.is_end_stream() { 0 } else { drained(body).await? };
    let query = Query(request.uri.query().unwrap_or_default());
    if let Some(length) = pattern_length(request.uri.path(), query) {
        if let Some(failure) = delayed(query).await {
            return Ok(failure);
        }
        return Ok(octets(length));
    }
    Ok(match known(&connection, &request, received) {
        Some(answer) => answer,
        None => echo_or_fail(&connection, &request, query).await,
    })
}

async fn drained(mut body: Incoming) -> Result<u64, hyper::Error> {
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        received += frame?.data_ref().map_or(0, |piece| piece.len() as u64);
    }
    Ok(received)
}

/// The body that a path asks for with a length in front.
fn pattern_length(path: &str, query: Query<'_>) -> Option<u64> {
    match path {
        "/1kb" => Some(1024),
        "/1mb" => Some(1024 * 1024),
        _ => match path.strip_prefix("/bytes/") {
            Some(length) => length.parse().ok(),
            None if query.0.is_empty() => None,
            None => query.number("size"),
        },
    }
}

fn octets(length: u64) -> Answer {
    let mut answer = Response::new(EchoBody::pattern(length));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    answer
}

/// What is answered at once, by the path alone.
fn known(connection: &Connection, request: &request::Parts, received: u64) -> Option<Answer> {
    let path = request.uri.path().replace("//", "/");
    let query = request.uri.query().unwrap_or_default();
    if request.method != Method::CONNECT
        && let Some(clean) = cleaned(&path).or_else(|| subtree(&path))
    {
        return Some(redirected(&clean, query));
    }
    Some(match path.as_str() {
        "/health" => plain(StatusCode::OK, "OK"),
        "/seen" => {
            let method = Query(query).first("method");
            let all = Query(query).first("all").is_some();
            json(StatusCode::OK, &connection.backend.numbers.seen(method.as_deref(), all))
        }
        "/sink" => json(StatusCode::OK, &Received { length: received }),
        path => {
            if path.starts_with("/status/") {
                return Some(status(&assertions::target(request)));
            }
            let length = path.strip_prefix("/chunked/")?.parse().ok()?;
            let mut answer = octets(0);
            *answer.body_mut() = EchoBody::chunked(length);
            answer
        }
    })
}

/// What `/sink` answers.
#[derive(Serialize)]
struct Received {
    length: u64,
}

/// Go's router sends `/status` to `/status/`, because that is where the handler is.
fn subtree(path: &str) -> Option<String> {
    matches!(path, "/status" | "/retry").then(|| format!("{path}/"))
}

fn redirected(path: &str, query: &str) -> Answer {
    let location = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let shown =
        location.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
    let mut answer = Response::new(format!("<a href=\"{shown}\">Temporary Redirect</a>.\n\n").into());
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    match HeaderValue::from_str(&location) {
        Ok(location) => drop(answer.headers_mut().insert(LOCATION, location)),
        Err(_) => *answer.status_mut() = StatusCode::BAD_REQUEST,
    }
    answer
}

/// Exactly `/status/NNN`, without a query.
fn status(target: &str) -> Answer {
    let code =
        target.strip_prefix("/status/").filter(|code| code.len() == 3).and_then(|code| code.parse().ok());
    bare(code.and_then(final_status).unwrap_or(StatusCode::BAD_REQUEST))
}

/// The echo, after what `/retry/` wants.
async fn echo_or_fail(connection: &Connection, request: &request::Parts, query: Query<'_>) -> Answer {
    if request.uri.path().starts_with("/retry/") {
        match connection.backend.retries.attempt(query) {
            Err(message) => return plain(StatusCode::BAD_REQUEST, message),
            Ok(Attempt::Answer(status, delay)) => {
                pause(delay).await;
                return bare(status);
            }
            Ok(Attempt::Reset(delay)) => {
                pause(delay).await;
                return reset(connection, request.version);
            }
            Ok(Attempt::Succeed) => {}
        }
    }
    echo(connection, request, query).await
}

async fn echo(connection: &Connection, request: &request::Parts, query: Query<'_>) -> Answer {
    let Connection { backend, peer, port, tls, .. } = connection;
    // Tests of mirrors look for these words in the logs of pods.
    tracing::info!("Echoing back request made to {} to client ({peer})", assertions::target(request));
    if let Some(failure) = delayed(query).await {
        return failure;
    }
    let body = assertions::json(request, *port, &backend.identity, tls.as_deref());
    let mut answer = Response::new(EchoBody::from(body));
    set_fields(answer.headers_mut(), &request.headers);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// `X-Echo-Set-Header: Name:value, Name2:value2`; values of the same name are joined.
fn set_fields(answer: &mut HeaderMap, request: &HeaderMap) {
    let lists = request.get_all(SET_FIELD).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let lists: Vec<_> = lists.collect();
    for pair in lists.iter().flat_map(|list| list.split(',')) {
        let (name, value) = pair.trim().split_once(':').unwrap_or((pair.trim(), ""));
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        let joined = match answer.get(&name) {
            Some(before) => [before.as_bytes(), b",", value.trim().as_bytes()].concat(),
            None => value.trim().as_bytes().to_vec(),
        };
        if let Ok(value) = HeaderValue::from_bytes(&joined) {
            answer.insert(name, value);
        }
    }
}

/// Waits as `?delay=` says; gives an answer when it says nothing sensible.
async fn delayed(query: Query<'_>) -> Option<Answer> {
    if query.0.is_empty() {
        return None;
    }
    match query.duration("delay") {
        Ok(delay) => {
            pause(delay.unwrap_or_default()).await;
            None
        }
        Err(message) => Some(json(StatusCode::INTERNAL_SERVER_ERROR, &Failure { message })),
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// What is answered when a knob is turned wrongly.
#[derive(Serialize)]
struct Failure {
    message: String,
}

/// A connection with other streams on it is not reset for one of them, as in the original.
fn reset(connection: &Connection, version: Version) -> Answer {
    if version == Version::HTTP_2 {
        let message = "an HTTP/2 stream cannot reset its connection".to_owned();
        return json(StatusCode::INTERNAL_SERVER_ERROR, &Failure { message });
    }
    connection.reset.give();
    bare(StatusCode::INTERNAL_SERVER_ERROR)
}

fn open_websocket(
    connection: &Connection,
    request: &request::Parts,
    on_upgrade: Option<hyper::upgrade::OnUpgrade>,
) -> Answer {
    let Some((opening, on_upgrade)) = websocket::opening(request).zip(on_upgrade) else {
        return plain(StatusCode::BAD_REQUEST, "not a WebSocket handshake");
    };
    let peer = connection.peer;
    connection.backend.tasks.spawn(async move {
        match on_upgrade.await {
            Ok(stream) => match websocket::echo(TokioIo::new(stream)).await {
                Ok(()) => tracing::debug!("the WebSocket of {peer} was closed"),
                Err(error) => tracing::debug!("the WebSocket of {peer} ended: {error}"),
            },
            Err(error) => tracing::debug!("no WebSocket for {peer}: {error}"),
        }
    });
    opening
}

fn bare(status: StatusCode) -> Answer {
    let mut answer = Response::new(Bytes::new().into());
    *answer.status_mut() = status;
    answer
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(EchoBody::from(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

fn json(status: StatusCode, content: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(content).expect("numbers and text can be serialised into memory");
    let mut answer = Response::new(EchoBody::from(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
