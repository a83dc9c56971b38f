//! An Ingress that is served, as it was read: what it asks for by itself. Never looks at other Ingresses; what several make
//! of a host together is in `host`.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{HostPattern, Origin};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use fairway_objects::options::Compat;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, IngressSpec};

use crate::ingress::canary::Canary;
use crate::ingress::contributions::{Contributions, Role};
use crate::ingress::pattern::Patterns;
use crate::ingress::shared_hosts::SharedHosts;

/// An Ingress that is served.
#[derive(Clone, Debug)]
pub(crate) struct ServedIngress {
    pub(crate) key: ObjectKey,
    pub(crate) object: Sourced<Ingress>,
    pub(crate) created: Option<i64>,
    /// The rules with a good host, by host.
    pub(crate) rules: Vec<(HostPattern, usize)>,
    /// Whether it shares what it asks for its Services with others.
    pub(crate) compat: Compat,
    /// With whom it shares its hosts where hosts have owners.
    pub(crate) shared_hosts: SharedHosts,
    /// Shared with others that contribute the same.
    pub(crate) contributions: Arc<Contributions>,
    pub(crate) patterns: Patterns,
}

impl ServedIngress {
    /// The object's `spec`, which a served one always has.
    pub(crate) fn spec(&self) -> Option<&IngressSpec> {
        self.object.object.spec.as_ref()
    }

    /// `spec.defaultBackend`.
    pub(crate) fn default_backend(&self) -> Option<&IngressBackend> {
        self.spec()?.default_backend.as_ref()
    }

    /// What it takes of other Ingresses, where it has no requests of its own.
    pub(crate) fn canary(&self) -> Option<&Canary> {
        match &self.contributions.role {
            Role::Main => None,
            Role::Canary(canary) => Some(canary),
        }
    }

    /// Whether it has a default backend and no rules: then it answers what no host answers.
    pub(crate) fn is_catch_all(&self) -> bool {
        let ruleless = self.spec().and_then(|spec| spec.rules.as_ref()).is_none_or(Vec::is_empty);
        ruleless && self.default_backend().is_some()
    }

    /// The hosts it has a part in, each once.
    pub(crate) fn hosts(&self) -> BTreeSet<HostPattern> {
        let mut hosts: BTreeSet<_> = self.rules.iter().map(|(host, _)| host.clone()).collect();
        if self.is_catch_all() {
            hosts.insert(HostPattern::Any);
        }
        hosts
    }

    /// The order of Ingresses: the oldest first, then by name. One that does not say its age is the youngest.
    pub(crate) fn age(&self) -> (i64, &ObjectKey) {
        (self.created.unwrap_or(i64::MAX), &self.key)
    }

    /// The place of a field.
    pub(crate) fn origin(&self, field: &str) -> Origin {
        self.object.origin(Kind::Ingress, &self.key, field)
    }
}
