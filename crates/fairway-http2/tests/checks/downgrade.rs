//! HTTP/2 requests written as HTTP/1, as a proxy does: exactly one request results, both for an independent reader and
//! for our own parser, with the method, target, fields and body that were received. Anything else is request smuggling.

use arbitrary::Unstructured;
use fairway_http::http1::{
    BodyLimits, BodyPart, BodyReader, BodyWriter, Framing, HeadParser, Parsed, RequestHop, request_framing,
    write_request,
};
use fairway_http::{Head, HeadLimits, Method};
use fairway_http2::frame::{FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind, write_frame};
use fairway_http2::{Config, Event, Server};

/// Names that matter for framing and routing, and others.
const NAMES: [&str; 27] = [
    ":method",
    ":scheme",
    ":path",
    ":authority",
    ":status",
    ":protocol",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "proxy",
    "expect",
    "cookie",
    "cookie",
    "x",
    "X",
    "x y",
    "x:",
    "x\r\ny",
    "http2-settings",
    "proxy-connection",
    "accept",
    "",
];

const VALUES: [&str; 30] = [
    "GET",
    "POST",
    "HEAD",
    "OPTIONS",
    "G ET",
    "https",
    "/",
    "*",
    "/a?b#c",
    "/ HTTP/1.1\r\nx: y",
    "//h/..",
    "a",
    "a:80",
    "u@a",
    "a b",
    "0",
    "3",
    "03",
    "+3",
    "3, 3",
    "18446744073709551616",
    "chunked",
    "close, x",
    "trailers",
    "a=b",
    " a",
    "a\nb: c",
    "a\0",
    "\u{e9}",
    "",
];

/// A request as it was sent and as it was understood.
#[derive(Default)]
struct Request {
    head: Head,
    length: Option<u64>,
    ended_at_once: bool,
    body: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    complete: bool,
}

/// Any bytes as the fields and the body of a request.
pub(crate) fn downgrade(input: &[u8]) {
    let mut choices = Unstructured::new(input);
    let Ok(sent) = frames(&mut choices) else { return };
    let Some(mut request) = understood(&sent) else { return };
    // The rest of a tunnel is not HTTP/1.
    if request.head.method() == Method::Connect {
        return;
    }
    let expected = expected_head(&request.head);
    let out = written(&mut request);
    one_by_our_parser(&out, &request, &expected);
    one_by_another(&out, &request, &expected);
}

/// A connection with one request: HEADERS, some DATA, perhaps trailers.
fn frames(choices: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    write_frame(FrameKind::Settings, 0, 0, &[], &mut out);
    write_frame(FrameKind::Settings, FLAG_ACK, 0, &[], &mut out);
    let mut block = Vec::new();
    if choices.ratio(7, 8)? {
        let method = *choices.choose(&[0x83, 0x83, 0x83, 0x82])?;
        block.extend_from_slice(&[method, 0x87, 0x84, 0x01, 1, b'a']);
    }
    fields(choices, &mut block)?;
    let chunks = choices.int_in_range(0..=3)?;
    let trailers = choices.ratio(1, 4)?;
    let end = |last: bool| if last { FLAG_END_STREAM } else { 0 };
    write_frame(FrameKind::Headers, FLAG_END_HEADERS | end(chunks == 0 && !trailers), 1, &block, &mut out);
    for piece in 0..chunks {
        let length = choices.int_in_range(0..=5)?;
        write_frame(
            FrameKind::Data,
            end(piece + 1 == chunks && !trailers),
            1,
            &b"0\r\n\r\n"[..length],
            &mut out,
        );
    }
    if trailers {
        let mut block = Vec::new();
        fields(choices, &mut block)?;
        write_frame(FrameKind::Headers, FLAG_END_HEADERS | FLAG_END_STREAM, 1, &block, &mut out);
    }
    Ok(out)
}

/// Literal fields, with names and values from the lists or arbitrary ones.
fn fields(choices: &mut Unstructured<'_>, block: &mut Vec<u8>) -> arbitrary::Result<()> {
    for _ in 0..choices.int_in_range(0..=5)? {
        block.push(0);
        for list in [&NAMES[..], &VALUES] {
            let ratio_fields: Vec<u8> = match choices.ratio(4, 5)? {
                true => choices.choose(list)?.as_bytes().to_vec(),
                false => choices.arbitrary_iter()?.take(20).collect::<arbitrary::Result<_>>()?,
            };
            block.push(ratio_fields.len() as u8);
            block.extend_from_slice(&ratio_fields);
        }
    }
    Ok(())
}

/// The server's result, unless it refuses the request.
fn understood(sent: &[u8]) -> Option<Request> {
    let mut server = Server::new(Config::default(), 0);
    let (mut at, mut head, mut request) = (0, Head::new(), None::<Request>);
    loop {
        let (used, event) = server.receive(0, &sent[at..], &mut head);
        at += used;
        let end = match event {
            Event::NeedMore => return request.filter(|request| request.complete),
            Event::Head { end, length, .. } => {
                assert!(request.is_none(), "one request");
                let head = std::mem::take(&mut head);
                request = Some(Request { head, length, ended_at_once: end, ..Request::default() });
                end
            }
            Event::Data { bytes, end, stream } => {
                request.as_mut()?.body.extend_from_slice(bytes);
                server.consume(stream, bytes.len() as u32);
                end
            }
            Event::Trailers { .. } => {
                let fields = head.fields().map(|field| (field.name.to_vec(), field.value.to_vec()));
                request.as_mut()?.trailers = fields.collect();
                true
            }
            _ => return None,
        };
        request.as_mut()?.complete = end;
    }
}

