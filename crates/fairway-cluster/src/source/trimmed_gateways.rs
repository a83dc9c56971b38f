//! Objects of the Gateway API as they are kept: spec, status, and the metadata that translation and status need. Does not judge
//! values.

use fairway_objects::custom_resource::CustomResource;
use fairway_objects::object::Object;
use serde::Deserialize;

use super::trimmed::{Content, Item, Meta, Wire};

/// An object of the Gateway API on the wire.
#[derive(Clone, Deserialize)]
#[serde(bound = "")]
pub(super) struct GatewayWire<K: CustomResource> {
    metadata: Meta,
    #[serde(default)]
    spec: K::Spec,
    status: Option<K::Status>,
}

impl<K: CustomResource + Into<Object>> Wire for GatewayWire<K> {
    fn trim(self) -> Item {
        let item = self.metadata.to_item();
        let metadata = self.metadata.without_labels().without_last_applied().into_object_meta();
        let status = self.status.as_ref().map(shrunk);
        Item { content: Content::trimmed(K::from_parts(metadata, shrunk(&self.spec), status)), ..item }
    }
}

/// A copy whose lists have no spare capacity: lists that grow while decoding end with room for at least four members, and those
/// of a route are large.
fn shrunk<T: Clone>(read: &T) -> T {
    read.clone()
}

#[cfg(test)]
mod tests {
    use fairway_objects::gateway_api::{HttpRoute, ReferenceGrant};

    use super::*;

    #[test]
    fn a_route_keeps_its_fields_and_status_without_managed_fields() {
        let wire: GatewayWire<HttpRoute> = serde_json::from_value(serde_json::json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
                "labels": { "a": "b" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
                "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
            },
            "spec": { "hostnames": ["a.test"], "parentRefs": [{ "name": "edge" }] },
            "status": { "parents": [{
                "controllerName": "example.com/other", "parentRef": { "name": "edge" }, "conditions": [],
            }] },
        }))
        .expect("an HTTPRoute");
        let item = wire.trim();
        assert_eq!(item.version.number, Some(7));
        let Content::Trimmed(Object::HttpRoute(route)) = item.content else { panic!("not an HTTPRoute") };
        assert_eq!(route.spec.hostnames, ["a.test"]);
        assert_eq!(route.status.as_ref().unwrap().parents[0].controller_name, "example.com/other");
        let metadata = &route.metadata;
        assert_eq!((metadata.generation, metadata.uid.as_deref()), (Some(3), Some("u")));
        assert!(metadata.managed_fields.is_none() && metadata.labels.is_none());
        assert!(metadata.annotations.is_none());
    }

    #[test]
    fn an_object_without_status_is_read() {
        let wire: GatewayWire<ReferenceGrant> = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "g", "namespace": "shop", "uid": "u", "resourceVersion": "7" },
            "spec": { "from": [], "to": [{ "group": "", "kind": "Secret" }] },
        }))
        .expect("a ReferenceGrant");
        let Content::Trimmed(Object::ReferenceGrant(grant)) = wire.trim().content else {
            panic!("not a ReferenceGrant")
        };
        assert_eq!(grant.spec.to[0].kind, "Secret");
    }
}
