//! Checks of access log lines, for any exchange and any format: no value that a client controls may end its line or
//! its quotes. The property tests and the fuzz target generate the inputs; a failed check panics.

use std::time::{Duration, SystemTime};

use fairway_http::Head;
use fairway_http::bytes::{is_token, is_value_byte};
use fairway_model::{LogEscape, LogFormat, LogFormatPart};

use crate::log::{
    ClientIdentities, Connection, ExchangeAmounts, LogLine, ProcessInfo, RequestTarget, ServedBy, Trace,
    WallClock,
};

/// A text format with client-controlled values, each in quotes, and the number of values.
const QUOTED_FORMAT: (&str, usize) = (
    "\"$remote_user\" \"$request\" \"$request_uri\" \"$uri\" \"$args\" \"$http_x_any\" \"$cookie_a\" \"$arg_a\" \"$host\"",
    9,
);
/// A JSON format with the same values as members of an object, and the number of members.
const JSON_FORMAT: (&str, usize) = (
    "{\"user\":\"$remote_user\",\"request\":\"$request\",\"target\":\"$request_uri\",\"path\":\"$uri\",\"query\":\"$args\",\
     \"field\":\"$http_x_any\",\"cookie\":\"$cookie_a\",\"argument\":\"$arg_a\",\"host\":\"$host\"}",
    9,
);

/// The values of a log line that a client controls.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientValues<'i> {
    pub(crate) method: &'i [u8],
    pub(crate) target: &'i [u8],
    pub(crate) user: &'i [u8],
    pub(crate) field: &'i [u8],
    pub(crate) cookie: &'i [u8],
    pub(crate) host: &'i str,
}

/// Checks a log line from fuzzer input: the format and the client's values, separated by 0x00.
pub(crate) fn check_fuzz_input(input: &[u8]) {
    let mut parts = input.split(|byte| *byte == 0);
    let mut next_part = || parts.next().unwrap_or_default();
    let format = String::from_utf8_lossy(next_part());
    let host = String::from_utf8_lossy(next_part());
    let client_values = ClientValues {
        method: next_part(),
        target: next_part(),
        user: next_part(),
        field: next_part(),
        cookie: next_part(),
        host: &host,
    };
    check_log_line(&client_values, &format);
}

/// Checks that no value of the client ends its line or its quotes, in the fixed formats and in `format`.
pub(crate) fn check_log_line(client_values: &ClientValues<'_>, format: &str) {
    check_quotes(client_values);
    check_json(client_values);
    check_line_breaks(client_values, format);
}

/// Checks that a log pipeline that splits lines at quotes, as those for nginx logs do, finds each value.
fn check_quotes(client_values: &ClientValues<'_>) {
    let (format, value_count) = QUOTED_FORMAT;
    let line = write_line(client_values, &parse_format(format, LogEscape::Nginx));
    let quotes = line.iter().filter(|byte| **byte == b'"').count();
    assert_eq!(quotes, 2 * value_count, "a value adds or removes quotes: {}", line.escape_ascii());
    let (end, content) = line.split_last().expect("a line ends with a line break");
    let is_printable = content.iter().all(|byte| (0x20..0x7f).contains(byte));
    assert!(
        *end == b'\n' && is_printable,
        "a line must be printable ASCII and a line break: {}",
        line.escape_ascii()
    );
}

/// Checks that a pipeline for JSON logs reads one object with each value.
fn check_json(client_values: &ClientValues<'_>) {
    let (format, value_count) = JSON_FORMAT;
    let line = write_line(client_values, &parse_format(format, LogEscape::Json));
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&line)
        .unwrap_or_else(|error| panic!("the line is not JSON: {error}: {}", line.escape_ascii()));
    assert_eq!(members.len(), value_count, "a value adds or replaces a member: {}", line.escape_ascii());
    assert_eq!(
        members["cookie"],
        first_cookie(client_values),
        "the value of $cookie_a: {}",
        line.escape_ascii()
    );
    assert_eq!(count_line_breaks(&line), 1, "a value adds a line break: {}", line.escape_ascii());
}

/// Checks that a line of any valid format has only the line breaks of the format's text and the one at its end.
fn check_line_breaks(client_values: &ClientValues<'_>, format: &str) {
    for escape in [LogEscape::Nginx, LogEscape::Json] {
        let Ok(parsed) = LogFormat::read(format, escape) else { continue };
        let breaks_in_text = |chunk: &LogFormatPart| match chunk {
            LogFormatPart::Text(text) => text.matches('\n').count(),
            LogFormatPart::Value { .. } => 0,
        };
        let format_breaks: usize = parsed.format.pieces.iter().map(breaks_in_text).sum();
        let line = write_line(client_values, &parsed.format);
        let line_breaks = count_line_breaks(&line);
        assert_eq!(line_breaks, format_breaks + 1, "a value adds a line break: {}", line.escape_ascii());
    }
}

fn count_line_breaks(line: &[u8]) -> usize {
    line.iter().filter(|byte| **byte == b'\n').count()
}

/// The value of the first cookie `a` or `A`, or an empty text. The search does not use Fairway's cookie parser, whose
/// result it checks.
fn first_cookie(client_values: &ClientValues<'_>) -> String {
    let cookies = String::from_utf8_lossy(&header_value(client_values.cookie)).into_owned();
    let mut pairs = cookies.split(';').map(|pair| pair.trim_matches(|c: char| c.is_ascii_whitespace()));
    let value = pairs.find_map(|pair| pair.strip_prefix("a=").or_else(|| pair.strip_prefix("A=")));
    value.unwrap_or_default().to_owned()
}

/// The bytes without those that a codec rejects in a header value.
fn header_value(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| is_value_byte(*byte)).collect()
}

fn parse_format(format: &str, escape: LogEscape) -> LogFormat {
    LogFormat::read(format, escape).expect("a valid log format").format
}

/// The log line of an exchange with these values of the client.
fn write_line(client_values: &ClientValues<'_>, format: &LogFormat) -> Vec<u8> {
    let mut request = Head::new();
    let method = if is_token(client_values.method) { client_values.method } else { b"GET" };
    request.start_request(method, client_values.target);
    request.append(b"Authorization", &header_value(client_values.user));
    request.append(b"X-Any", &header_value(client_values.field));
    request.append(b"Cookie", &header_value(client_values.cookie));
    let (mut clock, process) = (WallClock::default(), ProcessInfo { id: 1, hostname: "pod".to_owned() });
    clock.set(SystemTime::UNIX_EPOCH);
    let client = std::net::Ipv4Addr::LOCALHOST.into();
    let target = RequestTarget {
        scheme: "http",
        port: Some(80),
        host: client_values.host,
        received_host: b"",
        origin: b"",
        decoded: b"",
    };
    let line = LogLine {
        request: &request,
        response: None,
        target,
        identities: ClientIdentities {
            remote: client,
            client: Some(client),
            sender: None,
            named: None,
            subject: Some("a\"b"),
            api_client: None,
            location: None,
        },
        connection: Connection { requests: 1, logged: None, tls: None, certificate: None },
        amounts: ExchangeAmounts {
            status: 200,
            request: 1,
            body: 2,
            sent: 3,
            duration: Duration::ZERO,
            grpc_status: None,
        },
        served_by: ServedBy::default(),
        upstream: None,
        trace: Trace::None,
        reason: None,
        clock: &clock,
        process: &process,
    };
    let mut output = Vec::new();
    line.write(format, &mut output);
    output
}
