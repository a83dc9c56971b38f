//! Encoding and decoding blocks: whatever tables both ends agree on and however they change, what is read equals what
//! was written, and sensitive fields stay sensitive.

use arbitrary::Unstructured;
use fairway_http2::hpack::{Decoder, Encoder, StringCoding};

const NAMES: [&str; 16] = [
    ":method",
    ":path",
    ":authority",
    "accept",
    "Content-Type",
    "cookie",
    "set-cookie",
    "authorization",
    "X-Api-Key",
    "x-request-id",
    "date",
    "x-same",
    "X-Same",
    "x-other",
    "www-authenticate",
    "x",
];

const VALUES: [&str; 10] =
    ["GET", "/", "", "a", "gzip, deflate", "b", "text/html", "*/*", "0123456789", "\u{0}\u{7f}\u{fffd}"];

/// A name, a value, and whether it is sensitive.
type Field = (Vec<u8>, Vec<u8>, bool);

/// Any bytes as consecutive blocks, with limits that change in between.
pub(crate) fn encode(input: &[u8]) {
    _ = blocks(&mut Unstructured::new(input));
}

fn blocks(choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let strings = *choices.choose(&[StringCoding::Plain, StringCoding::Huffman])?;
    let block_size = *choices.choose(&[0, 0, 100, 300, 4096, 60_000])?;
    let (mut encoder, mut decoder) = (Encoder::new(strings, block_size), Decoder::new(4096));
    while !choices.is_empty() {
        for _ in 0..choices.int_in_range(0..=7u8)?.saturating_sub(5) {
            let limit = *choices.choose(&[0, 1, 60, 100, 4095, 4096, 5000, 16_384, 1 << 20])?;
            decoder.set_limit(limit);
            encoder.set_limit(limit);
        }
        let fields: Vec<Field> =
            (0..choices.int_in_range(0..=12)?).map(|_| field(choices)).collect::<arbitrary::Result<_>>()?;
        let mut block = Vec::new();
        encoder.begin_block(&mut block);
        for (name, value, sensitive) in &fields {
            encoder.write_field(name, value, *sensitive, &mut block);
        }
        if choices.ratio(1, 10)? {
            encoder.release_memory();
            decoder.release_memory();
        }
        read(&mut decoder, &block, &fields);
        assert!(encoder.kept_bytes() <= 16 * 1024 && decoder.kept_bytes() <= 64 * 1024);
    }
    Ok(())
}

fn field(choices: &mut Unstructured<'_>) -> arbitrary::Result<Field> {
    let name = match choices.ratio(9, 10)? {
        true => choices.choose(&NAMES)?.as_bytes().to_vec(),
        false => vec![b'n'; choices.int_in_range(1..=300)?],
    };
    let value = match choices.int_in_range(0..=9)? {
        0..=6 => choices.choose(&VALUES)?.as_bytes().to_vec(),
        7 => vec![choices.arbitrary()?; choices.int_in_range(0..=5000)?],
        _ => choices.arbitrary_iter()?.take(40).collect::<arbitrary::Result<_>>()?,
    };
    Ok((name, value, choices.ratio(1, 10)?))
}

fn read(decoder: &mut Decoder, block: &[u8], fields: &[Field]) {
    let mut at = 0;
    let decoded = decoder.decode(block, |line| {
        let (name, value, sensitive) = &fields[at];
        assert_eq!((line.name(), line.value()), (&name.to_ascii_lowercase()[..], &value[..]));
        // A complete entry of the static table is no secret.
        assert!(!*sensitive || line.sensitive || is_static(name, value), "{name:?}");
        at += 1;
    });
    assert_eq!((decoded, at), (Ok(()), fields.len()));
}

fn is_static(name: &[u8], value: &[u8]) -> bool {
    value.is_empty() || (name, value) == (b":method", b"GET") || (name, value) == (b":path", b"/")
}
