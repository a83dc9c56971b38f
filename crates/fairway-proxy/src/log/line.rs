//! A log line: everything known of a finished exchange.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fairway_http::Head;
use fairway_model::{HostPattern, LogEscape, LogFormat, LogFormatPart, LogVariable, RuleLabels, ServiceName};

use crate::geoip::Location;
use crate::log::clock::WallClock;
use crate::log::escape::EscapedWriter;

/// Above this length, no more client text is written to a line.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// One exchange.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// The request, with the headers its endpoint got.
    pub request: &'a Head,
    /// The response, if any of it was sent.
    pub response: Option<&'a Head>,
    /// The request target.
    pub target: RequestTarget<'a>,
    /// Client identities.
    pub identities: ClientIdentities<'a>,
    /// The connection.
    pub connection: Connection<'a>,
    /// Sizes and times.
    pub amounts: ExchangeAmounts,
    /// The part of the configuration that served it.
    pub served_by: ServedBy<'a>,
    /// The last attempt.
    pub upstream: Option<Upstream<'a>>,
    /// Its trace.
    pub trace: Trace,
    /// Why the response is not the endpoint's.
    pub reason: Option<&'static str>,
    /// End time.
    pub clock: &'a WallClock,
    /// The process that writes the log.
    pub process: &'a ProcessInfo,
}

/// A request target.
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget<'a> {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Public port of the listener.
    pub port: Option<u16>,
    /// Host used for routing; empty if none was found.
    pub host: &'a str,
    /// The `Host` received, if a step has replaced it; otherwise empty.
    pub received_host: &'a [u8],
    /// Path and query of an absolute target; otherwise empty.
    pub origin: &'a [u8],
    /// The decoded path if it differs from the received one; otherwise empty.
    pub decoded: &'a [u8],
}

/// Client identities of a request.
#[derive(Clone, Copy, Debug)]
pub struct ClientIdentities<'a> {
    /// Client address according to the transport or the PROXY protocol.
    pub remote: IpAddr,
    /// Client address after trust is settled.
    pub client: Option<IpAddr>,
    /// Address of the sender.
    pub sender: Option<IpAddr>,
    /// Client address in the PROXY protocol header.
    pub named: Option<IpAddr>,
    /// Subject of the verified token.
    pub subject: Option<&'a str>,
    /// Client of the API key.
    pub api_client: Option<&'a str>,
    /// GeoIP data, as far as the format uses it.
    pub location: Option<&'a Location>,
}

/// A downstream connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection<'a> {
    /// Number of requests including this one.
    pub requests: u64,
    /// Details collected when the connection started, if any.
    pub logged: Option<LoggedConnection>,
    /// TLS parameters, if collected.
    pub tls: Option<Tls<'a>>,
    /// The client certificate, if presented.
    pub certificate: Option<Certificate<'a>>,
}

/// Details collected when a connection starts.
#[derive(Clone, Copy, Debug)]
pub struct LoggedConnection {
    /// The client's port.
    pub port: u16,
    /// Number of the connection among those with details.
    pub number: u64,
}

/// Negotiated TLS parameters.
#[derive(Clone, Copy, Debug)]
pub struct Tls<'a> {
    /// Version, such as `TLSv1.3`.
    pub version: &'a str,
    /// Cipher suite by its OpenSSL name.
    pub suite: &'a str,
    /// Key exchange group.
    pub group: Option<&'a str>,
    /// SNI of the client.
    pub name: Option<&'a str>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// ALPN protocol.
    pub protocol: Option<&'a str>,
}

/// The certificate of a client.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// Subject.
    pub subject: &'a str,
    /// Issuer.
    pub issuer: &'a str,
    /// Serial number in hexadecimal digits.
    pub serial: &'a str,
    /// SHA-1 fingerprint in hexadecimal digits.
    pub fingerprint: &'a str,
    /// Whether it is trusted, or why it is not.
    pub verdict: Result<(), &'static str>,
}

/// Sizes and times of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeAmounts {
    /// Response status.
    pub status: u16,
    /// Bytes of request head and body.
    pub request: u64,
    /// Bytes of the response body.
    pub body: u64,
    /// All bytes sent to the client.
    pub sent: u64,
    /// From the request head to the last byte of the response.
    pub duration: Duration,
    /// Status of a gRPC call.
    pub grpc_status: Option<u32>,
}

/// The part of the configuration a request belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServedBy<'a> {
    /// The rule.
    pub rule: Option<&'a RuleLabels>,
    /// Host of the rule.
    pub host: Option<&'a HostPattern>,
    /// Service of the rule's canary, if it got the request.
    pub canary: Option<&'a ServiceName>,
}

