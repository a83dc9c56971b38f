//! Bodies in every framing, in both directions, byte for byte.

use fairway_testkit::wire::Framing;
use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep};

use crate::support::{HOST, Running, Setup};

const MEGABYTE: usize = 1024 * 1024;

/// Bytes in which a lost or repeated piece is detectable.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 251) % 251).expect("below 251")).collect()
}

async fn start_proxy(backend: &Backend) -> Running {
    Setup::to(&[backend.address()]).start()
}

fn chunked(head: &str, chunks: &[&[u8]], trailers: &str) -> Vec<u8> {
    let mut bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in chunks {
        bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(format!("0\r\n{trailers}\r\n").bytes());
    bytes
}

#[tokio::test]
async fn a_request_body_of_a_megabyte_arrives_in_both_framings() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = start_proxy(&backend).await;
    let body = pattern(MEGABYTE);
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::post(HOST, "/", body.clone())).await.unwrap().status, 200);
    let chunks: Vec<&[u8]> = body.chunks(10_007).collect();
    let request = Request::new("POST", "/").header("Host", HOST).chunks(&chunks);
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    let got = backend.requests();
    assert!(got[0].body == body && got[1].body == body);
    assert_eq!(got[0].header("Content-Length"), Some("1048576"));
    assert_eq!(
        (got[1].header("Transfer-Encoding"), got[1].header("Content-Length")),
        (Some("chunked"), None)
    );
    backend.assert_followed();
}

#[tokio::test]
async fn a_megabyte_response_arrives_in_every_framing() {
    let body = pattern(MEGABYTE);
    let chunks: Vec<&[u8]> = body.chunks(9_973).collect();
    let responses = [
        BackendResponse::ok(&body),
        BackendResponse::Bytes(chunked("HTTP/1.1 200 OK\r\n", &chunks, "")),
        BackendResponse::ThenClose([b"HTTP/1.1 200 OK\r\n\r\n", &body[..]].concat()),
        BackendResponse::ThenClose([b"HTTP/1.0 200 OK\r\n\r\n", &body[..]].concat()),
    ];
    for (response, framing) in responses.into_iter().zip([
        Framing::Length(MEGABYTE),
        Framing::Chunked,
        Framing::Chunked,
        Framing::Chunked,
    ]) {
        let backend = Backend::http(move |_| response.clone()).await;
        let proxy = start_proxy(&backend).await;
        let mut client = proxy.client().await;
        let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert!(response.body == body, "{framing:?}");
        assert_eq!(response.framing, framing);
        let old = proxy.client().await.exchange(&Request::get(HOST, "/").http10()).await.unwrap();
        assert!(old.body == body, "{framing:?} to HTTP/1.0");
        assert_eq!(old.header("Transfer-Encoding"), None);
    }
}

#[tokio::test]
async fn trailers_pass_in_both_directions() {
    let response = chunked("HTTP/1.1 200 OK\r\n", &[b"abc"], "X-Sum: 1\r\n");
    let backend = Backend::http(move |_| BackendResponse::Bytes(response.clone())).await;
    let proxy = start_proxy(&backend).await;
    let mut client = proxy.client().await;
    client.send(chunked("POST / HTTP/1.1\r\nHost: a\r\n", &[b"de", b"f"], "X-Check: 2\r\n")).await.unwrap();
    let got = client.read_response().await.unwrap();
    assert_eq!(
        (got.body.as_slice(), got.trailers),
        (&b"abc"[..], vec![("X-Sum".to_owned(), "1".to_owned())])
    );
    let request = &backend.requests()[0];
    assert_eq!(request.body, b"def");
    assert_eq!(request.trailers, [("X-Check".to_owned(), "2".to_owned())]);
}

