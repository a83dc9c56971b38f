//! Applies the ConfigMaps of TCP and UDP services to the configuration. They are read completely, but only if one of
//! them, a Service that they name or a key `proxy-stream-*` changed: they have few entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_gateway::ServicePort;
use fairway_model::{BackendKey, HostPattern, Origin, StreamKey};
use fairway_objects::diagnostic::DiagnosticScope;
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::Options;

use crate::ingress::defaults::StreamDefaults;
use crate::service_maps::{self, ServedPort};
use crate::translator::state::{BackendUser, TranslatorState};
use crate::translator::work::Work;

/// The result of the ConfigMaps. Cloning is free.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceMapStage {
    /// `None` before the first update.
    result: Option<Arc<ServiceMapResult>>,
}

#[derive(Debug, Default)]
struct ServiceMapResult {
    defaults: StreamDefaults,
    services: BTreeSet<ObjectKey>,
    listeners: BTreeSet<Arc<str>>,
    ports: BTreeSet<ServicePort>,
    backends: BTreeSet<BackendKey>,
}

/// The previous and current ports of the ConfigMaps.
#[derive(Debug, Default)]
pub(super) struct PortChange {
    pub(super) before: BTreeSet<ServicePort>,
    pub(super) after: BTreeSet<ServicePort>,
}

impl ServiceMapStage {
    /// Rebuilds everything if an input changed, and marks the backends. Gateways get none of its ports.
    pub(super) fn make(
        &mut self,
        state: &mut TranslatorState,
        inputs: Inputs<'_>,
        changed: &[ObjectRef],
        work: &mut Work,
    ) -> PortChange {
        let defaults = state.defaults.forwarding.streams;
        let previous = self.result.clone();
        if previous.as_ref().is_some_and(|made| !made.is_touched(inputs.options, changed, defaults)) {
            return PortChange::default();
        }
        let before = previous.unwrap_or_default();
        let reading = service_maps::read(inputs, defaults);
        let result = ServiceMapResult {
            defaults,
            services: reading.services,
            listeners: reading.ports.keys().cloned().collect(),
            ports: reading.ports.values().map(gateway_port).collect(),
            backends: reading.ports.values().map(|port| port.backend.key.clone()).collect(),
        };
        for key in before.backends.difference(&result.backends) {
            state.release_backend(&BackendUser::ServiceMaps, key, work);
        }
        for name in before.listeners.difference(&result.listeners) {
            state.stop_serving(name);
        }
        for port in reading.ports.into_values() {
            state.use_backend(BackendUser::ServiceMaps, port.backend.clone(), work);
            state.serve_port(port);
        }
        state.current.diagnostics.replace(DiagnosticScope::ServiceMaps, reading.diagnostics);
        let change = PortChange { before: before.ports.clone(), after: result.ports.clone() };
        self.result = Some(Arc::new(result));
        change
    }
}

/// A port as Gateways need to know it.
fn gateway_port(ServedPort { listener, .. }: &ServedPort) -> ServicePort {
    let Origin { namespace, name, .. } = &listener.origin;
    ServicePort {
        protocol: listener.protocol.port_protocol(),
        number: listener.public_port,
        bind: listener.bind.clone(),
        map: ObjectKey { namespace: namespace.clone(), name: name.clone() },
    }
}

impl ServiceMapResult {
    fn is_touched(&self, options: &Options, changed: &[ObjectRef], defaults: StreamDefaults) -> bool {
        let maps = &options.listeners.service_maps;
        let is_map = |key: &ObjectKey| maps.tcp.as_ref() == Some(key) || maps.udp.as_ref() == Some(key);
        let concerns = |ObjectRef { kind, key }: &ObjectRef| match kind {
            Kind::ConfigMap => is_map(key),
            Kind::Service => self.services.contains(key),
            _ => false,
        };
        self.defaults != defaults || changed.iter().any(concerns)
    }
}

impl TranslatorState {
    fn serve_port(&mut self, ServedPort { listener, route, .. }: ServedPort) {
        let config = &mut self.current.config;
        if config.listeners.get(&listener.name).is_none_or(|before| **before != listener) {
            config.listeners.insert(listener.name.clone(), Arc::new(listener));
        }
        if config.streams.get(&route.key).is_none_or(|before| **before != route) {
            config.streams.insert(route.key.clone(), Arc::new(route));
        }
    }

    /// The table of a port is named like its listener.
    fn stop_serving(&mut self, name: &Arc<str>) {
        let config = &mut self.current.config;
        config.listeners.remove(name);
        config.streams.remove(&StreamKey { table: name.clone(), host: HostPattern::Any });
    }
}
