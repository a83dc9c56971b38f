//! A path of a host, its owner and its origin, independent of other paths.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{Origin, ServiceName};
use fairway_objects::options::Compat;
use fairway_objects::shared;
use k8s_openapi::api::networking::v1::{HTTPIngressPath, IngressBackend, IngressServiceBackend};

use crate::ingress::closed::Closed;
use crate::ingress::pattern;
use crate::ingress::served::ServedIngress;

/// A path of a host and its owner.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// As written in the rule; `/` if empty.
    pub(crate) path: Arc<str>,
    pub(crate) kind: PathKind,
    /// `None` for the fallback response of a host without default backend or annotations for it.
    pub(crate) owner: Option<Arc<ServedIngress>>,
    pub(crate) source: LocationSource,
}

/// The kinds of paths in ingress-nginx; `ImplementationSpecific` is a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathKind {
    Exact,
    Prefix,
}

/// Where in its owner a location is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocationSource {
    /// `spec.rules[.0].http.paths[.1]`.
    Path(usize, usize),
    /// `spec.defaultBackend`.
    DefaultBackend,
    /// Nowhere: the response is 404.
    Nowhere,
}

impl Location {
    /// The backend that the object names.
    pub(crate) fn backend(&self) -> Option<&IngressBackend> {
        let owner = self.owner.as_ref()?;
        match self.source {
            LocationSource::Path(rule, path) => http_path(owner, rule, path).map(|path| &path.backend),
            LocationSource::DefaultBackend => owner.default_backend(),
            LocationSource::Nowhere => None,
        }
    }

    /// The Service and port of its backend.
    pub(crate) fn service(&self) -> Option<ServiceName> {
        service_name(self.owner.as_ref()?, self.backend()?)
    }

    /// Whether its Ingress shares nothing with others of the same Service.
    pub(crate) fn is_strict(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.compat == Compat::Strict)
    }

    /// The field that defines it.
    pub(crate) fn field(&self) -> String {
        match self.source {
            LocationSource::Path(rule, path) => format!("spec.rules[{rule}].http.paths[{path}]"),
            LocationSource::DefaultBackend => "spec.defaultBackend".to_owned(),
            LocationSource::Nowhere => String::new(),
        }
    }

    /// The rewrite of its path by `rewrite-target`, if different (`needsRewrite`).
    pub(crate) fn rewrite(&self) -> Option<&Arc<str>> {
        let target = self.owner.as_ref()?.contributions.rewrite.target.as_ref()?;
        (*target != self.path).then_some(target)
    }

    /// Why all paths of its Ingress are closed.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.owner.as_ref()?.contributions.closed
    }

    /// Whether its Ingress restricts access.
    pub(crate) fn is_protected(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.contributions.restrict_access())
    }

    /// Whether its Ingress turns the paths of the host into patterns.
    pub(crate) fn asks_for_patterns(&self) -> bool {
        let by_annotation = |owner: &Arc<ServedIngress>| owner.contributions.use_regex;
        self.rewrite().is_some() || self.owner.as_ref().is_some_and(by_annotation)
    }

    /// Whether it is a regular expression, by its type and its form.
    pub(crate) fn is_pattern(&self) -> bool {
        self.asks_for_patterns() && pattern::looks_like_pattern(&self.path)
    }

    /// Whether a rule defines it.
    pub(crate) fn is_path(&self) -> bool {
        matches!(self.source, LocationSource::Path(..))
    }

    /// Its origin, or that of a field below it.
    pub(crate) fn origin(&self, field: &str) -> Origin {
        let owner = self.owner.as_ref();
        owner.map_or_else(Origin::default, |owner| owner.origin(&format!("{}{field}", self.field())))
    }
}

/// The Services and ports that an Ingress names in served rules and as its default backend.
pub(crate) fn services_of(ingress: &ServedIngress) -> BTreeSet<ServiceName> {
    let all = ingress.spec().and_then(|spec| spec.rules.as_deref()).unwrap_or_default();
    let rules = ingress.rules.iter().filter_map(|(_, at)| all.get(*at)?.http.as_ref());
    let backends = rules.flat_map(|http| &http.paths).map(|path| &path.backend);
    let backends = backends.chain(ingress.default_backend());
    backends.filter_map(|backend| service_name(ingress, backend)).collect()
}

fn service_name(ingress: &ServedIngress, backend: &IngressBackend) -> Option<ServiceName> {
    let service = backend.service.as_ref()?;
    let namespace = ingress.key.namespace.clone();
    Some(ServiceName { namespace, name: shared::text(&service.name), port: port_text(service)? })
}

/// The port of a rule as text.
pub(crate) fn port_text(backend: &IngressServiceBackend) -> Option<Arc<str>> {
    let port = backend.port.as_ref()?;
    match (&port.name, port.number) {
        (Some(name), _) if !name.is_empty() => Some(shared::text(name)),
        (_, Some(number)) => Some(shared::text(&number.to_string())),
        _ => None,
    }
}

/// A path of an Ingress, by rule and path index.
pub(crate) fn http_path(owner: &ServedIngress, rule: usize, path: usize) -> Option<&HTTPIngressPath> {
    owner.spec()?.rules.as_ref()?.get(rule)?.http.as_ref()?.paths.get(path)
}
