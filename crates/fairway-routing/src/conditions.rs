//! What a match asks of a request besides its path: method, headers, query parameters, cookies.

use std::sync::Arc;

use fairway_model::{FieldMatch, Match, TextMatch};
use fairway_pattern::{Anchor, LONGEST_TEXT, Pattern};

use crate::query;
use crate::request::{Fields, Request};

/// All of it must hold.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    method: Option<Arc<str>>,
    headers: Box<[FieldTest]>,
    query: Box<[FieldTest]>,
    cookies: Box<[FieldTest]>,
}

#[derive(Clone, Debug)]
struct FieldTest {
    name: Arc<str>,
    value: TextTest,
}

#[derive(Clone, Debug)]
enum TextTest {
    Exact(Arc<str>),
    /// A value that is longer than [`LONGEST_TEXT`] never matches.
    Regex(Arc<Pattern>),
}

/// The first condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet<'c> {
    Method,
    Header(&'c str),
    Query(&'c str),
    Cookie(&'c str),
}

impl Conditions {
    /// Whether the match asks nothing but a path.
    pub(crate) fn are_none(of: &Match) -> bool {
        let Match { method, headers, query, cookies, .. } = of;
        method.is_none() && headers.is_empty() && query.is_empty() && cookies.is_empty()
    }

    /// `None` when the match asks nothing but a path.
    pub(crate) fn compiled(of: &Match) -> Result<Option<Self>, String> {
        if Self::are_none(of) {
            return Ok(None);
        }
        let Match { method, headers, query, cookies, .. } = of;
        let all = |fields: &[FieldMatch], place| {
            fields.iter().map(|field| FieldTest::compiled(field, place)).collect::<Result<Box<[_]>, _>>()
        };
        let (headers, query, cookies) =
            (all(headers, "header")?, all(query, "query")?, all(cookies, "cookie")?);
        Ok(Some(Self { method: method.clone(), headers, query, cookies }))
    }

    /// Whether all hold.
    pub(crate) fn hold<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        self.unmet(request).is_none()
    }

    /// The first that does not hold.
    pub(crate) fn unmet<F: Fields>(&self, request: &Request<'_, F>) -> Option<Unmet<'_>> {
        if self.method.as_ref().is_some_and(|method| method.as_bytes() != request.method) {
            return Some(Unmet::Method);
        }
        let header = self
            .headers
            .iter()
            .find(|test| !request.fields.first(&test.name).is_some_and(|value| test.value.holds(value)));
        if let Some(test) = header {
            return Some(Unmet::Header(&test.name));
        }
        let parameter = self.query.iter().find(|test| {
            !query::first(request.query, test.name.as_bytes())
                .is_some_and(|raw| test.value.holds_decoded(raw))
        });
        if let Some(test) = parameter {
            return Some(Unmet::Query(&test.name));
        }
        let cookie = self
            .cookies
            .iter()
            .find(|test| !request.fields.cookie(&test.name).is_some_and(|value| test.value.holds(value)));
        cookie.map(|test| Unmet::Cookie(&test.name))
    }
}

impl FieldTest {
    fn compiled(field: &FieldMatch, place: &str) -> Result<Self, String> {
        let value = match &field.value {
            TextMatch::Exact(text) => TextTest::Exact(text.clone()),
            TextMatch::Regex(pattern) => TextTest::Regex(
                Pattern::shared(pattern, Anchor::Both, false)
                    .map_err(|why| format!("the regular expression of {place} {:?} {why}", field.name))?,
            ),
        };
        Ok(Self { name: field.name.clone(), value })
    }
}

impl TextTest {
    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes() == value,
            Self::Regex(pattern) => value.len() <= LONGEST_TEXT && pattern.is_match(value),
        }
    }

    fn holds_decoded(&self, raw: &[u8]) -> bool {
        match self {
            Self::Exact(text) => query::is(raw, text.as_bytes()),
            Self::Regex(pattern) if query::needs_decoding(raw) => matches_decoded(pattern, raw),
            Self::Regex(_) => self.holds(raw),
        }
    }
}

/// Decodes onto the stack: a lookup allocates nothing.
#[cold]
fn matches_decoded(pattern: &Pattern, raw: &[u8]) -> bool {
    let mut decoded = [0; LONGEST_TEXT];
    let mut length = 0;
    for byte in query::decoded(raw) {
        let Some(place) = decoded.get_mut(length) else { return false };
        *place = byte;
        length += 1;
    }
    pattern.is_match(&decoded[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str, &'static [u8]);

    impl Fields for One {
        fn first(&self, name: &str) -> Option<&[u8]> {
            (name == self.0).then_some(self.1)
        }
    }

    fn holds(of: &Match, method: &[u8], query: &[u8], fields: &One) -> bool {
        let request = Request { host: "", method, normalised: b"/", decoded: b"/", query, fields };
        Conditions::compiled(of).unwrap().is_none_or(|conditions| conditions.hold(&request))
    }

    fn field(name: &str, value: TextMatch) -> Vec<FieldMatch> {
        vec![FieldMatch { name: name.into(), value }]
    }

    const NO_FIELD: One = One("", b"");

    #[test]
    fn methods_are_case_sensitive() {
        let of = Match { method: Some("GET".into()), ..Match::default() };
        assert!(holds(&of, b"GET", b"", &NO_FIELD));
        assert!(!holds(&of, b"get", b"", &NO_FIELD));
    }

    #[test]
    fn a_header_regex_covers_the_whole_value() {
        let of = Match { headers: field("x-a", TextMatch::Regex("v[0-9]".into())), ..Match::default() };
        assert!(holds(&of, b"GET", b"", &One("x-a", b"v1")));
        assert!(!holds(&of, b"GET", b"", &One("x-a", b"v12")));
        assert!(!holds(&of, b"GET", b"", &One("x-b", b"v1")));
    }

    #[test]
    fn a_cookie_has_its_whole_name_and_value() {
        let of = Match { cookies: field("beta", TextMatch::Exact("always".into())), ..Match::default() };
        for (line, fits) in [
            ("beta=always", true),
            ("x=1; beta=always; y", true),
            ("xbeta=always", false),
            ("beta=always1", false),
            ("beta=never; beta=always", false),
            ("Beta=always", false),
        ] {
            assert_eq!(holds(&of, b"GET", b"", &One("cookie", line.as_bytes())), fits, "{line}");
        }
        assert!(!holds(&of, b"GET", b"", &NO_FIELD));
    }

    #[test]
    fn query_values_are_compared_decoded() {
        let exact = Match { query: field("q", TextMatch::Exact("a b".into())), ..Match::default() };
        let regex = Match { query: field("q", TextMatch::Regex("[a-z] [a-z]".into())), ..Match::default() };
        for of in [&exact, &regex] {
            assert!(holds(of, b"GET", b"z=1&q=a%20b", &NO_FIELD));
            assert!(holds(of, b"GET", b"q=a+b", &NO_FIELD));
            assert!(!holds(of, b"GET", b"q=a+bb", &NO_FIELD));
            assert!(!holds(of, b"GET", b"q=ab&q=a+b", &NO_FIELD));
        }
    }

    #[test]
    fn an_invalid_regex_says_where() {
        let of = Match { headers: field("x-a", TextMatch::Regex("(".into())), ..Match::default() };
        let why = Conditions::compiled(&of).unwrap_err();
        assert!(why == "the regular expression of header \"x-a\" cannot be used: unclosed group", "{why}");
    }
}
