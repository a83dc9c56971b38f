//! BackendTLSPolicies: TLS settings for the endpoints of a Service, and which of several policies applies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{SubjectName, TrustedRoots, UpstreamVerification};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::gateway_api::{BackendTlsPolicy, ParentReference, SubjectAltName};
use fairway_objects::inputs::Inputs;
use fairway_objects::object::{Kind, ObjectKey, ObjectRef, Sourced};
use fairway_objects::service::KeptService;
use fairway_objects::users::ReverseIndex;

use crate::authority::{self, FaultReasons, NamedReference};
use crate::condition::{ACCEPTED, Condition, Fault, RESOLVED_REFS};
use crate::grant::Referrer;
use crate::status::{GATEWAY_GROUP, MAX_ANCESTORS, ParentStatus};

const REASONS: FaultReasons = FaultReasons { kind: "InvalidKind", reference: "InvalidCACertificateRef" };

/// A Service, or one of its ports by name.
pub(crate) type TlsTarget = (ObjectKey, Option<Arc<str>>);

/// The policies of each target, the one that applies first.
pub(crate) type TlsTargets = ReverseIndex<TlsTarget, (i64, ObjectKey)>;

/// The SNI name and the verification of endpoints.
pub(crate) type TlsVerification = (Arc<str>, UpstreamVerification);

/// The content of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsPolicy {
    pub(crate) key: ObjectKey,
    pub(crate) created: i64,
    pub(crate) targets: BTreeSet<TlsTarget>,
    /// ConfigMaps and Secrets that it references.
    pub(crate) named: Vec<ObjectRef>,
    /// The verification, or why it is unusable.
    pub(crate) tls: Result<TlsVerification, Fault>,
    /// The invalid reference.
    pub(crate) unresolved: Option<Fault>,
    /// Target Services that do not exist, or that lack the target port.
    pub(crate) missing: BTreeMap<ObjectKey, Fault>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// ConfigMaps and Secrets that a policy references.
pub(crate) fn named_references(policy: &BackendTlsPolicy, namespace: &str) -> Vec<ObjectRef> {
    let keyed = policy.spec.validation.ca_certificate_refs.iter();
    let keyed = keyed.map(|it| (it, ObjectKey::new(namespace, &it.name)));
    keyed
        .filter_map(|(it, key)| NamedReference { group: &it.group, kind: &it.kind, key: &key }.object())
        .collect()
}

/// Reads a policy.
pub(crate) fn read(key: &ObjectKey, policy: &Sourced<BackendTlsPolicy>, inputs: Inputs<'_>) -> TlsPolicy {
    let object = &*policy.object;
    let services = object.spec.target_refs.iter().filter(|it| it.group.is_empty() && it.kind == "Service");
    let target = |it: &fairway_objects::gateway_api::PolicyTargetReference| {
        let section = it.section_name.as_deref().filter(|name| !name.is_empty());
        (ObjectKey::new(&key.namespace, &it.name), section.map(Into::into))
    };
    let targets: BTreeSet<TlsTarget> = services.map(target).collect();
    let missing = missing_targets(&targets, inputs);
    let (tls, unresolved) = verification(object, &key.namespace, inputs);
    let mut diagnostics = Vec::new();
    for fault in missing.values() {
        let origin = policy.origin(Kind::BackendTlsPolicy, key, "spec.targetRefs");
        let found = Diagnostic::new(Severity::Error, "policy-target", origin);
        diagnostics.push(found.because(fault.message.clone(), "it has no effect there"));
    }
    for fault in tls.as_ref().err().into_iter().chain(&unresolved) {
        let origin = policy.origin(Kind::BackendTlsPolicy, key, "spec.validation");
        let consequence = match tls {
            Ok(_) => "the others are used",
            Err(_) => "requests to the Services that it targets are answered 500",
        };
        let found = Diagnostic::new(Severity::Error, "invalid-tls-policy", origin);
        diagnostics.push(found.because(fault.message.clone(), consequence));
    }
    TlsPolicy {
        key: key.clone(),
        created: object.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |at| at.0.as_second()),
        targets,
        named: named_references(object, &key.namespace),
        tls,
        unresolved,
        missing,
        diagnostics,
    }
}

/// Target Services that do not exist or lack the port; the policy applies to no connection there (Gateway API
/// `PolicyReasonTargetNotFound`, `LocalPolicyTargetReferenceWithSectionName`).
fn missing_targets(targets: &BTreeSet<TlsTarget>, inputs: Inputs<'_>) -> BTreeMap<ObjectKey, Fault> {
    let mut missing = BTreeMap::new();
    for (key, section) in targets {
        let problem = match (inputs.resources.services.get(key), section.as_deref()) {
            (None, _) => format!("Service {key} does not exist"),
            (Some(service), Some(section)) if !has_port(&service.object, section) => {
                format!("Service {key} has no port {section}")
            }
            (Some(_), _) => continue,
        };
        missing.entry(key.clone()).or_insert_with(|| Fault::new("TargetNotFound", problem));
    }
    missing
}

fn has_port(service: &KeptService, name: &str) -> bool {
    service.ports.iter().any(|port| port.name.as_deref() == Some(name))
}

