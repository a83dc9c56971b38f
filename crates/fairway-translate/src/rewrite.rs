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

/// The text with which every path begins that `pattern` can match, ASCII case apart, told without parsing the pattern,
/// which may be an invalid one. Where that is not certain, less of it, down to nothing.
pub(crate) fn literal_start(pattern: &str) -> String {
    if may_have_alternatives(pattern) {
        return String::new();
    }
    let mut literal = String::new();
    let mut rest = pattern.trim_start_matches('^');
    loop {
        let mut chars = rest.chars();
        let character = match (chars.next(), chars.clone().next()) {
            (Some('\\'), Some(escaped)) if escaped.is_ascii_punctuation() => {
                chars.next();
                escaped
            }
            (Some(plain), _) if plain.is_ascii_alphanumeric() || "/-_~,=%:@!&;'".contains(plain) => plain,
            _ => return literal,
        };
        rest = chars.as_str();
        // It may be repeated zero times.
        if rest.starts_with(['*', '?', '{']) {
            return literal;
        }
        literal.push(character);
    }
}

/// A pattern for the paths that begin with `text`.
pub(crate) fn literal_pattern(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            (!c.is_ascii_alphanumeric() && !"/-_".contains(c)).then_some('\\').into_iter().chain([c])
        })
        .collect()
}

/// Whether a `|` may stand outside of all groups.
fn may_have_alternatives(pattern: &str) -> bool {
    // What makes it hard to tell where a group ends: quotations, comments, verbs, and the mode that has comments.
    let flags = pattern.split("(?").skip(1).map(|rest| rest.split([')', ':']).next().unwrap_or_default());
    let hard = ["\\Q", "(?#", "(*"].iter().any(|it| pattern.contains(it))
        || flags.into_iter().any(|it| it.contains('x'));
    if hard {
        return pattern.contains('|');
    }
    let mut depth = 0usize;
    let mut bytes = pattern.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'[' => {
                bytes.next_if_eq(&b'^');
                // A bracket that comes first is a member of the class.
                bytes.next_if_eq(&b']');
                while let Some(member) = bytes.next().filter(|member| *member != b']') {
                    if member == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_start_is_true_of_every_match() {
        for (pattern, literal) in [
            ("/api/(?!internal(/|$))(.*)", "/api/"),
            ("/a/(b)\\1", "/a/"),
            ("/a(b", "/a"),
            ("^/admin(?<", "/admin"),
            ("/v1\\.0\\-x/(", "/v1.0-x/"),
            ("/ab?(", "/a"),
            ("/ab*(", "/a"),
            ("/ab{0,2}(", "/a"),
            ("/ab+(", "/ab"),
            ("/a(b|/c", "/a"),
            ("/a|/b(?=c)", ""),
            ("/a)|(/b", ""),
            ("/[(]|/b(?=c)", ""),
            ("/[]|(](?=c)", "/"),
            ("/\\(|/b(?=c)", ""),
            ("/a(?#()|/b(?=c)", ""),
            ("/a\\Q(\\E|/b(?=c)", ""),
            ("/a(?x)#(\n|/b(?=c)", ""),
            ("/caf\u{e9}(", "/caf"),
            ("(?i)/x(", ""),
        ] {
            assert_eq!(literal_start(pattern), literal, "{pattern}");
        }
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
