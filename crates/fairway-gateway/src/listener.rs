//! Reads one listener of a Gateway or ListenerSet by itself: protocol, host, certificates and allowed routes.
//! `conflict` and `gateway` compare it with others.

use std::fmt;
use std::sync::Arc;

use fairway_model::{HostPattern, ListenerProtocol, Origin, PortProtocol};
use fairway_objects::gateway_api::{self as types, ObjectReference};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::condition::{self, Fault};
use crate::grant::{self, Referrer};
use crate::hostname;
use crate::namespaces::AllowedNamespaces;
use crate::status::GATEWAY_GROUP;

/// Identifies a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId {
    /// The Gateway or ListenerSet.
    pub(crate) owner: ObjectRef,
    /// Its name there.
    pub(crate) name: Arc<str>,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http,
    Https,
    /// TLS that terminates here.
    Tls,
    /// TLS that is passed through.
    Passthrough,
    Tcp,
    Udp,
    /// An unknown protocol.
    Unknown,
}

/// A listener as its object defines it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListenerEntry {
    pub(crate) id: ListenerId,
    pub(crate) origin: Origin,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    pub(crate) host: HostPattern,
    /// The kinds of routes that it allows.
    pub(crate) kinds: Vec<Kind>,
    /// The namespaces whose routes it allows.
    pub(crate) allowed_namespaces: AllowedNamespaces,
    /// The Secrets with its certificates.
    pub(crate) certificates: Vec<ObjectKey>,
    /// Why it is not accepted.
    pub(crate) refused: Option<Fault>,
    /// The invalid reference.
    pub(crate) unresolved: Option<Fault>,
}

/// State of the certificate in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// The Secret does not exist.
    Missing,
    /// The Secret has no valid certificate; an earlier one may still be in use.
    Broken {
        /// What is wrong.
        problem: String,
        /// Whether an earlier certificate is in use.
        usable: bool,
    },
    /// It is usable.
    Good,
}

/// Inputs for reading listeners.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) inputs: Inputs<'a>,
    /// Looks up certificates by Secret.
    pub(crate) certificates: &'a dyn Fn(&ObjectKey) -> CertificateState,
}

/// The resolved certificates of a listener.
#[derive(Default)]
struct ListenerCertificates {
    certificates: Vec<ObjectKey>,
    fault: Option<Fault>,
}

/// Where a listener is defined.
pub(crate) struct ListenerSource {
    pub(crate) id: ListenerId,
    pub(crate) origin: Origin,
}

/// The Secrets that the listeners of an object reference.
pub(crate) fn named_secrets<'l>(
    listeners: &'l [types::Listener],
    namespace: &'l str,
) -> impl Iterator<Item = ObjectKey> + 'l {
    let tls = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    tls.flat_map(|tls| &tls.certificate_refs).filter_map(move |it| secret_key(it, namespace))
}

/// The Secret of a reference; `None` if it references something else.
pub(crate) fn secret_key(reference: &ObjectReference, namespace: &str) -> Option<ObjectKey> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    matches!((group, kind), ("" | "core", "Secret")).then(|| ObjectKey::new(namespace, &reference.name))
}

