//! Marks what a change affects directly; the stages mark what follows from it.

use std::collections::BTreeSet;

use fairway_model::{BackendKey, HostPattern};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::resources::Resources;

use crate::translator::state::TranslatorState;

/// What must be updated.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) classes: bool,
    pub(super) settings: bool,
    /// Whether to repeat the diagnostics about clients that can claim any address.
    pub(super) report_trust: bool,
    pub(super) ingresses: BTreeSet<ObjectKey>,
    pub(super) old_ingresses: BTreeSet<ObjectKey>,
    pub(super) secrets: BTreeSet<ObjectKey>,
    pub(super) slices: BTreeSet<ObjectKey>,
    pub(super) hosts: BTreeSet<HostPattern>,
    /// Claimed names.
    pub(super) claims: BTreeSet<HostPattern>,
    /// Aliases.
    pub(super) names: BTreeSet<HostPattern>,
    pub(super) backends: BTreeSet<BackendKey>,
    /// Secrets whose certificates may become used or unused.
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

/// What a change of `changed` affects.
pub(super) fn work_for_changes(
    state: &TranslatorState,
    changed: &[ObjectRef],
    resources: &Resources,
    options: &Options,
) -> Work {
    let mut work = Work::default();
    let dependencies = &state.dependencies;
    for ObjectRef { kind, key } in changed {
        match kind {
            Kind::Ingress => drop(work.ingresses.insert(key.clone())),
            Kind::OldIngress => drop(work.old_ingresses.insert(key.clone())),
            Kind::IngressClass => work.classes = true,
            Kind::EndpointSlice => drop(work.slices.insert(key.clone())),
            Kind::Pod => work.backends.extend(dependencies.pools.users_of(&key.namespace).cloned()),
            Kind::InferencePool | Kind::ServiceImport => {
                work.backends.extend(dependencies.backends.users_of(key).cloned());
            }
            Kind::Service => {
                mark_service(state, key, resources, &mut work);
                if options.defaults.backend.as_ref() == Some(key) {
                    work.settings = true;
                    work.hosts.extend(state.hosts.keys().cloned());
                }
            }
            Kind::Secret => {
                work.secrets.insert(key.clone());
                work.ingresses.extend(dependencies.secrets.users_of(key).cloned());
            }
            Kind::ConfigMap => {
                work.settings |= options.configmap.as_ref() == Some(key) || state.settings_maps.contains(key);
                work.ingresses.extend(dependencies.config_maps.users_of(key).cloned());
            }
            Kind::Resolved => work.backends.extend(dependencies.external.users_of(&key.name).cloned()),
            // No Ingress depends on Gateway API objects.
            _ => {}
        }
    }
    work
}

fn mark_service(state: &TranslatorState, key: &ObjectKey, resources: &Resources, work: &mut Work) {
    let dependencies = &state.dependencies;
    for ingress in dependencies.services.users_of(key) {
        let served = state.ingresses.get(ingress).into_iter();
        work.hosts.extend(served.flat_map(|it| state.ingresses.hosts_reached(it)));
        if dependencies.refers_to_addresses(ingress) {
            // An address may now belong to another Service, or to none.
            work.ingresses.insert(ingress.clone());
        }
    }
    for address in resources.addresses_of(key) {
        work.ingresses.extend(dependencies.addresses.users_of(&address).cloned());
    }
    work.backends.extend(state.dependencies.backends.users_of(key).cloned());
}
