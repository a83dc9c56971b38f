//! All Ingresses of an installation as objects of the Gateway API, and what is to be said about each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fairway_model::{HostPattern, StreamRoute, VirtualHost};
use fairway_objects::gateway_api::BackendTlsPolicy;
use fairway_objects::kinds::GROUP;
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::SecurityPolicy;
use k8s_openapi::Resource;
use serde::Serialize;

use crate::gateway::backends::{self, Backends, Policies};
use crate::gateway::bodies::Bodies;
use crate::gateway::drafts::{self, Drafting, Foreign, Tls};
use crate::gateway::input::{Choice, Input};
use crate::gateway::listeners::{self, Hosts};
use crate::gateway::naming::Names;
use crate::gateway::object::{self, Written};
use crate::gateway::protection::Annotated;
use crate::gateway::remark::{Fate, Remark, Remarks};
use crate::gateway::routes::{self, OfHosts};
use crate::gateway::rows::{self, Row};
use crate::gateway::streams;

/// What Ingresses become.
#[derive(Debug, Serialize)]
pub struct Moved {
    /// The objects, the Gateway first.
    #[serde(skip)]
    pub objects: Vec<Written>,
    /// Each Ingress that moves, in alphabetical order.
    pub ingresses: Vec<Entry>,
    /// How many Ingresses are other controllers'.
    pub of_others: usize,
    /// What differs for all.
    pub general: Vec<&'static str>,
}

/// What becomes of an Ingress.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// `NAMESPACE/NAME`.
    pub ingress: String,
    /// Where it was read, where that is a file.
    pub place: Option<String>,
    /// The worst of all that is said.
    pub fate: Fate,
    /// Its annotations, as they are listed.
    pub annotations: Vec<Row>,
    /// What else is said about it.
    pub remarks: Vec<Remark>,
    /// Its routes, as in `HTTPRoute shop/web`.
    pub routes: Vec<String>,
}

/// Turns the Ingresses of an installation into objects of the Gateway API.
#[must_use]
pub fn moved(input: &Input<'_>, choice: &Choice) -> Moved {
    let mut remarks = Remarks::default();
    let mut backends = Backends { input, policies: Policies::new() };
    let mut bodies = Bodies::default();
    let (mut foreign, annotated) = (Foreign::default(), Annotated::new(input));
    let passed = passed(input);
    let certificates = certificates(input, &passed, &mut remarks);
    let passed = without_takers(&passed, input, &certificates, &mut remarks);
    let mut hosts = OfHosts::new();
    for host in served(input) {
        if is_address(host, &mut remarks) {
            continue;
        }
        let tls = match passed.iter().any(|stream| stream.key.host == host.key.host) {
            true => Tls::Passed,
            false if certificates.contains_key(&host.key.host) => Tls::Here,
            false => Tls::Nowhere,
        };
        let asked = (&mut backends, &mut bodies, &annotated);
        let mut drafting = Drafting::new(choice, tls, asked, &mut remarks, &mut foreign, host);
        add_host(host, &mut drafting, &mut hosts);
    }
    let passed_hosts: Vec<_> = passed.iter().map(|stream| stream.key.host.clone()).collect();
    let of_hosts = Hosts { of: &hosts, certificates: &certificates, passed: &passed_hosts };
    let listening = listeners::listening(&of_hosts, choice);
    let mut names = Names::default();
    let mut routes = routes::routes(&hosts, &listening.attached, &mut names, &mut remarks);
    for stream in &passed {
        let Some(parent) = listening.passed.get(&stream.key.host).cloned() else { continue };
        match streams::route(stream, parent, &backends, &mut names) {
            Some((ingress, name, written)) => {
                routes.of.entry(ingress.clone()).or_default().push(name);
                routes.written.push((ingress, written));
            }
            None => {
                let what = format!("TLS of {} passes through to no Service", stream.key.host);
                remarks.add(&of_stream(stream), Remark::lost(&["ssl-passthrough"], what));
            }
        }
    }
    routes.written.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut objects = listening.written;
    let routes_kinds = [(GROUP, "HTTPRoute"), (GROUP, "GRPCRoute")];
    objects.extend(listeners::grants_for_services(&foreign.mirrors, "copies", &routes_kinds));
    let policies_kinds = [(SecurityPolicy::GROUP, SecurityPolicy::KIND)];
    objects.extend(listeners::grants_for_services(&foreign.asked, "questions", &policies_kinds));
    objects.extend(policies(&backends.policies));
    objects.append(&mut routes.filters.written);
    objects.extend(routes.protections.written());
    objects.extend(bodies.policies(choice.has_own_kinds(), &mut remarks));
    let (ingresses, of_others) = entries(input, &mut remarks, &routes.of);
    let mut commented = commented(routes.written, &ingresses);
    objects.append(&mut commented);
    Moved { objects, ingresses, of_others, general: remarks.general().to_vec() }
}

