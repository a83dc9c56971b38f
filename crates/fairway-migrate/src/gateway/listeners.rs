//! The Gateway with a listener for each host, ListenerSets for those beyond its limit, and ReferenceGrants for the Secrets of
//! other namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::HostPattern;
use fairway_objects::gateway_api::{
    AllowedListeners, AllowedRoutes, FromNamespaces, Gateway, GatewaySpec, Listener, ListenerSet,
    ListenerSetSpec, ListenerTls, ObjectReference, ParentReference, ReferenceGrant, ReferenceGrantFrom,
    ReferenceGrantSpec, ReferenceGrantTo,
};
use fairway_objects::kinds::GROUP;
use fairway_objects::object::ObjectKey;

use crate::gateway::drafts::{Draft, Drafts};
use crate::gateway::input::Choice;
use crate::gateway::naming;
use crate::gateway::object::{self, Written};
use crate::gateway::routes::{Attachment, OfHosts};

/// Gateway API `GatewaySpec.listeners` and `ListenerSetSpec.listeners`.
const MOST_LISTENERS: usize = 64;

/// What listeners are made for.
pub(crate) struct Hosts<'a> {
    /// The rules of each host.
    pub(crate) of: &'a OfHosts,
    /// The Secrets with the certificates of hosts that are served over TLS.
    pub(crate) certificates: &'a BTreeMap<HostPattern, ObjectKey>,
    /// Hosts whose TLS passes through.
    pub(crate) passed: &'a [HostPattern],
}

/// Listeners, and where routes of each host attach to them.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) attached: BTreeMap<HostPattern, Attachment>,
    pub(crate) passed: BTreeMap<HostPattern, ParentReference>,
    pub(crate) written: Vec<Written>,
}

/// What a listener is for.
enum For {
    /// All hosts in the clear that need no listener of their own.
    Rest,
    Http(HostPattern),
    Https(HostPattern),
    Passed(HostPattern),
}

/// The Gateway and what belongs to it.
pub(crate) fn listening(hosts: &Hosts<'_>, choice: &Choice) -> Listening {
    let namespaces: BTreeSet<&Arc<str>> =
        hosts.of.values().flat_map(BTreeMap::keys).map(|ingress| &ingress.namespace).collect();
    let others = namespaces.iter().any(|namespace| **namespace != choice.gateway.namespace);
    let wanted: Vec<(For, Listener)> = wanted(hosts)
        .into_iter()
        .map(|of| {
            let listener = listener(&of, hosts, choice, others);
            (of, listener)
        })
        .collect();
    let mut listening = Listening::default();
    for (number, part) in wanted.chunks(MOST_LISTENERS).enumerate() {
        let key = holder(choice, number);
        for (of, listener) in part {
            listening.attach(of, parent(&key, number, &listener.name), hosts);
        }
        let listeners = part.iter().map(|(_, listener)| listener.clone()).collect();
        let more = wanted.len() > MOST_LISTENERS;
        listening.written.push(match number {
            0 => gateway(&key, choice, listeners, more),
            _ => listener_set(&key, choice, listeners),
        });
    }
    listening.written.extend(grants(hosts, choice, wanted.len() > MOST_LISTENERS));
    listening
}

impl Listening {
    fn attach(&mut self, of: &For, parent: ParentReference, hosts: &Hosts<'_>) {
        match of {
            For::Rest => {
                for host in hosts.of.keys().filter(|host| !stands_alone(host, hosts)) {
                    self.attached.entry(host.clone()).or_default().http = Some(parent.clone());
                }
            }
            For::Http(host) => self.attached.entry(host.clone()).or_default().http = Some(parent),
            For::Https(host) => self.attached.entry(host.clone()).or_default().https = Some(parent),
            For::Passed(host) => drop(self.passed.insert(host.clone(), parent)),
        }
    }
}

