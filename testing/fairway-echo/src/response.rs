//! Chooses the response to a request: the echoed request, or the one that its path asks for.

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

/// The request header that sets response headers.
const SET_FIELD: &str = "x-echo-set-header";
/// The request header that identifies repeated deliveries of a request.
const NUMBER_FIELD: &str = "x-request-number";

/// State shared by all connections of a backend.
pub(crate) struct Backend {
    pub(crate) identity: Identity,
    pub(crate) numbers: Option<File>,
}

/// The facts about a connection that its requests report.
pub(crate) struct Connection {
    pub(crate) backend: Arc<Backend>,
    pub(crate) peer: SocketAddr,
    pub(crate) port: u16,
    pub(crate) tls: Option<TlsAssertions>,
}

type EchoResponse = Response<EchoBody>;

/// Handles a request.
pub(crate) async fn respond(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<EchoResponse, hyper::Error> {
    let (request, body) = request.into_parts();
    connection.backend.log_request(&request);
    // An unread body would cost the connection.
    let received = if body.is_end_stream() { 0 } else { drain(body).await? };
    match delay(request.uri.query().unwrap_or_default()) {
        None => {}
        Some(Ok(delay)) => tokio::time::sleep(delay).await,
        Some(Err(message)) => return Ok(plain(StatusCode::BAD_REQUEST, message)),
    }
    let response = redirect_response(request.uri.path()).or_else(|| asked_for(request.uri.path(), received));
    Ok(response.unwrap_or_else(|| echo(&connection, &request)))
}

impl Backend {
    /// Notes a numbered request whose head arrived.
    fn log_request(&self, request: &request::Parts) {
        let Some((mut file, number)) = self.numbers.as_ref().zip(request.headers.get(NUMBER_FIELD)) else {
            return;
        };
        let line = format!("{} {}\n", request.method, String::from_utf8_lossy(number.as_bytes()));
        // A single O_APPEND write, so lines of several processes do not mix.
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!("a request number was not written: {error}");
        }
    }
}

async fn drain(mut body: Incoming) -> Result<u64, hyper::Error> {
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        received += frame?.data_ref().map_or(0, |piece| piece.len() as u64);
    }
    Ok(received)
}

/// Parses `delay=20ms` or `delay=1.5s` in a query.
fn delay(query: &str) -> Option<Result<Duration, String>> {
    let text = query.split('&').find_map(|pair| pair.strip_prefix("delay="))?;
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, seconds) => (seconds.unwrap_or_default(), 1.0),
    };
    let delay = number.parse().ok().and_then(|number: f64| Duration::try_from_secs_f64(number * unit).ok());
    Some(delay.ok_or_else(|| format!("invalid duration {text:?}")))
}

/// Redirects a path with dot segments to its normalised form, like the backend whose responses the tests recorded.
fn redirect_response(path: &str) -> Option<EchoResponse> {
    let is_dot = |segment| matches!(segment, "." | "..");
    if !path.split('/').any(is_dot) {
        return None;
    }
    let mut headers: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        match segment {
            ".." => drop(headers.pop()),
            segment => headers.push(segment),
        }
    }
    let location = format!("/{}", headers.join("/"));
    let page = format!("<a href=\"{location}\">Temporary Redirect</a>.\n\n");
    let mut response = with_content_type("text/html; charset=utf-8", body::complete_body(page));
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    // Every valid path is a valid header value.
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&location).ok()?);
    Some(response)
}

/// The response to a path that asks for something other than the echo.
fn asked_for(path: &str, received: u64) -> Option<EchoResponse> {
    if let Some(code) = path.strip_prefix("/status/") {
        let status = code.parse().ok().filter(|status: &StatusCode| !status.is_informational());
        let mut response = Response::new(body::complete_body(Bytes::new()));
        *response.status_mut() = status.unwrap_or(StatusCode::BAD_REQUEST);
        return Some(response);
    }
    if let Some(length) = path.strip_prefix("/bytes/").and_then(|length| length.parse().ok()) {
        let mut response = with_content_type("application/octet-stream", body::sized(length));
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        return Some(response);
    }
    if let Some(length) = path.strip_prefix("/chunked/").and_then(|length| length.parse().ok()) {
        return Some(with_content_type("application/octet-stream", body::chunked(length)));
    }
    match path {
        "/health" => Some(plain(StatusCode::OK, "OK")),
        "/sink" => Some(with_content_type(
            "application/json",
            body::complete_body(format!("{{\"length\":{received}}}")),
        )),
        _ => None,
    }
}

fn echo(connection: &Connection, request: &request::Parts) -> EchoResponse {
    let Connection { backend, peer, port, tls } = connection;
    tracing::info!("{} {} of {peer}", request.method, assertions::target(request));
    let json = assertions::json(request, *port, &backend.identity, tls.as_ref());
    let mut response = with_content_type("application/json", body::complete_body(json));
    set_fields(response.headers_mut(), &request.headers);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `X-Echo-Set-Header: Name:value, Name2:value2`; values of the same name are joined. The type of the echo stays.
fn set_fields(response: &mut HeaderMap, request: &HeaderMap) {
    let lists = request.get_all(SET_FIELD).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let lists: Vec<_> = lists.collect();
    for pair in lists.iter().flat_map(|list| list.split(',')) {
        let (name, value) = pair.trim().split_once(':').unwrap_or((pair.trim(), ""));
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        let joined = match response.get(&name) {
            _ if name == CONTENT_TYPE => continue,
            Some(before) => [before.as_bytes(), b",", value.trim().as_bytes()].concat(),
            None => value.trim().as_bytes().to_vec(),
        };
        if let Ok(value) = HeaderValue::from_bytes(&joined) {
            response.insert(name, value);
        }
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> EchoResponse {
    let mut response = with_content_type("text/plain; charset=utf-8", body::complete_body(text));
    *response.status_mut() = status;
    response
}

fn with_content_type(content_type: &'static str, body: EchoBody) -> EchoResponse {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
