//! The zone of a node, as the cluster has it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::time::timeout;

/// The label of a node with the name of its zone (Kubernetes, "Well-Known Labels").
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// How long the API may take: whoever asks waits for it before it serves.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the zone of a node is not known.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The API has refused to say.
    #[error("the API does not say: {0}")]
    Refused(#[from] kube::Error),
    /// The API has not answered in time.
    #[error("the API has not answered within {} s", PATIENCE.as_secs())]
    Silent,
    /// The node has no such label.
    #[error("it has no label {ZONE_LABEL}")]
    Unlabelled,
}

/// The zone of this node.
///
/// # Errors
/// It is not known.
pub async fn zone_of(client: &Client, node: &str) -> Result<Arc<str>, ZoneError> {
    let nodes = Api::<Node>::all(client.clone());
    let found = timeout(PATIENCE, nodes.get_metadata(node)).await.map_err(|_| ZoneError::Silent)??;
    let labels = found.metadata.labels.unwrap_or_default();
    let zone = labels.get(ZONE_LABEL).filter(|zone| !zone.is_empty());
    zone.map(|zone| zone.as_str().into()).ok_or(ZoneError::Unlabelled)
}

#[cfg(test)]
mod tests {
    use fairway_testkit::api_server::{ApiServer, Network};
    use serde_json::json;

    use super::*;
    use crate::testing::client;

    #[tokio::test(start_paused = true)]
    async fn the_zone_is_that_of_the_label_and_nobody_waits_long_for_it() {
        let server = ApiServer::new();
        let labels = |labels| json!({ "metadata": { "name": "n", "labels": labels } });
        server.put_at("/api/v1/nodes/labelled", labels(json!({ ZONE_LABEL: "a" })));
        server.put_at("/api/v1/nodes/bare", labels(json!({})));
        let client = client(&server, Arc::default());
        assert_eq!(zone_of(&client, "labelled").await.unwrap(), "a".into());
        assert!(matches!(zone_of(&client, "bare").await, Err(ZoneError::Unlabelled)));
        assert!(matches!(zone_of(&client, "gone").await, Err(ZoneError::Refused(_))));
        server.set_network(Network::Silent);
        assert!(matches!(zone_of(&client, "labelled").await, Err(ZoneError::Silent)));
    }
}
