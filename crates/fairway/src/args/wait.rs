//! The flags of `fairway wait`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::seconds::seconds;
use super::source::ClusterArgs;

/// Waits until a configuration serves on every replica.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl apply -f shop.yaml && fairway wait --namespace ingress --ingress shop/web
  kubectl apply -f route.yaml && fairway wait --namespace ingress --object httproute/shop/web
  fairway wait --admin 127.0.0.1:10254 --digest 0f3a7c1e9b2d4c5a8f6e1d2c3b4a5968

A replica counts when every one of its workers serves the configuration. The digest is that of /served, /config and the
metric fairway_config_info; it is the same on every replica that serves the same.
Exit codes: 0 it serves everywhere, 1 not within the time, 2 the replicas cannot be asked.")]
pub(crate) struct WaitArgs {
    /// Replicas by their admin or probe addresses, instead of the pods of a cluster
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) admin: Vec<SocketAddr>,
    /// Which pods of a cluster
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Wait until the current version of this Ingress is served; or, if it does not exist, until it is no longer served
    #[arg(long, value_name = "NS/NAME")]
    pub(crate) ingress: Option<String>,
    /// Wait until the current generation of this object of the Gateway API is served, or of a policy: httproute, grpcroute,
    /// tlsroute, tcproute, udproute, gateway, listenerset, gatewayclass, backendtlspolicy, clienttrafficpolicy,
    /// backendtrafficpolicy, securitypolicy or extensionpolicy; or, if it does not exist, until it is no longer served
    #[arg(long, value_name = "KIND/NS/NAME", conflicts_with = "ingress")]
    pub(crate) object: Option<String>,
    /// Wait until the configuration with this digest is served
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// The minimum number of replicas that must serve it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) replicas: usize,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

/// Which pods of a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "The pods")]
pub(crate) struct FleetArgs {
    /// Their namespace
    #[arg(short, long, value_name = "NS", default_value = "fairway")]
    pub(crate) namespace: String,
    /// Their labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "app.kubernetes.io/name=fairway")]
    pub(crate) selector: String,
    /// The port of their --probe
    #[arg(long, value_name = "PORT", default_value_t = 10255)]
    pub(crate) probe_port: u16,
    /// A kubeconfig [default: the pod's ServiceAccount, else KUBECONFIG, else ~/.kube/config]
    #[arg(long, env = "FAIRWAY_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "FAIRWAY_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl FleetArgs {
    pub(crate) fn cluster(&self) -> ClusterArgs {
        ClusterArgs {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..ClusterArgs::default()
        }
    }
}
