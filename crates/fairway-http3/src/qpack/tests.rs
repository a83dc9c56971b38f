//! The examples of RFC 9204 Appendix B, invalid input as a table, and sections of a reference encoder that uses all
//! features.

use fairway_http2::hpack::{huffman, integer};

use super::*;
use crate::code::Code;

type Field = (Vec<u8>, Vec<u8>);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Option<Vec<Field>>, Code> {
    let mut fields = Vec::new();
    let result =
        decoder.decode(stream, section, |line| fields.push((line.name().to_vec(), line.value().to_vec())));
    match result {
        Ok(SectionResult::Decoded) => Ok(Some(fields)),
        Ok(SectionResult::Blocked(_)) => Ok(None),
        Err(fault) => Err(fault.code),
    }
}

fn field(name: &str, value: &str) -> Field {
    (name.into(), value.into())
}

fn feedback(decoder: &mut Decoder) -> Vec<u8> {
    let feedback = decoder.feedback().to_vec();
    decoder.sent_feedback(feedback.len()).unwrap();
    feedback
}

#[test]
fn rfc9204_b_examples() {
    let mut decoder = Decoder::new(220);
    // B.1: a literal with a static name.
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    assert_eq!(decode(&mut decoder, 0, &section), Ok(Some(vec![field(":path", "/index.html")])));
    assert_eq!(feedback(&mut decoder), []);
    // B.2: the dynamic table; the section of stream 4 arrives first.
    let section = bytes("0381 10 11");
    assert_eq!(decode(&mut decoder, 4, &section), Ok(None));
    decoder.receive(&bytes("3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d")).unwrap();
    assert_eq!(decode(&mut decoder, 4, &section), Ok(None));
    decoder.receive(&bytes("c10c 2f73 616d 706c 652f 7061 7468")).unwrap();
    let fields = vec![field(":authority", "www.example.com"), field(":path", "/sample/path")];
    assert_eq!(decode(&mut decoder, 4, &section), Ok(Some(fields)));
    assert_eq!(feedback(&mut decoder), [0x84]);
    // B.3: an insertion without a section.
    decoder.receive(&bytes("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565")).unwrap();
    assert_eq!(feedback(&mut decoder), [0x01]);
    // B.4: a duplicate, and relative indices.
    let section = bytes("0500 80 c1 81");
    assert_eq!(decode(&mut decoder, 8, &section), Ok(None));
    decoder.receive(&[0x02]).unwrap();
    let fields = vec![
        field(":authority", "www.example.com"),
        field(":path", "/"),
        field("custom-key", "custom-value"),
    ];
    assert_eq!(decode(&mut decoder, 8, &section), Ok(Some(fields)));
    decoder.cancel(8);
    assert_eq!(feedback(&mut decoder), [0x88, 0x48]);
    // B.5: an insertion that evicts the first entry.
    decoder.receive(&bytes("810d 6375 7374 6f6d 2d76 616c 7565 32")).unwrap();
    assert_eq!((feedback(&mut decoder), decoder.inserted()), (vec![0x01], 5));
    assert_eq!(decode(&mut decoder, 12, &bytes("0600 84")), Err(Code::QpackDecompression), "evicted");
    let fields = vec![field("custom-key", "custom-value2"), field(":path", "/sample/path")];
    assert_eq!(decode(&mut decoder, 12, &bytes("0600 80 83")), Ok(Some(fields)));
}

