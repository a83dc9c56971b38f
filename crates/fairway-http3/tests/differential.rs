//! Decodes the output of another implementation's QPACK encoder (`data/ls-qpack.txt`).

use fairway_http3::qpack::{Decoder, SectionResult};

/// A line of the file.
enum Entry<'a> {
    /// A new connection with this maximum table capacity.
    Connection(usize),
    /// Bytes of the encoder stream.
    Encoder(Vec<u8>),
    /// A section of a stream; its fields follow.
    Section(u64, Vec<u8>),
    /// A field, as `name: value`.
    Field(&'a str),
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn entry(line: &str) -> Entry<'_> {
    if let Some(field) = line.strip_prefix("  ") {
        return Entry::Field(field);
    }
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["connection", capacity] => Entry::Connection(capacity.parse().unwrap()),
        ["encoder", hex] => Entry::Encoder(bytes(hex)),
        ["section", stream, hex] => Entry::Section(stream.parse().unwrap(), bytes(hex)),
        _ => panic!("{line:?}"),
    }
}

#[test]
fn sections_of_ls_qpack_are_understood() {
    let mut decoder = Decoder::new(0);
    let (mut fields, mut sections, mut insertions) = (Vec::new().into_iter(), 0, 0);
    for line in include_str!("data/ls-qpack.txt").lines().skip(1) {
        if let Entry::Field(expected) = entry(line) {
            assert_eq!(fields.next().as_deref(), Some(expected));
            continue;
        }
        assert_eq!(fields.next(), None, "before {line}");
        match entry(line) {
            Entry::Connection(capacity) => {
                insertions += decoder.inserted();
                decoder = Decoder::new(capacity);
            }
            Entry::Encoder(instructions) => {
                decoder.receive(&instructions).unwrap();
            }
            Entry::Section(stream, section) => {
                let mut read = Vec::new();
                let result = decoder.decode(stream, &section, |line| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    read.push(format!("{}: {}", text(line.name()), text(line.value())));
                });
                assert_eq!(result, Ok(SectionResult::Decoded));
                fields = read.into_iter();
                sections += 1;
            }
            Entry::Field(_) => unreachable!("handled above"),
        }
    }
    insertions += decoder.inserted();
    assert_eq!(fields.next(), None);
    assert_eq!(sections, 81);
    assert!(insertions > 40, "{insertions}");
}
