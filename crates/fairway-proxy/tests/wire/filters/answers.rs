//! What clients get: edits of the responses of endpoints, and of all responses of a rule.

use fairway_model::{
    AccessList, AnswerEdit, Content, CookieRewrite, Guard, HeaderEdit, LocationRewrite, Phases, ReceivedEdit,
    Replacement, Template, TemplatePart,
};
use fairway_testkit::{Answer, Backend, Request};

use super::{ask, ask_tls, behind, field, fields, respond, text};
use crate::support::{HOST, Setup};

#[tokio::test]
async fn cookies_and_redirects_of_the_endpoint_get_the_names_that_the_client_knows() {
    let replacement = |from: &str, to: &str| Replacement { from: from.into(), to: to.into() };
    let cookies = CookieRewrite {
        domain: Some(replacement("inner.test", "outer.test")),
        path: Some(replacement("/", "/app/")),
    };
    let backend = Backend::http(|request| match &*request.target {
        "/cookies" => Answer::with_headers(
            200,
            &[
                ("Set-Cookie", "a=b; Path=/; Domain=inner.test"),
                ("Set-Cookie", "c=d"),
                ("X-Cookie", "Path=/"),
            ],
            "",
        ),
        "/refresh" => Answer::with_headers(200, &[("Refresh", "3; URL=http://inner.test/x")], ""),
        "/elsewhere" => Answer::with_headers(302, &[("Location", "http://third.test/x")], ""),
        _ => Answer::with_headers(302, &[("Location", "http://inner.test/x?y")], ""),
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
            Phases::from(ReceivedEdit::Cookies(cookies.clone())),
            Phases::from(ReceivedEdit::Location(LocationRewrite { url, absolute })),
        ];
        let proxy = setup.start();
        let answer = ask(&proxy, Request::get(HOST, "/")).await;
        assert_eq!((answer.status, answer.header("Location")), (302, Some(location)));
        let answer = ask(&proxy, Request::get(HOST, "/elsewhere")).await;
        assert_eq!(answer.header("Location"), Some("http://third.test/x"));
        let answer = ask(&proxy, Request::get(HOST, "/refresh")).await;
        assert_eq!(answer.header("Refresh"), Some(&*format!("3; URL={to}x")));
        let answer = ask(&proxy, Request::get(HOST, "/cookies")).await;
        assert_eq!(answer.header_values("Set-Cookie"), ["a=b; Path=/app/; Domain=outer.test", "c=d"]);
        assert_eq!(answer.header("X-Cookie"), Some("Path=/"));
    }
}

#[tokio::test]
async fn fields_with_parts_of_the_request_are_in_every_answer_and_rules_go_before() {
    let set = || {
        Phases::from(AnswerEdit::Fields(fields(&[
            ("X-Set", vec![text("all")]),
            ("X-Extra", vec![TemplatePart::Path]),
            ("X-Backend", Vec::new()),
            ("X-Id", vec![TemplatePart::RequestId]),
        ])))
    };
    let own = HeaderEdit { set: vec![field("X-Set", "own")], ..HeaderEdit::default() };
    let (backend, proxy) = behind(vec![set(), Phases::from(AnswerEdit::Headers(own))]).await;
    let answer = ask(&proxy, Request::get(HOST, "/a?b")).await;
    assert_eq!((answer.header("X-Set"), answer.header("X-Backend")), (Some("own"), None));
    assert_eq!(answer.header_values("X-Extra"), ["/a"]);
    assert_eq!(answer.header("X-Id"), backend.requests()[0].header("X-Request-ID"));
    // The body is another buffer's.
    let refused = Phases::from(Guard::Access(AccessList {
        deny: vec!["127.0.0.0/8".parse().unwrap()],
        allow: Vec::new(),
    }));
    let (_backend, closed) = behind(vec![set(), refused]).await;
    let answer = ask(&closed, Request::get(HOST, "/c")).await;
    assert_eq!((answer.status, answer.header("X-Extra")), (403, Some("/c")));
    assert!(answer.text().starts_with("403 Forbidden"), "{}", answer.text());
    assert_eq!(answer.header("X-Id").map(str::len), Some(32), "a number of its own");
}

#[tokio::test]
async fn hidden_fields_are_those_of_endpoints_alone() {
    let hidden = || Phases::from(ReceivedEdit::Hide(["x-backend", "x-extra"].map(Into::into).into()));
    let own = HeaderEdit { set: vec![field("X-Extra", "own")], ..HeaderEdit::default() };
    let (_backend, proxy) = behind(vec![hidden(), Phases::from(AnswerEdit::Headers(own))]).await;
    let answer = ask(&proxy, Request::get(HOST, "/")).await;
    assert_eq!((answer.header("X-Backend"), answer.header("X-Extra")), (None, Some("own")));
}

#[tokio::test]
async fn header_edits_apply_to_answers_that_the_proxy_makes() {
    let edit = HeaderEdit { set: vec![field("X-Frame-Options", "DENY")], ..HeaderEdit::default() };
    let mut setup = Setup::to(&[]);
    setup.filters = vec![Phases::from(AnswerEdit::Headers(edit))];
    let proxy = setup.start();
    let answer = ask(&proxy, Request::get(HOST, "/")).await;
    assert_eq!((answer.status, answer.header("X-Frame-Options")), (503, Some("DENY")));
}

#[tokio::test]
async fn strict_transport_security_is_for_tls_only() {
    let (_backend, proxy) =
        behind(vec![Phases::from(AnswerEdit::StrictTransportSecurity("max-age=31536000".into()))]).await;
    assert_eq!(ask(&proxy, Request::get(HOST, "/")).await.header("Strict-Transport-Security"), None);
    let secured = ask_tls(&proxy, Request::get(HOST, "/")).await;
    assert_eq!(secured.header("Strict-Transport-Security"), Some("max-age=31536000"));
}

#[tokio::test]
async fn a_location_made_of_the_path_has_no_control_characters() {
    let rewritten = |replacement: &str| Content::Rewritten {
        pattern: "(?s)^/(.*)$".into(),
        ignore_case: false,
        replacement: replacement.into(),
    };
    let path = || Content::Location(Template(vec![text("http://x"), TemplatePart::Path]));
    for (content, target, location) in [
        (rewritten("http://x/$1"), "/%0d%0aSet-Cookie:%20a=b", "http://x/%0D%0ASet-Cookie:%20a=b"),
        (rewritten("http://x?a=$1"), "/%0d%0aSet-Cookie:%20a=b", "http://x?a=%0D%0ASet-Cookie:%20a=b"),
        (rewritten("http://x/$1"), "/%01%09%1f%7f", "http://x/%01%09%1F%7F"),
        (rewritten("http://x/%0d%0a%$1"), "/%30ay", "http://x/%0d%0a%0ay"),
        (rewritten("http://x/\r\n\u{1}$1"), "/a", "http://x/%0D%0A%01a"),
        // Here nginx would let the client begin a header of its own.
        (path(), "/%0d%0aSet-Cookie:%20a=b", "http://x/%0D%0ASet-Cookie: a=b"),
        (path(), "/%01%09%1f%7f", "http://x/%01%09%1F%7F"),
    ] {
        let (_backend, proxy) = behind(vec![respond(Vec::new(), 301, content)]).await;
        let answer = ask(&proxy, Request::get(HOST, target)).await;
        assert_eq!((answer.status, answer.header("Location")), (301, Some(location)), "{target}");
        assert_eq!(answer.header("Set-Cookie"), None);
    }
}
