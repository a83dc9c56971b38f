//! `deny`: refuses requests that match conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Deny, Match, NamedValueMatch, PathMatch, TextMatch};
use fairway_pattern::{Anchor, Pattern};
use serde::Deserialize;

use crate::annotations::value::{check_header_name, parse_object};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyAnnotation {
    #[serde(default = "forbidden")]
    status: u16,
    when: Vec<Condition>,
}

/// Every part must match.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Condition {
    methods: Vec<String>,
    /// Anchored at the start.
    path: Option<String>,
    /// Each pattern must match the whole value. Of several values, one match is enough.
    headers: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
}

fn forbidden() -> u16 {
    403
}

/// The maximum number of conditions in an annotation, and of fields in a condition: each may be a regular expression that costs
/// time for every request.
const MAX_CONDITIONS: usize = 32;

/// Hop-by-hop headers that backends receive, but never as the client sent them.
const PER_HOP_HEADERS: [&str; 3] = ["connection", "te", "transfer-encoding"];

/// The form that the backend receives, whatever the case in the client's request.
const WEBSOCKET_UPGRADE: &[u8] = b"websocket";

/// Parses the annotation.
///
/// # Errors
/// What is wrong with it.
pub fn deny(value: &str) -> Result<Deny, String> {
    let DenyAnnotation { status, when } = parse_object(value)?;
    if !(400..=599).contains(&status) {
        return Err(format!("status {status} refuses nothing; 400 to 599 do"));
    }
    if when.is_empty() {
        return Err("\"when\" has no condition, so that nothing would be refused".to_owned());
    }
    let mut all = Vec::new();
    for condition in when {
        all.extend(condition.matches()?);
    }
    if all.len() > MAX_CONDITIONS {
        return Err(format!(
            "it has {} conditions, a method counting as one, and may have {MAX_CONDITIONS}",
            all.len()
        ));
    }
    Ok(Deny { status, when: all })
}

impl Condition {
    /// One match per method.
    fn matches(self) -> Result<Vec<Match>, String> {
        let Self { methods, path, headers, query } = self;
        if methods.is_empty() && path.is_none() && headers.is_empty() && query.is_empty() {
            return Err("a condition asks for nothing, so that every request would be refused".to_owned());
        }
        if headers.len() + query.len() > MAX_CONDITIONS {
            return Err(format!("a condition has more than {MAX_CONDITIONS} headers and parameters"));
        }
        let path = match path {
            None => PathMatch::default(),
            Some(path) => PathMatch::Regex {
                pattern: anchored_pattern(&path, Anchor::Start, "path")?,
                ignore_case: false,
            },
        };
        headers.iter().try_for_each(|(name, pattern)| check_matchable(name, pattern))?;
        let headers =
            field_matches(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)))?;
        let route_match =
            Match { path, headers, query: field_matches(query.into_iter())?, ..Match::default() };
        if methods.is_empty() {
            return Ok(vec![route_match]);
        }
        methods
            .iter()
            .try_for_each(|name| check_header_name(name).map_err(|_| format!("\"{name}\" is no method")))?;
        Ok(methods
            .into_iter()
            .map(|name| Match { method: Some(name.into()), ..route_match.clone() })
            .collect())
    }
}

/// Rejects conditions on headers that can never match: they would protect nothing.
fn check_matchable(name: &str, text: &str) -> Result<(), String> {
    check_header_name(name)?;
    if PER_HOP_HEADERS.iter().any(|hop| name.eq_ignore_ascii_case(hop)) {
        return Err(format!(
            "a condition on {name} matches nothing: Fairway removes what clients send as {name}, and writes its own"
        ));
    }
    if name.eq_ignore_ascii_case("upgrade")
        && !Pattern::new(&anchored_pattern(text, Anchor::Both, name)?, Anchor::Both, false)
            .is_ok_and(|pattern| pattern.is_match(WEBSOCKET_UPGRADE))
    {
        return Err(format!(
            "the regular expression of {name}, \"{text}\", does not match \"websocket\", the only upgrade that is forwarded"
        ));
    }
    Ok(())
}

fn field_matches(all: impl Iterator<Item = (String, String)>) -> Result<Vec<NamedValueMatch>, String> {
    let field = |(name, text): (String, String)| {
        let value = TextMatch::Regex(anchored_pattern(&text, Anchor::Both, &name)?);
        Ok(NamedValueMatch { name: name.into(), value })
    };
    all.map(field).collect()
}

