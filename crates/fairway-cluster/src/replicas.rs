//! The other replicas of this fleet and what each serves, for the dashboard. Queries only while someone looks, and caches the
//! responses briefly.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::admin::ServedConfig;
use fairway_objects::object::ObjectKey;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::served;
use crate::status::OwnFleet;

/// Timeout for listing the pods, and then for all replicas together: a page is waiting.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a response is cached.
const CACHE_TTL: Duration = Duration::from_secs(5);
/// How many replicas are queried.
const MAX_QUERIED_REPLICAS: usize = 50;
/// A response without Gateways has a few hundred bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// Queries the other replicas.
pub struct Replicas {
    own_pod: ObjectKey,
    probe: Option<SocketAddr>,
    query_timeout: Duration,
    state: Mutex<State>,
}

struct State {
    fleet: OwnFleet,
    last: Option<(Instant, Result<OtherReplicas, String>)>,
}

/// What is known of the other replicas.
#[derive(Clone, Debug, Default)]
pub struct OtherReplicas {
    /// The queried pods, and what each serves or why that is unknown.
    pub replies: Vec<(String, Result<ServedConfig, String>)>,
    /// How many more there are.
    pub unasked: usize,
}

impl Replicas {
    /// The other replicas of the fleet of the pod `own`. All answer on the port of `probe`; without one they cannot be queried.
    #[must_use]
    pub fn new(client: &Client, own_pod: ObjectKey, probe: Option<SocketAddr>) -> Self {
        let lost = "the dashboard does not show the other replicas";
        let fleet = OwnFleet::new(client, own_pod.clone(), Arc::default()).with_consequence(lost);
        Self { own_pod, probe, query_timeout: QUERY_TIMEOUT, state: Mutex::new(State { fleet, last: None }) }
    }

    /// The name of this pod.
    #[must_use]
    pub fn own_name(&self) -> &str {
        &self.own_pod.name
    }

    /// What the other replicas serve, at most [`CACHE_TTL`] old.
    ///
    /// # Errors
    /// The reason the replicas are unknown.
    pub async fn others(&self) -> Result<OtherReplicas, String> {
        let mut state = self.state.lock().await;
        if let Some((at, answer)) = &state.last
            && at.elapsed() < CACHE_TTL
        {
            return answer.clone();
        }
        let response = self.query_others(&mut state.fleet).await;
        state.last = Some((Instant::now(), response.clone()));
        response
    }

    async fn query_others(&self, fleet: &mut OwnFleet) -> Result<OtherReplicas, String> {
        let pods = timeout(self.query_timeout, fleet.list_pods()).await;
        let pods = pods.map_err(|_| "the API server did not list the pods in time".to_owned())?;
        let pods = pods.map_err(|error| format!("the pods of the fleet cannot be listed: {error}"))?;
        let mut others: Vec<_> = pods.iter().filter(|pod| pod.name_any() != *self.own_pod.name).collect();
        let unasked = others.len().saturating_sub(MAX_QUERIED_REPLICAS);
        others.truncate(MAX_QUERIED_REPLICAS);
        let queries = others.into_iter().map(async |pod| (pod.name_any(), self.served(pod).await));
        Ok(OtherReplicas { replies: join_all(queries).await, unasked })
    }

    async fn served(&self, pod: &Pod) -> Result<ServedConfig, String> {
        let probe = self.probe.ok_or_else(|| "it cannot be asked without --probe".to_owned())?;
        let ip = pod_address(pod, probe.is_ipv4()).ok_or_else(|| "it has no address yet".to_owned())?;
        let response = served::fetch_served(SocketAddr::new(ip, probe.port()), "", MAX_RESPONSE_BYTES);
        let response = timeout(self.query_timeout, response).await;
        let response =
            response.map_err(|_| format!("no answer within {} s", self.query_timeout.as_secs_f64()))?;
        response.map_err(|error| error.to_string())
    }
}

/// The address of a pod, of the probe's address family if the pod has one.
pub(crate) fn pod_address(pod: &Pod, is_ipv4: bool) -> Option<IpAddr> {
    let status = pod.status.as_ref()?;
    let all = status.pod_ips.iter().flatten().map(|it| it.ip.as_str()).chain(status.pod_ip.as_deref());
    let all: Vec<IpAddr> = all.filter_map(|ip| ip.parse().ok()).collect();
    let same_family = all.iter().find(|ip| ip.is_ipv4() == is_ipv4);
    same_family.or(all.first()).copied()
}

