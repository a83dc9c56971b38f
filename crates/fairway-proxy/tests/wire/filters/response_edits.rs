//! Edits of endpoints' responses, and of all responses of a rule.

use fairway_model::{
    AccessList, CookieRewrite, Guard, HeaderEdit, LocationRewrite, Phases, Replacement, ResponseContent,
    ResponseEdit, Template, TemplatePart, UpstreamResponseEdit,
};
use fairway_testkit::{Backend, BackendResponse, Request};

use super::{field, fields, respond, send, send_tls, start_with_filters, text};
use crate::support::{HOST, Setup};

#[tokio::test]
async fn cookies_and_redirects_of_the_endpoint_get_the_names_that_the_client_knows() {
    let replacement = |from: &str, to: &str| Replacement { from: from.into(), to: to.into() };
    let cookies = CookieRewrite {
        domain: Some(replacement("inner.test", "outer.test")),
        path: Some(replacement("/", "/app/")),
    };
    let backend = Backend::http(|request| match &*request.target {
        "/cookies" => BackendResponse::with_headers(
            200,
            &[
                ("Set-Cookie", "a=b; Path=/; Domain=inner.test"),
                ("Set-Cookie", "c=d"),
                ("X-Cookie", "Path=/"),
            ],
            "",
        ),
        "/refresh" => BackendResponse::with_headers(200, &[("Refresh", "3; URL=http://inner.test/x")], ""),
        "/elsewhere" => BackendResponse::with_headers(302, &[("Location", "http://third.test/x")], ""),
        _ => BackendResponse::with_headers(302, &[("Location", "http://inner.test/x?y")], ""),
    })
    .await;
    for (to, absolute, location) in [
        ("https://outer.test/", true, "https://outer.test/x?y"),
        ("/sub/", true, "http://example.com/sub/x?y"),
        ("/sub/", false, "/sub/x?y"),
    ] {
        let url = replacement("http://inner.test/", to);
        let mut setup = Setup::to(&[backend.address()]);
        setup.filters = vec![
            Phases::from(UpstreamResponseEdit::Cookies(cookies.clone())),
            Phases::from(UpstreamResponseEdit::Location(LocationRewrite { url, absolute })),
        ];
        let proxy = setup.start();
        let response = send(&proxy, Request::get(HOST, "/")).await;
        assert_eq!((response.status, response.header("Location")), (302, Some(location)));
        let response = send(&proxy, Request::get(HOST, "/elsewhere")).await;
        assert_eq!(response.header("Location"), Some("http://third.test/x"));
        let response = send(&proxy, Request::get(HOST, "/refresh")).await;
        assert_eq!(response.header("Refresh"), Some(&*format!("3; URL={to}x")));
        let response = send(&proxy, Request::get(HOST, "/cookies")).await;
        assert_eq!(response.header_values("Set-Cookie"), ["a=b; Path=/app/; Domain=outer.test", "c=d"]);
        assert_eq!(response.header("X-Cookie"), Some("Path=/"));
    }
}

#[tokio::test]
async fn headers_with_request_parts_are_in_every_response_and_rules_take_precedence() {
    let set = || {
        Phases::from(ResponseEdit::Fields(fields(&[
            ("X-Set", vec![text("all")]),
            ("X-Extra", vec![TemplatePart::Path]),
            ("X-Backend", Vec::new()),
            ("X-Id", vec![TemplatePart::RequestId]),
        ])))
    };
    let edit = HeaderEdit { set: vec![field("X-Set", "own")], ..HeaderEdit::default() };
    let (backend, proxy) = start_with_filters(vec![set(), Phases::from(ResponseEdit::Headers(edit))]).await;
    let response = send(&proxy, Request::get(HOST, "/a?b")).await;
    assert_eq!((response.header("X-Set"), response.header("X-Backend")), (Some("own"), None));
    assert_eq!(response.header_values("X-Extra"), ["/a"]);
    assert_eq!(response.header("X-Id"), backend.requests()[0].header("X-Request-ID"));
    // The body is another buffer's.
    let refused = Phases::from(Guard::Access(AccessList {
        deny: vec!["127.0.0.0/8".parse().unwrap()],
        allow: Vec::new(),
    }));
    let (_backend, closed) = start_with_filters(vec![set(), refused]).await;
    let response = send(&closed, Request::get(HOST, "/c")).await;
    assert_eq!((response.status, response.header("X-Extra")), (403, Some("/c")));
    assert!(response.text().starts_with("403 Forbidden"), "{}", response.text());
    assert_eq!(response.header("X-Id").map(str::len), Some(32), "a number of its own");
}

