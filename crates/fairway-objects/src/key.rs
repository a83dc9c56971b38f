//! The namespace and name of an object.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::shared;

/// Identifies an object of a known kind; the namespace is empty for cluster-scoped kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: shared::shared_namespace(namespace), name: shared::text(name) }
    }

    /// Parses `namespace/name`; `None` if either part is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let good = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        good.then(|| Self::new(namespace, name))
    }

    /// For a namespaced kind; the default namespace is `default`.
    #[must_use]
    pub fn from_metadata(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or("default"),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// For a cluster-scoped kind.
    pub(crate) fn cluster_wide(metadata: &ObjectMeta) -> Self {
        Self::new("", metadata.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