fn wanted(hosts: &Hosts<'_>) -> Vec<For> {
    let (alone, shared): (Vec<_>, Vec<_>) = hosts.of.keys().partition(|host| stands_alone(host, hosts));
    let rest = (!shared.is_empty()).then_some(For::Rest);
    let http = alone.into_iter().cloned().map(For::Http);
    let https = hosts.certificates.keys().cloned().map(For::Https);
    let passed = hosts.passed.iter().cloned().map(For::Passed);
    rest.into_iter().chain(http).chain(https).chain(passed).collect()
}

/// Whether a host must have its own listener in the clear. A request that none of its rules matches is answered 404 by an
/// ingress controller; at a listener for all hosts the rules of a less specific host could serve it.
fn stands_alone(host: &HostPattern, hosts: &Hosts<'_>) -> bool {
    let covers = |other: &HostPattern| match (other, host) {
        (HostPattern::Any, HostPattern::Exact(_) | HostPattern::Wildcard { .. }) => true,
        (HostPattern::Wildcard { .. }, HostPattern::Exact(name)) => other.covers(name),
        (HostPattern::Wildcard { suffix, .. }, HostPattern::Wildcard { suffix: own, .. }) => {
            own.strip_suffix(&**suffix).is_some_and(|rest| rest.ends_with('.'))
        }
        _ => false,
    };
    let serves_all = || hosts.of.get(host).is_some_and(|of| of.values().any(serves_every_path));
    hosts.of.keys().any(covers) && !serves_all()
}

fn serves_every_path(drafts: &Drafts) -> bool {
    let everything = |draft: &Draft| {
        draft.rule.matches.iter().any(|of| {
            let path = of.path.as_ref().map(|path| (path.type_.as_deref(), path.value.as_deref()));
            path == Some((Some("PathPrefix"), Some("/")))
                && of.headers.is_empty()
                && of.query_params.is_empty()
                && of.method.is_none()
        })
    };
    drafts.http.iter().any(everything)
}

fn listener(of: &For, hosts: &Hosts<'_>, choice: &Choice, others: bool) -> Listener {
    let namespaces = FromNamespaces { from: Some("All".to_owned()), selector: None };
    let allowed = AllowedRoutes { namespaces: Some(namespaces), ..AllowedRoutes::default() };
    let (http, https) = (choice.http_port, choice.https_port);
    let any = HostPattern::Any;
    let (kind, host, port, protocol) = match of {
        For::Rest => ("http", &any, http, "HTTP"),
        For::Http(host) => ("http", host, http, "HTTP"),
        For::Https(host) => ("https", host, https, "HTTPS"),
        For::Passed(host) => ("tls", host, https, "TLS"),
    };
    let certificate = |secret: &ObjectKey| ObjectReference {
        name: secret.name.to_string(),
        namespace: (secret.namespace != choice.gateway.namespace).then(|| secret.namespace.to_string()),
        ..ObjectReference::default()
    };
    let tls = match of {
        For::Rest | For::Http(_) => None,
        For::Https(host) => Some(ListenerTls {
            certificate_refs: hosts.certificates.get(host).map(certificate).into_iter().collect(),
            ..ListenerTls::default()
        }),
        For::Passed(_) => {
            Some(ListenerTls { mode: Some("Passthrough".to_owned()), ..ListenerTls::default() })
        }
    };
    Listener {
        name: naming::of_listener(kind, host),
        hostname: naming::hostname(host),
        port: port.into(),
        protocol: protocol.to_owned(),
        allowed_routes: others.then_some(allowed),
        tls,
        ..Listener::default()
    }
}

/// The Gateway, or the ListenerSet of this number.
fn holder(choice: &Choice, number: usize) -> ObjectKey {
    let ObjectKey { namespace, name } = choice.gateway.clone();
    match number {
        0 => ObjectKey { namespace, name },
        number => ObjectKey { namespace, name: format!("{name}-{}", number + 1).into() },
    }
}

