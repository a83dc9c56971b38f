//! The objects of the Gateway API as they are kept: their own fields, and of the metadata what translation and status need.
//! Never judges a value.

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
        let item = self.metadata.item();
        let metadata = self.metadata.without_labels().without_copy().kept();
        let status = self.status.as_ref().map(fitted);
        Item { content: Content::kept(K::from_parts(metadata, fitted(&self.spec), status)), ..item }
    }
}

/// A copy, whose lists have no room for more: lists grow while they are read and end with room for four members, and those of
/// a route are large.
fn fitted<T: Clone>(read: &T) -> T {
    read.clone()
}

#[cfg(test)]
mod tests {
    use fairway_objects::gateway_api::{HttpRoute, ReferenceGrant};

    use super::*;

    #[test]
    fn keeps_of_a_route_its_fields_and_its_status_and_no_managed_fields() {
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
        let Content::Kept(Object::HttpRoute(route)) = item.content else { panic!("not an HTTPRoute") };
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
        let Content::Kept(Object::ReferenceGrant(grant)) = wire.trim().content else {
            panic!("not a ReferenceGrant")
        };
        assert_eq!(grant.spec.to[0].kind, "Secret");
    }
}
