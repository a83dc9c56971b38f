//! What a stream of load is asked to do, and the arguments of `fairway-lab load` that say so. Values only; [`Plan::to`] reads a
//! URL. Never opens a connection.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use clap::{ArgAction, Args, ValueEnum};
use http::Uri;

use crate::call;

/// Everything about a stream of load. Made by [`Plan::to`] or [`Plan::at`]; the rest is set field by field.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where connections go.
    pub target: Target,
    /// What is asked for.
    pub request: RequestPlan,
    /// How it is carried.
    pub wire: Wire,
    /// When requests are due.
    pub pace: Pace,
    /// How many connections, streams and threads.
    pub shape: Shape,
    /// When it ends.
    pub bounds: Bounds,
    /// What a good answer is.
    pub expect: Expect,
    /// What is kept beside the sums.
    pub records: Records,
}

/// Where connections go.
#[derive(Clone, Debug)]
pub struct Target {
    /// Addresses, taken in turn.
    pub addresses: Vec<SocketAddr>,
    /// The value of `Host` or `:authority`, with the port if it is not the scheme's.
    pub authority: String,
    /// The name for SNI and for verification of the certificate.
    pub name: String,
}

/// What is asked for.
#[derive(Args, Clone, Debug)]
pub struct RequestPlan {
    /// The method.
    #[arg(short = 'X', long, default_value = "GET")]
    pub method: String,
    /// One more path beside that of the URL; they are asked for in turn.
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<String>,
    /// A field, `Name: value`; several times for several. Host, Content-Length and Connection are the generator's own.
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub headers: Vec<(String, String)>,
    /// The content of requests, or @ and the name of a file that has it.
    #[arg(long, default_value = "", hide_default_value = true, value_parser = body)]
    pub body: Bytes,
    /// Send X-Lab-Id with a value of its own in each request, by which backends find duplicates.
    #[arg(long)]
    pub ids: bool,
    /// The fraction of requests that are a POST with a small content instead, 0 to 1, evenly spread.
    #[arg(skip)]
    pub posts: f64,
}

/// How requests are carried.
#[derive(Clone, Debug)]
pub struct Wire {
    /// TLS, if any.
    pub tls: Option<TlsPlan>,
    /// Which HTTP.
    pub protocol: Protocol,
    /// Whether a connection carries more than one request.
    pub reuse: Reuse,
}

/// Which HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    Http1,
    /// HTTP/2: by ALPN inside TLS, with prior knowledge without.
    Http2,
    /// HTTP/3 over QUIC, which has TLS 1.3; every handshake is a full one.
    Http3,
    /// Datagrams as long as the content of the plan's request, which begin with a number and are each sent back. A socket is
    /// a connection.
    Datagrams,
}

/// Whether a connection carries more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// As long as both sides like.
    KeepAlive,
    /// One request, with `Connection: close`; a connection is opened when its request is due.
    ConnectionPerRequest,
    /// One request, after which the connection stays open and silent; the next one is opened when that is done.
    OneAfterTheOther,
}

/// How TLS is spoken.
#[derive(Args, Clone, Debug)]
pub struct TlsPlan {
    /// Only this version of TLS.
    #[arg(long = "tls-version", value_name = "VERSION", default_values = ["1.2", "1.3"], hide_default_value = true)]
    pub versions: Vec<TlsVersion>,
    /// Only this cipher suite, by IANA's or OpenSSL's name; several times for several. Without it all that are safe.
    #[arg(long = "cipher", value_name = "NAME")]
    pub ciphers: Vec<String>,
    /// Groups of the key exchange that are offered, by IANA's names; all that are safe when empty.
    #[arg(skip)]
    pub groups: Vec<String>,
    /// Every handshake is a full one.
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
    /// Any certificate will do.
    #[default]
    Off,
    /// It must come from one of these authorities (PEM) and be for the name of the target.
    Roots(String),
}

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By a schedule, whatever becomes of earlier requests.
    Open {
        /// Requests a second, all threads together.
        rate: f64,
        /// Gaps exponentially distributed instead of constant.
        poisson: bool,
    },
    /// Each connection (and stream of HTTP/2 or HTTP/3) is given its next request when it is done with the one before.
    Closed,
}

