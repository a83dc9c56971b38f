//! OTLP/HTTP with Protocol Buffers: a POST.

use std::time::SystemTime;

use ::http::header::{CONTENT_TYPE, HeaderValue};
use ::http::{Method, Request};
use bytes::Bytes;
use http_body_util::Full;

use super::details::ErrorDetails;
use super::endpoint::Endpoint;
use super::response::CollectorResponse;
use crate::failure::{Failure, truncated};
use crate::signal::Signal;

const PROTOBUF_CONTENT_TYPE: &str = "application/x-protobuf";

/// Builds the request that exports a message.
pub(super) fn request(endpoint: &Endpoint, signal: Signal, message: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(message));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = endpoint.url(signal.path());
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF_CONTENT_TYPE));
    request
}

/// The message in the response to the request, if it has one.
///
/// # Errors
/// The status is not a success.
pub(super) fn parse_response(response: &CollectorResponse) -> Result<Bytes, Failure> {
    let CollectorResponse { status, headers, body, .. } = response;
    let is_message = headers.get(CONTENT_TYPE).is_none_or(|kind| {
        kind.as_bytes().to_ascii_lowercase().starts_with(PROTOBUF_CONTENT_TYPE.as_bytes())
    });
    let message = body.clone().filter(|_| is_message).unwrap_or_default();
    if status.is_success() {
        return Ok(message);
    }
    if status.is_redirection() {
        return Err(Failure::rejected(format!("HTTP status {status}: redirects are not followed")));
    }
    let details = ErrorDetails::from_http(headers, &message, SystemTime::now());
    let message = match details.message.is_empty() {
        true => format!("HTTP status {status}"),
        false => format!("HTTP status {status}: {}", truncated(&details.message)),
    };
    // "Failures" of OTLP/HTTP: only these are retried.
    match status.as_u16() {
        429 | 502 | 503 | 504 => Err(Failure::retryable(details.retry_after, message)),
        _ => Err(Failure::rejected(message)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::http::{HeaderMap, StatusCode};

    use super::*;
    use crate::failure::FailureKind;

    fn response(
        status: u16,
        headers: &[(&'static str, &str)],
        body: Option<&'static [u8]>,
    ) -> CollectorResponse {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        CollectorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: map,
            body: body.map(Bytes::from_static),
            trailers: HeaderMap::new(),
        }
    }

    #[test]
    fn only_four_statuses_are_retried() {
        for status in 300..600 {
            let failure = parse_response(&response(status, &[], Some(b""))).unwrap_err();
            let kind = match status {
                429 | 502 | 503 | 504 => FailureKind::Retryable(None),
                _ => FailureKind::Rejected,
            };
            assert_eq!(failure.kind, kind, "{status}");
        }
        let later = parse_response(&response(503, &[("retry-after", "9")], Some(b""))).unwrap_err();
        assert_eq!(later.kind, FailureKind::Retryable(Some(Duration::from_secs(9))));
        let moved = parse_response(&response(308, &[("location", "http://s3cret/")], Some(b""))).unwrap_err();
        assert!(moved.message.contains("not followed") && !moved.message.contains("s3cret"), "{moved:?}");
    }

    #[test]
    fn a_response_is_decoded_only_if_it_is_a_message() {
        let ok =
            |headers: &[(&'static str, &str)], body| parse_response(&response(200, headers, body)).unwrap();
        assert_eq!(&*ok(&[("content-type", "application/x-protobuf")], Some(b"ab")), b"ab");
        assert_eq!(&*ok(&[], Some(b"ab")), b"ab");
        assert_eq!(&*ok(&[("content-type", "application/json")], Some(b"{}")), b"");
        assert_eq!(&*ok(&[], None), b"");
    }
}
