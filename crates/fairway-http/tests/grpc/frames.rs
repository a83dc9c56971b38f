//! gRPC-Web bodies with any split, compared with another base64 implementation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_http::grpc::{Decoder, Encoder, NotBase64, trailer_line, trailer_prefix};
use proptest::collection::vec;
use proptest::prelude::*;

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), message].concat()
}

/// Parts of `bytes` that end at these positions.
fn cut<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect()
}

fn encoded(is_text: bool, chunks: &[&[u8]]) -> (Vec<u8>, Encoder) {
    let (mut encoder, mut out) = (Encoder::new(is_text), Vec::new());
    for piece in chunks {
        let before = out.len();
        encoder
            .write::<()>(piece, |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        // As `room` promises; two bytes of the previous part may have waited.
        assert!(out.len() - before <= 2 * (piece.len() + 2), "{} of {}", out.len() - before, piece.len());
    }
    (out, encoder)
}

fn decoded(chunks: &[&[u8]]) -> Result<Vec<u8>, NotBase64> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for piece in chunks {
        decoder.read::<NotBase64>(piece, |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    if decoder.is_whole() { Ok(out) } else { Err(NotBase64) }
}

#[test]
fn each_frame_is_separate_base64_for_any_split_of_the_body() {
    let frames = [frame(b""), frame(b"a"), frame(b"ab"), frame(b"abc"), frame(&[7; 10_000])];
    let expected: String = frames.iter().map(|frame| STANDARD.encode(frame)).collect();
    let body = frames.concat();
    for cut in (0..40).chain([body.len() - 1, body.len()]) {
        let (text, encoder) = encoded(true, &[&body[..cut], &body[cut..]]);
        assert_eq!(text, expected.as_bytes(), "{cut}");
        assert!(encoder.is_between_frames());
        assert_eq!(encoded(false, &[&body[..cut], &body[cut..]]).0, body);
    }
}

#[test]
fn padded_parts_are_decoded_in_sequence_and_nothing_else_is_base64() {
    let text = b"YQ==YWI=YWJjYWJj";
    for cut in 0..text.len() {
        assert_eq!(decoded(&[&text[..cut], &text[cut..]]).unwrap(), b"aababcabc", "{cut}");
    }
    for wrong in
        ["Y", "YW", "YWJ", "=", "Y===", "YQ=a", "YW=J", "====", "YQ==Y", "YW J", "YWJ-", "YWJ\n", "YQ==="]
    {
        assert_eq!(decoded(&[wrong.as_bytes()]), Err(NotBase64), "{wrong}");
    }
}

#[test]
fn trailers_are_lines_in_lower_case_behind_their_length() {
    let mut lines = Vec::new();
    trailer_line(b"Grpc-Status", b"0", &mut lines);
    trailer_line(b"grpc-message", b"", &mut lines);
    assert_eq!(lines, b"grpc-status: 0\r\ngrpc-message: \r\n");
    assert_eq!(trailer_prefix(&lines), [0x80, 0, 0, 0, 32]);
}

#[test]
fn a_frame_is_under_way_from_its_first_byte_to_its_last() {
    let body = frame(b"ab");
    for cut in 0..=body.len() {
        let (_, encoder) = encoded(false, &[&body[..cut]]);
        assert_eq!(encoder.is_between_frames(), cut % body.len() == 0, "{cut}");
    }
}

proptest! {
    #[test]
    fn what_is_encoded_in_pieces_is_decoded_in_others(
        messages in vec(vec(any::<u8>(), 0..200), 0..8),
        (ours, theirs) in (vec(any::<usize>(), 0..10), vec(any::<usize>(), 0..10)),
    ) {
        let body: Vec<u8> = messages.iter().flat_map(|message| frame(message)).collect();
        let (text, _) = encoded(true, &cut(&body, &ours));
        let expected: String = messages.iter().map(|message| STANDARD.encode(frame(message))).collect();
        prop_assert_eq!(&text, expected.as_bytes());
        prop_assert_eq!(decoded(&cut(&text, &theirs)), Ok(body));
    }

    #[test]
    fn any_bytes_are_read_alike_in_any_pieces(text in "[A-Za-z0-9+/= ]{0,24}", cuts in vec(any::<usize>(), 0..6)) {
        let unsplit = decoded(&[text.as_bytes()]);
        prop_assert_eq!(decoded(&cut(text.as_bytes(), &cuts)), unsplit);
    }
}
