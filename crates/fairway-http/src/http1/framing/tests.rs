//! The rules for framing and hop-by-hop fields, one test each.

use super::*;
use crate::HeadLimits;
use crate::http1::head::HeadParser;

fn request(fields: &str) -> Head {
    let mut head = Head::new();
    HeadParser::new()
        .request(&mut head, format!("POST / {fields}\r\n").as_bytes(), &HeadLimits::default())
        .expect(fields);
    head
}

fn response(status: u16, fields: &str) -> Head {
    let mut head = Head::new();
    HeadParser::new()
        .response(
            &mut head,
            format!("HTTP/1.1 {status} x\r\n{fields}\r\n").as_bytes(),
            &HeadLimits::default(),
        )
        .unwrap();
    head
}

fn framing(fields: &str) -> Result<Framing, Malformed> {
    let from_request = request_framing(&request(&format!("HTTP/1.1\r\n{fields}")));
    // The rules are the same on both sides.
    if !fields.is_empty() {
        assert_eq!(response_framing(&response(200, fields), Method::Get), from_request);
    }
    from_request
}

#[test]
fn a_request_without_either_field_has_no_body() {
    assert_eq!(framing(""), Ok(Framing::None));
}

#[test]
fn one_length_or_chunked_is_the_framing() {
    assert_eq!(framing("Content-Length: 0\r\n"), Ok(Framing::Length(0)));
    assert_eq!(framing("Content-Length: 42\r\n"), Ok(Framing::Length(42)));
    assert_eq!(framing("Content-Length: 18446744073709551615\r\n"), Ok(Framing::Length(u64::MAX)));
    assert_eq!(framing("Transfer-Encoding: chunked\r\n"), Ok(Framing::Chunked));
    assert_eq!(framing("transfer-encoding: CHUNKED \r\n"), Ok(Framing::Chunked));
}

#[test]
fn length_and_encoding_together_are_refused_in_either_order() {
    let (length, coding) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    assert_eq!(framing(&format!("{length}{coding}")), Err(Malformed::LengthAndEncoding));
    assert_eq!(framing(&format!("{coding}{length}")), Err(Malformed::LengthAndEncoding));
    assert_eq!(framing("Content-Length:\r\nTransfer-Encoding: x\r\n"), Err(Malformed::LengthAndEncoding));
}

#[test]
fn several_lengths_are_refused_equal_or_not() {
    for second in ["5", "6", ""] {
        let fields = format!("Content-Length: 5\r\nContent-Length: {second}\r\n");
        assert_eq!(framing(&fields), Err(Malformed::ContentLengthRepeated));
    }
    assert_eq!(framing("Content-Length: 5, 5\r\n"), Err(Malformed::ContentLengthInvalid));
}

#[test]
fn a_length_other_than_a_decimal_number_is_refused() {
    for value in [
        "",
        "+5",
        "-5",
        "-0",
        "0x5",
        "5a",
        "5 5",
        "5.0",
        "5;",
        "1e3",
        "18446744073709551616",
        "99999999999999999999999",
        "5,",
    ] {
        let fields = format!("Content-Length: {value}\r\n");
        assert_eq!(framing(&fields), Err(Malformed::ContentLengthInvalid), "{value:?}");
    }
}

#[test]
fn an_encoding_other_than_one_final_chunked_is_400_or_501() {
    for value in ["", ",", "chunked,", ",chunked", "chunked, chunked", "chunked, gzip", "chunked,identity"] {
        let fields = format!("Transfer-Encoding: {value}\r\n");
        assert_eq!(framing(&fields), Err(Malformed::EncodingInvalid), "{value:?}");
    }
    for value in [
        "gzip, chunked",
        "gzip",
        "identity",
        "xchunked",
        "chunkedx",
        "chunked;a=b",
        "\"chunked\"",
        "chunked chunked",
        "chunk",
    ] {
        let fields = format!("Transfer-Encoding: {value}\r\n");
        let rule = framing(&fields).unwrap_err();
        assert_eq!((rule, rule.status()), (Malformed::EncodingUnsupported, 501), "{value:?}");
    }
    for (first, second) in
        [("chunked", "chunked"), ("chunked", ""), ("gzip", "chunked"), ("identity", "chunked")]
    {
        let fields = format!("Transfer-Encoding: {first}\r\nTransfer-Encoding: {second}\r\n");
        assert_eq!(framing(&fields), Err(Malformed::EncodingInvalid), "{first:?} {second:?}");
    }
}

#[test]
fn an_encoding_in_http_1_0_is_refused() {
    let head = request("HTTP/1.0\r\nTransfer-Encoding: chunked\r\n");
    assert_eq!(request_framing(&head), Err(Malformed::EncodingInHttp10));
    let mut head = Head::new();
    let text = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    HeadParser::new().response(&mut head, text, &HeadLimits::default()).unwrap();
    assert_eq!(response_framing(&head, Method::Get), Err(Malformed::EncodingInHttp10));
}

#[test]
fn a_response_without_either_field_lasts_until_close() {
    assert_eq!(response_framing(&response(200, ""), Method::Get), Ok(Framing::UntilClose));
    assert_eq!(response_framing(&response(404, ""), Method::Connect), Ok(Framing::UntilClose));
}

#[test]
fn answers_to_head_and_some_statuses_have_no_body_whatever_they_declare() {
    for fields in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        assert_eq!(response_framing(&response(200, fields), Method::Head), Ok(Framing::None));
        assert_eq!(response_framing(&response(200, fields), Method::Connect), Ok(Framing::None));
        for status in [100, 101, 103, 204, 304] {
            assert_eq!(
                response_framing(&response(status, fields), Method::Get),
                Ok(Framing::None),
                "{status}"
            );
        }
    }
}

