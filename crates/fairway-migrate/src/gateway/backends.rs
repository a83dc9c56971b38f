//! Where the requests of a rule go: Services as references of routes, and what is spoken to them as BackendTLSPolicies.

use std::collections::BTreeMap;

use fairway_model::{
    Backend, BackendKey, BackendProtocol, RuleLabels, ServiceName, UpstreamTls, UpstreamVerification,
    WeightedBackend,
};
use fairway_objects::gateway_api::{
    BackendObjectReference, BackendTlsPolicySpec, BackendTlsValidation, HttpBackendRef, LocalObjectReference,
    PolicyTargetReference,
};
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::SessionCookie;

use crate::gateway::input::Input;
use crate::gateway::remark::Remark;
use crate::gateway::sessions;

const PROTOCOL: &[&str] = &["backend-protocol", "proxy-ssl-verify", "proxy-ssl-secret", "proxy-ssl-name"];
const CLIENT_CERTIFICATE: &[&str] = &["proxy-ssl-secret"];
const SESSIONS: &[&str] = &["upstream-hash-by", "upstream-hash-by-subset", "upstream-hash-by-subset-size"];

/// A Service and its port as routes name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) service: ObjectKey,
    pub(crate) port: i32,
}

/// What is spoken to a Service over TLS.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) spec: BackendTlsPolicySpec,
    /// The authorities that are trusted, as PEM, for the ConfigMap that the policy names.
    pub(crate) authorities: Option<String>,
}

/// All that Services need besides routes, by Service and the name of the port.
pub(crate) type Policies = BTreeMap<(ObjectKey, Option<String>), Policy>;

/// Turns backends of the configuration into references.
pub(crate) struct Backends<'i> {
    pub(crate) input: &'i Input<'i>,
    pub(crate) policies: Policies,
}

/// The backends of a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) of: Vec<HttpBackendRef>,
    /// The cookie of each one's sessions, in their order.
    pub(crate) cookies: Vec<Option<SessionCookie>>,
    /// Whether all of them speak gRPC.
    pub(crate) grpc: bool,
    pub(crate) remarks: Vec<Remark>,
}

