//! The table of kinds: one row per kind that Fairway reads. [`Kind`] and [`Object`](crate::object::Object), the maps of Gateway
//! API objects, manifest decoding, discovery, watches, paths, statuses and metrics are derived from it.
//!
//! A row contains only what the type of the kind does not provide: name, group, resource and scope come from its
//! [`k8s_openapi::Resource`], and whether it has a status from its [`CustomResource`]. Anything that cannot be derived from the
//! table, such as the chart's RBAC rules, is compared with it by a test.

use std::sync::{Arc, OnceLock};

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};

use crate::custom_resource::CustomResource;

/// Calls the macro in brackets with its arguments and the table. The order is the order in which requests depend on the kinds.
#[doc(hidden)]
#[macro_export]
macro_rules! table_of_kinds {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            $($arguments)*
            // Kind, its versions, where it references Secrets and ConfigMaps.
            kubernetes {
                Ingress              ["v1"]  Nearby;
                IngressClass         ["v1"]  Anywhere;
                Service              ["v1"]  Nowhere;
                EndpointSlice        ["v1"]  Nowhere;
                Pod                  ["v1"]  Nowhere;
                Secret               ["v1"]  Nowhere;
                ConfigMap            ["v1"]  Nowhere;
                Namespace            ["v1"]  Nowhere;
            }
            // The same, and its map in `GatewayResources`. The preferred version is first; all versions are equal in the fields
            // that are read.
            gateways {
                GatewayClass         ["v1", "v1beta1"]               Anywhere  (classes);
                Gateway              ["v1", "v1beta1"]               Anywhere  (gateways);
                ListenerSet          ["v1"]                          Anywhere  (listener_sets);
                HttpRoute            ["v1", "v1beta1"]               Nowhere   (http_routes);
                GrpcRoute            ["v1"]                          Nowhere   (grpc_routes);
                TlsRoute             ["v1", "v1alpha3", "v1alpha2"]  Nowhere   (tls_routes);
                TcpRoute             ["v1", "v1alpha2"]              Nowhere   (streams.tcp);
                UdpRoute             ["v1", "v1alpha2"]              Nowhere   (streams.udp);
                ReferenceGrant       ["v1", "v1beta1"]               Nowhere   (grants);
                BackendTlsPolicy     ["v1", "v1alpha3"]              Nearby    (policies.tls);
                ClientTrafficPolicy  ["v1alpha1"]                    Nowhere   (policies.clients);
                BackendTrafficPolicy ["v1alpha1"]                    Nowhere   (policies.backends);
                SecurityPolicy       ["v1alpha1"]                    Anywhere  (policies.security);
                ExtensionPolicy      ["v1alpha1"]                    Nowhere   (policies.extensions);
                RouteFilter          ["v1alpha1"]                    Nowhere   (filters);
                InferencePool        ["v1"]                          Nowhere   (pools);
                ServiceImport        ["v1alpha1"]                    Nowhere   (imports);
            }
        }
    };
}

/// Evaluates an expression in which `$type` is the type of a kind: `with_type!(kind, T => read::<T>(), _ => nothing)`. The last
/// expression is for kinds without a type.
#[macro_export]
macro_rules! with_type {
    (@arms ($kind:expr) $type:ident ($value:expr) ($other:expr)
     kubernetes { $($kubernetes:ident $kubernetes_versions:tt $kubernetes_names:ident;)* }
     gateways { $($gateway:ident $gateway_versions:tt $gateway_names:ident $map:tt;)* }) => {
        $crate::with_type!(@match ($kind) $type ($value) ($other) $($kubernetes)* $($gateway)*)
    };
    (@match ($kind:expr) $type:ident ($value:expr) ($other:expr) $($name:ident)*) => {
        match $kind {
            $($crate::kinds::Kind::$name => {
                type $type = $crate::kinds::types::$name;
                $value
            })*
            _ => $other,
        }
    };
    ($kind:expr, $type:ident => $value:expr, _ => $other:expr) => {
        $crate::table_of_kinds!([$crate::with_type] @arms ($kind) $type ($value) ($other))
    };
}

/// [`with_type`] for the kinds of the Gateway API and the policies, each of which is a [`CustomResource`].
#[macro_export]
macro_rules! with_custom_resource {
    (@arms ($kind:expr) $type:ident ($value:expr) ($other:expr) kubernetes $kubernetes:tt
     gateways { $($gateway:ident $versions:tt $names:ident $map:tt;)* }) => {
        $crate::with_type!(@match ($kind) $type ($value) ($other) $($gateway)*)
    };
    ($kind:expr, $type:ident => $value:expr, _ => $other:expr) => {
        $crate::table_of_kinds!([$crate::with_custom_resource] @arms ($kind) $type ($value) ($other))
    };
}

