//! The rules for requests (robustness.md, rules 1 to 8): status, close, nothing forwarded, counted by its reason.

use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Backend, BackendResponse, Client, Request, eventually};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{HOST, Running, Setup};

/// A request, its status, and the reason under which it is counted.
type Case<'a> = (&'a str, u16, &'a str);

/// Checks every case on its own connection: refused, closed, counted, and no byte of it reaches the backend.
async fn all_refused(cases: &[Case<'_>]) {
    let backend = Backend::http(|_| BackendResponse::ok("forwarded")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for (request, status, reason) in cases {
        let before = proxy.metric(&series(reason)).await;
        refused(&proxy, request, *status, reason).await;
        proxy.expect_metric(&series(reason), before + 1).await;
    }
    for connection in backend.connections() {
        assert!(connection.bytes.is_empty(), "forwarded: {:?}", String::from_utf8_lossy(&connection.bytes));
    }
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().text(), "forwarded");
}

async fn refused(proxy: &Running, request: &str, status: u16, reason: &str) {
    let mut client = proxy.client().await;
    client.send(request).await.unwrap();
    let response = client.read_response().await.unwrap_or_else(|error| panic!("{request:?}: {error}"));
    assert_eq!((response.status, response.header("Connection")), (status, Some("close")), "{request:?}");
    assert!(response.text().ends_with(&format!(": {reason}\n")), "{request:?}: {}", response.text());
    assert_eq!(client.read_to_end().await.unwrap(), b"", "{request:?}");
}

fn series(reason: &str) -> String {
    format!("fairway_faults_total{{reason=\"{reason}\"}}")
}

#[tokio::test]
async fn rule_1_one_framing_header_never_two() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\n";
    let head = |fields: &str| format!("{post}{fields}\r\n\r\n");
    let cases = [
        (head("Content-Length: 3\r\nTransfer-Encoding: chunked"), 400, "length_and_encoding"),
        (head("Transfer-Encoding: chunked\r\nContent-Length: 3"), 400, "length_and_encoding"),
        (head("Content-Length: 3\r\nContent-Length: 3"), 400, "content_length_repeated"),
        (head("Content-Length: 3\r\nContent-Length: 4"), 400, "content_length_repeated"),
        (head("Content-Length: 3, 3"), 400, "content_length"),
        (head("Content-Length: +3"), 400, "content_length"),
        (head("Content-Length: -3"), 400, "content_length"),
        (head("Content-Length:"), 400, "content_length"),
        (head("Content-Length: 0x3"), 400, "content_length"),
        (head("Content-Length: 99999999999999999999"), 400, "content_length"),
        (head("Transfer-Encoding: gzip, chunked"), 501, "encoding_unsupported"),
        (head("Transfer-Encoding: identity"), 501, "encoding_unsupported"),
        (head("Transfer-Encoding: xchunked"), 501, "encoding_unsupported"),
        (head("Transfer-Encoding: chunked, chunked"), 400, "encoding"),
        (head("Transfer-Encoding: chunked, gzip"), 400, "encoding"),
        (head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400, "encoding"),
        (head("Transfer-Encoding:"), 400, "encoding"),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 400, "encoding_in_http10"),
    ];
    let cases: Vec<Case<'_>> =
        cases.iter().map(|(text, status, reason)| (&**text, *status, *reason)).collect();
    all_refused(&cases).await;
}

#[tokio::test]
async fn rule_2_no_byte_that_two_parsers_read_differently() {
    all_refused(&[
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "bare_lf"),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", 400, "bare_lf"),
        ("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400, "bare_cr"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400, "nul"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400, "obs_fold"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n", 400, "space_before_colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n", 400, "empty_field_name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX(y): a\r\n\r\n", 400, "field_name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n", 400, "field_value"),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "leading_whitespace"),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "leading_whitespace"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "request_line"),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "unsupported_version"),
    ])
    .await;
}

#[tokio::test]
async fn rule_3_chunks_are_plain_hexadecimal_and_end_where_they_say() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for (chunks, reason) in [
        ("+3\r\nabc\r\n0\r\n\r\n", "chunk_size"),
        ("-3\r\nabc\r\n0\r\n\r\n", "chunk_size"),
        ("0x3\r\nabc\r\n0\r\n\r\n", "chunk_size"),
        ("\r\nabc\r\n0\r\n\r\n", "chunk_size"),
        ("10000000000000003\r\nabc\r\n0\r\n\r\n", "chunk_size"),
        ("3 \r\nabc\r\n0\r\n\r\n", "chunk_size"),
        ("3\nabc\r\n0\r\n\r\n", "chunk_end"),
        ("3\r\nabcd\r\n0\r\n\r\n", "chunk_end"),
        ("3;x=\x01\r\nabc\r\n0\r\n\r\n", "chunk_extension"),
    ] {
        let before = proxy.metric(&series(reason)).await;
        let mut client = proxy.client().await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}{chunks}")).await.unwrap();
        let response = client.read_response().await.unwrap();
        assert_eq!((response.status, response.header("Connection")), (400, Some("close")), "{chunks:?}");
        assert!(response.text().ends_with(&format!(": {reason}\n")), "{chunks:?}: {}", response.text());
        client.expect_closed().await;
        proxy.expect_metric(&series(reason), before + 1).await;
    }
    assert_eq!(backend.request_count(), 0, "no whole request reached the backend");
}

