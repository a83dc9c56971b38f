//! The flags of `check --against`, which replays recorded requests on the objects that are checked.

use std::net::SocketAddr;
use std::str::FromStr;

use clap::Args;

use super::kubectl::PodArgs;
use super::source::ClusterArgs;

/// The effect of the objects on recorded requests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Effect on recorded requests (docs/observe.md)")]
pub(crate) struct AgainstArgs {
    /// Report which recorded requests these objects would handle differently. ADDR is the admin address of a replica, repeated for
    /// each replica; kubernetes queries all pods of a cluster
    #[arg(long, value_name = "ADDR|kubernetes", conflicts_with = "report")]
    pub(crate) against: Vec<Against>,
    /// Exit with 1 if a request would be handled differently
    #[arg(long, requires = "against")]
    pub(crate) fail_on_change: bool,
    /// Namespace of Fairway [default: the one that has pods with its labels; fairway if you may not list the pods of all
    /// namespaces]
    #[arg(long, value_name = "NS", requires = "against")]
    pub(crate) fairway_namespace: Option<String>,
    /// Labels of Fairway's pods [default: app.kubernetes.io/name=fairway]
    #[arg(short = 'l', long, value_name = "LABELS", requires = "against")]
    pub(crate) selector: Option<String>,
    /// Port of the pods' admin server [default: that of the container's --admin, else 10254]
    #[arg(long, value_name = "PORT", requires = "against")]
    pub(crate) admin_port: Option<u16>,
}

/// Whose recorded requests are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// The process with this admin address.
    Admin(SocketAddr),
    /// All pods of a cluster.
    Kubernetes,
}

impl FromStr for Against {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "kubernetes" {
            return Ok(Self::Kubernetes);
        }
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let problem = "is neither the address of an admin server, such as 127.0.0.1:10254, nor kubernetes";
        address.parse().map(Self::Admin).map_err(|_| problem.to_owned())
    }
}

impl AgainstArgs {
    /// Whether to query the pods of a cluster.
    pub(crate) fn queries_cluster(&self) -> bool {
        self.against.contains(&Against::Kubernetes)
    }

    /// The pods to query in `cluster`.
    pub(crate) fn pods(&self, cluster: &ClusterArgs) -> PodArgs {
        let selector = self.selector.clone();
        PodArgs {
            kubeconfig: cluster.kubeconfig.clone(),
            context: cluster.context.clone(),
            fairway_namespace: self.fairway_namespace.clone(),
            selector: selector.unwrap_or_else(|| "app.kubernetes.io/name=fairway".to_owned()),
            pod: None,
            admin_port: self.admin_port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn against_is_an_admin_address_or_the_cluster() {
        let admin = Ok(Against::Admin("127.0.0.1:10254".parse().unwrap()));
        for (text, expected) in [
            ("127.0.0.1:10254", admin.clone()),
            ("http://127.0.0.1:10254/", admin),
            ("kubernetes", Ok(Against::Kubernetes)),
        ] {
            assert_eq!(text.parse::<Against>(), expected, "{text}");
        }
        for wrong in ["", "localhost", "10254", "https://127.0.0.1:10254", "Kubernetes"] {
            assert!(wrong.parse::<Against>().is_err(), "{wrong}");
        }
    }
}
