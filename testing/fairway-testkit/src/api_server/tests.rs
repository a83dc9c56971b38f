//! What clients get on a socket, and what a test lets go wrong.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

fn object(name: &str, value: u32) -> Value {
    json!({ "metadata": { "namespace": "shop", "name": name }, "value": value })
}

async fn asked(server: &ListeningServer, target: &str, until: &str) -> String {
    sent(server, &format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"), until).await
}

async fn written(server: &ListeningServer, (method, target): (&str, &str), body: &Value) -> String {
    let body = body.to_string();
    let head = format!("{method} {target} HTTP/1.1\r\nhost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    sent(server, &(head + &body), "}").await
}

async fn sent(server: &ListeningServer, request: &str, until: &str) -> String {
    let config: Value = serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).expect("JSON");
    let address = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    while !text.contains(until) {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "it ended before {until:?}: {text}");
        text += std::str::from_utf8(&bytes[..count]).unwrap();
    }
    text
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server = ListeningServer::start().await;
    for (name, value) in [("a", 1), ("b", 2), ("c", 3), ("b", 4)] {
        server.put("things", object(name, value));
    }
    let first = asked(&server, "/api/v1/things?limit=2", "]}").await;
    assert!(first.contains("\"continue\":\"2\"") && first.contains("\"value\":4"), "{first}");
    let rest = asked(&server, "/api/v1/things?limit=2&continue=2", "]}").await;
    assert!(!rest.contains("\"continue\"") && rest.contains("\"name\":\"c\""), "{rest}");
    let one = asked(&server, "/api/v1/namespaces/shop/things?fieldSelector=metadata.name%3Da", "]}").await;
    assert!(one.contains("\"name\":\"a\"") && !one.contains("\"name\":\"b\""), "{one}");
}

#[tokio::test]
async fn a_watch_has_what_changed_after_its_list() {
    let server = ListeningServer::start().await;
    for (name, value) in [("old", 1), ("late", 2)] {
        server.put("things", object(name, value));
    }
    let text = asked(&server, "/api/v1/things?watch=true&resourceVersion=2", "\"value\":2").await;
    assert!(!text.contains("\"value\":1"), "{text}");
}

#[tokio::test]
async fn a_watch_has_what_is_there_and_what_comes() {
    let server = ListeningServer::start().await;
    server.put("things", object("a", 1));
    let watching = asked(&server, "/api/v1/things?watch=true&sendInitialEvents=true", "\"value\":7");
    let changing = async {
        // Until the watch is there, the change is part of what it begins with.
        server.put("things", object("a", 7));
    };
    let (seen, ()) = tokio::join!(watching, changing);
    assert!(seen.contains("\"type\":\"ADDED\"") || seen.contains("\"type\":\"MODIFIED\""), "{seen}");
}

#[tokio::test]
async fn objects_are_made_replaced_and_patched_at_the_version_that_they_have() {
    let (server, path) = (ListeningServer::start().await, "/apis/x/v1/namespaces/shop/things");
    let (one, status) = (format!("{path}/a"), format!("{path}/a/status"));
    let made = written(&server, ("POST", path), &object("a", 1)).await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let again = written(&server, ("POST", path), &object("a", 1)).await;
    assert!(again.contains("AlreadyExists"), "{again}");
    let late = json!({ "metadata": { "resourceVersion": "7" }, "status": 2 });
    assert!(written(&server, ("PUT", &status), &late).await.starts_with("HTTP/1.1 409"));
    let current = json!({ "metadata": { "resourceVersion": "2" }, "value": 9, "status": { "a": 2, "b": 3 } });
    assert!(written(&server, ("PUT", &status), &current).await.starts_with("HTTP/1.1 200"));
    let patch = json!({ "status": { "a": null } });
    assert!(written(&server, ("PATCH", &status), &patch).await.starts_with("HTTP/1.1 200"));
    let found = &server.objects("things")[0];
    assert_eq!((&found["value"], &found["status"]), (&json!(1), &json!({ "b": 3 })));
    assert!(asked(&server, &one, "}").await.starts_with("HTTP/1.1 200"));
    assert!(asked(&server, &format!("{path}/b"), "}").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn from_the_first_role_on_only_what_roles_allow_is_permitted() {
    let server = ListeningServer::start().await;
    server.put("things", object("a", 1));
    let rules = json!([
        { "apiGroups": ["x"], "resources": ["things"], "verbs": ["list", "watch"] },
        { "apiGroups": ["x"], "resources": ["things"], "resourceNames": ["a"], "verbs": ["get"] },
        { "apiGroups": ["x"], "resources": ["things/status"], "verbs": ["update"] },
    ]);
    server.grant(&json!({ "kind": "Role", "metadata": { "namespace": "shop" }, "rules": rules }));
    let path = "/apis/x/v1/namespaces/shop/things";
    let (one, status) = (format!("{path}/a"), format!("{path}/a/status"));
    for allowed in [path, &one, "/version"] {
        assert!(asked(&server, allowed, "}").await.starts_with("HTTP/1.1 200"), "{allowed}");
    }
    assert!(written(&server, ("PUT", &status), &json!({ "status": 1 })).await.starts_with("HTTP/1.1 200"));
    assert_eq!(server.refused(), [""; 0]);
    let refusals = [
        (
            "PATCH",
            &*status,
            "cannot patch resource \"things/status\" in API group \"x\" in the namespace \"shop\"",
        ),
        ("PUT", &one, "cannot update resource \"things\" in API group \"x\" in the namespace \"shop\""),
        ("GET", "/apis/x/v1/things", "cannot list resource \"things\" in API group \"x\""),
        (
            "GET",
            &format!("{path}/b"),
            "cannot get resource \"things\" in API group \"x\" in the namespace \"shop\"",
        ),
    ];
    for (method, path, _) in &refusals {
        assert!(written(&server, (method, path), &json!({})).await.starts_with("HTTP/1.1 403"), "{path}");
    }
    assert_eq!(server.refused(), refusals.map(|(_, _, refusal)| refusal));
}

async fn page(server: &ApiServer, method: &str, uri: &str) -> Page {
    match server.request(method, uri, b"").await.unwrap() {
        Answer::Page(page) => page,
        Answer::Watch(watch) => panic!("{watch:?}"),
    }
}

async fn watch(server: &ApiServer, uri: &str) -> Watch {
    match server.request("GET", uri, b"").await.unwrap() {
        Answer::Watch(watch) => watch,
        Answer::Page(page) => panic!("{page:?}"),
    }
}

/// The type of the next event, and the name of its object.
async fn event(watch: &mut Watch) -> (String, String) {
    let line: Value = serde_json::from_str(&watch.next().await.unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&line["type"]), text(&line["object"]["metadata"]["name"]))
}

fn is(change: &str, name: &str) -> (String, String) {
    (change.to_owned(), name.to_owned())
}

#[tokio::test]
async fn requests_fail_as_the_test_says_until_it_ends_that() {
    let server = ApiServer::new();
    server.put("things", object("a", 1));
    let (list, one) = ("/api/v1/namespaces/shop/things", "/api/v1/namespaces/shop/things/a");
    server.fail_times(2, Failure::Conflict, |request| request.method() == "DELETE");
    server.fail(Failure::Broken, |request| request.is_list() && request.resource() == "things");
    for status in [409, 409, 200] {
        assert_eq!(page(&server, "DELETE", one).await.status, status);
    }
    assert_eq!(page(&server, "GET", list).await.status, 500);
    assert_eq!(page(&server, "GET", "/api/v1/namespaces/shop/others").await.status, 200);
    server.heal();
    assert_eq!(page(&server, "GET", list).await.status, 200);
    server.fail(Failure::Forbidden, |request| request.namespace() == "shop");
    let refused = page(&server, "GET", list).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("cannot list resource \\\"things\\\""), "{}", refused.text);
    assert_eq!((server.requests("/things"), server.asked("DELETE", "/things/a")), (6, 3));
}

