//! The command line of `kubectl fairway`, which is also that of `fairway kubectl`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairway_cluster::pods::Search;
use fairway_cluster::source::Credentials;

use super::seconds::seconds;

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

It needs the permissions to list pods, to forward a port to them (get and create on pods/portforward) and, for logs, to read
these (get on pods/log). It changes nothing.
Exit codes: 0 as asked, 1 problems were found, 2 the input cannot be used.";

/// Look at the Fairway pods of a cluster and what they serve.
#[derive(Debug, Parser)]
#[command(name = "kubectl-fairway", bin_name = "kubectl fairway", version, max_term_width = 110)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KubectlCli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: KubectlCommand,
}

/// Looks at the Fairway pods of a cluster and what they serve.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KubectlArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: KubectlCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum KubectlCommand {
    /// Show each Fairway pod, which configuration it serves, and whether the replicas agree
    Status(StatusArgs),
    /// List hosts and paths with their objects, Services and endpoints
    Routes(RoutesArgs),
    /// List certificates with their hosts, their Secrets and the days that they are still valid
    Certs(CertsArgs),
    /// List the endpoints of each Service that is served
    Endpoints(EndpointsArgs),
    /// Explain which rule of the running configuration serves a request, which rules lost, and why
    Explain(RequestArgs),
    /// Report what is wrong with the objects that a pod has read
    Check(DiagnosticsArgs),
    /// Print the access log of all pods
    Logs(LogsArgs),
    /// Forward a local port to the dashboard of a pod until Ctrl-C
    Dashboard(DashboardArgs),
    /// Show requests per second, errors and latency of each route
    Top(TopArgs),
}

/// The flags of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// The flags of `routes`.
#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// Only the routes that serve this host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Whose objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// The flags of `certs`.
#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Whose objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// The flags of `endpoints`.
#[derive(Debug, Args)]
pub(crate) struct EndpointsArgs {
    /// Only this Service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Whose objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// The flags of `explain`.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// The URL, as a client would ask for it
    #[arg(value_name = "URL", required_unless_present = "request_id")]
    pub(crate) url: Option<String>,
    /// The method
    #[arg(short = 'X', long = "request", value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Explain a request that was served, by its X-Request-ID: what all pods remember of it
    #[arg(long, value_name = "ID", conflicts_with = "url")]
    pub(crate) request_id: Option<String>,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// The flags of `check`.
#[derive(Debug, Args)]
pub(crate) struct DiagnosticsArgs {
    /// How it is printed; a table is one line for each problem
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Whose objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// The flags of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Print lines as they come, those of new pods included
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only requests for this host, or for hosts like *.example.com; needs the access log to be JSON
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// How many of the last lines of each pod are read, before --host selects among them; -1 for all
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true)]
    pub(crate) tail: i64,
    /// Which pods
    #[command(flatten)]
    pub(crate) pods: PodArgs,
}

/// The flags of `dashboard`.
#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// The local port; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Open a browser as well, with xdg-open or open
    #[arg(long, overrides_with = "no_open")]
    pub(crate) open: bool,
    /// Only print the address; the default, for aliases that have --open
    #[arg(long, overrides_with = "open")]
    pub(crate) no_open: bool,
    /// Which pods
    #[command(flatten)]
    pub(crate) pods: PodArgs,
}

/// The flags of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How long is measured each time
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Measure once
    #[arg(long)]
    pub(crate) once: bool,
    /// How many routes are shown, the busiest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// How it is printed; JSON and YAML measure once
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ListFormat,
    /// Whose objects
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Who is asked
    #[command(flatten)]
    pub(crate) asked: AskedArgs,
}

/// Values of `--output`, as kubectl has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// Aligned columns.
    Table,
    /// More columns.
    Wide,
    /// A list of JSON objects.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Whose objects are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The objects")]
pub(crate) struct ScopeArgs {
    /// Their namespace [default: that of the context; all with --admin]
    #[arg(short, long, value_name = "NS", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,
    /// Objects of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// Who is asked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The pods")]
pub(crate) struct AskedArgs {
    /// Ask the process with this admin address, without a cluster
    #[arg(
        long,
        value_name = "ADDR",
        conflicts_with_all = ["kubeconfig", "context", "fairway_namespace", "selector", "pod", "admin_port"]
    )]
    pub(crate) admin: Option<SocketAddr>,
    /// Which pods
    #[command(flatten)]
    pub(crate) pods: PodArgs,
}

/// Which pods of which cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The pods")]
pub(crate) struct PodArgs {
    /// A kubeconfig [default: the pod's ServiceAccount, else KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace of Fairway [default: where there are pods with its labels; fairway if you may not list all pods]
    #[arg(long, value_name = "NS")]
    pub(crate) fairway_namespace: Option<String>,
    /// The labels of its pods
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "app.kubernetes.io/name=fairway")]
    pub(crate) selector: String,
    /// Only this pod
    #[arg(long, value_name = "NAME")]
    pub(crate) pod: Option<String>,
    /// The port of the admin server [default: that of the container's --admin, else 10254]
    #[arg(long, value_name = "PORT")]
    pub(crate) admin_port: Option<u16>,
}

impl PodArgs {
    /// Which credentials to use.
    pub(crate) fn credentials(&self) -> Credentials {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return Credentials::Default;
        }
        Credentials::Kubeconfig { file: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// Which pods to look for.
    pub(crate) fn search(&self) -> Search {
        Search { namespace: self.fairway_namespace.clone(), selector: self.selector.clone() }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_calls_itself_as_it_is_called() {
        KubectlCli::command().debug_assert();
        let error = KubectlCli::try_parse_from(["/usr/bin/kubectl-fairway", "routes", "--nonsense"]);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("Usage: kubectl fairway routes"), "{text}");
    }

    #[test]
    fn a_process_is_asked_without_a_cluster() {
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
