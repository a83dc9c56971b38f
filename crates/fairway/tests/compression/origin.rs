//! The endpoint of the cases: a small origin server that responds as each case defines, and evaluates conditions and ranges.

use std::fmt::Write;

use fairway_testkit::{Backend, BackendResponse, RecordedRequest};

use super::case::{Case, Endpoint};

/// Starts an endpoint that responds to `/N` as the case with that number defines.
pub(crate) async fn start(cases: &[Case]) -> Backend {
    let endpoints: Vec<_> = cases.iter().map(|case| serde_json::to_value(&case.endpoint).unwrap()).collect();
    Backend::http(move |request| {
        let number: usize = request.target.trim_start_matches('/').parse().unwrap();
        let endpoint = serde_json::from_value(endpoints[number].clone()).unwrap();
        respond(&endpoint, request)
    })
    .await
}

/// The first bytes of an endless text.
pub(crate) fn text(length: usize) -> Vec<u8> {
    let lines = (1..).flat_map(|line| format!("{line}: a line of text as there are many\n").into_bytes());
    lines.take(length).collect()
}

fn respond(endpoint: &Endpoint, request: &RecordedRequest) -> BackendResponse {
    let etag = endpoint.headers.iter().find(|(name, _)| name == "ETag").map(|(_, value)| value.as_str());
    let body = text(endpoint.body);
    if let (Some(known), Some(etag)) = (request.header("If-None-Match"), etag) {
        // Weak comparison (RFC 9110 §13.1.2).
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        if known.split(',').any(|tag| tag.trim() == "*" || opaque(tag) == opaque(etag)) {
            return BackendResponse::Bytes((head(304, endpoint) + "\r\n").into_bytes());
        }
    }
    // Strong comparison (§13.1.5).
    let may_be_partial =
        request.header("If-Range").is_none_or(|tag| Some(tag) == etag && !tag.starts_with("W/"));
    let range = request.header("Range").filter(|_| may_be_partial).and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    let (mut head, mut body) = match range {
        Some((first, last)) => {
            let mut head = head(206, endpoint);
            _ = write!(head, "Content-Range: bytes {first}-{last}/{}\r\n", body.len());
            (head, body[first..=last].to_vec())
        }
        None => (head(endpoint.status, endpoint), body),
    };
    let is_without_body = request.method == "HEAD" || matches!(endpoint.status, 204 | 304);
    match endpoint.framing.as_str() {
        "chunked" if request.version == "HTTP/1.1" => {
            head.push_str("Transfer-Encoding: chunked\r\n");
            let trailers: String =
                endpoint.trailers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            if !body.is_empty() {
                body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat();
            }
            body.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
        }
        "length" if !matches!(endpoint.status, 204 | 304) => {
            _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        _ => {}
    }
    if is_without_body {
        body.clear();
    }
    let bytes = [head.as_bytes(), b"\r\n", &body].concat();
    if endpoint.framing == "close" {
        BackendResponse::ThenClose(bytes)
    } else {
        BackendResponse::Bytes(bytes)
    }
}

fn head(status: u16, endpoint: &Endpoint) -> String {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    let is_sent = |name: &String| status != 304 || name != "Content-Type";
    for (name, value) in endpoint.headers.iter().filter(|(name, _)| is_sent(name)) {
        _ = write!(head, "{name}: {value}\r\n");
    }
    head
}
