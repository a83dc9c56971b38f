//! The ConfigMaps of TCP and UDP services (`--tcp-services-configmap` and `--udp-services-configmap` of
//! ingress-nginx): creates a listener and a route for each valid entry.

mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    ClientTraffic, Config, HostPattern, Listener, ListenerProtocol, Origin, PortProtocol, ProxyHeaderVersion,
    ProxyProtocolMode, StreamKey, StreamPolicy, StreamRoute, WeightedBackend,
};
use fairway_objects::backend::{BackendRef, ResolveError};
use fairway_objects::balance::Balance;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::options::{Options, ServiceMaps};
use fairway_objects::transport::Transport;

use crate::ingress::defaults::StreamDefaults;
use entry::ServiceMapEntry;

/// ingress-nginx: default of `proxy-stream-timeout`.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// The result of reading the ConfigMaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceMapReading {
    /// Served ports by listener name.
    pub(crate) ports: BTreeMap<Arc<str>, ServedPort>,
    /// The Services that entries name, existing or not.
    pub(crate) services: BTreeSet<ObjectKey>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A served port.
#[derive(Clone, Debug)]
pub(crate) struct ServedPort {
    pub(crate) listener: Listener,
    pub(crate) route: StreamRoute,
    pub(crate) backend: BackendRef,
}

/// Reads both ConfigMaps. `defaults` are those of the settings.
pub(crate) fn read(inputs: Inputs<'_>, defaults: StreamDefaults) -> ServiceMapReading {
    let mut reading = ServiceMapReading::default();
    let ServiceMaps { tcp, udp, .. } = &inputs.options.listeners.service_maps;
    for (protocol, map) in [(PortProtocol::Tcp, tcp), (PortProtocol::Udp, udp)] {
        if let Some(map) = map {
            reading.read_map(EntryReader { inputs, protocol, defaults }, map);
        }
    }
    reading
}

/// Moves the listeners of an earlier process's configuration to the addresses of the current options.
pub(crate) fn adapt(options: &Options, config: &mut Config) {
    let ServiceMaps { tcp, udp, .. } = &options.listeners.service_maps;
    let is_of =
        |origin: &Origin, map: &ObjectKey| (&map.namespace, &map.name) == (&origin.namespace, &origin.name);
    let entries: Vec<_> =
        config.listeners.values().filter(|listener| *listener.origin.kind == *"ConfigMap").cloned().collect();
    for listener in entries {
        let map = if listener.protocol == ListenerProtocol::Udp { udp } else { tcp };
        if map.as_ref().is_some_and(|map| is_of(&listener.origin, map)) {
            let bind = addresses(options, listener.public_port);
            config
                .listeners
                .insert(listener.name.clone(), Arc::new(Listener { bind, ..(*listener).clone() }));
        } else {
            config.listeners.remove(&listener.name);
            config.streams.remove(&StreamKey { table: listener.table.clone(), host: HostPattern::Any });
        }
    }
}

/// Reads the entries of one ConfigMap.
#[derive(Clone, Copy)]
struct EntryReader<'a> {
    inputs: Inputs<'a>,
    protocol: PortProtocol,
    defaults: StreamDefaults,
}

impl ServiceMapReading {
    fn read_map(&mut self, reader: EntryReader<'_>, key: &ObjectKey) {
        let Some(map) = reader.inputs.resources.config_maps.get(key) else {
            let origin = Origin::object("ConfigMap", &key.namespace, &key.name);
            let name = reader.protocol.name();
            let missing = Diagnostic::new(Severity::Warning, "missing-reference", origin);
            let problem =
                format!("ConfigMap {key} does not exist, though it is named for the {name} services");
            self.diagnostics.push(missing.because(problem, format!("no port of {name} is served by it")));
            return;
        };
        for (port, value) in map.object.data.iter().flatten() {
            let origin = map.origin(Kind::ConfigMap, key, &format!("data.{port}"));
            match reader.entry(port, value, &origin) {
                Ok((entry, served)) => {
                    let ignored = entry.ignored.map(|problem| {
                        let found = Diagnostic::new(
                            Severity::Warning,
                            "service-map-ignored",
                            served.listener.origin.clone(),
                        );
                        found.because(problem, "the port is served without it")
                    });
                    self.diagnostics.extend(ignored);
                    self.services.insert(entry.service);
                    self.ports.insert(served.listener.name.clone(), served);
                }
                Err(refusal) => {
                    let (service, found) = *refusal;
                    self.services.extend(service);
                    self.diagnostics.push(found);
                }
            }
        }
    }
}

/// Why an entry is not served, and the Service that it names.
type Refusal = Box<(Option<ObjectKey>, Diagnostic)>;

