//! The rules for bodies, one test each.

use super::*;
use crate::Malformed;
use crate::http1::framing::Framing;

const LIMITS: BodyLimits = BodyLimits { chunk_line_bytes: 64, trailer_bytes: 64, extension_bytes: 200 };

struct Read {
    data: String,
    unread: String,
    trailers: Vec<(String, String)>,
}

fn read(framing: Framing, input: &str) -> Result<Read, Malformed> {
    let mut reader = BodyReader::new(framing, LIMITS);
    let (mut input, mut data) = (input.as_bytes(), Vec::new());
    loop {
        let (taken, part) = reader.next(input)?;
        match part {
            BodyPart::Data(bytes) => data.extend_from_slice(bytes),
            BodyPart::NeedMore => {
                assert_eq!(taken, input.len());
                reader.at_eof()?;
            }
            BodyPart::End => assert!(reader.is_done()),
        }
        input = &input[taken..];
        if part == BodyPart::End {
            break;
        }
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let trailers = reader.trailers().map(|(name, value)| (text(name), text(value))).collect();
    Ok(Read { data: text(&data), unread: text(input), trailers })
}

fn chunked(input: &str) -> Result<String, Malformed> {
    read(Framing::Chunked, input).map(|read| read.data)
}

#[track_caller]
fn refused(input: &str, rule: Malformed) {
    assert_eq!(chunked(input), Err(rule), "{input:?}");
}

#[test]
fn a_body_ends_where_its_length_says() {
    let body = read(Framing::Length(3), "abcGET").unwrap();
    assert_eq!((body.data.as_str(), body.unread.as_str()), ("abc", "GET"));
    for framing in [Framing::None, Framing::Length(0)] {
        assert!(BodyReader::new(framing, LIMITS).is_done());
        assert_eq!(read(framing, "GET").unwrap().unread, "GET");
    }
    let mut reader = BodyReader::new(Framing::Length(5), LIMITS);
    assert_eq!(reader.next(b"ab"), Ok((2, BodyPart::Data(b"ab"))));
    assert_eq!((reader.remaining(), reader.is_done()), (Some(3), false));
    assert_eq!(reader.at_eof(), Err(Malformed::Truncated));
}

#[test]
fn only_a_body_until_close_may_end_with_the_stream() {
    assert_eq!(read(Framing::UntilClose, "abc").unwrap().data, "abc");
    assert_eq!(read(Framing::Length(4), "abc").err(), Some(Malformed::Truncated));
    for cut in ["", "3", "3\r\n", "3\r\nab", "3\r\nabc", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "0\r\nA: b\r\n"]
    {
        refused(cut, Malformed::Truncated);
    }
}

#[test]
fn chunks_are_joined_and_following_bytes_left() {
    let body = read(Framing::Chunked, "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET").unwrap();
    assert_eq!((body.data.as_str(), body.unread.as_str()), ("abc0123456789", "GET"));
    assert_eq!(chunked("000a\r\n0123456789\r\n000\r\n\r\n").as_deref(), Ok("0123456789"));
}

#[test]
fn a_chunk_size_is_hexadecimal_digits_only() {
    for size in ["", "+3", "-3", "0x3", " 3", "g", "3g", "3 ", "3\t", "3,", "\"3\"", "3_0", "3.0", "\u{663}"]
    {
        refused(&format!("{size}\r\nabc\r\n0\r\n\r\n"), Malformed::ChunkSize);
    }
    refused(";a=b\r\nabc\r\n0\r\n\r\n", Malformed::ChunkSize);
    refused("3 ;a\r\nabc\r\n0\r\n\r\n", Malformed::ChunkSize);
    refused("\r\n3\r\nabc\r\n", Malformed::ChunkSize);
    refused("3\0\r\nabc\r\n", Malformed::ChunkSize);
}

#[test]
fn a_chunk_size_has_at_most_16_digits_and_cannot_overflow() {
    refused("00000000000000003\r\nabc\r\n0\r\n\r\n", Malformed::ChunkSize);
    refused("10000000000000003\r\nabc\r\n0\r\n\r\n", Malformed::ChunkSize);
    assert_eq!(chunked("0000000000000003\r\nabc\r\n0\r\n\r\n").as_deref(), Ok("abc"));
    let mut reader = BodyReader::new(Framing::Chunked, LIMITS);
    assert_eq!(reader.next(b"ffffffffffffffff\r\nabc"), Ok((21, BodyPart::Data(b"abc"))));
}

#[test]
fn a_chunk_line_and_chunk_data_end_in_crlf() {
    for input in [
        "3\nabc\r\n0\r\n\r\n",
        "3\rabc\r\n0\r\n\r\n",
        "3\r\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "0\n\n",
        "0\r0\r\n",
    ] {
        refused(input, Malformed::ChunkEnd);
    }
    refused("3;a\nabc\r\n0\r\n\r\n", Malformed::ChunkExtension);
}

#[test]
fn extensions_are_dropped_and_bounded() {
    assert_eq!(chunked("3;a=b;c=\"d e\"\r\nabc\r\n0;x\r\n\r\n").as_deref(), Ok("abc"));
    assert_eq!(chunked("3; a\t= b\r\nabc\r\n0\r\n\r\n").as_deref(), Ok("abc"));
    let line = |length: usize| format!("3;{}\r\nabc\r\n0\r\n\r\n", "a".repeat(length - 2));
    assert_eq!(chunked(&line(64)).as_deref(), Ok("abc"));
    refused(&line(65), Malformed::ChunkExtension);
    for byte in ["\0", "\x01", "\x7f", "\n"] {
        refused(&format!("3;a{byte}\r\nabc\r\n0\r\n\r\n"), Malformed::ChunkExtension);
    }
}

#[test]
fn extensions_are_bounded_in_all_and_data_pays_for_more() {
    let small = "1;234567890\r\na\r\n";
    assert!(chunked(&format!("{}0\r\n\r\n", small.repeat(18))).is_ok());
    refused(&format!("{}0\r\n\r\n", small.repeat(19)), Malformed::ChunkExtension);
    refused(&format!("{}0;end\r\n\r\n", small.repeat(18)), Malformed::ChunkExtension);
    let large = format!("0b0;4567890\r\n{}\r\n", "a".repeat(0xb0));
    assert!(chunked(&format!("{}0\r\n\r\n", large.repeat(1000))).is_ok());
    let less = format!("0a0;4567890\r\n{}\r\n", "a".repeat(0xa0));
    refused(&format!("{}0\r\n\r\n", less.repeat(1000)), Malformed::ChunkExtension);
    let without = "0000000000000001\r\na\r\n";
    assert!(chunked(&format!("{}0\r\n\r\n", without.repeat(1000))).is_ok());
}

#[test]
fn trailers_that_may_be_forwarded_are_kept() {
    let body = read(Framing::Chunked, "0\r\nGrpc-Status: 0\r\nX-Sum:  a b \t\r\nEmpty:\r\n\r\nGET").unwrap();
    let trailers: Vec<_> =
        body.trailers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(trailers, [("Grpc-Status", "0"), ("X-Sum", "a b"), ("Empty", "")]);
    assert_eq!(body.unread, "GET");
}

#[test]
fn trailers_for_framing_routing_authentication_and_one_hop_are_dropped() {
    for name in [
        "Transfer-Encoding",
        "content-length",
        "Host",
        "Trailer",
        "TE",
        "Connection",
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Cache-Control",
        "X-Forwarded-For",
        "Expect",
        "Range",
        "If-Match",
        "WWW-Authenticate",
        "Location",
        "Proxy-Authorization",
        "Upgrade",
    ] {
        let body = read(Framing::Chunked, &format!("0\r\nA: 1\r\n{name}: x\r\nB: 2\r\n\r\n")).unwrap();
        let names: Vec<_> = body.trailers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["A", "B"], "{name}");
    }
}

