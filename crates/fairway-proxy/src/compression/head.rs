//! Response heads and content codings: whether a response may be compressed, and how its head changes.

use fairway_http::grpc::Dialect;
use fairway_http::{Head, Known};
use fairway_model::ContentCoding;

/// Checksums of the content or the representation (RFC 9530, RFC 3230, RFC 1864), which a coding invalidates.
const DIGESTS: [&[u8]; 4] = [b"content-digest", b"repr-digest", b"digest", b"content-md5"];

/// The validator of a response; it may also be a trailer (RFC 9110 §8.8.3).
const ETAG: &[u8] = b"ETag";

/// Whether a coding invalidates this trailer.
pub(crate) fn is_invalidated(name: &[u8], value: &[u8]) -> bool {
    let is_strong = || name.eq_ignore_ascii_case(ETAG) && !value.starts_with(b"W/");
    DIGESTS.iter().any(|digest| digest.eq_ignore_ascii_case(name)) || is_strong()
}

/// Whether a response with this head and a body may be compressed.
pub(super) fn may_be_coded(response: &Head) -> bool {
    // The statuses of nginx's filter.
    if !matches!(response.status(), 200 | 403 | 404) {
        return false;
    }
    let is_coded =
        elements(response, b"Content-Encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    // "an intermediary [...] MUST NOT transform the content" (RFC 9111 §5.2.2.6).
    let is_fixed =
        elements(response, b"Cache-Control").any(|element| element.eq_ignore_ascii_case(b"no-transform"));
    !is_coded
        && !is_fixed
        && response.named(b"Content-Range").is_none()
        && response.all(Known::ContentType).all(|value| !is_stream(value))
}

/// The elements of a list, in all lines of a header.
fn elements<'h>(head: &'h Head, name: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
    let values = head.all_named(name).flat_map(|value| value.split(|byte| *byte == b','));
    values.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// Whether the body is a stream of events or messages, which must arrive at once and in their own frames.
fn is_stream(media_type: &[u8]) -> bool {
    let end = media_type.iter().position(|byte| *byte == b';').unwrap_or(media_type.len());
    let essence = media_type[..end].trim_ascii();
    essence.eq_ignore_ascii_case(b"text/event-stream") || Dialect::from_content_type(media_type).is_grpc()
}

/// Adds `Accept-Encoding` to `Vary`.
pub(super) fn vary_by_encoding(response: &mut Head) {
    const NAME: &[u8] = b"Vary";
    let says = |name: &[u8]| elements(response, NAME).any(|element| element.eq_ignore_ascii_case(name));
    if says(b"*") || says(b"accept-encoding") {
        return;
    }
    let mut value = Vec::new();
    for element in elements(response, NAME) {
        value.extend_from_slice(element);
        value.extend_from_slice(b", ");
    }
    value.extend_from_slice(b"Accept-Encoding");
    response.set(NAME, &value);
}

/// Sets the coding, and removes headers that only apply to the uncompressed body.
pub(super) fn set_coding(response: &mut Head, coding: ContentCoding) {
    response.remove_known(Known::ContentLength);
    for name in [&b"Content-Encoding"[..], b"Accept-Ranges"].into_iter().chain(DIGESTS) {
        response.remove(name);
    }
    weaken_etag(response);
    response.append(b"Content-Encoding", coding.name().as_bytes());
}

/// Weakens the validator: bodies with the same strong validator must be identical (RFC 9110 §8.8.1). As in nginx, an invalid or
/// repeated entity tag is removed.
fn weaken_etag(response: &mut Head) {
    let has_several = response.all_named(ETAG).nth(1).is_some();
    match response.named(ETAG).filter(|_| !has_several) {
        Some([b'W', b'/', ..]) => {}
        Some(strong @ [b'"', ..]) => {
            let weak = [b"W/", strong].concat();
            response.set(ETAG, &weak);
        }
        _ => response.remove(ETAG),
    }
}

/// Gives a 304 the weak form of its strong validator if the client asked with that: its stored response was compressed. With
/// the strong one it could combine ranges of different responses (RFC 9111 §4.3.4).
pub(crate) fn repeat_weak_etag(request: &Head, response: &mut Head) {
    let Some(strong @ [b'"', ..]) = response.named(ETAG) else { return };
    let weak = [b"W/", strong].concat();
    // Tags contain no quotation marks, so this cannot match a part of another tag.
    let is_weak = |known: &[u8]| known.windows(weak.len()).any(|tag| tag == weak);
    if request.all_named(b"If-None-Match").any(is_weak) {
        response.set(ETAG, &weak);
        vary_by_encoding(response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        head.start_response(status);
        fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        head
    }

    fn fields(head: &Head) -> Vec<(&str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        head.fields().map(|field| (text(field.name), text(field.value))).collect()
    }

    #[test]
    fn only_some_responses_may_be_coded() {
        for (status, expected) in [
            (200, true),
            (403, true),
            (404, true),
            (201, false),
            (203, false),
            (206, false),
            (304, false),
            (401, false),
            (500, false),
        ] {
            assert_eq!(may_be_coded(&head(status, &[])), expected, "{status}");
        }
        for (name, value, expected) in [
            ("Content-Type", "text/html", true),
            ("Content-Type", "text/event-stream", false),
            ("content-type", "Text/Event-Stream ; charset=utf-8", false),
            ("Content-Type", "application/grpc", false),
            ("Content-Type", "application/grpc+proto", false),
            ("Content-Type", "application/grpc-web-text", false),
            ("Content-Encoding", "identity", true),
            ("Content-Encoding", "", true),
            ("Content-Encoding", "Identity, identity", true),
            ("Content-Encoding", "gzip", false),
            ("content-encoding", "identity, br", false),
            ("Content-Range", "bytes 0-1/2", false),
            ("Cache-Control", "no-cache", true),
            ("Cache-Control", "max-age=1, No-Transform", false),
            ("Cache-Control", "private,no-transform", false),
            ("Cache-Control", "x-no-transform", true),
        ] {
            assert_eq!(may_be_coded(&head(200, &[(name, value)])), expected, "{name}: {value}");
        }
        let lines = [("Cache-Control", "private"), ("Cache-Control", "no-transform")];
        assert!(!may_be_coded(&head(200, &lines)), "every line counts");
    }

    #[test]
    fn vary_gets_the_name_once() {
        const OURS: &str = "Accept-Encoding";
        for (before, after) in [
            (&[][..], &[OURS][..]),
            (&["Origin"], &["Origin, Accept-Encoding"]),
            (&["Origin", "Cookie"], &["Origin, Cookie, Accept-Encoding"]),
            (&["", ","], &[OURS]),
            (&["*"], &["*"]),
            (&["Origin, *"], &["Origin, *"]),
            (&["accept-ENCODING"], &["accept-ENCODING"]),
            (&["Origin", "Accept-Encoding"], &["Origin", "Accept-Encoding"]),
            (&["X-Accept-Encoding"], &["X-Accept-Encoding, Accept-Encoding"]),
        ] {
            let mut response = head(200, &before.iter().map(|value| ("vary", *value)).collect::<Vec<_>>());
            vary_by_encoding(&mut response);
            let values: Vec<_> = fields(&response).into_iter().map(|(_, value)| value).collect();
            assert_eq!(values, after, "{before:?}");
        }
    }

    #[test]
    fn headers_about_the_uncompressed_body_are_removed() {
        let mut response = head(
            200,
            &[
                ("Content-Length", "5"),
                ("Accept-Ranges", "bytes"),
                ("Content-Encoding", "identity"),
                ("Content-MD5", "a"),
                ("Digest", "a"),
                ("content-digest", "a"),
                ("Repr-Digest", "a"),
                ("Last-Modified", "b"),
            ],
        );
        set_coding(&mut response, ContentCoding::Brotli);
        assert_eq!(fields(&response), [("Last-Modified", "b"), ("Content-Encoding", "br")]);
    }

    #[test]
    fn strong_validators_become_weak() {
        for (before, after) in [
            ("\"a\"", Some("W/\"a\"")),
            ("\"\"", Some("W/\"\"")),
            ("W/\"a\"", Some("W/\"a\"")),
            ("a", None),
            ("w/\"a\"", None),
        ] {
            let mut response = head(200, &[("etag", before)]);
            weaken_etag(&mut response);
            let values: Vec<_> = fields(&response).into_iter().map(|(_, value)| value).collect();
            assert_eq!(values.first().copied(), after, "{before}");
        }
        let mut response = head(200, &[("etag", "W/\"a\""), ("etag", "\"b\"")]);
        weaken_etag(&mut response);
        assert_eq!(fields(&response), [], "several are none");
    }
}
