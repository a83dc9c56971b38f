//! OTLP/gRPC: a unary call over HTTP/2.

use ::http::header::{CONTENT_TYPE, HeaderValue, TE};
use ::http::{HeaderMap, Method, Request, StatusCode, Version};
use bytes::{BufMut, Bytes, BytesMut};
use fairway_http::grpc::{Code, read_status};
use http_body_util::Full;

use super::answer::{Answer, MAX_RESPONSE_BYTES};
use super::details::Details;
use super::endpoint::Endpoint;
use crate::failure::{Failure, shown};
use crate::signal::Signal;

/// What stands before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The call that hands over a message.
///
/// # Errors
/// The message is longer than a prefix can say.
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
    *request.uri_mut() = endpoint.at(signal.method());
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

/// What became of the call: the message of its response.
///
/// # Errors
/// Its status says that it failed, or there is none.
pub(super) fn outcome(answer: Answer) -> Result<Bytes, Failure> {
    let Answer { status, headers, body, trailers } = answer;
    // A response without a body has its status in its head.
    let (code, at) = match (status_of(&headers), status_of(&trailers)) {
        (Some(code), _) => (code, &headers),
        (None, Some(code)) => (code, &trailers),
        (None, None) if status != StatusCode::OK => {
            let code = Code::of_http(status.as_u16());
            return Err(failure(code.number(), &Details::default(), &format!("HTTP status {status}")));
        }
        (None, None) if body.is_none() => {
            // Whether it took the message is not known: a second one could be a copy.
            return Err(Failure::rejected(format!(
                "its response breaks off, or is longer than {MAX_RESPONSE_BYTES} bytes"
            )));
        }
        (None, None) => return Err(Failure::rejected("its response has no grpc-status")),
    };
    if code != Code::Ok.number() {
        let message = at.get("grpc-message").map(|it| percent_decoded(it.as_bytes())).unwrap_or_default();
        return Err(failure(code, &Details::of_grpc(at), &message));
    }
    let body = body.unwrap_or_default();
    // Of what follows the first message, or is none, nothing is read: the message was taken.
    Ok(match body.first_chunk::<PREFIX_BYTES>() {
        Some([0, length @ ..]) => {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            body.get(PREFIX_BYTES..PREFIX_BYTES.saturating_add(length))
                .map_or_else(Bytes::new, |message| body.slice_ref(message))
        }
        _ => Bytes::new(),
    })
}

/// Whether OTLP allows to send the message again ("Failures" of OTLP/gRPC).
fn failure(code: u32, details: &Details, message: &str) -> Failure {
    let message = format!("{}: {}", Code::name_of(code), shown(message));
    let is = |one: Code| one.number() == code;
    let always = [
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unavailable,
        Code::DataLoss,
    ];
    let may_recover = is(Code::ResourceExhausted) && details.retry_after.is_some();
    match always.into_iter().any(is) || may_recover {
        true => Failure::retryable(details.retry_after, message),
        false => Failure::rejected(message),
    }
}

fn status_of(headers: &HeaderMap) -> Option<u32> {
    read_status(headers.get("grpc-status")?.as_bytes())
}

/// The text of a value of `grpc-message`.
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

    fn answer(status: u16, headers: &[(&'static str, &str)], body: Option<&'static [u8]>) -> Answer {
        let mut trailers = HeaderMap::new();
        for (name, value) in headers {
            trailers.insert(*name, value.parse().unwrap());
        }
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.map(Bytes::from_static),
            trailers,
        }
    }

    #[test]
    fn only_what_may_recover_is_sent_again() {
        for code in 0..=17_u32 {
            let kind = match code {
                1 | 4 | 10 | 11 | 14 | 15 => FailureKind::Retryable(None),
                _ => FailureKind::Rejected,
            };
            let found = outcome(answer(200, &[("grpc-status", &code.to_string())], Some(b"")));
            match code {
                0 => assert_eq!(found, Ok(Bytes::new())),
                _ => assert_eq!(found.unwrap_err().kind, kind, "{code}"),
            }
        }
    }

    #[test]
    fn an_exhausted_collector_is_asked_again_when_it_says_when() {
        // google.rpc.Status with a RetryInfo of 7 s, without padding.
        let details = "CAgSBGJ1c3kaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIBw";
        let found = answer(200, &[("grpc-status", "8"), ("grpc-status-details-bin", details)], Some(b""));
        let kind = outcome(found).unwrap_err().kind;
        assert_eq!(kind, FailureKind::Retryable(Some(Duration::from_secs(7))));
        let found = answer(200, &[("grpc-status", "8"), ("grpc-status-details-bin", "%%%")], Some(b""));
        assert_eq!(outcome(found).unwrap_err().kind, FailureKind::Rejected);
    }

    #[test]
    fn the_message_of_a_response_is_what_its_prefix_says() {
        let ok = |body| outcome(answer(200, &[("grpc-status", "0")], Some(body))).unwrap();
        assert_eq!(&*ok(b"\0\0\0\0\x02abc"), b"ab");
        // Compressed, cut, and none at all.
        for body in [&b"\x01\0\0\0\x02ab"[..], b"\0\0\0\0\x03ab", b"\0\0", b"\0\xff\xff\xff\xffab"] {
            assert_eq!(&*ok(body), b"");
        }
    }

    #[test]
    fn a_response_that_is_none_of_grpc_is_judged_by_its_status() {
        for (status, kind) in [
            (302, FailureKind::Rejected),
            (401, FailureKind::Rejected),
            (404, FailureKind::Rejected),
            (503, FailureKind::Retryable(None)),
        ] {
            let failure = outcome(answer(status, &[], Some(b"<html>"))).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure:?}");
            assert!(failure.message.contains(&status.to_string()), "{failure:?}");
        }
        let endless = outcome(answer(200, &[], None)).unwrap_err();
        assert_eq!(endless.kind, FailureKind::Rejected);
        let no_status = outcome(answer(200, &[("grpc-status", "x")], Some(b""))).unwrap_err();
        assert_eq!(no_status, Failure::rejected("its response has no grpc-status"));
    }

    #[test]
    fn the_words_of_a_collector_are_decoded_and_short() {
        assert_eq!(percent_decoded(b"a%20b%C3%A9%zz%"), "a b\u{e9}%zz%");
        let long = "x".repeat(10_000);
        let failure = outcome(answer(200, &[("grpc-status", "3"), ("grpc-message", &long)], Some(b"")));
        assert!(failure.unwrap_err().message.len() < 300);
    }
}
