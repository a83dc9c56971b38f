//! The node and zone of this process, from its flags or the cluster.

use std::sync::Arc;

use anyhow::Result;
use fairway_cluster::source::Client;
use fairway_cluster::zone_of;
use fairway_model::ProxyLocation;

use crate::args::TopologyArgs;

/// The location from the flags; looks the zone up in the cluster of `client` if the flags do not name it.
///
/// # Errors
/// The runtime for the lookup cannot be created.
pub(super) fn location(args: &TopologyArgs, client: Option<&Client>) -> Result<ProxyLocation> {
    let name = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::<str>::from);
    let (node, mut zone) = (name(&args.node), name(&args.zone));
    if let (None, Some(node), Some(client)) = (&zone, &node, client) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match runtime.block_on(zone_of(client, node)) {
            Ok(found) => zone = Some(found),
            Err(error) => tracing::warn!(
                %node, %error, "the zone of this node is unknown, so endpoints of no zone are preferred; set --zone"
            ),
        }
    }
    if node.is_some() || zone.is_some() {
        tracing::info!(
            node = node.as_deref(),
            zone = zone.as_deref(),
            "preferring endpoints of this location for Services that ask for it"
        );
    }
    Ok(ProxyLocation { zone, node })
}
