//! Derives [`DesiredState`] from the objects of a cluster. Pure: never calls the API.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, IngressTLS};

use crate::adapter::desired::{Action, Certificate, DesiredState, Host, PathMatch, Rule};

/// `"true"`: adds CORS headers that allow every origin.
pub(crate) const CORS: &str = "lab.fairway.dev/cors";
/// `Name: value`: a header added to each response.
pub(crate) const RESPONSE_HEADER: &str = "lab.fairway.dev/response-header";
/// `/prefix`: paths below it are forwarded without it.
pub(crate) const REWRITE: &str = "lab.fairway.dev/rewrite";
/// `/path location`: this path redirects with 302.
pub(crate) const REDIRECT: &str = "lab.fairway.dev/redirect";

/// The objects of the watched namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Ingresses of every class.
    pub ingresses: Vec<Arc<Ingress>>,
    /// Services.
    pub services: Vec<Arc<Service>>,
    /// EndpointSlices.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Secrets of type kubernetes.io/tls.
    pub secrets: Vec<Arc<Secret>>,
}

/// The desired state of the Ingresses of a class. References to missing objects are ignored, as controllers do.
#[must_use]
pub(crate) fn derive_desired_state(objects: &Objects, class: &str) -> DesiredState {
    let mut ingresses: Vec<_> =
        objects.ingresses.iter().filter(|ingress| has_class(ingress, class)).collect();
    ingresses.sort_by_key(|ingress| &ingress.metadata.name);
    let mut desired = DesiredState::default();
    let mut services = BTreeSet::new();
    for ingress in ingresses {
        read(ingress, &mut desired, &mut services);
    }
    for host in desired.hosts.values_mut() {
        host.sort();
    }
    for (service, port) in services {
        desired.backends.insert(backend_name(&service, port), endpoints(objects, &service, port));
    }
    keep_certificates(objects, &mut desired);
    desired
}

fn has_class(ingress: &Ingress, class: &str) -> bool {
    ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref()) == Some(class)
}

fn backend_name(service: &str, port: i32) -> String {
    format!("{service}-{port}")
}

fn read(ingress: &Ingress, desired: &mut DesiredState, services: &mut BTreeSet<(String, i32)>) {
    let Some(spec) = &ingress.spec else { return };
    for rule in spec.rules.iter().flatten() {
        let (Some(name), Some(http)) = (&rule.host, &rule.http) else { continue };
        let host = desired.hosts.entry(name.clone()).or_default();
        filters(ingress, host);
        if let Some(secret) = secret_for_host(spec.tls.as_deref().unwrap_or_default(), name) {
            host.certificate = Some(secret);
        }
        for path in &http.paths {
            let Some((service, port)) = number(&path.backend) else { continue };
            let backend = backend_name(&service, port);
            services.insert((service, port));
            let text = path.path.clone().unwrap_or_else(|| "/".to_owned());
            let exact = path.path_type == "Exact";
            let path = if exact { PathMatch::Exact(text) } else { PathMatch::Prefix(text) };
            host.rules.push(Rule { path, action: Action::Forward { backend: backend.clone(), strip: None } });
            if let Some(prefix) = annotation(ingress, REWRITE) {
                let action = Action::Forward { backend, strip: Some(prefix.to_owned()) };
                host.rules.push(Rule { path: PathMatch::Prefix(prefix.to_owned()), action });
            }
        }
    }
}

/// The number of the port that a backend names. One without a number is not among what scenarios make.
fn number(backend: &IngressBackend) -> Option<(String, i32)> {
    let service = backend.service.as_ref()?;
    Some((service.name.clone(), service.port.as_ref()?.number?))
}

fn filters(ingress: &Ingress, host: &mut Host) {
    host.cors |= annotation(ingress, CORS) == Some("true");
    if let Some((name, value)) = annotation(ingress, RESPONSE_HEADER).and_then(|text| text.split_once(": ")) {
        host.response_headers.push((name.to_owned(), value.to_owned()));
    }
    if let Some((path, to)) = annotation(ingress, REDIRECT).and_then(|text| text.split_once(' ')) {
        let action = Action::Redirect { target: to.to_owned() };
        host.rules.push(Rule { path: PathMatch::Exact(path.to_owned()), action });
    }
}

fn annotation<'a>(ingress: &'a Ingress, name: &str) -> Option<&'a str> {
    ingress.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn secret_for_host(entries: &[IngressTLS], host: &str) -> Option<String> {
    entries
        .iter()
        .find(|entry| entry.hosts.iter().flatten().any(|named| named == host))
        .and_then(|entry| entry.secret_name.clone())
}

/// The ready endpoints of a Service's port. A missing `ready` means true (EndpointConditions).
fn endpoints(objects: &Objects, service: &str, port: i32) -> Vec<SocketAddr> {
    let named = objects.services.iter().find(|each| each.metadata.name.as_deref() == Some(service));
    let ports = named.and_then(|service| service.spec.as_ref()).and_then(|spec| spec.ports.as_ref());
    let Some(wanted) = ports.into_iter().flatten().find(|each| each.port == port) else { return Vec::new() };
    let mut found = BTreeSet::new();
    for slice in objects.slices.iter().filter(|slice| slice.address_type == "IPv4" && belongs(slice, service))
    {
        let port =
            slice.ports.iter().flatten().find(|each| same_name(each.name.as_deref(), wanted.name.as_deref()));
        let Some(port) = port.and_then(|port| port.port).and_then(|port| u16::try_from(port).ok()) else {
            continue;
        };
        let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
        });
        found.extend(
            ready
                .flat_map(|endpoint| &endpoint.addresses)
                .filter_map(|address| address.parse::<IpAddr>().ok())
                .map(|address| SocketAddr::new(address, port)),
        );
    }
    found.into_iter().collect()
}

fn belongs(slice: &EndpointSlice, service: &str) -> bool {
    let label = slice.metadata.labels.as_ref().and_then(|labels| labels.get("kubernetes.io/service-name"));
    label.map(String::as_str) == Some(service)
}

fn same_name(left: Option<&str>, right: Option<&str>) -> bool {
    left.unwrap_or_default() == right.unwrap_or_default()
}

/// Assigns certificates to hosts; a host whose Secret is missing is served over plain HTTP.
fn keep_certificates(objects: &Objects, desired: &mut DesiredState) {
    let known: BTreeMap<_, _> = objects
        .secrets
        .iter()
        .filter_map(|secret| Some((secret.metadata.name.clone()?, certificate(secret)?)))
        .collect();
    for host in desired.hosts.values_mut() {
        let Some(name) = &host.certificate else { continue };
        match known.get(name) {
            Some(certificate) => {
                desired.certificates.insert(name.clone(), certificate.clone());
            }
            None => host.certificate = None,
        }
    }
}

fn certificate(secret: &Secret) -> Option<Certificate> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Certificate { chain: text("tls.crt")?, key: text("tls.key")? })
}

#[cfg(test)]
#[path = "derive_tests.rs"]
mod tests;
