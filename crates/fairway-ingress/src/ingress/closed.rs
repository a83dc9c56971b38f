//! Why the paths of an Ingress return 503, or 404 if it has a refused value: it asks for protection that is not
//! available.

use fairway_model::FixedResponseReason;
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::reader::Reader;

/// Why paths return 503 or 404; the diagnostic has already been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) FixedResponseReason);

/// The consequence for such an Ingress.
pub(crate) const CLOSED_CONSEQUENCE: &str = "its paths answer 503";

impl Closed {
    /// A protective value cannot be read.
    pub(crate) fn invalid(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        report(reader, "invalid-protection", name, problem);
        Self(FixedResponseReason::ProtectionUnavailable)
    }

    /// A referenced object does not exist.
    pub(crate) fn missing(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        report(reader, "missing-reference", name, problem);
        Self(FixedResponseReason::MissingReference)
    }

    /// A value is not supported, and serving the Ingress without it would be wrong.
    pub(crate) fn unsupported(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        report(reader, "unsupported-value", name, problem);
        Self(FixedResponseReason::ProtectionUnavailable)
    }
}

fn report(reader: &mut Reader<'_>, code: &'static str, name: &str, problem: String) {
    let found = Diagnostic::new(Severity::Error, code, reader.at(name));
    reader.report(found.because(problem, CLOSED_CONSEQUENCE));
}
