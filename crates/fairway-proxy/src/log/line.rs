//! What is known of an exchange when it is over.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fairway_http::Head;
use fairway_model::{Escape, HostPattern, LogFormat, Piece, RuleLabels, ServiceName, Variable};

use crate::geoip::Location;
use crate::log::clock::WallClock;
use crate::log::escape::Escaped;

/// Bytes of a line above which no more text of clients is written to it.
const MOST: usize = 256 * 1024;

/// One exchange.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The request, with the fields that its endpoint got.
    pub request: &'a Head,
    /// The answer, where any of it was sent.
    pub answer: Option<&'a Head>,
    /// What the request asks for.
    pub target: Target<'a>,
    /// Who asks.
    pub parties: Parties<'a>,
    /// On what it came.
    pub connection: Connection<'a>,
    /// What was counted.
    pub amounts: Amounts,
    /// What of the configuration served it.
    pub served_by: ServedBy<'a>,
    /// The last attempt.
    pub upstream: Option<Upstream<'a>>,
    /// The trace that it is part of.
    pub trace: Trace,
    /// Why the answer is not the endpoint's.
    pub reason: Option<&'static str>,
    /// When it was over.
    pub clock: &'a WallClock,
    /// Who writes the log.
    pub process: &'a Process,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The port of the listener, as clients see it.
    pub port: Option<u16>,
    /// The host that routes; empty where none was found.
    pub host: &'a str,
    /// The `Host` that was received, where a step has set another; else empty.
    pub received_host: &'a [u8],
    /// Path and query where the target was absolute; else empty.
    pub origin: &'a [u8],
    /// The decoded path where it differs from the one received; else empty.
    pub decoded: &'a [u8],
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Parties<'a> {
    /// The client, as the transport or the PROXY protocol names it.
    pub remote: IpAddr,
    /// The client once trust is settled.
    pub client: Option<IpAddr>,
    /// Who sent the bytes.
    pub sender: Option<IpAddr>,
    /// Whom the PROXY protocol named.
    pub named: Option<IpAddr>,
    /// The subject of the verified token.
    pub subject: Option<&'a str>,
    /// The client whose API key the request had.
    pub api_client: Option<&'a str>,
    /// What databases say of its address, as far as the format asks.
    pub location: Option<&'a Location>,
}

/// The connection of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection<'a> {
    /// Its requests up to this one.
    pub requests: u64,
    /// Where the connection was noted when it began.
    pub noted: Option<NotedConnection>,
    /// Its TLS, where that was noted.
    pub tls: Option<Tls<'a>>,
    /// The certificate that the client has shown.
    pub certificate: Option<Certificate<'a>>,
}

/// What is noted of a connection when it begins.
#[derive(Clone, Copy, Debug)]
pub struct NotedConnection {
    /// The client's port.
    pub port: u16,
    /// Of the connection, among those that are noted.
    pub number: u64,
}

/// What was agreed on in a handshake.
#[derive(Clone, Copy, Debug)]
pub struct Tls<'a> {
    /// The version, such as `TLSv1.3`.
    pub version: &'a str,
    /// The cipher suite, as OpenSSL names it.
    pub suite: &'a str,
    /// The group in which keys were exchanged.
    pub group: Option<&'a str>,
    /// The host that the client asked for.
    pub name: Option<&'a str>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// The protocol above it.
    pub protocol: Option<&'a str>,
}

/// The certificate of a client.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// Whom it is for.
    pub subject: &'a str,
    /// Who issued it.
    pub issuer: &'a str,
    /// Its serial number, in hexadecimal digits.
    pub serial: &'a str,
    /// Its SHA-1 fingerprint, in hexadecimal digits.
    pub fingerprint: &'a str,
    /// Whether it is trusted, or why it is not.
    pub verdict: Result<(), &'static str>,
}

/// What was counted of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    /// The status of the answer.
    pub status: u16,
    /// Head and body of the request.
    pub request: u64,
    /// The answer's body.
    pub body: u64,
    /// Everything that was sent to the client.
    pub sent: u64,
    /// From the request's head to the answer's last byte.
    pub took: Duration,
    /// The status of a gRPC call.
    pub grpc_status: Option<u32>,
}

/// What of the configuration a request belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServedBy<'a> {
    /// The rule.
    pub rule: Option<&'a RuleLabels>,
    /// The host of the rule.
    pub host: Option<&'a HostPattern>,
    /// The Service of the rule's canary, where that got the request.
    pub canary: Option<&'a ServiceName>,
}

