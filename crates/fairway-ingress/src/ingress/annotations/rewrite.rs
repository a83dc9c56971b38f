//! Path matching and rewriting: `use-regex`, `rewrite-target`.

use std::sync::Arc;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, needless};
use crate::ingress::closed::Closed;
use crate::ingress::pattern;
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    contributions.use_regex = reader.switch("use-regex", false);
    if reader.is_catch_all() {
        // Redirects and rewrites of the catch-all host are not changed by an Ingress (`getBackendServers`).
        contributions.use_regex = false;
        return Ok(());
    }
    contributions.rewrite.target = target(reader)?;
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    needless("enable-rewrite-log", "`fairway explain` shows rewrites"),
    differs(
        "rewrite-target",
        "nginx variables (`$host`, `$1` in a URL's host) give 503; [costly patterns](#regular-expressions) are refused",
    ),
    differs("use-regex", "[some syntax](#regular-expressions) and costly patterns are refused"),
];

/// Reads `rewrite-target`. A text that ingress-nginx's validation rejects is treated as absent, as recorded
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
    let path = match pattern::url(value) {
        Some(url) => url.path,
        None => Some(value),
    };
    match path.filter(|path| !has_variable(path)) {
        Some(_) => Ok(Some(value.into())),
        None => {
            let problem = format!("\"{value}\" has a variable other than $1 to $9, or one in a host");
            Err(Closed::unsupported(reader, name, problem))
        }
    }
}

/// Whether a `$` precedes anything but a single digit.
pub(super) fn has_variable(value: &str) -> bool {
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
