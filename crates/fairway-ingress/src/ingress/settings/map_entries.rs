//! Keys with comma-separated entries of an nginx `map`: `block-user-agents`, `block-referers` and
//! `skip-access-log-urls`. Entries are parsed as in nginx.

use std::sync::Arc;

use fairway_model::{BlockedClients, ValueTest};
use fairway_pattern::Pattern;

use crate::ingress::settings::problem::KeyProblem;

/// Maximum entries of a key: each may be a regular expression that every request is compared with.
const MAX_ENTRIES: usize = 256;

/// What an entry must be.
const NOT_ENTRIES: &str = "an entry is neither a text (in quotes if it has spaces) nor ~ or ~* and a regular expression that \
                           Fairway can compare, or there are more than 256";

/// Reserved words in a `map` (`volatile` is not reserved if a value follows).
const WORDS_OF_MAPS: [&str; 2] = ["default", "include"];

/// The parsed values.
#[derive(Debug, Default)]
pub(super) struct MapKeys {
    blocked: BlockedClients,
    unlogged: Vec<ValueTest>,
}

impl MapKeys {
    /// Reads one key; `None` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        let map = match name {
            "block-user-agents" => &mut self.blocked.user_agents,
            "block-referers" => &mut self.blocked.referers,
            "skip-access-log-urls" => {
                let (read, unread) = entries(value);
                self.unlogged = read;
                return Some(if unread { Err(NOT_ALL_TARGETS) } else { Ok(()) });
            }
            _ => return None,
        };
        let (read, unread) = entries(value);
        *map = read;
        Some(if unread { Err(KeyProblem::Unreadable(NOT_ENTRIES)) } else { Ok(()) })
    }

    /// The blocked clients, and the targets that are not logged.
    pub(super) fn resolve(self) -> (Option<Arc<BlockedClients>>, Arc<[ValueTest]>) {
        (self.blocked.if_not_empty(), self.unlogged.into())
    }
}

const NOT_ALL_TARGETS: KeyProblem = KeyProblem::Partly(
    "a list of request targets, and of ~ or ~* with a regular expression that Fairway can compare",
    "requests are logged unless one of the other entries covers them",
);

/// The valid entries, and whether there are invalid ones.
fn entries(value: &str) -> (Vec<ValueTest>, bool) {
    let written = || value.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let read: Vec<_> = written().take(MAX_ENTRIES).filter_map(entry).collect();
    let unread = read.len() != written().count();
    (read, unread)
}

/// Parses an entry as nginx does in its configuration: a word, or quoted text.
fn entry(written: &str) -> Option<ValueTest> {
    let text = word(written)?;
    if WORDS_OF_MAPS.contains(&text.as_str()) {
        return None;
    }
    let Some(pattern) = text.strip_prefix('~') else {
        return Some(ValueTest::AnyCase(text.strip_prefix('\\').unwrap_or(&text).into()));
    };
    let (pattern, ignore_case) = pattern.strip_prefix('*').map_or((pattern, false), |rest| (rest, true));
    Pattern::anywhere(pattern, ignore_case).ok()?;
    Some(ValueTest::Found { pattern: pattern.into(), ignore_case })
}

/// One word of nginx's configuration, without quotes and escapes; `None` for zero or several words.
fn word(written: &str) -> Option<String> {
    let quote = written.chars().next().filter(|first| matches!(first, '"' | '\''));
    let inner = match quote {
        Some(quote) => written[1..].strip_suffix(quote)?,
        None => written,
    };
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                escaped @ ('"' | '\'' | '\\') => text.push(escaped),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'n' => text.push('\n'),
                other => text.extend(['\\', other]),
            },
            // The word ends before the entry does.
            _ if Some(c) == quote => return None,
            ';' | '{' if quote.is_none() => return None,
            _ if quote.is_none() && c.is_ascii_whitespace() => return None,
            _ => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, ignore_case: bool) -> Option<ValueTest> {
        Some(ValueTest::Found { pattern: pattern.into(), ignore_case })
    }

    fn text(text: &str) -> Option<ValueTest> {
        Some(ValueTest::AnyCase(text.into()))
    }

    #[test]
    fn an_entry_is_read_as_nginx_reads_it() {
        for (written, expected) in [
            ("curl", text("curl")),
            (r#""Bad Bot""#, text("Bad Bot")),
            ("'it''s'", None),
            (r#""""#, text("")),
            ("~*bot", found("bot", true)),
            ("~^Mozilla/5\\.0$", found("^Mozilla/5\\.0$", false)),
            (r"~a\\.b", found(r"a\.b", false)),
            (r#""~* bad\" bot""#, found(" bad\" bot", true)),
            (r"\\~literal", text("~literal")),
            ("Bad Bot", None),
            (r#""Bad" Bot"#, None),
            ("a;b", None),
            ("default", None),
            ("~(", None),
            ("~(?!a).*b", None),
        ] {
            assert_eq!(entry(written), expected, "{written}");
        }
    }

    #[test]
    fn valid_entries_count_next_to_invalid_ones() {
        assert_eq!(entries(" a , ~*b ,,"), (vec![text("a").unwrap(), found("b", true).unwrap()], false));
        assert_eq!(entries("a,~("), (vec![text("a").unwrap()], true));
        assert_eq!(entries(""), (Vec::new(), false));
        let many = vec!["a"; MAX_ENTRIES + 1].join(",");
        assert_eq!((entries(&many).0.len(), entries(&many).1), (MAX_ENTRIES, true));
    }
}
