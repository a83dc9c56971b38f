//! The addresses at which clients reach this fleet: from a Service, from nodes or from flags. Reads and follows them; does not
//! write them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use fairway_control::input::Inlet;
use fairway_objects::object::ObjectKey;
use fairway_objects::placement::{Address, AddressKind};
use fairway_objects::resources::Change;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::Client;
use tokio::sync::watch;

use super::nodes::{self, NodeAddresses};
use super::permission::{RefusedPermissions, RequiredPermission};
use super::updates::ViewUpdates;
use crate::source::object_store::{FullObject, ObjectStore, StoreEvent};

/// Where the addresses for `status.loadBalancer` come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PublishAddresses {
    /// Not configured: status is not written.
    #[default]
    Unset,
    /// A Service: its load balancer addresses and `externalIPs`, else its cluster addresses.
    Service(ObjectKey),
    /// IP addresses and host names.
    Addresses(Vec<String>),
    /// The nodes on which pods of the fleet are ready.
    Nodes(NodeAddresses),
}

/// Addresses in status order: IP addresses and host names. An empty one means that there are none.
pub(crate) type Addresses = Arc<BTreeSet<Arc<str>>>;

/// Follows the addresses and publishes them; `None` until they are known. Ends only if they cannot change.
pub(crate) async fn follow_addresses(
    client: Client,
    pod: ObjectKey,
    publish: PublishAddresses,
    refusals: Arc<RefusedPermissions>,
    sender: watch::Sender<Option<Addresses>>,
) {
    match publish {
        PublishAddresses::Unset => {}
        PublishAddresses::Addresses(texts) => {
            let texts = texts.iter().map(|text| text.as_str().into());
            sender.send_replace(Some(Arc::new(texts.collect())));
        }
        PublishAddresses::Service(key) => follow_service(&client, &key, &refusals, &sender).await,
        PublishAddresses::Nodes(which) => {
            nodes::poll_node_addresses(&client, &pod, which, &refusals, |found| {
                publish_if_changed("nodes", found, &sender);
            })
            .await;
        }
    }
}

/// Sends the addresses to the pipeline, for Gateways that share those of Ingresses.
pub(crate) async fn send_to_pipeline(
    mut addresses: watch::Receiver<Option<Addresses>>,
    mut updates: ViewUpdates,
    inlet: Inlet,
) {
    // The pipeline accepts nothing before it has objects.
    while updates.view().is_none() {
        updates.changed().await;
    }
    while let Ok(known) = addresses.wait_for(Option::is_some).await.map(|known| known.clone()) {
        let known = known.iter().flat_map(|known| known.iter());
        inlet.send_change(Change::Published(known.filter_map(parse_address).collect()));
        if addresses.changed().await.is_err() {
            return;
        }
    }
}

/// An empty text means no address.
fn parse_address(text: &Arc<str>) -> Option<Address> {
    let kind = if text.parse::<IpAddr>().is_ok() { AddressKind::Ip } else { AddressKind::Hostname };
    (!text.is_empty()).then(|| Address { kind, value: text.clone() })
}

async fn follow_service(
    client: &Client,
    key: &ObjectKey,
    refusals: &RefusedPermissions,
    sender: &watch::Sender<Option<Addresses>>,
) {
    let permit = RequiredPermission {
        verb: "list and watch",
        resource: "services".into(),
        namespace: key.namespace.clone(),
        lost: "changes of the addresses of --publish-service are not detected",
    };
    let followed = ObjectStore::default();
    let tell = |news| match news {
        StoreEvent::Listed | StoreEvent::Changed => {
            publish_service(key, followed.snapshot().get(key).map(|service| &**service), sender);
            refusals.record_grant(&permit);
        }
        StoreEvent::Failed(fault) => {
            refusals.check_watch(&permit, &fault);
            tracing::debug!(service = %key, %fault, "the Service of --publish-service cannot be watched; retrying");
        }
    };
    followed.clone().run(client.clone(), Service::one(key), tell).await;
}

fn publish_service(key: &ObjectKey, service: Option<&Service>, sender: &watch::Sender<Option<Addresses>>) {
    let Some(service) = service else {
        tracing::warn!(
            "Service {key} of --publish-service does not exist; the status of Ingresses stays as it is until it does"
        );
        return;
    };
    publish_if_changed(&format!("Service {key}"), service_addresses(service), sender);
}

fn publish_if_changed(
    source: &str,
    addresses: BTreeSet<Arc<str>>,
    sender: &watch::Sender<Option<Addresses>>,
) {
    sender.send_if_modified(|before| {
        let differs = before.as_deref() != Some(&addresses);
        if differs {
            tracing::info!(of = source, ?addresses, "addresses for the status of Ingresses");
            *before = Some(Arc::new(addresses));
        }
        differs
    });
}