/// The types of the kinds, under their names in the table.
pub mod types {
    pub use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
    pub use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

    pub use crate::gateway_api::*;
    pub use crate::inference::InferencePool;
    pub use crate::multicluster::ServiceImport;
    pub use crate::pod::Pod;
    pub use crate::policies::*;
    pub use crate::slice::EndpointSlice;
}

/// The API group of the Gateway API.
pub const GROUP: &str = <types::Gateway as Resource>::GROUP;
/// The API group of Fairway's own policies.
pub const POLICY_GROUP: &str = crate::policies::GROUP;
/// The API group of the Gateway API Inference Extension.
pub const INFERENCE_GROUP: &str = <types::InferencePool as Resource>::GROUP;

/// The API group of the Multi-Cluster Services API.
pub const MULTICLUSTER_GROUP: &str = <types::ServiceImport as Resource>::GROUP;

/// How a kind is accessed in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind.
    pub kind: Kind,
    /// The kind as Kubernetes spells it.
    pub name: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource name in paths and roles.
    pub resource: &'static str,
    /// Its versions, preferred first. All are equal in the fields that are read.
    pub versions: &'static [&'static str],
    /// Whether it is namespaced.
    pub is_namespaced: bool,
    /// Whether its status has conditions.
    pub has_conditions: bool,
    /// Where its objects may reference Secrets and ConfigMaps.
    pub names: NamedObjects,
}

/// Where objects of a kind may reference Secrets and ConfigMaps. A class references none itself, but decides whether the
/// references of its objects count. The settings ConfigMap, which references others, is watched by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedObjects {
    /// It references none.
    Nowhere,
    /// In the namespace of the object.
    Nearby,
    /// In any namespace.
    Anywhere,
}

macro_rules! kinds {
    (kubernetes { $($kubernetes:ident $kubernetes_versions:tt $kubernetes_names:ident;)* }
     gateways { $($gateway:ident $gateway_versions:tt $gateway_names:ident $map:tt;)* }) => {
        /// The kinds that are read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($kubernetes), "`](types::", stringify!($kubernetes), ").")] $kubernetes,)*
            $(#[doc = concat!("[`", stringify!($gateway), "`](types::", stringify!($gateway), ").")] $gateway,)*
            /// An Ingress of `extensions/v1beta1` or `networking.k8s.io/v1beta1`.
            OldIngress,
            /// The addresses of an external name, which is the object's name.
            Resolved,
            /// Where the Gateway of that name is reachable.
            Placement,
            /// The releases of the installed CRDs of the Gateway API.
            Releases,
            /// The addresses for the status of Ingresses.
            Published,
        }

        /// The kinds of the table, in the order of [`Kind`].
        pub const KINDS: &[ApiResource] = &[
            $(row::<types::$kubernetes>(
                Kind::$kubernetes, &$kubernetes_versions, NamedObjects::$kubernetes_names, false,
            ),)*
            $(row::<types::$gateway>(
                Kind::$gateway, &$gateway_versions, NamedObjects::$gateway_names,
                <types::$gateway as CustomResource>::HAS_STATUS,
            ),)*
        ];
    };
}

crate::table_of_kinds!([kinds]);

/// The kinds of the Gateway API, its extensions and Fairway's policies, which a cluster may lack.
pub const GATEWAY_KINDS: &[ApiResource] = KINDS.split_at(Kind::GatewayClass as usize).1;

/// Whether objects of a scope are namespaced.
trait Namespaces {
    const NAMESPACED: bool;
}

impl Namespaces for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Namespaces for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

const fn row<T: Resource<Scope: Namespaces>>(
    kind: Kind,
    versions: &'static [&'static str],
    names: NamedObjects,
    has_conditions: bool,
) -> ApiResource {
    let is_namespaced = <T::Scope as Namespaces>::NAMESPACED;
    let (name, group, resource) = (T::KIND, T::GROUP, T::URL_PATH_SEGMENT);
    ApiResource { kind, name, group, resource, versions, is_namespaced, has_conditions, names }
}

impl ApiResource {
    /// The row of this `apiVersion` and `kind`.
    #[must_use]
    pub fn find(api_version: &str, kind: &str) -> Option<&'static Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = KINDS.iter().find(|known| known.name == kind)?;
        (group == known.group && known.versions.contains(&version)).then_some(known)
    }

    /// The row of a Gateway API kind or policy, by its name.
    #[must_use]
    pub fn find_gateway_kind(kind: &str) -> Option<&'static Self> {
        GATEWAY_KINDS.iter().find(|known| known.name == kind)
    }

    /// The preferred version among those that a server offers.
    #[must_use]
    pub fn preferred(&self, offered: impl Fn(&str) -> bool) -> Option<&'static str> {
        self.versions.iter().copied().find(|version| offered(version))
    }

    /// The `apiVersion` of a version.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// The path of an object (Kubernetes API concepts, "Resource URIs"). An empty name gives the path of the collection; an empty
    /// namespace, that of the whole cluster.
    #[must_use]
    pub fn path(&self, version: &str, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let object = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("{root}/{}{within}/{}{object}", self.api_version(version), self.resource)
    }

    /// `ingresses.networking.k8s.io` or `secrets`; with the subresource `/status`, as in RBAC,
    /// `ingresses/status.networking.k8s.io`.
    #[must_use]
    pub fn group_resource(&self, subresource: &str) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{subresource}{dot}{}", self.resource, self.group)
    }
}

