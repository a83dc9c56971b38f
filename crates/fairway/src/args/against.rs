//! The flags of `check` that compare objects with what is served.

use std::net::SocketAddr;
use std::str::FromStr;

use clap::Args;

use super::kubectl::PodArgs;
use super::source::ClusterArgs;

/// What the objects would have meant for requests that were served.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What the change would have done (docs/observe.md)")]
pub(crate) struct AgainstArgs {
    /// Say which of the requests that Fairway remembers these objects would treat otherwise: the address of an admin server, given
    /// once for each replica, or kubernetes for all pods of a cluster
    #[arg(long, value_name = "ADDR|kubernetes", conflicts_with = "report")]
    pub(crate) against: Vec<Against>,
    /// End with 1 if a request would be treated otherwise
    #[arg(long, requires = "against")]
    pub(crate) fail_on_change: bool,
    /// The namespace of Fairway [default: where there are pods with its labels; fairway if you may not list all pods]
    #[arg(long, value_name = "NS", requires = "against")]
    pub(crate) fairway_namespace: Option<String>,
    /// The labels of its pods [default: app.kubernetes.io/name=fairway]
    #[arg(short = 'l', long, value_name = "LABELS", requires = "against")]
    pub(crate) selector: Option<String>,
    /// The port of the admin server of its pods [default: that of the container's --admin, else 10254]
    #[arg(long, value_name = "PORT", requires = "against")]
    pub(crate) admin_port: Option<u16>,
}

/// Who is asked what was served.
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
        let wrong = "is neither the address of an admin server, such as 127.0.0.1:10254, nor kubernetes";
        address.parse().map(Self::Admin).map_err(|_| wrong.to_owned())
    }
}

impl AgainstArgs {
    /// Whether the pods of a cluster are asked.
    pub(crate) fn asks_a_cluster(&self) -> bool {
        self.against.contains(&Against::Kubernetes)
    }

    /// Which pods are asked, of the cluster that `cluster` names.
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
    fn who_is_asked_is_an_address_or_the_cluster() {
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
