//! The flags that say where Fairway runs.

use clap::Args;

/// Where Fairway runs.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Where Fairway runs")]
pub(crate) struct PlaceArgs {
    /// The node that Fairway runs on: endpoints on it are preferred where their Service has trafficDistribution PreferSameNode
    #[arg(long, env = "FAIRWAY_NODE", value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// The zone that Fairway runs in: endpoints in it are preferred where their Service has trafficDistribution PreferSameZone
    /// [default: the label topology.kubernetes.io/zone of the node, with --kubernetes]
    #[arg(long, env = "FAIRWAY_ZONE", value_name = "NAME")]
    pub(crate) zone: Option<String>,
}
