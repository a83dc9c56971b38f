//! Reads a Gateway with its ListenerSets: its listeners, and whether it is accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{Gateway, ListenerSet};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};

use crate::class::Class;
use crate::condition::Fault;
use crate::conflict::PortClaims;
use crate::frontend::Frontend;
use crate::listener::{self, Context, ListenerEntry};
use crate::namespaces::AllowedNamespaces;
use crate::parameters::{self, Parameters};
use crate::requirements::{self, WantedGateway};
use crate::shared::{self, SharedAddress};

/// A listener among the others of its Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listener {
    pub(crate) entry: Arc<ListenerEntry>,
    /// The conflict with another listener.
    pub(crate) conflict: Option<Fault>,
    /// Why it is not accepted.
    pub(crate) refused: Option<Fault>,
    /// The invalid reference.
    pub(crate) unresolved: Option<Fault>,
    /// Whether its host overlaps that of another TLS listener on its port.
    pub(crate) overlaps: bool,
    /// The route table that serves it.
    pub(crate) table: Arc<str>,
}

/// A Gateway or ListenerSet of this controller, as a parent of routes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parent {
    pub(crate) gateway: ObjectKey,
    pub(crate) origin: Origin,
    /// Why it is not served.
    pub(crate) refused: Option<Fault>,
    /// Whether it accepts routes without a Gateway (`defaultScope`).
    pub(crate) asks_for_all: bool,
    pub(crate) listeners: Vec<Listener>,
}

/// The result of reading a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GatewayReading {
    /// The Gateway and its ListenerSets.
    pub(crate) parents: BTreeMap<ObjectRef, Arc<Parent>>,
    /// Its client certificate requirements.
    pub(crate) frontend: Frontend,
    /// The certificate that it presents to endpoints.
    pub(crate) client_certificate: ClientCertificate,
    /// Why its parameters are unusable. The Gateway is then not accepted, but existing resources stay in service:
    /// parameters only affect how its Services are created.
    pub(crate) parameters_fault: Option<Fault>,
    /// Whether it shares the address of Ingresses.
    pub(crate) is_shared: bool,
    /// The ports and addresses that it needs; `None` if it is not served.
    pub(crate) wanted_gateway: Option<Arc<WantedGateway>>,
}

/// The certificate that a Gateway presents to endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientCertificate {
    /// The Secret. If it becomes unreadable, its previous certificate stays in use.
    pub(crate) secret: Option<ObjectKey>,
    /// The invalid reference.
    pub(crate) fault: Option<Fault>,
}

/// A Gateway or ListenerSet with its listeners.
pub(crate) struct ListenerOwner<'a> {
    pub(crate) reference: ObjectRef,
    pub(crate) origin: Origin,
    /// Why a ListenerSet is not accepted.
    pub(crate) refused: Option<Fault>,
    pub(crate) entries: &'a [Arc<ListenerEntry>],
}

/// A Gateway to read.
pub(crate) struct GatewayInput<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) gateway: &'a Sourced<Gateway>,
    pub(crate) class: &'a Class,
    /// Its ListenerSets in order of precedence.
    pub(crate) sets: Vec<ListenerOwner<'a>>,
    /// Its own listeners.
    pub(crate) entries: &'a [Arc<ListenerEntry>],
    /// The address of Ingresses, if it is shared.
    pub(crate) shared: Option<SharedAddress<'a>>,
}

/// The Gateway of a ListenerSet.
pub(crate) fn parent_gateway(set: &ListenerSet, namespace: &str) -> Option<ObjectKey> {
    let parent = &set.spec.parent_ref;
    let is_gateway = parent.kind.as_deref().unwrap_or("Gateway") == "Gateway"
        && parent.group.as_deref().unwrap_or(crate::status::GATEWAY_GROUP) == crate::status::GATEWAY_GROUP;
    is_gateway.then(|| ObjectKey::new(parent.namespace.as_deref().unwrap_or(namespace), &parent.name))
}

