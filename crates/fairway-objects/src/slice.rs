//! An EndpointSlice as it is kept: what endpoints are made of. The object as the API has it takes eight times as much, and
//! there are more endpoints than anything else. Judges no address.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use crate::object::ObjectKey;
use crate::shared::{self, Recent};

thread_local! {
    /// The ports of the slices that were read last.
    static PORTS: RefCell<Recent<[EndpointPort]>> = const { RefCell::new(Recent::new()) };
}

/// What is kept of an EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The Service that it belongs to (`kubernetes.io/service-name`, EndpointSlice API reference).
    pub service: Option<ObjectKey>,
    /// Its ports, as they are written. Most slices have the same as their neighbours, and share them.
    pub ports: Arc<[EndpointPort]>,
    /// The addresses of all its endpoints, in its order.
    pub addresses: Box<[SliceAddress]>,
}

/// An address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceAddress {
    /// The number of its endpoint in the slice.
    pub endpoint: u32,
    /// Whether its endpoint may get requests.
    pub condition: Condition,
    /// What is written, where that is no address.
    pub address: Result<IpAddr, Box<str>>,
    /// The pod, where it is known.
    pub pod: Option<Arc<str>>,
}

/// Whether an endpoint may get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It may.
    Ready,
    /// Terminating, but still serving: used when none is ready.
    LastResort,
    /// It may not.
    Out,
}

impl Slice {
    /// What is kept of the slice `key`.
    #[must_use]
    pub fn of(key: &ObjectKey, slice: &EndpointSlice) -> Self {
        let labels = slice.metadata.labels.as_ref();
        let service = labels.and_then(|labels| labels.get("kubernetes.io/service-name"));
        let service =
            service.map(|name| ObjectKey { namespace: key.namespace.clone(), name: shared::text(name) });
        let endpoints = slice.endpoints.iter().flatten().zip(0..);
        let addresses = endpoints.flat_map(|(endpoint, number)| addresses(endpoint, number)).collect();
        let ports = slice.ports.as_deref().unwrap_or_default();
        let ports = PORTS.with_borrow_mut(|recent| recent.shared(ports.into()));
        Self { service, ports, addresses }
    }
}

fn addresses(endpoint: &Endpoint, number: u32) -> impl Iterator<Item = SliceAddress> {
    let condition = condition(endpoint);
    let pod: Option<Arc<str>> =
        endpoint.target_ref.as_ref().and_then(|target| target.name.as_deref()).map(Arc::from);
    endpoint.addresses.iter().map(move |text| SliceAddress {
        endpoint: number,
        condition,
        address: text.parse().map_err(|_| text.as_str().into()),
        pod: pod.clone(),
    })
}

/// EndpointSlice API, `EndpointConditions`: nil `ready` and nil `serving` count as true.
fn condition(endpoint: &Endpoint) -> Condition {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let serving = conditions.serving.unwrap_or(true);
    let terminating = conditions.terminating.unwrap_or(false);
    if conditions.ready.unwrap_or(true) {
        Condition::Ready
    } else if serving && terminating {
        Condition::LastResort
    } else {
        Condition::Out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_in_few_bytes() {
        assert!(size_of::<SliceAddress>() <= 48, "{}", size_of::<SliceAddress>());
    }

    #[test]
    fn addresses_conditions_and_pods_are_kept_and_what_is_no_address_as_it_is_written() {
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "web-1", "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4",
            "endpoints": [
                { "addresses": ["10.0.0.1", "nonsense"], "targetRef": { "name": "web-abc" } },
                { "addresses": ["10.0.0.2"], "conditions": { "ready": false, "terminating": true } },
                { "addresses": ["10.0.0.3"], "conditions": { "ready": false } },
            ],
        }))
        .expect("an EndpointSlice");
        let Slice { service, addresses, ports } = Slice::of(&ObjectKey::new("shop", "web-1"), &slice);
        assert_eq!(service, Some(ObjectKey::new("shop", "web")));
        assert!(Arc::ptr_eq(&ports, &Slice::of(&ObjectKey::new("shop", "web-2"), &slice).ports));
        let kept = addresses.iter().map(|it| {
            let address = it.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            (it.endpoint, address, it.condition, it.pod.as_deref())
        });
        assert_eq!(
            kept.collect::<Vec<_>>(),
            [
                (0, "10.0.0.1".to_owned(), Condition::Ready, Some("web-abc")),
                (0, "nonsense".to_owned(), Condition::Ready, Some("web-abc")),
                (1, "10.0.0.2".to_owned(), Condition::LastResort, None),
                (2, "10.0.0.3".to_owned(), Condition::Out, None),
            ]
        );
    }
}