/// Hosts with rules of Ingresses.
fn served<'i>(input: &Input<'i>) -> impl Iterator<Item = &'i VirtualHost> + use<'i> {
    let of_ingress =
        |host: &&VirtualHost| host.routes.iter().flat_map(|route| &route.rules).any(drafts::is_of_ingress);
    input.config().hosts.values().map(|host| &**host).filter(of_ingress)
}

/// TLS of Ingresses that passes through.
fn passed<'i>(input: &Input<'i>) -> Vec<&'i StreamRoute> {
    let streams = input.config().streams.values().map(|stream| &**stream);
    streams.filter(|stream| *stream.origin.kind == *"Ingress").collect()
}

/// Leaves out wildcards whose listener would take the TLS of a host below them: one that ends its TLS at the controller and has no
/// certificate, so that no listener of its own is written.
fn without_takers<'i>(
    passed: &[&'i StreamRoute],
    input: &Input<'i>,
    certificates: &BTreeMap<HostPattern, ObjectKey>,
    remarks: &mut Remarks,
) -> Vec<&'i StreamRoute> {
    let has_listener = |host: &HostPattern| {
        certificates.contains_key(host) || passed.iter().any(|stream| stream.key.host == *host)
    };
    let hosts: Vec<&HostPattern> =
        served(input).map(|host| &host.key.host).filter(|host| !has_listener(host)).collect();
    let mut kept = Vec::new();
    for stream in passed.iter().copied() {
        let wildcard = &stream.key.host;
        let Some(host) = hosts.iter().find(|host| is_below(host, wildcard)) else {
            kept.push(stream);
            continue;
        };
        let what = format!(
            "TLS of {wildcard} does not pass through: its listener would take TLS of {host}, which has no certificate"
        );
        remarks.add(&of_stream(stream), Remark::lost(&["ssl-passthrough"], what));
    }
    kept
}

/// Whether a listener for `wildcard` takes TLS of `host` where that has none of its own. Wildcards of the Gateway API cover names with
/// any number of labels (`Hostname`).
fn is_below(host: &HostPattern, wildcard: &HostPattern) -> bool {
    let HostPattern::Wildcard { suffix, .. } = wildcard else { return false };
    let name = match host {
        HostPattern::Exact(name) => name,
        HostPattern::Wildcard { suffix, .. } => suffix,
        HostPattern::Any => return false,
    };
    name.strip_suffix(&**suffix).is_some_and(|above| above.ends_with('.'))
}

fn of_stream(stream: &StreamRoute) -> ObjectKey {
    ObjectKey { namespace: stream.origin.namespace.clone(), name: stream.origin.name.clone() }
}

/// The Secrets of hosts whose TLS ends at the Gateway.
fn certificates(
    input: &Input<'_>,
    passed: &[&StreamRoute],
    remarks: &mut Remarks,
) -> BTreeMap<HostPattern, ObjectKey> {
    let default = input.config().default_certificate.as_ref();
    let mut found = BTreeMap::new();
    for host in served(input).filter(|host| !passed.iter().any(|stream| stream.key.host == host.key.host)) {
        match host.certificate.as_ref().or(default).and_then(|key| ObjectKey::parse(&key.0)) {
            Some(secret) => drop(found.insert(host.key.host.clone(), secret)),
            None => remarks.add_general(
                "hosts without a certificate are served in the clear only; an ingress controller also has a certificate of its \
                 own for them",
            ),
        }
    }
    found
}

