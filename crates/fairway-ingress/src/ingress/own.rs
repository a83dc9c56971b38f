//! Fairway's own annotations, `fairway.dev/...`: which there are, and what each does. One that cannot be read closes the paths of
//! its Ingress, since any of them may keep somebody out.

use std::sync::Arc;

use fairway_model::{AnswerReason, Guard, Origin, Phases};
use fairway_objects::annotations::{self, deny, real_ip, redirect, request_headers, response_headers};
use fairway_objects::backend::Purpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::closed::{self, Closed};
use crate::ingress::contributions::Contributions;
use crate::ingress::reader::Reader;

/// Their prefix: `--annotations-prefix` does not change it.
pub(crate) const PREFIX: &str = "fairway.dev";

/// Says what a rule does for a value, or what is wrong with it.
type Make = fn(&str) -> Result<Phases, String>;

const TYPED: [(&str, Make); 5] = [
    ("deny", |value| Ok(Guard::Deny(deny(value)?).into())),
    ("real-ip", |value| Ok(real_ip(value)?.into())),
    ("redirect", |value| Ok(Guard::Redirect(redirect(value)?).into())),
    ("request-headers", |value| Ok(request_headers(value)?.into())),
    ("response-headers", |value| Ok(response_headers(value)?.into())),
];

/// Those that are read elsewhere.
const OTHERS: [&str; 14] = [
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

/// The annotation that names a backend.
const EXTENSION: &str = "extension";

/// Adds what they ask for.
///
/// # Errors
/// With the last one that cannot be read; each has a diagnostic.
pub(crate) fn contribute(reader: &mut Reader<'_>, contributions: &mut Contributions) -> Result<(), Closed> {
    let mut outcome = Ok(());
    for (name, value) in reader.with_prefix(PREFIX).collect::<Vec<_>>() {
        let origin = reader.field(&format!("metadata.annotations[\"{PREFIX}/{name}\"]"));
        if name == EXTENSION {
            outcome = extension(reader, value, origin, contributions).and(outcome);
            continue;
        }
        let Some((_, make)) = TYPED.iter().find(|(typed, _)| *typed == name) else {
            if !OTHERS.contains(&name) {
                let problem = format!("Fairway has no annotation {PREFIX}/{name}; it has {}", names());
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
    contributions.added.name_backend(backend, origin, Purpose::Extension);
    contributions.added.add(Phases { extensions: vec![Arc::new(extension)], ..Phases::default() });
    Ok(())
}

/// One cannot be read: its paths are closed.
pub(crate) fn invalid(reader: &mut Reader<'_>, origin: Origin, problem: String) -> Closed {
    let found = Diagnostic::new(Severity::Error, "invalid-annotation", origin);
    reader.report(found.because(problem, closed::CONSEQUENCE));
    Closed(AnswerReason::ProtectionUnavailable)
}

fn names() -> String {
    let names = TYPED.iter().map(|(name, ..)| *name).chain(OTHERS);
    names.collect::<Vec<_>>().join(", ")
}
