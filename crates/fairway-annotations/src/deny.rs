//! `deny`: requests that are refused by what they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Deny, FieldMatch, Filter, Match, PathMatch, TextMatch};
use fairway_pattern::{Anchor, Pattern};
use serde::Deserialize;

use crate::value::{header_name, object};

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

/// Reads it.
///
/// # Errors
/// With what is wrong.
pub fn deny(value: &str) -> Result<Filter, String> {
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
    Ok(Filter::Deny(Deny { status, when: all }))
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
                check(&path, Anchor::Start, "path")?;
                PathMatch::Regex { pattern: path.into(), ignore_case: false }
            }
        };
        headers.keys().try_for_each(|name| header_name(name))?;
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

fn fields(all: impl Iterator<Item = (String, String)>) -> Result<Vec<FieldMatch>, String> {
    let field = |(name, pattern): (String, String)| {
        check(&pattern, Anchor::Both, &name)?;
        Ok(FieldMatch { name: name.into(), value: TextMatch::Regex(Arc::from(pattern)) })
    };
    all.map(field).collect()
}

fn check(pattern: &str, anchor: Anchor, of: &str) -> Result<(), String> {
    let compiled = Pattern::shared(pattern, anchor, false);
    compiled.map(drop).map_err(|why| format!("the regular expression of {of}, \"{pattern}\", {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_a_condition_of_its_own() {
        let value = r#"{"when": [{"methods": ["PUT", "DELETE"], "path": "/admin"}, {"headers": {"User-Agent": ".*bot.*"}}]}"#;
        let Ok(Filter::Deny(deny)) = deny(value) else { panic!("it is read") };
        assert_eq!((deny.status, deny.when.len()), (403, 3));
        assert_eq!(&*deny.when[2].headers[0].name, "user-agent");
    }

    #[test]
    fn upper_and_lower_case_may_be_the_same() {
        deny(r#"{"when": [{"headers": {"User-Agent": "(?i).*(?:(curl|bot)).*"}}]}"#).unwrap();
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
            (r#"{"when": [{"host": "a"}]}"#, "unknown field `host`"),
            (&many, "may have 32"),
        ] {
            let problem = deny(value).unwrap_err();
            assert!(problem.contains(words), "{value}: {problem}");
        }
    }
}