fn verification(
    policy: &BackendTlsPolicy,
    namespace: &str,
    inputs: Inputs<'_>,
) -> (Result<TlsVerification, Fault>, Option<Fault>) {
    let validation = &policy.spec.validation;
    let well_known = validation.well_known_ca_certificates.as_deref().filter(|name| !name.is_empty());
    let references = &validation.ca_certificate_refs;
    let keyed: Vec<_> = references.iter().map(|it| (it, ObjectKey::new(namespace, &it.name))).collect();
    let all = keyed.iter().map(|(it, key)| NamedReference { group: &it.group, kind: &it.kind, key });
    let from = Referrer { kind: Kind::BackendTlsPolicy, namespace };
    let (pem, faults) = authority::resolve_all(all, from, inputs, REASONS);
    let unresolved = faults.into_iter().next();
    let roots = match (pem, well_known) {
        (Some(pem), None) => Ok(TrustedRoots::Pem(pem)),
        (None, Some("System")) if references.is_empty() => Ok(TrustedRoots::System),
        (None, None) if !references.is_empty() => {
            Err(Fault::new("NoValidCACertificate", "none of caCertificateRefs leads to a certificate"))
        }
        (_, Some(other)) if other != "System" => {
            Err(Fault::new("Invalid", format!("wellKnownCACertificates {other} is not known")))
        }
        (_, Some(_)) => {
            Err(Fault::new("Invalid", "caCertificateRefs and wellKnownCACertificates exclude each other"))
        }
        (None, None) => {
            Err(Fault::new("Invalid", "neither caCertificateRefs nor wellKnownCACertificates is there"))
        }
    };
    let host: Arc<str> = validation.hostname.to_ascii_lowercase().into();
    let tls = roots.and_then(|roots| {
        let names = names(&host, &validation.subject_alt_names)?;
        Ok((host, UpstreamVerification::Subject { roots, names }))
    });
    (tls, unresolved)
}

/// Names of which a certificate must have one: the hostname only if there are no alternatives.
fn names(host: &Arc<str>, alternatives: &[SubjectAltName]) -> Result<Vec<SubjectName>, Fault> {
    if alternatives.is_empty() {
        return Ok(vec![SubjectName::Dns(host.clone())]);
    }
    let name = |it: &SubjectAltName| match (&*it.type_, &it.hostname, &it.uri) {
        ("Hostname", Some(name), _) => Ok(SubjectName::Dns(name.to_ascii_lowercase().into())),
        ("URI", _, Some(uri)) => Ok(SubjectName::Uri(uri.as_str().into())),
        (kind, _, _) => {
            Err(Fault::new("Invalid", format!("an entry of subjectAltNames has no value of type \"{kind}\"")))
        }
    };
    alternatives.iter().map(name).collect()
}

/// The policy for a Service port: the oldest for the port itself, else the oldest for all ports.
pub(crate) fn deciding_policy<'t>(
    targets: &'t TlsTargets,
    service: &ObjectKey,
    port: Option<&str>,
) -> Option<&'t ObjectKey> {
    let first = |section: Option<Arc<str>>| targets.users_of(&(service.clone(), section)).next();
    let port_policy = port.and_then(|port| first(Some(port.into())));
    port_policy.or_else(|| first(None)).map(|(_, key)| key)
}

impl TlsPolicy {
    /// The conflict with an older policy for the same target.
    pub(crate) fn conflict(&self, targets: &TlsTargets) -> Option<Fault> {
        let lost = self.targets.iter().find_map(|target| {
            let (_, first) = targets.users_of(target).next()?;
            (*first != self.key).then_some((target, first))
        });
        lost.map(|((service, section), first)| {
            let port = section.as_ref().map(|port| format!(", port {port}")).unwrap_or_default();
            let problem =
                format!("the BackendTLSPolicy {first} is older and has the Service {}{port}", service.name);
            Fault::new("Conflicted", problem)
        })
    }

    /// The status entries for the Gateways that reach its Services, which may not exist.
    pub(crate) fn ancestors<'g>(
        &self,
        conflict: Option<&Fault>,
        gateways: impl Iterator<Item = (&'g ObjectKey, Option<&'g Fault>)>,
    ) -> Vec<ParentStatus> {
        let conditions = |missing: Option<&Fault>| {
            let fault = missing.or(conflict).or(self.tls.as_ref().err());
            vec![
                Condition::true_unless(
                    ACCEPTED,
                    fault,
                    "Accepted",
                    "it decides how its Services are spoken to",
                ),
                Condition::true_unless(
                    RESOLVED_REFS,
                    self.unresolved.as_ref(),
                    "ResolvedRefs",
                    "all that it refers to is there",
                ),
            ]
        };
        let status = |(gateway, missing): (&ObjectKey, Option<&Fault>)| ParentStatus {
            parent: Arc::new(ParentReference {
                group: Some(GATEWAY_GROUP.to_owned()),
                kind: Some("Gateway".to_owned()),
                namespace: Some(gateway.namespace.to_string()),
                name: gateway.name.to_string(),
                ..ParentReference::default()
            }),
            conditions: conditions(missing),
        };
        gateways.take(MAX_ANCESTORS).map(status).collect()
    }
}
