//! The details of a failure besides its status: a retry delay and a text.

use std::time::{Duration, SystemTime};

use ::http::HeaderMap;
use ::http::header::RETRY_AFTER;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use jiff::fmt::rfc2822::DateTimeParser;
use prost::Message;

/// Base64 as used by gRPC, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The decoded details of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorDetails {
    /// When to retry.
    pub(super) retry_after: Option<Duration>,
    /// What happened.
    pub(super) message: String,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<AnyMessage>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct AnyMessage {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl ErrorDetails {
    /// From the headers or trailers of a gRPC response.
    pub(super) fn from_grpc(headers: &HeaderMap) -> Self {
        let value = headers.get("grpc-status-details-bin");
        let bytes = value.and_then(|value| BASE64.decode(value.as_bytes()).ok());
        bytes.map(|bytes| Self::decode(&bytes)).unwrap_or_default()
    }

    /// From an HTTP response; `now` is the wall clock.
    pub(super) fn from_http(headers: &HeaderMap, body: &[u8], now: SystemTime) -> Self {
        let wait_time =
            headers.get(RETRY_AFTER).and_then(|value| parse_retry_after(value.to_str().ok()?, now));
        let read = Self::decode(body);
        Self { retry_after: wait_time.or(read.retry_after), ..read }
    }

    /// Decodes a `google.rpc.Status`; empty if it is invalid.
    fn decode(bytes: &[u8]) -> Self {
        let status = RpcStatus::decode(bytes).unwrap_or_default();
        let retry = status.details.iter().find(|it| it.type_url.ends_with("/google.rpc.RetryInfo"));
        let info = retry.and_then(|it| RetryInfo::decode(&*it.value).ok());
        let delay = info.and_then(|it| it.retry_delay).and_then(|delay| {
            let seconds = u64::try_from(delay.seconds).ok()?;
            Some(Duration::new(seconds, u32::try_from(delay.nanos).ok()?))
        });
        // A delay of zero counts as none (OTLP/gRPC Throttling).
        Self { retry_after: delay.filter(|delay| !delay.is_zero()), message: status.message }
    }
}

/// The delay in a `Retry-After` value: seconds, or a date (RFC 9110 §10.2.3).
fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = SystemTime::from(DateTimeParser::new().parse_timestamp(value).ok()?);
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_info(seconds: i64, nanos: i32) -> Vec<u8> {
        let info = RetryInfo { retry_delay: Some(ProtoDuration { seconds, nanos }) };
        let detail = AnyMessage {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: info.encode_to_vec(),
        };
        RpcStatus { code: 14, message: "busy".to_owned(), details: vec![detail] }.encode_to_vec()
    }

    #[test]
    fn a_delay_is_read_from_either_form() {
        let now = SystemTime::UNIX_EPOCH;
        let parsed = |value: &str, body: &[u8]| {
            let mut headers = HeaderMap::new();
            if !value.is_empty() {
                headers.insert(RETRY_AFTER, value.parse().unwrap());
            }
            ErrorDetails::from_http(&headers, body, now).retry_after
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(parsed("120", b""), seconds(120));
        assert_eq!(parsed("Thu, 01 Jan 1970 00:00:30 GMT", b""), seconds(30));
        assert_eq!(parsed("Wed, 31 Dec 1969 23:00:00 GMT", b""), seconds(0));
        assert_eq!(parsed("soon", b""), None);
        assert_eq!(parsed("", &retry_info(3, 500_000_000)), Some(Duration::from_millis(3_500)));
        assert_eq!(parsed("7", &retry_info(3, 0)), seconds(7));
        for (seconds, nanos) in [(0, 0), (-1, 0), (1, -1)] {
            assert_eq!(parsed("", &retry_info(seconds, nanos)), None);
        }
        assert_eq!(parsed("", b"<html>no message of any kind</html>"), None);
        assert_eq!(ErrorDetails::decode(&retry_info(1, 0)).message, "busy");
    }
}
