//! The objects of the Gateway API as they are now, and the namespaces by which Gateways choose. Owns no judgement about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::core::v1::Namespace;

use crate::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute,
};
use crate::object::{DocumentSource, Kind, Object, ObjectKey, Sourced};
use crate::placement::Placement;
use crate::policies::{BackendTrafficPolicy, ClientTrafficPolicy, SecurityPolicy};

/// The objects of the Gateway API as they are now. A clone costs nothing.
#[derive(Clone, Debug, Default)]
pub struct GatewayResources {
    /// Namespaces.
    pub namespaces: OrdMap<ObjectKey, Sourced<Namespace>>,
    /// GatewayClasses.
    pub classes: OrdMap<ObjectKey, Sourced<GatewayClass>>,
    /// Gateways.
    pub gateways: OrdMap<ObjectKey, Sourced<Gateway>>,
    /// ListenerSets.
    pub listener_sets: OrdMap<ObjectKey, Sourced<ListenerSet>>,
    /// HTTPRoutes.
    pub http_routes: OrdMap<ObjectKey, Sourced<HttpRoute>>,
    /// GRPCRoutes.
    pub grpc_routes: OrdMap<ObjectKey, Sourced<GrpcRoute>>,
    /// TLSRoutes.
    pub tls_routes: OrdMap<ObjectKey, Sourced<TlsRoute>>,
    /// TCPRoutes and UDPRoutes.
    pub streams: StreamRoutes,
    /// ReferenceGrants.
    pub grants: OrdMap<ObjectKey, Sourced<ReferenceGrant>>,
    /// Policies.
    pub policies: PolicyResources,
    /// Where Gateways are.
    pub placements: OrdMap<ObjectKey, Arc<Placement>>,
    /// The releases of the installed CRDs.
    pub releases: Releases,
}

/// The routes of what is forwarded as it comes. A clone costs nothing.
#[derive(Clone, Debug, Default)]
pub struct StreamRoutes {
    /// TCPRoutes.
    pub tcp: OrdMap<ObjectKey, Sourced<TcpRoute>>,
    /// UDPRoutes.
    pub udp: OrdMap<ObjectKey, Sourced<UdpRoute>>,
}

/// The policies as they are now. A clone costs nothing.
#[derive(Clone, Debug, Default)]
pub struct PolicyResources {
    /// BackendTLSPolicies.
    pub tls: OrdMap<ObjectKey, Sourced<BackendTlsPolicy>>,
    /// ClientTrafficPolicies.
    pub clients: OrdMap<ObjectKey, Sourced<ClientTrafficPolicy>>,
    /// BackendTrafficPolicies.
    pub backends: OrdMap<ObjectKey, Sourced<BackendTrafficPolicy>>,
    /// SecurityPolicies.
    pub security: OrdMap<ObjectKey, Sourced<SecurityPolicy>>,
}

impl PolicyResources {
    /// How many there are.
    fn len(&self) -> usize {
        self.tls.len() + self.clients.len() + self.backends.len() + self.security.len()
    }
}
/// The installed CRDs of the Gateway API by name, as `gateways.gateway.networking.k8s.io`, with the release in their annotation
/// `gateway.networking.k8s.io/bundle-version`, as `v1.6.3`; `None` where a CRD has no such annotation. Empty where nobody
/// knows.
pub type Releases = Arc<BTreeMap<String, Option<String>>>;

impl GatewayResources {
    /// How many objects of all kinds there are, without Namespaces.
    pub(crate) fn len(&self) -> usize {
        let routes = self.http_routes.len() + self.grpc_routes.len() + self.tls_routes.len();
        let streams = self.streams.tcp.len() + self.streams.udp.len();
        let listeners = self.classes.len() + self.gateways.len() + self.listener_sets.len();
        routes + streams + listeners + self.grants.len() + self.policies.len()
    }

    /// Where a Gateway is now.
    pub(crate) fn place(&mut self, gateway: ObjectKey, placement: Option<Arc<Placement>>) {
        match placement {
            Some(placement) => drop(self.placements.insert(gateway, placement)),
            None => drop(self.placements.remove(&gateway)),
        }
    }

    /// Takes an object; one of another API is not kept here.
    pub(crate) fn set(&mut self, key: &ObjectKey, object: Object, source: Option<DocumentSource>) {
        match object {
            Object::Namespace(it) => keep(&mut self.namespaces, key, it, source),
            Object::GatewayClass(it) => keep(&mut self.classes, key, it, source),
            Object::Gateway(it) => keep(&mut self.gateways, key, it, source),
            Object::ListenerSet(it) => keep(&mut self.listener_sets, key, it, source),
            Object::HttpRoute(it) => keep(&mut self.http_routes, key, it, source),
            Object::GrpcRoute(it) => keep(&mut self.grpc_routes, key, it, source),
            Object::TlsRoute(it) => keep(&mut self.tls_routes, key, it, source),
            Object::TcpRoute(it) => keep(&mut self.streams.tcp, key, it, source),
            Object::UdpRoute(it) => keep(&mut self.streams.udp, key, it, source),
            Object::ReferenceGrant(it) => keep(&mut self.grants, key, it, source),
            Object::BackendTlsPolicy(it) => keep(&mut self.policies.tls, key, it, source),
            Object::ClientTrafficPolicy(it) => keep(&mut self.policies.clients, key, it, source),
            Object::BackendTrafficPolicy(it) => keep(&mut self.policies.backends, key, it, source),
            Object::SecurityPolicy(it) => keep(&mut self.policies.security, key, it, source),
            Object::Ingress(_)
            | Object::IngressClass(_)
            | Object::Service(_)
            | Object::EndpointSlice(_)
            | Object::Secret(_)
            | Object::ConfigMap(_)
            | Object::OldIngress(_) => {}
        }
    }

    /// Forgets an object.
    pub(crate) fn remove(&mut self, kind: Kind, key: &ObjectKey) {
        match kind {
            Kind::Namespace => drop(self.namespaces.remove(key)),
            Kind::GatewayClass => drop(self.classes.remove(key)),
            Kind::Gateway => drop(self.gateways.remove(key)),
            Kind::ListenerSet => drop(self.listener_sets.remove(key)),
            Kind::HttpRoute => drop(self.http_routes.remove(key)),
            Kind::GrpcRoute => drop(self.grpc_routes.remove(key)),
            Kind::TlsRoute => drop(self.tls_routes.remove(key)),
            Kind::TcpRoute => drop(self.streams.tcp.remove(key)),
            Kind::UdpRoute => drop(self.streams.udp.remove(key)),
            Kind::ReferenceGrant => drop(self.grants.remove(key)),
            Kind::BackendTlsPolicy => drop(self.policies.tls.remove(key)),
            Kind::ClientTrafficPolicy => drop(self.policies.clients.remove(key)),
            Kind::BackendTrafficPolicy => drop(self.policies.backends.remove(key)),
            Kind::SecurityPolicy => drop(self.policies.security.remove(key)),
            Kind::Placement => drop(self.placements.remove(key)),
            Kind::Releases => self.releases = Releases::default(),
            Kind::Ingress
            | Kind::IngressClass
            | Kind::Service
            | Kind::EndpointSlice
            | Kind::Secret
            | Kind::ConfigMap
            | Kind::OldIngress
            | Kind::Resolved => {}
        }
    }
}

fn keep<T: Clone>(
    map: &mut OrdMap<ObjectKey, Sourced<T>>,
    key: &ObjectKey,
    object: Arc<T>,
    source: Option<DocumentSource>,
) {
    map.insert(key.clone(), Sourced { object, source: source.map(Arc::new) });
}
