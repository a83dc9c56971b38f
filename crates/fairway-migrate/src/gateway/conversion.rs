//! Converts all Ingresses of an installation to Gateway API objects, with a report on each.

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
use crate::gateway::bodies::TrafficSettings;
use crate::gateway::drafts::{self, DraftBuilder, ForeignServices, Tls};
use crate::gateway::input::{ConversionOptions, Input};
use crate::gateway::listeners::{self, Hosts};
use crate::gateway::naming::Names;
use crate::gateway::object::{self, WrittenObject};
use crate::gateway::protection::Annotated;
use crate::gateway::remark::{Outcome, Remark, Remarks};
use crate::gateway::routes::{self, RulesByHost};
use crate::gateway::rows::{self, ConvertedAnnotation};
use crate::gateway::streams;

/// The result of the conversion.
#[derive(Debug, Serialize)]
pub struct Moved {
    /// The objects, the Gateway first.
    #[serde(skip)]
    pub objects: Vec<WrittenObject>,
    /// The converted Ingresses, in alphabetical order.
    pub ingresses: Vec<MovedIngress>,
    /// Number of Ingresses of other controllers.
    pub of_others: usize,
    /// Differences that apply to all Ingresses.
    pub general: Vec<&'static str>,
}

/// The report on an Ingress.
#[derive(Debug, Serialize)]
pub struct MovedIngress {
    /// `NAMESPACE/NAME`.
    pub ingress: String,
    /// File and line, if it was read from a file.
    pub place: Option<String>,
    /// The worst outcome of its annotations and remarks.
    pub fate: Outcome,
    /// Its annotations in their order.
    pub annotations: Vec<ConvertedAnnotation>,
    /// Other remarks.
    pub remarks: Vec<Remark>,
    /// Its routes, such as `HTTPRoute shop/web`.
    pub routes: Vec<String>,
}

/// Converts the Ingresses of an installation to Gateway API objects.
#[must_use]
pub fn move_objects(input: &Input<'_>, choice: &ConversionOptions) -> Moved {
    let mut remarks = Remarks::default();
    let mut backends = Backends { input, policies: Policies::new() };
    let mut bodies = TrafficSettings::default();
    let (mut foreign, annotated) = (ForeignServices::default(), Annotated::new(input));
    let passed = passthrough_routes(input);
    let certificates = certificates(input, &passed, &mut remarks);
    let passed = without_takers(&passed, input, &certificates, &mut remarks);
    let mut hosts = RulesByHost::new();
    for host in served_hosts(input) {
        if is_address(host, &mut remarks) {
            continue;
        }
        let tls = match passed.iter().any(|stream| stream.key.host == host.key.host) {
            true => Tls::Passed,
            false if certificates.contains_key(&host.key.host) => Tls::Here,
            false => Tls::Nowhere,
        };
        let parts = (&mut backends, &mut bodies, &annotated);
        let mut drafting = DraftBuilder::new(choice, tls, parts, &mut remarks, &mut foreign, host);
        add_host(host, &mut drafting, &mut hosts);
    }
    let passed_hosts: Vec<_> = passed.iter().map(|stream| stream.key.host.clone()).collect();
    let of_hosts = Hosts { rules: &hosts, certificates: &certificates, passed: &passed_hosts };
    let listening = listeners::plan_listeners(&of_hosts, choice);
    let mut names = Names::default();
    let mut routes = routes::routes(&hosts, &listening.attached, &mut names, &mut remarks);
    for stream in &passed {
        let Some(parent) = listening.passed.get(&stream.key.host).cloned() else { continue };
        match streams::route(stream, parent, &backends, &mut names) {
            Some((ingress, name, written)) => {
                routes.by_ingress.entry(ingress.clone()).or_default().push(name);
                routes.written.push((ingress, written));
            }
            None => {
                let subject = format!("TLS of {} has no Service for passthrough", stream.key.host);
                remarks.add(&of_stream(stream), Remark::lost(&["ssl-passthrough"], subject));
            }
        }
    }
    routes.written.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut objects = listening.written;
    let routes_kinds = [(GROUP, "HTTPRoute"), (GROUP, "GRPCRoute")];
    objects.extend(listeners::grants_for_services(&foreign.mirrors, "copies", &routes_kinds));
    let policies_kinds = [(SecurityPolicy::GROUP, SecurityPolicy::KIND)];
    objects.extend(listeners::grants_for_services(&foreign.requested, "questions", &policies_kinds));
    objects.extend(policies(&backends.policies));
    objects.append(&mut routes.filters.written);
    objects.extend(routes.protections.written());
    objects.extend(bodies.policies(choice.has_own_kinds(), &mut remarks));
    let (ingresses, of_others) = moved_ingresses(input, &mut remarks, &routes.by_ingress);
    let mut commented = with_comments(routes.written, &ingresses);
    objects.append(&mut commented);
    Moved { objects, ingresses, of_others, general: remarks.general().to_vec() }
}

