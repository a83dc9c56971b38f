//! Header edits of requests and responses together: both follow the same rules.

use fairway_model::{HeaderEdit, HeaderField, Phases, RequestEdit, ResponseEdit};
use fairway_testkit::{Backend, BackendResponse, Request};

use super::{field, send, start_with_filters};
use crate::support::{HOST, Setup};

#[tokio::test]
async fn headers_are_removed_set_and_added_in_both_directions() {
    let edit = |remove: &str, set: HeaderField, add: HeaderField| HeaderEdit {
        remove: vec![remove.into()],
        set: vec![set],
        add: vec![add],
    };
    let (backend, proxy) = start_with_filters(vec![
        Phases::from(RequestEdit::Headers(edit("x-gone", field("X-Set", "new"), field("X-Add", "two")))),
        Phases::from(ResponseEdit::Headers(edit("x-backend", field("X-Set", "back"), field("X-Extra", "b")))),
        Phases::from(RequestEdit::Host("inner.example".into())),
    ])
    .await;
    let request =
        Request::get(HOST, "/").header("X-Gone", "1").header("X-Set", "old").header("x-set", "older");
    let response = send(&proxy, request.header("X-Add", "one")).await;
    assert_eq!((response.header("X-Backend"), response.header("X-Set")), (None, Some("back")));
    assert_eq!(response.header_values("X-Extra"), ["a", "b"]);
    let got = &backend.requests()[0];
    assert_eq!((got.header("X-Gone"), got.header_values("X-Set")), (None, vec!["new"]));
    assert_eq!((got.header_values("X-Add"), got.header("Host")), (vec!["one", "two"], Some("inner.example")));
}

#[tokio::test]
async fn connection_cannot_remove_headers_set_by_a_filter() {
    let edit = |name: &str| HeaderEdit { set: vec![field(name, "ours")], ..HeaderEdit::default() };
    let headers = [("Connection", "X-Frame-Options, X-Hop"), ("X-Frame-Options", "theirs"), ("X-Hop", "1")];
    let backend = Backend::http(move |_| BackendResponse::with_headers(200, &headers, "")).await;
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(RequestEdit::Headers(edit("X-Custom"))))
        .filter(Phases::from(ResponseEdit::Headers(edit("X-Frame-Options"))))
        .start();
    let request = Request::get(HOST, "/")
        .header("Connection", "X-Custom, X-Hop")
        .header("X-Custom", "theirs")
        .header("X-Hop", "1");
    let response = send(&proxy, request).await;
    let got = &backend.requests()[0];
    assert_eq!((got.header_values("X-Custom"), got.header("X-Hop")), (vec!["ours"], None));
    assert_eq!((response.header_values("X-Frame-Options"), response.header("X-Hop")), (vec!["ours"], None));
}

#[tokio::test]
async fn header_edits_cannot_change_where_a_message_ends() {
    let set: Vec<HeaderField> = [
        ("Content-Length", "3"),
        ("Transfer-Encoding", "gzip"),
        ("Connection", "X-End"),
        ("Upgrade", "h2c"),
        ("Trailer", "X-End"),
    ]
    .into_iter()
    .map(|(name, value)| field(name, value))
    .collect();
    let mut edit = HeaderEdit { set: set.clone(), add: set, remove: vec!["host".into()] };
    edit.set.push(field("X-End", "1"));
    let (backend, proxy) = start_with_filters(vec![
        Phases::from(RequestEdit::Headers(edit.clone())),
        Phases::from(ResponseEdit::Headers(edit)),
    ])
    .await;
    let mut client = proxy.client().await;
    for request in [Request::get(HOST, "/a"), Request::post(HOST, "/abcdef", "body")] {
        let response = client.exchange(&request).await.unwrap();
        assert!(response.text().starts_with("/a"), "{response:?}");
        assert_eq!(response.header_values("Content-Length"), [response.text().len().to_string()]);
        for name in ["Transfer-Encoding", "Connection", "Upgrade", "Trailer"] {
            assert_eq!(response.header(name), None, "{name}");
        }
        assert_eq!(response.header("X-End"), Some("1"));
    }
    for (got, length) in backend.requests().iter().zip([vec![], vec!["4"]]) {
        assert_eq!((got.header_values("Content-Length"), got.header("Host")), (length, Some(HOST)));
        for name in ["Transfer-Encoding", "Connection", "Upgrade", "Trailer"] {
            assert_eq!(got.header(name), None, "{name}");
        }
    }
}