#[tokio::test]
async fn rule_3_extensions_are_dropped() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}3;name=value\r\nabc\r\n0;last\r\n\r\n")).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    assert_eq!(backend.requests()[0].body, b"abc");
    backend.assert_followed();
}

#[tokio::test]
async fn rule_3_extensions_are_bounded_in_all() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = |extension: usize| format!("1;{}\r\na\r\n", "x".repeat(extension));
    let mut client = proxy.client().await;
    client.send(format!("{head}{}0\r\n\r\n", chunk(1000).repeat(16))).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    for chunks in [chunk(1000).repeat(100), chunk(1).repeat(20_000)] {
        let mut client = proxy.client().await;
        // The response may arrive, and the connection end, before everything is sent.
        let _ = client.send(format!("{head}{chunks}")).await;
        let response = client.read_response().await.unwrap();
        assert_eq!((response.status, response.header("Connection")), (400, Some("close")));
        assert!(response.text().ends_with(": chunk_extension\n"), "{}", response.text());
    }
    assert_eq!(backend.request_count(), 1);
    proxy.expect_fault("chunk_extension", 2).await;
}

#[tokio::test]
async fn rule_3_extensions_of_large_chunks_may_go_on() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    // Sent by clients that sign each chunk.
    let chunk = format!("1000;chunk-signature={}\r\n{}\r\n", "f".repeat(64), "a".repeat(4096));
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}{}0\r\n\r\n", chunk.repeat(500))).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    assert_eq!(backend.requests()[0].body.len(), 500 * 4096);
}

#[tokio::test]
async fn rule_4_exactly_one_valid_host() {
    all_refused(&[
        ("GET / HTTP/1.1\r\n\r\n", 400, "host_missing"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "host_repeated"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "authority"),
        ("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", 400, "authority"),
        ("GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400, "authority"),
        ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "host_disagrees"),
    ])
    .await;
}

#[tokio::test]
async fn rule_4_an_absolute_target_gives_the_host_and_is_forwarded_in_origin_form() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    client.send("GET http://Example.com/a?b HTTP/1.1\r\nHost: example.com\r\n\r\n").await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    let request = &backend.requests()[0];
    assert_eq!((request.target.as_str(), request.header_values("Host")), ("/a?b", vec!["Example.com"]));
}

#[tokio::test]
async fn rule_4_an_absolute_target_without_a_path_means_the_root() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for (target, host, forwarded) in [
        ("http://a.test", "a.test", "/"),
        ("http://a.test:80", "a.test:80", "/"),
        ("HTTP://a.test", "a.test", "/"),
        ("http://a.test?", "a.test", "/?"),
        ("http://a.test?x", "a.test", "/?x"),
        ("http://a.test?/admin/..", "a.test", "/?/admin/.."),
        ("http://a.test:80?x", "a.test:80", "/?x"),
        ("http://[::1]?x", "[::1]", "/?x"),
        ("http://a.test/", "a.test", "/"),
        ("http://a.test/a?x", "a.test", "/a?x"),
    ] {
        let before = backend.request_count();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await.unwrap();
        assert_eq!(client.read_response().await.unwrap().status, 200, "{target}");
        let request = &backend.requests()[before];
        assert_eq!((request.target.as_str(), request.header("Host")), (forwarded, Some(host)), "{target}");
    }
}

