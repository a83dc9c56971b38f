//! OTLP/gRPC: a unary call over HTTP/2.

use ::http::header::{CONTENT_TYPE, HeaderValue, TE};
use ::http::{HeaderMap, Method, Request, StatusCode, Version};
use bytes::{BufMut, Bytes, BytesMut};
use fairway_http::grpc::{Code, read_status};
use http_body_util::Full;

use super::details::ErrorDetails;
use super::endpoint::Endpoint;
use super::response::{CollectorResponse, MAX_RESPONSE_BYTES};
use crate::failure::{Failure, truncated};
use crate::signal::Signal;

/// The message prefix: a compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// Builds the call that exports a message.
///
/// # Errors
/// The message is too long for the prefix.
pub(super) fn request(
    endpoint: &Endpoint,
    signal: Signal,
    message: &Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let length = u32::try_from(message.len()).map_err(|_| Failure::rejected("the message is too long"))?;
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    body.put_u8(0);
    body.put_u32(length);
    body.put_slice(message);
    let mut request = Request::new(Full::new(body.freeze()));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = endpoint.url(signal.method());
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

/// The message in the response to the call.
///
/// # Errors
/// The status is missing or not OK.
pub(super) fn parse_response(reply: CollectorResponse) -> Result<Bytes, Failure> {
    let CollectorResponse { status, headers, body, trailers } = reply;
    // A response without a body has its status in the headers.
    let (code, at) = match (grpc_status(&headers), grpc_status(&trailers)) {
        (Some(code), _) => (code, &headers),
        (None, Some(code)) => (code, &trailers),
        (None, None) if status != StatusCode::OK => {
            let code = Code::of_http(status.as_u16());
            return Err(grpc_failure(
                code.number(),
                &ErrorDetails::default(),
                &format!("HTTP status {status}"),
            ));
        }
        (None, None) if body.is_none() => {
            // It is unknown whether the message was accepted; a retry could duplicate it.
            return Err(Failure::rejected(format!(
                "its response is truncated or longer than {MAX_RESPONSE_BYTES} bytes"
            )));
        }
        (None, None) => return Err(Failure::rejected("its response has no grpc-status")),
    };
    if code != Code::Ok.number() {
        let message = at.get("grpc-message").map(|it| percent_decoded(it.as_bytes())).unwrap_or_default();
        return Err(grpc_failure(code, &ErrorDetails::from_grpc(at), &message));
    }
    let body = body.unwrap_or_default();
    // Anything beyond the first message, or an invalid message, is ignored: the export succeeded.
    Ok(match body.first_chunk::<PREFIX_BYTES>() {
        Some([0, length @ ..]) => {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            body.get(PREFIX_BYTES..PREFIX_BYTES.saturating_add(length))
                .map_or_else(Bytes::new, |message| body.slice_ref(message))
        }
        _ => Bytes::new(),
    })
}

/// Classifies a status: whether OTLP allows a retry ("Failures" of OTLP/gRPC).
fn grpc_failure(code: u32, details: &ErrorDetails, message: &str) -> Failure {
    let message = format!("{}: {}", Code::name_of(code), truncated(message));
    let is_code = |known_code: Code| known_code.number() == code;
    let always = [
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unavailable,
        Code::DataLoss,
    ];
    let may_recover = is_code(Code::ResourceExhausted) && details.retry_after.is_some();
    match always.into_iter().any(is_code) || may_recover {
        true => Failure::retryable(details.retry_after, message),
        false => Failure::rejected(message),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    read_status(headers.get("grpc-status")?.as_bytes())
}

/// Decodes the text of a `grpc-message` value.
fn percent_decoded(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, more @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        match rest {
            [b'%', high, low, after @ ..] if digit(high).is_some() && digit(low).is_some() => {
                let byte = digit(high).zip(digit(low)).map_or(0, |(high, low)| high * 16 + low);
                bytes.push(u8::try_from(byte).unwrap_or_default());
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::FailureKind;

    fn response(
        status: u16,
        headers: &[(&'static str, &str)],
        body: Option<&'static [u8]>,
    ) -> CollectorResponse {
        let mut trailers = HeaderMap::new();
        for (name, value) in headers {
            trailers.insert(*name, value.parse().unwrap());
        }
        CollectorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.map(Bytes::from_static),
            trailers,
        }
    }

    #[test]
    fn only_recoverable_statuses_are_retried() {
        for code in 0..=17_u32 {
            let kind = match code {
                1 | 4 | 10 | 11 | 14 | 15 => FailureKind::Retryable(None),
                _ => FailureKind::Rejected,
            };
            let found = parse_response(response(200, &[("grpc-status", &code.to_string())], Some(b"")));
            match code {
                0 => assert_eq!(found, Ok(Bytes::new())),
                _ => assert_eq!(found.unwrap_err().kind, kind, "{code}"),
            }
        }
    }

    #[test]
    fn an_exhausted_collector_is_retried_if_it_gives_a_delay() {
        // google.rpc.Status with a RetryInfo of 7 s, without padding.
        let details = "CAgSBGJ1c3kaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIBw";
        let found = response(200, &[("grpc-status", "8"), ("grpc-status-details-bin", details)], Some(b""));
        let kind = parse_response(found).unwrap_err().kind;
        assert_eq!(kind, FailureKind::Retryable(Some(Duration::from_secs(7))));
        let found = response(200, &[("grpc-status", "8"), ("grpc-status-details-bin", "%%%")], Some(b""));
        assert_eq!(parse_response(found).unwrap_err().kind, FailureKind::Rejected);
    }

    #[test]
    fn the_message_of_a_response_has_the_length_of_its_prefix() {
        let ok = |body| parse_response(response(200, &[("grpc-status", "0")], Some(body))).unwrap();
        assert_eq!(&*ok(b"\0\0\0\0\x02abc"), b"ab");
        // Compressed, truncated, and empty.
        for body in [&b"\x01\0\0\0\x02ab"[..], b"\0\0\0\0\x03ab", b"\0\0", b"\0\xff\xff\xff\xffab"] {
            assert_eq!(&*ok(body), b"");
        }
    }

    #[test]
    fn a_non_grpc_response_is_classified_by_its_http_status() {
        for (status, kind) in [
            (302, FailureKind::Rejected),
            (401, FailureKind::Rejected),
            (404, FailureKind::Rejected),
            (503, FailureKind::Retryable(None)),
        ] {
            let failure = parse_response(response(status, &[], Some(b"<html>"))).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure:?}");
            assert!(failure.message.contains(&status.to_string()), "{failure:?}");
        }
        let endless = parse_response(response(200, &[], None)).unwrap_err();
        assert_eq!(endless.kind, FailureKind::Rejected);
        let no_status = parse_response(response(200, &[("grpc-status", "x")], Some(b""))).unwrap_err();
        assert_eq!(no_status, Failure::rejected("its response has no grpc-status"));
    }

    #[test]
    fn the_text_of_a_collector_is_decoded_and_truncated() {
        assert_eq!(percent_decoded(b"a%20b%C3%A9%zz%"), "a b\u{e9}%zz%");
        let long = "x".repeat(10_000);
        let failure =
            parse_response(response(200, &[("grpc-status", "3"), ("grpc-message", &long)], Some(b"")));
        assert!(failure.unwrap_err().message.len() < 300);
    }
}
