//! A QPACK decoder with arbitrary input.

use fairway_http3::qpack::{Decoder, SectionResult};

/// The maximum memory of a decoder with a table of this capacity: its lines and entries, the start of an instruction,
/// and pending output.
fn most_memory(capacity: usize) -> usize {
    capacity * 16 + 64 * 1024
}

/// An encoder stream and sections. The first byte chooses the capacity of the table; then come parts, each preceded by
/// a byte for their kind and length. The split of the encoder stream must not change the meaning of the sections.
pub(crate) fn check(input: &[u8]) {
    let [first, rest @ ..] = input else { return };
    let capacity = usize::from(first & 7) * 512;
    let (mut whole, mut split) = (Decoder::new(capacity), Decoder::new(capacity));
    let mut rest = rest;
    let mut stream = 0;
    while let [kind, length, after @ ..] = rest {
        let (piece, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        if kind & 1 == 0 {
            let at_once = whole.receive(piece).map(|_| ());
            let in_bytes = piece.chunks(1).try_for_each(|byte| split.receive(byte).map(|_| ()));
            assert_eq!(at_once, in_bytes);
            if at_once.is_err() {
                return;
            }
        } else {
            let read = |decoder: &mut Decoder| {
                let mut fields = Vec::new();
                let result =
                    decoder.decode(stream, piece, |line| fields.push((line.bytes.to_vec(), line.sensitive)));
                (result, fields)
            };
            let (result, fields) = read(&mut whole);
            assert_eq!((result, fields.clone()), read(&mut split));
            match result {
                Ok(SectionResult::Blocked(required)) => {
                    assert!(required > whole.inserted() && fields.is_empty());
                    whole.cancel(stream);
                    split.cancel(stream);
                }
                Ok(SectionResult::Decoded) => {}
                Err(_) => return,
            }
            stream += 4;
        }
        for decoder in [&mut whole, &mut split] {
            let waiting = decoder.feedback().len();
            decoder.sent_feedback(waiting).expect("nothing waits");
            assert!(decoder.kept_bytes() <= most_memory(capacity), "{}", decoder.kept_bytes());
        }
    }
}