/// Reads a listener.
pub(crate) fn read(
    source: ListenerSource,
    listener: &types::Listener,
    context: Context<'_>,
) -> ListenerEntry {
    let protocol = Protocol::from_listener(listener);
    let mut refused = None;
    let mut refuse = |reason, message: String| _ = refused.get_or_insert(Fault::new(reason, message));
    let port = u16::try_from(listener.port).ok().filter(|port| *port > 0).unwrap_or_else(|| {
        refuse("PortUnavailable", format!("{} is no port", listener.port));
        0
    });
    if protocol.data_plane_protocol().is_none() {
        refuse("UnsupportedProtocol", format!("the protocol {} is not supported", listener.protocol));
    }
    if let Some(problem) = tls_mode_problem(listener, protocol) {
        refuse("UnsupportedValue", problem);
    }
    if let Some(problem) = filters_problem(listener) {
        refuse("UnsupportedValue", problem);
    }
    let host = hostname::read(listener.hostname.as_deref().filter(|_| protocol.has_hosts()));
    let host = host.unwrap_or_else(|| {
        refuse("UnsupportedValue", "its hostname is no host name".to_owned());
        HostPattern::Any
    });
    let namespaces = listener.allowed_routes.as_ref().and_then(|it| it.namespaces.as_ref());
    let from = AllowedNamespaces::read(namespaces, AllowedNamespaces::Same).unwrap_or_else(|| {
        refuse("UnsupportedValue", "allowedRoutes.namespaces.from has an unknown value".to_owned());
        AllowedNamespaces::None
    });
    let (kinds, unknown) = kinds(listener, protocol);
    let shown = listener_certificates(&source.id.owner, listener, protocol, context);
    ListenerEntry {
        id: source.id,
        origin: source.origin,
        port,
        protocol,
        host,
        kinds,
        allowed_namespaces: from,
        certificates: shown.certificates,
        refused,
        unresolved: shown.fault.or(unknown),
    }
}

/// Listener filters decide about requests before routes do: ignoring them could admit requests that must be refused
/// (GEP-5224).
fn filters_problem(listener: &types::Listener) -> Option<String> {
    let first = listener.filters.as_ref()?.requests.first()?;
    Some(format!("filters of listeners are not supported, so the filter {} cannot be applied", first.type_))
}

fn tls_mode_problem(listener: &types::Listener, protocol: Protocol) -> Option<String> {
    let mode = listener.tls.as_ref()?.mode.as_deref()?;
    match (protocol, mode) {
        (Protocol::Https | Protocol::Tls | Protocol::Passthrough, "" | "Terminate") => None,
        (Protocol::Passthrough, "Passthrough") => None,
        (Protocol::Https, "Passthrough") => {
            Some("protocol HTTPS ends TLS; protocol TLS can pass it through".to_owned())
        }
        (Protocol::Http | Protocol::Tcp | Protocol::Udp | Protocol::Unknown, _) => None,
        (_, mode) => Some(format!("the TLS mode {mode} is not known")),
    }
}

/// The kinds of routes that it allows, and the fault of unsupported ones.
fn kinds(listener: &types::Listener, protocol: Protocol) -> (Vec<Kind>, Option<Fault>) {
    let possible = protocol.kinds();
    let listed = listener.allowed_routes.as_ref().map(|it| it.kinds.as_slice()).unwrap_or_default();
    if listed.is_empty() {
        return (possible.to_vec(), None);
    }
    let (mut kinds, mut fault) = (Vec::new(), None);
    for it in listed {
        let is_gateway_group = it.group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP;
        match possible.iter().find(|kind| is_gateway_group && kind.name() == it.kind) {
            Some(kind) if kinds.contains(kind) => {}
            Some(kind) => kinds.push(*kind),
            None => {
                let problem = format!("{} cannot be attached to a listener of protocol {protocol}", it.kind);
                fault.get_or_insert(Fault::new("InvalidRouteKinds", problem));
            }
        }
    }
    (kinds, fault)
}

/// The usable certificates, and the first fault.
fn listener_certificates(
    owner: &ObjectRef,
    listener: &types::Listener,
    protocol: Protocol,
    context: Context<'_>,
) -> ListenerCertificates {
    let mut shown = ListenerCertificates::default();
    if !protocol.shows_certificates() {
        return shown;
    }
    let references = listener.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
    if references.is_empty() {
        let problem = "it ends TLS and names no certificate";
        shown.fault = Some(Fault::new("InvalidCertificateRef", problem));
    }
    for reference in references {
        match certificate(owner, reference, context) {
            Ok((key, fault)) => {
                shown.certificates.push(key);
                shown.fault = shown.fault.or(fault);
            }
            Err(fault) => _ = shown.fault.get_or_insert(fault),
        }
    }
    shown
}

