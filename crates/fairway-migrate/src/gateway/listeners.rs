//! Builds the Gateway with a listener for each host, ListenerSets for listeners beyond its limit, and ReferenceGrants for Secrets
//! in other namespaces.

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
use crate::gateway::input::ConversionOptions;
use crate::gateway::naming;
use crate::gateway::object::{self, WrittenObject};
use crate::gateway::routes::{Attachment, RulesByHost};

/// Gateway API `GatewaySpec.listeners` and `ListenerSetSpec.listeners`.
const MAX_LISTENERS: usize = 64;

/// The hosts that need listeners.
pub(crate) struct Hosts<'a> {
    /// The rules of each host.
    pub(crate) rules: &'a RulesByHost,
    /// The Secrets with the certificates of hosts that are served over TLS.
    pub(crate) certificates: &'a BTreeMap<HostPattern, ObjectKey>,
    /// Hosts with TLS passthrough.
    pub(crate) passed: &'a [HostPattern],
}

/// The listeners, and where the routes of each host attach.
#[derive(Debug, Default)]
pub(crate) struct ListenerPlan {
    pub(crate) attached: BTreeMap<HostPattern, Attachment>,
    pub(crate) passed: BTreeMap<HostPattern, ParentReference>,
    pub(crate) written: Vec<WrittenObject>,
}

/// The purpose of a listener.
enum ListenerNeed {
    /// Plain requests for all hosts without their own listener.
    Rest,
    Http(HostPattern),
    Https(HostPattern),
    Passed(HostPattern),
}

/// Builds the Gateway and its listeners.
pub(crate) fn plan_listeners(hosts: &Hosts<'_>, choice: &ConversionOptions) -> ListenerPlan {
    let namespaces: BTreeSet<&Arc<str>> =
        hosts.rules.values().flat_map(BTreeMap::keys).map(|ingress| &ingress.namespace).collect();
    let others = namespaces.iter().any(|namespace| **namespace != choice.gateway.namespace);
    let planned: Vec<(ListenerNeed, Listener)> = needed_listeners(hosts)
        .into_iter()
        .map(|item| {
            let listener = listener(&item, hosts, choice, others);
            (item, listener)
        })
        .collect();
    let mut listening = ListenerPlan::default();
    for (number, part) in planned.chunks(MAX_LISTENERS).enumerate() {
        let key = holder_key(choice, number);
        for (host, listener) in part {
            listening.attach(host, parent_reference(&key, number, &listener.name), hosts);
        }
        let listeners = part.iter().map(|(_, listener)| listener.clone()).collect();
        let has_overflow = planned.len() > MAX_LISTENERS;
        listening.written.push(match number {
            0 => gateway(&key, choice, listeners, has_overflow),
            _ => listener_set(&key, choice, listeners),
        });
    }
    listening.written.extend(grants(hosts, choice, planned.len() > MAX_LISTENERS));
    listening
}

impl ListenerPlan {
    fn attach(&mut self, need: &ListenerNeed, parent: ParentReference, hosts: &Hosts<'_>) {
        match need {
            ListenerNeed::Rest => {
                for host in hosts.rules.keys().filter(|host| !needs_own_listener(host, hosts)) {
                    self.attached.entry(host.clone()).or_default().http = Some(parent.clone());
                }
            }
            ListenerNeed::Http(host) => self.attached.entry(host.clone()).or_default().http = Some(parent),
            ListenerNeed::Https(host) => self.attached.entry(host.clone()).or_default().https = Some(parent),
            ListenerNeed::Passed(host) => drop(self.passed.insert(host.clone(), parent)),
        }
    }
}

fn needed_listeners(hosts: &Hosts<'_>) -> Vec<ListenerNeed> {
    let (alone, shared): (Vec<_>, Vec<_>) =
        hosts.rules.keys().partition(|host| needs_own_listener(host, hosts));
    let rest = (!shared.is_empty()).then_some(ListenerNeed::Rest);
    let http = alone.into_iter().cloned().map(ListenerNeed::Http);
    let https = hosts.certificates.keys().cloned().map(ListenerNeed::Https);
    let passed = hosts.passed.iter().cloned().map(ListenerNeed::Passed);
    rest.into_iter().chain(http).chain(https).chain(passed).collect()
}

/// Whether a host needs its own plain listener. An ingress controller returns 404 for a request that none of its rules matches; at
/// a listener for all hosts, the rules of a less specific host could serve it.
fn needs_own_listener(host: &HostPattern, hosts: &Hosts<'_>) -> bool {
    let covers = |other: &HostPattern| match (other, host) {
        (HostPattern::Any, HostPattern::Exact(_) | HostPattern::Wildcard { .. }) => true,
        (HostPattern::Wildcard { .. }, HostPattern::Exact(name)) => other.covers(name),
        (HostPattern::Wildcard { suffix, .. }, HostPattern::Wildcard { suffix: own, .. }) => {
            own.strip_suffix(&**suffix).is_some_and(|rest| rest.ends_with('.'))
        }
        _ => false,
    };
    let serves_all = || hosts.rules.get(host).is_some_and(|item| item.values().any(serves_every_path));
    hosts.rules.keys().any(covers) && !serves_all()
}

