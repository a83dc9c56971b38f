//! One listener of a Gateway or ListenerSet by itself: its protocol, host, certificates, and which routes it takes.
//! What it means next to others is in `conflict` and `gateway`.

use std::fmt;
use std::sync::Arc;

use fairway_model::{HostPattern, ListenerProtocol, Origin, PortProtocol};
use fairway_objects::gateway_api::{self as types, ObjectReference};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};

use crate::condition::{self, Fault};
use crate::grant::{self, Referrer};
use crate::hostname;
use crate::namespaces::Allowed;
use crate::status::GROUP;

/// Names a listener: the Gateway or ListenerSet, and its name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId {
    /// The Gateway or ListenerSet.
    pub(crate) owner: ObjectRef,
    /// The name in it.
    pub(crate) name: Arc<str>,
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http,
    Https,
    /// TLS that ends here.
    Tls,
    /// TLS that is passed through.
    Passthrough,
    Tcp,
    Udp,
    /// One that nobody here knows.
    Unknown,
}

/// A listener as its object has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) id: ListenerId,
    pub(crate) origin: Origin,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    pub(crate) host: HostPattern,
    /// The kinds of routes that it takes.
    pub(crate) kinds: Vec<Kind>,
    /// Whose routes it takes.
    pub(crate) from: Allowed,
    /// The Secrets whose certificates it shows.
    pub(crate) certificates: Vec<ObjectKey>,
    /// Why it cannot be accepted.
    pub(crate) refused: Option<Fault>,
    /// Which of its references leads nowhere.
    pub(crate) unresolved: Option<Fault>,
}

/// What is known of the certificate in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certified {
    /// The Secret does not exist.
    Missing,
    /// The Secret has none; an earlier one may still be in use.
    Broken {
        /// What is wrong.
        problem: String,
        /// Whether an earlier one is in use.
        usable: bool,
    },
    /// It can be shown.
    Good,
}

/// What readers of listeners may look at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) inputs: Inputs<'a>,
    /// The certificates by Secret.
    pub(crate) certificates: &'a dyn Fn(&ObjectKey) -> Certified,
}

/// What a listener asks of its references.
#[derive(Default)]
struct Shown {
    certificates: Vec<ObjectKey>,
    fault: Option<Fault>,
}

/// Where a listener was written.
pub(crate) struct Place {
    pub(crate) id: ListenerId,
    pub(crate) origin: Origin,
}

/// The Secrets that the listeners of an object name.
pub(crate) fn secrets<'l>(
    listeners: &'l [types::Listener],
    namespace: &'l str,
) -> impl Iterator<Item = ObjectKey> + 'l {
    let tls = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    tls.flat_map(|tls| &tls.certificate_refs).filter_map(move |it| secret(it, namespace))
}

/// The Secret that a reference names; `None` where it names something else.
pub(crate) fn secret(reference: &ObjectReference, namespace: &str) -> Option<ObjectKey> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    matches!((group, kind), ("" | "core", "Secret")).then(|| ObjectKey::new(namespace, &reference.name))
}

/// Reads a listener.
pub(crate) fn read(place: Place, listener: &types::Listener, context: Context<'_>) -> Entry {
    let protocol = Protocol::of(listener);
    let mut refused = None;
    let mut refuse = |reason, message: String| _ = refused.get_or_insert(Fault::new(reason, message));
    let port = u16::try_from(listener.port).ok().filter(|port| *port > 0).unwrap_or_else(|| {
        refuse("PortUnavailable", format!("{} is no port", listener.port));
        0
    });
    if protocol.served().is_none() {
        refuse("UnsupportedProtocol", format!("the protocol {} is not supported", listener.protocol));
    }
    if let Some(problem) = wrong_mode(listener, protocol) {
        refuse("UnsupportedValue", problem);
    }
    if let Some(problem) = filtered(listener) {
        refuse("UnsupportedValue", problem);
    }
    let host = hostname::read(listener.hostname.as_deref().filter(|_| protocol.has_hosts()));
    let host = host.unwrap_or_else(|| {
        refuse("UnsupportedValue", "its hostname is no host name".to_owned());
        HostPattern::Any
    });
    let namespaces = listener.allowed_routes.as_ref().and_then(|it| it.namespaces.as_ref());
    let from = Allowed::read(namespaces, Allowed::Same).unwrap_or_else(|| {
        refuse("UnsupportedValue", "allowedRoutes.namespaces.from has an unknown value".to_owned());
        Allowed::None
    });
    let (kinds, unknown) = kinds(listener, protocol);
    let shown = shown(&place.id.owner, listener, protocol, context);
    Entry {
        id: place.id,
        origin: place.origin,
        port,
        protocol,
        host,
        kinds,
        from,
        certificates: shown.certificates,
        refused,
        unresolved: shown.fault.or(unknown),
    }
}

