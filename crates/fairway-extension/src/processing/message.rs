//! Encodes messages to a service (`ProcessingRequest`) directly, without building them first, so that heads and bodies are copied
//! once. A test decodes them with the generated types.

use fairway_http::{Head, Known};

use super::event::{ExchangeFacts, Side, Trailers};
use crate::frame::{PREFIX_BYTES, set_length};

/// Tags of `ProcessingRequest` for the phases of a request; those of a response are one higher.
const HEADERS_TAG: u32 = 2;
const BODY_TAG: u32 = 4;
const TRAILERS_TAG: u32 = 6;

/// Tags of `HttpHeaders`, `HttpBody`, `HttpTrailers`, `HeaderMap` and `HeaderValue`.
const FIRST_FIELD: u32 = 1;
const SECOND_FIELD: u32 = 2;
const RAW_VALUE_FIELD: u32 = 3;

type Header<'a> = (&'a [u8], &'a [u8]);

/// Encodes the head of a request, followed by `extra` fields of the message.
pub(super) fn request_headers(
    head: &Head,
    facts: &ExchangeFacts<'_>,
    end_of_stream: bool,
    extra: &[&[u8]],
) -> Vec<u8> {
    let pseudo: [Option<Header<'_>>; 4] = [
        Some((b":method", head.method_bytes())),
        Some((b":path", facts.path)),
        facts.authority.map(|authority| (&b":authority"[..], authority)),
        Some((b":scheme", facts.scheme.as_bytes())),
    ];
    let mut headers = Vec::with_capacity(head.field_count() + pseudo.len());
    headers.extend(pseudo.into_iter().flatten());
    all_headers(Side::Request, headers, head, end_of_stream, extra)
}

/// Encodes the head of a response.
pub(super) fn response_headers(head: &Head, end_of_stream: bool, extra: &[&[u8]]) -> Vec<u8> {
    let status = head.status().to_string();
    let mut headers: Vec<Header<'_>> = Vec::with_capacity(head.field_count() + 1);
    headers.push((b":status", status.as_bytes()));
    all_headers(Side::Response, headers, head, end_of_stream, extra)
}

fn all_headers<'a>(
    side: Side,
    mut headers: Vec<Header<'a>>,
    head: &'a Head,
    end_of_stream: bool,
    extra: &[&[u8]],
) -> Vec<u8> {
    // `Host` is sent as `:authority`, and connection headers are of no use to the service.
    let left_out = match side {
        Side::Request => Known::HOP_BY_HOP | Known::Host.bit(),
        Side::Response => Known::HOP_BY_HOP,
    };
    let fields = head.fields().filter(|field| field.known.bit() & left_out == 0);
    headers.extend(fields.map(|field| (field.name, field.value)));
    let map = map_length(&headers);
    let content = field_length(map) + if end_of_stream { 2 } else { 0 };
    let mut message = begin_message(tag(HEADERS_TAG, side), content, extra);
    write_map(&headers, map, &mut message);
    if end_of_stream {
        // The third field of `HttpHeaders`.
        message.extend([3 << 3, 1]);
    }
    finish_message(message, extra)
}

/// Encodes a piece of a body.
pub(super) fn body(side: Side, chunk: &[u8], end_of_stream: bool, extra: &[&[u8]]) -> Vec<u8> {
    let bytes = if chunk.is_empty() { 0 } else { field_length(chunk.len()) };
    let mut message = begin_message(tag(BODY_TAG, side), bytes + if end_of_stream { 2 } else { 0 }, extra);
    if !chunk.is_empty() {
        write_field(FIRST_FIELD, chunk, &mut message);
    }
    if end_of_stream {
        message.extend([(SECOND_FIELD << 3) as u8, 1]);
    }
    finish_message(message, extra)
}

/// Encodes trailers.
pub(super) fn trailers(side: Side, trailers: &Trailers, extra: &[&[u8]]) -> Vec<u8> {
    let headers: Vec<Header<'_>> = trailers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let map = map_length(&headers);
    let mut message = begin_message(tag(TRAILERS_TAG, side), field_length(map), extra);
    write_map(&headers, map, &mut message);
    finish_message(message, extra)
}

fn tag(phase: u32, side: Side) -> u32 {
    phase + u32::from(side == Side::Response)
}

/// Reserves the prefix, and writes the key and length of the phase.
fn begin_message(tag: u32, content: usize, extra: &[&[u8]]) -> Vec<u8> {
    let extra: usize = extra.iter().map(|extra| extra.len()).sum();
    let mut message = Vec::with_capacity(PREFIX_BYTES + field_length(content) + extra);
    message.resize(PREFIX_BYTES, 0);
    write_key(tag, content, &mut message);
    message
}

