//! The rules between the fields of a message.

use fairway_http::{Head, Known, Method, Target, request_authority};

use super::*;
use crate::hpack::{Decoder, Encoder, StringCoding};
use crate::verdict::Defect;

const REQUEST: Message = Message::Request { extended: false };

/// The block of these fields.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        // Literally: an encoder would write names in lower case.
        out.extend([&[0, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat());
        assert!(value.len() < 127);
        out.extend([&[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat());
    }
    out
}

fn decode_block(message: Message, limits: Limits, block: &[u8]) -> (Head, BlockOutcome) {
    let mut head = Head::new();
    let mut intake = HeadBuilder::new(&mut head, message, limits);
    Decoder::new(4096).decode(block, |line| intake.add(line)).expect("a valid block");
    let outcome = intake.finish();
    (head, outcome)
}

fn read(message: Message, fields: &[(&str, &str)]) -> (Head, BlockOutcome) {
    decode_block(message, Limits::default(), &block(fields))
}

#[track_caller]
fn complete(message: Message, fields: &[(&str, &str)]) -> Head {
    let (head, outcome) = read(message, fields);
    assert!(matches!(outcome, BlockOutcome::Complete { .. }), "{outcome:?}");
    head
}

#[track_caller]
fn malformed(message: Message, fields: &[(&str, &str)], defect: Defect) {
    let (head, outcome) = read(message, fields);
    assert_eq!(outcome, BlockOutcome::Malformed(defect), "{fields:?}");
    assert_eq!((head.field_count(), head.target()), (0, &b""[..]), "nothing is kept");
}

fn lines(head: &Head) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    head.fields().map(|field| format!("{}: {}", text(field.name), text(field.value))).collect()
}

/// GET `/a` with additional fields.
fn get<'a>(extra_fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [
        &[(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/a?b")][..],
        extra_fields,
    ]
    .concat()
}

#[test]
fn a_request_becomes_a_head_with_host() {
    let head = complete(REQUEST, &get(&[("accept", "*/*")]));
    assert_eq!((head.method(), head.method_bytes(), head.target()), (Method::Get, &b"GET"[..], &b"/a?b"[..]));
    assert_eq!(lines(&head), ["Host: a.example", "accept: */*"]);
    let target = Target::parse(head.method(), head.target()).unwrap();
    assert_eq!(request_authority(&head, &target).unwrap().unwrap().host, "a.example");
    let reordered =
        [(":path", "/"), (":authority", "a"), (":method", "PURGE"), (":scheme", "http"), ("x", "y")];
    let head = complete(REQUEST, &reordered);
    assert_eq!((head.method_bytes(), head.target()), (&b"PURGE"[..], &b"/"[..]));
}

#[test]
fn rfc9113_8_3_1_host_is_replaced_by_authority_and_must_agree() {
    for host in ["a.example", "A.EXAMPLE", "a.example:443", "a.example:"] {
        assert_eq!(lines(&complete(REQUEST, &get(&[("host", host)]))), ["Host: a.example"], "{host}");
    }
    for host in ["b.example", "a.example:80", ""] {
        malformed(REQUEST, &get(&[("host", host)]), Defect::Host);
    }
    let alone = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "b")];
    assert_eq!(complete(REQUEST, &alone).first(Known::Host), Some(&b"b"[..]));
    malformed(REQUEST, &[&alone[..], &[("host", "b")]].concat(), Defect::Host);
    malformed(REQUEST, &get(&[("host", "u@a")]), Defect::Authority);
}

#[test]
fn rfc9113_8_3_pseudo_fields_are_first_once_known_and_complete() {
    malformed(REQUEST, &get(&[("x", "y"), (":path", "/")]), Defect::PseudoLate);
    malformed(REQUEST, &get(&[("host", "a.example"), (":protocol", "x")]), Defect::PseudoLate);
    for repeated in [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/a?b")]
    {
        malformed(REQUEST, &get(&[repeated]), Defect::PseudoRepeated);
    }
    malformed(REQUEST, &get(&[(":status", "200")]), Defect::PseudoUnknown);
    malformed(REQUEST, &get(&[(":x", "")]), Defect::PseudoUnknown);
    for missing in [0, 1, 3] {
        let mut fields = get(&[]);
        fields.remove(missing);
        malformed(REQUEST, &fields, Defect::PseudoMissing);
    }
    malformed(REQUEST, &[], Defect::PseudoMissing);
    malformed(Message::Trailers, &[(":path", "/")], Defect::PseudoInTrailers);
    malformed(Message::Response, &[("x", "y")], Defect::PseudoMissing);
    malformed(Message::Response, &[(":status", "200"), (":status", "200")], Defect::PseudoRepeated);
    malformed(Message::Response, &[(":status", "200"), (":path", "/")], Defect::PseudoUnknown);
    malformed(Message::Response, &[("x", "y"), (":status", "200")], Defect::PseudoLate);
}

#[test]
fn rfc9113_8_3_1_the_asterisk_is_for_options() {
    let request_with =
        |method| [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "*")];
    assert_eq!(complete(REQUEST, &request_with("OPTIONS")).target(), b"*");
    malformed(REQUEST, &request_with("GET"), Defect::Path);
}

