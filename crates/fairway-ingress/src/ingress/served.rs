//! A served Ingress as read, independent of other Ingresses; `host` combines several into a host.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{HostPattern, Origin};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use fairway_objects::options::Compat;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, IngressSpec};

use crate::ingress::canary::Canary;
use crate::ingress::contributions::{Contributions, IngressRole};
use crate::ingress::pattern::Patterns;
use crate::ingress::shared_hosts::SharedHosts;

/// A served Ingress.
#[derive(Clone, Debug)]
pub(crate) struct ServedIngress {
    pub(crate) key: ObjectKey,
    pub(crate) object: Sourced<Ingress>,
    pub(crate) created: Option<i64>,
    /// Its valid rules by host.
    pub(crate) rules: Vec<(HostPattern, usize)>,
    /// Whether it shares Service settings with others.
    pub(crate) compat: Compat,
    /// With whom it shares its hosts, if hosts have owners.
    pub(crate) shared_hosts: SharedHosts,
    /// Shared by Ingresses with equal contributions.
    pub(crate) contributions: Arc<Contributions>,
    pub(crate) patterns: Patterns,
}

impl ServedIngress {
    /// The object's `spec`, which every served Ingress has.
    pub(crate) fn spec(&self) -> Option<&IngressSpec> {
        self.object.object.spec.as_ref()
    }

    /// `spec.defaultBackend`.
    pub(crate) fn default_backend(&self) -> Option<&IngressBackend> {
        self.spec()?.default_backend.as_ref()
    }

    /// Its canary settings, if it is a canary.
    pub(crate) fn canary(&self) -> Option<&Canary> {
        match &self.contributions.role {
            IngressRole::Main => None,
            IngressRole::Canary(canary) => Some(canary),
        }
    }

    /// Whether it has a default backend and no rules: then it serves requests that no host serves.
    pub(crate) fn is_catch_all(&self) -> bool {
        let ruleless = self.spec().and_then(|spec| spec.rules.as_ref()).is_none_or(Vec::is_empty);
        ruleless && self.default_backend().is_some()
    }

    /// Its hosts, each once.
    pub(crate) fn hosts(&self) -> BTreeSet<HostPattern> {
        let mut hosts: BTreeSet<_> = self.rules.iter().map(|(host, _)| host.clone()).collect();
        if self.is_catch_all() {
            hosts.insert(HostPattern::Any);
        }
        hosts
    }

    /// Sort key of Ingresses: the oldest first, then by name. An unknown age is the youngest.
    pub(crate) fn age(&self) -> (i64, &ObjectKey) {
        (self.created.unwrap_or(i64::MAX), &self.key)
    }

    /// The origin of a field.
    pub(crate) fn origin(&self, field: &str) -> Origin {
        self.object.origin(Kind::Ingress, &self.key, field)
    }
}