/// The Secret of a usable certificate, possibly with a fault.
pub(crate) fn certificate(
    owner: &ObjectRef,
    reference: &ObjectReference,
    context: Context<'_>,
) -> Result<(ObjectKey, Option<Fault>), Fault> {
    let invalid = |problem: String| Fault::new("InvalidCertificateRef", problem);
    let namespace = &owner.key.namespace;
    let key = secret_key(reference, namespace).ok_or_else(|| {
        let kind = reference.kind.as_deref().unwrap_or("Secret");
        let kind = condition::kind(reference.group.as_deref().unwrap_or_default(), kind);
        invalid(format!("certificates come from Secrets, not from {kind}"))
    })?;
    let from = Referrer { kind: owner.kind, namespace };
    if !grant::permits(context.inputs.resources, from, Kind::Secret, &key) {
        let problem = format!("no ReferenceGrant lets it refer to Secret {key}");
        return Err(Fault::new("RefNotPermitted", problem));
    }
    match (context.certificates)(&key) {
        CertificateState::Good => Ok((key, None)),
        CertificateState::Missing => Err(invalid(format!("Secret {key} does not exist"))),
        CertificateState::Broken { problem, usable } => {
            let fault = invalid(format!("Secret {key} has no certificate that can be used: {problem}"));
            if usable { Ok((key, Some(fault))) } else { Err(fault) }
        }
    }
}

impl Protocol {
    fn from_listener(listener: &types::Listener) -> Self {
        let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref());
        match (&*listener.protocol, mode) {
            ("HTTP", _) => Self::Http,
            ("HTTPS", _) => Self::Https,
            ("TLS", Some("Passthrough")) => Self::Passthrough,
            ("TLS", _) => Self::Tls,
            ("TCP", _) => Self::Tcp,
            ("UDP", _) => Self::Udp,
            _ => Self::Unknown,
        }
    }

    /// Whether listeners of one port are distinguished by host.
    pub(crate) fn has_hosts(self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp)
    }

    /// Whether its connections begin with TLS, whether or not it terminates here.
    pub(crate) fn begins_with_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls | Self::Passthrough)
    }

    fn shows_certificates(self) -> bool {
        matches!(self, Self::Https | Self::Tls)
    }

    /// The kinds of routes that can be attached.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Http | Self::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
            Self::Tls | Self::Passthrough => &[Kind::TlsRoute],
            Self::Tcp => &[Kind::TcpRoute],
            Self::Udp => &[Kind::UdpRoute],
            Self::Unknown => &[],
        }
    }

    /// The data plane protocol; `None` if it is not supported.
    pub(crate) fn data_plane_protocol(self) -> Option<ListenerProtocol> {
        match self {
            Self::Http => Some(ListenerProtocol::Http),
            Self::Https => Some(ListenerProtocol::Https),
            Self::Tls => Some(ListenerProtocol::Tls),
            Self::Passthrough => Some(ListenerProtocol::TlsPassthrough),
            Self::Tcp => Some(ListenerProtocol::Tcp),
            Self::Udp => Some(ListenerProtocol::Udp),
            Self::Unknown => None,
        }
    }

    /// The transport protocol of its ports.
    pub(crate) fn port_protocol(self) -> PortProtocol {
        match self {
            Self::Udp => PortProtocol::Udp,
            _ => PortProtocol::Tcp,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Tls | Self::Passthrough => "TLS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Unknown => "that is not known",
        })
    }
}

impl ListenerEntry {
    /// Whether it can be served if nothing conflicts with it.
    pub(crate) fn is_complete(&self) -> bool {
        let shows = !self.protocol.shows_certificates() || !self.certificates.is_empty();
        self.refused.is_none()
            && !self.kinds.is_empty()
            && shows
            && self.protocol.data_plane_protocol().is_some()
    }
}