#[tokio::test]
async fn trailers_cannot_carry_framing_or_routing_fields() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = start_proxy(&backend).await;
    let mut client = proxy.client().await;
    let trailers =
        "Content-Length: 3\r\nHost: evil\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: 1.2.3.4\r\n";
    client.send(chunked("POST / HTTP/1.1\r\nHost: a\r\n", &[b"abc"], trailers)).await.unwrap();
    let status = client.read_response().await.unwrap().status;
    let trailers = backend.requests().first().map(|request| request.trailers.clone()).unwrap_or_default();
    assert!(trailers.is_empty() || status == 400, "{status} {trailers:?}");
}

#[tokio::test]
async fn head_has_no_body_whatever_it_declares() {
    for response in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ] {
        let bytes = response.to_vec();
        let backend = Backend::http(move |_| BackendResponse::Bytes(bytes.clone())).await;
        let proxy = start_proxy(&backend).await;
        let mut client = proxy.client().await;
        for _ in 0..2 {
            let got = client.exchange(&Request::head(HOST, "/")).await.unwrap();
            assert_eq!((got.status, got.body.len()), (200, 0));
            let declared = String::from_utf8_lossy(response).contains("Content-Length").then_some("5");
            assert_eq!(got.header("Content-Length"), declared);
        }
    }
}

#[tokio::test]
async fn bodiless_statuses_end_with_their_head() {
    for (response, status) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nETag: \"a\"\r\n\r\n", 304),
    ] {
        let backend = Backend::http(move |_| BackendResponse::Bytes(response.into())).await;
        let proxy = start_proxy(&backend).await;
        let mut client = proxy.client().await;
        for _ in 0..2 {
            let got = client
                .exchange(&Request::get(HOST, "/"))
                .await
                .unwrap_or_else(|e| panic!("{response:?}: {e}"));
            assert_eq!((got.status, got.framing), (status, Framing::None));
        }
        assert_eq!(backend.connection_count(), 1, "{response:?} leaves the connection usable");
    }
}

#[tokio::test]
async fn an_http_1_0_client_gets_a_response_that_it_understands() {
    let backend = Backend::http(|_| BackendResponse::ok("hello")).await;
    let proxy = start_proxy(&backend).await;
    let mut client = proxy.client().await;
    let response = client.exchange(&Request::get(HOST, "/").http10()).await.unwrap();
    assert_eq!((response.text().as_str(), response.header("Connection")), ("hello", Some("close")));
    client.expect_closed().await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let request = Request::get(HOST, "/").http10().header("Connection", "keep-alive");
        let response = client.exchange(&request).await.unwrap();
        assert_eq!((response.text().as_str(), response.header("Connection")), ("hello", Some("keep-alive")));
    }
    assert!(backend.requests().iter().all(|request| request.version == "HTTP/1.1"));
}

#[tokio::test]
async fn a_request_without_host_still_has_one_towards_the_endpoint() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = start_proxy(&backend).await;
    let response = proxy.client().await.exchange(&Request::new("GET", "/").http10()).await.unwrap();
    assert_eq!(response.status, 200);
    let request = &backend.requests()[0];
    assert_eq!(request.header_values("Host").len(), 1, "RFC 9112 §3.2: every HTTP/1.1 request has one");
}

#[tokio::test]
async fn an_http_1_0_endpoint_connection_is_reused_only_on_request() {
    let backend =
        Backend::http(|_| BackendResponse::Bytes(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()))
            .await;
    let proxy = start_proxy(&backend).await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
        assert_eq!((response.version.as_str(), response.text().as_str()), ("HTTP/1.1", "ok"));
    }
    assert_eq!(backend.connection_count(), 2);
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_is_forwarded() {
    let backend = Backend::scripted([
        ScriptStep::ReadHead,
        ScriptStep::Send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno".into()),
    ])
    .await;
    let proxy = start_proxy(&backend).await;
    let mut client = proxy.client().await;
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {MEGABYTE}\r\n\r\n")).await.unwrap();
    client.send(vec![b'a'; 1000]).await.unwrap();
    let response = client.read_response().await.unwrap();
    assert_eq!((response.status, response.header("Connection")), (413, Some("close")));
}
