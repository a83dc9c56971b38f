//! gRPC-Web of browsers with the annotations that a user writes: a preflight request, then calls in both forms. The gRPC server,
//! which accepts only HTTP/2, is a second Fairway in front of a scripted backend.

use std::path::Path;

use fairway_testkit::backend::{Backend, RecordedRequest};
use fairway_testkit::client::{Client, RawResponse, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;

/// A message of two bytes in gRPC framing, and the same in base64.
const MESSAGE: &[u8] = b"\0\0\0\0\x02ab";
const MESSAGE_TEXT: &str = "AAAAAAJhYg==";
const TRAILERS: &[u8] = b"\x80\0\0\0\x24grpc-status: 0\r\ngrpc-message: fine\r\n";

/// The message followed by trailers.
fn echo(request: &RecordedRequest) -> Vec<u8> {
    let content_type = request.header("content-type").unwrap_or_default();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let size = format!("{:x}\r\n", request.body.len());
    let end = b"\r\n0\r\ngrpc-status: 0\r\ngrpc-message: fine\r\n\r\n";
    [head.as_bytes(), size.as_bytes(), &request.body, end].concat()
}

async fn fairway(ingress: Ingress, endpoint: std::net::SocketAddr) -> (Fairway, Manifests) {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[endpoint]));
    manifests.put("web.yaml", ingress.class(Some("fairway")).route("a.test", "/", ("web", 80)).yaml());
    let flags = ["--workers", "1", "--access-log", "off"];
    let fairway = Fairway::ready(Path::new(env!("CARGO_BIN_EXE_fairway")), manifests.path(), &flags).await;
    (fairway, manifests)
}

async fn send_request(fairway: &Fairway, request: Request) -> RawResponse {
    let mut client = Client::connect(fairway.http).await.unwrap();
    let origin = request.header("Origin", "https://app.test").close();
    client.exchange(&origin).await.unwrap()
}

fn call(content_type: &str, body: &[u8]) -> Request {
    Request::post("a.test", "/a.B/C", body).header("Content-Type", content_type).header("X-Grpc-Web", "1")
}

#[tokio::test]
async fn a_browser_calls_a_grpc_backend_in_both_forms_with_the_annotations_of_cors() {
    let backend = Backend::http(echo).await;
    let (server, _its_manifests) = fairway(Ingress::new("a", "web"), backend.address()).await;
    let ingress = Ingress::new("a", "web")
        .annotation("backend-protocol", "GRPC")
        .annotation("enable-cors", "true")
        .annotation("cors-allow-origin", "https://app.test")
        .annotation("cors-allow-headers", "content-type,x-grpc-web,x-user-agent,grpc-timeout")
        .annotation("cors-expose-headers", "grpc-status,grpc-message");
    let (proxy, _manifests) = fairway(ingress, server.http).await;

    let preflight = Request::new("OPTIONS", "/a.B/C")
        .header("Host", "a.test")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "content-type,x-grpc-web");
    let response = send_request(&proxy, preflight).await;
    assert_eq!((response.status, response.body.len()), (204, 0));
    assert_eq!(response.header("access-control-allow-origin"), Some("https://app.test"));
    assert!(response.header("access-control-allow-headers").unwrap().contains("x-grpc-web"));

    let response = send_request(&proxy, call("application/grpc-web+proto", MESSAGE)).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/grpc-web+proto")));
    assert_eq!(response.body, [MESSAGE, TRAILERS].concat());
    assert_eq!(response.header("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(response.header("access-control-expose-headers"), Some("grpc-status,grpc-message"));

    let response = send_request(&proxy, call("application/grpc-web-text", MESSAGE_TEXT.as_bytes())).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/grpc-web-text")));
    // All in one chunk, or each in its own, with padding between them.
    let expected = "AAAAAAJhYoAAAAAkZ3JwYy1zdGF0dXM6IDANCmdycGMtbWVzc2FnZTogZmluZQ0K";
    let in_parts = "AAAAAAJhYg==gAAAACRncnBjLXN0YXR1czogMA0KZ3JwYy1tZXNzYWdlOiBmaW5lDQo=";
    assert!([expected, in_parts].contains(&response.text().as_str()), "{}", response.text());

    let received = backend.requests();
    assert_eq!(received.len(), 2, "the preflight request was answered before");
    for (request, content_type) in received.iter().zip(["application/grpc+proto", "application/grpc"]) {
        assert_eq!((request.header("content-type"), &request.body[..]), (Some(content_type), MESSAGE));
        assert_eq!((request.header("x-grpc-web"), request.header("te")), (None, Some("trailers")));
    }
}

#[tokio::test]
async fn other_requests_to_a_grpc_backend_and_grpc_web_to_other_backends_pass_as_they_are() {
    let backend = Backend::http(echo).await;
    let (server, _its_manifests) = fairway(Ingress::new("a", "web"), backend.address()).await;
    let (proxy, _manifests) =
        fairway(Ingress::new("a", "web").annotation("backend-protocol", "GRPC"), server.http).await;
    let response = send_request(&proxy, call("application/json", b"{}")).await;
    assert_eq!((response.header("content-type"), &response.body[..]), (Some("application/json"), &b"{}"[..]));
    // Directly to the Fairway without the annotation.
    let response = send_request(&server, call("application/grpc-web", MESSAGE)).await;
    assert_eq!(
        (response.header("content-type"), &response.body[..]),
        (Some("application/grpc-web"), MESSAGE)
    );
}

#[tokio::test]
async fn a_browser_reads_in_the_body_why_a_grpc_backend_cannot_be_had() {
    let nobody = fairway_testkit::wait::free_address();
    let (proxy, _manifests) =
        fairway(Ingress::new("a", "web").annotation("backend-protocol", "GRPC"), nobody).await;
    let response = send_request(&proxy, call("application/grpc-web", MESSAGE)).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/grpc-web")));
    let text = String::from_utf8_lossy(&response.body).into_owned();
    assert!(response.body[0] == 0x80 && text.contains("grpc-status: 14\r\n"), "{text}");
}
