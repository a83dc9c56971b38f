//! Classifies the regular expressions in paths of ingress-nginx by their intent: a prefix and the rest of the path, every path, or
//! something that needs an expression.

/// The intent of a pattern that is anchored only at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Every path.
    Everything {
        /// The group with the text after the first slash, if there is one.
        pattern_end: Option<PatternEnd>,
    },
    /// Paths that start with a text.
    Prefix {
        /// The text without a trailing slash.
        path: String,
        /// The group with the rest of the path, if there is one.
        pattern_end: Option<PatternEnd>,
        /// Whether the text ends at the end of a path element: `/a` covers `/a/b` but not `/ab`.
        is_complete: bool,
    },
    /// Anything else.
    Other,
}

/// The group of a pattern that captures the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatternEnd {
    /// Its number.
    pub(crate) group: u8,
    /// Whether it starts after the slash instead of with it.
    pub(crate) behind_slash: bool,
}

/// Ends of patterns, the longest first: what they capture, and whether the text before them consists of whole elements.
const PATTERN_ENDS: &[(&str, PatternEnd, bool)] = &[
    ("(/|$)(.*)", PatternEnd { group: 2, behind_slash: true }, true),
    ("(/|$)(.+)", PatternEnd { group: 2, behind_slash: true }, true),
    ("(?:/|$)(.*)", PatternEnd { group: 1, behind_slash: true }, true),
    ("(/?)(.*)", PatternEnd { group: 2, behind_slash: true }, false),
    ("(/.*)?", PatternEnd { group: 1, behind_slash: false }, false),
    ("(/.*)", PatternEnd { group: 1, behind_slash: false }, true),
    ("/?(.*)", PatternEnd { group: 1, behind_slash: true }, false),
    ("/(.*)", PatternEnd { group: 1, behind_slash: true }, true),
    ("/(.+)", PatternEnd { group: 1, behind_slash: true }, true),
];

/// Ends that capture nothing.
const OPEN_ENDS: &[(&str, bool)] = &[("/.*", true), (".*", false), ("/?", false)];

/// Classifies a pattern.
pub(crate) fn shape(pattern: &str) -> Shape {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    let end = |text: &str| text.strip_suffix('$').filter(|it| it.ends_with([')', '*'])).map(str::to_owned);
    let pattern = end(pattern).unwrap_or_else(|| pattern.to_owned());
    for (end, rest, whole) in PATTERN_ENDS {
        if let Some(text) = pattern.strip_suffix(end).and_then(literal) {
            return of_prefix(&text, Some(*rest), *whole);
        }
    }
    for (end, whole) in OPEN_ENDS {
        if let Some(text) = pattern.strip_suffix(end).and_then(literal) {
            return of_prefix(&text, None, *whole);
        }
    }
    match literal(&pattern) {
        Some(text) => of_prefix(&text, None, text.ends_with('/')),
        None => Shape::Other,
    }
}

fn of_prefix(text: &str, rest: Option<PatternEnd>, is_whole: bool) -> Shape {
    match text.trim_end_matches('/') {
        "" => Shape::Everything { pattern_end: rest },
        path if path.starts_with('/') => {
            Shape::Prefix { path: path.to_owned(), pattern_end: rest, is_complete: is_whole }
        }
        _ => Shape::Other,
    }
}

/// The text that a pattern without operators matches.
fn literal(pattern: &str) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next().filter(|it| it.is_ascii_punctuation())?),
            '^' | '$' | '.' | '|' | '?' | '*' | '+' | '(' | ')' | '[' | ']' | '{' | '}' => return None,
            plain => text.push(plain),
        }
    }
    Some(text)
}

/// An expression for whole paths that is equivalent to `pattern`, which nginx anchors only at the start of the path: of several
/// alternatives outside of groups, only the first is anchored.
pub(crate) fn covering_pattern(pattern: &str, ignore_case: bool) -> String {
    let alternatives = alternatives(pattern);
    let case = if ignore_case { "(?i)" } else { "" };
    let alternative = |(number, text): (usize, &&str)| {
        let before = if number == 0 { "" } else { ".*" };
        format!("{before}{}", open_ended(text))
    };
    let written: Vec<_> = alternatives.iter().enumerate().map(alternative).collect();
    match &*written {
        [only] => format!("{case}{only}"),
        several => format!("{case}(?:{})", several.join("|")),
    }
}

/// The expression followed by any text, unless it already has an end.
fn open_ended(text: &str) -> String {
    let text = text.strip_prefix('^').unwrap_or(text);
    match text.strip_suffix('$') {
        Some(before) if !before.ends_with('\\') => before.to_owned(),
        _ if text.ends_with(".*") || text.ends_with("(.*)") => text.to_owned(),
        _ => format!("{text}.*"),
    }
}

/// The alternatives outside of groups and classes.
fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start, mut in_class, mut escaped) = (Vec::new(), 0_u32, 0, false, false);
    for (at, character) in pattern.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&pattern[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(path: &str, rest: Option<(u8, bool)>, is_whole: bool) -> Shape {
        let rest = rest.map(|(group, behind_slash)| PatternEnd { group, behind_slash });
        Shape::Prefix { path: path.to_owned(), pattern_end: rest, is_complete: is_whole }
    }

    #[test]
    fn usual_patterns_are_prefixes() {
        for (pattern, expected) in [
            ("/api(/|$)(.*)", prefix("/api", Some((2, true)), true)),
            ("/v1\\.0/(.*)$", prefix("/v1.0", Some((1, true)), true)),
            ("/api(/.*)?", prefix("/api", Some((1, false)), false)),
            ("/api/?(.*)", prefix("/api", Some((1, true)), false)),
            ("/api/.*", prefix("/api", None, true)),
            ("/api", prefix("/api", None, false)),
            ("/api/", prefix("/api", None, true)),
            ("/(.*)", Shape::Everything { pattern_end: Some(PatternEnd { group: 1, behind_slash: true }) }),
            ("/", Shape::Everything { pattern_end: None }),
            ("/[a-z]+", Shape::Other),
            ("/a|/b", Shape::Other),
            ("/(?!x)(.*)", Shape::Other),
        ] {
            assert_eq!(shape(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn an_expression_covers_the_paths_that_nginx_matches_at_the_start() {
        for (pattern, expected) in [
            ("/api", "(?i)/api.*"),
            ("/api/[0-9]+$", "(?i)/api/[0-9]+"),
            ("/api(/|$)(.*)", "(?i)/api(/|$)(.*)"),
            ("/a|/b$", "(?i)(?:/a.*|.*/b)"),
            ("/[|]", "(?i)/[|].*"),
            (r"/a\$", r"(?i)/a\$.*"),
        ] {
            assert_eq!(covering_pattern(pattern, true), expected, "{pattern}");
        }
        assert_eq!(covering_pattern("/a", false), "/a.*");
    }
}
