//! Translates matches of HTTPRoutes and GRPCRoutes. Regular expressions are limited by cost per route.

use std::sync::Arc;

use fairway_model::{Match, NamedValueMatch, PathMatch, TextMatch};
use fairway_objects::gateway_api::{GrpcMethodMatch, GrpcRouteMatch, HttpRouteMatch, TypedValue, ValueMatch};
use fairway_pattern::budget::Account;
use fairway_pattern::{Anchor, Pattern};

use crate::condition::Fault;

/// Translates a match of an HTTPRoute.
pub(crate) fn http_match(route_match: &HttpRouteMatch, account: &mut Account) -> Result<Match, Fault> {
    Ok(Match {
        path: http_path(route_match.path.as_ref(), account)?,
        method: route_match.method.as_deref().map(method).transpose()?,
        headers: value_matches(&route_match.headers, &str::to_ascii_lowercase, account)?,
        query: value_matches(&route_match.query_params, &str::to_owned, account)?,
        ..Match::default()
    })
}

/// Translates a match of a GRPCRoute.
pub(crate) fn grpc_match(route_match: &GrpcRouteMatch, account: &mut Account) -> Result<Match, Fault> {
    let names_a_service = |it: &GrpcMethodMatch| it.service.as_deref().is_some_and(|it| !it.is_empty());
    Ok(Match {
        path: route_match
            .method
            .as_ref()
            .map_or_else(|| Ok(PathMatch::default()), |it| grpc_path(it, account))?,
        headers: value_matches(&route_match.headers, &str::to_ascii_lowercase, account)?,
        after_prefixes: route_match.method.as_ref().is_some_and(|it| !names_a_service(it)),
        ..Match::default()
    })
}

/// Gateway API `HTTPMethod`; RFC 9110 §9.3, RFC 5789.
fn method(name: &str) -> Result<Arc<str>, Fault> {
    const METHODS: &[&str] =
        &["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
    match METHODS.contains(&name) {
        true => Ok(name.into()),
        false => Err(unsupported(format!("the method {name} is not known"))),
    }
}

fn http_path(path: Option<&TypedValue>, account: &mut Account) -> Result<PathMatch, Fault> {
    let value = path.and_then(|path| path.value.as_deref()).unwrap_or("/");
    let kind = path.and_then(|path| path.type_.as_deref()).unwrap_or("PathPrefix");
    if kind != "RegularExpression" && !value.starts_with('/') {
        return Err(unsupported(format!("the path \"{value}\" does not begin with a slash")));
    }
    match kind {
        "Exact" => Ok(PathMatch::Exact(value.into())),
        "PathPrefix" => Ok(PathMatch::Prefix(prefix(value).into())),
        "RegularExpression" => regex_path(&format!("(?:{value})$"), value, account),
        other => Err(unsupported(format!("the path match type {other} is not known"))),
    }
}

/// A trailing slash is ignored (Gateway API `PathMatchPathPrefix`).
fn prefix(value: &str) -> &str {
    match value.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    }
}

/// gRPC over HTTP/2, "Requests": the path is `/service/method`.
fn grpc_path(method_match: &GrpcMethodMatch, account: &mut Account) -> Result<PathMatch, Fault> {
    let part = |part: &Option<String>| part.clone().filter(|part| !part.is_empty());
    let (service, method) = (part(&method_match.service), part(&method_match.method));
    match (method_match.type_.as_deref().unwrap_or("Exact"), service, method) {
        (_, None, None) => Ok(PathMatch::default()),
        ("Exact", Some(service), Some(method)) => Ok(PathMatch::Exact(format!("/{service}/{method}").into())),
        ("Exact", Some(service), None) => Ok(PathMatch::Prefix(format!("/{service}").into())),
        ("Exact", None, Some(method)) => {
            regex_path(&format!("/[^/]+/{}$", escape_regex(&method)), &method, account)
        }
        ("RegularExpression", service, method) => {
            let written =
                format!("{}/{}", service.as_deref().unwrap_or("*"), method.as_deref().unwrap_or("*"));
            let part = |part: Option<String>| part.map_or("[^/]+".to_owned(), |part| format!("(?:{part})"));
            regex_path(&format!("/{}/{}$", part(service), part(method)), &written, account)
        }
        (other, _, _) => Err(unsupported(format!("the method match type {other} is not known"))),
    }
}

/// A regular expression for literal text.
fn escape_regex(text: &str) -> String {
    let escape = |c: char| {
        let plain = c.is_ascii_alphanumeric() || c == '_';
        (!plain).then_some('\\').into_iter().chain([c])
    };
    text.chars().flat_map(escape).collect()
}

fn regex_path(pattern: &str, written: &str, account: &mut Account) -> Result<PathMatch, Fault> {
    check_pattern(pattern, written, Anchor::Start, account)?;
    Ok(PathMatch::Regex { pattern: pattern.into(), ignore_case: false })
}

