//! Regular expressions of configuration: linear in time, limited in size, over bytes.
//!
//! Patterns see bytes, not characters, as in nginx: `.` takes any byte but a line feed, and classes are those of ASCII.
//! One that needs Unicode is compiled with it.

use regex::bytes::{Regex, RegexBuilder};

/// Upper bound of one compiled program in bytes.
const PROGRAM_SIZE: usize = 256 * 1024;
/// Upper bound of one lazily built automaton in bytes.
const AUTOMATON_SIZE: usize = 512 * 1024;
/// Patterns that are longer than this are refused unread.
const PATTERN_LENGTH: usize = 8 * 1024;

/// Which part of the text a pattern must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// From the start to anywhere.
    Start,
    /// All of it.
    Both,
    /// Any part.
    Nowhere,
}

/// Compiles `pattern`, or says why not.
pub(crate) fn compiled(pattern: &str, anchor: Anchor, ignore_case: bool) -> Result<Regex, String> {
    if pattern.len() > PATTERN_LENGTH {
        return Err(format!("the regular expression is longer than {PATTERN_LENGTH} bytes"));
    }
    // By itself first: `a)|(b` is no pattern, although `(?:a)|(b)` is one.
    let bare = build(pattern, ignore_case)?;
    match anchor {
        Anchor::Nowhere => Ok(bare),
        Anchor::Start => build(&format!(r"\A(?:{pattern})"), ignore_case),
        Anchor::Both => build(&format!(r"\A(?:{pattern})\z"), ignore_case),
    }
}

/// The text with which every match of `pattern` at the start of a path begins (ASCII case apart): as much of it as can
/// be told without parsing. Lets most candidates of a long list be passed over without their automaton.
pub(crate) fn literal_start(pattern: &str) -> &str {
    // With Unicode, `k` and `s` without case have forms beyond ASCII; only such patterns are compiled with it.
    let unicode = !pattern.is_ascii()
        || [r"\p", r"\P", r"\u", r"\U", r"\x"].iter().any(|class| pattern.contains(class));
    if unicode || pattern.contains('|') {
        return "";
    }
    let special =
        |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '%' | '~' | ',' | '='));
    match pattern.find(special) {
        None => pattern,
        // The last character may be repeated zero times.
        Some(end) if pattern[end..].starts_with(['*', '?', '{']) => &pattern[..end.saturating_sub(1)],
        Some(end) => &pattern[..end],
    }
}

fn build(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
    let with = |unicode| {
        RegexBuilder::new(pattern)
            .case_insensitive(ignore_case)
            .unicode(unicode)
            .size_limit(PROGRAM_SIZE)
            .dfa_size_limit(AUTOMATON_SIZE)
            .build()
    };
    with(false).or_else(|_| with(true)).map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("the regular expression needs more than {limit} bytes when compiled")
        }
        error => format!("the regular expression is invalid: {}", last_line(&error.to_string())),
    })
}

/// The sentence of an error of `regex`, whose other lines draw a picture of the pattern.
fn last_line(text: &str) -> &str {
    let line = text.trim_end().lines().next_back().unwrap_or(text);
    line.strip_prefix("error: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(pattern: &str, path: &str) -> bool {
        compiled(pattern, Anchor::Start, false).unwrap().is_match(path.as_bytes())
    }

    #[test]
    fn the_anchor_holds_every_alternative() {
        assert!(start("/a|/b", "/b/c"));
        assert!(!start("/a|/b", "/x/b"));
        let both = compiled("a|b", Anchor::Both, false).unwrap();
        assert!(both.is_match(b"b") && !both.is_match(b"ab"));
    }

    #[test]
    fn a_parenthesis_cannot_escape_the_anchor() {
        let problem = compiled("/a)|(/b", Anchor::Start, false).unwrap_err();
        assert_eq!(problem, "the regular expression is invalid: unopened group");
    }

    #[test]
    fn any_byte_is_a_dot() {
        let dots = compiled("/(.*)$", Anchor::Start, false).unwrap();
        assert!(dots.is_match(b"/a\xffb"));
    }

    #[test]
    fn patterns_beyond_ascii_still_compile() {
        assert!(start("/caf\u{e9}", "/caf\u{e9}"));
        assert!(start(r"/\p{Greek}+$", "/\u{3b1}\u{3b2}"));
    }

    #[test]
    fn size_is_limited() {
        let problem = compiled("((a{100}){100}){100}", Anchor::Start, false).unwrap_err();
        assert!(problem.contains("bytes when compiled"), "{problem}");
        assert!(compiled(&"a".repeat(PATTERN_LENGTH + 1), Anchor::Start, false).is_err());
    }

    #[test]
    fn literal_starts_are_true_of_every_match() {
        for (pattern, literal) in [
            ("/plain", "/plain"),
            ("/a+b", "/a"),
            ("/ab?c", "/a"),
            ("/ab*", "/a"),
            ("/ab{0,2}", "/a"),
            ("/a|/b", ""),
            ("/x(/|$)(.*)", ""),
            ("/x(/.*)?", "/x"),
            (r"/v1\.0", "/v1"),
            ("(?i)/x", ""),
            ("/caf\u{e9}", ""),
            ("*", ""),
        ] {
            assert_eq!(literal_start(pattern), literal, "{pattern}");
        }
    }
}
