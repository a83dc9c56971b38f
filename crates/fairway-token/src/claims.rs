//! The claims of a token.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The claims of a token (RFC 7519 §4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    pub(crate) fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// The claim with this name; if there is none, dots lead into objects: `realm_access.roles`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(name) {
            return Some(value);
        }
        let mut parts = name.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.as_object()?.get(part))
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.get("iss")?.as_str()
    }

    /// The subject.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.get("sub")?.as_str()
    }

    /// The user's session at the issuer (OpenID Connect Front-Channel Logout 1.0 §3).
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.0.get("sid")?.as_str()
    }

    /// Whether a claim is one of these texts, or a list that contains one. Numbers and booleans are compared in JSON
    /// notation.
    #[must_use]
    pub fn has_any<'v>(
        &self,
        name: &str,
        values: impl IntoIterator<Item = &'v str, IntoIter: Clone>,
    ) -> bool {
        let values = values.into_iter();
        let is_one = |found: &Value| match found {
            Value::String(text) => values.clone().any(|value| value == text),
            Value::Number(_) | Value::Bool(_) => {
                let text = found.to_string();
                values.clone().any(|value| value == text)
            }
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        match self.find(name) {
            Some(Value::Array(list)) => list.iter().any(is_one),
            Some(value) => is_one(value),
            None => false,
        }
    }

    /// Whether the token has this scope: in `scope` (RFC 8693 §4.2, space-separated), or in `scp`, which some issuers
    /// write as a list.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        let has = |value: &Value| match value {
            Value::String(text) => text.split(' ').any(|each| each == scope),
            Value::Array(list) => list.iter().any(|each| each.as_str() == Some(scope)),
            _ => false,
        };
        ["scope", "scp"].iter().filter_map(|name| self.0.get(*name)).any(has)
    }

    /// The claim as a header value: texts, numbers and booleans, or a comma-separated list of them. `None` if it is
    /// absent, empty, not a single value (control characters, a comma inside of a list), or of another type.
    #[must_use]
    pub fn header_value(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = match self.find(name)? {
            Value::Array(list) => {
                let texts: Vec<_> = list.iter().map(text).collect::<Option<_>>()?;
                texts.iter().all(|text| !text.contains(',')).then(|| texts.join(",").into())?
            }
            value => text(value)?,
        };
        let is_one_line = !value.chars().any(char::is_control);
        // Spaces at the ends are not part of a value (RFC 9110 §5.5).
        (is_one_line && !value.is_empty() && value.trim().len() == value.len()).then_some(value)
    }

    /// A time in seconds since 1970 (NumericDate, RFC 7519 §2).
    ///
    /// # Errors
    /// The claim is present but not a time.
    pub(crate) fn time(&self, name: &str) -> Result<Option<f64>, NotATime> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        seconds.map(Some).ok_or(NotATime)
    }

    /// The issue time, in whole seconds since 1970.
    ///
    /// # Errors
    /// The claim is present but not a time.
    pub(crate) fn issued_at(&self) -> Result<Option<u64>, NotATime> {
        // A float is rounded to the nearest integer.
        Ok(self.time("iat")?.map(|seconds| seconds as u64))
    }

    /// The texts of a claim that is a text or a list of texts.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let (one, list) = match self.0.get(name) {
            Some(Value::String(text)) => (Some(text.as_str()), &[][..]),
            Some(Value::Array(list)) => (None, &list[..]),
            _ => (None, &[][..]),
        };
        one.into_iter().chain(list.iter().filter_map(Value::as_str))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The claim is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotATime;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_object;

    fn claims(text: &str) -> Claims {
        Claims::new(parse_object(text.as_bytes()).expect("it is an object"))
    }

    #[test]
    fn claims_are_found_by_their_whole_name_first_and_then_within_objects() {
        let claims =
            claims(r#"{"a.b": 1, "a": {"b": 2, "c": {"d": "x"}}, "https://example.com/roles": ["r"]}"#);
        assert_eq!(claims.find("a.b"), Some(&1.into()));
        assert_eq!(claims.find("a.c.d"), Some(&"x".into()));
        assert_eq!(claims.find("https://example.com/roles"), Some(&vec!["r"].into()));
        for absent in ["", ".", "a.", "a.c.d.e", "b", "a.d"] {
            assert_eq!(claims.find(absent), None, "{absent}");
        }
    }

    #[test]
    fn a_claim_is_one_of_the_values_or_a_list_that_contains_one() {
        let claims = claims(
            r#"{"role": "admin", "level": 3, "vip": true, "groups": ["a", 7], "n": null, "o": {"a": "a"}}"#,
        );
        assert!(claims.has_any("role", ["user", "admin"]));
        assert!(claims.has_any("level", ["3"]) && claims.has_any("vip", ["true"]));
        assert!(claims.has_any("groups", ["a"]) && claims.has_any("groups", ["7"]));
        for (name, value) in [
            ("role", "adm"),
            ("role", ""),
            ("level", "3.0"),
            ("groups", "b"),
            ("n", "null"),
            ("o", "a"),
            ("x", ""),
        ] {
            assert!(!claims.has_any(name, [value]), "{name} {value}");
        }
        assert!(!claims.has_any("role", []));
    }

    #[test]
    fn scopes_are_words_of_scope_or_members_of_scp() {
        let both = claims(r#"{"scope": "read write:all", "scp": ["admin", "two words"]}"#);
        for scope in ["read", "write:all", "admin", "two words"] {
            assert!(both.has_scope(scope), "{scope}");
        }
        for scope in ["write", "READ", "read write:all", "two"] {
            assert!(!both.has_scope(scope), "{scope}");
        }
        assert!(claims(r#"{"scp": "a b"}"#).has_scope("b"));
        assert!(!claims(r#"{"scope": {"read": true}}"#).has_scope("read"));
    }

    #[test]
    fn non_single_header_values_are_omitted() {
        let claims = claims(
            r#"{"sub": "jürgen", "n": 5, "b": false, "l": ["a", 1], "crlf": "a\r\nX-Admin: 1", "nul": "a\u0000", "c": ["a,b"],
                "o": {}, "lo": [{}], "e": "", "el": [], "s": " a", "null": null}"#,
        );
        let value = |name| claims.header_value(name);
        assert_eq!(value("sub").as_deref(), Some("jürgen"));
        assert_eq!(
            (value("n").as_deref(), value("b").as_deref(), value("l").as_deref()),
            (Some("5"), Some("false"), Some("a,1"))
        );
        for name in ["crlf", "nul", "c", "o", "lo", "e", "el", "s", "null", "absent"] {
            assert_eq!(value(name), None, "{name}");
        }
    }
}