/// Of several entries with one name, the first counts (Gateway API `HTTPHeaderMatch`, `HTTPQueryParamMatch`).
fn value_matches(
    entries: &[ValueMatch],
    named: &dyn Fn(&str) -> String,
    account: &mut Account,
) -> Result<Vec<NamedValueMatch>, Fault> {
    let mut fields: Vec<NamedValueMatch> = Vec::with_capacity(entries.len());
    for it in entries {
        let name: Arc<str> = named(&it.name).into();
        if fields.iter().any(|before| before.name == name) {
            continue;
        }
        let value = match it.type_.as_deref().unwrap_or("Exact") {
            "Exact" => TextMatch::Exact(it.value.as_str().into()),
            "RegularExpression" => {
                check_pattern(&it.value, &it.value, Anchor::Both, account)?;
                TextMatch::Regex(it.value.as_str().into())
            }
            other => return Err(unsupported(format!("the match type {other} is not known"))),
        };
        fields.push(NamedValueMatch { name, value });
    }
    Ok(fields)
}

fn check_pattern(pattern: &str, written: &str, anchor: Anchor, account: &mut Account) -> Result<(), Fault> {
    match Pattern::shared(pattern, anchor, false) {
        Err(refusal) => {
            account.refused(refusal.work());
            Err(unsupported(format!("the regular expression \"{written}\" {refusal}")))
        }
        Ok(compiled) => account.admit(compiled.cost()).map_err(|exceeded| {
            unsupported(format!("the regular expression \"{written}\" cannot be used: {exceeded}"))
        }),
    }
}

fn unsupported(problem: String) -> Fault {
    Fault::new("UnsupportedValue", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(kind: &str, value: &str) -> Result<PathMatch, Fault> {
        let header = TypedValue { type_: Some(kind.into()), value: Some(value.into()) };
        http_path(Some(&header), &mut Account::default())
    }

    #[test]
    fn a_prefix_has_no_trailing_slash() {
        assert_eq!(path("PathPrefix", "/a/"), Ok(PathMatch::Prefix("/a".into())));
        assert_eq!(path("PathPrefix", "/"), Ok(PathMatch::Prefix("/".into())));
        assert_eq!(path("Exact", "/a/"), Ok(PathMatch::Exact("/a/".into())));
    }

    #[test]
    fn rejects_unsupported_matches() {
        for (kind, value) in [("Glob", "/a"), ("PathPrefix", "a"), ("RegularExpression", "/(a")] {
            assert_eq!(path(kind, value).unwrap_err().reason, "UnsupportedValue", "{kind} {value}");
        }
    }

    #[test]
    fn an_unknown_method_is_refused() {
        let converted = |method: &str| {
            let route_match = HttpRouteMatch { method: Some(method.into()), ..HttpRouteMatch::default() };
            http_match(&route_match, &mut Account::default())
        };
        assert_eq!(converted("PATCH").unwrap().method.as_deref(), Some("PATCH"));
        for unknown in ["", "get", "PURGE"] {
            assert_eq!(converted(unknown).unwrap_err().reason, "UnsupportedValue", "{unknown}");
        }
    }

    #[test]
    fn only_grpc_methods_without_service_follow_prefixes() {
        for (service, method, after) in
            [(None, Some("Ping"), true), (Some(""), Some("Ping"), true), (Some("shop.Cart"), None, false)]
        {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let method = GrpcMethodMatch { type_: None, service: text(service), method: text(method) };
            let route_match = GrpcRouteMatch { method: Some(method), ..GrpcRouteMatch::default() };
            let found = grpc_match(&route_match, &mut Account::default()).unwrap();
            assert_eq!(found.after_prefixes, after, "{service:?}");
        }
    }

    #[test]
    fn methods_of_grpc_are_paths() {
        let converted = |kind: &str, service: &str, method: &str| {
            let it = GrpcMethodMatch {
                type_: Some(kind.into()),
                service: Some(service.into()),
                method: Some(method.into()),
            };
            grpc_path(&it, &mut Account::default()).unwrap()
        };
        let regex = |pattern: &str| PathMatch::Regex { pattern: pattern.into(), ignore_case: false };
        assert_eq!(converted("Exact", "shop.Cart", "Add"), PathMatch::Exact("/shop.Cart/Add".into()));
        assert_eq!(converted("Exact", "shop.Cart", ""), PathMatch::Prefix("/shop.Cart".into()));
        assert_eq!(converted("Exact", "", "Add.x"), regex(r"/[^/]+/Add\.x$"));
        assert_eq!(converted("RegularExpression", "shop|web", ""), regex("/(?:shop|web)/[^/]+$"));
        assert_eq!(converted("Exact", "", ""), PathMatch::Prefix("/".into()));
    }

    #[test]
    fn the_first_of_equal_names_counts() {
        let value_match =
            |name: &str, value: &str| ValueMatch { name: name.into(), value: value.into(), type_: None };
        let all = [value_match("X-A", "1"), value_match("x-a", "2")];
        let found = value_matches(&all, &str::to_ascii_lowercase, &mut Account::default()).unwrap();
        assert_eq!(found, [NamedValueMatch { name: "x-a".into(), value: TextMatch::Exact("1".into()) }]);
    }
}
