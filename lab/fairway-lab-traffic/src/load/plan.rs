//! The plan of a stream of load, with the `fairway-lab load` arguments that set it. Values only; [`Plan::for_url`] parses a
//! URL. Opens no connections.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use clap::{ArgAction, Args, ValueEnum};
use http::Uri;

use crate::call;

/// A stream of load. Create it with [`Plan::for_url`] or [`Plan::for_addresses`], then set fields.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target of connections.
    pub target: Target,
    /// The requests.
    pub request: RequestPlan,
    /// The protocol.
    pub wire: Wire,
    /// When requests are due.
    pub pace: Pace,
    /// The number of connections, streams and threads.
    pub shape: Shape,
    /// When it ends.
    pub bounds: Bounds,
    /// The expected response.
    pub expect: Expect,
    /// What is recorded in addition to totals.
    pub records: Records,
}

/// The target of connections.
#[derive(Clone, Debug)]
pub struct Target {
    /// Addresses, used in turn.
    pub addresses: Vec<SocketAddr>,
    /// The value of `Host` or `:authority`, with the port unless it is the scheme's default.
    pub authority: String,
    /// The name for SNI and for verification of the certificate.
    pub name: String,
}

/// The requests.
#[derive(Args, Clone, Debug)]
pub struct RequestPlan {
    /// The method.
    #[arg(short = 'X', long, default_value = "GET")]
    pub method: String,
    /// An additional path; requests rotate through all paths, including the URL's.
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<String>,
    /// A header, `Name: value`; may be repeated. Host, Content-Length and Connection are set by the generator.
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub headers: Vec<(String, String)>,
    /// The request body, or @FILE to read it from a file.
    #[arg(long, default_value = "", hide_default_value = true, value_parser = body)]
    pub body: Bytes,
    /// Send a unique X-Lab-Id in each request, which lets backends detect duplicates.
    #[arg(long)]
    pub ids: bool,
    /// The fraction of requests, 0 to 1, sent as a POST with a small body, evenly spread.
    #[arg(skip)]
    pub posts: f64,
}

/// The protocol of requests.
#[derive(Clone, Debug)]
pub struct Wire {
    /// TLS, if any.
    pub tls: Option<TlsPlan>,
    /// The protocol version.
    pub protocol: Protocol,
    /// Whether a connection carries more than one request.
    pub reuse: Reuse,
}

/// The protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    Http1,
    /// HTTP/2: negotiated by ALPN with TLS, with prior knowledge without.
    Http2,
    /// HTTP/3 over QUIC with TLS 1.3; every handshake is a full one.
    Http3,
    /// Datagrams as long as the plan's request body. Each starts with a number and is echoed. A socket counts as a
    /// connection.
    Datagrams,
}

/// Whether a connection carries more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Connections are reused until either side closes them.
    KeepAlive,
    /// One request with `Connection: close`; the connection is opened when its request is due.
    ConnectionPerRequest,
    /// One request, after which the connection stays open and idle and the next one is opened.
    OneAfterTheOther,
}

/// TLS settings.
#[derive(Args, Clone, Debug)]
pub struct TlsPlan {
    /// Allow only this TLS version.
    #[arg(long = "tls-version", value_name = "VERSION", default_values = ["1.2", "1.3"], hide_default_value = true)]
    pub versions: Vec<TlsVersion>,
    /// Allow only this cipher suite (IANA or OpenSSL name); may be repeated. Default: all suites that are considered
    /// secure.
    #[arg(long = "cipher", value_name = "NAME")]
    pub ciphers: Vec<String>,
    /// Key exchange groups offered, by IANA name; empty for all that are considered secure.
    #[arg(skip)]
    pub groups: Vec<String>,
    /// Do not resume TLS sessions: every handshake is a full one.
    #[arg(long = "no-resumption", action = ArgAction::SetFalse)]
    pub resumption: bool,
    /// Whether the certificate is verified.
    #[arg(skip)]
    pub verify: Verify,
}