#[test]
fn a_trailer_section_is_strict_and_bounded() {
    for section in [
        "A: b\n\r\n",
        "A: b\r\r\n\r\n",
        "A: b\rc\r\n\r\n",
        "\n",
        "A : b\r\n\r\n",
        " A: b\r\n\r\n",
        ": b\r\n\r\n",
        "A\r\n\r\n",
        "A: b\0\r\n\r\n",
        "A: b\r\n c\r\n\r\n",
        "A: b\r\n\n",
        "A: \x0bb\r\n\r\n",
        "\rA: b\r\n\r\n",
    ] {
        refused(&format!("0\r\n{section}"), Malformed::TrailerInvalid);
    }
    let section = |length: usize| format!("0\r\nA: {}\r\n\r\n", "b".repeat(length - 5));
    assert!(chunked(&section(64)).is_ok());
    refused(&section(65), Malformed::TrailersTooLarge);
    // Dropped fields count as well.
    refused(&format!("0\r\n{}\r\n", "Host: 890123456\r\n".repeat(4)), Malformed::TrailersTooLarge);
}

fn written(framing: Framing, chunks: &[&str]) -> Result<String, Malformed> {
    let (mut writer, mut out) = (BodyWriter::new(framing), Vec::new());
    for piece in chunks {
        writer.write(piece.as_bytes(), &mut out)?;
    }
    let trailers: [(&[u8], &[u8]); 4] =
        [(b"A", b"b"), (b"Content-Length", b"5"), (b"C", b"d\r\ne"), (b"F g", b"h")];
    writer.finish(trailers.into_iter(), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn chunks_are_written_with_the_trailers_that_may_be_sent() {
    let text = written(Framing::Chunked, &["abc", "", "0123456789abcdef0"]);
    assert_eq!(text.as_deref(), Ok("3\r\nabc\r\n11\r\n0123456789abcdef0\r\n0\r\nA: b\r\n\r\n"));
}

#[test]
fn exactly_the_declared_length_is_written() {
    assert_eq!(written(Framing::Length(5), &["ab", "cde"]).as_deref(), Ok("abcde"));
    assert_eq!(written(Framing::Length(5), &["ab"]), Err(Malformed::Truncated));
    assert_eq!(written(Framing::Length(5), &["abc", "def"]), Err(Malformed::BodyTooLong));
    assert_eq!(written(Framing::None, &[]).as_deref(), Ok(""));
    assert_eq!(written(Framing::None, &["a"]), Err(Malformed::BodyTooLong));
    assert_eq!(written(Framing::UntilClose, &["a", "b"]).as_deref(), Ok("ab"));
}

#[test]
fn bytes_that_pass_by_the_buffer_are_counted() {
    let mut writer = BodyWriter::new(Framing::Length(5));
    assert!(writer.passes_through());
    assert_eq!(writer.passed(5), Ok(()));
    assert_eq!(writer.passed(1), Err(Malformed::BodyTooLong));
    assert_eq!(writer.finish(std::iter::empty(), &mut Vec::new()), Ok(()));
    assert!(BodyWriter::new(Framing::UntilClose).passes_through());
    assert!(!BodyWriter::new(Framing::Chunked).passes_through());
    assert_eq!(BodyWriter::new(Framing::Chunked).passed(1), Err(Malformed::BodyTooLong));
}

#[test]
fn nothing_is_written_after_the_end() {
    for framing in [Framing::Chunked, Framing::Length(0), Framing::UntilClose] {
        let (mut writer, mut out) = (BodyWriter::new(framing), Vec::new());
        writer.finish(std::iter::empty(), &mut out).unwrap();
        let end = out.len();
        assert_eq!(writer.write(b"a", &mut out), Err(Malformed::BodyTooLong));
        assert_eq!(writer.finish(std::iter::empty(), &mut out), Ok(()));
        assert_eq!(out.len(), end);
    }
}
