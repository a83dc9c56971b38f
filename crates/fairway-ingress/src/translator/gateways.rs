//! Applies Gateway API changes to the configuration, and tracks the backends and certificates that they use, which
//! Ingresses and Gateways share.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_gateway::{ConfigChanges, Gateways, Work as GatewayWork};
use fairway_model::BackendKey;
use fairway_objects::backend::BackendRef;
use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{ObjectKey, ObjectRef};
use fairway_objects::options::Options;
use fairway_objects::resources::Resources;
use imbl::OrdMap;

use crate::listeners;
use crate::translator::service_maps::PortChange;
use crate::translator::state::{BackendUser, CertificateUser, TranslatorState};
use crate::translator::work::Work;

/// The Gateway API translation and its users. Cloning is free.
#[derive(Clone, Debug)]
pub(super) struct GatewayStage {
    gateways: Gateways,
    /// Backends of each route, each once.
    backends: OrdMap<ObjectRef, Arc<[BackendKey]>>,
    /// Secrets whose certificates each listener uses.
    certificates: OrdMap<Arc<str>, Arc<BTreeSet<ObjectKey>>>,
}

impl GatewayStage {
    /// Before the first update.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            gateways: Gateways::new(&options.gateways.controller),
            backends: OrdMap::new(),
            certificates: OrdMap::new(),
        }
    }

    /// The translation.
    pub(super) fn gateways(&self) -> &Gateways {
        &self.gateways
    }

    /// Marks everything.
    pub(super) fn mark_all(&mut self, resources: &Resources) -> GatewayWork {
        self.gateways.mark_all(resources)
    }

    /// Marks what the changed objects affect.
    pub(super) fn mark_changes(&mut self, resources: &Resources, changed: &[ObjectRef]) -> GatewayWork {
        self.gateways.note(resources, changed)
    }

    /// Marks what changed ports of TCP and UDP services affect.
    pub(super) fn exchange_service_ports(&mut self, ports: &PortChange, noted: &mut GatewayWork) {
        self.gateways.replace_service_ports(&ports.before, &ports.after, noted);
    }

    /// Rebuilds what is marked, and marks the backends and certificates that it uses.
    pub(super) fn make(
        &mut self,
        state: &mut TranslatorState,
        inputs: Inputs<'_>,
        noted: GatewayWork,
        work: &mut Work,
    ) {
        let certificates = &state.certificates;
        let mut chunks = self.gateways.update(inputs, noted, &|key| certificates.state(key));
        for (route, backends) in std::mem::take(&mut chunks.backends) {
            self.use_backends(state, &route, backends, work);
        }
        for (listener, secrets) in std::mem::take(&mut chunks.certificates) {
            self.show_certificates(state, &listener, secrets, work);
        }
        state.apply_changes(chunks);
        listeners::set_gateway_tables(self.gateways.shared_tables(), &mut state.current.config);
        state.current.gateway = self.gateways.translation().clone();
    }

    fn use_backends(
        &mut self,
        state: &mut TranslatorState,
        route: &ObjectRef,
        backends: Vec<BackendRef>,
        work: &mut Work,
    ) {
        let user = BackendUser::Route(route.clone());
        let after: BTreeSet<BackendKey> = backends.iter().map(|backend| backend.key.clone()).collect();
        let before = self.backends.remove(route).unwrap_or_default();
        for key in before.iter().filter(|key| !after.contains(*key)) {
            state.release_backend(&user, key, work);
        }
        for backend in backends {
            state.use_backend(user.clone(), backend, work);
        }
        if !after.is_empty() {
            self.backends.insert(route.clone(), after.into_iter().collect());
        }
    }

    fn show_certificates(
        &mut self,
        state: &mut TranslatorState,
        listener: &Arc<str>,
        after: BTreeSet<ObjectKey>,
        work: &mut Work,
    ) {
        let user = CertificateUser::Listener(listener.clone());
        let before = self.certificates.remove(listener).unwrap_or_default();
        for secret in before.difference(&after) {
            state.certificate_users.remove(secret, &user);
        }
        for secret in after.difference(&before) {
            state.certificate_users.add(secret, user.clone());
        }
        work.certificates.extend(before.symmetric_difference(&after).cloned());
        if !after.is_empty() {
            self.certificates.insert(listener.clone(), Arc::new(after));
        }
    }
}

impl TranslatorState {
    /// Applies changes to the configuration.
    fn apply_changes(&mut self, chunks: ConfigChanges) {
        let config = &mut self.current.config;
        for (name, listener) in chunks.listeners {
            match listener {
                Some(listener) => drop(config.listeners.insert(name, listener)),
                None => drop(config.listeners.remove(&name)),
            }
        }
        for (key, host) in chunks.hosts {
            match host {
                Some(host) if config.hosts.get(&key).is_some_and(|before| *before == host) => {}
                Some(host) => drop(config.hosts.insert(key, host)),
                None => drop(config.hosts.remove(&key)),
            }
        }
        for (key, stream) in chunks.streams {
            match stream {
                Some(stream) if config.streams.get(&key).is_some_and(|before| *before == stream) => {}
                Some(stream) => drop(config.streams.insert(key, stream)),
                None => drop(config.streams.remove(&key)),
            }
        }
        for (object, found) in chunks.diagnostics {
            self.current.diagnostics.replace(DiagnosticScope::Object(object), found);
        }
    }
}
