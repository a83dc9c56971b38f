//! Where this process runs, as far as its flags and the cluster say.

use std::sync::Arc;

use anyhow::Result;
use fairway_cluster::source::Client;
use fairway_cluster::zone_of;
use fairway_model::Location;

use crate::args::PlaceArgs;

/// Asks the cluster of `client`, if there is one, for what flags do not say.
///
/// # Errors
/// There is no runtime to ask with.
pub(super) fn location(args: &PlaceArgs, client: Option<&Client>) -> Result<Location> {
    let name = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::<str>::from);
    let (node, mut zone) = (name(&args.node), name(&args.zone));
    if let (None, Some(node), Some(client)) = (&zone, &node, client) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match runtime.block_on(zone_of(client, node)) {
            Ok(found) => zone = Some(found),
            Err(error) => tracing::warn!(
                %node, %error, "the zone of this node is not known: endpoints of no zone are preferred; --zone names it"
            ),
        }
    }
    if node.is_some() || zone.is_some() {
        tracing::info!(
            node = node.as_deref(),
            zone = zone.as_deref(),
            "endpoints near here are preferred where Services ask for it"
        );
    }
    Ok(Location { zone, node })
}
