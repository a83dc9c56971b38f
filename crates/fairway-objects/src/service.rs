//! Services, reduced to what backends need. A complete object takes ten times as much memory, and most routes have their own
//! Service. Does not check addresses.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort};

use crate::shared::RecentValues;

thread_local! {
    /// The ports of recently read Services.
    static PORTS: RefCell<RecentValues<[ServicePort]>> = const { RefCell::new(RecentValues::new()) };
}

/// The kept part of a Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptService {
    /// Its ports, as written. Most Services have the same ports as their neighbours, and share them.
    pub ports: Arc<[ServicePort]>,
    /// The external name, if its type is `ExternalName`; empty if it has none.
    pub external_name: Option<Box<str>>,
    /// Its cluster address; a headless Service has none.
    pub cluster_address: Option<IpAddr>,
    /// All its cluster addresses, including that one, in canonical form.
    pub addresses: Box<[IpAddr]>,
}

impl KeptService {
    /// The kept part of a Service.
    #[must_use]
    pub fn from_service(service: &Service) -> Self {
        let Some(spec) = &service.spec else { return Self::default() };
        // A headless Service has "None".
        let address = |text: &String| text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_external = spec.type_.as_deref() == Some("ExternalName");
        let ports = spec.ports.as_deref().unwrap_or_default();
        Self {
            ports: PORTS.with_borrow_mut(|recent| recent.shared(ports.into())),
            external_name: is_external.then(|| spec.external_name.as_deref().unwrap_or_default().into()),
            cluster_address: spec.cluster_ip.as_ref().and_then(address),
            addresses: spec
                .cluster_ip
                .iter()
                .chain(spec.cluster_ips.iter().flatten())
                .filter_map(address)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(spec: &serde_json::Value) -> KeptService {
        let service = serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec }));
        KeptService::from_service(&service.expect("a Service"))
    }

    #[test]
    fn a_service_is_small() {
        assert!(size_of::<KeptService>() <= 72, "{}", size_of::<KeptService>());
    }

    #[test]
    fn ports_are_kept_as_written_and_addresses_in_canonical_form() {
        let it = kept(&json!({
            "clusterIP": "::ffff:10.96.0.7",
            "clusterIPs": ["10.96.0.7", "fd00::7"],
            "ports": [{ "name": "http", "port": 80, "targetPort": "web" }],
        }));
        assert_eq!((it.ports.len(), it.ports[0].name.as_deref(), it.ports[0].port), (1, Some("http"), 80));
        assert_eq!(it.cluster_address, "10.96.0.7".parse().ok());
        assert_eq!(
            it.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.96.0.7", "10.96.0.7", "fd00::7"]
        );
    }

    #[test]
    fn services_with_the_same_ports_share_them() {
        let ports_with = |port: u16| kept(&json!({ "ports": [{ "name": "http", "port": port }] })).ports;
        let (web, api, other) = (ports_with(80), ports_with(80), ports_with(81));
        assert!(Arc::ptr_eq(&web, &api));
        assert_ne!(web, other);
    }

    #[test]
    fn a_headless_service_has_no_address_and_a_name_requires_its_type() {
        let headless = kept(&json!({ "clusterIP": "None", "externalName": "a.test" }));
        assert_eq!(headless, KeptService::default());
        let external = kept(&json!({ "type": "ExternalName", "externalName": "a.test" }));
        assert_eq!(external.external_name.as_deref(), Some("a.test"));
        assert_eq!(kept(&json!({ "type": "ExternalName" })).external_name.as_deref(), Some(""));
    }
}
