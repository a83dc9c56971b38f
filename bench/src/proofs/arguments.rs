//! The arguments of the proofs. They are bounded, so that any machine completes them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fairway_testkit::proof::routes::{Kind, Shape, Source};
use fairway_testkit::proof::site::Scheme;

/// Input and output paths.
#[derive(Args, Debug)]
pub(crate) struct Paths {
    /// The binary that is tried, as the proxy and as its backends.
    #[arg(long, default_value = "target/release/fairway")]
    pub(crate) fairway: PathBuf,
    /// Path of the JSON output [default: target/bench/COMMAND.json].
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct SpreadArguments {
    /// How often each number of connections is reopened.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) times: u16,
    /// Connections at a time, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8], value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) connections: Vec<u16>,
    /// Schemes of clients, comma-separated, run one after another.
    #[arg(long, value_delimiter = ',', value_parser = schemes(), default_values = ["plain", "tls"])]
    pub(crate) over: Vec<Scheme>,
    #[command(flatten)]
    pub(crate) place: Paths,
}

#[derive(Args, Debug)]
pub(crate) struct ChurnArguments {
    /// Requests in all.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) requests: u64,
    /// Schemes of clients, comma-separated, run one after another.
    #[arg(long, value_delimiter = ',', value_parser = schemes(), default_values = ["plain", "tls"])]
    pub(crate) over: Vec<Scheme>,
    /// Clients, each with one request at a time.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) connections: u16,
    /// The share of POSTs.
    #[arg(long, default_value_t = 0.3, value_parser = share)]
    pub(crate) posts: f64,
    /// The share of requests for which a client makes a new connection.
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub(crate) fresh: f64,
    /// Milliseconds between two changes of the endpoints.
    #[arg(long, default_value = "300", value_parser = milliseconds)]
    pub(crate) every: Duration,
    /// The endpoints that come and go are all that the proxy's zone has, which it prefers; otherwise the oldest ones leave.
    #[arg(long)]
    pub(crate) zone: bool,
    #[command(flatten)]
    pub(crate) place: Paths,
}

#[derive(Args, Debug)]
pub(crate) struct ChangesArguments {
    /// Changes of a route, each of them awaited on every connection.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Changes of routes, of certificates and of settings under load.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) of_each_kind: u32,
    #[command(flatten)]
    pub(crate) place: Paths,
}

#[derive(Args, Debug)]
pub(crate) struct ScaleArguments {
    /// Files, with an Ingress, a Service and an EndpointSlice each.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) ingresses: u32,
    /// Changes of one of them.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) changes: u32,
    #[command(flatten)]
    pub(crate) place: Paths,
}

#[derive(Args, Debug)]
pub(crate) struct RoutesArguments {
    /// Ingresses with one path each, or HTTPRoutes with one rule each.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=500_000))]
    pub(crate) routes: u32,
    /// Hosts that share the routes evenly, each with a Service.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) hosts: u32,
    /// Endpoints of all Services.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(0..=500_000))]
    pub(crate) endpoints: u32,
    /// Changes of a route.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) changes: u32,
    /// Kinds of routes, comma-separated, run one after another.
    #[arg(long, value_delimiter = ',', value_parser = kinds(), default_values = ["ingress", "httproute"])]
    pub(crate) kind: Vec<Kind>,
    /// Sources of routes, comma-separated, run one after another.
    #[arg(long, value_delimiter = ',', value_parser = sources(), default_values = ["directory", "api"])]
    pub(crate) source: Vec<Source>,
    /// A smoke test: a fiftieth of it all, and ten changes.
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: Paths,
}

impl RoutesArguments {
    /// The number of routes and of changes.
    pub(crate) fn effort(&self) -> (Shape, usize) {
        let part = |count: u32| (if self.quick { (count / 50).max(1) } else { count }) as usize;
        let shape =
            Shape { routes: part(self.routes), hosts: part(self.hosts), endpoints: part(self.endpoints) };
        let changes = if self.quick { self.changes.min(10) } else { self.changes };
        (shape, changes as usize)
    }
}

#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    /// Files, with an Ingress, a Service and an EndpointSlice each.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) ingresses: u32,
    /// Runs of each form of the command.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) runs: u8,
    #[command(flatten)]
    pub(crate) place: Paths,
}

#[derive(Args, Debug)]
pub(crate) struct CompareArguments {
    /// Ingresses with a host and a path each.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) ingresses: u32,
    #[command(flatten)]
    pub(crate) place: Paths,
}

#[derive(Args, Debug)]
pub(crate) struct KillArguments {
    /// Backends killed for each kind of client.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) times: u16,
    #[command(flatten)]
    pub(crate) place: Paths,
}

fn schemes() -> impl TypedValueParser<Value = Scheme> {
    one_of([("plain", Scheme::Plain), ("tls", Scheme::Tls)])
}

fn kinds() -> impl TypedValueParser<Value = Kind> {
    one_of([("ingress", Kind::Ingress), ("httproute", Kind::HttpRoute)])
}

fn sources() -> impl TypedValueParser<Value = Source> {
    one_of([("directory", Source::Directory), ("api", Source::Api)])
}

fn one_of<T: Copy + Send + Sync + 'static>(all: [(&'static str, T); 2]) -> impl TypedValueParser<Value = T> {
    let choose = move |value: String| {
        let found = all.into_iter().find(|(name, _)| *name == value);
        found.map(|(_, chosen)| chosen).ok_or("is none of them")
    };
    PossibleValuesParser::new(all.map(|(name, _)| name)).try_map(choose)
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share from 0 to 1".to_owned()),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms").unwrap_or(text).parse() {
        Ok(count @ 20..=60_000) => Ok(Duration::from_millis(count)),
        _ => Err("milliseconds from 20 to 60000".to_owned()),
    }
}
