//! The load of a block: a closed loop of N connections on one thread, by the laboratory's generator, with the status and
//! exact length of every response checked. It starts and ends with nothing in flight, so the CPU time read before and after
//! belongs to exactly the counted requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_lab_measure::results::Class;
use fairway_lab_traffic::load::{Outcome, Plan, Protocol, Reuse, Stream, TlsPlan, TlsVersion};

use crate::body::Body;
use crate::credential;
use crate::interrupt::wait_until;
use crate::scenario::{Downstream, ForwardedUnit, HOST, Load, Scenario, Tls};

/// Timeout of a connection, and of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a datagram's echo: on loopback it arrives at once or never.
const LOST: Duration = Duration::from_millis(500);

/// The group of the key exchange, which all peers have.
pub(crate) const GROUP: &str = "X25519";

/// The fields of every request.
pub(crate) const FIELDS: [(&str, &str); 2] = [("user-agent", "fairway-bench"), ("accept", "*/*")];

/// The header that a browser adds to a cross-origin request.
const ORIGIN: (&str, &str) = ("origin", "https://other.example");

/// The load on the proxy.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) address: SocketAddr,
    pub(crate) scenario: Scenario,
    /// Whether responses must have a Content-Length.
    pub(crate) announces_length: bool,
}

/// The results.
pub(crate) struct Tally {
    pub(crate) requests: u64,
    /// By class, as the report names them.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Connections that were open at the end.
    pub(crate) open: usize,
    /// The generator's results.
    pub(crate) outcome: Box<Outcome>,
}

impl Tally {
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Open connections, or sockets for datagrams, with nothing in flight.
pub(crate) struct Generator(Stream);

impl Generator {
    /// Opens the connections of a load for `window`; an idle one ends when each connection was used once.
    pub(crate) fn open(ask: &Ask, window: Duration) -> anyhow::Result<Self> {
        Ok(Self(Stream::open(plan(ask, window)?)?))
    }

    /// Sends as planned; returns once this many requests are waiting for responses.
    pub(crate) fn send_and_wait_for(&mut self, in_flight: u64) -> anyhow::Result<bool> {
        self.0.start_load();
        wait_until(RESPONSE_TIMEOUT, || self.0.progress().in_flight >= in_flight)
    }

    /// Waits until nothing is in flight. The connections stay open.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        wait_until(Duration::MAX, || self.0.is_finished()).map(drop)
    }

    /// Sends as planned, and waits until nothing is in flight. The connections stay open.
    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        self.0.start_load();
        self.finish()
    }

    /// Closes the connections.
    pub(crate) fn end(self) -> anyhow::Result<Tally> {
        let outcome = self.0.join()?;
        let mut errors = BTreeMap::new();
        for (class, count) in &outcome.load.errors {
            *errors.entry(name(*class)).or_default() += count;
        }
        let (requests, open) = (outcome.load.counts.ok, outcome.open);
        Ok(Tally { requests, errors, open, outcome: Box::new(outcome) })
    }
}

/// A complete load, from the first connection to the last.
pub(crate) fn send(ask: &Ask, window: Duration) -> anyhow::Result<Tally> {
    let mut generator = Generator::open(ask, window)?;
    generator.run()?;
    generator.end()
}

/// Whether responses have all of these headers; sends one request for each.
pub(crate) fn has_fields(ask: &Ask, fields: &[(&str, &str)], window: Duration) -> anyhow::Result<bool> {
    for (name, value) in fields {
        let mut plan = plan(ask, window)?;
        plan.expect.header = Some(((*name).to_owned(), (*value).to_owned()));
        let mut generator = Generator(Stream::open(plan)?);
        generator.run()?;
        if generator.end()?.requests != 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn plan(ask: &Ask, window: Duration) -> anyhow::Result<Plan> {
    let Scenario { tls, body, connections, downstream, .. } = ask.scenario;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut plan =
        Plan::for_addresses(&format!("{scheme}://{HOST}{}", ask.scenario.path()), vec![ask.address])?;
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = FIELDS.into_iter().chain(ask.scenario.is_edited().then_some(ORIGIN));
    plan.request.headers = fields.map(|(name, value)| field(name, value)).collect();
    if ask.scenario.asks_for_token() {
        plan.request.headers.push(field("authorization", &format!("Bearer {}", credential::token())));
    }
    plan.shape.connections = connections;
    plan.bounds.timeout = RESPONSE_TIMEOUT;
    plan.bounds.duration = Some(window);
    (plan.wire.reuse, plan.bounds.requests) = match ask.scenario.load {
        Load::KeepAlive => (Reuse::KeepAlive, None),
        Load::Once | Load::Resumed => (Reuse::ConnectionPerRequest, None),
        Load::Idle => (Reuse::OneAfterTheOther, Some(connections as u64)),
        Load::Waiting => (Reuse::KeepAlive, Some((connections * downstream.streams()) as u64)),
    };
    if ask.scenario.forwarded == ForwardedUnit::Datagrams {
        plan.wire.protocol = Protocol::Datagrams;
        plan.request.body = vec![b'x'; body.bytes()].into();
        plan.bounds.timeout = LOST;
        return Ok(plan);
    }
    plan.wire.protocol = match downstream {
        Downstream::Http1 => Protocol::Http1,
        Downstream::Http2 { .. } => Protocol::Http2,
        Downstream::Http3 { .. } => Protocol::Http3,
    };
    plan.shape.streams = downstream.streams();
    plan.expect.statuses = vec![200..=200];
    if body == Body::Message {
        plan.call();
    } else {
        plan.expect.header = Some(match ask.announces_length {
            true => field("content-length", &body.bytes().to_string()),
            false => field("x-lab-backend", "bench"),
        });
    }
    // Every peer has to do the same work, so nothing is left to choose.
    plan.wire.tls = tls.map(|tls| {
        let (version, cipher) = match tls {
            Tls::V12 => (TlsVersion::Tls12, "ECDHE-RSA-AES256-GCM-SHA384"),
            Tls::V13 => (TlsVersion::Tls13, "TLS_AES_256_GCM_SHA384"),
        };
        TlsPlan {
            versions: vec![version],
            ciphers: vec![cipher.to_owned()],
            groups: vec![GROUP.to_owned()],
            resumption: ask.scenario.load == Load::Resumed,
            ..TlsPlan::default()
        }
    });
    Ok(plan)
}

/// The errors, as in the report.
fn name(class: Class) -> String {
    let name = match class {
        Class::ConnectRefused => "connection refused",
        Class::ConnectReset | Class::ConnectTimeout | Class::ConnectOther => "connect failed",
        Class::Tls | Class::TlsTimeout => "TLS failure",
        Class::Write | Class::ReadReset => "connection reset",
        Class::ReadEof => "EOF before the head",
        Class::Malformed => "unreadable answer",
        Class::Truncated => "truncated body",
        Class::WrongRoute => "wrong length",
        Class::HeadTimeout | Class::BodyTimeout | Class::NotSent => "timed out",
        Class::Duplicated => "delivered twice",
        Class::Status(code) => return format!("status {code}"),
    };
    name.to_owned()
}
