//! What holds for any exchange and any format: called by the property tests and by the fuzz target. Panics when it does not
//! hold. Never generates inputs.

use std::time::{Duration, SystemTime};

use fairway_http::Head;
use fairway_http::bytes::{is_token, is_value_byte};
use fairway_model::{Escape, LogFormat, Piece};

use crate::log::{Amounts, Connection, Line, Parties, Process, ServedBy, Target, Trace, WallClock};

/// A format with values of clients, each in quotes, and how many values it has.
const QUOTED: (&str, usize) = (
    "\"$remote_user\" \"$request\" \"$request_uri\" \"$uri\" \"$args\" \"$http_x_any\" \"$cookie_a\" \"$arg_a\" \"$host\"",
    9,
);
/// The same values as an object of JSON.
const OBJECT: (&str, usize) = (
    "{\"user\":\"$remote_user\",\"request\":\"$request\",\"target\":\"$request_uri\",\"path\":\"$uri\",\"query\":\"$args\",\
     \"field\":\"$http_x_any\",\"cookie\":\"$cookie_a\",\"argument\":\"$arg_a\",\"host\":\"$host\"}",
    9,
);

/// What a client chose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked<'i> {
    pub(crate) method: &'i [u8],
    pub(crate) target: &'i [u8],
    pub(crate) user: &'i [u8],
    pub(crate) field: &'i [u8],
    pub(crate) cookie: &'i [u8],
    pub(crate) host: &'i str,
}

/// Any bytes as an exchange and a format: its parts stand between bytes 0x00.
pub(crate) fn log_line(input: &[u8]) {
    let mut parts = input.split(|byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let format = String::from_utf8_lossy(next());
    let host = String::from_utf8_lossy(next());
    let asked =
        Asked { method: next(), target: next(), user: next(), field: next(), cookie: next(), host: &host };
    line(&asked, &format);
}

/// No value ends its line or its quotes, whoever chose it.
pub(crate) fn line(asked: &Asked<'_>, format: &str) {
    quoted(asked);
    object(asked);
    any_format(asked, format);
}

/// As a pipeline splits a line of nginx: at the quotes.
fn quoted(asked: &Asked<'_>) {
    let (format, values) = QUOTED;
    let text = written(asked, &read(format, Escape::Nginx));
    assert_eq!(text.iter().filter(|byte| **byte == b'"').count(), 2 * values, "{}", text.escape_ascii());
    let (end, line) = text.split_last().expect("a line has an end");
    assert!(*end == b'\n' && line.iter().all(|byte| (0x20..0x7f).contains(byte)), "{}", text.escape_ascii());
}

/// As a pipeline reads a line of JSON.
fn object(asked: &Asked<'_>) {
    let (format, values) = OBJECT;
    let text = written(asked, &read(format, Escape::Json));
    let found: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{error}: {}", text.escape_ascii()));
    assert_eq!(found.len(), values);
    assert_eq!(found["cookie"], first_cookie(asked), "{}", text.escape_ascii());
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
}

/// A format of any text is refused, or adds the line breaks that its own text has and no other.
fn any_format(asked: &Asked<'_>, format: &str) {
    for escape in [Escape::Nginx, Escape::Json] {
        let Ok(read) = LogFormat::read(format, escape) else { continue };
        let own = |piece: &Piece| match piece {
            Piece::Text(text) => text.matches('\n').count(),
            Piece::Value { .. } => 0,
        };
        let breaks: usize = read.format.pieces.iter().map(own).sum();
        let text = written(asked, &read.format);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), breaks + 1, "{}", text.escape_ascii());
    }
}

/// The cookie `a` as JSON has it, found the slow way.
fn first_cookie(asked: &Asked<'_>) -> String {
    let cookies = String::from_utf8_lossy(&value(asked.cookie)).into_owned();
    let mut pairs = cookies.split(';').map(|pair| pair.trim_matches(|c: char| c.is_ascii_whitespace()));
    let value = pairs.find_map(|pair| pair.strip_prefix("a=").or_else(|| pair.strip_prefix("A=")));
    value.unwrap_or_default().to_owned()
}

/// As a field that a codec lets through.
fn value(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| is_value_byte(*byte)).collect()
}

fn read(format: &str, escape: Escape) -> LogFormat {
    LogFormat::read(format, escape).expect("a format").format
}

fn written(asked: &Asked<'_>, format: &LogFormat) -> Vec<u8> {
    let mut request = Head::new();
    let method = if is_token(asked.method) { asked.method } else { b"GET" };
    request.start_request(method, asked.target);
    request.append(b"Authorization", &value(asked.user));
    request.append(b"X-Any", &value(asked.field));
    request.append(b"Cookie", &value(asked.cookie));
    let (mut clock, process) = (WallClock::default(), Process { id: 1, hostname: "pod".to_owned() });
    clock.set(SystemTime::UNIX_EPOCH);
    let client = std::net::Ipv4Addr::LOCALHOST.into();
    let target = Target {
        scheme: "http",
        port: Some(80),
        host: asked.host,
        received_host: b"",
        origin: b"",
        decoded: b"",
    };
    let line = Line {
        request: &request,
        answer: None,
        target,
        parties: Parties {
            remote: client,
            client: Some(client),
            sender: None,
            named: None,
            subject: Some("a\"b"),
            api_client: None,
            location: None,
        },
        connection: Connection { requests: 1, noted: None, tls: None, certificate: None },
        amounts: Amounts {
            status: 200,
            request: 1,
            body: 2,
            sent: 3,
            took: Duration::ZERO,
            grpc_status: None,
        },
        served_by: ServedBy::default(),
        upstream: None,
        trace: Trace::None,
        reason: None,
        clock: &clock,
        process: &process,
    };
    let mut out = Vec::new();
    line.write(format, &mut out);
    out
}
