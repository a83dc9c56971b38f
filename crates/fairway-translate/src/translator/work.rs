//! What an edit touches directly. Owns the first marks; the stages add what follows from them.

use std::collections::BTreeSet;

use fairway_model::{BackendKey, HostPattern};

use super::Translator;
use crate::resources::{Kind, ObjectKey, ObjectRef, Resources};

/// Whether it must be said again who may claim any address, and what that makes spoofable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClaimsWork {
    #[default]
    Rest,
    Tell,
}

/// What must be looked at again.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) classes: bool,
    pub(super) settings: bool,
    pub(super) claims: ClaimsWork,
    pub(super) ingresses: BTreeSet<ObjectKey>,
    pub(super) old_ingresses: BTreeSet<ObjectKey>,
    pub(super) secrets: BTreeSet<ObjectKey>,
    pub(super) slices: BTreeSet<ObjectKey>,
    pub(super) hosts: BTreeSet<HostPattern>,
    pub(super) backends: BTreeSet<BackendKey>,
    /// Secrets whose certificate may enter or leave the configuration.
    pub(super) certificates: BTreeSet<ObjectKey>,
}

impl Work {
    /// Everything.
    pub(super) fn all(resources: &Resources) -> Self {
        Self {
            classes: true,
            settings: true,
            ingresses: resources.ingresses.keys().cloned().collect(),
            old_ingresses: resources.old_ingresses.keys().cloned().collect(),
            slices: resources.slices.keys().cloned().collect(),
            hosts: [HostPattern::Any].into(),
            ..Self::default()
        }
    }
}

impl Translator {
    /// What an edit of `changed` touches.
    pub(super) fn work(&self, changed: &[ObjectRef]) -> Work {
        let mut work = Work::default();
        for ObjectRef { kind, key } in changed {
            match kind {
                Kind::Ingress => drop(work.ingresses.insert(key.clone())),
                Kind::OldIngress => drop(work.old_ingresses.insert(key.clone())),
                Kind::IngressClass => work.classes = true,
                Kind::EndpointSlice => drop(work.slices.insert(key.clone())),
                Kind::Service => self.mark_service(key, &mut work),
                Kind::Secret => {
                    work.secrets.insert(key.clone());
                    work.ingresses.extend(self.dependencies.secrets.of(key).cloned());
                }
                Kind::ConfigMap => {
                    work.settings |= self.options.configmap.as_ref() == Some(key);
                    work.ingresses.extend(self.dependencies.config_maps.of(key).cloned());
                }
                Kind::Resolved => work.backends.extend(self.dependencies.external.of(&key.name).cloned()),
            }
        }
        work
    }

    fn mark_service(&self, key: &ObjectKey, work: &mut Work) {
        for ingress in self.dependencies.services.of(key) {
            work.hosts.extend(self.plans.get(ingress).into_iter().flat_map(|plan| plan.hosts()));
        }
        work.backends.extend(self.dependencies.backends.of(key).cloned());
    }
}
