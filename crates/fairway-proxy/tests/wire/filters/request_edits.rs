//! Edits of requests, and the forwarded path.

use std::sync::Arc;

use fairway_model::{
    Forwarding, HeaderEdit, PathMatch, PathRewrite, Phases, RequestEdit, RuleLabel, TemplatePart, VirtualHost,
};
use fairway_testkit::{Backend, BackendResponse, Request};

use super::{field, fields, send, send_absolute_form, start_with_filters, text};
use crate::support::{HOST, Setup};

#[tokio::test]
async fn fields_with_parts_of_the_request_reach_the_endpoint_behind_all_others() {
    let set = fields(&[
        ("X-Fixed", vec![text("1")]),
        ("X-Real-IP", vec![text("in "), TemplatePart::Address]),
        ("X-Gone", Vec::new()),
        ("X-Empty", vec![TemplatePart::Cookie("none".into())]),
        ("X-Host", vec![TemplatePart::HttpHost, text(" "), TemplatePart::Host]),
        ("X-Id", vec![TemplatePart::RequestId]),
        ("X-Target", vec![TemplatePart::Path, TemplatePart::QueryMark, TemplatePart::Query]),
        ("X-Page", vec![TemplatePart::Argument("page".into())]),
        ("X-Told", vec![TemplatePart::Header("x_told_by".into())]),
        (
            "X-Rest",
            vec![TemplatePart::Protocol, text(" "), TemplatePart::Port, text(" "), TemplatePart::Method],
        ),
        (
            "X-Rule",
            vec![
                TemplatePart::Label(RuleLabel::Namespace),
                text("/"),
                TemplatePart::Label(RuleLabel::Ingress),
            ],
        ),
    ]);
    let (backend, proxy) = start_with_filters(vec![
        Phases::from(Forwarding { fields: Some(set), ..Forwarding::default() }),
        Phases::from(RequestEdit::Host("inner.example".into())),
    ])
    .await;
    let request = Request::get("Example.com:80", "/a%0Ab?Page=2&x=1")
        .header("X-Gone", "1")
        .header("X-Empty", "1")
        .header("X-Fixed", "2")
        .header("X-Told-By", "one")
        .header("X-Told-By", "two");
    send(&proxy, request).await;
    let got = &backend.requests()[0];
    for (name, values) in [
        ("X-Fixed", vec!["1"]),
        ("X-Real-IP", vec!["in 127.0.0.1"]),
        ("X-Gone", Vec::new()),
        ("X-Empty", Vec::new()),
        ("X-Host", vec!["Example.com:80 example.com"]),
        ("X-Id", got.header_values("X-Request-ID")),
        // A decoded line feed must not split a head.
        ("X-Target", vec!["/a b?Page=2&x=1"]),
        ("X-Page", vec!["2"]),
        ("X-Told", vec!["one, two"]),
        ("X-Rest", vec!["HTTP/1.1 80 GET"]),
        ("X-Rule", vec!["default/test"]),
        ("Host", vec!["inner.example"]),
    ] {
        assert_eq!(got.header_values(name), values, "{name}");
    }
    assert_eq!(got.header("X-Id").map(str::len), Some(32));
}

#[tokio::test]
async fn a_claim_that_a_filter_sets_reaches_the_endpoint_in_place_of_the_clients() {
    let edit = HeaderEdit {
        set: vec![field("X-Forwarded-User", "ours"), field("X-Forwarded-Prefix", "/ours")],
        ..HeaderEdit::default()
    };
    let (backend, proxy) = start_with_filters(vec![Phases::from(RequestEdit::Headers(edit))]).await;
    let request =
        Request::get(HOST, "/").header("X-Forwarded-User", "root").header("X-Forwarded-Prefix", "/theirs");
    send(&proxy, request).await;
    let got = &backend.requests()[0];
    assert_eq!(got.header_values("X-Forwarded-User"), ["ours"]);
    assert_eq!(got.header_values("X-Forwarded-Prefix"), ["/ours"]);
}

#[tokio::test]
async fn rewritten_paths_reach_the_endpoint_with_their_query() {
    let regex = |pattern: &str, replacement: &str| PathRewrite::Regex {
        pattern: pattern.into(),
        replacement: replacement.into(),
        ignore_case: true,
    };
    for (rewrite, target, forwarded) in [
        (PathRewrite::Full("/new".into()), "/api/a?b=c", "/new?b=c"),
        (PathRewrite::Prefix("/v2".into()), "/api/a?b=c", "/v2/a?b=c"),
        (regex("/api(/|$)(.*)", "/$2"), "/api/a/b?c=d", "/a/b?c=d"),
        (regex("/api/(.*)", "/$1?x=y"), "/api/a?b=c", "/a?x=y&b=c"),
        (regex("/other/(.*)", "/$1"), "/api/a?b=c", "/api/a?b=c"),
    ] {
        let backend = Backend::http(|request| BackendResponse::ok(&request.target)).await;
        let mut setup = Setup::to(&[backend.address()])
            .filter(Phases::from(Forwarding { path: Some(rewrite.clone()), ..Forwarding::default() }));
        setup.path = PathMatch::Prefix("/api".into());
        let proxy = setup.start();
        assert_eq!(send(&proxy, Request::get(HOST, target)).await.text(), forwarded, "{rewrite:?}");
    }
}

