//! The operator's options and their defaults. Does not read flags or the environment.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use fairway_model::{DatagramSettings, DownstreamSettings, ForwardedPath, PortProtocol};
use ipnet::IpNet;

use crate::object::ObjectKey;
use crate::own_addresses::OwnAddresses;

/// The `spec.controller` of Fairway's own IngressClass objects.
pub const CONTROLLER: &str = "fairway.dev/ingress-controller";

/// The `spec.controllerName` of Fairway's own GatewayClass objects.
pub const GATEWAY_CONTROLLER: &str = "fairway.dev/gateway-controller";

/// The operator's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The values of the annotation `kubernetes.io/ingress.class` that select this controller, in addition to the names of its
    /// IngressClass objects.
    pub ingress_classes: Vec<Arc<str>>,
    /// The `spec.controller` of the IngressClass objects that are served.
    pub controllers: Vec<Arc<str>>,
    /// What happens to an Ingress without a class if no class of this controller is the default.
    pub without_class: WithoutClass,
    /// Defaults for requests and clients that no object covers.
    pub defaults: Defaults,
    /// The settings ConfigMap.
    pub configmap: Option<ObjectKey>,
    /// The prefix of annotations, without the slash.
    pub annotations_prefix: Arc<str>,
    /// Which peers are trusted, and where external names may lead.
    pub trust: Trust,
    /// Whether endpoints may have loopback addresses.
    pub loopback_endpoints: LoopbackEndpoints,
    /// Options for all hosts.
    pub hosts: HostOptions,
    /// Where the listeners of Ingresses are bound.
    pub listeners: IngressListeners,
    /// Which Gateways are served, and where.
    pub gateways: GatewayOptions,
    /// Client settings where the settings ConfigMap has none.
    pub clients: ClientDefaults,
    /// The web application firewall. Without one, paths that require it return 503.
    pub firewall: Option<Firewall>,
}

/// The address of the web application firewall (`fairway-waf`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firewall {
    /// An address, or the name of a Service: `NAME.NAMESPACE.svc`.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

/// Client settings by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientDefaults {
    /// For connections and requests.
    pub downstream: DownstreamSettings,
    /// For datagram sessions.
    pub datagrams: DatagramSettings,
}

/// Defaults for requests and clients that no object covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The Secret for TLS clients that name no host with a certificate.
    pub certificate: Option<ObjectKey>,
    /// The Service, by its first port, for requests on Ingress listeners that no rule matches, and for pages of
    /// `custom-http-errors` without their own `default-backend`; 404 without one.
    pub backend: Option<ObjectKey>,
}

/// Where the listeners of Ingresses are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressListeners {
    /// The HTTP listener.
    pub http: ListenAddresses,
    /// The HTTPS listener.
    pub https: ListenAddresses,
    /// TCP and UDP listeners, which are bound to the IP addresses of the HTTP listener.
    pub service_maps: ServiceMaps,
}

impl IngressListeners {
    /// The name of the HTTP listener.
    pub const HTTP: &str = "http";
    /// The name of the HTTPS listener.
    pub const HTTPS: &str = "https";
    /// The name of their route table.
    pub const TABLE: &str = "ingress";
}

/// The ConfigMaps of TCP and UDP services: each key is a port, and its value names a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceMaps {
    /// The ConfigMap for TCP.
    pub tcp: Option<ObjectKey>,
    /// The ConfigMap for UDP.
    pub udp: Option<ObjectKey>,
    /// Peers that may send the PROXY protocol on ports that expect it; empty means every peer.
    pub proxy_senders: Vec<IpNet>,
    /// Ports that these services may not use, in addition to those of [`OwnAddresses::listeners`].
    pub reserved: Vec<ReservedPorts>,
}

/// Ports that TCP and UDP services may not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedPorts {
    /// The port numbers.
    pub ports: RangeInclusive<u16>,
    /// The flag that reserves them.
    pub reserved_by: Arc<str>,
    /// The protocol; `None` means both.
    pub protocol: Option<PortProtocol>,
}

impl ReservedPorts {
    /// A TCP port reserved by the flag `owner`.
    #[must_use]
    pub fn tcp(port: u16, owner: &str) -> Self {
        Self { ports: port..=port, reserved_by: owner.into(), protocol: Some(PortProtocol::Tcp) }
    }

    /// Whether `port` is reserved.
    #[must_use]
    pub fn has(&self, port: u16, protocol: PortProtocol) -> bool {
        self.ports.contains(&port) && self.protocol.is_none_or(|own| own == protocol)
    }
}