impl Default for TlsPlan {
    fn default() -> Self {
        Self {
            versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
            ciphers: Vec::new(),
            groups: Vec::new(),
            resumption: true,
            verify: Verify::Off,
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// RFC 5246.
    #[value(name = "1.2")]
    Tls12,
    /// RFC 8446.
    #[value(name = "1.3")]
    Tls13,
}

/// Whether the server's certificate is verified.
#[derive(Clone, Debug, Default)]
pub enum Verify {
    /// Any certificate is accepted.
    #[default]
    Off,
    /// It must be issued by one of these CAs (PEM) for the target's name.
    Roots(String),
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// On a schedule, independent of earlier responses (open loop).
    Open {
        /// Requests per second, over all threads.
        rate: f64,
        /// Exponentially distributed gaps instead of constant ones.
        poisson: bool,
    },
    /// Each connection, or stream of HTTP/2 or HTTP/3, sends its next request when the previous one is complete (closed
    /// loop).
    Closed,
}

/// Concurrency.
#[derive(Args, Clone, Copy, Debug)]
pub struct Shape {
    /// Connections, over all threads.
    #[arg(short, long, default_value_t = 10)]
    pub connections: usize,
    /// Concurrent requests on each HTTP/2 or HTTP/3 connection.
    #[arg(long, default_value_t = 10, requires = "streamed")]
    pub streams: usize,
    /// Threads; at most one per connection.
    #[arg(short, long, default_value_t = 1)]
    pub threads: usize,
}

/// When the load ends. Without a duration or a number of requests it runs until stopped.
#[derive(Args, Clone, Copy, Debug)]
pub struct Bounds {
    /// Duration of the load, e.g. 30s, 5m, 500ms; 10s unless --requests is given.
    #[arg(short, long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// Maximum number of requests, over all threads.
    #[arg(short = 'n', long)]
    pub requests: Option<u64>,
    /// Timeout for opening a connection including TLS, and for each request from the moment it is written; the default is
    /// wrk's.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub timeout: Duration,
}

/// The expected response.
#[derive(Args, Clone, Debug)]
pub struct Expect {
    /// Expected statuses, e.g. 200 or 200-299,304. Any other status counts as an error of its own class.
    #[arg(long = "expect-status", default_value = "200-299", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = statuses)]
    pub statuses: Vec<RangeInclusive<u16>>,
    /// A header that correct responses have, `Name: value`; a response without it counts as coming from the wrong route.
    #[arg(long = "expect-header", value_name = "FIELD", value_parser = field)]
    pub header: Option<(String, String)>,
    /// A trailer that HTTP/2 or HTTP/3 responses must have, e.g. `grpc-status: 0`; a response without it is an error.
    #[arg(skip)]
    pub trailer: Option<(String, String)>,
    /// The expected body of HTTP/2 or HTTP/3 responses; other content counts as coming from the wrong route.
    #[arg(skip)]
    pub content: Option<Bytes>,
}

impl Expect {
    pub(super) fn allows(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }

    /// The number of bytes received including `chunk`, if it continues the expected body after `received` bytes.
    pub(super) fn matches_continuation(&self, received: usize, chunk: &[u8]) -> Option<usize> {
        let end = received + chunk.len();
        let is_expected =
            self.content.as_ref().is_none_or(|content| content.get(received..end) == Some(chunk));
        is_expected.then_some(end)
    }

    /// Whether this many bytes are the whole expected body.
    pub(super) fn is_complete(&self, received: usize) -> bool {
        self.content.as_ref().is_none_or(|content| content.len() == received)
    }
}

/// What is recorded in addition to totals.
#[derive(Args, Clone, Copy, Debug)]
pub struct Records {
    /// The interval of the time series. It doubles when a run becomes too long for the number of intervals.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub bucket: Duration,
}

impl Plan {
    /// The default plan for a URL: `GET` over HTTP/1.1 with keep-alive, in a closed loop over one connection for 10
    /// seconds. Resolves the name now.
    ///
    /// # Errors
    /// The URL is not an `http` or `https` URL with a host, or its name does not resolve.
    pub fn for_url(url: &str) -> anyhow::Result<Self> {
        let parsed = Address::parse(url)?;
        let addresses: Vec<_> = (parsed.name.as_str(), parsed.port)
            .to_socket_addrs()
            .with_context(|| format!("resolve {:?} of {url}", parsed.name))?
            .collect();
        anyhow::ensure!(!addresses.is_empty(), "{:?} of {url} has no address", parsed.name);
        Ok(parsed.plan(vec![addresses[0]]))
    }

    /// As [`Plan::for_url`], but connects to `addresses` instead of resolving the URL's name.
    ///
    /// # Errors
    /// The URL is not an `http` or `https` URL with a host.
    pub fn for_addresses(url: &str, addresses: Vec<SocketAddr>) -> anyhow::Result<Self> {
        anyhow::ensure!(!addresses.is_empty(), "no address to connect to was given for {url}");
        Ok(Address::parse(url)?.plan(addresses))
    }

    /// Turns the requests into unary gRPC calls over HTTP/2. An expected response has status 200, exactly the message of
    /// [`call`], and `grpc-status: 0` in its trailers.
    pub fn call(&mut self) {
        let field = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let fields =
            [("content-type", call::CONTENT_TYPE), ("te", "trailers"), ("user-agent", "grpc-fairway-lab/1")];
        self.wire.protocol = Protocol::Http2;
        "POST".clone_into(&mut self.request.method);
        self.request.paths = vec![call::PATH.to_owned()];
        self.request.headers = fields.map(field).to_vec();
        self.request.body = call::message(call::REQUEST);
        self.expect = Expect {
            statuses: vec![200..=200],
            header: None,
            trailer: Some(field(call::STATUS)),
            content: Some(call::message(call::RESPONSE)),
        };
    }

    /// Checks that the plan is possible.
    ///
    /// # Errors
    /// The setting that is not possible.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.shape.connections > 0, "a stream needs at least one connection (--connections)");
        anyhow::ensure!(
            self.shape.streams > 0,
            "a connection of HTTP/2 or HTTP/3 needs at least one stream (--streams)"
        );
        let is_cleartext = self.wire.protocol == Protocol::Http3 && self.wire.tls.is_none();
        anyhow::ensure!(!is_cleartext, "HTTP/3 always has TLS: its URL begins with https://");
        anyhow::ensure!(!self.target.addresses.is_empty(), "a stream needs an address to connect to");
        let has_work =
            self.bounds.requests != Some(0) && self.bounds.duration.is_none_or(|some| !some.is_zero());
        anyhow::ensure!(has_work, "0 requests, or a duration of 0, leave nothing to send");
        anyhow::ensure!(!self.records.bucket.is_zero(), "pieces of the series need a length (--bucket)");
        anyhow::ensure!(!self.bounds.timeout.is_zero(), "a time-out of 0 leaves no time for an answer");
        let posts = self.request.posts;
        anyhow::ensure!((0.0..=1.0).contains(&posts), "the fraction of POSTs, {posts}, is not from 0 to 1");
        anyhow::ensure!(
            posts == 0.0 || self.request.method == "GET",
            "POSTs can be mixed with GET, not with {}",
            self.request.method
        );
        if let Pace::Open { rate, .. } = self.pace {
            anyhow::ensure!(
                rate.is_finite() && rate > 0.0,
                "the rate {rate} is not a number of requests a second above 0"
            );
        }
        Ok(())
    }
}

/// The parts of a URL.
struct Address {
    tls: bool,
    authority: String,
    name: String,
    port: u16,
    path: String,
}

impl Address {
    fn parse(url: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => anyhow::bail!("{url:?} must begin with http:// or https://"),
        };
        let authority = uri.authority().with_context(|| format!("{url:?} names no host"))?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let usual = if tls { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(usual);
        let shown = if port == usual { authority.host().to_owned() } else { authority.to_string() };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { tls, authority: shown, name, port, path })
    }

