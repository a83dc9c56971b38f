//! Asks the other replicas which Gateways they serve, while the leader must know: `Programmed` holds for all of them. Owns
//! who is asked and when; what the answers mean is decided by `fairway_gateway::fleet::agreement`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fairway_control::admin::Served;
use fairway_gateway::fleet::agreement::{Agreement, ServedGateways};
use fairway_objects::object::ObjectKey;
use futures_util::future::BoxFuture;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::efforts::Efforts;
use crate::served;

/// Between two questions to the same replica.
const PAUSE: Duration = Duration::from_millis(250);
/// A replica answers within this time.
const PATIENCE: Duration = Duration::from_secs(1);
/// An answer is not larger: a Gateway takes some hundred bytes.
const LARGEST: u64 = 16 << 20;

type Ask = dyn Fn(IpAddr) -> BoxFuture<'static, Option<ServedGateways>> + Send + Sync;

/// How a replica is asked at the address of its pod.
#[derive(Clone)]
pub struct Asker {
    ask: Arc<Ask>,
    /// Where a pod has addresses of both families, the one that is asked.
    is_ipv4: bool,
}

impl Asker {
    /// At the port of this `--probe`, which all replicas have.
    #[must_use]
    pub fn at(probe: SocketAddr) -> Self {
        let port = probe.port();
        let ask = move |ip| -> BoxFuture<'static, Option<ServedGateways>> {
            Box::pin(async move {
                let answer = served::ask(SocketAddr::new(ip, port), "?gateways", LARGEST);
                timeout(PATIENCE, answer).await.ok()?.ok().map(gateways)
            })
        };
        Self { ask: Arc::new(ask), is_ipv4: probe.is_ipv4() }
    }

    #[cfg(test)]
    pub(in crate::status) fn scripted(ask: Arc<Ask>) -> Self {
        Self { ask, is_ipv4: true }
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("is_ipv4", &self.is_ipv4).finish_non_exhaustive()
    }
}

/// The Gateways of a replica. What its workers have not adopted it does not serve.
fn gateways(served: Served) -> ServedGateways {
    let gateways = served.gateways.unwrap_or_default();
    let all = gateways.into_iter().filter(|_| served.adopted);
    all.filter_map(|(name, gateway)| Some((ObjectKey::parse(&name)?, gateway))).collect()
}

/// The other replicas, as far as the leader must know.
pub(super) struct Replicas {
    asker: Option<Asker>,
    own: Arc<str>,
    agreement: Agreement,
    leads: bool,
    asking: JoinSet<(Arc<str>, Option<ServedGateways>)>,
    /// Those that were asked and have not answered.
    asked: BTreeSet<Arc<str>>,
    /// When each was asked last.
    last: BTreeMap<Arc<str>, Instant>,
}

/// What the leader sees of Gateways.
pub(super) struct Sight<'a> {
    /// As it serves them.
    pub(super) served: &'a ServedGateways,
    /// Those that an earlier leader has found programmed.
    pub(super) programmed: &'a dyn Fn(&ObjectKey) -> bool,
    /// Fairway's pods.
    pub(super) pods: &'a [Arc<EndpointSlice>],
}

impl Replicas {
    pub(super) fn new(asker: Option<Asker>, own: Arc<str>) -> Self {
        Self {
            asker,
            own,
            agreement: Agreement::default(),
            leads: false,
            asking: JoinSet::new(),
            asked: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    /// Who does not lead need not know.
    pub(super) fn follow(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.agreement = Agreement::default();
            self.asking.abort_all();
        }
    }

    /// The Gateways that not every ready replica serves as far as is known. The leader asks those in question.
    pub(super) fn behind(&mut self, sight: &Sight<'_>, efforts: &mut Efforts) -> BTreeSet<ObjectKey> {
        let Some(asker) = &self.asker else { return BTreeSet::new() };
        if !std::mem::replace(&mut self.leads, true) {
            for (gateway, served) in sight.served.iter().filter(|(gateway, _)| (sight.programmed)(gateway)) {
                self.agreement.take_over(gateway.clone(), served.clone());
            }
        }
        let addresses = addresses(sight.pods, &self.own, asker.is_ipv4);
        let ready = addresses.keys().cloned().collect();
        let open = self.agreement.open(sight.served, &ready);
        let now = Instant::now();
        self.last.retain(|name, _| addresses.contains_key(name));
        for name in open.replicas {
            if self.asked.contains(&name) {
                continue;
            }
            let again = self.last.get(&name).map(|last| *last + PAUSE).filter(|again| now < *again);
            match (again, addresses.get(&name)) {
                (Some(again), _) => efforts.look_again(again),
                (None, Some(ip)) => {
                    let answer = (asker.ask)(*ip);
                    self.asked.insert(name.clone());
                    self.last.insert(name.clone(), now);
                    self.asking.spawn(async move { (name, answer.await) });
                }
                (None, None) => {}
            }
        }
        open.gateways
    }

    /// Waits for the next answer; for ever where nobody was asked.
    pub(super) async fn answer(&mut self) {
        match self.asking.join_next().await {
            Some(Ok((name, answer))) => {
                self.asked.remove(&name);
                if self.leads {
                    self.agreement.answered(&name, answer);
                }
            }
            // It was given up.
            Some(Err(_)) => {
                if self.asking.is_empty() {
                    self.asked.clear();
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// The ready pods besides the own one, each with one address.
fn addresses(pods: &[Arc<EndpointSlice>], own: &str, is_ipv4: bool) -> BTreeMap<Arc<str>, IpAddr> {
    let mut found = BTreeMap::<Arc<str>, IpAddr>::new();
    for endpoint in pods.iter().flat_map(|slice| slice.endpoints.iter().flatten()) {
        // A condition that is missing is true (EndpointSlice API reference).
        let ready = endpoint.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true);
        let name = endpoint.target_ref.as_ref().and_then(|pod| pod.name.as_deref());
        let ip = endpoint.addresses.first().and_then(|ip| ip.parse::<IpAddr>().ok());
        let (Some(name), Some(ip)) = (name.filter(|name| ready && *name != own), ip) else { continue };
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
    fn an_answer_counts_when_it_is_whole_and_adopted() {
        let page = |adopted: bool| {
            let gateway = json!({ "uid": "u", "generation": 3, "bound": ["0.0.0.0:20000"] });
            let served = json!({
                "digest": "d", "version": 1, "adopted": adopted, "freshness": "current", "ingress": null,
                "gateways": { "shop/edge": gateway },
            });
            format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{served}\n")
        };
        let read = |page: &str| served::read(page.as_bytes()).ok().map(gateways);
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
    fn a_pod_of_both_families_is_asked_at_that_of_the_probe() {
        let slice = |family: &str, ip: &str, ready: Option<bool>| {
            let endpoint = json!({
                "addresses": [ip], "conditions": { "ready": ready },
                "targetRef": { "kind": "Pod", "name": "two" },
            });
            let slice = json!({ "addressType": family, "endpoints": [endpoint], "metadata": {} });
            Arc::new(serde_json::from_value::<EndpointSlice>(slice).unwrap())
        };
        let both = [slice("IPv6", "fd00::2", None), slice("IPv4", "10.0.0.2", Some(true))];
        assert_eq!(addresses(&both, "one", true)["two"].to_string(), "10.0.0.2");
        assert_eq!(addresses(&both, "one", false)["two"].to_string(), "fd00::2");
        assert!(addresses(&both, "two", true).is_empty(), "nobody asks itself");
        assert!(addresses(&[slice("IPv4", "10.0.0.2", Some(false))], "one", true).is_empty());
    }
}
