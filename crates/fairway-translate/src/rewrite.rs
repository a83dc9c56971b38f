//! `rewrite-target`. Owns what nginx's `rewrite` directive makes of it.

use std::sync::Arc;

use fairway_model::PathRewrite;

use crate::annotation::Reader;
use crate::pattern;
use crate::plan::Closed;

/// Reads `rewrite-target`. A text that ingress-nginx's validation refuses is as good as absent, as recorded
/// (`rewrite-query-in-target`).
pub(crate) fn target(reader: &mut Reader<'_>) -> Result<Option<Arc<str>>, Closed> {
    let name = "rewrite-target";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~/$:".contains(c);
    if !value.chars().all(allowed) {
        reader.invalid(
            name,
            format!("\"{value}\" has characters that no rewrite may have"),
            "paths stay as they are",
        );
        return Ok(None);
    }
    if value.contains("://") || has_variable(value) {
        let problem = format!("\"{value}\" is not a path with captures $1 to $9");
        return Err(Closed::unsupported(reader, name, problem));
    }
    Ok(Some(if value.starts_with('/') { value.into() } else { format!("/{value}").into() }))
}

/// Whether a `$` stands before anything but one digit.
fn has_variable(value: &str) -> bool {
    value.split('$').skip(1).any(|after| !after.starts_with(|c: char| ('1'..='9').contains(&c)))
}

/// What the target makes of requests at `path`: `rewrite "(?i)path" target break`.
pub(crate) fn filter(path: &str, target: &Arc<str>) -> PathRewrite {
    PathRewrite::Regex {
        pattern: pattern::of_path(path).into(),
        replacement: target.clone(),
        ignore_case: true,
    }
}

/// Whether the target takes something from the path.
pub(crate) fn has_captures(target: &str) -> bool {
    target.contains('$')
}

/// Whether the path of a rule looks like a regular expression.
pub(crate) fn looks_like_pattern(path: &str) -> bool {
    path.contains(['(', '[', '*', '^', '$', '|', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_captures_are_no_variables() {
        assert!(!has_variable("/$2/x/$1"));
        assert!(has_variable("/$host/$1"));
        assert!(has_variable("/a$"));
    }
}