#[test]
fn a_faulty_length_is_refused_even_where_there_is_no_body() {
    let head = response(200, "Content-Length: 5, 6\r\n");
    assert_eq!(response_framing(&head, Method::Head), Err(Malformed::ContentLengthInvalid));
}

#[test]
fn connections_persist_by_version_and_option() {
    for (fields, persists) in [
        ("HTTP/1.1\r\n", true),
        ("HTTP/1.1\r\nConnection: close\r\n", false),
        ("HTTP/1.1\r\nConnection: Foo, CLOSE\r\n", false),
        ("HTTP/1.1\r\nConnection: foo\r\nConnection: close\r\n", false),
        ("HTTP/1.1\r\nConnection: keep-alive\r\n", true),
        ("HTTP/1.1\r\nConnection: closed\r\n", true),
        ("HTTP/1.0\r\n", false),
        ("HTTP/1.0\r\nConnection: Keep-Alive\r\n", true),
        ("HTTP/1.0\r\nConnection: keep-alive, close\r\n", false),
        ("HTTP/1.0\r\nConnection: foo\r\n", false),
    ] {
        assert_eq!(keep_alive(&request(fields)), persists, "{fields:?}");
    }
}

#[test]
fn a_204_that_declares_a_body_does_not_persist() {
    assert!(keep_alive(&response(204, "")));
    assert!(keep_alive(&response(204, "Content-Length: 0\r\n")));
    assert!(!keep_alive(&response(204, "Content-Length: 5\r\n")));
    assert!(!keep_alive(&response(204, "Transfer-Encoding: chunked\r\n")));
    assert!(keep_alive(&response(304, "Content-Length: 5\r\n")));
}

fn stripped(fields: &str) -> Vec<String> {
    let mut head = request(&format!("HTTP/1.1\r\n{fields}"));
    strip_hop_by_hop(&mut head);
    head.fields().map(|field| String::from_utf8(field.name.to_vec()).unwrap()).collect()
}

#[test]
fn hop_by_hop_fields_and_proxy_are_removed() {
    let fields = "Host: a\r\nConnection: close\r\nKeep-Alive: 1\r\nProxy-Connection: x\r\nTE: trailers\r\n\
                  Trailer: x\r\nTransfer-Encoding: chunked\r\nUpgrade: x\r\nProxy: x\r\nAccept: b\r\n";
    assert_eq!(stripped(fields), ["Host", "Accept"]);
    assert_eq!(stripped("Upgrade: h2c\r\nA: b\r\n"), ["A"]);
}

#[test]
fn fields_named_in_connection_are_removed_in_any_case() {
    assert_eq!(stripped("Connection: X-One, close\r\nx-one: 1\r\nX-One: 2\r\nX-Two: 3\r\n"), ["X-Two"]);
    assert_eq!(
        stripped("Connection: close\r\nConnection: ,x-two ,, \r\nX-One: 1\r\nX-Two: 3\r\n"),
        ["X-One"]
    );
    assert_eq!(stripped("Connection: keep-alive, HTTP2-Settings\r\nHTTP2-Settings: x\r\nA: b\r\n"), ["A"]);
    assert_eq!(stripped("Connection: X-On\r\nX-One: 1\r\n"), ["X-One"]);
}

#[test]
fn naming_host_length_or_forwarding_fields_in_connection_does_not_remove_them() {
    let names = [
        "Host",
        "Content-Length",
        "X-Forwarded-For",
        "X-Real-IP",
        "Forwarded",
        "X-Request-ID",
        "User-Agent",
        "Referer",
    ];
    let fields: String = names.iter().map(|name| format!("{name}: 1\r\n")).collect();
    assert_eq!(stripped(&format!("Connection: {}\r\n{fields}", names.join(", "))), names);
}

#[test]
fn only_100_continue_is_an_expectation() {
    assert_eq!(expects_continue(&request("HTTP/1.1\r\n")), Ok(false));
    assert_eq!(expects_continue(&request("HTTP/1.1\r\nExpect: 100-Continue\r\n")), Ok(true));
    for value in ["", "200-ok", "100-continue, x", "100-continue;a"] {
        let rule = expects_continue(&request(&format!("HTTP/1.1\r\nExpect: {value}\r\n"))).unwrap_err();
        assert_eq!(rule.status(), 417, "{value:?}");
    }
    let mixed = request("HTTP/1.1\r\nExpect: 100-continue\r\nExpect: x\r\n");
    assert_eq!(expects_continue(&mixed), Err(Malformed::ExpectationUnsupported));
}

#[test]
fn an_expectation_in_http_1_0_is_ignored() {
    assert_eq!(expects_continue(&request("HTTP/1.0\r\nExpect: 100-continue\r\n")), Ok(false));
}

#[test]
fn an_upgrade_needs_the_connection_option_and_http_1_1() {
    let both = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(upgrade_to(&request(&format!("HTTP/1.1\r\n{both}"))), Some(&b"websocket"[..]));
    assert_eq!(upgrade_to(&request(&format!("HTTP/1.0\r\n{both}"))), None);
    assert_eq!(upgrade_to(&request("HTTP/1.1\r\nUpgrade: websocket\r\n")), None);
    assert_eq!(upgrade_to(&request("HTTP/1.1\r\nConnection: upgrade\r\n")), None);
    assert_eq!(upgrade_to(&request(&format!("HTTP/1.1\r\n{both}Upgrade: h2c\r\n"))), None);
}
