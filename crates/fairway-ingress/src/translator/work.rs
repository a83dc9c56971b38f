//! What an edit touches directly. Owns the first marks; the stages add what follows from them.

use std::collections::BTreeSet;

use fairway_model::{BackendKey, HostPattern};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::resources::Resources;

use crate::translator::state::State;

/// What must be looked at again.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) classes: bool,
    pub(super) settings: bool,
    /// Whether to report again that every client may claim any address, and what that makes spoofable.
    pub(super) report_trust: bool,
    pub(super) ingresses: BTreeSet<ObjectKey>,
    pub(super) old_ingresses: BTreeSet<ObjectKey>,
    pub(super) secrets: BTreeSet<ObjectKey>,
    pub(super) slices: BTreeSet<ObjectKey>,
    pub(super) hosts: BTreeSet<HostPattern>,
    /// Names that Ingresses claim besides their hosts.
    pub(super) claims: BTreeSet<HostPattern>,
    /// Names that hosts have besides their own.
    pub(super) names: BTreeSet<HostPattern>,
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

/// What an edit of `changed` touches.
pub(super) fn touched(
    state: &State,
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
            Kind::Pod => work.backends.extend(dependencies.pools.of(&key.namespace).cloned()),
            Kind::InferencePool | Kind::ServiceImport => {
                work.backends.extend(dependencies.backends.of(key).cloned());
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
                work.ingresses.extend(dependencies.secrets.of(key).cloned());
            }
            Kind::ConfigMap => {
                work.settings |= options.configmap.as_ref() == Some(key) || state.settings_maps.contains(key);
                work.ingresses.extend(dependencies.config_maps.of(key).cloned());
            }
            Kind::Resolved => work.backends.extend(dependencies.external.of(&key.name).cloned()),
            // No Ingress depends on what is of the Gateway API.
            _ => {}
        }
    }
    work
}

fn mark_service(state: &State, key: &ObjectKey, resources: &Resources, work: &mut Work) {
    let dependencies = &state.dependencies;
    for ingress in dependencies.services.of(key) {
        let served = state.ingresses.get(ingress).into_iter();
        work.hosts.extend(served.flat_map(|it| state.ingresses.hosts_reached(it)));
        if dependencies.refers_to_addresses(ingress) {
            // An address may be another Service's from now on, or nobody's.
            work.ingresses.insert(ingress.clone());
        }
    }
    for address in resources.addresses_of(key) {
        work.ingresses.extend(dependencies.addresses.of(&address).cloned());
    }
    work.backends.extend(state.dependencies.backends.of(key).cloned());
}
