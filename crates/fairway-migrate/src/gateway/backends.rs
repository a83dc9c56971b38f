//! Converts the backends of a rule: Services to backend references, and TLS to them to BackendTLSPolicies.

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

const PROTOCOL_ANNOTATIONS: &[&str] =
    &["backend-protocol", "proxy-ssl-verify", "proxy-ssl-secret", "proxy-ssl-name"];
const CLIENT_CERTIFICATE: &[&str] = &["proxy-ssl-secret"];
const HASHING_ANNOTATIONS: &[&str] =
    &["upstream-hash-by", "upstream-hash-by-subset", "upstream-hash-by-subset-size"];

/// A Service and its port, as routes refer to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) service: ObjectKey,
    pub(crate) port: i32,
}

/// The TLS settings of a Service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) spec: BackendTlsPolicySpec,
    /// The trusted CA certificates as PEM, for the ConfigMap that the policy names.
    pub(crate) authorities: Option<String>,
}

/// The policies of Services, by Service and port name.
pub(crate) type Policies = BTreeMap<(ObjectKey, Option<String>), Policy>;

/// Converts backends of the configuration to references.
pub(crate) struct Backends<'i> {
    pub(crate) input: &'i Input<'i>,
    pub(crate) policies: Policies,
}

/// The backends of a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) backends: Vec<HttpBackendRef>,
    /// The session cookie of each backend, in the same order.
    pub(crate) cookies: Vec<Option<SessionCookie>>,
    /// Whether all backends speak gRPC.
    pub(crate) grpc: bool,
    pub(crate) remarks: Vec<Remark>,
}

impl Backends<'_> {
    /// The references with their weights, or why there are none.
    pub(crate) fn shares(&mut self, weighted: &[WeightedBackend]) -> Result<Shares, String> {
        let mut shares = Shares { grpc: !weighted.is_empty(), ..Shares::default() };
        for it in weighted {
            let Some(backend) = self.input.backend(&it.backend) else {
                return Err(format!("unknown backend {}", it.backend));
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
            shares.backends.push(backend_ref(&to, weight));
        }
        Ok(shares)
    }

    /// The Service that the labels of a rule name, for rules without a backend in the configuration.
    pub(crate) fn shares_from_labels(&self, labels: &RuleLabels) -> Result<Shares, String> {
        let service = ObjectKey { namespace: labels.namespace.clone(), name: labels.service.clone() };
        if service.name.is_empty() {
            return Err("it names no Service".to_owned());
        }
        let to = self.with_port_number(service, &labels.service_port)?;
        Ok(Shares { backends: vec![backend_ref(&to, None)], ..Shares::default() })
    }

    /// The Service that receives mirrored requests; `None` if the mirror is not a Service.
    pub(crate) fn mirror_target(&self, backend: &BackendKey) -> Option<(BackendObjectReference, ObjectKey)> {
        let to = self.destination(self.input.backend(backend)?).ok()?;
        let reference = BackendObjectReference {
            name: to.service.name.to_string(),
            namespace: Some(to.service.namespace.to_string()),
            port: Some(to.port),
            ..BackendObjectReference::default()
        };
        Some((reference, to.service))
    }

    /// The Service and port of an authentication service, with remarks on TLS to it; `None` if it is not a Service.
    pub(crate) fn auth_service(&mut self, backend: &BackendKey) -> Option<(Destination, Vec<Remark>)> {
        let backend = self.input.backend(backend)?;
        // The input may lack the Service, but the URL of the authentication service contains the port number.
        let of_url = || {
            let ServiceName { namespace, name, port } = &backend.service;
            let service = ObjectKey { namespace: namespace.clone(), name: name.clone() };
            let is_service = !namespace.is_empty() && !name.is_empty();
            port.parse().ok().filter(|_| is_service).map(|port| Destination { service, port })
        };
        let to = self.destination(backend).ok().or_else(of_url)?;
        let found = backend.tls.as_ref().map(|tls| self.policy(&to, backend, tls)).unwrap_or_default();
        Some((to, found))
    }

    /// The Service and port of a backend.
    pub(crate) fn destination(&self, backend: &Backend) -> Result<Destination, String> {
        let name = &backend.service;
        if name.name.is_empty() || name.namespace.is_empty() {
            return Err(format!("the backend {} is not a Service", backend.key));
        }
        let service = ObjectKey { namespace: name.namespace.clone(), name: name.name.clone() };
        self.with_port_number(service, &name.port)
    }

    fn with_port_number(&self, service: ObjectKey, written: &str) -> Result<Destination, String> {
        match self.input.port(&service, written) {
            Some(port) => Ok(Destination { service, port: port.port }),
            None => Err(format!("the number of port {written} of Service {service} is unknown")),
        }
    }

    fn policy(&mut self, to: &Destination, backend: &Backend, tls: &UpstreamTls) -> Vec<Remark> {
        let Destination { service, port } = to;
        let written = self.input.port(service, &port.to_string());
        let section = written.and_then(|port| port.name).filter(|name| !name.is_empty());
        let default = || format!("{}.{}.svc", service.name, service.namespace);
        let name = tls.server_name.as_ref().map_or_else(default, ToString::to_string);
        let mut found = Vec::new();
        let (hostname, authorities) = match &tls.verification {
            UpstreamVerification::Chain { roots, name, .. } => (name.to_string(), Some(roots.to_string())),
            UpstreamVerification::Off | UpstreamVerification::Subject { .. } => {
                let remark = format!(
                    "TLS to Service {service} is verified: its certificate must be for {name} and from an authority of the \
                     system, or the BackendTLSPolicy must name another one"
                );
                found.push(Remark::differs(PROTOCOL_ANNOTATIONS, remark));
                (name, None)
            }
        };
        if tls.client_certificate.is_some() {
            let remark =
                "endpoints get no client certificate; spec.tls.backend of the Gateway can set one for all";
            found.push(Remark::lost(CLIENT_CERTIFICATE, remark));
        }
        if matches!(backend.protocol, BackendProtocol::Auto) {
            found.push(Remark::lost(
                PROTOCOL_ANNOTATIONS,
                "requests to endpoints use TLS, also for plain requests of clients",
            ));
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
        found
    }
}

/// The name of the ConfigMap with the CA certificates for a Service.
pub(crate) fn authorities_name(service: &str) -> String {
    format!("{service}-authorities")
}

fn backend_ref(to: &Destination, weight: Option<i32>) -> HttpBackendRef {
    HttpBackendRef {
        name: to.service.name.to_string(),
        port: Some(to.port),
        weight,
        ..HttpBackendRef::default()
    }
}

fn of_backend(backend: &Backend) -> Option<Remark> {
    let hash = matches!(backend.session, Some(fairway_model::SessionKey::Hash(_)));
    hash.then(|| Remark::lost(HASHING_ANNOTATIONS, "requests with the same hash key go to any endpoint"))
}
