//! The flags for the node and zone of the process, which decide about endpoint preferences.

use clap::Args;

/// The node and zone of the process.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Topology")]
pub(crate) struct TopologyArgs {
    /// Node this process runs on; Services with trafficDistribution PreferSameNode prefer endpoints on it
    #[arg(long, env = "FAIRWAY_NODE", value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Zone this process runs in; Services with trafficDistribution PreferSameZone prefer endpoints in it
    /// [default: with --kubernetes, the label topology.kubernetes.io/zone of the node]
    #[arg(long, env = "FAIRWAY_ZONE", value_name = "NAME")]
    pub(crate) zone: Option<String>,
}
