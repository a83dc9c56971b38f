//! `fairway.dev/compat`: whether an Ingress shares what it asks for its Services with others, as in ingress-nginx.

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::Compat;

use crate::ingress::reader::Reader;

/// It is Fairway's own: `--annotations-prefix` does not change it.
const COMPAT: &str = "fairway.dev/compat";

/// Reads the annotation; `default` is what the installation says.
pub(crate) fn read(reader: &mut Reader<'_>, default: Compat) -> Compat {
    let annotations = reader.ingress.object.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|all| all.get(COMPAT)) else { return default };
    match value.trim() {
        "nginx" => Compat::Nginx,
        "strict" => Compat::Strict,
        other => {
            let problem = format!("\"{other}\" is neither nginx nor strict");
            let origin = reader.field(&format!("metadata.annotations[\"{COMPAT}\"]"));
            let found = Diagnostic::new(Severity::Warning, "invalid-annotation", origin);
            reader.report(found.because(problem, "the flag --compat decides"));
            default
        }
    }
}
