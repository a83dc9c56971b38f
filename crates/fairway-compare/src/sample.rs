//! Texts that a pattern or a condition describes, and paths as requests write them. A sample is a guess: whether it fits, the
//! controllers say.

use fairway_model::{PathForm, PathMatch, TextMatch};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// What is added to a path or asked for where nothing is known to be.
pub(crate) const NOWHERE: &str = "fairway-compare";

/// The longest sample of a pattern; what would be longer is cut.
const LONGEST: usize = 512;

/// Paths that lie on both sides of the end of a condition, in the form of requests. The first one fits it.
pub(crate) fn paths(of: &PathMatch, form: PathForm) -> Vec<String> {
    let mut found: Vec<String> = match of {
        PathMatch::Exact(path) => vec![path.to_string(), with_slash(path)],
        PathMatch::Prefix(path) if **path == *"/" => vec!["/".to_owned(), format!("/{NOWHERE}")],
        PathMatch::Prefix(path) if path.ends_with('/') => {
            vec![path.to_string(), path.trim_end_matches('/').to_owned(), format!("{path}{NOWHERE}")]
        }
        PathMatch::Prefix(path) => {
            vec![
                path.to_string(),
                format!("{path}/"),
                format!("{path}/{NOWHERE}"),
                format!("{path}-{NOWHERE}"),
            ]
        }
        PathMatch::Regex { pattern, .. } => [Amount::Most, Amount::Least]
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

/// A value that a condition describes.
pub(crate) fn value(of: &TextMatch) -> String {
    match of {
        TextMatch::Exact(text) => text.to_string(),
        TextMatch::Regex(pattern) => pattern_sample(pattern, Amount::Least),
    }
}

/// A part of a query, percent-encoded.
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

/// RFC 3986 §3.3: what a path has as it is.
fn encoded_path(path: &str, form: PathForm) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
    match form {
        PathForm::Decoded => percent_encoded(path, plain),
        // Escapes are part of what the rule says.
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

/// How much of what may be left out is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Amount {
    /// Everything, once.
    Most,
    /// Nothing.
    Least,
}

/// A text that a pattern describes; of one that cannot be read, the text before its first sign.
fn pattern_sample(pattern: &str, amount: Amount) -> String {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    let mut sample = String::new();
    match parsed {
        Ok(hir) => append(&hir, amount, &mut sample),
        Err(_) => sample
            .extend(pattern.trim_start_matches('^').chars().take_while(|c| !"\\^$.|?*+()[]{}".contains(*c))),
    }
    sample
}

fn append(hir: &Hir, amount: Amount, out: &mut String) {
    if out.len() > LONGEST {
        return;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => out.extend(member(class)),
        HirKind::Repetition(repetition) => {
            let wanted = if amount == Amount::Most { 1 } else { 0 };
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.max(wanted).min(most).min(64) {
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

/// A letter if the class has one, else its first printable character.
fn member(class: &Class) -> Option<char> {
    let has = |wanted: char| match class {
        Class::Unicode(class) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&wanted))
        }
        Class::Bytes(class) => {
            let wanted = u8::try_from(wanted).unwrap_or(0);
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&wanted))
        }
    };
    "x1/".chars().chain(('!'..='~').filter(char::is_ascii_graphic)).find(|wanted| has(*wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lie_on_both_sides_of_the_end_of_a_path_type() {
        let found = |of: PathMatch| paths(&of, PathForm::Normalised);
        assert_eq!(found(PathMatch::Exact("/a".into())), ["/a", "/a/"]);
        assert_eq!(found(PathMatch::Exact("/a/".into())), ["/a/", "/a"]);
        assert_eq!(found(PathMatch::Exact("/".into())), ["/"]);
        assert_eq!(found(PathMatch::Prefix("/".into())), ["/", "/fairway-compare"]);
        let prefix = ["/a", "/a/", "/a/fairway-compare", "/a-fairway-compare"];
        assert_eq!(found(PathMatch::Prefix("/a".into())), prefix);
        assert_eq!(found(PathMatch::Prefix("/a/".into())), ["/a/", "/a", "/a/fairway-compare"]);
    }

    #[test]
    fn a_pattern_gives_texts_that_it_describes() {
        for (pattern, most, least) in [
            ("/api(/|$)(.*)", "/api/x", "/api/"),
            ("/v[0-9]+/(users|carts)", "/v1/users", "/v1/users"),
            (r"/a\.b/?", "/a.b/", "/a.b"),
            ("/a(?=b)", "/a", "/a"),
        ] {
            let found = [Amount::Most, Amount::Least].map(|amount| pattern_sample(pattern, amount));
            assert_eq!(found, [most, least], "{pattern}");
        }
        assert_eq!(value(&TextMatch::Regex(".*(?:^(de|fr)).*".into())), "de");
    }

    #[test]
    fn paths_are_written_as_requests_write_them() {
        assert_eq!(encoded_path("/a b%/ü", PathForm::Decoded), "/a%20b%25/%C3%BC");
        assert_eq!(encoded_path("/a%2Fb", PathForm::Normalised), "/a%2Fb");
        assert_eq!(query_part("a b&c"), "a%20b%26c");
    }
}
