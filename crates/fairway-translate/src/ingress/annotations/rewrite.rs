//! How paths are matched and rewritten: `use-regex`, `rewrite-target`.

use std::sync::Arc;

use crate::ingress::annotations::family::{Family, Known, differs, needless};
use crate::ingress::closed::Closed;
use crate::ingress::contributions::PathSyntax;
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if reader.switch("use-regex", false) {
        contributions.path_syntax = PathSyntax::Regex;
    }
    contributions.rewrite.target = target(reader)?;
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    needless("enable-rewrite-log", "rewrites are not logged; `fairway explain` shows them"),
    differs(
        "rewrite-target",
        "a target with nginx variables or a URL is refused: the paths answer 503. With captures, a pattern whose search costs too much is refused too ([below](#regular-expressions))",
    ),
    differs(
        "use-regex",
        "a pattern with backreferences, recursion, atomic groups, Unicode classes or unusual look-around, or one that costs too much, is refused ([below](#regular-expressions))",
    ),
];

/// Reads `rewrite-target`. A text that ingress-nginx's validation refuses is as good as absent, as recorded
/// (`rewrite-query-in-target`).
fn target(reader: &mut Reader<'_>) -> Result<Option<Arc<str>>, Closed> {
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
