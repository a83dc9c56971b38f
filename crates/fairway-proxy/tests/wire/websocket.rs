//! Upgrades (robustness.md, rule 5): only `websocket`, only after 101, never with a body.

use fairway_model::{Deny, Guard, Match, NamedValueMatch, Phases, TextMatch};
use fairway_testkit::{Backend, BackendResponse, Request, ScriptStep};

use crate::support::{HOST, Setup};

const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                        Sec-WebSocket-Accept: x\r\n\r\n";

fn upgrade() -> Request {
    Request::get(HOST, "/chat")
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("Sec-WebSocket-Version", "13")
}

/// The handshake with one header omitted or changed.
fn handshake(method: &str, fields: &[(&str, &str)]) -> Request {
    let request = Request::new(method, "/chat")
        .header("Host", HOST)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket");
    fields.iter().fold(request, |request, (name, value)| request.header(name, value))
}

#[tokio::test]
async fn bytes_flow_both_ways_after_the_switch() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(SWITCH.to_vec()),
        ScriptStep::Send(b"hello".to_vec()),
        ScriptStep::Expect(b"ping\r\n\r\n".to_vec()),
        ScriptStep::Send(b"pong".to_vec()),
        ScriptStep::ReadBody(200_000),
        ScriptStep::Send(vec![7; 300_000]),
        ScriptStep::Close,
    ])
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let response = client.exchange(&upgrade()).await.unwrap();
    assert_eq!((response.status, response.header("Upgrade")), (101, Some("websocket")));
    assert_eq!(response.header("Sec-WebSocket-Accept"), Some("x"));
    assert_eq!(client.read_bytes(5).await.unwrap(), b"hello");
    client.send("ping\r\n\r\n").await.unwrap();
    assert_eq!(client.read_bytes(4).await.unwrap(), b"pong");
    client.send(vec![1; 200_000]).await.unwrap();
    assert_eq!(client.read_bytes(300_000).await.unwrap(), vec![7; 300_000]);
    client.half_close().await.unwrap();
    assert_eq!(client.read_to_end().await.unwrap(), b"");
    let request = &backend.requests()[0];
    assert_eq!(request.header_values("Upgrade"), ["websocket"]);
    assert_eq!(request.header_values("Connection"), ["upgrade"]);
    backend.assert_followed();
}

#[tokio::test]
async fn early_bytes_wait_for_the_switch() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Wait,
        ScriptStep::Send(SWITCH.to_vec()),
        ScriptStep::Expect(b"early".to_vec()),
        ScriptStep::Send(b"late".to_vec()),
    ])
    .await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let mut bytes = upgrade().bytes();
    bytes.extend(b"early");
    client.send(&bytes).await.unwrap();
    backend.wait_until("the head", |backend| backend.waiting_count() == 1).await;
    assert!(backend.connections()[0].bytes.ends_with(b"\r\n\r\n"), "nothing came behind the head");
    backend.release();
    assert_eq!(client.read_response().await.unwrap().status, 101);
    assert_eq!(client.read_bytes(4).await.unwrap(), b"late");
}

#[tokio::test]
async fn early_bytes_never_reach_an_endpoint_that_does_not_switch() {
    let backend = Backend::http(|_| BackendResponse::ok("no")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    let mut bytes = upgrade().bytes();
    bytes.extend(b"\x81\x85early");
    client.send(&bytes).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().text(), "no");
    assert_eq!(client.read_response().await.unwrap().status, 400, "HTTP goes on, and they are no request");
    assert_eq!(backend.request_count(), 1);
    assert!(backend.connections()[0].bytes.ends_with(b"\r\n\r\n"));
}

#[tokio::test]
async fn after_another_response_the_connection_stays_http() {
    let backend = Backend::http(|_| BackendResponse::status(403, "no")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..2 {
        assert_eq!(client.exchange(&upgrade()).await.unwrap().status, 403);
    }
}

#[tokio::test]
async fn an_upgrade_with_a_body_is_refused() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for request in [upgrade().body("body"), upgrade().chunks(&["body"])] {
        let mut client = proxy.client().await;
        assert_eq!(client.exchange(&request).await.unwrap().status, 501);
        client.expect_closed().await;
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn a_rule_without_websocket_forwards_no_upgrade_and_takes_none() {
    let backend = Backend::scripted([
        ScriptStep::ReadRequest,
        ScriptStep::Send(SWITCH.to_vec()),
        ScriptStep::Send(b"tunnel".to_vec()),
    ])
    .await;
    let setup = Setup::to(&[backend.address()]).policy(|policy| policy.websocket = false);
    let proxy = setup.start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&upgrade()).await.unwrap().status, 502);
    let request = &backend.requests()[0];
    assert_eq!((request.header("Upgrade"), request.header("Connection")), (None, None));
}

