//! Auth snippets: `auth-snippet`, and `global-auth-snippet` of the ConfigMap, which change the auth request to the
//! service of `auth-url`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Template, TemplatePart};

use crate::level::check_set_header;
use crate::map::Maps;
use crate::problem::Problem;
use crate::symbolic_state::{RequestCase, Scope};
use crate::syntax::Directive;
use crate::value::EvaluationStage;

/// The changes to an auth request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSnippet {
    /// Headers that replace the client's; an empty value removes the header.
    pub fields: Vec<(Arc<str>, Template)>,
    /// `proxy_connect_timeout`.
    pub connect: Option<Duration>,
    /// `proxy_send_timeout`.
    pub send: Option<Duration>,
    /// `proxy_read_timeout`.
    pub read: Option<Duration>,
    /// Whether a header depends on how the client reached the proxy.
    pub depends_on_connection: bool,
}

/// Auth request headers that ingress-nginx sets: nginx would send a second one of the same name. In lower case.
const AUTH_REQUEST_HEADERS: [&str; 11] = [
    "content-length",
    "host",
    "x-auth-request-redirect",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-original-method",
    "x-original-url",
    "x-real-ip",
    "x-request-id",
    "x-sent-from",
    "proxy",
];

/// Translates the directives of an auth snippet.
///
/// # Errors
/// The first unsupported directive.
pub fn auth_snippet(directives: &[Directive], maps: &Maps) -> Result<AuthSnippet, Problem> {
    let mut question = AuthSnippet::default();
    let mut named = BTreeSet::new();
    let mut scope = Scope::new(maps, EvaluationStage::Path);
    for directive in directives {
        let problem = |reason: String| Problem::new(directive.line, &directive.text(), reason);
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        let timeout = match (directive.name.as_str(), &*words) {
            ("proxy_set_header", [name, value]) if directive.block.is_none() => {
                let lower = name.to_ascii_lowercase();
                check_set_header(name, value).map_err(problem)?;
                if AUTH_REQUEST_HEADERS.contains(&&*lower) || !named.insert(lower) {
                    return Err(problem(format!("{name} would be sent twice")));
                }
                question
                    .fields
                    .push(((*name).into(), auth_header_value(value, &mut scope).map_err(problem)?));
                continue;
            }
            ("proxy_connect_timeout", [_]) => &mut question.connect,
            ("proxy_send_timeout", [_]) => &mut question.send,
            ("proxy_read_timeout", [_]) => &mut question.read,
            _ => {
                let reason = "of an auth-snippet only proxy_set_header and proxy_*_timeout work";
                return Err(problem(reason.to_owned()));
            }
        };
        let time = words.first().and_then(|word| duration(word));
        let time = time.ok_or_else(|| problem("its time is not between 1 ms and an hour".to_owned()))?;
        if timeout.replace(time).is_some() {
            return Err(problem("nginx takes it once".to_owned()));
        }
    }
    question.depends_on_connection = scope.depends_on_connection;
    Ok(question)
}

/// A value that nginx evaluates in the auth request as in the original request.
fn auth_header_value(word: &str, scope: &mut Scope<'_>) -> Result<Template, String> {
    let mut valued = RequestCase::default().expand(word, scope)?;
    let value = match (valued.pop(), valued.is_empty()) {
        (Some((_, value)), true) => value,
        _ => return Err("its value depends on a map".to_owned()),
    };
    let is_other = |part: &TemplatePart| {
        matches!(
            part,
            TemplatePart::Path
                | TemplatePart::Query
                | TemplatePart::QueryMark
                | TemplatePart::Argument(_)
                | TemplatePart::RequestId
                | TemplatePart::Label(_)
        )
    };
    match value.0.iter().any(is_other) {
        true => Err("path, query and names are those of the question there; use $request_uri".to_owned()),
        false => Ok(value),
    }
}

/// An nginx time with one unit: `ms`, `s`, `m`, or seconds without a unit.
fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let millis = number.parse::<u64>().ok()?.checked_mul(match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        _ => return None,
    })?;
    (1..=3_600_000).contains(&millis).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_directives;

    fn parse_auth(text: &str) -> Result<AuthSnippet, Problem> {
        auth_snippet(&parse_directives("auth-snippet", text)?, &Maps::default())
    }

    #[test]
    fn fields_and_times_are_read() {
        let question = parse_auth(
            "proxy_set_header X-A \"a $request_uri\"; proxy_set_header Cookie ''; proxy_read_timeout 1500ms;",
        )
        .unwrap();
        assert_eq!(question.fields.len(), 2);
        assert_eq!(question.fields[1].1, Template::default());
        assert_eq!(question.read, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn rejects_values_that_nginx_evaluates_differently() {
        for wrong in [
            "proxy_set_header X-Original-URL a;",
            "proxy_set_header X-A a; proxy_set_header x-a b;",
            "proxy_set_header X-A $uri;",
            "proxy_set_header X-A $arg_a;",
            "proxy_set_header Connection close;",
            "proxy_read_timeout 0;",
            "proxy_read_timeout 5s; proxy_read_timeout 6s;",
            "proxy_read_timeout 5d;",
            "more_set_input_headers 'X-A: b';",
            "return 200;",
            "if ($http_a) { return 403; }",
        ] {
            assert!(parse_auth(wrong).is_err(), "{wrong}");
        }
    }
}