/// Where a listener is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddresses {
    /// The addresses to bind; empty if the listener is disabled.
    pub bind: Vec<SocketAddr>,
    /// The port that clients use.
    pub public_port: u16,
}

/// Which Gateways are served, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// The `spec.controllerName` of the served GatewayClass objects.
    pub controller: Arc<str>,
    /// Where Gateways are reachable.
    pub placement: GatewayPlacement,
    /// Which Gateways are read.
    pub scope: GatewayScope,
}

/// Which Gateways are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayScope {
    /// Those of all namespaces: any other Gateway does not exist.
    #[default]
    AllNamespaces,
    /// Those of some namespaces.
    SomeNamespaces,
}

/// Where Gateways are reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GatewayPlacement {
    /// Where the allocator of addresses and ports says (see [`crate::resources::Change::Placed`]).
    #[default]
    Given,
    /// Nowhere: there is no allocator.
    Nowhere,
    /// At these addresses, on the ports of their listeners. If two Gateways use the same port, the older one gets it.
    At(Vec<IpAddr>),
}

/// Which peers are trusted, and where external names may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Peers whose forwarding headers are trusted; the settings ConfigMap can only narrow them.
    pub forwarders: Vec<IpNet>,
    /// Who may send the PROXY protocol.
    pub proxy_protocol: ProxySenders,
    /// Where Services of type ExternalName may lead.
    pub external: ExternalNameOptions,
}

/// Who may send the PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxySenders {
    /// No peer: no listener expects it.
    #[default]
    Nobody,
    /// Peers in these ranges; empty means every peer.
    Peers(Vec<IpNet>),
}

/// Where Services of type ExternalName may lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalNameOptions {
    /// Whether they are served at all.
    pub names: ExternalNames,
    /// Exceptions from the refused special ranges.
    pub allowed: Vec<IpNet>,
    /// Where this process listens. No exception allows it.
    pub own_addresses: OwnAddresses,
}

/// What happens to an Ingress without a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutClass {
    /// It belongs to another controller.
    #[default]
    Ignored,
    /// It is served.
    Served,
}

/// Whether Services of type ExternalName are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalNames {
    /// Their paths return 503: such a Service can lead anywhere, also into the cluster.
    #[default]
    Refused,
    /// The owner of [`crate::resources::Resources`] resolves their names (see [`crate::resources::Change::Resolved`]).
    Resolved,
}

/// Whether endpoints may have loopback addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopbackEndpoints {
    /// They are ignored with a diagnostic: in a cluster they would reach the proxy's own pod.
    #[default]
    Refused,
    /// They are used: manifests from a directory describe the machine itself.
    Accepted,
}

/// What happens to an Ingress that requires unsupported protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsupportedProtection {
    /// Its paths return 503.
    #[default]
    Closed,
    /// It is served without the protection.
    Ignored,
}

/// Options for all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Who owns a host that Ingresses of several namespaces name.
    pub ownership: HostOwnership,
    /// The form of the path that backends get if neither the settings ConfigMap nor an annotation changes it.
    pub forwarded_path: ForwardedPath,
    /// Whether the settings ConfigMap chooses the format of the access log.
    pub log_format: LogFormatChoice,
    /// Whether Ingresses share their settings for a Service.
    pub compat: Compat,
    /// What happens to an Ingress that requires unsupported protection.
    pub unsupported_protection: UnsupportedProtection,
    /// Whether TLS is passed through for hosts with `ssl-passthrough`. Otherwise the annotation is ignored and TLS ends at
    /// Fairway, as in ingress-nginx without `--enable-ssl-passthrough`.
    pub ssl_passthrough: bool,
}

/// Whether an Ingress's settings for a Service (balancing, sessions and canaries) also apply to other Ingresses with that
/// Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// They do, as in ingress-nginx.
    #[default]
    Nginx,
    /// Each Ingress has its own.
    Strict,
}

/// Whether the settings ConfigMap may choose the format of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormatChoice {
    /// It may.
    #[default]
    Settings,
    /// The flag has chosen a format that is not a template, or no log.
    Flag,
}

/// Who owns a host that Ingresses of several namespaces name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostOwnership {
    /// Every namespace has the same rights on every host, as in ingress-nginx.
    #[default]
    Off,
    /// The namespace of the oldest Ingress that names the host; others need its consent.
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
        let unbound = |public_port| ListenAddresses { bind: Vec::new(), public_port };
        Self { http: unbound(80), https: unbound(443), service_maps: ServiceMaps::default() }
    }
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            controller: GATEWAY_CONTROLLER.into(),
            placement: GatewayPlacement::default(),
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
