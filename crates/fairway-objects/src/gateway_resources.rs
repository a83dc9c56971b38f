//! The current Gateway API objects, and the namespaces that Gateways select by label. Does not interpret them.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::custom_resource::CustomResource;
use crate::gateway_api::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ReferenceGrant, TcpRoute,
    TlsRoute, UdpRoute,
};
use crate::inference::InferencePool;
use crate::kinds::{GATEWAY_KINDS, types};
use crate::multicluster::ServiceImport;
use crate::object::{DocumentSource, Kind, Object, ObjectKey, ObjectRef, Sourced};
use crate::placement::{Address, Placement};
use crate::policies::{
    BackendTrafficPolicy, ClientTrafficPolicy, ExtensionPolicy, RouteFilter, SecurityPolicy,
};
use crate::with_custom_resource;

/// The current Gateway API objects. Clones are cheap.
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
    /// HTTPRouteFilters.
    pub filters: OrdMap<ObjectKey, Sourced<RouteFilter>>,
    /// InferencePools.
    pub pools: OrdMap<ObjectKey, Sourced<InferencePool>>,
    /// ServiceImports.
    pub imports: OrdMap<ObjectKey, Sourced<ServiceImport>>,
    /// Where Gateways are reachable.
    pub placements: OrdMap<ObjectKey, Arc<Placement>>,
    /// The releases of the installed CRDs.
    pub releases: Releases,
    /// The addresses for the status of Ingresses; `None` if they are not configured.
    pub published: Option<Arc<[Address]>>,
}

/// Routes of forwarded connections and datagrams. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct StreamRoutes {
    /// TCPRoutes.
    pub tcp: OrdMap<ObjectKey, Sourced<TcpRoute>>,
    /// UDPRoutes.
    pub udp: OrdMap<ObjectKey, Sourced<UdpRoute>>,
}

/// The current policies. Clones are cheap.
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
    /// ExtensionPolicies.
    pub extensions: OrdMap<ObjectKey, Sourced<ExtensionPolicy>>,
}

/// The installed Gateway API CRDs by name, as `gateways.gateway.networking.k8s.io`, with the release in their annotation
/// `gateway.networking.k8s.io/bundle-version`, as `v1.6.3`; `None` if a CRD has no such annotation. Empty if unknown.
pub type Releases = Arc<BTreeMap<String, Option<String>>>;

impl GatewayResources {
    /// The number of objects per kind.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Kind, usize)> {
        GATEWAY_KINDS
            .iter()
            .map(|known| (known.kind, with_custom_resource!(known.kind, K => K::all(self).len(), _ => 0)))
    }

    /// The objects of kinds whose status has conditions.
    pub fn with_conditions(&self) -> impl Iterator<Item = ObjectRef> {
        let kinds = GATEWAY_KINDS.iter().filter(|known| known.has_conditions).map(|known| known.kind);
        kinds.flat_map(|kind| {
            let keys: Vec<_> =
                with_custom_resource!(kind, K => K::all(self).keys().cloned().collect(), _ => Vec::new());
            keys.into_iter().map(move |key| ObjectRef::new(kind, key))
        })
    }

    /// The metadata of an object.
    #[must_use]
    pub fn metadata(&self, ObjectRef { kind, key }: &ObjectRef) -> Option<&ObjectMeta> {
        with_custom_resource!(kind, K => K::all(self).get(key).map(|it| &it.object.metadata), _ => None)
    }

    /// The status of an object, as far as it is read.
    #[must_use]
    pub fn status(&self, ObjectRef { kind, key }: &ObjectRef) -> Option<Value> {
        with_custom_resource!(kind, K => K::all(self).get(key)?.object.status(), _ => None)
    }

    /// Sets where a Gateway is reachable.
    pub(crate) fn set_placement(&mut self, gateway: ObjectKey, placement: Option<Arc<Placement>>) {
        match placement {
            Some(placement) => drop(self.placements.insert(gateway, placement)),
            None => drop(self.placements.remove(&gateway)),
        }
    }
}

/// A kind whose objects are in [`GatewayResources`].
pub trait Kept: CustomResource {
    /// All objects of the kind.
    fn all(resources: &GatewayResources) -> &OrdMap<ObjectKey, Sourced<Self>>;
}

macro_rules! maps {
    (kubernetes $kubernetes:tt gateways { $($kind:ident $versions:tt $names:ident ($($map:ident).+);)* }) => {
        $(impl Kept for types::$kind {
            fn all(resources: &GatewayResources) -> &OrdMap<ObjectKey, Sourced<Self>> {
                &resources.$($map).+
            }
        })*

        impl GatewayResources {
            /// Stores an object; objects of other APIs are ignored.
            pub(crate) fn set(&mut self, key: &ObjectKey, object: Object, source: Option<DocumentSource>) {
                match object {
                    Object::Namespace(it) => keep(&mut self.namespaces, key, it, source),
                    $(Object::$kind(it) => keep(&mut self.$($map).+, key, it, source),)*
                    _ => {}
                }
            }

            /// Removes an object.
            pub(crate) fn remove(&mut self, kind: Kind, key: &ObjectKey) {
                match kind {
                    Kind::Namespace => drop(self.namespaces.remove(key)),
                    $(Kind::$kind => drop(self.$($map).+.remove(key)),)*
                    Kind::Placement => drop(self.placements.remove(key)),
                    Kind::Releases => self.releases = Releases::default(),
                    Kind::Published => self.published = None,
                    _ => {}
                }
            }
        }
    };
}

crate::table_of_kinds!([maps]);

fn keep<T: Clone>(
    map: &mut OrdMap<ObjectKey, Sourced<T>>,
    key: &ObjectKey,
    object: Arc<T>,
    source: Option<DocumentSource>,
) {
    map.insert(key.clone(), Sourced { object, source: source.map(Arc::new) });
}