#[tokio::test]
async fn absolute_targets_without_a_path_are_rewritten_as_the_root() {
    let regex =
        PathRewrite::Regex { pattern: "/(.*)".into(), replacement: "/app/$1".into(), ignore_case: true };
    for (rewrite, target, forwarded) in [
        (Some(regex.clone()), "http://a.test", "/app/"),
        (Some(regex), "http://a.test?x", "/app/?x"),
        (None, "http://a.test?x", "/?x"),
    ] {
        let backend = Backend::http(|request| BackendResponse::ok(&request.target)).await;
        let mut setup = Setup::to(&[backend.address()])
            .policy(|policy| policy.forwarded_path = fairway_model::ForwardedPath::Normalised);
        setup
            .filters
            .extend(rewrite.map(|path| Forwarding { path: Some(path), ..Forwarding::default() }.into()));
        let proxy = setup.start();
        assert_eq!(send_absolute_form(&proxy, target).await.text(), forwarded, "{target}");
    }
}

#[tokio::test]
async fn a_part_of_the_path_is_the_prefix_that_the_endpoint_gets() {
    let backend =
        Backend::http(|request| BackendResponse::ok(request.header("X-Forwarded-Prefix").unwrap_or("none")))
            .await;
    let of_path = |replacement: &str| PathRewrite::Regex {
        pattern: "/(t[0-9]+)(/|$)(.*)".into(),
        replacement: replacement.into(),
        ignore_case: true,
    };
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(Forwarding { path: Some(of_path("/$3")), ..Forwarding::default() }))
        .filter(Phases::from(RequestEdit::ForwardedPrefix(of_path("/$1"))))
        .start();
    for (target, prefix) in
        [("/t7/a?b=c", "/t7"), ("/T8%0d%0a", "none"), ("/t9/%0d%0ax", "/t9"), ("/a", "none")]
    {
        let request = Request::get(HOST, target).header("X-Forwarded-Prefix", "/of-a-stranger");
        assert_eq!(send(&proxy, request).await.text(), prefix, "{target}");
    }
}

#[tokio::test]
async fn the_path_is_forwarded_normalised_or_as_received() {
    use fairway_model::ForwardedPath::{AsReceived, Normalised};
    let backend = Backend::http(|request| BackendResponse::ok(&request.target)).await;
    for (form, forwarded) in [(Normalised, "/a/c%2Fd~?q=%2e"), (AsReceived, "/a/./b/../c%2fd%7e?q=%2e")] {
        let proxy = Setup::to(&[backend.address()]).policy(|policy| policy.forwarded_path = form).start();
        let response = send(&proxy, Request::get(HOST, "/a/./b/../c%2fd%7e?q=%2e")).await;
        assert_eq!(response.text(), forwarded, "{form:?}");
    }
}

/// An Ingress matches the decoded path, as nginx does: an escaped slash that took part in the match must not become escaped
/// again.
#[tokio::test]
async fn a_normalised_path_never_leads_past_the_rule_that_matched() {
    use fairway_model::PathForm::{Decoded, Normalised};
    for (target, of_ingress, of_route) in [
        ("/public/a%2Fb", Some("/public/a%2Fb"), Some("/public/a%2Fb")),
        ("/public/%5c%3B;c%7e?%2F..", Some("/public/%5C%3B;c~?%2F.."), Some("/public/%5C%3B;c~?%2F..")),
        ("/admin%2F..%2Fpublic", Some("/public"), None),
        ("/admin%2F%2e%2E%2Fpublic?a=%2F", Some("/public?a=%2F"), None),
        ("/admin%2f..%2fpublic/%3Fx%25%5C/", Some("/public/%3Fx%25%5C/"), None),
        ("/admin/..%2Fpublic", Some("/public"), None),
        ("/%2Fpublic", Some("/public"), None),
        ("/public%2F%2Fa", Some("/public/a"), None),
        ("/public%2F.%2Fa%2Fb", Some("/public/a/b"), None),
        ("/admin/%2e%2e/public//a", Some("/public/a"), Some("/public/a")),
        ("/public/..;/admin", Some("/public/..;/admin"), Some("/public/..;/admin")),
        ("/public/%252e%252e/admin", Some("/public/%252e%252e/admin"), Some("/public/%252e%252e/admin")),
        ("/public/..%5Cadmin", Some("/public/..%5Cadmin"), Some("/public/..%5Cadmin")),
        ("/public/%2e%2e/admin", None, None),
        ("/public/..%2Fadmin", None, Some("/public/..%2Fadmin")),
    ] {
        let backend = Backend::http(|request| BackendResponse::ok(&request.target)).await;
        let mut setup = Setup::to(&[backend.address()])
            .policy(|policy| policy.forwarded_path = fairway_model::ForwardedPath::Normalised);
        setup.path = PathMatch::Prefix("/public".into());
        for (form, forwarded) in [(Decoded, of_ingress), (Normalised, of_route)] {
            let mut config = setup.config();
            config.hosts = config
                .hosts
                .iter()
                .map(|(key, host)| {
                    let host = VirtualHost { path_form: form, ..VirtualHost::clone(host) };
                    (key.clone(), Arc::new(host))
                })
                .collect();
            let response = send(&setup.start_by(&config), Request::get(HOST, target)).await;
            let found = (response.status == 200).then(|| response.text());
            assert_eq!(found.as_deref(), forwarded, "{target} {form:?}");
        }
        let nul = send(&setup.start(), Request::get(HOST, "/public/%00")).await;
        assert_eq!(nul.status, 400);
    }
}