fn parent(key: &ObjectKey, number: usize, section: &str) -> ParentReference {
    ParentReference {
        kind: (number > 0).then(|| "ListenerSet".to_owned()),
        name: key.name.to_string(),
        namespace: Some(key.namespace.to_string()),
        section_name: Some(section.to_owned()),
        ..ParentReference::default()
    }
}

fn gateway(key: &ObjectKey, choice: &Choice, listeners: Vec<Listener>, more: bool) -> Written {
    let namespaces = FromNamespaces { from: Some("Same".to_owned()), selector: None };
    let spec = GatewaySpec {
        gateway_class_name: choice.class.clone(),
        listeners,
        allowed_listeners: more.then_some(AllowedListeners { namespaces: Some(namespaces) }),
        ..GatewaySpec::default()
    };
    object::written::<Gateway>(key, &spec, Vec::new())
}

fn listener_set(key: &ObjectKey, choice: &Choice, listeners: Vec<Listener>) -> Written {
    let parent_ref = ObjectReference { name: choice.gateway.name.to_string(), ..ObjectReference::default() };
    let spec = ListenerSetSpec { listeners, parent_ref };
    object::written::<ListenerSet>(key, &spec, Vec::new())
}

/// For the Secrets in other namespaces than the Gateway's.
fn grants(hosts: &Hosts<'_>, choice: &Choice, sets: bool) -> Vec<Written> {
    let mut secrets: BTreeMap<&Arc<str>, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for secret in hosts.certificates.values().filter(|it| it.namespace != choice.gateway.namespace) {
        secrets.entry(&secret.namespace).or_default().insert(&secret.name);
    }
    let kinds: &[&str] = if sets { &["Gateway", "ListenerSet"] } else { &["Gateway"] };
    let grant = |(namespace, names): (&Arc<str>, BTreeSet<&Arc<str>>)| {
        let from = |kind: &&str| ReferenceGrantFrom {
            group: GROUP.to_owned(),
            kind: (*kind).to_owned(),
            namespace: choice.gateway.namespace.to_string(),
        };
        let to = |name: &&Arc<str>| ReferenceGrantTo {
            group: String::new(),
            kind: "Secret".to_owned(),
            name: Some(name.to_string()),
        };
        let spec =
            ReferenceGrantSpec { from: kinds.iter().map(from).collect(), to: names.iter().map(to).collect() };
        let name = format!("{}-certificates", choice.gateway.name);
        let key = ObjectKey { namespace: namespace.clone(), name: name.into() };
        object::written::<ReferenceGrant>(&key, &spec, Vec::new())
    };
    secrets.into_iter().map(grant).collect()
}

/// For Services in other namespaces that get copies of the requests of routes.
pub(crate) fn grants_for_services(
    foreign: &BTreeSet<(ObjectKey, ObjectKey)>,
    prefix: &str,
    kinds: &[(&str, &str)],
) -> Vec<Written> {
    /// The namespace of Services and that of routes.
    type Pair<'a> = (&'a Arc<str>, &'a Arc<str>);
    let mut granted: BTreeMap<Pair<'_>, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for (ingress, service) in foreign {
        let pair = (&service.namespace, &ingress.namespace);
        granted.entry(pair).or_default().insert(&service.name);
    }
    let grant = |((namespace, of), names): (Pair<'_>, BTreeSet<&Arc<str>>)| {
        let from = |(group, kind): &(&str, &str)| ReferenceGrantFrom {
            group: (*group).to_owned(),
            kind: (*kind).to_owned(),
            namespace: of.to_string(),
        };
        let to = |name: &&Arc<str>| ReferenceGrantTo {
            group: String::new(),
            kind: "Service".to_owned(),
            name: Some(name.to_string()),
        };
        let spec =
            ReferenceGrantSpec { from: kinds.iter().map(from).collect(), to: names.iter().map(to).collect() };
        let key = ObjectKey { namespace: namespace.clone(), name: format!("{prefix}-of-{of}").into() };
        object::written::<ReferenceGrant>(&key, &spec, Vec::new())
    };
    granted.into_iter().map(grant).collect()
}
