//! Why the paths of an Ingress answer 503, or 404 where a value of it is refused: it asks for protection that cannot be given. Owns the diagnostics for it.

use fairway_model::AnswerReason;
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::reader::Reader;

/// Why the paths of an Ingress answer 503 or 404; the diagnostic is already written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) AnswerReason);

/// What happens to such an Ingress.
pub(crate) const CONSEQUENCE: &str = "its paths answer 503";

impl Closed {
    /// Because a value that protects cannot be read.
    pub(crate) fn invalid(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        report(reader, "invalid-protection", name, problem);
        Self(AnswerReason::ProtectionUnavailable)
    }

    /// Because an object does not exist.
    pub(crate) fn missing(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        report(reader, "missing-reference", name, problem);
        Self(AnswerReason::MissingReference)
    }

    /// Because a value is not supported and to serve it otherwise would be wrong.
    pub(crate) fn unsupported(reader: &mut Reader<'_>, name: &str, problem: String) -> Self {
        report(reader, "unsupported-value", name, problem);
        Self(AnswerReason::ProtectionUnavailable)
    }
}

fn report(reader: &mut Reader<'_>, code: &'static str, name: &str, problem: String) {
    let found = Diagnostic::new(Severity::Error, code, reader.at(name));
    reader.report(found.because(problem, CONSEQUENCE));
}