/// Why a Gateway does not accept ListenerSets of a namespace.
pub(crate) fn listener_set_refusal(
    gateway: &Gateway,
    gateway_namespace: &str,
    set_namespace: &str,
    context: Context<'_>,
) -> Option<Fault> {
    let allowed = gateway.spec.allowed_listeners.as_ref().and_then(|it| it.namespaces.as_ref());
    let allowed =
        AllowedNamespaces::read(allowed, AllowedNamespaces::None).unwrap_or(AllowedNamespaces::None);
    let admitted = allowed.admits(set_namespace, gateway_namespace, context.inputs.resources);
    let problem = "allowedListeners of the Gateway does not admit the namespace of the ListenerSet";
    (!admitted).then(|| Fault::new("NotAllowed", problem))
}

/// Reads a Gateway with its ListenerSets.
pub(crate) fn read(written: &GatewayInput<'_>, context: Context<'_>) -> GatewayReading {
    let GatewayInput { key, gateway, sets, entries, shared, .. } = written;
    let object = &*gateway.object;
    let frontend = Frontend::read(object, &key.namespace, context.inputs);
    let parameters = parameters(written, context);
    let addresses = requirements::addresses(object);
    let refused = addresses.as_ref().err().cloned();
    let mut claims = PortClaims::default();
    let owner = ListenerOwner {
        reference: ObjectRef::new(Kind::Gateway, (*key).clone()),
        origin: gateway.origin(Kind::Gateway, key, ""),
        refused: None,
        entries,
    };
    let mut parents = BTreeMap::new();
    for member in [&owner].into_iter().chain(sets) {
        let of_gateway = refused.as_ref().filter(|_| member.reference.kind == Kind::ListenerSet);
        let parent_refused = of_gateway
            .map(|_| Fault::new("ParentNotAccepted", "the Gateway of the ListenerSet is not accepted"));
        let taken_in = member.refused.is_none();
        let faults = claims.add(member.entries.iter().map(|entry| &**entry).filter(|_| taken_in));
        let listeners = member.entries.iter().zip(faults);
        let listeners = listeners.map(|(entry, conflict)| listener(key, entry, conflict, &frontend, *shared));
        let refused = match member.reference.kind {
            Kind::Gateway => refused.clone(),
            _ => member.refused.clone().or(parent_refused),
        };
        let (gateway, origin) = ((*key).clone(), member.origin.clone());
        let asks_for_all = member.reference.kind == Kind::Gateway && asks_for_all(object);
        let parent = Parent { gateway, origin, refused, asks_for_all, listeners: listeners.collect() };
        parents.insert(member.reference.clone(), parent);
    }
    let overlapping = claims.overlapping();
    for listener in parents.values_mut().flat_map(|parent| &mut parent.listeners) {
        let entry = &listener.entry;
        listener.overlaps = entry.protocol.begins_with_tls()
            && listener.is_accepted()
            && overlapping.contains(&(entry.port, entry.host.clone()));
    }
    refuse_without_listeners(&mut parents, key);
    let (parameters, unusable) = match parameters {
        Ok(parameters) => (Some(parameters), None),
        Err(fault) => (None, Some(fault)),
    };
    let wanted_gateway = match (&parents[&owner.reference].refused, addresses) {
        (None, Ok(addresses)) => Some(Arc::new(build_wanted(written, &parents, parameters, addresses))),
        _ => None,
    };
    GatewayReading {
        parents: parents.into_iter().map(|(parent_key, parent)| (parent_key, Arc::new(parent))).collect(),
        frontend,
        client_certificate: client_certificate(written, context),
        parameters_fault: unusable,
        is_shared: shared.is_some(),
        wanted_gateway,
    }
}