/// The request line and the fields that must be received, in order, names in any case.
struct ExpectedHead {
    line: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

fn expected_head(head: &Head) -> ExpectedHead {
    let line = [head.method_bytes(), b" ", head.target(), b" HTTP/1.1"].concat();
    ExpectedHead { line, fields: sorted(head.fields().map(|field| (field.name, field.value))) }
}

/// Without hop-by-hop fields.
fn sorted<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let for_one_hop: [&[u8]; 3] = [b"te", b"transfer-encoding", b"connection"];
    let lower = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    lower
        .filter(|(name, _)| !for_one_hop.contains(&&name[..]) && name != b"trailer" && name != b"proxy")
        .collect()
}

/// As written to an endpoint.
fn written(request: &mut Request) -> Vec<u8> {
    let framing = match (request.ended_at_once, request.length) {
        (true, _) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::Chunked,
    };
    let head = &mut request.head;
    head.remove_hop_by_hop();
    let (mut out, mut writer) = (Vec::new(), BodyWriter::new(framing));
    let hop = RequestHop { chunked: framing == Framing::Chunked, ..RequestHop::default() };
    write_request(head, head.target(), &hop, &mut out);
    for piece in request.body.chunks(4) {
        writer.write(piece, &mut out).expect("the body is as long as was said");
    }
    let trailers = request.trailers.iter().map(|(name, value)| (&name[..], &value[..]));
    writer.finish(trailers, &mut out).expect("the body is as long as was said");
    out
}

fn one_by_our_parser(out: &[u8], request: &Request, expected: &ExpectedHead) {
    let (mut head, limits) =
        (Head::new(), HeadLimits { head_bytes: 1 << 20, fields: 500, line_bytes: 1 << 20 });
    let parsed = HeadParser::new().request(&mut head, out, &limits);
    let Ok(Parsed::Complete { consumed }) = parsed else { panic!("{parsed:?}") };
    assert_eq!(expected_head(&head).line, expected.line);
    let framing = request_framing(&head).expect("one framing");
    let (mut reader, mut body) = (BodyReader::new(framing, BodyLimits::default()), Vec::new());
    let mut rest = &out[consumed..];
    while !reader.is_done() {
        let (taken, part) = reader.next(rest).expect("a body that holds");
        if let BodyPart::Data(bytes) = part {
            body.extend_from_slice(bytes);
        }
        assert!(taken > 0 || matches!(part, BodyPart::End), "the body is there");
        rest = &rest[taken..];
    }
    assert!(rest.is_empty() && body == request.body, "one request, and nothing behind it");
}

/// The strictest reader: everything is as RFC 9112 says, or it panics.
fn one_by_another(out: &[u8], request: &Request, expected: &ExpectedHead) {
    let end = out.windows(4).position(|four| four == b"\r\n\r\n").expect("the end of the head");
    let (head, mut rest) = (&out[..end], &out[end + 4..]);
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut line = || lines.next().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = line().expect("a request line");
    assert_eq!(first, expected.line);
    assert_eq!(first.iter().filter(|byte| **byte == b' ').count(), 2);
    let mut fields = Vec::new();
    while let Some(line) = line() {
        assert!(!line.iter().any(|byte| matches!(byte, b'\r' | 0)), "{line:?}");
        let colon = line.iter().position(|byte| *byte == b':').expect("a field");
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        assert!(!name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic()), "{line:?}");
        fields.push((name, value));
    }
    let all =
        |name: &[u8]| fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name)).collect::<Vec<_>>();
    let (lengths, codings) = (all(b"content-length"), all(b"transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "{lengths:?} and {codings:?}");
    assert!(all(b"host").len() <= 1);
    for name in [&b"connection"[..], b"upgrade", b"te", b"trailer", b"proxy"] {
        assert!(all(name).is_empty(), "{}", String::from_utf8_lossy(name));
    }
    let body = match (lengths.first(), codings.first()) {
        (Some((_, length)), _) => {
            let length: usize = str::from_utf8(length).expect("digits").parse().expect("a number");
            assert_eq!(rest.len(), length, "as many bytes as were said");
            std::mem::take(&mut rest).to_vec()
        }
        (None, Some((_, coding))) => {
            assert_eq!(*coding, b"chunked");
            unchunked(&mut rest)
        }
        (None, None) => Vec::new(),
    };
    assert_eq!(body, request.body);
    assert!(rest.is_empty(), "nothing behind the request");
    assert_eq!(sorted(fields.into_iter()), expected.fields);
}

/// A chunked body with its trailers.
fn unchunked(rest: &mut &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a line");
        let size = str::from_utf8(&rest[..end]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("a number");
        *rest = &rest[end + 2..];
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[..size]);
        assert_eq!(&rest[size..size + 2], b"\r\n");
        *rest = &rest[size + 2..];
    }
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("a line");
        let trailer = &rest[..end];
        *rest = &rest[end + 2..];
        if trailer.is_empty() {
            return body;
        }
        let name = trailer.split(|byte| *byte == b':').next().unwrap_or_default().to_ascii_lowercase();
        let framing: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"host", b"connection"];
        assert!(!framing.contains(&&name[..]), "{trailer:?}");
    }
}