/// An address is no hostname of the Gateway API.
fn is_address(host: &VirtualHost, remarks: &mut Remarks) -> bool {
    let HostPattern::Exact(name) = &host.key.host else { return false };
    if name.trim_matches(['[', ']']).parse::<IpAddr>().is_err() {
        return false;
    }
    let rules = host.routes.iter().flat_map(|route| &route.rules);
    for ingress in rules.filter(|rule| drafts::is_of_ingress(rule)).map(drafts::ingress_of) {
        let what = format!("the host {name} is an address, and the Gateway API has no such hostnames");
        remarks.add(&ingress, Remark::lost(&[], what));
    }
    true
}

fn add_host(host: &VirtualHost, drafting: &mut Drafting<'_, '_>, hosts: &mut OfHosts) {
    let name = &host.key.host;
    for rule in host.routes.iter().flat_map(|route| &route.rules).filter(|rule| drafts::is_of_ingress(rule)) {
        let ingress = drafts::ingress_of(rule);
        if matches!(name, HostPattern::Wildcard { .. }) {
            let what =
                format!("{name} also covers names with further labels, as in a.b{}", &name.to_string()[1..]);
            drafting.remarks.add(&ingress, Remark::differs(&[], what));
        }
        let drafts = hosts.entry(name.clone()).or_default().entry(ingress).or_default();
        drafting.add(rule, drafts);
    }
}

/// BackendTLSPolicies, and the authorities that they name.
fn policies(policies: &Policies) -> Vec<Written> {
    let (mut written, mut names) = (Vec::new(), Names::default());
    for ((service, _), policy) in policies {
        let name = names.free(&service.namespace, &service.name);
        let key = ObjectKey { namespace: service.namespace.clone(), name: name.into() };
        if let Some(authorities) = &policy.authorities {
            let name = backends::authorities_name(&service.name);
            let key = ObjectKey { namespace: service.namespace.clone(), name: name.into() };
            let map = object::config_map(&key, &[("ca.crt", authorities)], Vec::new());
            if !written.contains(&map) {
                written.push(map);
            }
        }
        written.push(object::written::<BackendTlsPolicy>(&key, &policy.spec, Vec::new()));
    }
    written
}

/// What is said of each Ingress that is served, and how many others there are.
fn entries(
    input: &Input<'_>,
    remarks: &mut Remarks,
    routes: &BTreeMap<ObjectKey, Vec<String>>,
) -> (Vec<Entry>, usize) {
    let (mut entries, mut of_others) = (Vec::new(), 0);
    for (ingress, place) in input.ingresses.iter() {
        let key = ObjectKey::of(&ingress.metadata);
        if !input.translation.status.contains_key(&key) {
            of_others += 1;
            continue;
        }
        let mut said = remarks.take(&key);
        let annotations = rows::rows(ingress, input.prefix, &mut said);
        let fates = annotations.iter().map(|row| row.fate).chain(said.iter().map(|remark| remark.fate));
        entries.push(Entry {
            ingress: key.to_string(),
            place: place.map(str::to_owned),
            fate: fates.max().unwrap_or_default(),
            annotations,
            remarks: said,
            routes: routes.get(&key).cloned().unwrap_or_default(),
        });
    }
    entries.sort_by(|one, other| one.ingress.cmp(&other.ingress));
    (entries, of_others)
}

/// Says above the first route of an Ingress what becomes of it.
fn commented(routes: Vec<(ObjectKey, Written)>, entries: &[Entry]) -> Vec<Written> {
    let mut told: BTreeSet<ObjectKey> = BTreeSet::new();
    let mut written = Vec::with_capacity(routes.len());
    for (ingress, mut route) in routes {
        let entry = entries.iter().find(|entry| entry.ingress == ingress.to_string());
        if told.insert(ingress.clone()) {
            route.about.splice(0..0, entry.map(Entry::lines).unwrap_or_default());
        }
        route.about.insert(0, format!("Ingress {ingress}"));
        written.push(route);
    }
    written
}

impl Entry {
    /// What differs and what is lost, a line for each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let rows = self.annotations.iter().filter(|row| row.fate != Fate::Same);
        let rows =
            rows.map(|row| (row.fate, format!("{}: {}: {}", row.fate.word(), row.annotation, row.why)));
        let remarks = self.remarks.iter().map(|it| (it.fate, format!("{}: {}", it.fate.word(), it.what)));
        let mut lines: Vec<(Fate, String)> = rows.chain(remarks).collect();
        lines.sort_by(|(one, _), (other, _)| other.cmp(one));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
