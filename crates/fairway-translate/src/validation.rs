//! What the API server would have refused: in a directory of manifests nobody did. Only tells; such objects are read as
//! far as they make sense, and what cannot be read at all is told where it is read.

use crate::annotation::Reader;
use crate::diagnostic::{Diagnostic, Severity};

const PATH_TYPES: [&str; 3] = ["Exact", "Prefix", "ImplementationSpecific"];

/// Tells of path types that do not exist and of an Ingress that says nothing.
pub(crate) fn read(reader: &mut Reader<'_>) {
    let Some(spec) = &reader.ingress.object.spec else { return };
    let rules = spec.rules.as_deref().unwrap_or_default();
    if rules.is_empty() && spec.default_backend.is_none() {
        let problem = "it has neither rules nor a default backend";
        tell(reader, "no-rules", "spec.rules", (problem.to_owned(), "it serves nothing"));
    }
    for (rule, http) in rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule.http.as_ref()?))) {
        let wrong = |kind: &str| !PATH_TYPES.contains(&kind);
        for (at, path) in http.paths.iter().enumerate().filter(|(_, path)| wrong(&path.path_type)) {
            let problem = match path.path_type.as_str() {
                "" => "pathType is missing".to_owned(),
                other => format!("\"{other}\" is no path type ({})", PATH_TYPES.join(", ")),
            };
            let field = format!("spec.rules[{rule}].http.paths[{at}].pathType");
            tell(reader, "invalid-path-type", &field, (problem, "it counts as ImplementationSpecific"));
        }
    }
}

fn tell(
    reader: &mut Reader<'_>,
    code: &'static str,
    field: &str,
    (problem, consequence): (String, &'static str),
) {
    let found = Diagnostic::new(Severity::Warning, code, reader.field(field));
    reader.diagnostics.push(found.because(problem, consequence));
}
