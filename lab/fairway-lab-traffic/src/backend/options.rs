//! The options of a backend, which are the arguments of `fairway-lab backend`. Serves nothing itself.

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::{BoolValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser};

use crate::load::duration;

/// All options of a backend.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true)]
pub struct Options {
    /// Where to listen; several times for several. Port 0 is a free one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: Vec<SocketAddr>,
    /// Value of X-Lab-Backend in responses. X-Lab-Pod is the variable POD_NAME.
    #[arg(long, default_value = "backend")]
    pub name: String,
    /// The value of `X-Lab-Pod`; none when empty.
    #[arg(skip)]
    pub pod: String,
    /// Bytes of a response, unless the target names a size: /1kb.bin, /1mb.bin, ?size=BYTES.
    #[arg(long, default_value_t = 1_024)]
    pub size: u64,
    /// Delay of a response, e.g. 5ms.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub delay: Duration,
    /// Injected failures.
    #[command(flatten)]
    pub faults: Faults,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Speak TLS, with a certificate that the backend signs itself.
    #[arg(long)]
    pub tls: bool,
    /// Speak HTTP/2 without TLS, with prior knowledge, and respond to every gRPC call at once with a message of 1
    /// KiB.
    #[arg(long = "grpc", action = ArgAction::SetTrue, value_parser = BoolValueParser::new().map(Spoken::grpc_or_http1))]
    #[arg(conflicts_with_all = ["size", "delay", "reset", "truncate", "statuses", "tls", "record"])]
    pub spoken: Spoken,
    /// Tell the ids of requests (X-Lab-Id) to a collector of the laboratory.
    #[arg(long, value_name = "ADDR")]
    pub record: Option<SocketAddr>,
}

impl Default for Options {
    /// The defaults of the command, on a free port.
    fn default() -> Self {
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        Self { listen, ..Self::parse_from([""; 0]) }
    }
}

/// The protocol of the backend. Most of the other options apply to HTTP/1 only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spoken {
    /// HTTP/1.1, optionally with TLS.
    #[default]
    Http1,
    /// HTTP/2 without TLS, with prior knowledge. Every response has 1 KiB.
    H2c,
    /// gRPC over HTTP/2 without TLS. Every call gets the same message.
    Grpc,
    /// Datagrams, which are echoed.
    Datagrams,
}

impl Spoken {
    fn grpc_or_http1(is_grpc: bool) -> Self {
        if is_grpc { Self::Grpc } else { Self::Http1 }
    }
}

/// Injected failures, as fractions of requests.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Fraction of requests that get a reset.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    pub reset: f64,
    /// Fraction of responses that end in the middle.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    pub truncate: f64,
    /// A status and the fraction of requests that get it, e.g. 503:0.01; repeatable.
    #[arg(long = "status", value_name = "CODE:RATE", value_parser = status)]
    pub statuses: Vec<(u16, f64)>,
}

/// The fate of one request.
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

fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|fraction| (0.0..=1.0).contains(fraction))
        .ok_or_else(|| format!("{text:?} is no fraction from 0 to 1"))
}

fn status(text: &str) -> Result<(u16, f64), String> {
    let (code, rate) =
        text.split_once(':').ok_or_else(|| format!("{text:?} is not CODE:RATE, e.g. 503:0.01"))?;
    let code = code.parse().ok().filter(|code| (200..600).contains(code));
    Ok((code.ok_or_else(|| format!("{text:?} has no status from 200 to 599"))?, fraction(rate)?))
}
