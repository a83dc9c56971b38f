//! What the process fixes at its start: threads and hard limits. Everything else is configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::HeadLimits;
use fairway_model::{Location, Tracing};
use fairway_net::inherited::Inherited;
use fairway_net::memory::{MemoryBudget, ReturnMemory};
use fairway_net::output::OutputCopies;
use ipnet::IpNet;

use crate::geoip::GeoIp;
use crate::guards::{FleetLimits, Logouts};
use crate::peer::Scheme;
use crate::tls::{SelfSigned, SessionTickets, Stapling};
use crate::trace::channel::TraceSender;

/// How a [`crate::Proxy`] is started.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Threads that serve traffic; at least 1.
    pub workers: usize,
    /// The format of the access log.
    pub access_log: AccessLogFormat,
    /// Who gets its lines besides the standard output.
    pub access_log_copies: Option<OutputCopies>,
    /// Which listeners expect a PROXY protocol header.
    pub proxy_protocol: ProxyProtocol,
    /// Hard limits.
    pub limits: Limits,
    /// Where bodies are held that have no room in memory.
    pub buffer: BufferOptions,
    /// What is remembered of the last exchanges.
    pub recorder: RecorderOptions,
    /// How requests are traced, where neither their rule nor their listener says so. `None`: not at all.
    pub tracing: Option<Arc<Tracing>>,
    /// Where sampled exchanges go. `None`: they are not exported; endpoints get the context of their traces all the same.
    pub traces: Option<TraceSender>,
    /// How the process stops.
    pub drain: DrainOptions,
    /// For TLS clients that name no host with a certificate, where the configuration has no default certificate.
    pub fallback_certificate: SelfSigned,
    /// Where the process runs: endpoints near it are preferred, as their backends say.
    pub location: Location,
    /// What clients resume their TLS sessions with.
    pub tickets: SessionTickets,
    /// Sessions that providers have ended.
    pub logouts: Logouts,
    /// Databases of client addresses.
    pub geoip: GeoIp,
    /// The limits that count for the fleet.
    pub fleet: FleetLimits,
    /// Asks OCSP responders about certificates, where the configuration wants that.
    pub stapling: Stapling,
    /// Returns freed memory to the system. It is called where there is a memory budget.
    pub return_memory: ReturnMemory,
}

/// What a [`crate::Proxy`] begins to listen with.
#[derive(Debug, Default)]
pub struct Opening {
    /// Sockets that are used in place of binding their addresses.
    pub inherited: Inherited,
    /// Whether connections wait until [`crate::Publisher::begin_accepting`].
    pub waits: bool,
}

/// The format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// The default of ingress-nginx (`log-format-upstream`).
    Nginx,
    /// The same with two more words at the end: who the client is once trust is settled, and who sent the bytes.
    NginxAddresses,
    /// One JSON object per line.
    Json,
    /// None.
    Off,
}

/// Where bodies are held that have no room in memory.
#[derive(Clone, Debug, Default)]
pub struct BufferOptions {
    /// `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// Bytes that all of them may have there.
    pub disk: u64,
}

/// Where a PROXY protocol header (version 1 or 2) must come first on every connection.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    /// The listeners that expect it.
    pub on: ProxyProtocolOn,
    /// Peers that may send it; empty trusts every peer of those listeners. Others are closed.
    pub trusted: Vec<IpNet>,
}

/// The listeners that expect a PROXY protocol header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocolOn {
    /// None.
    #[default]
    Off,
    /// Those in the clear.
    Http,
    /// Those with TLS.
    Https,
    /// Both.
    Both,
}

impl ProxyProtocolOn {
    /// Whether connections to listeners of this kind begin with the header.
    pub(crate) fn expects_header(self, scheme: Scheme) -> bool {
        matches!((self, scheme), (Self::Both, _) | (Self::Http, Scheme::Http) | (Self::Https, Scheme::Https))
    }
}

/// Hard limits: docs/limits.md.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a head, of either side.
    pub head_bytes: u32,
    /// Header fields of a head, of either side.
    pub head_fields: u16,
    /// Bytes of a request line.
    pub request_line_bytes: u32,
    /// Downstream connections of the process; beyond it new ones are answered 503 and closed. `None`: what the
    /// descriptors allow.
    pub connections: Option<usize>,
    /// File descriptors that the process may have. `None`: its soft limit of open files.
    pub descriptors: Option<usize>,
    /// Memory that may be in use; above it new requests are answered 503.
    pub memory: MemoryBudget,
    /// Bytes of a request body that are held for a retry.
    pub replay_bytes: usize,
    /// How long an endpoint may leave written bytes unacknowledged and say nothing at all.
    pub upstream_unacknowledged: Duration,
    /// How long a connect to an endpoint may take before another endpoint is tried as well; less where the endpoint
    /// usually takes a fraction of it, at least 50 ms. Zero never tries another one.
    pub connect_hedge: Duration,
    /// How long the client may send nothing of a body that was announced.
    pub body_idle: Duration,
    /// Bytes per second that a request body must bring on average, after its first five seconds. 0 switches it off.
    pub body_rate: u64,
    /// Bytes per second of an answer that the client must take on average while it is waited for, after the first five
    /// seconds. 0 switches it off.
    pub answer_rate: u64,
}

impl Limits {
    /// The bounds of a head, of either side.
    pub(crate) fn head(&self) -> HeadLimits {
        HeadLimits {
            head_bytes: self.head_bytes,
            fields: self.head_fields,
            line_bytes: self.request_line_bytes,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            head_fields: 100,
            request_line_bytes: 8 * 1024,
            connections: None,
            descriptors: None,
            memory: MemoryBudget::Unlimited,
            replay_bytes: 64 * 1024,
            upstream_unacknowledged: Duration::from_secs(2),
            connect_hedge: Duration::from_millis(250),
            body_idle: Duration::from_secs(60),
            body_rate: 240,
            answer_rate: 240,
        }
    }
}

/// What is remembered of the last exchanges.
#[derive(Clone, Copy, Debug)]
pub struct RecorderOptions {
    /// How many exchanges each worker remembers, each in about 1.2 KiB; 0 remembers none.
    pub exchanges: usize,
    /// For how long.
    pub keep: Duration,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self { exchanges: 1_000, keep: Duration::from_secs(3_600) }
    }
}

/// How the process stops.
#[derive(Clone, Copy, Debug)]
pub struct DrainOptions {
    /// How long it goes on accepting after it was told to stop, so that load balancers see it first.
    pub delay: Duration,
    /// How long exchanges in flight may take after that.
    pub timeout: Duration,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self { delay: Duration::from_secs(5), timeout: Duration::from_secs(240) }
    }
}
