//! The addresses of the nodes on which the fleet runs, for installations without a load balancer. Selects the addresses and polls
//! them; does not write them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Error};
use tokio::time::sleep;

use super::fleet::OwnFleet;
use super::permission::{RefusedPermissions, RequiredPermission};

/// The polling interval. Pods of the fleet may come and go in between.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Which addresses of a node are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAddresses {
    /// External addresses, or internal ones of a node that has no external address.
    External,
    /// Internal addresses.
    Internal,
}

/// Polls the nodes and publishes their addresses, if there are any.
pub(crate) async fn poll_node_addresses(
    client: &Client,
    pod: &ObjectKey,
    which: NodeAddresses,
    refusals: &Arc<RefusedPermissions>,
    tell: impl Fn(BTreeSet<Arc<str>>),
) {
    let nodes = Api::<Node>::all(client.clone());
    let mut fleet = OwnFleet::new(client, pod.clone(), Arc::clone(refusals));
    loop {
        match fetch_addresses(&nodes, &mut fleet, which, refusals).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => tell(found),
            Err(error) => tracing::debug!(%error, "the addresses of nodes are unknown; retrying"),
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn fetch_addresses(
    nodes: &Api<Node>,
    fleet: &mut OwnFleet,
    which: NodeAddresses,
    refusals: &RefusedPermissions,
) -> Result<BTreeSet<Arc<str>>, Error> {
    let mut found = BTreeSet::new();
    for name in fleet.ready_nodes().await? {
        let lost = "the addresses of nodes are not written into the status of Ingresses";
        let permit = RequiredPermission { verb: "get", resource: "nodes".into(), namespace: "".into(), lost };
        let node = refusals.check(permit, nodes.get_opt(&name).await)?;
        found.extend(node.iter().flat_map(|node| node_addresses(node, which)));
    }
    Ok(found)
}

/// Selected as in ingress-nginx (`GetNodeIPs`).
fn node_addresses(node: &Node, kind: NodeAddresses) -> Vec<Arc<str>> {
    let mut by_type = BTreeMap::<&str, Vec<Arc<str>>>::new();
    for address in node.status.iter().flat_map(|status| status.addresses.iter().flatten()) {
        if !address.address.is_empty() {
            by_type.entry(&address.type_).or_default().push(address.address.as_str().into());
        }
    }
    let external = by_type.remove("ExternalIP").filter(|_| kind == NodeAddresses::External);
    external.or_else(|| by_type.remove("InternalIP")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn published(addresses: &[(&str, &str)], kind: NodeAddresses) -> Vec<String> {
        let entries: Vec<_> =
            addresses.iter().map(|(type_, address)| json!({"type": type_, "address": address})).collect();
        let node = serde_json::from_value(json!({"status": {"addresses": entries}})).unwrap();
        node_addresses(&node, kind).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn external_addresses_are_preferred_unless_internal_ones_are_configured() {
        let both = [
            ("Hostname", "node"),
            ("InternalIP", "10.0.0.1"),
            ("ExternalIP", "192.0.2.1"),
            ("ExternalIP", "2001:db8::1"),
        ];
        assert_eq!(published(&both, NodeAddresses::External), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(published(&both, NodeAddresses::Internal), ["10.0.0.1"]);
        let internal = [("InternalIP", "10.0.0.1"), ("ExternalIP", "")];
        assert_eq!(published(&internal, NodeAddresses::External), ["10.0.0.1"]);
        assert_eq!(published(&[("Hostname", "node")], NodeAddresses::External), [""; 0]);
    }
}