fn serves_every_path(drafts: &Drafts) -> bool {
    let everything = |draft: &Draft| {
        draft.rule.matches.iter().any(|item| {
            let path = item.path.as_ref().map(|path| (path.type_.as_deref(), path.value.as_deref()));
            path == Some((Some("PathPrefix"), Some("/")))
                && item.headers.is_empty()
                && item.query_params.is_empty()
                && item.method.is_none()
        })
    };
    drafts.http.iter().any(everything)
}

fn listener(need: &ListenerNeed, hosts: &Hosts<'_>, choice: &ConversionOptions, others: bool) -> Listener {
    let namespaces = FromNamespaces { from: Some("All".to_owned()), selector: None };
    let allowed = AllowedRoutes { namespaces: Some(namespaces), ..AllowedRoutes::default() };
    let (http, https) = (choice.http_port, choice.https_port);
    let any = HostPattern::Any;
    let (kind, host, port, protocol) = match need {
        ListenerNeed::Rest => ("http", &any, http, "HTTP"),
        ListenerNeed::Http(host) => ("http", host, http, "HTTP"),
        ListenerNeed::Https(host) => ("https", host, https, "HTTPS"),
        ListenerNeed::Passed(host) => ("tls", host, https, "TLS"),
    };
    let certificate = |secret: &ObjectKey| ObjectReference {
        name: secret.name.to_string(),
        namespace: (secret.namespace != choice.gateway.namespace).then(|| secret.namespace.to_string()),
        ..ObjectReference::default()
    };
    let tls = match need {
        ListenerNeed::Rest | ListenerNeed::Http(_) => None,
        ListenerNeed::Https(host) => Some(ListenerTls {
            certificate_refs: hosts.certificates.get(host).map(certificate).into_iter().collect(),
            ..ListenerTls::default()
        }),
        ListenerNeed::Passed(_) => {
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

/// The key of the Gateway, or of the ListenerSet with this number.
fn holder_key(choice: &ConversionOptions, number: usize) -> ObjectKey {
    let ObjectKey { namespace, name } = choice.gateway.clone();
    match number {
        0 => ObjectKey { namespace, name },
        number => ObjectKey { namespace, name: format!("{name}-{}", number + 1).into() },
    }
}

fn parent_reference(key: &ObjectKey, number: usize, section: &str) -> ParentReference {
    ParentReference {
        kind: (number > 0).then(|| "ListenerSet".to_owned()),
        name: key.name.to_string(),
        namespace: Some(key.namespace.to_string()),
        section_name: Some(section.to_owned()),
        ..ParentReference::default()
    }
}

fn gateway(
    key: &ObjectKey,
    choice: &ConversionOptions,
    listeners: Vec<Listener>,
    more: bool,
) -> WrittenObject {
    let namespaces = FromNamespaces { from: Some("Same".to_owned()), selector: None };
    let spec = GatewaySpec {
        gateway_class_name: choice.class.clone(),
        listeners,
        allowed_listeners: more.then_some(AllowedListeners { namespaces: Some(namespaces) }),
        ..GatewaySpec::default()
    };
    object::write_object::<Gateway>(key, &spec, Vec::new())
}

fn listener_set(key: &ObjectKey, choice: &ConversionOptions, listeners: Vec<Listener>) -> WrittenObject {
    let parent_ref = ObjectReference { name: choice.gateway.name.to_string(), ..ObjectReference::default() };
    let spec = ListenerSetSpec { listeners, parent_ref };
    object::write_object::<ListenerSet>(key, &spec, Vec::new())
}

/// The ReferenceGrants for Secrets outside the Gateway's namespace.
fn grants(hosts: &Hosts<'_>, choice: &ConversionOptions, sets: bool) -> Vec<WrittenObject> {
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
        object::write_object::<ReferenceGrant>(&key, &spec, Vec::new())
    };
    secrets.into_iter().map(grant).collect()
}

/// The ReferenceGrants for Services in other namespaces that routes or policies refer to.
pub(crate) fn grants_for_services(
    foreign: &BTreeSet<(ObjectKey, ObjectKey)>,
    prefix: &str,
    kinds: &[(&str, &str)],
) -> Vec<WrittenObject> {
    /// The namespace of the Services and that of the routes.
    type Pair<'a> = (&'a Arc<str>, &'a Arc<str>);
    let mut granted: BTreeMap<Pair<'_>, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for (ingress, service) in foreign {
        let pair = (&service.namespace, &ingress.namespace);
        granted.entry(pair).or_default().insert(&service.name);
    }
    let grant = |((namespace, from_namespace), names): (Pair<'_>, BTreeSet<&Arc<str>>)| {
        let from = |(group, kind): &(&str, &str)| ReferenceGrantFrom {
            group: (*group).to_owned(),
            kind: (*kind).to_owned(),
            namespace: from_namespace.to_string(),
        };
        let to = |name: &&Arc<str>| ReferenceGrantTo {
            group: String::new(),
            kind: "Service".to_owned(),
            name: Some(name.to_string()),
        };
        let spec =
            ReferenceGrantSpec { from: kinds.iter().map(from).collect(), to: names.iter().map(to).collect() };
        let key =
            ObjectKey { namespace: namespace.clone(), name: format!("{prefix}-of-{from_namespace}").into() };
        object::write_object::<ReferenceGrant>(&key, &spec, Vec::new())
    };
    granted.into_iter().map(grant).collect()
}
