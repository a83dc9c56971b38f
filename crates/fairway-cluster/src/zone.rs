//! The zone of a node, from its label.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::time::timeout;

/// The node label with the zone name (Kubernetes, "Well-Known Labels").
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// How long the API may take: serving waits for it.
const API_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the zone of a node is unknown.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The API refused the request.
    #[error("the API server refused the request: {0}")]
    Refused(#[from] kube::Error),
    /// The API did not answer in time.
    #[error("the API has not answered within {} s", API_TIMEOUT.as_secs())]
    TimedOut,
    /// The node has no such label.
    #[error("it has no label {ZONE_LABEL}")]
    Unlabelled,
}

/// The zone of a node.
///
/// # Errors
/// The zone is unknown.
pub async fn zone_of(client: &Client, node: &str) -> Result<Arc<str>, ZoneError> {
    let nodes = Api::<Node>::all(client.clone());
    let found = timeout(API_TIMEOUT, nodes.get_metadata(node)).await.map_err(|_| ZoneError::TimedOut)??;
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
    async fn the_zone_is_read_from_the_label_within_a_timeout() {
        let server = ApiServer::new();
        let labels = |labels| json!({ "metadata": { "name": "n", "labels": labels } });
        server.put_at("/api/v1/nodes/labelled", labels(json!({ ZONE_LABEL: "a" })));
        server.put_at("/api/v1/nodes/bare", labels(json!({})));
        let client = client(&server, Arc::default());
        assert_eq!(zone_of(&client, "labelled").await.unwrap(), "a".into());
        assert!(matches!(zone_of(&client, "bare").await, Err(ZoneError::Unlabelled)));
        assert!(matches!(zone_of(&client, "gone").await, Err(ZoneError::Refused(_))));
        server.set_network(Network::Silent);
        assert!(matches!(zone_of(&client, "labelled").await, Err(ZoneError::TimedOut)));
    }
}