impl Kind {
    /// Its row; `None` for kinds that no API server has.
    #[must_use]
    pub fn api(self) -> Option<&'static ApiResource> {
        KINDS.get(self as usize)
    }

    /// Its row, if it is a Gateway API kind or policy.
    #[must_use]
    pub fn of_gateways(self) -> Option<&'static ApiResource> {
        self.api().filter(|_| self >= Self::GatewayClass)
    }

    /// The kind as Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OldIngress => "Ingress",
            Self::Resolved => "ExternalName",
            Self::Placement => "Placement",
            Self::Releases => "CustomResourceDefinition",
            Self::Published => "PublishedAddresses",
            kind => kind.api().map_or("", |known| known.name),
        }
    }

    /// Its API group; empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        self.api().map_or("", |known| known.group)
    }

    /// Whether it is namespaced.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        self.api().is_none_or(|known| known.is_namespaced)
    }

    /// [`Kind::name`] as one allocation that all origins share.
    pub(crate) fn shared_name(self) -> Arc<str> {
        static NAMES: [OnceLock<Arc<str>>; 64] = [const { OnceLock::new() }; 64];
        let name = || -> Arc<str> { self.name().into() };
        NAMES.get(self as usize).map_or_else(name, |shared| shared.get_or_init(name).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_matches_its_type_and_is_found_by_kind() {
        assert!(KINDS.iter().all(|known| known.kind.api() == Some(known)));
        assert!(GATEWAY_KINDS.iter().all(|known| known.kind.of_gateways() == Some(known)));
        assert_eq!((Kind::Namespace.of_gateways(), Kind::OldIngress.api()), (None, None));
        let Some(grant) = Kind::ReferenceGrant.api() else { panic!() };
        assert_eq!((grant.name, grant.resource), ("ReferenceGrant", "referencegrants"));
        assert!(grant.is_namespaced && !grant.has_conditions);
        let in_cluster: Vec<_> = KINDS.iter().filter(|known| !known.is_namespaced).collect();
        assert_eq!(
            in_cluster.iter().map(|known| known.name).collect::<Vec<_>>(),
            ["IngressClass", "Namespace", "GatewayClass"]
        );
    }

    #[test]
    fn a_version_with_other_fields_is_unknown() {
        assert!(ApiResource::find("v1", "Service").is_some());
        assert!(ApiResource::find("gateway.networking.k8s.io/v1alpha2", "TLSRoute").is_some());
        assert!(ApiResource::find("gateway.networking.k8s.io/v1alpha2", "HTTPRoute").is_none());
        assert!(ApiResource::find("networking.k8s.io/v1", "Gateway").is_none());
        assert!(ApiResource::find("fairway.dev/v1alpha1", "SecurityPolicy").is_some());
        assert!(ApiResource::find("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy").is_none());
        assert!(ApiResource::find("gateway.networking.x-k8s.io/v1alpha1", "XListenerSet").is_none());
    }

    #[test]
    fn the_first_offered_version_is_preferred() {
        let routes = Kind::TlsRoute.api().unwrap();
        assert_eq!(routes.preferred(|version| version != "v1"), Some("v1alpha3"));
        assert_eq!(routes.preferred(|version| version == "v2"), None);
    }

    #[test]
    fn paths_have_a_namespace_for_namespaced_kinds() {
        let path = |kind: Kind, namespace, name| kind.api().unwrap().path("v1", namespace, name);
        let group = "/apis/gateway.networking.k8s.io/v1";
        assert_eq!(path(Kind::HttpRoute, "shop", "web"), format!("{group}/namespaces/shop/httproutes/web"));
        assert_eq!(path(Kind::GatewayClass, "", "fairway"), format!("{group}/gatewayclasses/fairway"));
        assert_eq!(path(Kind::ConfigMap, "edge", ""), "/api/v1/namespaces/edge/configmaps");
        assert_eq!(path(Kind::Ingress, "", ""), "/apis/networking.k8s.io/v1/ingresses");
        let policy = path(Kind::SecurityPolicy, "shop", "login");
        assert_eq!(policy, "/apis/fairway.dev/v1/namespaces/shop/securitypolicies/login");
    }
}
