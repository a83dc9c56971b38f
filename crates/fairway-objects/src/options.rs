//! What the operator chose by flags. Owns defaults; never reads flags or the environment itself.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use fairway_model::{DatagramSettings, DownstreamSettings, ForwardedPath, PortProtocol};
use ipnet::IpNet;

use crate::object::ObjectKey;
use crate::own::Own;

/// The `spec.controller` of Fairway's own IngressClass objects.
pub const CONTROLLER: &str = "fairway.dev/ingress-controller";

/// The `spec.controllerName` of Fairway's own GatewayClass objects.
pub const GATEWAY_CONTROLLER: &str = "fairway.dev/gateway-controller";

/// The operator's choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The names that the annotation `kubernetes.io/ingress.class` may give for this controller, besides the names of
    /// its IngressClass objects.
    pub ingress_classes: Vec<Arc<str>>,
    /// The `spec.controller` of the IngressClass objects that are served.
    pub controllers: Vec<Arc<str>>,
    /// What happens to an Ingress that names no class, when no class of this controller is the default one.
    pub without_class: WithoutClass,
    /// What serves where objects say nothing.
    pub defaults: Defaults,
    /// The settings ConfigMap.
    pub configmap: Option<ObjectKey>,
    /// The prefix of annotations, without the slash.
    pub annotations_prefix: Arc<str>,
    /// Whose word is taken, and where external names may lead.
    pub trust: Trust,
    /// Whether endpoints may have loopback addresses.
    pub loopback_endpoints: LoopbackEndpoints,
    /// What holds for all hosts.
    pub hosts: HostOptions,
    /// Where the listeners of Ingresses are.
    pub listeners: IngressListeners,
    /// Which Gateways are served, and where.
    pub gateways: GatewayOptions,
    /// The clients' side where the settings ConfigMap says nothing.
    pub clients: ClientDefaults,
    /// The web application firewall. Paths that ask for one answer 503 where there is none.
    pub firewall: Option<Firewall>,
}

/// Where the web application firewall (`fairway-waf`) answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firewall {
    /// An address, or the name of a Service: `NAME.NAMESPACE.svc`.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

/// How clients are treated where nothing else says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientDefaults {
    /// Their connections and requests.
    pub downstream: DownstreamSettings,
    /// Their sessions of datagrams.
    pub datagrams: DatagramSettings,
}

/// What serves where objects say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The Secret for TLS clients that name no host with a certificate.
    pub certificate: Option<ObjectKey>,
    /// The Service, by its first port, for requests of the Ingress listeners that no rule serves, and for pages of
    /// `custom-http-errors` without a `default-backend` of their own; 404 where there is none.
    pub backend: Option<ObjectKey>,
}

/// Where the listeners of Ingresses are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressListeners {
    /// The plain one.
    pub http: ListenAt,
    /// The one with TLS.
    pub https: ListenAt,
    /// Those of TCP and UDP, which are bound to the IP addresses of the plain one.
    pub service_maps: ServiceMaps,
}

impl IngressListeners {
    /// The name of the plain one.
    pub const HTTP: &str = "http";
    /// The name of the one with TLS.
    pub const HTTPS: &str = "https";
    /// The name of their route table.
    pub const TABLE: &str = "ingress";
}

/// The ConfigMaps of TCP and UDP services: each key is a port, and its value names the Service that it leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceMaps {
    /// That of TCP.
    pub tcp: Option<ObjectKey>,
    /// That of UDP.
    pub udp: Option<ObjectKey>,
    /// Who may name a client by the PROXY protocol at a port that expects it; every peer where there is none.
    pub proxy_senders: Vec<IpNet>,
    /// Ports that are kept from these services besides those of [`Own::listeners`].
    pub reserved: Vec<ReservedPorts>,
}

/// Ports that are kept from TCP and UDP services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedPorts {
    /// Their numbers.
    pub ports: RangeInclusive<u16>,
    /// Whose they are: a flag.
    pub by: Arc<str>,
    /// What arrives at them; `None` is anything.
    pub protocol: Option<PortProtocol>,
}

impl ReservedPorts {
    /// Connections to the port of `by`.
    #[must_use]
    pub fn tcp(port: u16, by: &str) -> Self {
        Self { ports: port..=port, by: by.into(), protocol: Some(PortProtocol::Tcp) }
    }

    /// Whether `port` is one of them.
    #[must_use]
    pub fn has(&self, port: u16, protocol: PortProtocol) -> bool {
        self.ports.contains(&port) && self.protocol.is_none_or(|own| own == protocol)
    }
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAt {
    /// The addresses to bind; none where nothing is served.
    pub bind: Vec<SocketAddr>,
    /// The port on which clients see it.
    pub public_port: u16,
}

/// Which Gateways are served, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// The `spec.controllerName` of the GatewayClass objects that are served.
    pub controller: Arc<str>,
    /// Where Gateways are.
    pub places: Places,
    /// Which of them are read.
    pub scope: GatewayScope,
}