/// The last attempt.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a> {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// Status; 0 without a response.
    pub status: u16,
    /// Connect time; 0 for a reused connection.
    pub connect: Duration,
    /// Time to the response head.
    pub header: Duration,
    /// Time to the last byte of the response.
    pub response: Duration,
    /// Received response headers that the format uses.
    pub received: &'a Head,
    /// Number of attempts.
    pub attempts: u8,
    /// Whether a slow connect made the attempt try a second endpoint.
    pub hedged: bool,
}

/// The trace of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// None.
    #[default]
    None,
    /// Not sampled; the `traceparent` of the request identifies it.
    Unsampled,
    /// Sampled, with the span of the exchange.
    Sampled {
        /// The trace.
        trace_id: u128,
        /// The span.
        span_id: u64,
    },
}

/// A trace id, displayed as 32 hexadecimal digits.
pub(super) struct TraceId(pub(super) u128);

/// A span id, displayed as 16 hexadecimal digits.
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

/// The process that writes the log.
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    /// Process id.
    pub id: u32,
    /// Host name.
    pub hostname: String,
}

impl LogLine<'_> {
    /// Writes the line followed by a line feed.
    pub fn write(&self, format: &LogFormat, out: &mut Vec<u8>) {
        let start = out.len();
        for piece in &format.pieces {
            match piece {
                LogFormatPart::Text(text) => out.extend_from_slice(text.as_bytes()),
                LogFormatPart::Value { .. } if out.len() - start > MAX_LINE_BYTES => {
                    write_absent(format.escape, out);
                }
                LogFormatPart::Value { variable, end } => {
                    let mut escaped = EscapedWriter::new(out, format.escape, *end);
                    if self.write_value(variable, &mut escaped).is_none() {
                        write_absent(format.escape, out);
                    }
                }
            }
        }
        out.push(b'\n');
    }

    /// Writes the value of a variable; returns `None`, with nothing written, if there is none.
    fn write_value(&self, variable: &LogVariable, out: &mut EscapedWriter<'_>) -> Option<()> {
        match variable {
            LogVariable::Word(word) => self.write_word(*word, out),
            LogVariable::RequestHeader(name) => write_headers(self.request, name, out),
            LogVariable::ResponseHeader(name) => write_headers(self.response?, name, out),
            LogVariable::UpstreamHeader(name) => write_headers(self.upstream?.received, name, out),
            LogVariable::UpstreamCookie(name) => {
                let set = self.upstream?.received.all_named(b"set-cookie");
                // RFC 6265 §5.2: name and value precede the first semicolon.
                let pairs = set.filter_map(|cookie| cookie.split(|byte| *byte == b';').next());
                out.text(find_value(pairs.map(<[u8]>::trim_ascii), name)?);
                Some(())
            }
            LogVariable::Geo(field) => {
                out.text(self.identities.location?.value(*field)?);
                Some(())
            }
            LogVariable::Cookie(name) => self.cookie(name, out),
            LogVariable::Argument(name) => self.argument(name, out),
            LogVariable::Absent => None,
        }
    }

    fn cookie(&self, name: &str, out: &mut EscapedWriter<'_>) -> Option<()> {
        let lines = self.request.all_named(b"cookie");
        let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
        out.text(find_value(pairs, name)?);
        Some(())
    }

    fn argument(&self, name: &str, out: &mut EscapedWriter<'_>) -> Option<()> {
        out.text(argument(self.query()?, name)?);
        Some(())
    }
}

/// The value of a query parameter, as received. `name` is lower case and matches in any case, as in nginx.
#[must_use]
pub fn argument<'q>(query: &'q [u8], name: &str) -> Option<&'q [u8]> {
    find_value(query.split(|byte| *byte == b'&'), name)
}

/// Writes all headers of a name, comma-separated as in nginx.
fn write_headers(head: &Head, name: &str, out: &mut EscapedWriter<'_>) -> Option<()> {
    let mut values = head.all_named(name.as_bytes());
    out.text(values.next()?);
    for value in values {
        out.text(b", ");
        out.text(value);
    }
    Some(())
}

/// The value of a name, which is lower case and matches in any case, as in nginx.
fn find_value<'r>(mut pairs: impl Iterator<Item = &'r [u8]>, name: &str) -> Option<&'r [u8]> {
    pairs.find_map(|pair| {
        let (said, value) = pair.split_at_checked(name.len())?;
        if said.eq_ignore_ascii_case(name.as_bytes()) { value.strip_prefix(b"=") } else { None }
    })
}

fn write_absent(escape: LogEscape, out: &mut Vec<u8>) {
    if escape == LogEscape::Nginx {
        out.push(b'-');
    }
}
