//! What is listed and watched: objects of a kind, cluster-wide or in a namespace, all or one by name. Builds paths and
//! descriptions; sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fairway_objects::kinds::Kind;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchedKind {
    /// Namespaces that only select where to watch.
    NamespaceNames,
    /// Objects of a kind, sent to the pipeline.
    Objects(Kind),
    /// Complete objects of a kind, for a writer of such objects; not sent to the pipeline.
    Full(Kind),
}

/// The kinds of the Gateway API that a cluster serves, with their versions.
pub(super) type OfferedKinds = BTreeMap<Kind, BTreeSet<&'static str>>;

/// A set of objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection {
    /// The kind.
    pub kind: WatchedKind,
    /// The API version.
    pub version: &'static str,
    /// The namespace; `None` means all.
    pub namespace: Option<Arc<str>>,
    /// The name of a single object; `None` means all.
    pub name: Option<Arc<str>>,
    /// The label selector.
    pub labels: Option<Arc<str>>,
}

impl From<Kind> for WatchedKind {
    fn from(kind: Kind) -> Self {
        Self::Objects(kind)
    }
}

impl WatchedKind {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.api_kind().name()
    }

    /// The kind of the objects that are sent to the pipeline.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::NamespaceNames | Self::Full(_) => None,
            Self::Objects(kind) => Some(kind),
        }
    }

    /// The kind that is requested from the API.
    pub(super) fn api_kind(self) -> Kind {
        match self {
            Self::NamespaceNames => Kind::Namespace,
            Self::Objects(kind) | Self::Full(kind) => kind,
        }
    }
}

impl Collection {
    /// All objects of a kind.
    #[must_use]
    pub fn all(kind: impl Into<WatchedKind>) -> Self {
        Self { kind: kind.into(), version: "v1", namespace: None, name: None, labels: None }
    }

    /// The same in another API version.
    #[must_use]
    pub(super) fn in_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// The objects in a namespace.
    #[must_use]
    pub fn within(kind: impl Into<WatchedKind>, namespace: &Arc<str>) -> Self {
        Self { namespace: Some(namespace.clone()), ..Self::all(kind) }
    }

    /// One object.
    #[must_use]
    pub fn one(kind: impl Into<WatchedKind>, namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { name: Some(name.clone()), ..Self::within(kind, namespace) }
    }

    /// The path of the resource.
    pub(super) fn path(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let api = self.kind.api_kind().api();
        api.map(|api| api.path(self.version, namespace, "")).unwrap_or_default()
    }

    /// The group and version of the API.
    pub(super) fn api(&self) -> String {
        self.kind.api_kind().api().map(|api| api.api_version(self.version)).unwrap_or_default()
    }

    /// The field selector for the object's name.
    pub(super) fn field_selector(&self) -> Option<String> {
        self.name.as_ref().map(|name| format!("metadata.name={name}"))
    }

    /// `ingresses.networking.k8s.io` or `secrets`.
    pub(crate) fn resource(&self) -> String {
        self.kind.api_kind().api().map(|api| api.group_resource("")).unwrap_or_default()
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource())?;
        if let Some(name) = &self.name {
            write!(f, " \"{name}\"")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None if self.kind.api_kind().is_namespaced() => f.write_str(" in all namespaces"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_path_and_the_words_of_its_scope() {
        let all = Collection::all(Kind::Ingress);
        assert_eq!(all.path(), "/apis/networking.k8s.io/v1/ingresses");
        assert_eq!(all.to_string(), "ingresses.networking.k8s.io in all namespaces");
        let collection = Collection::one(Kind::ConfigMap, &"edge".into(), &"settings".into());
        assert_eq!(collection.path(), "/api/v1/namespaces/edge/configmaps");
        assert_eq!(collection.field_selector().as_deref(), Some("metadata.name=settings"));
        assert_eq!(collection.to_string(), "configmaps \"settings\" in namespace edge");
        assert_eq!(Collection::all(Kind::IngressClass).to_string(), "ingressclasses.networking.k8s.io");
        let routes = Collection::within(Kind::TlsRoute, &"shop".into()).in_version("v1alpha2");
        assert_eq!(routes.path(), "/apis/gateway.networking.k8s.io/v1alpha2/namespaces/shop/tlsroutes");
        assert_eq!(routes.to_string(), "tlsroutes.gateway.networking.k8s.io in namespace shop");
    }
}
