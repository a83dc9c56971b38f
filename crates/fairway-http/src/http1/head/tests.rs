//! The rules for heads, one test each.

use super::*;
use crate::bytes::{is_token, is_value_byte};
use crate::{FieldRef, Head, HeadLimits, Known, Malformed, Method, Version};

const LIMITS: HeadLimits = HeadLimits { head_bytes: 32 * 1024, fields: 100, line_bytes: 8 * 1024 };

fn request(text: &str) -> Result<Head, Malformed> {
    let mut head = Head::new();
    match HeadParser::new().request(&mut head, text.as_bytes(), &LIMITS)? {
        Parsed::Complete { consumed } => assert_eq!(consumed, text.len()),
        Parsed::Incomplete => panic!("incomplete: {text:?}"),
    }
    Ok(head)
}

fn response(text: &str) -> Result<Head, Malformed> {
    let mut head = Head::new();
    let parsed = HeadParser::new().response(&mut head, text.as_bytes(), &LIMITS)?;
    assert_eq!(parsed, Parsed::Complete { consumed: text.len() });
    Ok(head)
}

fn refused(text: &str) -> Malformed {
    request(text).expect_err(text)
}

fn lines(head: &Head) -> String {
    let mut out = Vec::new();
    match head.status() {
        0 => write_request(head, head.target(), &RequestHop::default(), &mut out),
        _ => write_response(head, Version::Http11, &mut out),
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_is_taken_apart_and_names_keep_their_spelling() {
    let head = request("POST /a?b HTTP/1.0\r\nhOsT: a\r\nX-Y:z\r\n\r\n").unwrap();
    assert_eq!(
        (head.method(), head.method_bytes(), head.target()),
        (Method::Post, &b"POST"[..], &b"/a?b"[..])
    );
    assert_eq!((head.version(), head.status(), head.reason()), (Version::Http10, 0, &b""[..]));
    let fields: Vec<_> = head.fields().collect();
    assert_eq!(fields[0], FieldRef { name: b"hOsT", value: b"a", known: Known::Host });
    assert_eq!(fields[1], FieldRef { name: b"X-Y", value: b"z", known: Known::Other });
}

#[test]
fn a_response_is_taken_apart() {
    let head = response("HTTP/1.1 404 Not Found\r\nServer: x\r\n\r\n").unwrap();
    assert_eq!((head.status(), head.reason(), head.target()), (404, &b"Not Found"[..], &b""[..]));
    assert_eq!(head.first(Known::Server), Some(&b"x"[..]));
    assert_eq!(response("HTTP/1.0 200\r\n\r\n").unwrap().reason(), b"");
    assert_eq!(response("HTTP/1.1 200 \r\n\r\n").unwrap().reason(), b"");
    assert_eq!(response("HTTP/1.1 200 \u{e9}\r\n\r\n").unwrap().reason(), b"");
    assert_eq!(response("HTTP/1.1 999 Odd\r\n\r\n").unwrap().status(), 999);
}

#[test]
fn a_status_line_of_another_shape_is_refused() {
    for text in ["ICY 200 OK\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n", " HTTP/1.1 200 OK\r\n\r\n"] {
        assert_eq!(response(text).err(), Some(Malformed::StatusLine), "{text:?}");
    }
    for line in [
        "HTTP/1.1 099 x",
        "HTTP/1.1 20 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1",
        "HTTP/1.1 +20 OK",
    ] {
        assert_eq!(response(&format!("{line}\r\n\r\n")).err(), Some(Malformed::StatusLine), "{line:?}");
    }
    assert_eq!(response("HTTP/2.0 200 OK\r\n\r\n").err(), Some(Malformed::UnsupportedVersion));
    assert!(response("HTTP/1.1 200 O\0K\r\n\r\n").is_err());
    assert_eq!(response("HTTP/1.1 200 OK\n\n").err(), Some(Malformed::BareLineFeed));
    assert_eq!(response("HTTP/1.1 200 OK\r\nA : b\r\n\r\n").err(), Some(Malformed::SpaceBeforeColon));
    assert_eq!(response("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n").err(), Some(Malformed::ObsFold));
}

#[test]
fn one_empty_line_before_a_request_is_skipped_and_counted() {
    assert!(request("\r\nGET / HTTP/1.1\r\n\r\n").is_ok());
    assert_eq!(refused("\r\n\r\nGET / HTTP/1.1\r\n\r\n"), Malformed::LeadingWhitespace);
    assert_eq!(refused("\nGET / HTTP/1.1\r\n\r\n"), Malformed::BareLineFeed);
    assert_eq!(refused("\r\n\nGET / HTTP/1.1\r\n\r\n"), Malformed::LeadingWhitespace);
    for space in [" ", "\t", "\r\n "] {
        assert_eq!(refused(&format!("{space}GET / HTTP/1.1\r\n\r\n")), Malformed::LeadingWhitespace);
    }
}

#[test]
fn unsupported_versions_are_505_and_invalid_ones_400() {
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0"] {
        let rule = refused(&format!("GET / {version}\r\n\r\n"));
        assert_eq!((rule, rule.status()), (Malformed::UnsupportedVersion, 505), "{version}");
    }
    assert_eq!(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status(), 505);
    for version in ["http/1.1", "HTTP/1", "HTTP/1.10", "HTTP/1.1 ", "HTTP/11", "HTTPS/1.1", "x HTTP/1.1", ""]
    {
        assert_eq!(refused(&format!("GET / {version}\r\n\r\n")), Malformed::RequestLine, "{version:?}");
    }
    assert_eq!(refused("GET /\r\n\r\n"), Malformed::RequestLine);
}

#[test]
fn a_request_line_of_another_shape_is_refused() {
    for line in [
        "GET  / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "G:T / HTTP/1.1",
        "GET",
        "GET / / HTTP/1.1",
        "\u{e9} / HTTP/1.1",
    ] {
        assert_eq!(refused(&format!("{line}\r\nHost: a\r\n\r\n")), Malformed::RequestLine, "{line:?}");
    }
    assert_eq!(refused("\x16\x03\x01\x02 \r\n\r\n"), Malformed::RequestLine);
}

#[test]
fn a_target_with_bytes_outside_of_ascii_is_refused() {
    assert_eq!(refused("GET /\u{e9} HTTP/1.1\r\n\r\n"), Malformed::TargetInvalid);
    let mut head = Head::new();
    assert_eq!(
        HeadParser::new().request(&mut head, b"GET /\xff HTTP/1.1\r\n\r\n", &LIMITS),
        Err(Malformed::TargetInvalid)
    );
    for byte in ["\0", "\x01", "\x7f", "\t", "\r"] {
        assert!(request(&format!("GET /{byte} HTTP/1.1\r\n\r\n")).is_err(), "{byte:?}");
    }
}

#[test]
fn every_line_ends_in_crlf() {
    for text in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\nB: c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost:\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\n\r\n",
        "GET / HTTP/1.1\r\n\n",
    ] {
        assert_eq!(refused(text), Malformed::BareLineFeed, "{text:?}");
    }
}