/// The last attempt.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a> {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// 0 when no answer came.
    pub status: u16,
    /// 0 for a reused connection.
    pub connect: Duration,
    /// To the answer's head.
    pub header: Duration,
    /// To the answer's last byte.
    pub response: Duration,
    /// The fields of the answer as it came that the format asks for.
    pub received: &'a Head,
    /// How many attempts it took.
    pub attempts: u8,
    /// Whether a late connect made the attempt look at another endpoint.
    pub hedged: bool,
}

/// The trace that an exchange is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// None.
    #[default]
    None,
    /// One that is not sampled; `traceparent` of the request has it.
    Unsampled,
    /// One that is sampled, and the span of the exchange.
    Sampled {
        /// The trace.
        trace_id: u128,
        /// The span.
        span_id: u64,
    },
}

/// A trace id, which is shown as 32 hexadecimal digits.
pub(super) struct TraceId(pub(super) u128);

/// The identifier of a span, which is shown as 16 hexadecimal digits.
pub(super) struct SpanId(pub(super) u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Who writes the log.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// The name of its machine.
    pub hostname: String,
}

impl Line<'_> {
    /// Writes the line, and the line feed behind it.
    pub fn write(&self, format: &LogFormat, out: &mut Vec<u8>) {
        let start = out.len();
        for piece in &format.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Value { .. } if out.len() - start > MOST => absent(format.escape, out),
                Piece::Value { variable, end } => {
                    let mut escaped = Escaped::new(out, format.escape, *end);
                    if self.value(variable, &mut escaped).is_none() {
                        absent(format.escape, out);
                    }
                }
            }
        }
        out.push(b'\n');
    }

    /// Writes the value of a variable; `None` where there is none, and nothing was written.
    fn value(&self, variable: &Variable, out: &mut Escaped<'_>) -> Option<()> {
        match variable {
            Variable::Word(word) => self.word(*word, out),
            Variable::RequestField(name) => fields(self.request, name, out),
            Variable::AnswerField(name) => fields(self.answer?, name, out),
            Variable::UpstreamField(name) => fields(self.upstream?.received, name, out),
            Variable::UpstreamCookie(name) => {
                let set = self.upstream?.received.all_named(b"set-cookie");
                // RFC 6265 §5.2: name and value are before the first semicolon.
                let pairs = set.filter_map(|cookie| cookie.split(|byte| *byte == b';').next());
                out.text(value_of(pairs.map(<[u8]>::trim_ascii), name)?);
                Some(())
            }
            Variable::Geo(field) => {
                out.text(self.parties.location?.value(*field)?);
                Some(())
            }
            Variable::Cookie(name) => self.cookie(name, out),
            Variable::Argument(name) => self.argument(name, out),
            Variable::Absent => None,
        }
    }

    fn cookie(&self, name: &str, out: &mut Escaped<'_>) -> Option<()> {
        let lines = self.request.all_named(b"cookie");
        let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
        out.text(value_of(pairs, name)?);
        Some(())
    }

    fn argument(&self, name: &str, out: &mut Escaped<'_>) -> Option<()> {
        out.text(argument(self.query()?, name)?);
        Some(())
    }
}

/// The value of a parameter of a query, as received. Its name is in lower case here and in any case there, as in nginx.
#[must_use]
pub fn argument<'q>(query: &'q [u8], name: &str) -> Option<&'q [u8]> {
    value_of(query.split(|byte| *byte == b'&'), name)
}

/// All fields of a name, comma-separated as in nginx.
fn fields(head: &Head, name: &str, out: &mut Escaped<'_>) -> Option<()> {
    let mut values = head.all_named(name.as_bytes());
    out.text(values.next()?);
    for value in values {
        out.text(b", ");
        out.text(value);
    }
    Some(())
}

/// The value of a name, which is in lower case here and in any case there, as in nginx.
fn value_of<'r>(mut pairs: impl Iterator<Item = &'r [u8]>, name: &str) -> Option<&'r [u8]> {
    pairs.find_map(|pair| {
        let (said, value) = pair.split_at_checked(name.len())?;
        if said.eq_ignore_ascii_case(name.as_bytes()) { value.strip_prefix(b"=") } else { None }
    })
}

fn absent(escape: Escape, out: &mut Vec<u8>) {
    if escape == Escape::Nginx {
        out.push(b'-');
    }
}