/// Hosts with rules of Ingresses.
fn served_hosts<'i>(input: &Input<'i>) -> impl Iterator<Item = &'i VirtualHost> + use<'i> {
    let of_ingress =
        |host: &&VirtualHost| host.routes.iter().flat_map(|route| &route.rules).any(drafts::is_of_ingress);
    input.config().hosts.values().map(|host| &**host).filter(of_ingress)
}

/// The TLS passthrough of Ingresses.
fn passthrough_routes<'i>(input: &Input<'i>) -> Vec<&'i StreamRoute> {
    let streams = input.config().streams.values().map(|stream| &**stream);
    streams.filter(|stream| *stream.origin.kind == *"Ingress").collect()
}

/// Skips passthrough of wildcards whose listener would take the TLS of a host below them: a host that is terminated at the
/// controller but has no certificate, and therefore gets no listener of its own.
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
        served_hosts(input).map(|host| &host.key.host).filter(|host| !has_listener(host)).collect();
    let mut kept_rules = Vec::new();
    for stream in passed.iter().copied() {
        let wildcard = &stream.key.host;
        let Some(host) = hosts.iter().find(|host| is_below(host, wildcard)) else {
            kept_rules.push(stream);
            continue;
        };
        let effect = format!(
            "TLS of {wildcard} does not pass through: its listener would take TLS of {host}, which has no certificate"
        );
        remarks.add(&of_stream(stream), Remark::lost(&["ssl-passthrough"], effect));
    }
    kept_rules
}

/// Whether a listener for `wildcard` takes TLS of `host` if that has no listener. Gateway API wildcards cover any number of labels
/// (`Hostname`).
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

/// The Secrets of hosts whose TLS is terminated at the Gateway.
fn certificates(
    input: &Input<'_>,
    passed: &[&StreamRoute],
    remarks: &mut Remarks,
) -> BTreeMap<HostPattern, ObjectKey> {
    let default = input.config().default_certificate.as_ref();
    let mut found = BTreeMap::new();
    for host in
        served_hosts(input).filter(|host| !passed.iter().any(|stream| stream.key.host == host.key.host))
    {
        match host.certificate.as_ref().or(default).and_then(|key| ObjectKey::parse(&key.0)) {
            Some(secret) => drop(found.insert(host.key.host.clone(), secret)),
            None => remarks.add_general(
                "hosts without a certificate are only served over plain HTTP; an ingress controller also serves them with its \
                 default certificate",
            ),
        }
    }
    found
}

/// Whether a host is an IP address, which cannot be a Gateway API hostname.
fn is_address(host: &VirtualHost, remarks: &mut Remarks) -> bool {
    let HostPattern::Exact(name) = &host.key.host else { return false };
    if name.trim_matches(['[', ']']).parse::<IpAddr>().is_err() {
        return false;
    }
    let rules = host.routes.iter().flat_map(|route| &route.rules);
    for ingress in rules.filter(|rule| drafts::is_of_ingress(rule)).map(drafts::ingress_of) {
        let subject =
            format!("the host {name} is an IP address, which the Gateway API does not allow as a hostname");
        remarks.add(&ingress, Remark::lost(&[], subject));
    }
    true
}

