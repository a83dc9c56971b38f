//! The load of a block: a closed loop of N connections on one thread, by the laboratory's generator, every answer checked
//! for status and exact length. It begins and ends with nothing in flight, so that the CPU read before and after belongs
//! to exactly the requests that were counted. Never reads a proxy's CPU.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fairway_lab_results::Class;
use fairway_lab_traffic::load::{Between, Outcome, Plan, Protocol, Reuse, Stream, TlsPlan, TlsVersion};

use crate::backend::Backing;
use crate::body::Body;
use crate::interrupt::wait_until;
use crate::scenario::{HOST, Load, Scenario};

/// How long a connection, and an answer, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The group of the key exchange, which all peers have.
pub(crate) const GROUP: &str = "X25519";

/// The fields of every request.
pub(crate) const FIELDS: [(&str, &str); 2] = [("user-agent", "fairway-bench"), ("accept", "*/*")];

/// What is asked of the proxy.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) address: SocketAddr,
    pub(crate) scenario: Scenario,
    pub(crate) backing: Backing,
}

/// What it came to.
pub(crate) struct Tally {
    pub(crate) requests: u64,
    /// By class, as the report names them.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Connections that were open at the end.
    pub(crate) open: usize,
    pub(crate) outcome: Outcome,
}

impl Tally {
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Open connections with nothing in flight.
pub(crate) struct Generator(Stream);

impl Generator {
    /// Opens the connections of a load for `window`; an idle one ends when each connection was used once.
    pub(crate) fn open(ask: &Ask, window: Duration) -> anyhow::Result<Self> {
        Ok(Self(Stream::open(plan(ask, window)?, ask.backing.between())?))
    }

    /// As [`Generator::open`], for this many requests.
    pub(crate) fn open_for(ask: &Ask, requests: u64) -> anyhow::Result<Self> {
        let mut plan = plan(ask, Duration::MAX)?;
        (plan.bounds.duration, plan.bounds.requests) = (None, Some(requests));
        Ok(Self(Stream::open(plan, ask.backing.between())?))
    }

    /// Sends as planned; returns once so many requests wait for their answers.
    pub(crate) fn send_and_wait_for(&mut self, in_flight: u64) -> anyhow::Result<bool> {
        self.0.begin();
        wait_until(PATIENCE, || self.0.progress().in_flight >= in_flight)
    }

    /// Waits until nothing is in flight. The connections stay open.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        wait_until(Duration::MAX, || self.0.is_finished()).map(drop)
    }

    /// Sends as planned, and waits until nothing is in flight. The connections stay open.
    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        self.0.begin();
        self.finish()
    }

    /// Closes the connections.
    pub(crate) fn end(self) -> anyhow::Result<Tally> {
        let outcome = self.0.join()?;
        let mut errors = BTreeMap::new();
        for (class, count) in &outcome.load.errors {
            *errors.entry(name(*class)).or_default() += count;
        }
        Ok(Tally { requests: outcome.load.counts.ok, errors, open: outcome.open, outcome })
    }
}

/// A whole load, from the first connection to the last.
pub(crate) fn send(ask: &Ask, window: Duration) -> anyhow::Result<Tally> {
    let mut generator = Generator::open(ask, window)?;
    generator.run()?;
    generator.end()
}

fn plan(ask: &Ask, window: Duration) -> anyhow::Result<Plan> {
    let Scenario { tls, body, connections, downstream, .. } = ask.scenario;
    let scheme = if tls { "https" } else { "http" };
    let mut plan = Plan::at(&format!("{scheme}://{HOST}{}", body.path()), vec![ask.address])?;
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    plan.request.headers = FIELDS.map(|(name, value)| field(name, value)).to_vec();
    plan.shape.connections = connections;
    plan.bounds.timeout = PATIENCE;
    plan.bounds.duration = Some(window);
    (plan.wire.reuse, plan.bounds.requests) = match ask.scenario.load {
        Load::KeepAlive => (Reuse::KeepAlive, None),
        Load::Once => (Reuse::ConnectionPerRequest, None),
        Load::Idle => (Reuse::OneAfterTheOther, Some(connections as u64)),
        Load::Waiting => (Reuse::KeepAlive, Some((connections * downstream.streams()) as u64)),
    };
    if ask.scenario.is_http2() {
        plan.wire.protocol = Protocol::Http2;
        plan.shape.streams = downstream.streams();
    }
    plan.expect.statuses = vec![200..=200];
    if body == Body::Message {
        plan.call();
    } else {
        plan.expect.header = Some(field("content-length", &body.bytes().to_string()));
    }
    // Every peer has to do the same work, so nothing is left to choose.
    plan.wire.tls = tls.then(|| TlsPlan {
        versions: vec![TlsVersion::Tls13],
        ciphers: vec!["TLS_AES_256_GCM_SHA384".to_owned()],
        groups: vec![GROUP.to_owned()],
        resumption: false,
        ..TlsPlan::default()
    });
    Ok(plan)
}

impl Backing {
    /// What the generator does between its turns instead of sleeping.
    fn between(&self) -> Option<Between> {
        let Self::Generator(backend) = self else { return None };
        let backend = Arc::clone(backend);
        Some(Box::new(move || backend.lock().unwrap_or_else(PoisonError::into_inner).step(Duration::ZERO)))
    }
}

/// What went wrong, as the report has it.
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
