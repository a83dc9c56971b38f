//! What is listed and watched: a kind of object, everywhere or in a namespace, all of them or the one of a name. Owns
//! its paths and its words; never sends anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fairway_objects::kinds::Kind;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Namespaces, which only say where to look for the others.
    Selection,
    /// Objects of a kind, which are passed on.
    Objects(Kind),
    /// Objects of a kind with all that they have, for who writes such objects; they are not passed on.
    Whole(Kind),
}

/// The kinds of the Gateway API that a cluster has, with their versions.
pub(super) type Offered = BTreeMap<Kind, BTreeSet<&'static str>>;

/// Objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection {
    /// The kind.
    pub kind: Watched,
    /// The version of its API.
    pub version: &'static str,
    /// The namespace; all of them where there is none.
    pub namespace: Option<Arc<str>>,
    /// The one object; all of them where there is none.
    pub name: Option<Arc<str>>,
    /// The labels they must have.
    pub labels: Option<Arc<str>>,
}

impl From<Kind> for Watched {
    fn from(kind: Kind) -> Self {
        Self::Objects(kind)
    }
}

impl Watched {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.read_as().name()
    }

    /// The kind of the objects that are passed on.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Selection | Self::Whole(_) => None,
            Self::Objects(kind) => Some(kind),
        }
    }

    /// The kind that is asked for.
    pub(super) fn read_as(self) -> Kind {
        match self {
            Self::Selection => Kind::Namespace,
            Self::Objects(kind) | Self::Whole(kind) => kind,
        }
    }
}

impl Collection {
    /// All objects of a kind.
    #[must_use]
    pub fn all(kind: impl Into<Watched>) -> Self {
        Self { kind: kind.into(), version: "v1", namespace: None, name: None, labels: None }
    }

    /// The same in another version of its API.
    #[must_use]
    pub(super) fn in_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// Those in a namespace.
    #[must_use]
    pub fn within(kind: impl Into<Watched>, namespace: &Arc<str>) -> Self {
        Self { namespace: Some(namespace.clone()), ..Self::all(kind) }
    }

    /// One object.
    #[must_use]
    pub fn one(kind: impl Into<Watched>, namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { name: Some(name.clone()), ..Self::within(kind, namespace) }
    }

    /// The path of the resource.
    pub(super) fn path(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let api = self.kind.read_as().api();
        api.map(|api| api.path(self.version, namespace, "")).unwrap_or_default()
    }

    /// The group and version of its API.
    pub(super) fn api(&self) -> String {
        self.kind.read_as().api().map(|api| api.api_version(self.version)).unwrap_or_default()
    }

    /// The objects' names as a field selector.
    pub(super) fn fields(&self) -> Option<String> {
        self.name.as_ref().map(|name| format!("metadata.name={name}"))
    }

    /// `ingresses.networking.k8s.io` or `secrets`.
    pub(crate) fn resource(&self) -> String {
        self.kind.read_as().api().map(|api| api.group_resource("")).unwrap_or_default()
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
            None if self.kind.read_as().is_namespaced() => f.write_str(" in all namespaces"),
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
        let one = Collection::one(Kind::ConfigMap, &"edge".into(), &"settings".into());
        assert_eq!(one.path(), "/api/v1/namespaces/edge/configmaps");
        assert_eq!(one.fields().as_deref(), Some("metadata.name=settings"));
        assert_eq!(one.to_string(), "configmaps \"settings\" in namespace edge");
        assert_eq!(Collection::all(Kind::IngressClass).to_string(), "ingressclasses.networking.k8s.io");
        let routes = Collection::within(Kind::TlsRoute, &"shop".into()).in_version("v1alpha2");
        assert_eq!(routes.path(), "/apis/gateway.networking.k8s.io/v1alpha2/namespaces/shop/tlsroutes");
        assert_eq!(routes.to_string(), "tlsroutes.gateway.networking.k8s.io in namespace shop");
    }
}
