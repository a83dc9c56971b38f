//! Settings fixed at the start of the process: threads and hard limits. Everything else is configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::HeadLimits;
use fairway_model::{ProxyLocation, Tracing};
use fairway_net::inherited::InheritedSockets;
use fairway_net::memory::{MemoryBudget, ReturnMemory};
use fairway_net::output::OutputCopies;
use ipnet::IpNet;

use crate::geoip::GeoIp;
use crate::guards::{FleetLimits, Logouts};
use crate::peer::Scheme;
use crate::tls::{SelfSigned, SessionTickets, Stapling};
use crate::trace::channel::TraceSender;

/// Options of a [`crate::Proxy`].
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Worker threads; at least 1.
    pub workers: usize,
    /// The format of the access log.
    pub access_log: AccessLogFormat,
    /// Receives copies of the log lines, in addition to standard output.
    pub access_log_copies: Option<OutputCopies>,
    /// Which listeners expect a PROXY protocol header.
    pub proxy_protocol: ProxyProtocol,
    /// Hard limits.
    pub limits: Limits,
    /// Where buffered bodies go that exceed memory.
    pub buffer: BufferOptions,
    /// Size of the flight recorder.
    pub recorder: RecorderOptions,
    /// Tracing of requests whose rule and listener do not set it. `None`: not traced.
    pub tracing: Option<Arc<Tracing>>,
    /// Exporter of sampled exchanges. `None`: not exported, but endpoints still get the trace context.
    pub traces: Option<TraceSender>,
    /// How the process stops.
    pub drain: DrainOptions,
    /// Certificate for TLS clients whose SNI has none, if the configuration has no default certificate.
    pub fallback_certificate: SelfSigned,
    /// Zone and node of the process, for backends that prefer near endpoints.
    pub location: ProxyLocation,
    /// Keys of TLS session tickets.
    pub tickets: SessionTickets,
    /// Sessions ended by identity providers.
    pub logouts: Logouts,
    /// GeoIP databases.
    pub geoip: GeoIp,
    /// Limits shared by the replicas of a fleet.
    pub fleet: FleetLimits,
    /// Fetches OCSP responses, where the configuration enables it.
    pub stapling: Stapling,
    /// Returns freed memory to the system. Called when there is a memory budget.
    pub return_memory: ReturnMemory,
}

/// Sockets and state at the start of a [`crate::Proxy`].
#[derive(Debug, Default)]
pub struct StartupSockets {
    /// Sockets used instead of binding their addresses.
    pub inherited: InheritedSockets,
    /// Whether connections wait until [`crate::Publisher::start_accepting`].
    pub hold_connections: bool,
}

/// The format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// The default of ingress-nginx (`log-format-upstream`).
    Nginx,
    /// The same with two more fields at the end: the client address after trust is settled, and the sender's
    /// address.
    NginxAddresses,
    /// One JSON object per line.
    Json,
    /// None.
    Off,
}

/// Where buffered bodies go that exceed memory.
#[derive(Clone, Debug, Default)]
pub struct BufferOptions {
    /// Directory for buffered bodies; `None`: no disk buffering.
    pub directory: Option<PathBuf>,
    /// Total bytes on disk.
    pub disk_bytes: u64,
}

/// Listeners whose connections must start with a PROXY protocol header (version 1 or 2).
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    /// Listeners that expect the header.
    pub on: ProxyProtocolOn,
    /// Peers that may send the header; empty trusts every peer of those listeners. Connections of other peers
    /// are closed.
    pub trusted: Vec<IpNet>,
}

/// The listeners that expect a PROXY protocol header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocolOn {
    /// None.
    #[default]
    Off,
    /// Cleartext listeners.
    Http,
    /// TLS listeners.
    Https,
    /// Both.
    Both,
}

impl ProxyProtocolOn {
    /// Whether connections to listeners of this scheme start with the header.
    pub(crate) fn expects_header(self, scheme: Scheme) -> bool {
        matches!((self, scheme), (Self::Both, _) | (Self::Http, Scheme::Http) | (Self::Https, Scheme::Https))
    }
}

/// Hard limits: docs/limits.md.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request or response head.
    pub head_bytes: u32,
    /// Headers of a request or response.
    pub head_fields: u16,
    /// Bytes of a request line.
    pub request_line_bytes: u32,
    /// Downstream connections of the process; further ones are answered 503 and closed. `None`: bounded by file
    /// descriptors.
    pub connections: Option<usize>,
    /// File descriptors of the process. `None`: its soft limit of open files.
    pub descriptors: Option<usize>,
    /// Memory budget; above it new requests are answered 503.
    pub memory: MemoryBudget,
    /// Bytes of a request body buffered for retries.
    pub replay_bytes: usize,
    /// How long an endpoint may leave written bytes unacknowledged and send nothing.
    pub upstream_unacknowledged: Duration,
    /// How long a connect may take before another endpoint is tried concurrently; less for endpoints that
    /// usually take a fraction of it, at least 50 ms. Zero disables hedging.
    pub connect_hedge: Duration,
    /// How long a client may pause within a request body.
    pub body_idle: Duration,
    /// Average bytes per second required of a request body after its first five seconds. 0 disables the check.
    pub body_rate: u64,
    /// Average bytes per second that a client must read of a response it has stalled, after the first five
    /// seconds. 0 disables the check.
    pub response_rate: u64,
}

impl Limits {
    /// Limits of a request or response head.
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
            response_rate: 240,
        }
    }
}

/// Size of the flight recorder.
#[derive(Clone, Copy, Debug)]
pub struct RecorderOptions {
    /// Exchanges that each worker records, about 1.2 KiB each; 0 disables the recorder.
    pub exchanges_per_worker: usize,
    /// How long an exchange is kept.
    pub retention: Duration,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self { exchanges_per_worker: 1_000, retention: Duration::from_secs(3_600) }
    }
}

/// How the process stops.
#[derive(Clone, Copy, Debug)]
pub struct DrainOptions {
    /// How long the process keeps accepting after the order to stop, so that load balancers notice first.
    pub delay: Duration,
    /// How long exchanges in flight may take after that.
    pub timeout: Duration,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self { delay: Duration::from_secs(5), timeout: Duration::from_secs(240) }
    }
}
