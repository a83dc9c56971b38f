//! `rewrite-target` and the regular expressions of paths. Owns what nginx's `rewrite` directive makes of them.

use std::sync::Arc;

use fairway_model::PathRewrite;
use regex::bytes::RegexBuilder;

use crate::annotation::Reader;
use crate::plan::Closed;

/// Bounds of one compiled pattern in bytes: those of the routing table, so that what passes here compiles there.
const PROGRAM_SIZE: usize = 256 * 1024;
const PATTERN_LENGTH: usize = 8 * 1024;

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
    PathRewrite::Regex { pattern: path.into(), replacement: target.clone(), ignore_case: true }
}

/// Whether the path of a rule looks like a regular expression.
pub(crate) fn looks_like_pattern(path: &str) -> bool {
    path.contains(['(', '[', '*', '^', '$', '|', '\\'])
}

/// Why a pattern cannot be used, in one line.
pub(crate) fn pattern_error(pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_LENGTH {
        return Some(format!("is longer than {PATTERN_LENGTH} bytes"));
    }
    let build = |unicode| {
        RegexBuilder::new(pattern).case_insensitive(true).unicode(unicode).size_limit(PROGRAM_SIZE).build()
    };
    let error = build(false).or_else(|_| build(true)).err()?;
    if let regex::Error::CompiledTooBig(limit) = error {
        return Some(format!("needs more than {limit} bytes when compiled"));
    }
    let text = error.to_string();
    let line = text.trim_end().lines().next_back().unwrap_or_default();
    Some(format!("cannot be used: {}", line.trim_start_matches("error: ")))
}

/// A pattern for about the paths that an unusable one is meant for: without its look-around, or else the text it
/// begins with.
pub(crate) fn stand_in(pattern: &str) -> String {
    let without = without_look_around(pattern);
    if pattern_error(&without).is_none() {
        return without;
    }
    plain_start(pattern).to_owned()
}

/// The text that a pattern begins with.
pub(crate) fn plain_start(pattern: &str) -> &str {
    let special = |c: char| !(c.is_ascii_alphanumeric() || "/-_~,=%".contains(c));
    pattern.split(special).next().unwrap_or_default()
}

/// Takes out `(?=..)`, `(?!..)`, `(?<=..)` and `(?<!..)`.
fn without_look_around(pattern: &str) -> String {
    let mut kept = String::new();
    let mut rest = pattern;
    while let Some(start) = ["(?=", "(?!", "(?<=", "(?<!"].iter().filter_map(|open| rest.find(open)).min() {
        kept.push_str(&rest[..start]);
        rest = &rest[group_end(&rest[start..]).map_or(rest.len(), |length| start + length)..];
    }
    kept + rest
}

/// The length of the group that `text` begins with.
fn group_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at + 1),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_look_around_has_a_stand_in_without() {
        assert_eq!(stand_in("/api/(?!internal(/|$))(.*)"), "/api/(.*)");
        assert_eq!(stand_in("/a/(b)\\1"), "/a/");
        assert_eq!(stand_in("/a(b"), "/a");
    }

    #[test]
    fn says_why_a_pattern_is_unusable() {
        assert_eq!(pattern_error("/a(/|$)(.*)"), None);
        assert!(pattern_error("/a(?=b)").unwrap().contains("look-around"));
        assert!(pattern_error("/(a").unwrap().contains("unclosed group"));
        assert!(pattern_error("/(a{1000}){1000}").unwrap().contains("bytes"));
    }

    #[test]
    fn only_captures_are_no_variables() {
        assert!(!has_variable("/$2/x/$1"));
        assert!(has_variable("/$host/$1"));
        assert!(has_variable("/a$"));
    }
}