#[test]
fn a_bare_line_feed_is_refused_before_the_head_is_complete() {
    let mut head = Head::new();
    assert_eq!(
        HeadParser::new().request(&mut head, b"GET / HTTP/1.1\nHost", &LIMITS),
        Err(Malformed::BareLineFeed)
    );
    assert_eq!(
        HeadParser::new().request(&mut head, b"GET / HTTP/1.1\r\nHost: a\n\n", &LIMITS),
        Err(Malformed::BareLineFeed)
    );
}

#[test]
fn a_carriage_return_alone_is_refused() {
    for text in [
        "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\r\n\r\n",
        "GET / HTTP/1.1\r\nA\r: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\rA: b\r\n\r\n",
        "GET / HTTP/1.1\rA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n\r\r\n",
    ] {
        assert_eq!(refused(text), Malformed::BareCarriageReturn, "{text:?}");
    }
}

#[test]
fn a_nul_is_refused_wherever_it_stands() {
    for text in
        ["GET / HTTP/1.1\r\nA: b\0c\r\n\r\n", "GET / HTTP/1.1\r\nA\0: b\r\n\r\n", "GET /\0 HTTP/1.1\r\n\r\n"]
    {
        assert_eq!(refused(text), Malformed::Nul, "{text:?}");
    }
}

