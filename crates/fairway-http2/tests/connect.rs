//! Extended CONNECT (RFC 8441), from both ends of this crate and from a peer that can write any frames.

use fairway_http::Head;
use fairway_http2::fields::Connect;
use fairway_http2::frame::FrameKind;
use fairway_http2::{Client, Code, Config, Event, Server};

use crate::support::*;

fn offers() -> Config {
    Config { extended_connect: true, ..Config::default() }
}

/// A complete CONNECT for a WebSocket, with additional fields.
fn connect(fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", "a"),
    ];
    pseudo.iter().chain(fields).flat_map(|(name, value)| literal(name, value)).collect()
}

#[test]
fn rfc8441_3_it_is_offered_in_settings_or_a_stream_error() {
    let offered = |config| {
        let mut peer = Peer::raw(config);
        let sent = peer.sent();
        let settings = sent.iter().find(|frame| frame.kind == FrameKind::Settings).unwrap();
        settings.payload.chunks(6).any(|setting| setting == [0, 8, 0, 0, 0, 1])
    };
    assert!(offered(offers()) && !offered(Config::default()));
    let mut peer = Peer::new();
    assert_eq!(peer.send(&headers(1, false, &connect(&[]))), []);
    assert_eq!(resets(&peer.sent()), [(1, Code::Protocol)]);
    // The connection continues.
    peer.get(3);
}

#[test]
fn rfc9110_9_3_6_the_length_of_a_connect_request_is_ignored() {
    for length in ["0", "5"] {
        let mut peer = Peer::with(offers());
        peer.send(&headers(1, false, &connect(&[("content-length", length)])));
        let events = peer.send(&data(1, false, b"longer than that"));
        assert!(
            matches!(&events[..], [ReceivedEvent::Data { stream: 1, end: false, .. }]),
            "{length}: {events:?}"
        );
        assert_eq!(resets(&peer.sent()), []);
    }
}

#[test]
fn rfc9113_8_5_fields_have_no_place_in_a_tunnel() {
    let mut peer = Peer::with(offers());
    peer.send(&headers(1, false, &connect(&[])));
    peer.server.send_head(1, &ok(), false);
    let events = peer.send(&headers(1, true, &literal("a", "b")));
    assert!(matches!(&events[..], [ReceivedEvent::Other(it)] if it.contains("head_in_tunnel")), "{events:?}");
    assert_eq!(resets(&peer.sent()), [(1, Code::Protocol)]);
}

/// Moves the pending output of one end to the other.
macro_rules! pass {
    ($from:expr, $to:expr, $take:expr) => {{
        let bytes = $from.pending().to_vec();
        $from.mark_written(bytes.len());
        let (mut at, mut head) = (0, Head::new());
        loop {
            let (used, event) = $to.receive(0, &bytes[at..], &mut head);
            at += used;
            if matches!(event, Event::NeedMore | Event::Wait(_)) {
                break;
            }
            #[allow(clippy::redundant_closure_call, reason = "a closure says what to do with it")]
            $take(event, &head);
        }
    }};
}

/// The events of a CONNECT that our client sends and our server answers with this.
fn answered(response: &Head, behind: &[u8]) -> Vec<String> {
    let (mut client, mut server) = (Client::new(Config::default(), 0), Server::new(offers(), 0));
    assert_eq!(client.supports_extended_connect(), None, "its SETTINGS did not come");
    pass!(server, client, |_, _| ());
    assert_eq!(client.supports_extended_connect(), Some(true));
    let mut head = Head::new();
    head.start_request(b"GET", b"/");
    for (name, value) in [("Host", "a"), ("Sec-WebSocket-Key", "x"), ("Content-Length", "0"), ("Origin", "b")]
    {
        head.append(name.as_bytes(), value.as_bytes());
    }
    let connect = Connect { protocol: b"websocket", scheme: b"https", path: b"/chat?a" };
    let id = client.send_connect(&head, &connect).unwrap();
    pass!(client, server, |event: Event<'_>, head: &Head| match event {
        Event::Head { protocol: Some(protocol), end: false, length: None, .. } => {
            assert_eq!((head.method_bytes(), head.text(protocol)), (&b"CONNECT"[..], &b"websocket"[..]));
            assert_eq!(head.target(), b"/chat?a");
            let names: Vec<_> = head.fields().map(|field| field.name.to_ascii_lowercase()).collect();
            assert_eq!(names, [&b"host"[..], b"origin"], "a key and a length are not for here");
        }
        event => panic!("{event:?}"),
    });
    server.send_head(id, response, false);
    server.send_data(id, behind, true);
    let mut events = Vec::new();
    pass!(server, client, |event: Event<'_>, _: &Head| events.push(match event {
        Event::Head { end, length, .. } => format!("head {end} {length:?}"),
        Event::Data { bytes, end, .. } => format!("data {} {end}", bytes.len()),
        event => format!("{event:?}"),
    }));
    events
}

#[test]
fn rfc8441_5_a_2xx_opens_a_tunnel_whatever_its_length() {
    let mut response = ok();
    response.append(b"content-length", b"2");
    assert_eq!(answered(&response, b"longer"), ["head false None", "data 6 true"]);
    response.set_status(204);
    assert_eq!(answered(&response, b"longer"), ["head false None", "data 6 true"]);
}

#[test]
fn a_refusal_of_connect_is_a_normal_response() {
    let mut response = ok();
    response.set_status(403);
    response.append(b"content-length", b"6");
    assert_eq!(answered(&response, b"no way"), ["head false Some(6)", "data 6 true"]);
    let broken = answered(&response, b"longer than said");
    assert!(broken[1].contains("length"), "{broken:?}");
}

#[test]
fn missing_extended_connect_is_known_once_the_settings_arrived() {
    let (mut client, mut server) = (Client::new(Config::default(), 0), Server::new(Config::default(), 0));
    pass!(server, client, |_, _| ());
    assert_eq!(client.supports_extended_connect(), Some(false));
    pass!(client, server, |_, _| ());
}