fn finish_message(mut message: Vec<u8>, extra: &[&[u8]]) -> Vec<u8> {
    extra.iter().for_each(|extra| message.extend_from_slice(extra));
    set_length(&mut message);
    message
}

/// The size of a field with a one-byte tag and this much content.
fn field_length(content: usize) -> usize {
    1 + prost::length_delimiter_len(content) + content
}

fn value_length((name, value): Header<'_>) -> usize {
    field_length(name.len()) + if value.is_empty() { 0 } else { field_length(value.len()) }
}

fn map_length(headers: &[Header<'_>]) -> usize {
    headers.iter().map(|header| field_length(value_length(*header))).sum()
}

/// `HeaderMap`, as the first field.
fn write_map(headers: &[Header<'_>], length: usize, message: &mut Vec<u8>) {
    write_key(FIRST_FIELD, length, message);
    for &(name, value) in headers {
        write_key(FIRST_FIELD, value_length((name, value)), message);
        write_key(FIRST_FIELD, name.len(), message);
        message.extend(name.iter().map(u8::to_ascii_lowercase));
        if !value.is_empty() {
            write_field(RAW_VALUE_FIELD, value, message);
        }
    }
}

fn write_field(tag: u32, content: &[u8], message: &mut Vec<u8>) {
    write_key(tag, content.len(), message);
    message.extend_from_slice(content);
}

/// The key and length of a bytes field.
fn write_key(tag: u32, length: usize, message: &mut Vec<u8>) {
    debug_assert!(tag < 16, "its key is one byte");
    message.push(((tag << 3) | 2) as u8);
    prost::encode_length_delimiter(length, message).expect("a vector has room");
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::generated::processing_request::Request;
    use crate::generated::{HeaderMap, HttpBody, ProcessingRequest};

    fn decode(framed: &[u8]) -> ProcessingRequest {
        let length = u32::from_be_bytes(framed[1..5].try_into().unwrap());
        assert_eq!((framed[0], length as usize), (0, framed.len() - PREFIX_BYTES));
        ProcessingRequest::decode(&framed[PREFIX_BYTES..]).unwrap()
    }

    fn shown(map: Option<HeaderMap>) -> Vec<(String, String)> {
        let value = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
        map.unwrap().headers.into_iter().map(|header| (header.key, value(header.raw_value))).collect()
    }

    #[test]
    fn heads_are_sent_in_lower_case_without_connection_headers() {
        let mut head = Head::new();
        head.start_request(b"PUT", b"/other");
        let long = "v".repeat(300);
        let fields =
            [("Host", "x"), ("X-Long", &*long), ("TE", "trailers"), ("Empty", ""), ("Content-Length", "3")];
        fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        let facts = ExchangeFacts { path: b"/a", scheme: "http", authority: Some(b"a"), attributes: &[] };
        for end_of_stream in [false, true] {
            let message = decode(&request_headers(&head, &facts, end_of_stream, &[]));
            let Some(Request::RequestHeaders(headers)) = message.request else { panic!("no headers") };
            assert_eq!(headers.end_of_stream, end_of_stream);
            let expected = [
                (":method", "PUT"),
                (":path", "/a"),
                (":authority", "a"),
                (":scheme", "http"),
                ("x-long", &*long),
                ("empty", ""),
                ("content-length", "3"),
            ];
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(shown(headers.headers), expected);
        }
        head.start_response(404);
        head.append(b"Host", b"y");
        let message = decode(&response_headers(&head, false, &[]));
        let Some(Request::ResponseHeaders(headers)) = message.request else { panic!("no headers") };
        let expected = [(":status", "404"), ("host", "y")];
        assert_eq!(shown(headers.headers), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn bodies_and_trailers_are_sent_completely() {
        for (length, end_of_stream) in [(0, true), (0, false), (1, false), (70_000, true)] {
            let chunk = vec![b'x'; length];
            let message = decode(&body(Side::Response, &chunk, end_of_stream, &[]));
            let expected = Request::ResponseBody(HttpBody { body: chunk, end_of_stream });
            assert_eq!(message.request, Some(expected));
        }
        let list: Trailers = vec![(b"X-A"[..].into(), b"1"[..].into()), (b"b"[..].into(), b""[..].into())];
        let message = decode(&trailers(Side::Request, &list, &[]));
        let Some(Request::RequestTrailers(trailers)) = message.request else { panic!("no trailers") };
        let expected = [("x-a", "1"), ("b", "")];
        assert_eq!(
            shown(trailers.trailers),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