#[tokio::test]
async fn a_refusal_of_upgrades_takes_each_that_would_be_forwarded() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let header = NamedValueMatch { name: "upgrade".into(), value: TextMatch::Regex("websocket".into()) };
    let when = vec![Match { headers: vec![header], ..Match::default() }];
    let mut setup = Setup::to(&[backend.address()]);
    setup.filters = vec![Phases::from(Guard::Deny(Deny { status: 418, when }))];
    let proxy = setup.start();
    let headers_with = |fields: &[(&str, &str)]| {
        let handshake = Request::get(HOST, "/")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("Sec-WebSocket-Version", "13");
        fields.iter().fold(handshake, |request, (name, value)| request.header(name, value))
    };
    for (request, status) in [
        (headers_with(&[("Connection", "Upgrade"), ("Upgrade", "websocket")]), 418),
        (headers_with(&[("upgrade", "WebSocket"), ("connection", "keep-alive, UPGRADE")]), 418),
        (
            headers_with(&[
                ("Connection", "close"),
                ("Upgrade", "websocket"),
                ("Connection", "upgrade, upgrade"),
            ]),
            418,
        ),
        (headers_with(&[("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Content-Length", "0")]), 418),
        (headers_with(&[("Upgrade", "websocket")]), 200),
        (headers_with(&[("Connection", "Upgrade"), ("Upgrade", "h2c")]), 200),
        (headers_with(&[("Connection", "Upgrade"), ("Upgrade", "websocket, h2c")]), 200),
        (headers_with(&[("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Upgrade", "websocket")]), 200),
        (headers_with(&[]), 200),
    ] {
        let described = format!("{request:?}");
        assert_eq!(proxy.client().await.exchange(&request).await.unwrap().status, status, "{described}");
    }
    assert_eq!(backend.request_count(), 5);
    assert!(backend.requests().iter().all(|request| request.header("Upgrade").is_none()));
}

#[tokio::test]
async fn an_upgrade_to_another_protocol_is_neither_forwarded_nor_taken() {
    for (method, protocol) in [
        ("POST", "SPDY/3.1"),
        ("POST", "tcp"),
        ("POST", "tailscale-control-protocol"),
        ("GET", "h2c"),
        ("GET", "websocket, tcp"),
    ] {
        let switch =
            format!("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\ntunnel");
        let backend =
            Backend::scripted([ScriptStep::ReadRequest, ScriptStep::Send(switch.into_bytes())]).await;
        let proxy = Setup::to(&[backend.address()]).start();
        let mut client = proxy.client().await;
        let request = Request::new(method, "/exec")
            .header("Host", HOST)
            .header("Connection", "Upgrade")
            .header("Upgrade", protocol)
            .header("Content-Length", "0");
        assert_eq!(client.exchange(&request).await.unwrap().status, 502, "{protocol}");
        let received = &backend.requests()[0];
        assert_eq!((received.header("Upgrade"), received.header("Connection")), (None, None), "{protocol}");
    }
}

#[tokio::test]
async fn an_upgrade_without_a_websocket_handshake_is_refused() {
    const KEY: (&str, &str) = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    const VERSION: (&str, &str) = ("Sec-WebSocket-Version", "13");
    let backend = Backend::scripted([ScriptStep::ReadRequest, ScriptStep::Send(SWITCH.to_vec())]).await;
    let proxy = Setup::to(&[backend.address()]).start();
    for (request, status, reason) in [
        (handshake("POST", &[KEY, VERSION]), 400, "websocket_handshake"),
        (handshake("POST", &[KEY, VERSION, ("Content-Length", "0")]), 400, "websocket_handshake"),
        (handshake("PUT", &[KEY, VERSION]), 400, "websocket_handshake"),
        (handshake("HEAD", &[KEY, VERSION]), 400, "websocket_handshake"),
        (handshake("GET", &[VERSION]), 400, "websocket_handshake"),
        (handshake("GET", &[("Sec-WebSocket-Key", ""), VERSION]), 400, "websocket_handshake"),
        (handshake("GET", &[KEY, KEY, VERSION]), 400, "websocket_handshake"),
        (handshake("GET", &[KEY]), 426, "websocket_version"),
        (handshake("GET", &[KEY, ("Sec-WebSocket-Version", "8")]), 426, "websocket_version"),
        (handshake("GET", &[KEY, ("Sec-WebSocket-Version", "13, 8")]), 426, "websocket_version"),
        (handshake("GET", &[KEY, VERSION, ("Sec-WebSocket-Version", "8")]), 426, "websocket_version"),
    ] {
        let mut client = proxy.client().await;
        client.send(request.bytes()).await.unwrap();
        let response = client.read_response().await.unwrap();
        assert_eq!(response.status, status, "{request:?}");
        assert!(response.text().ends_with(&format!(": {reason}\n")), "{request:?}: {}", response.text());
        let version = (status == 426).then_some("13");
        assert_eq!(response.header("Sec-WebSocket-Version"), version, "{request:?}");
        client.expect_closed().await;
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn a_switch_to_another_protocol_is_502() {
    for head in [
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ] {
        let response = format!("{head}tunnel");
        let backend = Backend::http(move |_| BackendResponse::Bytes(response.clone().into())).await;
        let proxy = Setup::to(&[backend.address()]).start();
        let mut client = proxy.client().await;
        let got = client.exchange(&upgrade()).await.unwrap();
        assert_eq!(
            (got.status, got.text().as_str()),
            (502, "502 Bad Gateway: upstream_malformed\n"),
            "{head}"
        );
        assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 502, "it stays HTTP");
    }
}

#[tokio::test]
async fn the_end_of_either_side_ends_the_other() {
    let backend = Backend::scripted([ScriptStep::ReadRequest, ScriptStep::Send(SWITCH.to_vec())]).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&upgrade()).await.unwrap().status, 101);
    drop(client);
    backend.wait_until("the endpoint's end", |backend| backend.open_count() == 0).await;
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&upgrade()).await.unwrap().status, 101);
    backend.close_connections();
    assert_eq!(client.read_to_end().await.unwrap(), b"");
}