#[tokio::test]
async fn rule_4_an_absolute_target_of_another_form_is_refused() {
    all_refused(&[
        // The server as a whole is addressed, as by `OPTIONS *` (RFC 9112 §3.2.4).
        ("OPTIONS http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", 501, "unsupported"),
        ("GET http://a.test# HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "target"),
        ("GET http://user@a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "authority"),
        ("GET http://user:pw@a.test?x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "authority"),
        ("GET http:// HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "authority"),
        ("GET http://?x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "authority"),
        ("GET http:///x HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "authority"),
        ("GET ftp://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "target"),
        ("GET http:a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", 400, "target"),
    ])
    .await;
}

#[tokio::test]
async fn rule_5_hop_by_hop_fields_stay_here() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let request = Request::get(HOST, "/")
        .header("Connection", "keep-alive, X-Hop")
        .header("Keep-Alive", "timeout=5")
        .header("X-Hop", "1")
        .header("TE", "trailers")
        .header("Upgrade", "h2c")
        .header("Proxy-Connection", "keep-alive")
        .header("X-End", "2");
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    let got = &backend.requests()[0];
    for name in ["Connection", "Keep-Alive", "X-Hop", "TE", "Upgrade", "Proxy-Connection"] {
        assert_eq!(got.header_values(name), Vec::<&str>::new(), "{name}");
    }
    assert_eq!(got.header("X-End"), Some("2"));
}

#[tokio::test]
async fn rule_5_connection_cannot_remove_end_to_end_headers() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let request =
        Request::post(HOST, "/", "abc").header("Connection", "Content-Length, Host, X-Forwarded-For");
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    let got = &backend.requests()[0];
    assert_eq!((got.header("Host"), got.body.as_slice()), (Some(HOST), &b"abc"[..]));
    assert_eq!(got.header("X-Forwarded-For"), Some("127.0.0.1"));
}

#[tokio::test]
async fn rule_6_an_unknown_expectation_is_refused() {
    all_refused(&[(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n",
        417,
        "expectation",
    )])
    .await;
}

#[tokio::test]
async fn rule_7_paths_that_are_read_in_two_ways_are_refused() {
    let target = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let cases = [
        (target("/%00"), 400, "path_nul"),
        (target("/%"), 400, "path_escape"),
        (target("/%4"), 400, "path_escape"),
        (target("/%zz"), 400, "path_escape"),
        (target("/é"), 400, "target"),
        (target("/../a"), 400, "path_above_root"),
        (target("/a/%2e%2e/.."), 400, "path_above_root"),
        (target("a"), 400, "target"),
    ];
    let cases: Vec<Case<'_>> =
        cases.iter().map(|(text, status, reason)| (&**text, *status, *reason)).collect();
    all_refused(&cases).await;
}

#[tokio::test]
async fn rule_8_proxy_is_dropped_and_names_with_underscores_too() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let request = Request::get(HOST, "/").header("Proxy", "http://evil").header("X_Real_IP", "1.2.3.4");
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    let got = &backend.requests()[0];
    assert_eq!((got.header("Proxy"), got.header("X_Real_IP")), (None, None));
}

#[tokio::test]
async fn rule_8_fields_of_one_hop_are_dropped_over_http2_as_well() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    // `GET http://a/`: fields of the static table, and literals that enter no table (RFC 7541 §6).
    let mut block = b"\x82\x86\x84\x01\x01a".to_vec();
    for (name, value) in [
        ("proxy", "http://evil"),
        ("trailer", "x"),
        ("te", "trailers"),
        ("x_real_ip", "1.2.3.4"),
        ("x-b", "c"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut stream = TcpStream::connect(proxy.http).await.unwrap();
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let head = [0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1];
    let all = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings, &head, &block].concat();
    stream.write_all(&all).await.unwrap();
    eventually("the request comes", WAIT_TIMEOUT, || async { backend.request_count() == 1 }).await;
    let got = &backend.requests()[0];
    let value_of = |name| got.header(name);
    assert_eq!(
        (value_of("Proxy"), value_of("Trailer"), value_of("TE"), value_of("X_Real_IP")),
        (None, None, None, None)
    );
    assert_eq!((value_of("X-B"), value_of("Host")), (Some("c"), Some("a")));
}

#[tokio::test]
async fn rule_8_names_that_a_backend_could_read_as_others_are_dropped() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let disguised = [
        "X_Forwarded_For",
        "X-Forwarded_Host",
        "x_auth_request_user",
        "under_score",
        "X.Real.IP",
        "X!Y",
        "~",
    ];
    let request = disguised
        .iter()
        .fold(Request::get(HOST, "/").header("X-Plain-1", "1"), |request, name| request.header(name, "evil"));
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    let got = &backend.requests()[0];
    for name in disguised {
        assert_eq!(got.header(name), None, "{name}");
    }
    assert_eq!(got.header("X-Plain-1"), Some("1"));
}

#[tokio::test]
async fn connect_and_asterisk_are_not_served() {
    all_refused(&[
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501, "unsupported"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 501, "unsupported"),
    ])
    .await;
}

#[tokio::test]
async fn trace_is_not_served_and_unknown_methods_are() {
    all_refused(&[
        ("TRACE / HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n", 405, "method_not_allowed"),
        ("TRACE http://a HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"),
        ("TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 405, "method_not_allowed"),
    ])
    .await;
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let response =
        proxy.client().await.exchange(&Request::new("TRACE", "/").header("Host", HOST)).await.unwrap();
    let allowed = response.header("Allow").unwrap_or_default();
    assert!(allowed.contains("GET") && !allowed.contains("TRACE"), "RFC 9110 §15.5.6: {allowed:?}");
    let mut client = proxy.client().await;
    for method in ["TRACK", "trace", "PROPFIND"] {
        let request = Request::new(method, "/").header("Host", HOST);
        assert_eq!(client.exchange(&request).await.unwrap().status, 200, "{method}");
    }
    assert_eq!(backend.request_count(), 3);
}

#[tokio::test]
async fn bytes_after_a_refused_request_are_not_served() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client: Client = proxy.client().await;
    let hidden = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
                  GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(hidden).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 400);
    assert_eq!(client.read_to_end().await.unwrap(), b"");
    assert_eq!(backend.connection_count(), 0);
}
