//! `fairway.dev/compat`: whether an Ingress shares Service settings with others, as in ingress-nginx.

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::Compat;

use crate::ingress::reader::Reader;

/// Fairway's own annotation, which `--annotations-prefix` does not affect.
const COMPAT: &str = "fairway.dev/compat";

/// Reads the annotation; `default` is the operator's choice.
pub(crate) fn read(reader: &mut Reader<'_>, default: Compat) -> Compat {
    let annotations = reader.ingress.object.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|all| all.get(COMPAT)) else { return default };
    match value.trim() {
        "nginx" => Compat::Nginx,
        "strict" => Compat::Strict,
        other => {
            let problem = format!("\"{other}\" is neither nginx nor strict");
            let origin = reader.field_origin(&format!("metadata.annotations[\"{COMPAT}\"]"));
            let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
            reader.report(found.because(problem, "the flag --compat decides"));
            default
        }
    }
}
