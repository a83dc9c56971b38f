//! Asks the other replicas which Gateways they serve, while the leader needs to know: `Programmed` holds for all of them. Decides
//! whom to ask and when; `fairway_gateway::fleet::agreement` evaluates the responses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::admin::ServedConfig;
use fairway_gateway::fleet::agreement::{Agreement, ServedGateways};
use fairway_objects::object::ObjectKey;
use futures_util::future::BoxFuture;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::retries::WriteRetries;
use crate::served;

/// The interval between requests to one replica.
const QUERY_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a request.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// The limit of a response: a Gateway takes a few hundred bytes.
const MAX_RESPONSE_BYTES: u64 = 16 << 20;

type QueryReplica = dyn Fn(IpAddr) -> BoxFuture<'static, Option<ServedGateways>> + Send + Sync;

/// Queries a replica at the address of its pod.
#[derive(Clone)]
pub struct ReplicaClient {
    query: Arc<QueryReplica>,
    /// The address family to use for dual-stack pods.
    is_ipv4: bool,
}

impl ReplicaClient {
    /// Queries replicas on the port of this `--probe`, which all replicas share.
    #[must_use]
    pub fn new(probe: SocketAddr) -> Self {
        let port = probe.port();
        let ask = move |ip| -> BoxFuture<'static, Option<ServedGateways>> {
            Box::pin(async move {
                let response =
                    served::fetch_served(SocketAddr::new(ip, port), "?gateways", MAX_RESPONSE_BYTES);
                timeout(QUERY_TIMEOUT, response).await.ok()?.ok().map(adopted_gateways)
            })
        };
        Self { query: Arc::new(ask), is_ipv4: probe.is_ipv4() }
    }

    #[cfg(test)]
    pub(in crate::status) fn from_query(ask: Arc<QueryReplica>) -> Self {
        Self { query: ask, is_ipv4: true }
    }
}

impl fmt::Debug for ReplicaClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("is_ipv4", &self.is_ipv4).finish_non_exhaustive()
    }
}

/// The Gateways of a replica. A configuration that its workers have not adopted is not served.
fn adopted_gateways(served: ServedConfig) -> ServedGateways {
    let gateways = served.gateways.unwrap_or_default();
    let all = gateways.into_iter().filter(|_| served.adopted);
    all.filter_map(|(name, gateway)| Some((ObjectKey::parse(&name)?, gateway))).collect()
}

/// The other replicas, as far as the leader needs to know.
pub(super) struct PeerReplicas {
    asker: Option<ReplicaClient>,
    own_name: Arc<str>,
    agreement: Agreement,
    leads: bool,
    asking: JoinSet<(Arc<str>, Option<ServedGateways>)>,
    /// Replicas with a pending request.
    queried: BTreeSet<Arc<str>>,
    /// When each was queried last.
    last: BTreeMap<Arc<str>, Instant>,
}

/// The Gateways as the leader sees them.
pub(super) struct LeaderView<'a> {
    /// The Gateways that it serves.
    pub(super) served: &'a ServedGateways,
    /// Gateways that an earlier leader found programmed.
    pub(super) programmed: &'a dyn Fn(&ObjectKey) -> bool,
    /// The EndpointSlices of Fairway's pods.
    pub(super) pods: &'a [Arc<EndpointSlice>],
}