#[test]
fn bad_sections_are_errors_of_the_connection() {
    for (name, section) in [
        ("empty", ""),
        ("a prefix of one byte", "00"),
        ("an insert count over the range", "0f 00"),
        ("an insert count of 62 bits", "ff ff ff ff ff ff ff ff ff 7f 00"),
        ("a base below 0", "02 81"),
        ("a base below 0 without insertions", "00 80"),
        ("a static index of 99", "00 00 ff 24"),
        ("a static name of 99", "00 00 5f 54 00"),
        ("a dynamic field, but no insertions", "00 00 80"),
        ("a field behind Base, but no insertions", "00 00 10"),
        ("a dynamic name, but no insertions", "00 00 40 00"),
        ("a name behind Base, but no insertions", "00 00 00 00"),
        ("an index at the insert count", "02 00 10"),
        ("an index beyond the first entry", "02 00 81"),
        ("a base beyond the insert count, and an index there", "02 01 80"),
        ("a truncated index", "00 00 ff"),
        ("a truncated name", "00 00 23 61"),
        ("a missing value", "00 00 21 61"),
        ("a truncated value", "00 00 51 02 61"),
        ("an integer of more than 62 bits", "00 00 ff ff ff ff ff ff ff ff ff ff 7f"),
        ("a Huffman code with EOS", "00 00 51 84 ff ff ff ff"),
        ("Huffman padding of 8 bits", "00 00 51 82 1f ff"),
        ("Huffman padding of zeros", "00 00 51 81 18"),
        ("a Huffman name with bad padding", "00 00 29 00 00"),
    ] {
        let mut decoder = Decoder::new(220);
        decoder.receive(&bytes("3fbd01 c0 01 61")).unwrap();
        assert_eq!(decode(&mut decoder, 0, &bytes(section)), Err(Code::QpackDecompression), "{name}");
    }
    let mut without = Decoder::new(0);
    assert_eq!(decode(&mut without, 0, &bytes("01 00")), Err(Code::QpackDecompression), "no table");
    assert_eq!(decode(&mut without, 0, &bytes("00 00 d1")), Ok(Some(vec![field(":method", "GET")])));
}

#[test]
fn bad_encoder_instructions_are_errors_of_the_connection() {
    for (name, instructions) in [
        ("a capacity over the limit", "3f be01"),
        ("an insertion without capacity", "c0 01 61"),
        ("a duplicate of nothing", "3fbd01 00"),
        ("a duplicate of an evicted entry", "3fbd01 c0 01 61 20 00"),
        ("a name of nothing", "3fbd01 80 01 61"),
        ("a static name of 99", "3fbd01 ff 24 00"),
        ("an entry over the capacity", "3f 05 c0 01 61"),
        ("a string over every capacity", "3fbd01 c0 7f f2 06"),
        ("a literal name over every capacity", "3fbd01 5f d2 06"),
        ("an index of more than 62 bits", "3fbd01 1f ff ff ff ff ff ff ff ff 7f"),
        ("a capacity of more than 62 bits", "3f ff ff ff ff ff ff ff ff 7f"),
        ("a Huffman code with EOS", "3fbd01 c0 84 ff ff ff ff"),
        ("a Huffman name with bad padding", "3fbd01 61 00 00"),
    ] {
        for whole in [true, false] {
            let mut decoder = Decoder::new(220);
            let instructions = bytes(instructions);
            let size = if whole { instructions.len() } else { 1 };
            let result = instructions.chunks(size).try_for_each(|piece| decoder.receive(piece).map(|_| ()));
            let code = result.map_err(|fault| fault.code);
            assert_eq!(code, Err(Code::QpackEncoderStream), "{name}, whole: {whole}");
        }
    }
}

#[test]
fn unexpected_decoder_instructions_are_errors() {
    let read = |hex: &str| read_acknowledgment(&bytes(hex)).map_err(|fault| (fault.code, fault.rule));
    assert_eq!(read("44"), Ok((DecoderInstruction::Cancellation(4), 1)));
    assert_eq!(read("7f 05"), Ok((DecoderInstruction::Cancellation(68), 2)));
    assert_eq!(read("7f"), Ok((DecoderInstruction::Incomplete, 0)));
    for (hex, rule) in [
        ("84", "section_not_referring"),
        ("00", "increment_zero"),
        ("01", "increment_too_large"),
        ("7f ff ff ff ff ff ff ff ff ff", "decoder_integer"),
    ] {
        assert_eq!(read(hex), Err((Code::QpackDecoderStream, rule)));
    }
}

#[test]
fn unread_feedback_is_bounded() {
    let mut decoder = Decoder::new(220);
    let overload = (0..10_000u64).find(|stream| {
        decoder.cancel(stream * 4);
        decoder.sent_feedback(0).is_err()
    });
    assert!(overload.is_some_and(|stream| stream > 1_000));
}