/// Whether a Gateway shares the address of Ingresses, by its own or its class's parameters.
pub(crate) fn is_shared(key: &ObjectKey, gateway: &Gateway, class: &Class, inputs: Inputs<'_>) -> bool {
    let infrastructure = gateway.spec.infrastructure.as_ref();
    let own_parameters = infrastructure.and_then(|it| it.parameters_ref.as_ref());
    let parameters = own_parameters.map(|reference| ObjectKey::new(&key.namespace, &reference.name));
    parameters.and_then(|own| parameters::is_shared(&own, inputs)).unwrap_or(class.is_shared)
}

fn asks_for_all(gateway: &Gateway) -> bool {
    gateway.spec.default_scope.as_deref().is_some_and(|scope| !matches!(scope, "" | "None"))
}

/// Refuses a Gateway without accepted listeners, and ListenerSets without served ones.
fn refuse_without_listeners(parents: &mut BTreeMap<ObjectRef, Parent>, key: &ObjectKey) {
    let no_listener =
        |problem: &str| Fault::new("ListenersNotValid", format!("no listener of it is {problem}"));
    for (reference, parent) in parents.iter_mut().filter(|(_, parent)| parent.refused.is_none()) {
        let good = |listener: &Listener| match reference.kind {
            Kind::Gateway => listener.is_accepted(),
            _ => listener.is_served(),
        };
        if !parent.listeners.iter().any(good) {
            parent.refused = Some(no_listener("valid"));
        }
    }
    // ListenerSets can provide listeners to a Gateway without valid ones.
    let any_set = parents.iter().any(|(it, parent)| it.kind == Kind::ListenerSet && parent.refused.is_none());
    let own_parent = parents.get_mut(&ObjectRef::new(Kind::Gateway, key.clone()));
    if let Some(own) = own_parent
        && any_set
        && own.refused.as_ref().is_some_and(|fault| fault.reason == "ListenersNotValid")
    {
        own.refused = None;
    }
}

fn build_wanted(
    written: &GatewayInput<'_>,
    parents: &BTreeMap<ObjectRef, Parent>,
    parameters: Option<Parameters>,
    addresses: Vec<requirements::WantedAddress>,
) -> WantedGateway {
    let metadata = &written.gateway.object.metadata;
    let infrastructure = written.gateway.object.spec.infrastructure.clone().unwrap_or_default();
    let accepted = parents.values().filter(|parent| parent.refused.is_none());
    let accepted = accepted.flat_map(|parent| &parent.listeners).filter(|it| it.is_accepted());
    let served = parents.values().flat_map(Parent::served);
    let texts = |map: BTreeMap<String, String>| {
        map.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    };
    WantedGateway {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        created: metadata.creation_timestamp.as_ref().map(|at| at.0.as_second()),
        class: written.gateway.object.spec.gateway_class_name.as_str().into(),
        ports: requirements::ports(accepted.map(|listener| &*listener.entry)),
        served: served.map(|it| (it.entry.protocol.port_protocol(), it.entry.port)).collect(),
        addresses,
        labels: texts(infrastructure.labels),
        annotations: texts(infrastructure.annotations),
        parameters,
    }
}

/// The parameters of the class, overridden by those of the Gateway.
fn parameters(written: &GatewayInput<'_>, context: Context<'_>) -> Result<Parameters, Fault> {
    let mut parameters = written.class.parameters.clone()?;
    let infrastructure = written.gateway.object.spec.infrastructure.as_ref();
    if let Some(reference) = infrastructure.and_then(|it| it.parameters_ref.as_ref()) {
        let key = ObjectKey::new(&written.key.namespace, &reference.name);
        parameters.extend(parameters::read(&reference.group, &reference.kind, &key, context.inputs)?);
    }
    Ok(parameters)
}

