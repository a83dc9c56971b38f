//! The common structure of kinds that CRDs define: metadata, spec and mostly a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind that a CRD defines.
pub trait CustomResource: Resource + Metadata<Ty = ObjectMeta> + Clone + Send + 'static {
    /// Its `spec`.
    type Spec: DeserializeOwned + Clone + Default + PartialEq + Send;
    /// The type of its `status`; any type if it has none.
    type Status: DeserializeOwned + Clone + Send;
    /// Whether it has a status.
    const HAS_STATUS: bool;

    /// Assembles an object.
    fn from_parts(metadata: ObjectMeta, spec: Self::Spec, status: Option<Self::Status>) -> Self;

    /// Its `spec`.
    fn spec(&self) -> &Self::Spec;

    /// Its `status`, as far as it is read: null if it is not set, `None` if the kind has none.
    fn status(&self) -> Option<Value>;
}

/// Implements the traits of a kind: the types of spec and status (no status without a second type), group, version, name, plural
/// and scope.
macro_rules! custom_resource {
    ($type:ident($spec:ty $(, $status:ty)?):
     $group:literal, $version:literal, $kind:literal, $plural:literal, $scope:ident) => {
        impl k8s_openapi::Resource for $type {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::$scope;
        }

        impl k8s_openapi::Metadata for $type {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl $crate::custom_resource::CustomResource for $type {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            custom_resource!(@status $spec $(, $status)?);
        }
    };
    (@status $spec:ty) => {
        type Status = serde::de::IgnoredAny;
        const HAS_STATUS: bool = false;

        fn from_parts(metadata: ObjectMeta, spec: $spec, _: Option<Self::Status>) -> Self {
            Self { metadata, spec }
        }

        fn status(&self) -> Option<serde_json::Value> {
            None
        }
    };
    (@status $spec:ty, $status:ty) => {
        type Status = $status;
        const HAS_STATUS: bool = true;

        fn from_parts(metadata: ObjectMeta, spec: $spec, status: Option<$status>) -> Self {
            Self { metadata, spec, status }
        }

        fn status(&self) -> Option<serde_json::Value> {
            Some(serde_json::to_value(&self.status).unwrap_or_default())
        }
    };
}

pub(crate) use custom_resource;