#[test]
fn a_folded_line_is_refused() {
    for text in [
        "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n",
        "GET / HTTP/1.1\r\n A: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA:\r\n Content-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n \r\n\r\n",
    ] {
        assert_eq!(refused(text), Malformed::ObsFold, "{text:?}");
    }
}

#[test]
fn white_space_before_the_colon_is_refused() {
    for space in [" ", "\t", "  "] {
        let text = format!("GET / HTTP/1.1\r\nContent-Length{space}: 1\r\n\r\n");
        assert_eq!(refused(&text), Malformed::SpaceBeforeColon);
    }
}

#[test]
fn names_are_tokens_and_not_empty() {
    assert_eq!(refused("GET / HTTP/1.1\r\n: b\r\n\r\n"), Malformed::EmptyFieldName);
    for line in ["A B: c", "A(: c", "A\u{e9}: c", "no colon", "A\x0b: c", "\"A\": c"] {
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{line}\r\n\r\n")), Malformed::FieldName, "{line:?}");
    }
    for byte in 0..=255u8 {
        let mut text = b"GET / HTTP/1.1\r\nA-".to_vec();
        text.push(byte);
        text.extend_from_slice(b"-long-enough-for-wide-instructions: b\r\n\r\n");
        let accepted = HeadParser::new().request(&mut Head::new(), &text, &LIMITS).is_ok();
        assert_eq!(accepted, is_token(&[byte]) || byte == b':', "{byte:#x}");
    }
}

#[test]
fn values_have_no_control_bytes_but_tab() {
    for byte in 0..=255u8 {
        let mut text = b"GET / HTTP/1.1\r\nA: long enough for wide instructions".to_vec();
        text.push(byte);
        text.extend_from_slice(b"and after it\r\n\r\n");
        let accepted = HeadParser::new().request(&mut Head::new(), &text, &LIMITS).is_ok();
        assert_eq!(accepted, is_value_byte(byte), "{byte:#x}");
    }
    assert_eq!(refused("GET / HTTP/1.1\r\nA: b\x01c\r\n\r\n"), Malformed::FieldValue);
    assert_eq!(refused("GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n"), Malformed::FieldValue);
}

#[test]
fn white_space_around_a_value_is_not_part_of_it() {
    for value in ["b", " b", "\tb", "  b \t", "b "] {
        let head = request(&format!("GET / HTTP/1.1\r\nA:{value}\r\nC: d\r\n\r\n")).unwrap();
        assert_eq!(lines(&head), "GET / HTTP/1.1\r\nA: b\r\nC: d\r\n\r\n", "{value:?}");
    }
    for value in ["", " ", "\t "] {
        let head = request(&format!("GET / HTTP/1.1\r\nA:{value}\r\n\r\n")).unwrap();
        assert_eq!(lines(&head), "GET / HTTP/1.1\r\nA: \r\n\r\n", "{value:?}");
    }
}

#[test]
fn a_tab_after_the_colon_does_not_leave() {
    let head = request("GET / HTTP/1.1\r\nA:\tb\r\nC: d\r\n\r\n").unwrap();
    assert_eq!(lines(&head), "GET / HTTP/1.1\r\nA: b\r\nC: d\r\n\r\n");
}

#[test]
fn a_request_line_over_the_limit_is_414_complete_or_not() {
    let limits = HeadLimits { line_bytes: 64, ..LIMITS };
    let line = |length: usize| format!("GET /{} HTTP/1.1", "a".repeat(length - 14));
    for (length, rule) in [(64, None), (65, Some(Malformed::StartLineTooLong))] {
        let text = format!("{}\r\nHost: a\r\n\r\n", line(length));
        assert_eq!(
            HeadParser::new().request(&mut Head::new(), text.as_bytes(), &limits).err(),
            rule,
            "{length}"
        );
        let text = format!("{}\r\n\r\n", line(length));
        assert_eq!(
            HeadParser::new().request(&mut Head::new(), text.as_bytes(), &limits).err(),
            rule,
            "{length}"
        );
        let part = format!("{}\r\nHost", line(length));
        assert_eq!(
            HeadParser::new().request(&mut Head::new(), part.as_bytes(), &limits).err(),
            rule,
            "{length}"
        );
    }
    let endless = "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(
        HeadParser::new().request(&mut Head::new(), endless.as_bytes(), &limits),
        Err(Malformed::StartLineTooLong)
    );
    assert_eq!(Malformed::StartLineTooLong.status(), 414);
}