fn client_certificate(written: &GatewayInput<'_>, context: Context<'_>) -> ClientCertificate {
    let tls = written.gateway.object.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
    let Some(reference) = tls.and_then(|tls| tls.client_certificate_ref.as_ref()) else {
        return ClientCertificate::default();
    };
    let owner = ObjectRef::new(Kind::Gateway, written.key.clone());
    let renamed = |fault: Fault| match fault.reason {
        "InvalidCertificateRef" => Fault { reason: "InvalidClientCertificateRef", ..fault },
        _ => fault,
    };
    match listener::certificate(&owner, reference, context) {
        Ok((key, fault)) => ClientCertificate { secret: Some(key), fault: fault.map(renamed) },
        Err(fault) => ClientCertificate { secret: None, fault: Some(renamed(fault)) },
    }
}

fn listener(
    key: &ObjectKey,
    entry: &Arc<ListenerEntry>,
    conflict: Option<Fault>,
    frontend: &Frontend,
    shared: Option<SharedAddress<'_>>,
) -> Listener {
    let conflict = conflict.or_else(|| shared?.conflict(entry));
    let clients = frontend.requirements_of(entry.port);
    let https = entry.protocol == listener::Protocol::Https;
    let by_clients = |fault: &Option<Fault>| fault.clone().filter(|_| https);
    let refused = conflict.clone().or_else(|| entry.refused.clone()).or_else(|| by_clients(&clients.refused));
    let refused = refused.or_else(|| shared?.refusal(entry));
    Listener {
        refused,
        conflict,
        unresolved: entry.unresolved.clone().or_else(|| by_clients(&clients.unresolved)),
        overlaps: false,
        table: match shared {
            Some(_) => shared::shared_table(entry.protocol).into(),
            None => route_table(key, entry),
        },
        entry: entry.clone(),
    }
}

/// Plain HTTP listeners share a table, in which the request's host selects; for all others, SNI has already selected
/// the listener.
pub(crate) fn route_table(key: &ObjectKey, entry: &ListenerEntry) -> Arc<str> {
    let port = format!("gateway/{key}/{}", entry.port);
    let owner = &entry.id.owner;
    match (entry.protocol, owner.kind) {
        (listener::Protocol::Http, _) => port.into(),
        (_, Kind::ListenerSet) => format!("{port}/{}/{}", owner.key, entry.id.name).into(),
        (_, _) => format!("{port}/{}", entry.id.name).into(),
    }
}

impl Listener {
    /// Whether it is accepted.
    pub(crate) fn is_accepted(&self) -> bool {
        self.refused.is_none()
    }

    /// Whether it is served at the address of its Gateway.
    pub(crate) fn is_served(&self) -> bool {
        self.is_accepted() && self.entry.is_complete()
    }
}

impl Parent {
    /// The listeners that are served.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(|listener| self.refused.is_none() && listener.is_served())
    }

    /// Diagnostics for its listeners.
    pub(crate) fn diagnostics(&self) -> impl Iterator<Item = Diagnostic> {
        self.listeners.iter().flat_map(|listener| {
            let origin = &listener.entry.origin;
            let refused = listener.refused.as_ref().map(|fault| {
                let found = Diagnostic::new(Severity::Error, "listener-not-accepted", origin.clone());
                found.because(fault.message.clone(), "the listener is not served")
            });
            let consequence = match listener.is_served() {
                true => "the listener is served without it",
                false => "the listener is not served",
            };
            let unresolved = listener.unresolved.as_ref().map(|fault| {
                let found = Diagnostic::new(Severity::Error, "listener-reference", origin.clone());
                found.because(fault.message.clone(), consequence)
            });
            refused.into_iter().chain(unresolved)
        })
    }
}

impl GatewayReading {
    /// The Gateway itself.
    pub(crate) fn own_parent(&self) -> Option<&Arc<Parent>> {
        self.parents.iter().find(|(it, _)| it.kind == Kind::Gateway).map(|(_, parent)| parent)
    }

    /// The listeners that are served, including those of ListenerSets.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Listener> {
        let accepted = self.wanted_gateway.is_some();
        self.parents.values().filter(move |_| accepted).flat_map(|parent| parent.served())
    }
}
