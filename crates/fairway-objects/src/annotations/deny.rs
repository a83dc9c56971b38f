//! `deny`: requests that are refused by what they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Deny, FieldMatch, Match, PathMatch, TextMatch};
use fairway_pattern::{Anchor, Pattern};
use serde::Deserialize;

use crate::annotations::value::{header_name, object};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default = "forbidden")]
    status: u16,
    when: Vec<Condition>,
}

/// All of it must hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Condition {
    methods: Vec<String>,
    /// Anchored at the start.
    path: Option<String>,
    /// Each covers the whole value. Whichever of several values matches is enough.
    headers: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
}

fn forbidden() -> u16 {
    403
}

/// Conditions of one annotation, and fields of one condition: each may be a regular expression that all requests pay for.
const MOST: usize = 32;

/// Headers of one hop that backends receive, but never as a client sent them.
const WRITTEN_BY_EACH_HOP: [&str; 3] = ["connection", "te", "transfer-encoding"];

/// As the backend receives it, whatever the case in which the client wrote it.
const UPGRADE: &[u8] = b"websocket";

/// Reads it.
///
/// # Errors
/// With what is wrong.
pub fn deny(value: &str) -> Result<Deny, String> {
    let Wanted { status, when } = object(value)?;
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
    if all.len() > MOST {
        return Err(format!(
            "it has {} conditions, a method counting as one, and may have {MOST}",
            all.len()
        ));
    }
    Ok(Deny { status, when: all })
}

impl Condition {
    /// One for each method.
    fn matches(self) -> Result<Vec<Match>, String> {
        let Self { methods, path, headers, query } = self;
        if methods.is_empty() && path.is_none() && headers.is_empty() && query.is_empty() {
            return Err("a condition asks for nothing, so that every request would be refused".to_owned());
        }
        if headers.len() + query.len() > MOST {
            return Err(format!("a condition has more than {MOST} headers and parameters"));
        }
        let path = match path {
            None => PathMatch::default(),
            Some(path) => {
                PathMatch::Regex { pattern: pattern(&path, Anchor::Start, "path")?, ignore_case: false }
            }
        };
        headers.iter().try_for_each(|(name, pattern)| comparable(name, pattern))?;
        let headers = fields(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)))?;
        let of = Match { path, headers, query: fields(query.into_iter())?, ..Match::default() };
        if methods.is_empty() {
            return Ok(vec![of]);
        }
        methods
            .iter()
            .try_for_each(|name| header_name(name).map_err(|_| format!("\"{name}\" is no method")))?;
        Ok(methods.into_iter().map(|name| Match { method: Some(name.into()), ..of.clone() }).collect())
    }
}

/// Whether a condition on the header can match at all: one that cannot would protect nothing.
fn comparable(name: &str, text: &str) -> Result<(), String> {
    header_name(name)?;
    if WRITTEN_BY_EACH_HOP.iter().any(|hop| name.eq_ignore_ascii_case(hop)) {
        return Err(format!(
            "a condition on {name} matches nothing: Fairway removes what clients send as {name}, and writes its own"
        ));
    }
    if name.eq_ignore_ascii_case("upgrade")
        && !Pattern::new(&pattern(text, Anchor::Both, name)?, Anchor::Both, false)
            .is_ok_and(|pattern| pattern.is_match(UPGRADE))
    {
        return Err(format!(
            "the regular expression of {name}, \"{text}\", does not match \"websocket\", the only upgrade that is forwarded"
        ));
    }
    Ok(())
}

fn fields(all: impl Iterator<Item = (String, String)>) -> Result<Vec<FieldMatch>, String> {
    let field = |(name, text): (String, String)| {
        let value = TextMatch::Regex(pattern(&text, Anchor::Both, &name)?);
        Ok(FieldMatch { name: name.into(), value })
    };
    all.map(field).collect()
}

/// The pattern of what is refused. Its `.` matches a line feed: otherwise a client could put `%0a` before a word that
/// `.*word.*` refuses.
fn pattern(text: &str, anchor: Anchor, of: &str) -> Result<Arc<str>, String> {
    let refused = |why| format!("the regular expression of {of}, \"{text}\", {why}");
    // By itself too: a flag before it must not make sense of what has none.
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
    fn a_line_feed_hides_nothing_from_a_pattern() {
        let value = r#"{"when": [{"path": "/.*secret|/.*key", "headers": {"a": ".*bot.*|.*crawler.*"}, "query": {"b": ".*drop.*"}}]}"#;
        let Ok(deny) = deny(value) else { panic!("it is read") };
        let [Match { path: PathMatch::Regex { pattern: path, .. }, headers, query, .. }] = &deny.when[..]
        else {
            panic!("one condition: {deny:?}")
        };
        let value = |field: &FieldMatch| match &field.value {
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
    fn an_upgrade_is_refused_by_the_one_value_that_is_forwarded() {
        for pattern in ["websocket", "(?i)WebSocket", ".+", "h2c|websocket"] {
            deny(&format!(r#"{{"when": [{{"headers": {{"Upgrade": "{pattern}"}}}}]}}"#)).unwrap();
        }
    }

    #[test]
    fn what_refuses_everything_or_nothing_is_refused() {
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
