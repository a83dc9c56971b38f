//! Converts access log lines to log records.

use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogRecordFlags, SeverityNumber};
use serde::Deserialize;

use crate::attributes::string;

/// The fields that are read from a JSON line; the line itself is the body.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonFields {
    time: Option<String>,
    status: Option<u16>,
    trace_id: Option<String>,
    span_id: Option<String>,
}

/// The log record of a line that was seen at `observed`, in nanoseconds since 1970.
///
/// A line of `--access-log json` provides its time, severity and span. For lines of other formats, only the text is used.
pub(crate) fn log_record(line: &[u8], observed: u64) -> LogRecord {
    let members: JsonFields = match line.first() {
        Some(b'{') => serde_json::from_slice(line).unwrap_or_default(),
        _ => JsonFields::default(),
    };
    let (number, text) = severity(members.status);
    let time = members.time.and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let nanos = time.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    let trace_id = parse_id::<16>(members.trace_id.as_deref());
    // A span without a trace is invalid.
    let span_id = if trace_id.is_empty() { Vec::new() } else { parse_id::<8>(members.span_id.as_deref()) };
    let is_sampled = u32::from(!trace_id.is_empty());
    LogRecord {
        time_unix_nano: nanos.unwrap_or_default(),
        observed_time_unix_nano: observed,
        severity_number: number as i32,
        severity_text: text.to_owned(),
        body: Some(string(String::from_utf8_lossy(line))),
        flags: is_sampled & LogRecordFlags::TraceFlagsMask as u32,
        trace_id,
        span_id,
        ..LogRecord::default()
    }
}

/// The severity for a status; unspecified for a line without one.
fn severity(status: Option<u16>) -> (SeverityNumber, &'static str) {
    match status {
        None => (SeverityNumber::Unspecified, ""),
        Some(500..) => (SeverityNumber::Error, "ERROR"),
        Some(400..) => (SeverityNumber::Warn, "WARN"),
        Some(_) => (SeverityNumber::Info, "INFO"),
    }
}

/// The bytes of a hexadecimal identifier; empty if it is invalid or all zeros.
fn parse_id<const BYTES: usize>(text: Option<&str>) -> Vec<u8> {
    let digits = text.unwrap_or_default().as_bytes();
    if digits.len() != 2 * BYTES {
        return Vec::new();
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> =
        digits.chunks_exact(2).map(|pair| Some((digit(pair[0])? << 4) | digit(pair[1])?)).collect();
    bytes.filter(|bytes| bytes.iter().any(|byte| *byte != 0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;

    fn body(record: &LogRecord) -> String {
        match record.body.as_ref().and_then(|body| body.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_of_json_gives_its_time_its_severity_and_its_span() {
        let line = r#"{"time":"1970-01-01T00:00:02Z","status":503,"trace_id":"000102030405060708090a0b0c0d0e0f","span_id":"0102030405060708"}"#;
        let record = log_record(line.as_bytes(), 9);
        assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (2_000_000_000, 9));
        assert_eq!((record.severity_number, record.severity_text.as_str()), (17, "ERROR"));
        assert_eq!(record.trace_id, (0..16).collect::<Vec<u8>>());
        assert_eq!((record.span_id.len(), record.flags), (8, 1));
        assert_eq!(body(&record), line);
    }

    #[test]
    fn the_severity_is_that_of_the_status() {
        for (status, number) in [(101, 9), (200, 9), (399, 9), (404, 13), (499, 13), (500, 17), (0, 9)] {
            let line = format!("{{\"status\":{status}}}");
            assert_eq!(log_record(line.as_bytes(), 0).severity_number, number, "{status}");
        }
    }

    #[test]
    fn an_unreadable_line_is_still_a_record() {
        for line in [
            &b"10.0.0.1 - - [x] \"GET / HTTP/1.1\" 500 0"[..],
            b"{\"status\":\"x\",\"trace_id\":7}",
            b"{",
            b"",
            b"{\"trace_id\":\"00000000000000000000000000000000\",\"span_id\":\"0102030405060708\"}",
            b"{\"trace_id\":\"0001\",\"span_id\":\"zz02030405060708\"}",
            b"{\"trace_id\":null,\"time\":\"yesterday\"}",
            b"\xff\xfe",
        ] {
            let record = log_record(line, 1);
            assert_eq!(body(&record), String::from_utf8_lossy(line));
            let ids = (record.trace_id.len(), record.span_id.len(), record.flags);
            assert_eq!((ids, record.time_unix_nano, record.severity_number), ((0, 0, 0), 0, 0));
        }
    }
}
