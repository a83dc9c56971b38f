//! What makes a struct a kind of Kubernetes, and what all kinds here have in common.

/// The API group of all policies.
pub const GROUP: &str = "fairway.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

/// Implements the traits of a kind of `fairway.dev/v1alpha1`, whose objects are in namespaces: its name and its plural.
macro_rules! kind {
    ($type:ident, $plural:literal) => {
        impl k8s_openapi::Resource for $type {
            const API_VERSION: &'static str = "fairway.dev/v1alpha1";
            const GROUP: &'static str = crate::policies::kind::GROUP;
            const KIND: &'static str = stringify!($type);
            const VERSION: &'static str = crate::policies::kind::VERSION;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::Metadata for $type {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use kind;