impl EntryReader<'_> {
    fn entry(
        self,
        key: &str,
        value: &str,
        origin: &Origin,
    ) -> Result<(ServiceMapEntry, ServedPort), Refusal> {
        let refused = |code, service: Option<&ObjectKey>, problem: String| {
            let found = Diagnostic::new(Severity::Error, code, origin.clone());
            let consequence = format!("nothing listens on this port of {}", self.protocol.name());
            Box::new((service.cloned(), found.because(problem, consequence)))
        };
        let entry = ServiceMapEntry::read(self.protocol, key, value)
            .map_err(|problem| refused("invalid-service-map", None, problem))?;
        if let Some(flag) = self.holder(entry.port) {
            let problem = format!("port {} is that of {flag}", entry.port);
            return Err(refused("reserved-port", Some(&entry.service), problem));
        }
        let transport = match self.protocol {
            PortProtocol::Tcp => Transport::Tcp,
            PortProtocol::Udp => Transport::Udp,
        };
        let balance = Balance::default();
        let backend =
            BackendRef::new(entry.service.clone(), entry.service_port.clone(), &transport, &balance);
        if let Err(error) = backend.resolve(self.inputs) {
            let (code, problem) = self.describe(&error, &backend);
            return Err(refused(code, Some(&entry.service), problem));
        }
        let served = self.served(&entry, backend, origin);
        Ok((entry, served))
    }

    /// The flag that already uses a port.
    fn holder(&self, port: u16) -> Option<&str> {
        let Options { listeners, trust, .. } = self.inputs.options;
        let own_listener = trust
            .external
            .own_addresses
            .conflicting_listener(self.protocol, &addresses(self.inputs.options, port));
        let reserved = || listeners.service_maps.reserved.iter().find(|it| it.has(port, self.protocol));
        own_listener.map(|own| own.flag).or_else(|| reserved().map(|taken| &*taken.reserved_by))
    }

    fn served(self, entry: &ServiceMapEntry, backend: BackendRef, origin: &Origin) -> ServedPort {
        let StreamDefaults { timeout, responses } = self.defaults;
        let (protocol, idle_timeout, responses) = match self.protocol {
            PortProtocol::Tcp => (ListenerProtocol::Tcp, Some(timeout.unwrap_or(DEFAULT_IDLE_TIMEOUT)), None),
            // Ten minutes, as in ingress-nginx, would let sessions pile up whose responses were lost.
            PortProtocol::Udp => (ListenerProtocol::Udp, timeout, responses),
        };
        let name: Arc<str> = format!("{}-{}", self.protocol.name().to_lowercase(), entry.port).into();
        let introduction = entry.header.from_clients.then(|| {
            let trusted = self.inputs.options.listeners.service_maps.proxy_senders.clone();
            ProxyProtocolMode::Required { trusted }
        });
        let listener = Listener {
            origin: origin.clone(),
            bind: addresses(self.inputs.options, entry.port),
            clients: ClientTraffic { proxy_protocol: introduction, ..ClientTraffic::default() },
            ..Listener::new(&name, protocol, entry.port, &name)
        };
        let introduce = entry.header.to_endpoints.then_some(ProxyHeaderVersion::V1);
        let route = StreamRoute {
            key: StreamKey { table: name, host: HostPattern::Any },
            origin: origin.clone(),
            backends: vec![WeightedBackend::new(backend.key.clone(), 1)],
            policy: StreamPolicy {
                proxy_header: introduce,
                idle_timeout,
                responses,
                ..StreamPolicy::default()
            },
        };
        ServedPort { listener, route, backend }
    }

    fn describe(self, error: &ResolveError, backend: &BackendRef) -> (&'static str, String) {
        let BackendRef { service, port, .. } = backend;
        match error {
            ResolveError::NoService => ("missing-reference", format!("Service {service} does not exist")),
            ResolveError::NoPort { known_names: known } => {
                let name = self.protocol.name();
                ("missing-reference", format!("Service {service} has no {name} port {port}; it has {known}"))
            }
            ResolveError::External => (
                "external-name-refused",
                format!(
                    "Service {service} is of type ExternalName, which is not served unless a flag allows it"
                ),
            ),
        }
    }
}

/// The port on the addresses of the plain HTTP listener of Ingresses, or else of the HTTPS listener.
fn addresses(options: &Options, port: u16) -> Vec<SocketAddr> {
    let (http, https) = (&options.listeners.http.bind, &options.listeners.https.bind);
    let of_ingresses = if http.is_empty() { https } else { http };
    let all: BTreeSet<_> = of_ingresses.iter().map(|at| SocketAddr::new(at.ip(), port)).collect();
    all.into_iter().collect()
}
