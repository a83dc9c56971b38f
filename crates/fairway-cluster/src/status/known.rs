//! What is known of objects of the Gateway API from the watches, so that it need not be asked for.

use fairway_objects::manifest::gateway_kinds;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::resources::Resources;
use serde_json::Value;

/// Evaluates an expression for the object `$it` of a kind with a status; `None` where it is not known.
macro_rules! with_object {
    ($resources:expr, $kind:expr, $key:expr, $it:ident => $value:expr) => {{
        let all = &$resources.gateway;
        match $kind {
            Kind::GatewayClass => all.classes.get($key).map(|$it| $value),
            Kind::Gateway => all.gateways.get($key).map(|$it| $value),
            Kind::ListenerSet => all.listener_sets.get($key).map(|$it| $value),
            Kind::HttpRoute => all.http_routes.get($key).map(|$it| $value),
            Kind::GrpcRoute => all.grpc_routes.get($key).map(|$it| $value),
            Kind::TlsRoute => all.tls_routes.get($key).map(|$it| $value),
            Kind::TcpRoute => all.streams.tcp.get($key).map(|$it| $value),
            Kind::UdpRoute => all.streams.udp.get($key).map(|$it| $value),
            Kind::BackendTlsPolicy => all.policies.tls.get($key).map(|$it| $value),
            Kind::ClientTrafficPolicy => all.policies.clients.get($key).map(|$it| $value),
            Kind::BackendTrafficPolicy => all.policies.backends.get($key).map(|$it| $value),
            Kind::SecurityPolicy => all.policies.security.get($key).map(|$it| $value),
            _ => None,
        }
    }};
}

/// What the status of an object says, as far as it is read.
pub(super) fn status(resources: &Resources, ObjectRef { kind, key }: &ObjectRef) -> Option<Value> {
    with_object!(resources, kind, key, it => serde_json::to_value(&it.object.status).unwrap_or_default())
}

/// The uid of an object of the kind with this name.
pub(super) fn uid(resources: &Resources, kind: &str, key: &ObjectKey) -> Option<String> {
    let kind = gateway_kinds::KINDS.iter().find(|known| known.kind.name() == kind)?.kind;
    if kind == Kind::ReferenceGrant {
        return resources.gateway.grants.get(key).and_then(|it| it.object.metadata.uid.clone());
    }
    with_object!(resources, kind, key, it => it.object.metadata.uid.clone()).flatten()
}
