//! How an object is named among those of its kind. Knows no kind.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::shared;

/// Names an object of a known kind; the namespace is empty for what has none.
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
        Self { namespace: shared::namespace(namespace), name: shared::text(name) }
    }

    /// Reads `namespace/name`; `None` where either part is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let good = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        good.then(|| Self::new(namespace, name))
    }

    /// Of an object of a kind that has namespaces; one without is in `default`.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.as_deref().unwrap_or("default"),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Of an object of a kind that has none.
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