#[test]
fn rfc9113_8_5_connect_has_only_an_authority() {
    let head = complete(REQUEST, &[(":method", "CONNECT"), (":authority", "a:1")]);
    assert_eq!((head.method(), head.target()), (Method::Connect, &b"a:1"[..]));
    let full = [(":method", "CONNECT"), (":authority", "a:1"), (":scheme", "http"), (":path", "/")];
    malformed(REQUEST, &full, Defect::Connect);
    malformed(REQUEST, &full[..3], Defect::Connect);
    malformed(REQUEST, &full[..1], Defect::PseudoMissing);
}

#[test]
fn rfc8441_4_protocol_needs_an_offer_connect_and_a_full_target() {
    let offered = Message::Request { extended: true };
    let full = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a"),
    ];
    let (head, outcome) = read(offered, &full);
    let BlockOutcome::Complete { protocol: Some(protocol), .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((head.text(protocol), head.target()), (&b"websocket"[..], &b"/chat"[..]));
    malformed(REQUEST, &full, Defect::Protocol);
    for missing in 2..5 {
        let mut fields = full.to_vec();
        fields.remove(missing);
        malformed(offered, &fields, Defect::PseudoMissing);
    }
    malformed(offered, &get(&[(":protocol", "websocket")]), Defect::Protocol);
}

#[test]
fn rfc9113_8_2_bad_fields_are_refused_in_any_message() {
    for (name, value, defect) in [
        ("Accept", "a", Defect::FieldName),
        ("x", "a\r\nb: c", Defect::FieldValue),
        ("x", " a", Defect::FieldValue),
        ("connection", "close", Defect::ConnectionField),
        ("transfer-encoding", "chunked", Defect::ConnectionField),
        ("te", "gzip", Defect::Te),
        ("content-length", "+1", Defect::ContentLength),
    ] {
        malformed(REQUEST, &get(&[(name, value)]), defect);
        malformed(Message::Response, &[(":status", "200"), (name, value)], defect);
        malformed(Message::Trailers, &[(name, value)], defect);
    }
    malformed(REQUEST, &get(&[("content-length", "1"), ("content-length", "1")]), Defect::ContentLength);
}

#[test]
fn rfc9113_8_2_3_crumbs_are_one_cookie() {
    let together = get(&[("cookie", "a=1"), ("cookie", "b=2"), ("x", "y")]);
    assert_eq!(lines(&complete(REQUEST, &together))[1..], ["cookie: a=1; b=2", "x: y"]);
    let scattered = get(&[
        ("cookie", "a=1"),
        ("x", "y"),
        ("cookie", "b=2"),
        ("cookie", "c=3"),
        ("z", "z"),
        ("cookie", "d=4"),
    ]);
    assert_eq!(lines(&complete(REQUEST, &scattered))[1..], ["x: y", "z: z", "cookie: a=1; b=2; c=3; d=4"]);
    assert_eq!(lines(&complete(REQUEST, &get(&[("cookie", "a")])))[1..], ["cookie: a"]);
    let empty = get(&[("cookie", ""), ("cookie", "a"), ("cookie", ""), ("x", "y"), ("cookie", "")]);
    assert_eq!(
        lines(&complete(REQUEST, &empty))[1..],
        ["cookie: a", "x: y"],
        "nothing is joined with nothing"
    );
    malformed(REQUEST, &get(&[("cookie", ""), (":path", "/")]), Defect::PseudoLate);
}

#[test]
fn a_response_has_its_status_and_usual_phrase() {
    let head = complete(Message::Response, &[(":status", "404"), ("server", "x")]);
    assert_eq!((head.status(), head.reason()), (404, &b"Not Found"[..]));
    assert_eq!(lines(&head), ["server: x"]);
    malformed(Message::Response, &[(":status", "101")], Defect::Status);
    malformed(Message::Response, &[(":status", "20")], Defect::Status);
}

#[test]
fn routing_and_framing_fields_are_removed_from_trailers() {
    let fields =
        [("grpc-status", "0"), ("content-length", "7"), ("host", "a"), ("cookie", "a"), ("date", "x")];
    assert_eq!(lines(&complete(Message::Trailers, &fields)), ["grpc-status: 0"]);
}