fn add_host(host: &VirtualHost, drafting: &mut DraftBuilder<'_, '_>, hosts: &mut RulesByHost) {
    let name = &host.key.host;
    for rule in host.routes.iter().flat_map(|route| &route.rules).filter(|rule| drafts::is_of_ingress(rule)) {
        let ingress = drafts::ingress_of(rule);
        if matches!(name, HostPattern::Wildcard { .. }) {
            let remark =
                format!("{name} also covers names with further labels, as in a.b{}", &name.to_string()[1..]);
            drafting.remarks.add(&ingress, Remark::differs(&[], remark));
        }
        let drafts = hosts.entry(name.clone()).or_default().entry(ingress).or_default();
        drafting.add(rule, drafts);
    }
}

/// The BackendTLSPolicies and the ConfigMaps with their CA certificates.
fn policies(policies: &Policies) -> Vec<WrittenObject> {
    let (mut written, mut names) = (Vec::new(), Names::default());
    for ((service, _), policy) in policies {
        let name = names.claim_free_name(&service.namespace, &service.name);
        let key = ObjectKey { namespace: service.namespace.clone(), name: name.into() };
        if let Some(authorities) = &policy.authorities {
            let name = backends::authorities_name(&service.name);
            let key = ObjectKey { namespace: service.namespace.clone(), name: name.into() };
            let map = object::config_map(&key, &[("ca.crt", authorities)], Vec::new());
            if !written.contains(&map) {
                written.push(map);
            }
        }
        written.push(object::write_object::<BackendTlsPolicy>(&key, &policy.spec, Vec::new()));
    }
    written
}

/// The report on each served Ingress, and the number of the others.
fn moved_ingresses(
    input: &Input<'_>,
    remarks: &mut Remarks,
    routes: &BTreeMap<ObjectKey, Vec<String>>,
) -> (Vec<MovedIngress>, usize) {
    let (mut entries, mut of_others) = (Vec::new(), 0);
    for (ingress, place) in input.ingresses.iter() {
        let key = ObjectKey::from_metadata(&ingress.metadata);
        if !input.translation.status.contains_key(&key) {
            of_others += 1;
            continue;
        }
        let mut own_remarks = remarks.take(&key);
        let annotations = rows::rows(ingress, input.prefix, &mut own_remarks);
        let fates =
            annotations.iter().map(|row| row.fate).chain(own_remarks.iter().map(|remark| remark.fate));
        entries.push(MovedIngress {
            ingress: key.to_string(),
            place: place.map(str::to_owned),
            fate: fates.max().unwrap_or_default(),
            annotations,
            remarks: own_remarks,
            routes: routes.get(&key).cloned().unwrap_or_default(),
        });
    }
    entries.sort_by(|one, other| one.ingress.cmp(&other.ingress));
    (entries, of_others)
}

/// Adds the report on an Ingress as a comment above its first route.
fn with_comments(routes: Vec<(ObjectKey, WrittenObject)>, entries: &[MovedIngress]) -> Vec<WrittenObject> {
    let mut reported: BTreeSet<ObjectKey> = BTreeSet::new();
    let mut written = Vec::with_capacity(routes.len());
    for (ingress, mut route) in routes {
        let entry = entries.iter().find(|entry| entry.ingress == ingress.to_string());
        if reported.insert(ingress.clone()) {
            route.about.splice(0..0, entry.map(MovedIngress::lines).unwrap_or_default());
        }
        route.about.insert(0, format!("Ingress {ingress}"));
        written.push(route);
    }
    written
}

impl MovedIngress {
    /// The differences and losses, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let rows = self.annotations.iter().filter(|row| row.fate != Outcome::Same);
        let rows =
            rows.map(|row| (row.fate, format!("{}: {}: {}", row.fate.word(), row.annotation, row.why)));
        let remarks = self.remarks.iter().map(|it| (it.fate, format!("{}: {}", it.fate.word(), it.what)));
        let mut lines: Vec<(Outcome, String)> = rows.chain(remarks).collect();
        lines.sort_by(|(one, _), (other, _)| other.cmp(one));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
