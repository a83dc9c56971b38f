//! What a stream of load is asked to do. Values only; [`Plan::to`] reads a URL. Never opens a connection.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
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
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// `GET` and so on.
    pub method: String,
    /// Targets, taken in turn.
    pub paths: Vec<String>,
    /// Fields beside `Host`, `Content-Length` and `Connection`, which are the generator's.
    pub headers: Vec<(String, String)>,
    /// The content; none when empty.
    pub body: Bytes,
    /// Whether each request carries `X-Lab-Id` with a value of its own, by which backends find duplicates.
    pub ids: bool,
    /// The fraction of requests that are a POST with a small content instead, 0 to 1, evenly spread.
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
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// Versions that are offered.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites that are offered, IANA's or OpenSSL's names; all that are safe when empty.
    pub ciphers: Vec<String>,
    /// Groups of the key exchange that are offered, by IANA's names; all that are safe when empty.
    pub groups: Vec<String>,
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// Whether the certificate is verified.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Whether the server's certificate is verified.
#[derive(Clone, Debug)]
pub enum Verify {
    /// Any certificate will do.
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
    /// Each connection (and stream of HTTP/2) is given its next request when it is done with the one before.
    Closed,
}

/// How many of what.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Connections, all threads together.
    pub connections: usize,
    /// Requests at a time on one connection of HTTP/2.
    pub streams: usize,
    /// Threads; never more than connections.
    pub threads: usize,
}

/// When it ends. Without duration and requests it goes on until it is stopped.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Nothing is due after it.
    pub duration: Option<Duration>,
    /// Nothing is due after this many, all threads together.
    pub requests: Option<u64>,
    /// For a connection with its handshake, and again for a request from the moment it is written. wrk's is 2 s.
    pub timeout: Duration,
}

/// What a good answer is.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Statuses; any other one is an error of its own class.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// A field with its value; an answer without it came from the wrong route.
    pub header: Option<(String, String)>,
    /// A field of the trailers of HTTP/2 with its value, e.g. `grpc-status: 0`; an answer without it is not a good one.
    pub trailer: Option<(String, String)>,
    /// The whole content, of HTTP/2; an answer with other content came from the wrong route.
    pub content: Option<Bytes>,
}

impl Expect {
    /// Whether a status is expected.
    #[must_use]
    pub fn allows(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }

    /// The bytes received with this piece, if it is the expected content after the bytes received before.
    #[must_use]
    pub fn continued(&self, received: usize, piece: &[u8]) -> Option<usize> {
        let end = received + piece.len();
        let is_expected =
            self.content.as_ref().is_none_or(|content| content.get(received..end) == Some(piece));
        is_expected.then_some(end)
    }

    /// Whether this many bytes are the whole content.
    #[must_use]
    pub fn is_complete(&self, received: usize) -> bool {
        self.content.as_ref().is_none_or(|content| content.len() == received)
    }
}

/// What is kept beside the sums.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The fraction of requests that is kept one by one, 0 to 1.
    pub sample: f64,
    /// The length of a piece of the series. It doubles when a run gets so long that pieces would be too many.
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
            "a connection of HTTP/2 needs at least one stream (--streams)"
        );
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
            records: Records { sample: 0.0, bucket: Duration::from_secs(1) },
        }
    }
}
