//! Chunked bodies: any split gives the same result, and so does writing them again.

use fairway_http::Malformed;
use fairway_http::http1::{BodyLimits, BodyPart, BodyReader, BodyWriter, Framing};

const LIMITS: BodyLimits = BodyLimits { chunk_line_bytes: 48, trailer_bytes: 256, extension_bytes: 512 };

/// The output may be longer: `a:b` becomes `a: b`.
const WRITTEN: BodyLimits = BodyLimits { trailer_bytes: 512, ..LIMITS };

#[derive(Debug, PartialEq)]
struct Body {
    data: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    consumed: usize,
}

/// Any bytes as a chunked body.
pub(crate) fn chunked(input: &[u8]) {
    let unsplit = read(input, input.len().max(1), LIMITS);
    for piece in [1, 2, 3, 7] {
        assert_eq!(read(input, piece, LIMITS), unsplit, "in pieces of {piece}");
    }
    let Ok(body) = unsplit else { return };
    let read_again = read(&written(&body), 5, WRITTEN).expect("what was written is valid");
    assert_eq!((&read_again.data, &read_again.trailers), (&body.data, &body.trailers));
    assert_eq!(strict(&input[..body.consumed]), Some(body.data), "another reader understands the same");
}

fn read(input: &[u8], chunk: usize, limits: BodyLimits) -> Result<Body, Malformed> {
    let mut reader = BodyReader::new(Framing::Chunked, limits);
    let (mut data, mut consumed) = (Vec::new(), 0);
    for piece in input.chunks(chunk) {
        let mut rest = piece;
        while !rest.is_empty() && !reader.is_done() {
            let (taken, part) = reader.next(rest)?;
            match part {
                BodyPart::Data(bytes) => {
                    assert!(!bytes.is_empty() && bytes == &rest[taken - bytes.len()..taken]);
                    data.extend_from_slice(bytes);
                }
                BodyPart::NeedMore => assert_eq!(taken, rest.len()),
                BodyPart::End => assert!(reader.is_done()),
            }
            rest = &rest[taken..];
            consumed += taken;
        }
    }
    reader.at_eof()?;
    assert_eq!(reader.next(b"x"), Ok((0, BodyPart::End)));
    let trailers = reader.trailers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    Ok(Body { data, trailers, consumed })
}

fn written(body: &Body) -> Vec<u8> {
    let (mut writer, mut out) = (BodyWriter::new(Framing::Chunked), Vec::new());
    for piece in body.data.chunks(11) {
        writer.write(piece, &mut out).expect("chunked has no length");
    }
    let trailers = body.trailers.iter().map(|(name, value)| (&name[..], &value[..]));
    writer.finish(trailers, &mut out).expect("chunked may end anywhere");
    out
}

/// The data according to a second, naive reader.
fn strict(mut input: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let end = input.windows(2).position(|pair| pair == b"\r\n")?;
        let line = str::from_utf8(input[..end].split(|&byte| byte == b';').next()?).ok()?;
        let size = usize::from_str_radix(line, 16).ok()?;
        input = &input[end + 2..];
        if size == 0 {
            return Some(data);
        }
        data.extend_from_slice(input.get(..size)?);
        input = input[size..].strip_prefix(b"\r\n")?;
    }
}
