//! The conditions of a match besides its path: method, headers, query parameters, cookies.

use std::sync::Arc;

use fairway_model::{Match, NamedValueMatch, TextMatch};
use fairway_pattern::{Anchor, LONGEST_TEXT, Pattern};

use crate::query;
use crate::request::{Fields, Request, cookies};

/// Conditions that must all hold.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    method: Option<Arc<str>>,
    headers: Box<[NamedValueTest]>,
    query: Box<[NamedValueTest]>,
    cookies: Box<[NamedValueTest]>,
}

#[derive(Clone, Debug)]
struct NamedValueTest {
    name: Arc<str>,
    value: TextTest,
}

#[derive(Clone, Debug)]
enum TextTest {
    Exact(Arc<str>),
    /// Compared with values of at most [`LONGEST_TEXT`].
    Regex(Arc<Pattern>),
}

/// The first condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnmetCondition<'c> {
    Method,
    Header(&'c str),
    Query(&'c str),
    Cookie(&'c str),
}

impl Conditions {
    /// Whether the match has no conditions but its path.
    pub(crate) fn are_none(route_match: &Match) -> bool {
        let Match { method, headers, query, cookies, .. } = route_match;
        method.is_none() && headers.is_empty() && query.is_empty() && cookies.is_empty()
    }

    /// `None` if the match has no conditions but its path.
    pub(crate) fn compiled(route_match: &Match) -> Result<Option<Self>, String> {
        if Self::are_none(route_match) {
            return Ok(None);
        }
        let Match { method, headers, query, cookies, .. } = route_match;
        let all = |fields: &[NamedValueMatch], place| {
            fields.iter().map(|field| NamedValueTest::compiled(field, place)).collect::<Result<Box<[_]>, _>>()
        };
        let (headers, query, cookies) =
            (all(headers, "header")?, all(query, "query")?, all(cookies, "cookie")?);
        Ok(Some(Self { method: method.clone(), headers, query, cookies }))
    }

    /// Whether all hold. Of several values with one name, the first one is used; a value that is too long to compare
    /// does not match.
    pub(crate) fn hold<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        self.unmet(request).is_none()
    }

    /// The first condition that does not hold.
    pub(crate) fn unmet<F: Fields>(&self, request: &Request<'_, F>) -> Option<UnmetCondition<'_>> {
        if self.method.as_ref().is_some_and(|method| method.as_bytes() != request.method) {
            return Some(UnmetCondition::Method);
        }
        let header = self
            .headers
            .iter()
            .find(|test| !request.fields.first(&test.name).is_some_and(|value| test.value.holds(value)));
        if let Some(test) = header {
            return Some(UnmetCondition::Header(&test.name));
        }
        let parameter = self.query.iter().find(|test| {
            !query::first(request.query, test.name.as_bytes())
                .is_some_and(|raw| test.value.holds_decoded(raw))
        });
        if let Some(test) = parameter {
            return Some(UnmetCondition::Query(&test.name));
        }
        let cookie = self
            .cookies
            .iter()
            .find(|test| !request.fields.cookie(&test.name).is_some_and(|value| test.value.holds(value)));
        cookie.map(|test| UnmetCondition::Cookie(&test.name))
    }

    /// Whether all hold, for a rule that denies requests: of several values with one name, any may match, and so does
    /// one that is too long to compare. A client must not get past it by sending a value twice, in parts or padded.
    pub(crate) fn refuse<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        let fields = request.fields;
        self.method.as_ref().is_none_or(|method| method.as_bytes() == request.method)
            && self.headers.iter().all(|test| test.refuses_header(fields))
            && self.query.iter().all(|test| {
                query::all_readings(request.query, test.name.as_bytes())
                    .any(|raw| test.value.refuses_decoded(raw))
            })
            && self.cookies.iter().all(|test| {
                fields.any("cookie", |line| cookies(line, &test.name).any(|value| test.value.refuses(value)))
            })
    }
}

impl NamedValueTest {
    fn compiled(field: &NamedValueMatch, location: &str) -> Result<Self, String> {
        let value = match &field.value {
            TextMatch::Exact(text) => TextTest::Exact(text.clone()),
            TextMatch::Regex(pattern) => TextTest::Regex(
                Pattern::shared(pattern, Anchor::Both, false)
                    .map_err(|why| format!("the regular expression of {location} {:?} {why}", field.name))?,
            ),
        };
        Ok(Self { name: field.name.clone(), value })
    }

    /// Whether any value of the header is denied, or all of them joined, which is how a backend may read them.
    fn refuses_header(&self, fields: &impl Fields) -> bool {
        let mut values = 0;
        let refused = fields.any(&self.name, |value| {
            values += 1;
            self.value.refuses(value)
        });
        refused || values > 1 && self.refuses_joined(fields)
    }

    /// Joins values as in RFC 9110 §5.2 and, for cookies, RFC 6265 §4.2.1.
    #[cold]
    fn refuses_joined(&self, fields: &impl Fields) -> bool {
        let separator: &[u8] = if &*self.name == "cookie" { b"; " } else { b", " };
        let (mut room, mut length, mut before) = ([0; LONGEST_TEXT], 0, &b""[..]);
        let is_too_long = fields.any(&self.name, |value| {
            for part in [std::mem::replace(&mut before, separator), value] {
                let Some(free) = room.get_mut(length..length + part.len()) else { return true };
                free.copy_from_slice(part);
                length += part.len();
            }
            false
        });
        is_too_long || self.value.refuses(&room[..length])
    }
}

impl TextTest {
    fn holds(&self, value: &[u8]) -> bool {
        self.compared(value) == Some(true)
    }

    fn holds_decoded(&self, raw: &[u8]) -> bool {
        self.compared_decoded(raw) == Some(true)
    }

    /// Whether a value is denied, including one that cannot be compared.
    fn refuses(&self, value: &[u8]) -> bool {
        self.compared(value) != Some(false)
    }

    fn refuses_decoded(&self, raw: &[u8]) -> bool {
        self.compared_decoded(raw) != Some(false)
    }

    /// `None` for a value that is too long to compare.
    fn compared(&self, value: &[u8]) -> Option<bool> {
        match self {
            Self::Exact(text) => Some(text.as_bytes() == value),
            Self::Regex(pattern) => (value.len() <= LONGEST_TEXT).then(|| pattern.is_match(value)),
        }
    }

    fn compared_decoded(&self, raw: &[u8]) -> Option<bool> {
        match self {
            Self::Exact(text) => Some(query::equals_decoded(raw, text.as_bytes())),
            Self::Regex(pattern) if query::needs_decoding(raw) => match raw.len() <= SHORT {
                true => matches_decoded::<SHORT>(pattern, raw),
                false => matches_decoded::<LONGEST_TEXT>(pattern, raw),
            },
            Self::Regex(_) => self.compared(raw),
        }
    }
}

/// A query can have thousands of values, each of which needs a buffer: this size suffices for most.
const SHORT: usize = 128;

/// Decodes onto the stack, because a lookup allocates nothing. `None` if the value does not fit.
#[cold]
fn matches_decoded<const ROOM: usize>(pattern: &Pattern, raw: &[u8]) -> Option<bool> {
    let mut decoded = [0; ROOM];
    let mut length = 0;
    for byte in query::decoded(raw) {
        *decoded.get_mut(length)? = byte;
        length += 1;
    }
    Some(pattern.is_match(&decoded[..length]))
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

    /// Fields in order.
    struct Several<'t>(&'t [(&'t str, &'t str)]);

    impl Fields for Several<'_> {
        fn first(&self, name: &str) -> Option<&[u8]> {
            self.0.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_bytes())
        }

        fn any(&self, name: &str, mut is_one: impl FnMut(&[u8]) -> bool) -> bool {
            self.0.iter().any(|(field, value)| *field == name && is_one(value.as_bytes()))
        }
    }

    fn request<'r, F>(method: &'r [u8], query: &'r [u8], fields: &'r F) -> Request<'r, F> {
        Request { host: "", method, normalised: b"/", decoded: b"/", query, fields }
    }

    fn match_holds(route_match: &Match, method: &[u8], query: &[u8], fields: &impl Fields) -> bool {
        let request = request(method, query, fields);
        Conditions::compiled(route_match).unwrap().is_none_or(|conditions| conditions.hold(&request))
    }

    fn refuses(route_match: &Match, query: &str, fields: &[(&str, &str)]) -> bool {
        let fields = Several(fields);
        let request = request(b"GET", query.as_bytes(), &fields);
        Conditions::compiled(route_match).unwrap().is_none_or(|conditions| conditions.refuse(&request))
    }

    fn field(name: &str, value: TextMatch) -> Vec<NamedValueMatch> {
        vec![NamedValueMatch { name: name.into(), value }]
    }

    const NO_FIELD: One = One("", b"");

    #[test]
    fn methods_are_case_sensitive() {
        let route_match = Match { method: Some("GET".into()), ..Match::default() };
        assert!(match_holds(&route_match, b"GET", b"", &NO_FIELD));
        assert!(!match_holds(&route_match, b"get", b"", &NO_FIELD));
    }

    #[test]
    fn a_header_regex_covers_the_whole_value() {
        let route_match =
            Match { headers: field("x-a", TextMatch::Regex("v[0-9]".into())), ..Match::default() };
        assert!(match_holds(&route_match, b"GET", b"", &One("x-a", b"v1")));
        assert!(!match_holds(&route_match, b"GET", b"", &One("x-a", b"v12")));
        assert!(!match_holds(&route_match, b"GET", b"", &One("x-b", b"v1")));
    }

    #[test]
    fn a_cookie_has_its_whole_name_and_value() {
        let route_match =
            Match { cookies: field("beta", TextMatch::Exact("always".into())), ..Match::default() };
        for (line, fits) in [
            ("beta=always", true),
            ("x=1; beta=always; y", true),
            ("xbeta=always", false),
            ("beta=always1", false),
            ("beta=never; beta=always", false),
            ("Beta=always", false),
        ] {
            assert_eq!(
                match_holds(&route_match, b"GET", b"", &One("cookie", line.as_bytes())),
                fits,
                "{line}"
            );
        }
        assert!(!match_holds(&route_match, b"GET", b"", &NO_FIELD));
    }

    #[test]
    fn query_values_are_compared_decoded() {
        let exact = Match { query: field("q", TextMatch::Exact("a b".into())), ..Match::default() };
        let regex = Match { query: field("q", TextMatch::Regex("[a-z] [a-z]".into())), ..Match::default() };
        for matched in [&exact, &regex] {
            assert!(match_holds(matched, b"GET", b"z=1&q=a%20b", &NO_FIELD));
            assert!(match_holds(matched, b"GET", b"q=a+b", &NO_FIELD));
            assert!(!match_holds(matched, b"GET", b"q=a+bb", &NO_FIELD));
            assert!(!match_holds(matched, b"GET", b"q=ab&q=a+b", &NO_FIELD));
        }
    }

    #[test]
    fn refusals_check_every_value_of_a_name() {
        let regex = |pattern: &str| field("x-a", TextMatch::Regex(pattern.into()));
        let bad = Match { headers: regex("bad"), ..Match::default() };
        let not_good = Match { headers: regex("[a-z](?!ood$).*"), ..Match::default() };
        for (fields, is_bad, is_not_good) in [
            (&[("x-a", "good"), ("x-a", "bad")][..], true, true),
            (&[("x-a", "bad"), ("x-a", "good")], true, true),
            // A backend that joins them gets `good, good`, which is not `good`.
            (&[("x-a", "good"), ("x-b", "bad"), ("x-a", "good")], false, true),
            (&[("x-a", "good"), ("x-b", "bad")], false, false),
            // A list in one field is one value.
            (&[("x-a", "good, bad")], false, true),
            (&[("x-b", "bad")], false, false),
            (&[], false, false),
        ] {
            assert_eq!(refuses(&bad, "", fields), is_bad, "{fields:?}");
            assert_eq!(refuses(&not_good, "", fields), is_not_good, "{fields:?}");
        }
        let cookie = Match { cookies: field("c", TextMatch::Exact("bad".into())), ..Match::default() };
        assert!(refuses(&cookie, "", &[("cookie", "c=good; c=bad")]));
        assert!(refuses(&cookie, "", &[("cookie", "c=good"), ("cookie", "c=bad")]));
        assert!(!refuses(&cookie, "", &[("cookie", "c=good; d=bad")]));
        let parameter = Match { query: field("q", TextMatch::Regex("b d".into())), ..Match::default() };
        assert!(refuses(&parameter, "q=good&q=b%20d", &[]));
        assert!(!refuses(&parameter, "q=good&r=b%20d", &[]));
        let put = Match { method: Some("PUT".into()), ..parameter };
        assert!(!refuses(&put, "q=b%20d", &[]), "all parts must hold");
    }

    #[test]
    fn refusals_check_the_joined_values_of_a_name_too() {
        let regex = |name: &str, pattern: &str| Match {
            headers: field(name, TextMatch::Regex(pattern.into())),
            ..Match::default()
        };
        let header = regex("x-a", ".*a.*b.*");
        assert!(refuses(&header, "", &[("x-a", "a"), ("x-b", "-"), ("x-a", "b")]));
        assert!(!refuses(&header, "", &[("x-a", "b"), ("x-a", "a")]));
        assert!(refuses(&regex("x-a", "a, b"), "", &[("x-a", "a"), ("x-a", "b")]));
        let cookie = regex("cookie", ".*role=admin; .*debug=1.*");
        for (fields, is_refused) in [
            (&[("cookie", "role=admin; debug=1")][..], true),
            (&[("cookie", "role=admin"), ("cookie", "debug=1")], true),
            (&[("cookie", "x=1"), ("cookie", "role=admin"), ("cookie", "y=2"), ("cookie", "debug=1")], true),
            (&[("cookie", "debug=1"), ("cookie", "role=admin")], false),
            (&[("cookie", "role=admin"), ("x-a", "debug=1")], false),
        ] {
            assert_eq!(refuses(&cookie, "", fields), is_refused, "{fields:?}");
        }
        let half = "x".repeat(LONGEST_TEXT / 2 - 1);
        let longer = "x".repeat(LONGEST_TEXT / 2);
        for (first, is_refused) in [(&half, false), (&longer, true)] {
            let fields = [("x-a", &**first), ("x-a", &*half)];
            assert_eq!(refuses(&regex("x-a", "y"), "", &fields), is_refused, "{}", first.len());
        }
    }

    #[test]
    fn refusals_read_a_query_like_any_backend() {
        let match_on = |name: &str, pattern: &str| Match {
            query: field(name, TextMatch::Regex(pattern.into())),
            ..Match::default()
        };
        let bad = match_on("kind", "bad");
        for query in [
            "kind=bad",
            "%6bind=bad",
            "KIND=bad",
            "Kin%44=b%61%64",
            "kind=good;kind=bad",
            "x=1;kind=bad",
            "kind=bad;x=1",
            "x;kind=bad&kind=good",
        ] {
            assert!(refuses(&bad, query, &[]), "{query}");
        }
        for query in ["kind=good", "kinds=bad", "x=kind=bad", "x;y&kind=good;z", "kind", "kind%3Dbad"] {
            assert!(!refuses(&bad, query, &[]), "{query}");
        }
        assert!(refuses(&match_on("q", "a;b"), "q=a;b", &[]), "as nginx reads it");
        assert!(!refuses(&match_on("q", "(?!a b$).*"), "q=a+b", &[]), "a form writes + for a space");
        let exact = Match { query: field("kind", TextMatch::Exact("bad".into())), ..Match::default() };
        assert!(!match_holds(&exact, b"GET", b"Kind=bad", &NO_FIELD), "routes are chosen by the exact name");
        assert!(!match_holds(&exact, b"GET", b"x=1;kind=bad", &NO_FIELD));
    }

    #[test]
    fn an_oversized_value_is_refused_and_matches_no_route() {
        let regex = |name| field(name, TextMatch::Regex("x*y".into()));
        let header = Match { headers: regex("x-a"), ..Match::default() };
        let parameter = Match { query: regex("q"), ..Match::default() };
        for (length, is_refused) in [(LONGEST_TEXT, false), (LONGEST_TEXT + 1, true)] {
            let value = "x".repeat(length);
            let fields = [("x-a", &*value)];
            assert_eq!(refuses(&header, "", &fields), is_refused, "{length}");
            assert!(!match_holds(&header, b"GET", b"", &Several(&fields)), "{length}");
            for (plain, escaped) in [(length, 0), (length - 1, 1)] {
                let query = ["q=", &"x".repeat(plain), &"%78".repeat(escaped)].concat();
                assert_eq!(refuses(&parameter, &query, &[]), is_refused, "{length} {escaped}");
                assert!(!match_holds(&parameter, b"GET", query.as_bytes(), &NO_FIELD), "{length} {escaped}");
            }
        }
    }

    #[test]
    fn short_and_long_values_are_decoded_alike() {
        let route_match = Match { query: field("q", TextMatch::Regex(" x*".into())), ..Match::default() };
        for length in [SHORT - 2, SHORT - 1, SHORT, SHORT + 1, LONGEST_TEXT - 1] {
            let query = |end: &str| ["q=+", &"x".repeat(length), end].concat();
            assert!(match_holds(&route_match, b"GET", query("").as_bytes(), &NO_FIELD), "{length}");
            assert!(!match_holds(&route_match, b"GET", query("y").as_bytes(), &NO_FIELD), "{length}");
        }
    }

    #[test]
    fn an_invalid_regex_is_reported_with_its_position() {
        let route_match = Match { headers: field("x-a", TextMatch::Regex("(".into())), ..Match::default() };
        let why = Conditions::compiled(&route_match).unwrap_err();
        assert!(why == "the regular expression of header \"x-a\" cannot be used: unclosed group", "{why}");
    }
}
