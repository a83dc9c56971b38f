//! Fairway's own annotations, `fairway.dev/...`. An unreadable one closes the paths of its Ingress, because any of
//! them may restrict access.

use std::sync::Arc;

use fairway_model::{FixedResponseReason, Guard, Origin, Phases};
use fairway_objects::annotations::{self, deny, real_ip, redirect, request_headers, response_headers};
use fairway_objects::backend::BackendPurpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::closed::{self, Closed};
use crate::ingress::contributions::Contributions;
use crate::ingress::reader::Reader;

/// Their prefix, which `--annotations-prefix` does not affect.
pub(crate) const OWN_PREFIX: &str = "fairway.dev";

/// Translates a value into phases, or returns its problem.
type MakePhases = fn(&str) -> Result<Phases, String>;

const TYPED_ANNOTATIONS: [(&str, MakePhases); 5] = [
    ("deny", |value| Ok(Guard::Deny(deny(value)?).into())),
    ("real-ip", |value| Ok(real_ip(value)?.into())),
    ("redirect", |value| Ok(Guard::Redirect(redirect(value)?).into())),
    ("request-headers", |value| Ok(request_headers(value)?.into())),
    ("response-headers", |value| Ok(response_headers(value)?.into())),
];

/// Annotations that are read elsewhere.
const OTHER_ANNOTATIONS: [&str; 14] = [
    "api-key",
    "authorization",
    "backend-limits",
    "compat",
    "compression",
    EXTENSION,
    "health",
    "jwt",
    "limit-scope",
    "oidc",
    "outlier-ejection",
    "rate-limits",
    "shared-hosts",
    "traffic-distribution",
];

/// The annotation that references a backend.
const EXTENSION: &str = "extension";

/// Adds the phases of all of them.
///
/// # Errors
/// The last unreadable one; each has a diagnostic.
pub(crate) fn contribute(reader: &mut Reader<'_>, contributions: &mut Contributions) -> Result<(), Closed> {
    let mut outcome = Ok(());
    for (name, value) in reader.with_prefix(OWN_PREFIX).collect::<Vec<_>>() {
        let origin = reader.field_origin(&format!("metadata.annotations[\"{OWN_PREFIX}/{name}\"]"));
        if name == EXTENSION {
            outcome = extension(reader, value, origin, contributions).and(outcome);
            continue;
        }
        let Some((_, make)) = TYPED_ANNOTATIONS.iter().find(|(typed, _)| *typed == name) else {
            if !OTHER_ANNOTATIONS.contains(&name) {
                let problem = format!("Fairway has no annotation {OWN_PREFIX}/{name}; it has {}", names());
                let found = Diagnostic::new(Severity::Warning, "unknown-annotation", origin);
                reader.report(found.because(problem, "it changes nothing"));
            }
            continue;
        };
        match make(value) {
            Ok(phases) => contributions.added.add(phases),
            Err(problem) => outcome = Err(invalid(reader, origin, problem)),
        }
    }
    outcome
}

/// A service that sees requests and responses.
fn extension(
    reader: &mut Reader<'_>,
    value: &str,
    origin: Origin,
    contributions: &mut Contributions,
) -> Result<(), Closed> {
    let (extension, backend) = match annotations::extension(reader.key, value) {
        Ok(read) => read,
        Err(problem) => return Err(invalid(reader, origin, problem)),
    };
    contributions.added.name_backend(backend, origin, BackendPurpose::Extension);
    contributions.added.add(Phases { extensions: vec![Arc::new(extension)], ..Phases::default() });
    Ok(())
}

/// Reports an unreadable annotation, which closes the paths.
pub(crate) fn invalid(reader: &mut Reader<'_>, origin: Origin, problem: String) -> Closed {
    let found = Diagnostic::new(Severity::Error, "invalid-annotation", origin);
    reader.report(found.because(problem, closed::CLOSED_CONSEQUENCE));
    Closed(FixedResponseReason::ProtectionUnavailable)
}

fn names() -> String {
    let names = TYPED_ANNOTATIONS.iter().map(|(name, ..)| *name).chain(OTHER_ANNOTATIONS);
    names.collect::<Vec<_>>().join(", ")
}
