//! Checks for any bytes as a gRPC-Web body: any split gives the same result, a second base64 reader agrees, and what is
//! written can be read again.

use fairway_http::grpc::{Decoder, Encoder, NotBase64};

/// Any bytes as a body; the first one determines the split.
pub(crate) fn grpc_web(input: &[u8]) {
    let Some((&cut, body)) = input.split_first() else { return };
    let chunk = usize::from(cut).max(1);
    let unsplit = decoded(body, body.len().max(1));
    assert_eq!(decoded(body, chunk), unsplit);
    assert_eq!(decoded(body, 1), unsplit);
    assert_eq!(unsplit.clone().ok(), naive(body));
    if let Ok(bytes) = unsplit {
        written(&bytes, chunk);
    }
    written(body, chunk);
}

/// Any bytes as messages: any split writes the same, and it decodes to the messages. A truncated frame leaves back less
/// than a group.
fn written(body: &[u8], chunk: usize) {
    let (text, between) = encoded(body, chunk, true);
    assert_eq!(encoded(body, body.len().max(1), true).0, text);
    assert_eq!(encoded(body, chunk, false).0, body);
    let read = decoded(&text, chunk).expect("what is written is base64");
    assert!(body.starts_with(&read) && body.len() - read.len() < 3);
    assert_eq!(between, ends_with_a_frame(body));
    assert!(!between || read.len() == body.len(), "nothing of a whole frame waits");
}

fn encoded(body: &[u8], chunk: usize, is_text: bool) -> (Vec<u8>, bool) {
    let (mut encoder, mut out) = (Encoder::new(is_text), Vec::new());
    for piece in body.chunks(chunk) {
        let before = out.len();
        let sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        encoder.write(piece, sink).expect("the sink takes all");
        assert!(out.len() - before <= 2 * (piece.len() + 2), "more than `room` promises");
    }
    (out, encoder.is_between_frames())
}

fn decoded(text: &[u8], chunk: usize) -> Result<Vec<u8>, NotBase64> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for piece in text.chunks(chunk) {
        decoder.read::<NotBase64>(piece, |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    if decoder.is_whole() { Ok(out) } else { Err(NotBase64) }
}

fn ends_with_a_frame(mut body: &[u8]) -> bool {
    while let [_, a, b, c, d, rest @ ..] = body {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        match rest.get(length..) {
            Some(next) => body = next,
            None => return false,
        }
    }
    body.is_empty()
}

/// Groups of four, each of which may be padded.
fn naive(text: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    for group in text.chunks(4) {
        let padding = group.iter().rev().take_while(|digit| **digit == b'=').count();
        if padding > 2 {
            return None;
        }
        let mut number = 0;
        for digit in &group[..4 - padding] {
            number = number << 6 | ALPHABET.iter().position(|other| other == digit)?;
        }
        let bytes = (number << (6 * padding)).to_be_bytes();
        out.extend_from_slice(&bytes[bytes.len() - 3..][..3 - padding]);
    }
    Some(out)
}