/// How many of what.
#[derive(Args, Clone, Copy, Debug)]
pub struct Shape {
    /// Connections, all threads together.
    #[arg(short, long, default_value_t = 10)]
    pub connections: usize,
    /// Requests at a time on a connection of HTTP/2 or HTTP/3.
    #[arg(long, default_value_t = 10, requires = "streamed")]
    pub streams: usize,
    /// Threads; never more than connections.
    #[arg(short, long, default_value_t = 1)]
    pub threads: usize,
}

/// When it ends. Without duration and requests it goes on until it is stopped.
#[derive(Args, Clone, Copy, Debug)]
pub struct Bounds {
    /// For how long, e.g. 30s, 5m, 500ms; 10s unless --requests says when it ends.
    #[arg(short, long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// How many requests at most, all threads together.
    #[arg(short = 'n', long)]
    pub requests: Option<u64>,
    /// For a connection with its handshake, and again for a request from the moment it is written; wrk's is as long.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub timeout: Duration,
}

/// What a good answer is.
#[derive(Args, Clone, Debug)]
pub struct Expect {
    /// Statuses that are no errors, e.g. 200 or 200-299,304. Any other one is an error of its own class.
    #[arg(long = "expect-status", default_value = "200-299", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = statuses)]
    pub statuses: Vec<RangeInclusive<u16>>,
    /// A field that right answers have, `Name: value`; an answer without it is from the wrong route.
    #[arg(long = "expect-header", value_name = "FIELD", value_parser = field)]
    pub header: Option<(String, String)>,
    /// A field of the trailers of HTTP/2 or HTTP/3 with its value, e.g. `grpc-status: 0`; an answer without it is not a good one.
    #[arg(skip)]
    pub trailer: Option<(String, String)>,
    /// The whole content, of HTTP/2 or HTTP/3; an answer with other content came from the wrong route.
    #[arg(skip)]
    pub content: Option<Bytes>,
}

impl Expect {
    pub(super) fn allows(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }

    /// The bytes received with this piece, if it is the expected content after the bytes received before.
    pub(super) fn continued(&self, received: usize, piece: &[u8]) -> Option<usize> {
        let end = received + piece.len();
        let is_expected =
            self.content.as_ref().is_none_or(|content| content.get(received..end) == Some(piece));
        is_expected.then_some(end)
    }

    /// Whether this many bytes are the whole content.
    pub(super) fn is_complete(&self, received: usize) -> bool {
        self.content.as_ref().is_none_or(|content| content.len() == received)
    }
}

/// What is kept beside the sums.
#[derive(Args, Clone, Copy, Debug)]
pub struct Records {
    /// The length of a piece of the series. It doubles when a run gets so long that pieces would be too many.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub bucket: Duration,
}

impl Plan {
    /// The plan with which everything else begins: `GET` of the URL over HTTP/1.1 with keep-alive, a closed loop over one
    /// connection for 10 seconds. The name in the URL is resolved now.
    ///
    /// # Errors
    /// What is not an `http` or `https` URL with a host, or a name that does not resolve.
    pub fn to(url: &str) -> anyhow::Result<Self> {
        let parsed = Address::parse(url)?;
        let addresses: Vec<_> = (parsed.name.as_str(), parsed.port)
            .to_socket_addrs()
            .with_context(|| format!("resolve {:?} of {url}", parsed.name))?
            .collect();
        anyhow::ensure!(!addresses.is_empty(), "{:?} of {url} has no address", parsed.name);
        Ok(parsed.plan(vec![addresses[0]]))
    }

    /// As [`Plan::to`], with connections to `addresses` instead of those of the URL's name.
    ///
    /// # Errors
    /// What is not an `http` or `https` URL with a host.
    pub fn at(url: &str, addresses: Vec<SocketAddr>) -> anyhow::Result<Self> {
        anyhow::ensure!(!addresses.is_empty(), "no address to connect to was given for {url}");
        Ok(Address::parse(url)?.plan(addresses))
    }

    /// Makes its requests unary calls of gRPC over HTTP/2. A good answer has status 200, the message of [`call`] to the
    /// byte, and `grpc-status: 0` in its trailers.
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

    /// Whether it can be carried out at all.
    ///
    /// # Errors
    /// What of it cannot.
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

/// A length of time with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let place = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(place);
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
