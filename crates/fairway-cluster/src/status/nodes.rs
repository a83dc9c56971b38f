//! The addresses of the nodes on which the fleet runs, for installations without a load balancer. Owns which address of a node
//! counts, and when they are looked at; never writes them anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::ObjectKey;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Error};
use tokio::time::sleep;

use super::fleet::Fleet;
use super::permission::{Permit, Refusals};

/// How long the addresses of nodes are taken for what they were. Pods of the fleet may come and go in between.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// Which addresses of a node are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAddresses {
    /// The external ones, or the internal ones of a node that has none.
    External,
    /// The internal ones.
    Internal,
}

/// Looks at the nodes again and again, and tells their addresses, where there are some.
pub(crate) async fn follow(
    client: &Client,
    pod: &ObjectKey,
    which: NodeAddresses,
    refusals: &Arc<Refusals>,
    tell: impl Fn(BTreeSet<Arc<str>>),
) {
    let nodes = Api::<Node>::all(client.clone());
    let mut fleet = Fleet::new(client, pod.clone(), Arc::clone(refusals));
    loop {
        match look(&nodes, &mut fleet, which, refusals).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => tell(found),
            Err(error) => tracing::debug!(%error, "the addresses of nodes are not known; tried again"),
        }
        sleep(LOOK_INTERVAL).await;
    }
}

async fn look(
    nodes: &Api<Node>,
    fleet: &mut Fleet,
    which: NodeAddresses,
    refusals: &Refusals,
) -> Result<BTreeSet<Arc<str>>, Error> {
    let mut found = BTreeSet::new();
    for name in fleet.nodes().await? {
        let lost = "the addresses of nodes are not written into the status of Ingresses";
        let permit = Permit { verb: "get", resource: "nodes".into(), namespace: "".into(), lost };
        let node = refusals.judge(permit, nodes.get_opt(&name).await)?;
        found.extend(node.iter().flat_map(|node| addresses(node, which)));
    }
    Ok(found)
}

/// As ingress-nginx chooses them (`GetNodeIPs`).
fn addresses(node: &Node, which: NodeAddresses) -> Vec<Arc<str>> {
    let mut by_type = BTreeMap::<&str, Vec<Arc<str>>>::new();
    for address in node.status.iter().flat_map(|status| status.addresses.iter().flatten()) {
        if !address.address.is_empty() {
            by_type.entry(&address.type_).or_default().push(address.address.as_str().into());
        }
    }
    let external = by_type.remove("ExternalIP").filter(|_| which == NodeAddresses::External);
    external.or_else(|| by_type.remove("InternalIP")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(addresses: &[(&str, &str)], which: NodeAddresses) -> Vec<String> {
        let entries: Vec<_> =
            addresses.iter().map(|(type_, address)| json!({"type": type_, "address": address})).collect();
        let node = serde_json::from_value(json!({"status": {"addresses": entries}})).unwrap();
        super::addresses(&node, which).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn external_addresses_count_and_internal_ones_where_there_are_no_others_or_they_are_asked_for() {
        let both = [
            ("Hostname", "node"),
            ("InternalIP", "10.0.0.1"),
            ("ExternalIP", "192.0.2.1"),
            ("ExternalIP", "2001:db8::1"),
        ];
        assert_eq!(of(&both, NodeAddresses::External), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(of(&both, NodeAddresses::Internal), ["10.0.0.1"]);
        let internal = [("InternalIP", "10.0.0.1"), ("ExternalIP", "")];
        assert_eq!(of(&internal, NodeAddresses::External), ["10.0.0.1"]);
        assert_eq!(of(&[("Hostname", "node")], NodeAddresses::External), [""; 0]);
    }
}