    fn plan(self, addresses: Vec<SocketAddr>) -> Plan {
        Plan {
            target: Target { addresses, authority: self.authority, name: self.name },
            request: RequestPlan {
                method: "GET".to_owned(),
                paths: vec![self.path],
                headers: Vec::new(),
                body: Bytes::new(),
                ids: false,
                posts: 0.0,
            },
            wire: Wire {
                tls: self.tls.then(TlsPlan::default),
                protocol: Protocol::Http1,
                reuse: Reuse::KeepAlive,
            },
            pace: Pace::Closed,
            shape: Shape { connections: 1, streams: 10, threads: 1 },
            bounds: Bounds {
                duration: Some(Duration::from_secs(10)),
                requests: None,
                timeout: Duration::from_secs(2),
            },
            expect: Expect { statuses: vec![200..=299], header: None, trailer: None, content: None },
            records: Records { bucket: Duration::from_secs(1) },
        }
    }
}

fn field(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text.split_once(':').with_context(|| format!("{text:?} is not `Name: value`"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn body(text: &str) -> anyhow::Result<Bytes> {
    match text.strip_prefix('@') {
        Some(file) => Ok(std::fs::read(file).with_context(|| format!("read {file}"))?.into()),
        None => Ok(text.to_owned().into()),
    }
}

fn statuses(text: &str) -> anyhow::Result<RangeInclusive<u16>> {
    let (low, high) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
    let parse = |text: &str| text.parse::<u16>().ok().filter(|status| (100..1_000).contains(status));
    let range = parse(low).zip(parse(high)).with_context(|| format!("{text:?} is no status"))?;
    Ok(range.0..=range.1)
}

/// Parses a duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit_start =
        text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is no length of time, e.g. 30s or 500ms"))?;
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "" => return Err(format!("{text:?} has no unit: us, ms, s, m or h")),
        _ => return Err(format!("{text:?}: the unit is us, ms, s, m or h")),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|error| format!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_a_unit_and_statuses_are_numbers_or_ranges() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["10", "s", "-1s", "3 days", ""] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(["200-299", " 304"].map(|text| statuses(text).unwrap()), [200..=299, 304..=304]);
        assert!(["2xx", "", "99"].iter().all(|text| statuses(text).is_err()));
    }
}
