//! Tests of responses on a socket. The tests of fairway-cluster cover the injected faults.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

fn object(name: &str, value: u32) -> Value {
    json!({ "metadata": { "namespace": "shop", "name": name }, "value": value })
}

async fn read_until(server: &ListeningServer, target: &str, until: &str) -> String {
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
    let first = read_until(&server, "/api/v1/things?limit=2", "]}").await;
    assert!(first.contains("\"continue\":\"2\"") && first.contains("\"value\":4"), "{first}");
    let rest = read_until(&server, "/api/v1/things?limit=2&continue=2", "]}").await;
    assert!(!rest.contains("\"continue\"") && rest.contains("\"name\":\"c\""), "{rest}");
    let first_page =
        read_until(&server, "/api/v1/namespaces/shop/things?fieldSelector=metadata.name%3Da", "]}").await;
    assert!(first_page.contains("\"name\":\"a\"") && !first_page.contains("\"name\":\"b\""), "{first_page}");
}

#[tokio::test]
async fn a_watch_reports_changes_after_its_list() {
    let server = ListeningServer::start().await;
    for (name, value) in [("old", 1), ("late", 2)] {
        server.put("things", object(name, value));
    }
    let text = read_until(&server, "/api/v1/things?watch=true&resourceVersion=2", "\"value\":2").await;
    assert!(!text.contains("\"value\":1"), "{text}");
}

#[tokio::test]
async fn objects_are_made_replaced_and_patched_at_the_version_that_they_have() {
    let (server, path) = (ListeningServer::start().await, "/apis/x/v1/namespaces/shop/things");
    let (one, status) = (format!("{path}/a"), format!("{path}/a/status"));
    let created = written(&server, ("POST", path), &object("a", 1)).await;
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
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
    assert!(read_until(&server, &one, "}").await.starts_with("HTTP/1.1 200"));
    assert!(read_until(&server, &format!("{path}/b"), "}").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn once_a_role_exists_only_permitted_requests_are_allowed() {
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
        assert!(read_until(&server, allowed, "}").await.starts_with("HTTP/1.1 200"), "{allowed}");
    }
    assert!(written(&server, ("PUT", &status), &json!({ "status": 1 })).await.starts_with("HTTP/1.1 200"));
    assert_eq!(server.denied_requests(), [""; 0]);
    let scope = "in API group \"x\" in the namespace \"shop\"";
    let refusals = [
        ("PATCH", &*status, format!("cannot patch resource \"things/status\" {scope}")),
        ("PUT", &one, format!("cannot update resource \"things\" {scope}")),
        ("GET", "/apis/x/v1/things", "cannot list resource \"things\" in API group \"x\"".to_owned()),
        ("GET", &format!("{path}/b"), format!("cannot get resource \"things\" {scope}")),
    ];
    for (method, path, _) in &refusals {
        assert!(written(&server, (method, path), &json!({})).await.starts_with("HTTP/1.1 403"), "{path}");
    }
    assert_eq!(server.denied_requests(), refusals.map(|(_, _, refusal)| refusal));
}