#[test]
fn a_head_over_the_limit_is_431_complete_or_not() {
    let limits = HeadLimits { head_bytes: 100, ..LIMITS };
    let text = |length: usize| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(length - 23));
    assert!(HeadParser::new().request(&mut Head::new(), text(100).as_bytes(), &limits).is_ok());
    let large = text(101);
    for part in [101, 100] {
        let input = &large.as_bytes()[..part];
        assert_eq!(HeadParser::new().request(&mut Head::new(), input, &limits), Err(Malformed::HeadTooLarge));
    }
    assert_eq!(
        HeadParser::new().request(&mut Head::new(), &large.as_bytes()[..99], &limits),
        Ok(Parsed::Incomplete)
    );
    assert_eq!(Malformed::HeadTooLarge.status(), 431);
}

#[test]
fn bytes_after_a_head_do_not_count_for_its_limit() {
    let limits = HeadLimits { head_bytes: 100, ..LIMITS };
    let text = format!("GET / HTTP/1.1\r\n\r\n{}", "x".repeat(1000));
    assert_eq!(
        HeadParser::new().request(&mut Head::new(), text.as_bytes(), &limits),
        Ok(Parsed::Complete { consumed: 18 })
    );
}

#[test]
fn more_fields_than_the_limit_are_431() {
    for most in [0, 1, 63, 64, 65, 100, 300] {
        let limits = HeadLimits { fields: most, ..LIMITS };
        let text = |count: u16| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count.into()));
        let mut head = Head::new();
        assert!(HeadParser::new().request(&mut head, text(most).as_bytes(), &limits).is_ok(), "{most}");
        assert_eq!(head.field_count(), usize::from(most));
        assert_eq!(
            HeadParser::new().request(&mut head, text(most + 1).as_bytes(), &limits),
            Err(Malformed::TooManyFields)
        );
    }
    assert_eq!(Malformed::TooManyFields.status(), 431);
}

#[test]
fn a_connection_field_of_absurd_length_is_431() {
    let text = format!("GET / HTTP/1.1\r\nConnection: {}\r\n\r\n", "a,".repeat(600));
    assert_eq!(refused(&text), Malformed::ConnectionTooLong);
    let text = format!("GET / HTTP/1.1\r\n{}\r\n", format!("Connection:{}\r\n", "a,".repeat(300)).repeat(2));
    assert_eq!(refused(&text), Malformed::ConnectionTooLong);
}

#[test]
fn a_head_that_drips_in_is_parsed_again_only_at_line_ends() {
    let text = b"\r\nGET /abc HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\nrest";
    let (mut parser, mut head) = (HeadParser::new(), Head::new());
    for end in 0..text.len() - 4 {
        assert_eq!(parser.request(&mut head, &text[..end], &LIMITS), Ok(Parsed::Incomplete), "{end}");
    }
    let consumed = text.len() - 4;
    assert_eq!(parser.request(&mut head, text, &LIMITS), Ok(Parsed::Complete { consumed }));
    assert_eq!(head.named(b"b"), Some(&b"c"[..]));
    let next = b"GET / HTTP/1.1\r\n\r\n";
    assert_eq!(parser.request(&mut head, next, &LIMITS), Ok(Parsed::Complete { consumed: next.len() }));
    assert_eq!(head.field_count(), 0);
}

