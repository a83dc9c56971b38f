//! The command line of `kubectl fairway` and `fairway kubectl`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairway_cluster::pods::PodSearch;
use fairway_cluster::source::Credentials;

use super::durations::seconds;

const EXAMPLES: &str = "\
Examples:
  kubectl fairway status
  kubectl fairway routes --all-namespaces --host shop.example.com
  kubectl fairway certs --namespace shop
  kubectl fairway endpoints cart --namespace shop
  kubectl fairway explain https://shop.example.com/cart
  kubectl fairway check --all-namespaces
  kubectl fairway logs --follow --host shop.example.com
  kubectl fairway dashboard
  kubectl fairway top --all-namespaces
  fairway kubectl routes --admin 127.0.0.1:10254

Requires permission to list pods and to forward ports to them (get and create on pods/portforward), and for logs also get on
pods/log. Changes nothing in the cluster.
Exit codes: 0 success, 1 problems found, 2 unusable input.";

/// Inspect the Fairway pods of a cluster and what they serve.
#[derive(Debug, Parser)]
#[command(name = "kubectl-fairway", bin_name = "kubectl fairway", version, max_term_width = 110)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KubectlCli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: KubectlCommand,
}

/// Inspects the Fairway pods of a cluster and what they serve.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KubectlArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: KubectlCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum KubectlCommand {
    /// Show each Fairway pod, which configuration it serves, and whether the replicas agree
    Status(StatusArgs),
    /// List hosts and paths with their objects, Services and endpoint counts
    Routes(RoutesArgs),
    /// List certificates with their hosts, Secrets and days until expiry
    Certs(CertsArgs),
    /// List the endpoints of the Services that routes use
    Endpoints(EndpointsArgs),
    /// Explain which rule of the running configuration serves a request and why the other rules do not
    Explain(RequestArgs),
    /// Report problems in the objects that a pod has read
    Check(DiagnosticsArgs),
    /// Print the access log of all pods
    Logs(LogsArgs),
    /// Forward a local port to the dashboard of a pod until Ctrl-C
    Dashboard(DashboardArgs),
    /// Show requests per second, errors and latency per route
    Top(TopArgs),
}

/// The flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The flags of `routes`.
#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// Show only the routes that serve this host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Namespaces of the objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The flags of `certs`.
#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Namespaces of the objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The flags of `endpoints`.
#[derive(Debug, Args)]
pub(crate) struct EndpointsArgs {
    /// Show only this Service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Namespaces of the objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The flags of `explain`.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// URL as a client would request it
    #[arg(value_name = "URL", required_unless_present = "request_id")]
    pub(crate) url: Option<String>,
    /// Request method
    #[arg(short = 'X', long = "request", value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Request header; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Explain a recorded request by its X-Request-ID, from the flight recorders of all pods
    #[arg(long, value_name = "ID", conflicts_with = "url")]
    pub(crate) request_id: Option<String>,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The flags of `check`.
#[derive(Debug, Args)]
pub(crate) struct DiagnosticsArgs {
    /// Output format; table prints one line per problem
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Namespaces of the objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The flags of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Keep printing new lines, including those of new pods
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print only requests for this host or host pattern, such as *.example.com; requires a JSON access log
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Number of most recent lines to read from each pod, before --host filters them; -1 for all
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true)]
    pub(crate) tail: i64,
    /// The pods to query
    #[command(flatten)]
    pub(crate) pods: PodArgs,
}

/// The flags of `dashboard`.
#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Local port; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Also open a browser, with xdg-open or open
    #[arg(long, overrides_with = "no_open")]
    pub(crate) open: bool,
    /// Only print the address. This is the default; the flag cancels an --open in an alias
    #[arg(long, overrides_with = "open")]
    pub(crate) no_open: bool,
    /// The pods to query
    #[command(flatten)]
    pub(crate) pods: PodArgs,
}

/// The flags of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Length of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Measure once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Number of routes to show, the busiest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Output format; json and yaml measure once
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Namespaces of the objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The pods or the process to query
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Values of `--output`, the same as those of kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// Aligned columns.
    Table,
    /// Aligned columns, with additional ones.
    Wide,
    /// A list of JSON objects.
    Json,
    /// The same list as YAML.
    Yaml,
}

/// The namespaces whose objects are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Objects")]
pub(crate) struct ScopeArgs {
    /// Namespace of the objects [default: that of the context; all with --admin]
    #[arg(short, long, value_name = "NS", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,
    /// Show the objects of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// The pods of a cluster, or a single process.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pods")]
pub(crate) struct TargetArgs {
    /// Query the process with this admin address instead of a cluster
    #[arg(
        long,
        value_name = "ADDR",
        conflicts_with_all = ["kubeconfig", "context", "fairway_namespace", "selector", "pod", "admin_port"]
    )]
    pub(crate) admin: Option<SocketAddr>,
    /// The pods to query
    #[command(flatten)]
    pub(crate) pods: PodArgs,
}

/// The cluster, and which of its pods to query.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Pods")]
pub(crate) struct PodArgs {
    /// Path of a kubeconfig [default: the pod's ServiceAccount, else KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace of Fairway [default: the one that has pods with its labels; fairway if you may not list the pods of all
    /// namespaces]
    #[arg(long, value_name = "NS")]
    pub(crate) fairway_namespace: Option<String>,
    /// Labels of Fairway's pods
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "app.kubernetes.io/name=fairway")]
    pub(crate) selector: String,
    /// Query only this pod
    #[arg(long, value_name = "NAME")]
    pub(crate) pod: Option<String>,
    /// Port of the admin server [default: that of the container's --admin, else 10254]
    #[arg(long, value_name = "PORT")]
    pub(crate) admin_port: Option<u16>,
}

impl PodArgs {
    /// The credentials for the API server.
    pub(crate) fn credentials(&self) -> Credentials {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return Credentials::Default;
        }
        Credentials::Kubeconfig { file: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// The search for Fairway's pods.
    pub(crate) fn search(&self) -> PodSearch {
        PodSearch { namespace: self.fairway_namespace.clone(), selector: self.selector.clone() }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_usage_names_the_plugin() {
        KubectlCli::command().debug_assert();
        let error = KubectlCli::try_parse_from(["/usr/bin/kubectl-fairway", "routes", "--nonsense"]);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("Usage: kubectl fairway routes"), "{text}");
    }

    #[test]
    fn admin_excludes_the_flags_of_a_cluster() {
        let parse = |arguments: &[&str]| {
            KubectlCli::try_parse_from([&["kubectl-fairway", "routes"][..], arguments].concat()).is_ok()
        };
        assert!(parse(&["--admin", "127.0.0.1:1"]));
        assert!(!parse(&["--admin", "127.0.0.1:1", "--context", "c"]));
        assert!(!parse(&["--admin", "127.0.0.1:1", "--selector", "a=b"]));
        assert!(!parse(&["--namespace", "shop", "-A"]));
        assert!(parse(&["-n", "shop", "-o", "yaml", "-l", "a=b"]));
    }
}