#[test]
fn a_never_indexed_field_is_sensitive_and_stays_so() {
    for section in ["00 00 31 61 01 62", "00 00 7f 45 01 62", "02 80 08 01 62", "02 00 60 01 62"] {
        let mut decoder = Decoder::new(220);
        decoder.receive(&bytes("3fbd01 c0 01 61")).unwrap();
        let mut sensitive = Vec::new();
        decoder.decode(0, &bytes(section), |line| sensitive.push(line.sensitive)).unwrap();
        assert_eq!(sensitive, [true], "{section}");
    }
    for name in [&b"authorization"[..], b"x-own"] {
        let mut out = Vec::new();
        Encoder::begin_section(&mut out);
        Encoder::field(name, b"", true, &mut out);
        let mut fields = Vec::new();
        let mut take =
            |line: fairway_http2::hpack::Line<'_>| fields.push((line.name().to_vec(), line.sensitive));
        Decoder::new(0).decode(0, &out, &mut take).unwrap();
        assert_eq!(fields, [(name.to_vec(), true)]);
    }
}

#[test]
fn encoded_fields_are_decoded_in_lower_case() {
    let fields = [
        field(":status", "200"),
        field("Content-Type", "text/plain"),
        field("content-type", "text/x"),
        field("X-Frame-Options", "deny"),
        field("X-Own", "a\u{e9}"),
        field("server", ""),
        (vec![b'n'; 300], vec![b'v'; 20_000]),
    ];
    let mut out = Vec::new();
    Encoder::begin_section(&mut out);
    for (name, value) in &fields {
        Encoder::field(name, value, false, &mut out);
    }
    let lower = fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).to_vec();
    assert_eq!(decode(&mut Decoder::new(0), 0, &out), Ok(Some(lower)));
    for status in [100, 103, 200, 204, 206, 302, 404, 418, 503, 599] {
        let mut out = vec![0, 0];
        Encoder::status(status, &mut out);
        let field = field(":status", &status.to_string());
        assert_eq!(decode(&mut Decoder::new(0), 0, &out), Ok(Some(vec![field])));
    }
}

/// An encoder that chooses at random among everything RFC 9204 allows, with its own model of the table.
struct Reference {
    random: fastrand::Rng,
    capacity: usize,
    /// All entries ever inserted.
    entries: Vec<Field>,
    /// How many of them were evicted.
    evicted: usize,
}

impl Reference {
    fn size(field: &Field) -> usize {
        field.0.len() + field.1.len() + 32
    }

    fn used(&self) -> usize {
        self.entries[self.evicted..].iter().map(Reference::size).sum()
    }

    fn text(&mut self, text: &[u8], bits: u32, high: u8, out: &mut Vec<u8>) {
        if self.random.bool() {
            integer::write(text.len() as u64, bits, high, out);
            out.extend_from_slice(text);
        } else {
            integer::write(huffman::encoded_len(text) as u64, bits, high | 1 << bits, out);
            huffman::encode(text, out);
        }
    }

    fn some_field(&mut self) -> Field {
        let name =
            *self.random.choice([":path", "cookie", "x-a", "x-b", "server", "content-type"].iter()).unwrap();
        let length = if self.random.u8(..) < 8 { 300 } else { self.random.usize(0..12) };
        (name.into(), std::iter::repeat_with(|| self.random.lowercase() as u8).take(length).collect())
    }

    /// Appends an instruction if one is allowed: entries from `pinned` on must not be evicted.
    fn instruct(&mut self, pinned: usize, out: &mut Vec<u8>) {
        let live = self.entries.len() - self.evicted;
        let relative = (live > 0).then(|| self.random.usize(0..live));
        let (entry, duplicate) = match relative {
            Some(at) if self.random.u8(..) < 60 => (self.entries[self.entries.len() - 1 - at].clone(), true),
            _ => (self.some_field(), false),
        };
        if Reference::size(&entry) > self.capacity {
            return;
        }
        let (mut evicted, mut used) = (self.evicted, self.used());
        while used + Reference::size(&entry) > self.capacity {
            used -= Reference::size(&self.entries[evicted]);
            evicted += 1;
        }
        if evicted > pinned {
            return;
        }
        let same_name = (self.evicted..self.entries.len()).find(|at| self.entries[*at].0 == entry.0);
        match (relative, same_name, fixed::find(&entry.0, b"no such value")) {
            (Some(at), _, _) if duplicate => integer::write(at as u64, 5, 0, out),
            (_, Some(at), _) if self.random.bool() => {
                integer::write((self.entries.len() - 1 - at) as u64, 6, 0x80, out);
                self.text(&entry.1, 7, 0, out);
            }
            (_, _, fixed::StaticMatch::Name(index)) if self.random.bool() => {
                integer::write(index as u64, 6, 0xc0, out);
                self.text(&entry.1, 7, 0, out);
            }
            _ => {
                self.text(&entry.0, 5, 0x40, out);
                self.text(&entry.1, 7, 0, out);
            }
        }
        self.evicted = evicted;
        self.entries.push(entry);
    }