/// The addresses of a Service as ingress-nginx publishes them (`statusAddressFromService`), of both IP families.
pub(crate) fn service_addresses(service: &Service) -> BTreeSet<Arc<str>> {
    let none = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&none);
    let external = spec.external_ips.iter().flatten();
    let found: Vec<&String> = match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ExternalName" => spec.external_name.iter().collect(),
        "LoadBalancer" => balancer_addresses(service).chain(external).collect(),
        "NodePort" if spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty()) => external.collect(),
        _ => cluster_addresses(spec),
    };
    found.into_iter().map(|text| text.as_str().into()).collect()
}

fn balancer_addresses(service: &Service) -> impl Iterator<Item = &String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    // An entry with both is published by its hostname (as in ingress-nginx): the address may change.
    entries.filter_map(|entry| entry.hostname.as_ref().filter(|name| !name.is_empty()).or(entry.ip.as_ref()))
}

fn cluster_addresses(spec: &ServiceSpec) -> Vec<&String> {
    let several = spec.cluster_ips.as_ref().filter(|ips| !ips.is_empty());
    let all = several.map_or_else(|| spec.cluster_ip.iter().collect(), |ips| ips.iter().collect::<Vec<_>>());
    // A headless Service has the address "None" (Service API reference).
    all.into_iter().filter(|ip| !ip.is_empty() && *ip != "None").collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fairway_control::engine::Engine;
    use fairway_control::input::pipe;
    use fairway_control::pipeline::Viewer;
    use fairway_objects::options::Options;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_pipeline_receives_address_changes_once_it_has_objects() {
        let ((inlet, outlet), viewer) = (pipe(), Viewer::blank());
        let publish = |texts: &[&str]| -> Option<Addresses> {
            Some(Arc::new(texts.iter().map(|text| (*text).into()).collect()))
        };
        let addresses = watch::Sender::new(None);
        let updates = ViewUpdates::new(viewer.clone(), Duration::from_millis(20));
        tokio::spawn(send_to_pipeline(addresses.subscribe(), updates, inlet));
        let next_change = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let batch = outlet.next(Duration::ZERO)?;
            let Some(Change::Published(published)) = batch.changes.into_iter().next() else { return None };
            let text = |it: &Address| format!("{} {}", it.kind.name(), it.value);
            Some(published.iter().map(text).collect::<Vec<_>>())
        };
        addresses.send_replace(publish(&["192.0.2.7", "lb.example"]));
        assert_eq!(next_change().await, None, "there are no objects");
        let mut engine = Engine::new(Options::default());
        engine.update(Vec::new(), 0);
        viewer.set_outcome(engine.current().unwrap().clone());
        let both = ["IPAddress 192.0.2.7", "Hostname lb.example"].map(str::to_owned);
        assert_eq!(next_change().await.as_deref(), Some(&both[..]));
        addresses.send_replace(publish(&[""]));
        assert_eq!(next_change().await, Some(Vec::new()));
    }

    fn addresses_of(service: serde_json::Value) -> Vec<String> {
        let service: Service = serde_json::from_value(service).unwrap();
        service_addresses(&service).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_load_balancer_contributes_its_names_or_addresses_and_sorted_external_addresses() {
        let found = addresses_of(serde_json::json!({
            "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalIPs": ["9.9.9.9"]},
            "status": {"loadBalancer": {"ingress": [
                {"ip": "192.0.2.7"}, {"hostname": "lb.example", "ip": "192.0.2.8"}, {"ip": "2001:db8::1"}
            ]}}
        }));
        assert_eq!(found, ["192.0.2.7", "2001:db8::1", "9.9.9.9", "lb.example"]);
    }

    #[test]
    fn a_load_balancer_without_an_address_yet_gives_none() {
        assert!(
            addresses_of(serde_json::json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}}))
                .is_empty()
        );
    }

    #[test]
    fn other_service_types_publish_the_same_addresses_as_in_ingress_nginx() {
        for (spec, expected) in [
            (serde_json::json!({"type": "NodePort", "clusterIP": "10.0.0.1"}), vec!["10.0.0.1"]),
            (
                serde_json::json!({"type": "NodePort", "clusterIP": "10.0.0.1", "externalIPs": ["9.9.9.9"]}),
                vec!["9.9.9.9"],
            ),
            (
                serde_json::json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}),
                vec!["10.0.0.1", "fd00::1"],
            ),
            (serde_json::json!({"clusterIP": "None"}), vec![]),
            (serde_json::json!({"type": "ExternalName", "externalName": "a.example"}), vec!["a.example"]),
        ] {
            assert_eq!(addresses_of(serde_json::json!({"spec": spec})), expected, "{spec}");
        }
    }
}