#[cfg(test)]
mod tests {
    use fairway_testkit::api_server::ApiServer;
    use fairway_testkit::wait;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing;

    fn pod(name: &str, ip: &str) -> serde_json::Value {
        json!({
            "metadata": { "name": name, "namespace": "edge", "labels": { "app": "fairway" } },
            "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] },
        })
    }

    /// A replica that gives this response to every request; returns its address.
    async fn replica(response: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, answer) = (listener.local_addr().unwrap(), response.to_owned());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = [0; 1_024];
                let read = stream.read(&mut question).await.unwrap();
                assert!(question[..read].starts_with(b"GET /served HTTP/1.0\r\n"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    fn reply_with(digest: &str) -> String {
        let served = json!({
            "digest": digest, "version": 4, "adopted": true, "freshness": "current", "ingress": null,
        });
        format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{served}\n")
    }

    fn replicas(server: &ApiServer, probe: Option<SocketAddr>) -> Replicas {
        let client = testing::client(server, Arc::default());
        let replicas = Replicas::new(&client, ObjectKey::new("edge", "fairway-0"), probe);
        Replicas { query_timeout: wait::WAIT_TIMEOUT, ..replicas }
    }

    /// Each replica's digest, or the reason it is unknown.
    fn digests_or_errors<'o>(others: &'o OtherReplicas) -> Vec<(&'o str, Result<&'o str, &'o str>)> {
        let digest_or_error = |(name, served): &'o (String, Result<ServedConfig, String>)| {
            (name.as_str(), served.as_ref().map(|it| it.digest.as_str()).map_err(String::as_str))
        };
        others.replies.iter().map(digest_or_error).collect()
    }

    #[tokio::test]
    async fn every_other_pod_of_the_fleet_is_queried_on_its_probe_port() {
        let server = ApiServer::new();
        let probe = replica(&reply_with("0123")).await;
        for (name, ip) in [("fairway-0", "127.0.0.9"), ("fairway-1", "127.0.0.1"), ("fairway-2", "127.0.0.2")]
        {
            server.put("pods", pod(name, ip));
        }
        let mut other = pod("elsewhere", "127.0.0.1");
        other["metadata"]["labels"]["app"] = "other".into();
        server.put("pods", other);
        let replicas = replicas(&server, Some(probe));
        let others = replicas.others().await.unwrap();
        let replies = digests_or_errors(&others);
        assert_eq!(replies[0], ("fairway-1", Ok("0123")));
        assert!(
            matches!(replies[1], ("fairway-2", Err(reason)) if reason.contains("refused")),
            "{replies:?}"
        );
        assert_eq!((replies.len(), others.unasked), (2, 0));
        let requests = server.requests("pods");
        replicas.others().await.unwrap();
        assert_eq!(server.requests("pods"), requests, "an answer is good for a while");
    }

    #[tokio::test]
    async fn a_replica_that_cannot_be_queried_has_a_reason() {
        let server = ApiServer::new();
        for number in 0..60 {
            server.put("pods", pod(&format!("fairway-{number}"), "127.0.0.1"));
        }
        let others = replicas(&server, None).others().await.unwrap();
        assert_eq!((others.replies.len(), others.unasked), (50, 9));
        assert!(
            digests_or_errors(&others)
                .iter()
                .all(|(_, said)| *said == Err("it cannot be asked without --probe"))
        );
        let loading = replica("HTTP/1.0 503 Service Unavailable\r\n\r\nloading\n").await;
        let others = replicas(&server, Some(loading)).others().await.unwrap();
        assert_eq!(digests_or_errors(&others)[0].1, Err("it has no configuration yet"));
    }

    #[test]
    fn a_dual_stack_pod_is_queried_at_the_family_of_the_probe() {
        let pod = json!({
            "metadata": {}, "status": { "podIP": "10.0.0.2", "podIPs": [{ "ip": "10.0.0.2" }, { "ip": "fd00::2" }] },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(pod_address(&pod, true).unwrap().to_string(), "10.0.0.2");
        assert_eq!(pod_address(&pod, false).unwrap().to_string(), "fd00::2");
        assert_eq!(pod_address(&Pod::default(), true), None);
    }
}
