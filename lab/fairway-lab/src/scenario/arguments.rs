//! The arguments of `fairway-lab run`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use fairway_lab_measure::results::Settings;

use super::definition::Form;

/// Arguments of `fairway-lab run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  fairway-lab run all --quick                      every scenario with every peer, as root, in a testbed of its own
  fairway-lab run dynamic comparison timeline propagation --long --out lab-results/long   four rounds, both settings
  fairway-lab run dynamic --peers fairway,envoy --set dynamic_s=60.0
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
    /// Folder for the results [default: lab-results/TIME]
    #[arg(long, env = "FAIRWAY_LAB_OUT", value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Replace results that are in the folder of --out
    #[arg(long, requires = "out")]
    pub(super) replace: bool,
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
    /// cpu=cgroup|kubelet; may be repeated
    #[arg(long = "peer", value_name = "DESCRIPTION")]
    pub(super) described: Vec<String>,
    /// With recommended settings (equal upstream keep-alive, workers, TLS, logs), with each peer's defaults, or both
    /// [default: recommended; with --long both]
    #[arg(long, value_enum)]
    pub(super) settings: Option<SettingsChoice>,
}

/// The size of a run.
#[derive(clap::Args)]
pub(super) struct ScopeArguments {
    /// Every scenario shortened, so that all of them with all peers fit into about 20 minutes on two cores
    #[arg(long)]
    pub(super) quick: bool,
    /// A form for several rounds: four rounds of the scenarios in a cluster with both settings take about two hours on two cores
    #[arg(long, conflicts_with = "quick")]
    pub(super) long: bool,
    /// How often each scenario runs with every peer: forwards in odd rounds, backwards in even ones [default: 1; with
    /// --long 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub(super) rounds: Option<u32>,
    /// Rates and connections as a fraction of the paper's, whose machines were larger
    #[arg(long, default_value_t = 0.05, value_parser = fraction, value_name = "FACTOR")]
    pub(super) scale: f64,
    /// A parameter of the scenarios' files, e.g. `rate=2000`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

impl ScopeArguments {
    pub(super) fn form(&self) -> Form {
        match (self.quick, self.long) {
            (true, _) => Form::Quick,
            (false, true) => Form::Long,
            (false, false) => Form::Whole,
        }
    }

    /// Number of rounds; 1 means no rounds.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.long { LONG_ROUNDS } else { 1 })
    }
}

impl RunArguments {
    /// The settings, in their order.
    pub(super) fn settings(&self) -> Vec<Settings> {
        let implied = if self.scope.long { SettingsChoice::Both } else { SettingsChoice::Recommended };
        self.selection.settings.unwrap_or(implied).all()
    }
}

/// The rounds of `--long`: A B B A, twice.
const LONG_ROUNDS: u32 = 4;

/// The environment of a run.
#[derive(clap::Args)]
pub(super) struct EnvironmentArguments {
    /// In the cluster of your kubeconfig instead of a testbed; creates namespaces `lab*` there and removes them
    #[arg(long)]
    pub(super) cluster: bool,
    /// Confirm: create objects in that cluster and send load to it
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        run: RunArguments,
    }

    fn read(words: &[&str]) -> Result<RunArguments, String> {
        let all = ["lab", "dynamic"].iter().chain(words);
        Command::try_parse_from(all).map(|command| command.run).map_err(|error| error.to_string())
    }

    #[test]
    fn long_means_four_rounds_with_both_settings_by_default() {
        let long = read(&["--long"]).unwrap();
        assert_eq!((long.scope.form(), long.scope.rounds()), (Form::Long, 4));
        assert_eq!(long.settings(), [Settings::Recommended, Settings::Defaults]);
        let arguments = read(&["--long", "--rounds", "2", "--settings", "defaults"]).unwrap();
        assert_eq!((arguments.scope.rounds(), arguments.settings()), (2, vec![Settings::Defaults]));
    }

    #[test]
    fn without_options_there_are_no_rounds() {
        for (words, form) in [(vec![], Form::Whole), (vec!["--quick"], Form::Quick)] {
            let plain = read(&words).unwrap();
            assert_eq!((plain.scope.form(), plain.scope.rounds()), (form, 1));
            assert_eq!(plain.settings(), [Settings::Recommended]);
        }
    }

    #[test]
    fn options_that_exclude_or_need_one_another_are_refused() {
        for (words, named) in [
            (vec!["--quick", "--long"], "--long"),
            (vec!["--rounds", "0"], "0 is not in 1..=100"),
            (vec!["--replace"], "--out"),
        ] {
            let error = read(&words).err().unwrap();
            assert!(error.contains(named), "{words:?}: {error}");
        }
    }
}
