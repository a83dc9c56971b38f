//! The arguments of `fairway-lab run`. Never does what they ask for.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use fairway_lab_results::Settings;

/// Arguments of `fairway-lab run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  fairway-lab run all --quick                      every scenario with every peer, as root, in a testbed of its own
  fairway-lab run dynamic --peers fairway,envoy --set dynamic_s=60.0
  fairway-lab run capacity --peers fairway,haproxy   no cluster and no root are needed
  fairway-lab run dynamic --cluster --yes --backend-image registry.example/fairway-lab:v1 \\
      --peer name=ours,class=nginx,address=192.0.2.10,selector=app=ingress-nginx,namespace=ingress-nginx")]
pub struct RunArguments {
    /// Scenarios by name, `all`, or files of yours
    #[arg(required = true, value_name = "SCENARIO")]
    pub(super) scenarios: Vec<String>,
    #[command(flatten)]
    pub(super) selection: PeerArguments,
    #[command(flatten)]
    pub(super) scope: ScopeArguments,
    #[command(flatten)]
    pub(super) environment: EnvironmentArguments,
    /// Exit with 1 when a request of these peers failed, separated by commas: for CI
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(super) fail_on_errors: Vec<String>,
    /// Where the results go [default: lab-results/TIME]
    #[arg(long, env = "FAIRWAY_LAB_OUT", value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// The part of a run that is inside of the testbed.
    #[arg(long, hide = true, value_name = "FILE")]
    pub(super) inside: Option<PathBuf>,
}

/// Whom to measure.
#[derive(clap::Args)]
pub(super) struct PeerArguments {
    /// Peers, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(super) peers: Vec<String>,
    /// A controller in your cluster: name=..,class=..,address=.. and, if known, selector=.., namespace=.., deployment=..,
    /// cpu=cgroup|kubelet|metrics; may be repeated
    #[arg(long = "peer", value_name = "DESCRIPTION")]
    pub(super) described: Vec<String>,
    /// With recommended settings (equal upstream keep-alive, workers, TLS, logs), with each peer's defaults, or both
    #[arg(long, value_enum, default_value_t = SettingsChoice::Recommended)]
    pub(super) settings: SettingsChoice,
}

/// How much of a scenario.
#[derive(clap::Args)]
pub(super) struct ScopeArguments {
    /// Every scenario shortened, so that all of them with all peers fit into 25 minutes on two cores
    #[arg(long)]
    pub(super) quick: bool,
    /// Rates and connections as a fraction of the paper's, whose machines were larger
    #[arg(long, default_value_t = 0.05, value_parser = fraction, value_name = "FACTOR")]
    pub(super) scale: f64,
    /// A parameter of the scenarios' files, e.g. `rate=2000`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

/// Where it runs and what with.
#[derive(clap::Args)]
pub(super) struct EnvironmentArguments {
    /// In the cluster of your kubeconfig instead of a testbed; creates namespaces `lab*` there and removes them
    #[arg(long)]
    pub(super) cluster: bool,
    /// Yes, put objects and load on that cluster
    #[arg(long)]
    pub(super) yes: bool,
    /// The image of backends, with this program at /usr/bin/fairway-lab; the testbed gets its own
    #[arg(long, value_name = "IMAGE")]
    pub(super) backend_image: Option<String>,
    /// An address of this machine that pods of the cluster reach, with a port: backends tell there which requests they were
    /// given; a testbed has its own
    #[arg(long, requires = "cluster", value_name = "ADDR:PORT")]
    pub(super) collector: Option<SocketAddr>,
    /// The Fairway to measure
    #[arg(long, default_value = "target/release/fairway", env = "FAIRWAY_LAB_FAIRWAY", value_name = "FILE")]
    pub(super) fairway: PathBuf,
    /// The archive of its image, as `make image` writes it
    #[arg(long, default_value = "target/fairway-image.tar", env = "FAIRWAY_LAB_IMAGE", value_name = "FILE")]
    pub(super) fairway_image: PathBuf,
    /// The checkout: testbed, charts and the pinned peers are there
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(super) checkout: PathBuf,
}

/// Settings to run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SettingsChoice {
    Recommended,
    Defaults,
    Both,
}

impl SettingsChoice {
    pub(super) fn all(self) -> Vec<Settings> {
        match self {
            Self::Recommended => vec![Settings::Recommended],
            Self::Defaults => vec![Settings::Defaults],
            Self::Both => vec![Settings::Recommended, Settings::Defaults],
        }
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 1.0 => Ok(factor),
        _ => Err("a factor above 0 and at most 1".to_owned()),
    }
}
