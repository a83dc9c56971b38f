//! What is listed and watched: a kind of object, everywhere or in a namespace, all of them or the one of a name. Owns
//! its paths and its words; never sends anything.

use std::fmt;
use std::sync::Arc;

use fairway_translate::Kind;

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// `networking.k8s.io/v1` Ingress.
    Ingress,
    /// `networking.k8s.io/v1` IngressClass.
    IngressClass,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Secret.
    Secret,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Namespace, which says where to look for the others.
    Namespace,
}

/// Objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collection {
    /// The kind.
    pub kind: Watched,
    /// The namespace; all of them where there is none.
    pub namespace: Option<Arc<str>>,
    /// The one object; all of them where there is none.
    pub name: Option<Arc<str>>,
    /// The labels they must have.
    pub labels: Option<Arc<str>>,
}

impl Watched {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::IngressClass => "IngressClass",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Namespace => "Namespace",
        }
    }

    /// The name of the resource in paths and in roles.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Ingress => "ingresses",
            Self::IngressClass => "ingressclasses",
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::Namespace => "namespaces",
        }
    }

    /// The group and version of its API.
    #[must_use]
    pub fn api(self) -> &'static str {
        match self {
            Self::Ingress | Self::IngressClass => "networking.k8s.io/v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
            _ => "v1",
        }
    }

    /// The kind of the objects that are passed on; Namespaces are not.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Ingress => Some(Kind::Ingress),
            Self::IngressClass => Some(Kind::IngressClass),
            Self::Service => Some(Kind::Service),
            Self::EndpointSlice => Some(Kind::EndpointSlice),
            Self::Secret => Some(Kind::Secret),
            Self::ConfigMap => Some(Kind::ConfigMap),
            Self::Namespace => None,
        }
    }

    /// Whether its objects are in namespaces.
    pub(super) fn is_namespaced(self) -> bool {
        !matches!(self, Self::IngressClass | Self::Namespace)
    }
}

impl Collection {
    /// All objects of a kind.
    #[must_use]
    pub fn all(kind: Watched) -> Self {
        Self { kind, namespace: None, name: None, labels: None }
    }

    /// Those in a namespace.
    #[must_use]
    pub fn within(kind: Watched, namespace: &Arc<str>) -> Self {
        Self { namespace: Some(namespace.clone()), ..Self::all(kind) }
    }

    /// One object.
    #[must_use]
    pub fn one(kind: Watched, namespace: &Arc<str>, name: &Arc<str>) -> Self {
        Self { name: Some(name.clone()), ..Self::within(kind, namespace) }
    }

    /// The path of the resource (Kubernetes API concepts, "Resource URIs").
    pub(super) fn path(&self) -> String {
        let root = if self.kind.api() == "v1" { "/api" } else { "/apis" };
        let (api, resource) = (self.kind.api(), self.kind.resource());
        match &self.namespace {
            Some(namespace) => format!("{root}/{api}/namespaces/{namespace}/{resource}"),
            None => format!("{root}/{api}/{resource}"),
        }
    }

    /// The objects' names as a field selector.
    pub(super) fn fields(&self) -> Option<String> {
        self.name.as_ref().map(|name| format!("metadata.name={name}"))
    }

    /// `ingresses.networking.k8s.io` or `secrets`.
    pub(super) fn resource(&self) -> String {
        match self.kind.api().rsplit_once('/') {
            Some((group, _)) => format!("{}.{group}", self.kind.resource()),
            None => self.kind.resource().to_owned(),
        }
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
            None if self.kind.is_namespaced() => f.write_str(" in all namespaces"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_path_and_the_words_of_its_scope() {
        let all = Collection::all(Watched::Ingress);
        assert_eq!(all.path(), "/apis/networking.k8s.io/v1/ingresses");
        assert_eq!(all.to_string(), "ingresses.networking.k8s.io in all namespaces");
        let one = Collection::one(Watched::ConfigMap, &"edge".into(), &"settings".into());
        assert_eq!(one.path(), "/api/v1/namespaces/edge/configmaps");
        assert_eq!(one.fields().as_deref(), Some("metadata.name=settings"));
        assert_eq!(one.to_string(), "configmaps \"settings\" in namespace edge");
        assert_eq!(Collection::all(Watched::IngressClass).to_string(), "ingressclasses.networking.k8s.io");
    }
}
