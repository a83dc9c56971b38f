//! Information about a pattern that needs no parsing, because the pattern may be invalid.

/// The literal prefix of every path that `pattern` can match, ignoring ASCII case, determined without parsing the
/// pattern, which may be invalid. Where it is uncertain, the prefix is shorter, possibly empty.
#[must_use]
pub fn literal_start(pattern: &str) -> String {
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
        // It may be repeated zero times, also by a quantifier after a comment or an empty quotation.
        let may_be_absent = ["*", "?", "{", "(?#", "\\Q", "\\E"].iter().any(|next| rest.starts_with(next));
        if may_be_absent {
            return literal;
        }
        literal.push(character);
    }
}

/// A pattern for paths that begin with `text`.
#[must_use]
pub fn literal_pattern(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            (!c.is_ascii_alphanumeric() && !"/-_".contains(c)).then_some('\\').into_iter().chain([c])
        })
        .collect()
}

/// Whether there may be a top-level `|`.
fn may_have_alternatives(pattern: &str) -> bool {
    // Quotations, comments, verbs and the extended mode make it hard to find the end of a group.
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
                // A bracket in first position is a member of the class.
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
            ("/ab(?#c)*(", "/a"),
            ("/ab\\Q\\E*(", "/a"),
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
}