    /// Appends a field that refers to the entry at this absolute index, or to its name.
    fn refer(&mut self, at: usize, base: usize, fields: &mut Vec<Field>, out: &mut Vec<u8>) {
        let is_complete = self.random.bool();
        match (is_complete, at < base) {
            (true, true) => integer::write((base - 1 - at) as u64, 6, 0x80, out),
            (true, false) => integer::write((at - base) as u64, 4, 0x10, out),
            (false, true) => integer::write((base - 1 - at) as u64, 4, 0x40, out),
            (false, false) => integer::write((at - base) as u64, 3, 0, out),
        }
        let mut field = self.entries[at].clone();
        if !is_complete {
            field.1 = self.some_field().1;
            self.text(&field.1, 7, 0, out);
        }
        fields.push(field);
    }

    /// A section, its fields, and the insertions it needs.
    fn section(&mut self, max_entries: usize) -> (Vec<u8>, Vec<Field>, usize) {
        let (mut fields, mut lines) = (Vec::new(), Vec::new());
        let live: Vec<usize> = (self.evicted..self.entries.len()).collect();
        let limit = self.random.usize(0..6);
        let referred: Vec<usize> = live.into_iter().filter(|_| self.random.u8(..) < 90).take(limit).collect();
        let required = referred.iter().max().map_or(0, |at| at + 1);
        let base = if required == 0 { 0 } else { self.random.usize(0..required + 3) };
        for at in referred {
            self.refer(at, base, &mut fields, &mut lines);
            let literal = self.some_field();
            self.text(&literal.0, 3, 0x20, &mut lines);
            self.text(&literal.1, 7, 0, &mut lines);
            fields.push(literal);
        }
        let mut section = Vec::new();
        let encoded = if required == 0 { 0 } else { required % (2 * max_entries) + 1 };
        integer::write(encoded as u64, 8, 0, &mut section);
        if base >= required {
            integer::write((base - required) as u64, 7, 0, &mut section);
        } else {
            integer::write((required - base - 1) as u64, 7, 0x80, &mut section);
        }
        section.extend(lines);
        (section, fields, required)
    }
}

#[test]
fn a_reference_encoder_is_understood_whatever_it_uses() {
    let seed = std::env::var("SEED").map_or(20_261_130, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    for round in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed ^ round);
        let max_capacity = random.usize(64..2_000);
        let capacity = random.usize(32..=max_capacity);
        let mut decoder = Decoder::new(max_capacity);
        let mut encoder = Reference { random, capacity, entries: Vec::new(), evicted: 0 };
        let mut stream = Vec::new();
        integer::write(capacity as u64, 5, 0x20, &mut stream);
        for id in 0..200 {
            // What was not received cannot be evicted (RFC 9204 §2.1.1).
            let received = encoder.entries.len();
            for _ in 0..encoder.random.usize(0..5) {
                encoder.instruct(received, &mut stream);
            }
            let (section, fields, required) = encoder.section(max_capacity / 32);
            // The instructions arrive in parts of any size, with the section before or between them.
            let mut rest = &stream[..];
            while !rest.is_empty() {
                if decoder.inserted() < required as u64 {
                    assert_eq!(decode(&mut decoder, id, &section), Ok(None), "round {round}, stream {id}");
                }
                let (piece, after) = rest.split_at(encoder.random.usize(1..=rest.len()));
                decoder.receive(piece).unwrap();
                rest = after;
            }
            stream.clear();
            assert_eq!(decoder.inserted(), encoder.entries.len() as u64);
            assert_eq!(decode(&mut decoder, id, &section), Ok(Some(fields)), "round {round}, stream {id}");
            assert!(decoder.kept_bytes() < 64 * 1024);
            feedback(&mut decoder);
        }
    }
}