#[tokio::test(start_paused = true)]
async fn a_network_refuses_or_swallows_requests_and_a_watch_that_it_swallowed_stays_lost() {
    let server = ApiServer::new();
    let mut lost = watch(&server, "/api/v1/things?watch=true").await;
    server.set_network(Network::Refusing);
    assert!(server.request("GET", "/version", b"").await.is_err());
    server.set_network(Network::Silent);
    let limit = std::time::Duration::from_secs(3600);
    assert!(tokio::time::timeout(limit, server.request("GET", "/version", b"")).await.is_err());
    assert!(tokio::time::timeout(limit, lost.next()).await.is_err());
    server.set_network(Network::Up);
    server.put("things", object("a", 1));
    assert_eq!(page(&server, "GET", "/version").await.status, 200);
    assert!(tokio::time::timeout(limit, lost.next()).await.is_err());
    server.close_watches();
    assert_eq!(lost.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn watches_stall_close_and_learn_that_they_are_too_late() {
    let server = ApiServer::new();
    let mut stalled = watch(&server, "/api/v1/things?watch=true").await;
    server.stall_watches();
    let mut told = watch(&server, "/api/v1/things?watch=true").await;
    server.put("things", object("a", 1));
    assert_eq!(event(&mut told).await, is("ADDED", "a"));
    assert!(tokio::time::timeout(std::time::Duration::from_secs(3600), stalled.next()).await.is_err());
    server.forget_history();
    assert_eq!((stalled.next().await, told.next().await), (None, None));
    let mut late = watch(&server, "/api/v1/things?watch=true&resourceVersion=2").await;
    let line = late.next().await.unwrap();
    assert!(line.contains("\"ERROR\"") && line.contains("410"), "{line}");
}

#[tokio::test]
async fn an_object_that_leaves_what_a_watch_selects_is_deleted_for_it() {
    let server = ApiServer::new();
    let labelled = |name: &str, app: &str| json!({ "metadata": { "namespace": "shop", "name": name, "labels": { "app": app } } });
    let uri = "/api/v1/namespaces/shop/things?watch=true&labelSelector=app%3Dweb";
    let mut watch = watch(&server, uri).await;
    server.put("things", labelled("other", "else"));
    server.put("things", labelled("a", "web"));
    server.put("things", labelled("a", "else"));
    server.put("things", labelled("b", "web"));
    server.delete("things", "shop", "b");
    for (change, name) in [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("DELETED", "b")] {
        assert_eq!(event(&mut watch).await, is(change, name));
    }
}

#[tokio::test]
async fn custom_resources_are_there_while_they_are_defined() {
    let server = ApiServer::new();
    let pages = ["/apis/fairway.dev", "/apis/fairway.dev/v1", "/apis/fairway.dev/v1/things"];
    for path in pages {
        assert_eq!(page(&server, "GET", path).await.status, 404, "{path}");
    }
    server.define(POLICIES, &[("v1", "things"), ("v1", "others")]);
    for path in pages {
        assert_eq!(page(&server, "GET", path).await.status, 200, "{path}");
    }
    server.undefine(POLICIES, ("v1", "things"));
    assert_eq!(page(&server, "GET", pages[2]).await.status, 404);
    assert_eq!(page(&server, "GET", pages[1]).await.status, 200);
}
