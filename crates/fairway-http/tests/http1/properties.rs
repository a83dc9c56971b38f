//! Properties of generated messages: encoding after decoding is the identity, any split of the input gives the same
//! result, arbitrary bytes never panic.

use fairway_http::http1::{
    BodyLimits, BodyPart, BodyReader, BodyWriter, Framing, HeadParser, Parsed, RequestHop, write_request,
    write_response,
};
use fairway_http::{Head, HeadLimits, Version};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::http1::checks;

fn token() -> impl Strategy<Value = Vec<u8>> {
    "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}".prop_map(String::into_bytes)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![8 => 0x21..=0x7eu8, 1 => Just(b' '), 1 => Just(b'\t'), 1 => 0x80..=0xffu8];
    vec(byte, 0..40).prop_map(|bytes| bytes.trim_ascii().to_vec())
}

fn fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let known = proptest::sample::select(vec![
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "TE",
        "X-Real-IP",
    ]);
    vec((prop_oneof![3 => token(), 1 => known.prop_map(|name| name.as_bytes().to_vec())], value()), 0..20)
}

fn visible() -> impl Strategy<Value = Vec<u8>> {
    vec(0x21..=0x7eu8, 1..60)
}

/// Bytes similar enough to HTTP to get past the first checks.
fn nearly_http() -> impl Strategy<Value = Vec<u8>> {
    let chunks = vec![
        "GET",
        "POST",
        " ",
        "/",
        "HTTP/1.1",
        "HTTP/1.0",
        "200",
        "OK",
        "\r\n",
        "\n",
        "\r",
        ":",
        "Host",
        "a",
        "Content-Length",
        "5",
        "Transfer-Encoding",
        "chunked",
        "Connection",
        "close",
        ",",
        "\t",
        "\0",
        "%2e",
        "..",
        ".",
        "%",
        "0",
        "3\r\nabc\r\n",
        "0\r\n\r\n",
        ";",
        "GET / HTTP/1.1\r\n",
        "HTTP/1.1 200 OK\r\n",
        "Host: a\r\n",
        "\r\n\r\n",
        "\u{e9}",
        "//",
        "?",
        "#",
        "@",
    ];
    vec(proptest::sample::select(chunks), 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

/// The text of a head with this first line.
fn text(first: &[u8], fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut text = first.to_vec();
    for (name, value) in fields {
        text.extend([name, &b": "[..], value, b"\r\n"].concat());
    }
    text.extend(b"\r\n");
    text
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn a_written_request_is_the_request_that_was_parsed(method in token(), target in visible(), fields in fields()) {
        let first = [&method, &b" "[..], &target, b" HTTP/1.1\r\n"].concat();
        let request = text(&first, &fields);
        let (mut head, mut out) = (Head::new(), Vec::new());
        let parsed = HeadParser::new().request(&mut head, &request, &HeadLimits::default());
        prop_assert_eq!(parsed, Ok(Parsed::Complete { consumed: request.len() }));
        write_request(&head, head.target(), &RequestHop::default(), &mut out);
        // A sender of TE names it as a connection option (RFC 9110 §10.1.4).
        let mut written = fields;
        if written.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"TE")) {
            written.push((b"Connection".to_vec(), b"TE".to_vec()));
        }
        prop_assert_eq!(out, text(&first, &written));
    }

    #[test]
    fn a_written_response_is_the_response_that_was_parsed(status in 100..1000u16, fields in fields()) {
        let text = text(format!("HTTP/1.1 {status} Some reason\r\n").as_bytes(), &fields);
        let (mut head, mut out) = (Head::new(), Vec::new());
        let parsed = HeadParser::new().response(&mut head, &text, &HeadLimits::default());
        prop_assert_eq!(parsed, Ok(Parsed::Complete { consumed: text.len() }));
        write_response(&head, Version::Http11, &mut out);
        prop_assert_eq!(out, text);
    }

    #[test]
    fn a_head_that_was_built_is_the_head_that_is_parsed(fields in fields(), edits in fields()) {
        let (mut head, mut out) = (Head::new(), Vec::new());
        head.start_response(200);
        fields.iter().for_each(|(name, value)| head.append(name, value));
        for (at, (name, value)) in edits.iter().enumerate() {
            if at % 2 == 0 { head.set(name, value) } else { head.remove(name) }
        }
        write_response(&head, Version::Http11, &mut out);
        let mut parsed = Head::new();
        prop_assert!(HeadParser::new().response(&mut parsed, &out, &HeadLimits::default()).is_ok());
        prop_assert!(parsed.fields().eq(head.fields()));
    }

    #[test]
    fn edits_do_what_they_do_to_a_list(fields in fields(), at in any::<prop::sample::Index>(), new in value()) {
        prop_assume!(!fields.is_empty());
        let name = fields[at.index(fields.len())].0.clone();
        let is_other = |other: &[u8]| !other.eq_ignore_ascii_case(&name);
        let mut head = Head::new();
        head.start_response(200);
        fields.iter().for_each(|(name, value)| head.append(name, value));
        head.set(&name, &new);
        prop_assert_eq!(head.all_named(&name).collect::<Vec<_>>(), vec![&new[..]]);
        head.remove(&name);
        let actual: Vec<_> = head.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
        let expected: Vec<_> = fields.iter().filter(|(name, _)| is_other(name)).cloned().collect();
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn a_body_survives_any_framing_and_any_split(
        data in vec(any::<u8>(), 0..300), written in 1..50usize, read in 1..50usize, chunked in any::<bool>(),
    ) {
        let framing = if chunked { Framing::Chunked } else { Framing::Length(data.len() as u64) };
        let (mut writer, mut wire) = (BodyWriter::new(framing), Vec::new());
        for piece in data.chunks(written) {
            writer.write(piece, &mut wire).unwrap();
        }
        writer.finish([(&b"A"[..], &b"b"[..])].into_iter(), &mut wire).unwrap();
        let (mut reader, mut back) = (BodyReader::new(framing, BodyLimits::default()), Vec::new());
        for mut piece in wire.chunks(read) {
            while !piece.is_empty() {
                let (taken, part) = reader.next(piece).unwrap();
                if let BodyPart::Data(bytes) = part { back.extend_from_slice(bytes) }
                piece = &piece[taken..];
            }
        }
        prop_assert!(reader.is_done());
        prop_assert_eq!(back, data);
        prop_assert_eq!(reader.trailers().count(), usize::from(chunked));
    }

    #[test]
    fn arbitrary_bytes_hold_every_check(input in vec(any::<u8>(), 0..400)) {
        every_check(&input);
    }

    #[test]
    fn nearly_http_holds_every_check(input in nearly_http()) {
        every_check(&input);
        checks::request(&[b"GET / HTTP/1.1\r\n", &input[..], b"\r\n\r\n"].concat());
        checks::response(&[b"HTTP/1.1 200 OK\r\n", &input[..], b"\r\n\r\n"].concat());
        checks::chunked(&[b"0\r\n", &input[..], b"\r\n\r\n"].concat());
    }

    #[test]
    fn paths_hold_every_check(input in "[/.%a-c2eEfF05]{0,24}") {
        checks::path(format!("/{input}").as_bytes());
    }
}

fn every_check(input: &[u8]) {
    checks::request(input);
    checks::response(input);
    checks::chunked(input);
    checks::path(input);
}