/// Anchors a pattern. Its `.` matches a line feed: otherwise a client could put `%0a` in front of a word that `.*word.*` is meant
/// to refuse.
fn anchored_pattern(text: &str, anchor: Anchor, field: &str) -> Result<Arc<str>, String> {
    let refused = |why| format!("the regular expression of {field}, \"{text}\", {why}");
    // The pattern must also be valid on its own: a flag in front of it must not make an invalid one valid.
    Pattern::shared(text, anchor, false).map_err(refused)?;
    let pattern = format!("(?s){text}");
    Pattern::shared(&pattern, anchor, false).map_err(refused)?;
    Ok(pattern.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_a_condition_of_its_own() {
        let value = r#"{"when": [{"methods": ["PUT", "DELETE"], "path": "/admin"}, {"headers": {"User-Agent": ".*bot.*"}}]}"#;
        let Ok(deny) = deny(value) else { panic!("it is read") };
        assert_eq!((deny.status, deny.when.len()), (403, 3));
        assert_eq!(&*deny.when[2].headers[0].name, "user-agent");
    }

    #[test]
    fn a_line_feed_cannot_hide_text_from_a_pattern() {
        let value = r#"{"when": [{"path": "/.*secret|/.*key", "headers": {"a": ".*bot.*|.*crawler.*"}, "query": {"b": ".*drop.*"}}]}"#;
        let Ok(deny) = deny(value) else { panic!("it is read") };
        let [Match { path: PathMatch::Regex { pattern: path, .. }, headers, query, .. }] = &deny.when[..]
        else {
            panic!("one condition: {deny:?}")
        };
        let value = |field: &NamedValueMatch| match &field.value {
            TextMatch::Regex(pattern) => pattern.clone(),
            TextMatch::Exact(_) => panic!("{field:?}"),
        };
        let refuses = |pattern: &str, anchor, text: &str| {
            Pattern::new(pattern, anchor, false).unwrap().is_match(text.as_bytes())
        };
        for text in ["/a\nsecret", "/\nkey", "/\n\r\n/secret\n"] {
            assert!(refuses(path, Anchor::Start, text), "{text:?}");
        }
        for text in ["a\nbot", "bot\n", "\ncrawler\nx", "bot\u{85}\r"] {
            assert!(refuses(&value(&headers[0]), Anchor::Both, text), "{text:?}");
        }
        assert!(refuses(&value(&query[0]), Anchor::Both, "\ndrop table"));
    }

    #[test]
    fn upper_and_lower_case_may_be_the_same() {
        deny(r#"{"when": [{"headers": {"User-Agent": "(?i).*(?:(curl|bot)).*"}}]}"#).unwrap();
    }

    #[test]
    fn an_upgrade_is_matched_by_its_only_forwarded_value() {
        for pattern in ["websocket", "(?i)WebSocket", ".+", "h2c|websocket"] {
            deny(&format!(r#"{{"when": [{{"headers": {{"Upgrade": "{pattern}"}}}}]}}"#)).unwrap();
        }
    }

    #[test]
    fn conditions_that_match_everything_or_nothing_are_rejected() {
        let many = format!(r#"{{"when": [{}]}}"#, vec![r#"{"path": "/a"}"#; 33].join(","));
        for (value, words) in [
            ("{}", "missing field `when`"),
            (r#"{"when": []}"#, "no condition"),
            (r#"{"when": [{}]}"#, "every request would be refused"),
            (r#"{"status": 200, "when": [{"path": "/a"}]}"#, "refuses nothing"),
            (r#"{"when": [{"path": "/("}]}"#, "the regular expression of path"),
            (r#"{"when": [{"headers": {"x": "("}}]}"#, "the regular expression of x"),
            (r#"{"when": [{"methods": ["GET /"]}]}"#, "is no method"),
            (
                r#"{"when": [{"path": "/a"}, {"headers": {"Connection": ".*"}}]}"#,
                "Connection matches nothing",
            ),
            (
                r#"{"when": [{"headers": {"transfer-encoding": "chunked"}}]}"#,
                "transfer-encoding matches nothing",
            ),
            (r#"{"when": [{"headers": {"TE": "trailers"}}]}"#, "TE matches nothing"),
            (
                r#"{"when": [{"headers": {"Upgrade": "h2c"}}]}"#,
                "Upgrade, \"h2c\", does not match \"websocket\"",
            ),
            (r#"{"when": [{"headers": {"upgrade": "WebSocket"}}]}"#, "does not match \"websocket\""),
            (r#"{"when": [{"headers": {"Upgrade": "(?!websocket$).*"}}]}"#, "does not match \"websocket\""),
            (r#"{"when": [{"host": "a"}]}"#, "unknown field, expected one of `methods`"),
            (&many, "may have 32"),
        ] {
            let problem = deny(value).unwrap_err();
            assert!(problem.contains(words), "{value}: {problem}");
        }
    }
}
