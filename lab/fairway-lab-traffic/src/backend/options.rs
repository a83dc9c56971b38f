//! The options of a backend. Values only.

use std::net::SocketAddr;
use std::time::Duration;

/// All options of a backend.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 is a free one.
    pub listen: Vec<SocketAddr>,
    /// The value of `X-Lab-Backend`.
    pub name: String,
    /// The value of `X-Lab-Pod`; none when empty.
    pub pod: String,
    /// Bytes of an answer whose target does not say.
    pub size: u64,
    /// How long answers take.
    pub delay: Duration,
    /// What goes wrong.
    pub faults: Faults,
    /// Threads.
    pub threads: usize,
    /// Whether it speaks TLS, with a certificate that it signs itself.
    pub tls: bool,
    /// What it speaks. Most of the other options are HTTP/1's.
    pub spoken: Spoken,
    /// A collector of ids.
    pub record: Option<SocketAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            name: "backend".to_owned(),
            pod: String::new(),
            size: 1_024,
            delay: Duration::ZERO,
            faults: Faults::default(),
            threads: 1,
            tls: false,
            spoken: Spoken::Http1,
            record: None,
        }
    }
}

/// What a backend speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spoken {
    /// HTTP/1.1, with TLS if that is wanted.
    #[default]
    Http1,
    /// HTTP/2 without TLS, with prior knowledge. Every request is answered with 1 KiB.
    H2c,
    /// gRPC over HTTP/2 without TLS. Every call is answered with the same message.
    Grpc,
    /// Datagrams, each of which is sent back.
    Datagrams,
}

/// What goes wrong, as fractions of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// A reset instead of an answer.
    pub reset: f64,
    /// Half of a body and then the end.
    pub truncate: f64,
    /// Another status.
    pub statuses: Vec<(u16, f64)>,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    Answer(u16),
    Truncate,
    Reset,
}

impl Faults {
    /// Throws the dice for one request.
    pub(super) fn reaction(&self, random: &mut fastrand::Rng) -> Reaction {
        if *self == Self::default() {
            return Reaction::Answer(200);
        }
        let mut dice = random.f64();
        for (fraction, reaction) in [(self.reset, Reaction::Reset), (self.truncate, Reaction::Truncate)] {
            if dice < fraction {
                return reaction;
            }
            dice -= fraction;
        }
        for (status, fraction) in &self.statuses {
            if dice < *fraction {
                return Reaction::Answer(*status);
            }
            dice -= fraction;
        }
        Reaction::Answer(200)
    }
}
