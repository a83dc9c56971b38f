//! The flags of `fairway wait`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::durations::seconds;
use super::source::ClusterArgs;

/// Waits until every replica serves a configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl apply -f shop.yaml && fairway wait --namespace ingress --ingress shop/web
  kubectl apply -f route.yaml && fairway wait --namespace ingress --object httproute/shop/web
  fairway wait --admin 127.0.0.1:10254 --digest 0f3a7c1e9b2d4c5a8f6e1d2c3b4a5968

A replica counts once all of its workers serve the configuration. The digest is the one in /served, /config and the metric
fairway_config_info; replicas with the same configuration have the same digest.
Exit codes: 0 every replica serves it, 1 timeout, 2 the replicas cannot be queried.")]
pub(crate) struct WaitArgs {
    /// Admin or probe addresses of the replicas, instead of the pods of a cluster
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) admin: Vec<SocketAddr>,
    /// The pods to query
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Wait until the current version of this Ingress is served or, if it does not exist, until it is no longer served
    #[arg(long, value_name = "NS/NAME")]
    pub(crate) ingress: Option<String>,
    /// Wait until the current generation of this Gateway API object or policy is served or, if it does not exist, until it is no
    /// longer served. Kinds: httproute, grpcroute, tlsroute, tcproute, udproute, gateway, listenerset, gatewayclass,
    /// backendtlspolicy, clienttrafficpolicy, backendtrafficpolicy, securitypolicy, extensionpolicy
    #[arg(long, value_name = "KIND/NS/NAME", conflicts_with = "ingress")]
    pub(crate) object: Option<String>,
    /// Wait until the configuration with this digest is served
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// Minimum number of replicas that must serve it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) replicas: usize,
    /// Maximum time to wait
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

/// The pods to query.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pods")]
pub(crate) struct FleetArgs {
    /// Namespace of the pods
    #[arg(short, long, value_name = "NS", default_value = "fairway")]
    pub(crate) namespace: String,
    /// Labels of the pods
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "app.kubernetes.io/name=fairway")]
    pub(crate) selector: String,
    /// Port of the pods' --probe
    #[arg(long, value_name = "PORT", default_value_t = 10255)]
    pub(crate) probe_port: u16,
    /// Path of a kubeconfig [default: the pod's ServiceAccount, else KUBECONFIG, else ~/.kube/config]
    #[arg(long, env = "FAIRWAY_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
    /// Context of the kubeconfig [default: the current context]
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