impl PeerReplicas {
    pub(super) fn new(asker: Option<ReplicaClient>, own_pod: Arc<str>) -> Self {
        Self {
            asker,
            own_name: own_pod,
            agreement: Agreement::default(),
            leads: false,
            asking: JoinSet::new(),
            queried: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    /// Only the leader needs to know.
    pub(super) fn stop_leading(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.agreement = Agreement::default();
            self.asking.abort_all();
        }
    }

    /// The Gateways that some ready replica is not known to serve. Queries the replicas in question.
    pub(super) fn gateways_behind(
        &mut self,
        sight: &LeaderView<'_>,
        efforts: &mut WriteRetries,
    ) -> BTreeSet<ObjectKey> {
        let Some(asker) = &self.asker else { return BTreeSet::new() };
        if !std::mem::replace(&mut self.leads, true) {
            for (gateway, served) in sight.served.iter().filter(|(gateway, _)| (sight.programmed)(gateway)) {
                self.agreement.restore(gateway.clone(), served.clone());
            }
        }
        let addresses = replica_addresses(sight.pods, &self.own_name, asker.is_ipv4);
        let ready = addresses.keys().cloned().collect();
        let open = self.agreement.open(sight.served, &ready);
        let now = Instant::now();
        self.last.retain(|name, _| addresses.contains_key(name));
        for name in open.replicas {
            if self.queried.contains(&name) {
                continue;
            }
            let again = self.last.get(&name).map(|last| *last + QUERY_INTERVAL).filter(|again| now < *again);
            match (again, addresses.get(&name)) {
                (Some(again), _) => efforts.schedule_look(again),
                (None, Some(ip)) => {
                    let response = (asker.query)(*ip);
                    self.queried.insert(name.clone());
                    self.last.insert(name.clone(), now);
                    self.asking.spawn(async move { (name, response.await) });
                }
                (None, None) => {}
            }
        }
        open.gateways
    }

    /// Waits for the next response; forever if there is no pending request.
    pub(super) async fn next_response(&mut self) {
        match self.asking.join_next().await {
            Some(Ok((name, answer))) => {
                self.queried.remove(&name);
                if self.leads {
                    self.agreement.answered(&name, answer);
                }
            }
            // The request was cancelled.
            Some(Err(_)) => {
                if self.asking.is_empty() {
                    self.queried.clear();
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// The other ready pods, each with one address.
fn replica_addresses(
    pods: &[Arc<EndpointSlice>],
    own_pod: &str,
    is_ipv4: bool,
) -> BTreeMap<Arc<str>, IpAddr> {
    let mut found = BTreeMap::<Arc<str>, IpAddr>::new();
    for endpoint in pods.iter().flat_map(|slice| slice.endpoints.iter().flatten()) {
        // A missing condition counts as true (EndpointSlice API reference).
        let ready = endpoint.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true);
        let name = endpoint.target_ref.as_ref().and_then(|pod| pod.name.as_deref());
        let ip = endpoint.addresses.first().and_then(|ip| ip.parse::<IpAddr>().ok());
        let (Some(name), Some(ip)) = (name.filter(|name| ready && *name != own_pod), ip) else { continue };
        let known = found.entry(name.into()).or_insert(ip);
        if ip.is_ipv4() == is_ipv4 {
            *known = ip;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_counts_when_it_is_complete_and_adopted() {
        let page = |adopted: bool| {
            let gateway = json!({ "uid": "u", "generation": 3, "bound": ["0.0.0.0:20000"] });
            let served = json!({
                "digest": "d", "version": 1, "adopted": adopted, "freshness": "current", "ingress": null,
                "gateways": { "shop/edge": gateway },
            });
            format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{served}\n")
        };
        let read = |page: &str| served::parse_response(page.as_bytes()).ok().map(adopted_gateways);
        let found = read(&page(true)).unwrap();
        assert_eq!(found[&ObjectKey::new("shop", "edge")].generation, 3);
        assert_eq!(read(&page(false)), Some(ServedGateways::new()));
        for wrong in
            ["HTTP/1.0 503 x\r\n\r\nloading\n", "HTTP/1.0 200 OK\r\n\r\n{\"digest\":", "HTTP/1.0 200"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_dual_stack_pod_is_queried_at_the_family_of_the_probe() {
        let slice = |family: &str, ip: &str, ready: Option<bool>| {
            let endpoint = json!({
                "addresses": [ip], "conditions": { "ready": ready },
                "targetRef": { "kind": "Pod", "name": "two" },
            });
            let slice = json!({ "addressType": family, "endpoints": [endpoint], "metadata": {} });
            Arc::new(serde_json::from_value::<EndpointSlice>(slice).unwrap())
        };
        let both = [slice("IPv6", "fd00::2", None), slice("IPv4", "10.0.0.2", Some(true))];
        assert_eq!(replica_addresses(&both, "one", true)["two"].to_string(), "10.0.0.2");
        assert_eq!(replica_addresses(&both, "one", false)["two"].to_string(), "fd00::2");
        assert!(replica_addresses(&both, "two", true).is_empty(), "nobody asks itself");
        assert!(replica_addresses(&[slice("IPv4", "10.0.0.2", Some(false))], "one", true).is_empty());
    }
}