/// Filters of a listener decide about requests before routes do: without them a request may pass that must not (GEP-5224).
fn filtered(listener: &types::Listener) -> Option<String> {
    let first = listener.filters.as_ref()?.requests.first()?;
    Some(format!("filters of listeners are not supported, so the filter {} cannot be applied", first.type_))
}

fn wrong_mode(listener: &types::Listener, protocol: Protocol) -> Option<String> {
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

/// The kinds of routes that it takes, and what is wrong with the others that it lists.
fn kinds(listener: &types::Listener, protocol: Protocol) -> (Vec<Kind>, Option<Fault>) {
    let possible = protocol.kinds();
    let listed = listener.allowed_routes.as_ref().map(|it| it.kinds.as_slice()).unwrap_or_default();
    if listed.is_empty() {
        return (possible.to_vec(), None);
    }
    let (mut kinds, mut fault) = (Vec::new(), None);
    for it in listed {
        let own = it.group.as_deref().unwrap_or(GROUP) == GROUP;
        match possible.iter().find(|kind| own && kind.name() == it.kind) {
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

/// The certificates that it shows, and what is wrong with the first of the others.
fn shown(owner: &ObjectRef, listener: &types::Listener, protocol: Protocol, context: Context<'_>) -> Shown {
    let mut shown = Shown::default();
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

/// The Secret whose certificate can be shown, with what is wrong with it all the same.
pub(crate) fn certificate(
    owner: &ObjectRef,
    reference: &ObjectReference,
    context: Context<'_>,
) -> Result<(ObjectKey, Option<Fault>), Fault> {
    let invalid = |problem: String| Fault::new("InvalidCertificateRef", problem);
    let namespace = &owner.key.namespace;
    let key = secret(reference, namespace).ok_or_else(|| {
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
        Certified::Good => Ok((key, None)),
        Certified::Missing => Err(invalid(format!("Secret {key} does not exist"))),
        Certified::Broken { problem, usable } => {
            let fault = invalid(format!("Secret {key} has no certificate that can be used: {problem}"));
            if usable { Ok((key, Some(fault))) } else { Err(fault) }
        }
    }
}

impl Protocol {
    fn of(listener: &types::Listener) -> Self {
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

    /// Whether listeners of one port are told apart by host.
    pub(crate) fn has_hosts(self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp)
    }

    /// Whether its connections begin with TLS, that ends here or not.
    pub(crate) fn begins_with_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls | Self::Passthrough)
    }

    fn shows_certificates(self) -> bool {
        matches!(self, Self::Https | Self::Tls)
    }

    /// The routes that can be attached.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Http | Self::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
            Self::Tls | Self::Passthrough => &[Kind::TlsRoute],
            Self::Tcp => &[Kind::TcpRoute],
            Self::Udp => &[Kind::UdpRoute],
            Self::Unknown => &[],
        }
    }

    /// The same for the data plane; `None` where nothing serves it.
    pub(crate) fn served(self) -> Option<ListenerProtocol> {
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

    /// Which of the two kinds of ports its listeners have.
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

impl Entry {
    /// Whether it can be served where nothing next to it stands in the way.
    pub(crate) fn is_complete(&self) -> bool {
        let shows = !self.protocol.shows_certificates() || !self.certificates.is_empty();
        self.refused.is_none() && !self.kinds.is_empty() && shows && self.protocol.served().is_some()
    }
}
