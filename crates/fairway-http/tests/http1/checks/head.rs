//! Heads: canonical when written, the same for any split, and forwarded with the framing that was understood.

use fairway_http::http1::{
    Framing, HeadParser, Parsed, RequestHop, expects_continue, keep_alive, request_framing, response_framing,
    strip_hop_by_hop, upgrade_to, write_request, write_response,
};
use fairway_http::{Head, HeadLimits, Known, Malformed, Method, Target, Version, request_authority};

const LIMITS: HeadLimits = HeadLimits { head_bytes: 2048, fields: 70, line_bytes: 512 };

type Parse = fn(&mut HeadParser, &mut Head, &[u8], &HeadLimits) -> Result<Parsed, Malformed>;
type Write = fn(&Head, &mut Vec<u8>);

/// Any bytes as a request.
pub(crate) fn request(input: &[u8]) {
    let write: Write = |head, out| write_request(head, head.target(), &RequestHop::default(), out);
    let Some(mut head) = parsed(input, HeadParser::request, write) else { return };
    assert!(head.target().iter().all(u8::is_ascii_graphic) && !head.target().is_empty());
    if let Ok(target) = Target::parse(head.method(), head.target()) {
        agree_on_authority(&head, &target);
    }
    let framing = request_framing(&head);
    let (_, _, _) = (keep_alive(&head), expects_continue(&head), upgrade_to(&head).is_some());
    stripped(&mut head, framing, Framing::None, write);
}

/// Any bytes as a response.
pub(crate) fn response(input: &[u8]) {
    let write: Write = |head, out| write_response(head, Version::Http11, out);
    let Some(mut head) = parsed(input, HeadParser::response, write) else { return };
    assert!((100..=999).contains(&head.status()));
    let to_get = response_framing(&head, Method::Get);
    let to_head = response_framing(&head, Method::Head);
    assert_eq!(to_get.is_ok(), to_head.is_ok());
    assert!(to_head.is_err() || to_head == Ok(Framing::None));
    let _ = keep_alive(&head);
    stripped(&mut head, to_get, Framing::UntilClose, write);
}

fn parsed(input: &[u8], parse: Parse, write: Write) -> Option<Head> {
    let mut head = Head::new();
    let unsplit = parse(&mut HeadParser::new(), &mut head, input, &LIMITS);
    same_however_it_arrives(input, parse, write, &head, unsplit);
    let Ok(Parsed::Complete { consumed }) = unsplit else { return None };
    assert!(consumed <= input.len() && input[..consumed].ends_with(b"\r\n\r\n"));
    assert!(head.field_count() <= usize::from(LIMITS.fields));
    let text = written(&head, write);
    canonical(&text);
    let mut again = Head::new();
    let parsed = parse(&mut HeadParser::new(), &mut again, &text, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete { consumed: text.len() }), "{text:?}");
    // TE must be named as a connection option, and the writer does so.
    let te = head.status() == 0 && head.first(Known::Te).is_some();
    let added = te.then_some((&b"Connection"[..], &b"TE"[..]));
    let fields = head.fields().map(|field| (field.name, field.value)).chain(added);
    assert!(again.fields().map(|field| (field.name, field.value)).eq(fields));
    assert_eq!((again.method_bytes(), again.target()), (head.method_bytes(), head.target()));
    assert_eq!((again.status(), again.reason()), (head.status(), head.reason()));
    assert!(te || written(&again, write) == text);
    Some(head)
}

/// Parsing growing input gives the same head; what is refused as a whole is refused in parts, and nothing is accepted
/// early.
fn same_however_it_arrives(
    input: &[u8],
    parse: Parse,
    write: Write,
    whole_head: &Head,
    whole: Result<Parsed, Malformed>,
) {
    let step = 1 + input.first().map_or(0, |&byte| usize::from(byte % 7));
    let ends = (0..input.len()).step_by(step).chain([input.len()]);
    let (mut parser, mut head) = (HeadParser::new(), Head::new());
    for end in ends {
        match parse(&mut parser, &mut head, &input[..end], &LIMITS) {
            Ok(Parsed::Incomplete) => {}
            Ok(complete) => {
                assert_eq!(Ok(complete), whole);
                assert_eq!(written(&head, write), written(whole_head, write));
                return;
            }
            Err(_) => return assert!(whole.is_err(), "refused at {end}, whole {whole:?}"),
        }
    }
    assert!(!matches!(whole, Ok(Parsed::Complete { .. })), "never complete in pieces");
}

fn written(head: &Head, write: Write) -> Vec<u8> {
    let mut out = Vec::new();
    write(head, &mut out);
    out
}

/// A reader independent of this crate: lines end in CRLF, with no other CR, LF or NUL; each line is a token, `": "` and
/// a trimmed value.
fn canonical(text: &[u8]) {
    let text = text.strip_suffix(b"\r\n\r\n").expect("a head ends in an empty line");
    let mut lines = text.split(|&byte| byte == b'\n').peekable();
    let mut first = true;
    while let Some(line) = lines.next() {
        let line =
            if lines.peek().is_some() { line.strip_suffix(b"\r").expect("CR before LF") } else { line };
        assert!(!line.contains(&b'\r') && !line.contains(&0), "{line:?}");
        if !first {
            let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
            assert!(colon > 0 && line[..colon].iter().all(|byte| byte.is_ascii_graphic()));
            let value = line[colon + 1..].strip_prefix(b" ").expect("one space");
            assert_eq!(value, value.trim_ascii(), "{line:?}");
        }
        first = false;
    }
}

fn agree_on_authority(head: &Head, target: &Target<'_>) {
    match request_authority(head, target) {
        Ok(Some(authority)) => {
            assert!(!authority.host.is_empty());
            assert!(
                authority.host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\\"<>".contains(&byte))
            );
        }
        Ok(None) => assert!(head.first(Known::Host).is_none_or(<[u8]>::is_empty)),
        Err(rule) => assert_eq!(rule.status(), 400),
    }
}

/// Forwarded with the framing that was understood, a message has exactly that framing.
fn stripped(head: &mut Head, framing: Result<Framing, Malformed>, without: Framing, write: Write) {
    let Ok(framing) = framing else { return };
    strip_hop_by_hop(head);
    for known in [Known::Connection, Known::TransferEncoding, Known::Upgrade, Known::Te, Known::Proxy] {
        assert_eq!(head.first(known), None);
    }
    if framing == Framing::Chunked {
        head.set(b"Transfer-Encoding", b"chunked");
    }
    let text = written(head, write);
    let mut again = Head::new();
    let understood = if head.status() == 0 {
        HeadParser::new().request(&mut again, &text, &HeadLimits::default()).expect("canonical");
        request_framing(&again)
    } else {
        HeadParser::new().response(&mut again, &text, &HeadLimits::default()).expect("canonical");
        response_framing(&again, Method::Get)
    };
    assert!(understood == Ok(framing) || (framing == Framing::None && understood == Ok(without)));
}
