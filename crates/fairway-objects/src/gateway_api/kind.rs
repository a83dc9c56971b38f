//! What makes a struct a kind of Kubernetes.

/// Implements the traits of a kind of `gateway.networking.k8s.io/v1`: its name, its plural and the scope of its objects.
macro_rules! kind {
    ($type:ident, $kind:literal, $plural:literal, $scope:ident) => {
        impl k8s_openapi::Resource for $type {
            const API_VERSION: &'static str = "gateway.networking.k8s.io/v1";
            const GROUP: &'static str = "gateway.networking.k8s.io";
            const KIND: &'static str = $kind;
            const VERSION: &'static str = "v1";
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
    };
}

pub(crate) use kind;