#[test]
fn the_length_is_reported() {
    let (_, outcome) = read(REQUEST, &get(&[("content-length", "17")]));
    assert_eq!(outcome, BlockOutcome::Complete { length: Some(17), protocol: None });
}

#[test]
fn a_list_is_bounded_by_bytes_with_32_for_each_field_and_by_fields() {
    let limits = Limits { list_bytes: 32 * 3 + 20, fields: 3 };
    let fields = [("a", "123456789"), ("b", "123456"), ("c", "12")];
    let fits = block(&fields);
    assert!(matches!(decode_block(Message::Trailers, limits, &fits).1, BlockOutcome::Complete { .. }));
    let over = Limits { list_bytes: limits.list_bytes - 1, ..limits };
    let (head, outcome) = decode_block(Message::Trailers, over, &fits);
    assert_eq!((outcome, head.field_count()), (BlockOutcome::TooLarge, 0));
    let fewer = Limits { fields: 2, ..limits };
    assert_eq!(decode_block(Message::Trailers, fewer, &fits).1, BlockOutcome::TooLarge);
    let crumbs = Limits { list_bytes: 1 << 20, fields: 128 };
    let block = [&block(&get(&[])), &[0x60, 1, b'a'][..], &[0xbe; 124]].concat();
    assert_eq!(
        decode_block(REQUEST, crumbs, &block).1,
        BlockOutcome::TooLarge,
        "129 fields, every crumb counted"
    );
    assert!(matches!(
        decode_block(REQUEST, crumbs, &block[..block.len() - 1]).1,
        BlockOutcome::Complete { .. }
    ));
}

#[test]
fn an_oversized_field_still_enters_the_table() {
    let mut decoder = Decoder::new(4096);
    let mut head = Head::new();
    let limits = Limits { list_bytes: 40, fields: 9 };
    let mut intake = HeadBuilder::new(&mut head, Message::Trailers, limits);
    let block = [&[0x40, 1, b'a', 100][..], &[b'x'; 100]].concat();
    decoder.decode(&block, |line| intake.add(line)).unwrap();
    assert_eq!(intake.finish(), BlockOutcome::TooLarge);
    let mut again = 0;
    decoder.decode(&[0xbe], |line| again = line.value().len()).unwrap();
    assert_eq!(again, 100);
}

#[test]
fn a_head_is_written_with_pseudo_fields_and_without_its_hop() {
    let mut head = Head::new();
    head.start_request(b"POST", b"/x");
    for (name, value) in [
        ("Host", "a"),
        ("X-A", "b"),
        ("Connection", "x"),
        ("Upgrade", "y"),
        ("TE", "trailers"),
        ("Proxy", "z"),
    ] {
        head.append(name.as_bytes(), value.as_bytes());
    }
    let (mut encoder, mut out) = (Encoder::new(StringCoding::Plain, 0), Vec::new());
    write_request(&head, head.target(), b"https", &mut encoder, &mut out);
    let (back, outcome) = decode_block(REQUEST, Limits::default(), &out);
    assert!(matches!(outcome, BlockOutcome::Complete { .. }));
    assert_eq!((back.method(), back.target()), (Method::Post, &b"/x"[..]));
    assert_eq!(lines(&back), ["Host: a", "x-a: b", "te: trailers"]);
    head.start_response(204);
    head.append(b"Server", b"s");
    out.clear();
    write_response(&head, &mut encoder, &mut out);
    let (back, _) = decode_block(Message::Response, Limits::default(), &out);
    assert_eq!((back.status(), lines(&back)), (204, vec!["server: s".to_owned()]));
    out.clear();
    write_trailers([(&b"Grpc-Status"[..], &b"0"[..])].into_iter(), &mut encoder, &mut out);
    assert_eq!(lines(&decode_block(Message::Trailers, Limits::default(), &out).0), ["grpc-status: 0"]);
}

#[test]
fn a_sensitive_field_stays_sensitive() {
    let block = [&[0x10, 1][..], b"a", &[1], b"b", &[0, 1], b"c", &[1], b"d"].concat();
    let (head, _) = decode_block(Message::Trailers, Limits::default(), &block);
    assert_eq!(head.marked_fields().map(|(_, sensitive)| sensitive).collect::<Vec<_>>(), [true, false]);
    let mut head = head;
    head.remove(b"c");
    let fields = head.marked_fields();
    let (mut encoder, mut out) = (Encoder::new(StringCoding::Plain, 4096), Vec::new());
    for (field, sensitive) in fields {
        encoder.write_field(field.name, field.value, sensitive, &mut out);
    }
    assert_eq!(out[0], 0x10, "never indexed again");
}