#[tokio::test]
async fn hidden_headers_are_removed_from_responses_of_endpoints_only() {
    let hidden = || Phases::from(UpstreamResponseEdit::Hide(["x-backend", "x-extra"].map(Into::into).into()));
    let edit = HeaderEdit { set: vec![field("X-Extra", "own")], ..HeaderEdit::default() };
    let (_backend, proxy) =
        start_with_filters(vec![hidden(), Phases::from(ResponseEdit::Headers(edit))]).await;
    let response = send(&proxy, Request::get(HOST, "/")).await;
    assert_eq!((response.header("X-Backend"), response.header("X-Extra")), (None, Some("own")));
}

#[tokio::test]
async fn header_edits_apply_to_local_responses() {
    let edit = HeaderEdit { set: vec![field("X-Frame-Options", "DENY")], ..HeaderEdit::default() };
    let mut setup = Setup::to(&[]);
    setup.filters = vec![Phases::from(ResponseEdit::Headers(edit))];
    let proxy = setup.start();
    let response = send(&proxy, Request::get(HOST, "/")).await;
    assert_eq!((response.status, response.header("X-Frame-Options")), (503, Some("DENY")));
}

#[tokio::test]
async fn strict_transport_security_is_for_tls_only() {
    let (_backend, proxy) = start_with_filters(vec![Phases::from(ResponseEdit::StrictTransportSecurity(
        "max-age=31536000".into(),
    ))])
    .await;
    assert_eq!(send(&proxy, Request::get(HOST, "/")).await.header("Strict-Transport-Security"), None);
    let secured = send_tls(&proxy, Request::get(HOST, "/")).await;
    assert_eq!(secured.header("Strict-Transport-Security"), Some("max-age=31536000"));
}

#[tokio::test]
async fn a_location_made_of_the_path_has_no_control_characters() {
    let rewritten = |replacement: &str| ResponseContent::Rewritten {
        pattern: "(?s)^/(.*)$".into(),
        ignore_case: false,
        replacement: replacement.into(),
    };
    let path = || ResponseContent::Location(Template(vec![text("http://x"), TemplatePart::Path]));
    for (content, target, location) in [
        (rewritten("http://x/$1"), "/%0d%0aSet-Cookie:%20a=b", "http://x/%0D%0ASet-Cookie:%20a=b"),
        (rewritten("http://x?a=$1"), "/%0d%0aSet-Cookie:%20a=b", "http://x?a=%0D%0ASet-Cookie:%20a=b"),
        (rewritten("http://x/$1"), "/%01%09%1f%7f", "http://x/%01%09%1F%7F"),
        (rewritten("http://x/%0d%0a%$1"), "/%30ay", "http://x/%0d%0a%0ay"),
        (rewritten("http://x/\r\n\u{1}$1"), "/a", "http://x/%0D%0A%01a"),
        // In nginx a client could start a header of its own here.
        (path(), "/%0d%0aSet-Cookie:%20a=b", "http://x/%0D%0ASet-Cookie: a=b"),
        (path(), "/%01%09%1f%7f", "http://x/%01%09%1F%7F"),
    ] {
        let (_backend, proxy) = start_with_filters(vec![respond(Vec::new(), 301, content)]).await;
        let response = send(&proxy, Request::get(HOST, target)).await;
        assert_eq!((response.status, response.header("Location")), (301, Some(location)), "{target}");
        assert_eq!(response.header("Set-Cookie"), None);
    }
}
