//! The certificates that are in use or may be, read once per Secret. A Secret that breaks keeps the certificate that it
//! had; owns that memory.

use std::sync::Arc;

use fairway_gateway::Certified;
use fairway_model::Certificate;
use fairway_objects::certificate::{self, Parsed};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use imbl::OrdMap;
use k8s_openapi::api::core::v1::Secret;

/// The certificates by Secret.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates(OrdMap<ObjectKey, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    secret: Sourced<Secret>,
    /// The one of this Secret, or of an earlier state of it.
    parsed: Option<Parsed>,
    /// What is wrong with the Secret as it is now.
    problem: Option<String>,
}

impl Certificates {
    /// The certificate of a Secret.
    pub(super) fn certificate(&self, key: &ObjectKey) -> Option<Arc<Certificate>> {
        self.0.get(key)?.parsed.as_ref().map(|parsed| parsed.certificate.clone())
    }

    /// What is known of the certificate in a Secret.
    pub(super) fn certified(&self, key: &ObjectKey) -> Certified {
        match self.0.get(key) {
            None => Certified::Missing,
            Some(Entry { problem: None, .. }) => Certified::Good,
            Some(Entry { problem: Some(problem), parsed, .. }) => {
                Certified::Broken { problem: problem.clone(), usable: parsed.is_some() }
            }
        }
    }

    /// The Secret as it is now.
    pub(super) fn put(&mut self, key: &ObjectKey, secret: &Sourced<Secret>) {
        let before = self.0.get(key);
        let is_same = |entry: &Entry| {
            Arc::ptr_eq(&entry.secret.object, &secret.object) && entry.secret.source == secret.source
        };
        if before.is_some_and(is_same) {
            return;
        }
        let (parsed, problem) = match certificate::read(key, secret) {
            Ok(parsed) => (Some(parsed), None),
            Err(problem) => (before.and_then(|entry| entry.parsed.clone()), Some(problem)),
        };
        self.0.insert(key.clone(), Entry { secret: secret.clone(), parsed, problem });
    }

    /// Nobody refers to the Secret, or it is gone.
    pub(super) fn drop(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// All Secrets that are kept.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.0.keys()
    }

    /// What is wrong with a Secret at `now`; `without` is what happens where it gives no certificate.
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
        let validity = entry.parsed.as_ref().and_then(|parsed| parsed.validity(now));
        broken.into_iter().chain(validity).collect()
    }

    /// The first moment after `now` at which a diagnostic may change.
    pub(super) fn next_moment(&self, now: i64) -> i64 {
        let parsed = self.0.values().filter_map(|entry| entry.parsed.as_ref());
        parsed.flat_map(Parsed::moments).filter(|moment| *moment > now).min().unwrap_or(i64::MAX)
    }
}