#[test]
fn fields_are_found_in_any_case_and_in_order() {
    let head = request("GET / HTTP/1.1\r\nCookie: a\r\nHOST: h\r\ncookie: b\r\n\r\n").unwrap();
    assert_eq!(head.named(b"COOKIE"), Some(&b"a"[..]));
    assert_eq!(head.named(b"host"), Some(&b"h"[..]));
    assert_eq!(head.named(b"date"), None);
    assert_eq!(head.all_named(b"Cookie").collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(head.all(Known::Host).collect::<Vec<_>>(), [b"h"]);
    assert_eq!(head.first(Known::Date), None);
}

#[test]
fn set_replaces_all_of_a_name_where_the_first_stood() {
    let mut head = request("GET / HTTP/1.1\r\nA: 1\r\nX: 2\r\nB: 3\r\nx: 4\r\nx: 5\r\n\r\n").unwrap();
    head.set(b"X", b"new");
    assert_eq!(lines(&head), "GET / HTTP/1.1\r\nA: 1\r\nX: new\r\nB: 3\r\n\r\n");
    head.set(b"Host", b"h");
    head.set(b"host", b"i");
    assert_eq!(lines(&head), "GET / HTTP/1.1\r\nA: 1\r\nX: new\r\nB: 3\r\nhost: i\r\n\r\n");
}

#[test]
fn removed_fields_may_be_added_again() {
    let mut head = request("GET / HTTP/1.1\r\nHost: 1\r\nX: 2\r\nhost: 3\r\nY: 4\r\n\r\n").unwrap();
    head.remove(b"HOST");
    head.remove(b"x");
    head.remove(b"absent");
    head.remove_known(Known::Other);
    assert_eq!(head.first(Known::Host), None);
    assert_eq!(lines(&head), "GET / HTTP/1.1\r\nY: 4\r\n\r\n");
    head.append(b"Host", b"again");
    assert_eq!(head.first(Known::Host), Some(&b"again"[..]));
}

#[test]
fn values_are_written_in_place() {
    let mut head = Head::new();
    head.start_request(b"PURGE", b"/x");
    head.append_with(b"A", |value| value.extend_from_slice(b"in place"));
    assert_eq!((head.method(), head.method_bytes()), (Method::Other, &b"PURGE"[..]));
    assert_eq!(lines(&head), "PURGE /x HTTP/1.1\r\nA: in place\r\n\r\n");
}

#[test]
fn line_breaks_and_nul_in_an_own_value_become_spaces() {
    let mut head = Head::new();
    head.start_response(302);
    head.append(b"Location", b"/a\r\nSet-Cookie: x\0y");
    assert_eq!(lines(&head), "HTTP/1.1 302 Found\r\nLocation: /a  Set-Cookie: x y\r\n\r\n");
}

#[test]
fn bytes_that_no_target_may_have_are_escaped_when_written() {
    let head = request("GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut out = Vec::new();
    write_request(&head, "/a b\r\nX: y\u{e9}".as_bytes(), &RequestHop::default(), &mut out);
    assert_eq!(out, b"GET /a%20b%0D%0AX:%20y%C3%A9 HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn requests_are_written_as_http_1_1_and_responses_in_the_requested_version() {
    let head = request("GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(lines(&head), "GET / HTTP/1.1\r\n\r\n");
    let mut reused = Head::new();
    reused.start_response(503);
    let mut out = Vec::new();
    write_response(&reused, Version::Http10, &mut out);
    assert_eq!(out, b"HTTP/1.0 503 Service Unavailable\r\n\r\n");
}

#[test]
fn a_head_is_reused_without_growing() {
    let text = b"GET /abc HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
    let mut head = Head::new();
    HeadParser::new().request(&mut head, text, &LIMITS).unwrap();
    let bytes = head.kept_bytes();
    for _ in 0..100 {
        HeadParser::new().request(&mut head, text, &LIMITS).unwrap();
    }
    assert_eq!(head.kept_bytes(), bytes);
}

#[test]
fn statuses_in_use_have_their_phrase() {
    for (status, phrase) in [
        (101, "Switching Protocols"),
        (204, "No Content"),
        (308, "Permanent Redirect"),
        (431, "Request Header Fields Too Large"),
        (504, "Gateway Timeout"),
        (599, ""),
        (299, ""),
    ] {
        let mut head = Head::new();
        head.start_response(status);
        assert_eq!(head.reason(), phrase.as_bytes());
    }
}
