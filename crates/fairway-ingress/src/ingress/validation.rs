//! Checks that the API server performs, for Ingresses from a directory. Only warns: Ingresses are read as far as
//! possible, and unreadable parts are reported where they are read.

use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::ingress::reader::Reader;

const PATH_TYPES: [&str; 3] = ["Exact", "Prefix", "ImplementationSpecific"];

/// Reports invalid path types, and an Ingress without content.
pub(crate) fn check(reader: &mut Reader<'_>) {
    let Some(spec) = &reader.ingress.object.spec else { return };
    let rules = spec.rules.as_deref().unwrap_or_default();
    if rules.is_empty() && spec.default_backend.is_none() {
        let problem = "it has neither rules nor a default backend";
        warn(reader, "no-rules", "spec.rules", problem, "it serves nothing");
    }
    for (rule, http) in rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule.http.as_ref()?))) {
        let wrong = |kind: &str| !PATH_TYPES.contains(&kind);
        for (at, path) in http.paths.iter().enumerate().filter(|(_, path)| wrong(&path.path_type)) {
            let problem = match path.path_type.as_str() {
                "" => "pathType is missing".to_owned(),
                other => format!("\"{other}\" is no path type ({})", PATH_TYPES.join(", ")),
            };
            let field = format!("spec.rules[{rule}].http.paths[{at}].pathType");
            warn(reader, "invalid-path-type", &field, &problem, "it counts as ImplementationSpecific");
        }
    }
}

fn warn(reader: &mut Reader<'_>, code: &'static str, field: &str, problem: &str, consequence: &str) {
    let found = Diagnostic::new(Severity::Warning, code, reader.field_origin(field));
    reader.report(found.because(problem, consequence));
}