impl Backends<'_> {
    /// References with their weights; or why there are none.
    pub(crate) fn shares(&mut self, weighted: &[WeightedBackend]) -> Result<Shares, String> {
        let mut shares = Shares { grpc: !weighted.is_empty(), ..Shares::default() };
        for it in weighted {
            let Some(backend) = self.input.backend(&it.backend) else {
                return Err(format!("nothing is known of the backend {}", it.backend));
            };
            let to = self.destination(backend)?;
            shares.grpc &= matches!(backend.protocol, BackendProtocol::H2c | BackendProtocol::Http2);
            shares.remarks.extend(of_backend(backend));
            shares.remarks.extend(sessions::remarks(backend, weighted.len()));
            shares.cookies.push(sessions::cookie(backend));
            if let Some(tls) = &backend.tls {
                shares.remarks.extend(self.policy(&to, backend, tls));
            }
            let weight = i32::try_from(it.weight).ok().filter(|_| weighted.len() > 1);
            shares.of.push(reference(&to, weight));
        }
        Ok(shares)
    }

    /// The Service that a rule names, where the configuration has no backend for it.
    pub(crate) fn labelled(&self, labels: &RuleLabels) -> Result<Shares, String> {
        let service = ObjectKey { namespace: labels.namespace.clone(), name: labels.service.clone() };
        if service.name.is_empty() {
            return Err("it names no Service".to_owned());
        }
        let to = self.numbered(service, &labels.service_port)?;
        Ok(Shares { of: vec![reference(&to, None)], ..Shares::default() })
    }

    /// The Service that gets copies of requests; `None` where a URL names something else.
    pub(crate) fn copies(&self, backend: &BackendKey) -> Option<(BackendObjectReference, ObjectKey)> {
        let to = self.destination(self.input.backend(backend)?).ok()?;
        let reference = BackendObjectReference {
            name: to.service.name.to_string(),
            namespace: Some(to.service.namespace.to_string()),
            port: Some(to.port),
            ..BackendObjectReference::default()
        };
        Some((reference, to.service))
    }

    /// The Service and port that are asked about requests, and what is said about TLS to it; `None` where they are no Service's.
    pub(crate) fn asked(&mut self, backend: &BackendKey) -> Option<(Destination, Vec<Remark>)> {
        let backend = self.input.backend(backend)?;
        // Often only the Ingresses are at hand. The URL of the service has the number of its port.
        let of_url = || {
            let ServiceName { namespace, name, port } = &backend.service;
            let service = ObjectKey { namespace: namespace.clone(), name: name.clone() };
            let is_service = !namespace.is_empty() && !name.is_empty();
            port.parse().ok().filter(|_| is_service).map(|port| Destination { service, port })
        };
        let to = self.destination(backend).ok().or_else(of_url)?;
        let said = backend.tls.as_ref().map(|tls| self.policy(&to, backend, tls)).unwrap_or_default();
        Some((to, said))
    }

    /// The Service and port of a backend.
    pub(crate) fn destination(&self, backend: &Backend) -> Result<Destination, String> {
        let name = &backend.service;
        if name.name.is_empty() || name.namespace.is_empty() {
            return Err(format!("the backend {} is no Service", backend.key));
        }
        let service = ObjectKey { namespace: name.namespace.clone(), name: name.name.clone() };
        self.numbered(service, &name.port)
    }

    fn numbered(&self, service: ObjectKey, written: &str) -> Result<Destination, String> {
        match self.input.port(&service, written) {
            Some(port) => Ok(Destination { service, port: port.port }),
            None => Err(format!("the number of port {written} of Service {service} is not known")),
        }
    }

    fn policy(&mut self, to: &Destination, backend: &Backend, tls: &UpstreamTls) -> Vec<Remark> {
        let Destination { service, port } = to;
        let written = self.input.port(service, &port.to_string());
        let section = written.and_then(|port| port.name).filter(|name| !name.is_empty());
        let default = || format!("{}.{}.svc", service.name, service.namespace);
        let name = tls.server_name.as_ref().map_or_else(default, ToString::to_string);
        let mut said = Vec::new();
        let (hostname, authorities) = match &tls.verification {
            UpstreamVerification::Chain { roots, name, .. } => (name.to_string(), Some(roots.to_string())),
            UpstreamVerification::Off | UpstreamVerification::Subject { .. } => {
                let what = format!(
                    "TLS to Service {service} is verified: its certificate must be for {name} and from an authority of the \
                     system, or the BackendTLSPolicy must name another one"
                );
                said.push(Remark::differs(PROTOCOL, what));
                (name, None)
            }
        };
        if tls.client_certificate.is_some() {
            let what =
                "no certificate is shown to endpoints; spec.tls.backend of the Gateway can name one for all";
            said.push(Remark::lost(CLIENT_CERTIFICATE, what));
        }
        if matches!(backend.protocol, BackendProtocol::Auto) {
            said.push(Remark::lost(PROTOCOL, "endpoints are spoken to over TLS, also for plain requests"));
        }
        let target = PolicyTargetReference {
            kind: "Service".to_owned(),
            name: service.name.to_string(),
            section_name: section.clone(),
            ..PolicyTargetReference::default()
        };
        let authority = |_: &String| LocalObjectReference {
            kind: "ConfigMap".to_owned(),
            name: authorities_name(&service.name),
            ..LocalObjectReference::default()
        };
        let validation = BackendTlsValidation {
            ca_certificate_refs: authorities.iter().map(authority).collect(),
            well_known_ca_certificates: authorities.is_none().then(|| "System".to_owned()),
            hostname,
            ..BackendTlsValidation::default()
        };
        let spec =
            BackendTlsPolicySpec { target_refs: vec![target], validation, ..BackendTlsPolicySpec::default() };
        self.policies.entry((service.clone(), section)).or_insert(Policy { spec, authorities });
        said
    }
}

/// The ConfigMap with the authorities of a Service.
pub(crate) fn authorities_name(service: &str) -> String {
    format!("{service}-authorities")
}

fn reference(to: &Destination, weight: Option<i32>) -> HttpBackendRef {
    HttpBackendRef {
        name: to.service.name.to_string(),
        port: Some(to.port),
        weight,
        ..HttpBackendRef::default()
    }
}

fn of_backend(backend: &Backend) -> Option<Remark> {
    let hash = matches!(backend.session, Some(fairway_model::SessionKey::Hash(_)));
    hash.then(|| Remark::lost(SESSIONS, "requests that belong together go to any endpoint"))
}
