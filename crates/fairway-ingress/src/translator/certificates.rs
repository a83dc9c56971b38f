//! Certificates that are or may be in use, parsed once per Secret. A Secret that becomes invalid keeps its previous
//! certificate.

use std::sync::Arc;

use fairway_gateway::CertificateState;
use fairway_model::Certificate;
use fairway_objects::certificate::{self, ParsedCertificate};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use imbl::OrdMap;
use k8s_openapi::api::core::v1::Secret;

/// Certificates by Secret.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates(OrdMap<ObjectKey, CertificateEntry>);

#[derive(Clone, Debug)]
struct CertificateEntry {
    secret: Sourced<Secret>,
    /// The certificate of this or an earlier version of the Secret.
    parsed: Option<ParsedCertificate>,
    /// The problem with the current version of the Secret.
    problem: Option<String>,
}

impl Certificates {
    /// The certificate of a Secret.
    pub(super) fn certificate(&self, key: &ObjectKey) -> Option<Arc<Certificate>> {
        self.0.get(key)?.parsed.as_ref().map(|parsed| parsed.certificate.clone())
    }

    /// The state of the certificate in a Secret.
    pub(super) fn state(&self, key: &ObjectKey) -> CertificateState {
        match self.0.get(key) {
            None => CertificateState::Missing,
            Some(CertificateEntry { problem: None, .. }) => CertificateState::Good,
            Some(CertificateEntry { problem: Some(problem), parsed, .. }) => {
                CertificateState::Broken { problem: problem.clone(), usable: parsed.is_some() }
            }
        }
    }

    /// Updates a Secret.
    pub(super) fn set(&mut self, key: &ObjectKey, secret: &Sourced<Secret>) {
        let before = self.0.get(key);
        let is_same = |entry: &CertificateEntry| {
            Arc::ptr_eq(&entry.secret.object, &secret.object) && entry.secret.source == secret.source
        };
        if before.is_some_and(is_same) {
            return;
        }
        let (parsed, problem) = match certificate::read(key, secret) {
            Ok(parsed) => (Some(parsed), None),
            Err(problem) => (before.and_then(|entry| entry.parsed.clone()), Some(problem)),
        };
        self.0.insert(key.clone(), CertificateEntry { secret: secret.clone(), parsed, problem });
    }

    /// Removes a Secret that is deleted or no longer referenced.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// All stored Secrets.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.0.keys()
    }

    /// Problems of a Secret at `now`; `without` is the consequence if it has no certificate.
    pub(super) fn diagnostics(&self, key: &ObjectKey, now: i64, without: &str) -> Vec<Diagnostic> {
        let Some(entry) = self.0.get(key) else { return Vec::new() };
        let broken = entry.problem.as_ref().map(|problem| {
            let consequence = match &entry.parsed {
                Some(_) => "the certificate that it had before stays in use".to_owned(),
                None => without.to_owned(),
            };
            let origin = entry.secret.origin(Kind::Secret, key, "data");
            Diagnostic::new(Severity::Error, "invalid-certificate", origin)
                .because(problem.clone(), consequence)
        });
        let validity = entry.parsed.as_ref().and_then(|parsed| parsed.validity_problem(now));
        broken.into_iter().chain(validity).collect()
    }

    /// The first time after `now` at which a diagnostic may change.
    pub(super) fn next_change(&self, now: i64) -> i64 {
        let parsed = self.0.values().filter_map(|entry| entry.parsed.as_ref());
        parsed
            .flat_map(ParsedCertificate::validity_bounds)
            .filter(|moment| *moment > now)
            .min()
            .unwrap_or(i64::MAX)
    }
}
