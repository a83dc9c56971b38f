//! The objects of the Gateway API as they are kept: their own fields, and of the metadata what translation and status need.
//! Never judges a value.

use std::sync::Arc;

use fairway_objects::gateway_api::{
    BackendTlsPolicy, BackendTlsPolicySpec, Gateway, GatewayClass, GatewayClassSpec, GatewayClassStatus,
    GatewaySpec, GatewayStatus, GrpcRoute, GrpcRouteSpec, HttpRoute, HttpRouteSpec, ListenerSet,
    ListenerSetSpec, ListenerSetStatus, PolicyStatus, ReferenceGrant, ReferenceGrantSpec, RouteStatus,
    StreamRouteSpec, TcpRoute, TlsRoute, TlsRouteSpec, UdpRoute,
};
use fairway_objects::object::Object;
use fairway_objects::policies::{
    BackendTrafficPolicy, BackendTrafficPolicySpec, ClientTrafficPolicy, ClientTrafficPolicySpec,
    SecurityPolicy, SecurityPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::trimmed::{Item, Meta, Wire};

/// A kind of the Gateway API as its CRD has it.
pub(super) trait GatewayObject: Clone + Send + 'static {
    /// Its `spec`.
    type Spec: DeserializeOwned + Clone + Default + Send;
    /// Its `status`.
    type Status: DeserializeOwned + Clone + Send;

    /// The object of these parts.
    fn object(metadata: ObjectMeta, spec: Self::Spec, status: Option<Self::Status>) -> Object;
}

/// An object of the Gateway API on the wire.
#[derive(Clone, Deserialize)]
#[serde(bound = "")]
pub(super) struct GatewayWire<K: GatewayObject> {
    metadata: Meta,
    #[serde(default)]
    spec: K::Spec,
    status: Option<K::Status>,
}

impl<K: GatewayObject> Wire for GatewayWire<K> {
    fn trim(self) -> Item {
        let item = self.metadata.item(None, None);
        let metadata = self.metadata.without_labels().without_copy().kept();
        let status = self.status.as_ref().map(fitted);
        Item { object: Some(K::object(metadata, fitted(&self.spec), status)), ..item }
    }
}

/// A copy, whose lists have no room for more: lists grow while they are read and end with room for four members, and those of
/// a route are large.
fn fitted<T: Clone>(read: &T) -> T {
    read.clone()
}

/// Kinds with a status.
macro_rules! kinds {
    ($($kind:ident: $spec:ident, $status:ident;)*) => {
        $(impl GatewayObject for $kind {
            type Spec = $spec;
            type Status = $status;

            fn object(metadata: ObjectMeta, spec: $spec, status: Option<$status>) -> Object {
                Object::$kind(Arc::new(Self { metadata, spec, status }))
            }
        })*
    };
}

kinds! {
    GatewayClass: GatewayClassSpec, GatewayClassStatus;
    Gateway: GatewaySpec, GatewayStatus;
    ListenerSet: ListenerSetSpec, ListenerSetStatus;
    HttpRoute: HttpRouteSpec, RouteStatus;
    GrpcRoute: GrpcRouteSpec, RouteStatus;
    TlsRoute: TlsRouteSpec, RouteStatus;
    TcpRoute: StreamRouteSpec, RouteStatus;
    UdpRoute: StreamRouteSpec, RouteStatus;
    BackendTlsPolicy: BackendTlsPolicySpec, PolicyStatus;
    ClientTrafficPolicy: ClientTrafficPolicySpec, PolicyStatus;
    BackendTrafficPolicy: BackendTrafficPolicySpec, PolicyStatus;
    SecurityPolicy: SecurityPolicySpec, PolicyStatus;
}

impl GatewayObject for ReferenceGrant {
    type Spec = ReferenceGrantSpec;
    type Status = IgnoredAny;

    fn object(metadata: ObjectMeta, spec: ReferenceGrantSpec, _: Option<IgnoredAny>) -> Object {
        Object::ReferenceGrant(Arc::new(Self { metadata, spec }))
    }
}

#[cfg(test)]
mod tests {
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
        let Some(Object::HttpRoute(route)) = item.object else { panic!("not an HTTPRoute") };
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
        let Some(Object::ReferenceGrant(grant)) = wire.trim().object else { panic!("not a ReferenceGrant") };
        assert_eq!(grant.spec.to[0].kind, "Secret");
    }
}
