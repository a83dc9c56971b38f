//! Generates sample texts that match a pattern or condition, and paths in the form of requests. A sample is a guess: the
//! controllers decide whether it matches.

use fairway_model::{PathForm, PathMatch, TextMatch};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The name for paths, hosts and values that should not exist.
pub(crate) const UNKNOWN_NAME: &str = "fairway-compare";

/// Maximum size of a pattern's sample; longer ones are truncated.
const MAX_SAMPLE_BYTES: usize = 512;

/// Paths on both sides of the boundary of a condition, in the form of requests. The first one matches.
pub(crate) fn paths(path_match: &PathMatch, form: PathForm) -> Vec<String> {
    let mut found: Vec<String> = match path_match {
        PathMatch::Exact(path) => vec![path.to_string(), with_slash(path)],
        PathMatch::Prefix(path) if **path == *"/" => vec!["/".to_owned(), format!("/{UNKNOWN_NAME}")],
        PathMatch::Prefix(path) if path.ends_with('/') => {
            vec![path.to_string(), path.trim_end_matches('/').to_owned(), format!("{path}{UNKNOWN_NAME}")]
        }
        PathMatch::Prefix(path) => {
            vec![
                path.to_string(),
                format!("{path}/"),
                format!("{path}/{UNKNOWN_NAME}"),
                format!("{path}-{UNKNOWN_NAME}"),
            ]
        }
        PathMatch::Regex { pattern, .. } => [OptionalText::Most, OptionalText::Least]
            .into_iter()
            .map(|amount| rooted(pattern_sample(pattern, amount)))
            .collect(),
    };
    found.retain(|path| path.starts_with('/'));
    let mut encoded: Vec<String> = Vec::new();
    for path in found.iter().map(|path| encoded_path(path, form)) {
        if !encoded.contains(&path) {
            encoded.push(path);
        }
    }
    encoded
}

/// A value that matches a condition.
pub(crate) fn value(text_match: &TextMatch) -> String {
    match text_match {
        TextMatch::Exact(text) => text.to_string(),
        TextMatch::Regex(pattern) => pattern_sample(pattern, OptionalText::Least),
    }
}

/// Percent-encodes a part of a query.
pub(crate) fn query_part(text: &str) -> String {
    percent_encoded(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn with_slash(path: &str) -> String {
    match path.strip_suffix('/') {
        Some("") | None => format!("{}/", path.trim_end_matches('/')),
        Some(without) => without.to_owned(),
    }
}

fn rooted(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}

/// Percent-encodes a path, except for the characters that RFC 3986 §3.3 allows.
fn encoded_path(path: &str, form: PathForm) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    match form {
        PathForm::Decoded => percent_encoded(path, plain),
        // The path of the rule already contains escapes.
        PathForm::Normalised => percent_encoded(path, |byte| plain(byte) || byte == b'%'),
    }
}

fn percent_encoded(text: &str, plain: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// How much optional text a sample contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionalText {
    /// All optional text, once.
    Most,
    /// No optional text.
    Least,
}

/// A text that matches a pattern. For a pattern that cannot be parsed, the text before its first operator.
fn pattern_sample(pattern: &str, amount: OptionalText) -> String {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    let mut sample = String::new();
    match parsed {
        Ok(hir) => append(&hir, amount, &mut sample),
        Err(_) => sample
            .extend(pattern.trim_start_matches('^').chars().take_while(|c| !"\\^$.|?*+()[]{}".contains(*c))),
    }
    sample
}

fn append(hir: &Hir, amount: OptionalText, out: &mut String) {
    if out.len() > MAX_SAMPLE_BYTES {
        return;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => out.extend(class_char(class)),
        HirKind::Repetition(repetition) => {
            let count = if amount == OptionalText::Most { 1 } else { 0 };
            let limit = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.max(count).min(limit).min(64) {
                append(&repetition.sub, amount, out);
            }
        }
        HirKind::Capture(capture) => append(&capture.sub, amount, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| append(part, amount, out)),
        HirKind::Alternation(parts) => {
            if let Some(first) = parts.first() {
                append(first, amount, out);
            }
        }
    }
}

/// A letter of the class, otherwise its first printable character.
fn class_char(class: &Class) -> Option<char> {
    let contains = |wanted: char| match class {
        Class::Unicode(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&wanted))
        }
        Class::Bytes(class) => {
            let byte = u8::try_from(wanted).unwrap_or(0);
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte))
        }
    };
    "x1/".chars().chain(('!'..='~').filter(char::is_ascii_graphic)).find(|wanted| contains(*wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lie_on_both_sides_of_the_boundary_of_a_path_type() {
        let found = |path_match: PathMatch| paths(&path_match, PathForm::Normalised);
        assert_eq!(found(PathMatch::Exact("/a".into())), ["/a", "/a/"]);
        assert_eq!(found(PathMatch::Exact("/a/".into())), ["/a/", "/a"]);
        assert_eq!(found(PathMatch::Exact("/".into())), ["/"]);
        assert_eq!(found(PathMatch::Prefix("/".into())), ["/", "/fairway-compare"]);
        let prefix = ["/a", "/a/", "/a/fairway-compare", "/a-fairway-compare"];
        assert_eq!(found(PathMatch::Prefix("/a".into())), prefix);
        assert_eq!(found(PathMatch::Prefix("/a/".into())), ["/a/", "/a", "/a/fairway-compare"]);
    }

    #[test]
    fn samples_match_their_pattern() {
        for (pattern, most, least) in [
            ("/api(/|$)(.*)", "/api/x", "/api/"),
            ("/v[0-9]+/(users|carts)", "/v1/users", "/v1/users"),
            (r"/a\.b/?", "/a.b/", "/a.b"),
            ("/a(?=b)", "/a", "/a"),
        ] {
            let found =
                [OptionalText::Most, OptionalText::Least].map(|amount| pattern_sample(pattern, amount));
            assert_eq!(found, [most, least], "{pattern}");
        }
        assert_eq!(value(&TextMatch::Regex(".*(?:^(de|fr)).*".into())), "de");
    }

    #[test]
    fn paths_are_percent_encoded() {
        assert_eq!(encoded_path("/a b%/ü", PathForm::Decoded), "/a%20b%25/%C3%BC");
        assert_eq!(encoded_path("/a%2Fb", PathForm::Normalised), "/a%2Fb");
        assert_eq!(query_part("a b&c"), "a%20b%26c");
    }
}