/// Which Gateways are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayScope {
    /// Those of all namespaces: one that is not there does not exist.
    #[default]
    AllNamespaces,
    /// Those of some namespaces.
    SomeNamespaces,
}

/// Where Gateways are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// Where whoever allocates addresses and ports says (see [`crate::resources::Change::Placed`]).
    #[default]
    Given,
    /// Nowhere, because nobody allocates them.
    Nowhere,
    /// At these addresses, on the ports of their listeners. Of two Gateways with the same port the older one has it.
    At(Vec<IpAddr>),
}

/// Whose word is taken, and where external names may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Peers whose forwarding headers are believed; the settings ConfigMap can only narrow them.
    pub forwarders: Vec<IpNet>,
    /// Who may name a client by the PROXY protocol.
    pub proxy_protocol: ProxySenders,
    /// Where Services of type ExternalName may lead.
    pub external: External,
}

/// Who may name a client by the PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxySenders {
    /// Nobody: no listener expects the header.
    #[default]
    Nobody,
    /// Peers in these ranges; every peer where there are none.
    Peers(Vec<IpNet>),
}

/// Where Services of type ExternalName may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External {
    /// Whether they are served at all.
    pub names: ExternalNames,
    /// Exceptions from the special ranges that are refused.
    pub allowed: Vec<IpNet>,
    /// Where this process itself listens. No exception opens it.
    pub own: Own,
}

/// What happens to an Ingress that names no class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutClass {
    /// It is another controller's.
    #[default]
    Ignored,
    /// It is served.
    Served,
}

/// Whether Services of type ExternalName are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalNames {
    /// Their paths answer 503: such a Service can point anywhere, also into the cluster's inside.
    #[default]
    Refused,
    /// Their names are resolved by the owner of [`crate::resources::Resources`] (see [`crate::resources::Change::Resolved`]).
    Resolved,
}

/// Whether endpoints may have loopback addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopbackEndpoints {
    /// They are dropped with a diagnostic: in a cluster they would reach the proxy's own pod.
    #[default]
    Refused,
    /// They are used: manifests from a directory describe the machine itself.
    Accepted,
}

/// What happens to an Ingress that asks for protection which is not given yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsupportedProtection {
    /// Its paths answer 503.
    #[default]
    Closed,
    /// It is served without the protection.
    Ignored,
}

/// What holds for all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Whose a host is when Ingresses of several namespaces name it.
    pub ownership: HostOwnership,
    /// Which form of the path backends see where the settings ConfigMap says nothing and no annotation rewrites it.
    pub forwarded_path: ForwardedPath,
    /// Whether the settings ConfigMap chooses the format of the access log.
    pub log_format: LogFormatChoice,
    /// Whether Ingresses share what each asks for its Services.
    pub compat: Compat,
    /// What happens to an Ingress that asks for protection which is not given yet.
    pub unsupported_protection: UnsupportedProtection,
    /// Whether TLS of hosts that ask for `ssl-passthrough` is passed through. Otherwise the annotation is ignored: TLS ends at
    /// Fairway, as in ingress-nginx without `--enable-ssl-passthrough`.
    pub ssl_passthrough: bool,
}

/// Whether what an Ingress asks for a Service also holds for the other Ingresses with that Service: balancing, sessions and
/// canaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// It does, as in ingress-nginx.
    #[default]
    Nginx,
    /// Each Ingress has its own.
    Strict,
}

/// Whether the settings ConfigMap chooses the format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormatChoice {
    /// It may.
    #[default]
    Settings,
    /// The flag has chosen one that no text describes, or no log.
    Flag,
}

/// Whose a host is when Ingresses of several namespaces name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostOwnership {
    /// Every namespace has the same rights on every host, as in ingress-nginx.
    #[default]
    Off,
    /// The namespace of the oldest Ingress that names a host owns it; others need its consent.
    Namespace,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            ownership: HostOwnership::default(),
            forwarded_path: ForwardedPath::AsReceived,
            log_format: LogFormatChoice::default(),
            compat: Compat::default(),
            unsupported_protection: UnsupportedProtection::default(),
            ssl_passthrough: true,
        }
    }
}

impl Default for IngressListeners {
    fn default() -> Self {
        let unbound = |public_port| ListenAt { bind: Vec::new(), public_port };
        Self { http: unbound(80), https: unbound(443), service_maps: ServiceMaps::default() }
    }
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            controller: GATEWAY_CONTROLLER.into(),
            places: Places::default(),
            scope: GatewayScope::default(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ingress_classes: vec!["fairway".into()],
            controllers: vec![CONTROLLER.into()],
            without_class: WithoutClass::default(),
            defaults: Defaults::default(),
            configmap: None,
            annotations_prefix: "nginx.ingress.kubernetes.io".into(),
            trust: Trust::default(),
            loopback_endpoints: LoopbackEndpoints::default(),
            hosts: HostOptions::default(),
            listeners: IngressListeners::default(),
            gateways: GatewayOptions::default(),
            clients: ClientDefaults::default(),
            firewall: None,
        }
    }
}
