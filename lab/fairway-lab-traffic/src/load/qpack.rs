//! The subset of QPACK (RFC 9204) that the generator uses: field sections of static-table entries and literals, without a
//! dynamic table. Responses are compared in encoded form; only numbers are decoded.

/// Why a field section is malformed.
pub(super) type Malformed = &'static str;

/// The prefix of a section without the dynamic table: Required Insert Count and Base are 0 (RFC 9204 §4.5.1).
const PREFIX: [u8; 2] = [0, 0];

/// Digits of the largest number decoded.
const MAX_DIGITS: usize = 20;

/// A name or value as encoded by the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text<'a> {
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

impl Text<'_> {
    /// Its value as a decimal number, if it is one (RFC 9110 §8.6).
    pub(super) fn number(self) -> Option<u64> {
        let mut digits = [0; MAX_DIGITS];
        let digits = match self {
            Text::Plain(plain) => plain,
            Text::Huffman(coded) => huffman::decode(coded, &mut digits)?,
        };
        let is_number = (1..=MAX_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        if !is_number {
            return None;
        }
        digits
            .iter()
            .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
    }
}

/// A text to search for, in plain and Huffman form.
pub(super) struct Needle {
    plain: Vec<u8>,
    huffman: Vec<u8>,
}

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        let mut coded = Vec::new();
        huffman::encode(text.as_bytes(), &mut coded);
        Self { plain: text.as_bytes().to_vec(), huffman: coded }
    }

    /// Whether `text` equals this one. The Huffman form of a text is unique (RFC 7541 §5.2).
    pub(super) fn matches(&self, text: Text<'_>) -> bool {
        match text {
            Text::Plain(plain) => plain == self.plain,
            Text::Huffman(coded) => coded == self.huffman,
        }
    }
}

/// Writes the prefix of a section.
pub(super) fn write_prefix(section: &mut Vec<u8>) {
    section.extend_from_slice(&PREFIX);
}

/// Appends a field to a section; the name must be lower case (RFC 9114 §4.2).
pub(super) fn push(section: &mut Vec<u8>, name: &str, value: &str) {
    let same_name = STATIC.iter().position(|(known, _)| *known == name);
    if let Some(index) = STATIC.iter().position(|known| *known == (name, value)) {
        push_integer(section, 0b1100_0000, 6, index);
        return;
    }
    match same_name {
        Some(index) => push_integer(section, 0b0101_0000, 4, index),
        None => push_text(section, 0b0010_0000, 3, name.as_bytes()),
    }
    push_text(section, 0, 7, value.as_bytes());
}

/// Parses a complete section field by field.
///
/// # Errors
/// The section is malformed or refers to the dynamic table, or `visit` fails.
pub(super) fn read<'a>(
    section: &'a [u8],
    mut visit: impl FnMut(Text<'a>, Text<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = section;
    if integer(&mut rest, 8)? != 0 {
        return Err("a field section needs a dynamic table that was not offered");
    }
    integer(&mut rest, 7)?;
    while let Some(&first) = rest.first() {
        let (name, value) = if first & 0b1000_0000 != 0 {
            let (name, value) = entry(&mut rest, first & 0b0100_0000 != 0, 6)?;
            (name, Text::Plain(value.as_bytes()))
        } else if first & 0b0100_0000 != 0 {
            let (name, _) = entry(&mut rest, first & 0b0001_0000 != 0, 4)?;
            (name, text(&mut rest, 7)?)
        } else if first & 0b0010_0000 != 0 {
            (text(&mut rest, 3)?, text(&mut rest, 7)?)
        } else {
            return Err(NO_DYNAMIC_TABLE);
        };
        visit(name, value)?;
    }
    Ok(())
}

const NO_DYNAMIC_TABLE: Malformed = "a field refers to a dynamic table that was not offered";

fn entry(rest: &mut &[u8], is_static: bool, bits: u32) -> Result<(Text<'static>, &'static str), Malformed> {
    let index = integer(rest, bits)?;
    if !is_static {
        return Err(NO_DYNAMIC_TABLE);
    }
    let known = usize::try_from(index).ok().and_then(|index| STATIC.get(index));
    let (name, value) = known.ok_or("a field refers to no entry of the static table")?;
    Ok((Text::Plain(name.as_bytes()), value))
}

/// A string whose length prefix has this many bits, after the Huffman bit (RFC 9204 §4.1.2).
fn text<'a>(rest: &mut &'a [u8], bits: u32) -> Result<Text<'a>, Malformed> {
    let is_coded = rest.first().is_some_and(|first| first & 1 << bits != 0);
    let length = integer(rest, bits)?;
    let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
    let (text, more) = rest.split_at(length.ok_or("a string is longer than its field section")?);
    *rest = more;
    Ok(if is_coded { Text::Huffman(text) } else { Text::Plain(text) })
}

/// An integer with a prefix of this many bits (RFC 7541 §5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<u64, Malformed> {
    const TRUNCATED_FIELD: Malformed = "a field section ends within a field";
    let (first, mut more) = rest.split_first().ok_or(TRUNCATED_FIELD)?;
    let mask = u64::from(u8::MAX >> (8 - bits));
    let mut number = u64::from(*first) & mask;
    if number == mask {
        // RFC 9204 §4.1.1: up to 62 bits.
        for shift in (0..=56).step_by(7) {
            let (byte, after) = more.split_first().ok_or(TRUNCATED_FIELD)?;
            more = after;
            number += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *rest = more;
                return Ok(number);
            }
        }
        return Err("an integer of more than 62 bits in a field section");
    }
    *rest = more;
    Ok(number)
}

fn push_integer(out: &mut Vec<u8>, flags: u8, bits: u32, number: usize) {
    let mask = u8::MAX >> (8 - bits);
    if number < usize::from(mask) {
        out.push(flags | number as u8);
        return;
    }
    out.push(flags | mask);
    let mut remaining = number - usize::from(mask);
    while remaining >= 0x80 {
        out.push((remaining & 0x7f) as u8 | 0x80);
        remaining >>= 7;
    }
    out.push(remaining as u8);
}

/// Appends a string in its shorter form.
fn push_text(out: &mut Vec<u8>, flags: u8, bits: u32, text: &[u8]) {
    let length = huffman::encoded_length(text);
    if length < text.len() {
        push_integer(out, flags | 1 << bits, bits, length);
        huffman::encode(text, out);
    } else {
        push_integer(out, flags, bits, text.len());
        out.extend_from_slice(text);
    }
}

/// The Huffman code of RFC 7541 Appendix B. The code is canonical: codes of one length ascend with their symbols, so
/// lengths define it.
mod huffman {
    use std::sync::LazyLock;

    #[rustfmt::skip]
    const LENGTHS: [u8; 256] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
        6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
        13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
        15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
        20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
        22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
        26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
        20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    ];
    const MAX_CODE_BITS: usize = 30;

    struct Code {
        /// Codes by symbol.
        codes: [u32; 256],
        /// Symbols by length and value.
        symbols: [u8; 256],
        /// By length: the first code, the number of codes, and the index of the first symbol.
        lengths: [(u32, u32, usize); MAX_CODE_BITS + 1],
    }

    static CODE: LazyLock<Code> = LazyLock::new(|| {
        let mut code = Code { codes: [0; 256], symbols: [0; 256], lengths: [(0, 0, 0); MAX_CODE_BITS + 1] };
        let (mut next, mut place) = (0_u32, 0);
        for length in 1..=MAX_CODE_BITS {
            next <<= 1;
            code.lengths[length] = (next, 0, place);
            for symbol in (0..=u8::MAX).filter(|symbol| usize::from(LENGTHS[usize::from(*symbol)]) == length)
            {
                code.codes[usize::from(symbol)] = next;
                code.symbols[place] = symbol;
                code.lengths[length].1 += 1;
                (next, place) = (next + 1, place + 1);
            }
        }
        code
    });

    /// The encoded length of a text, bytes.
    pub(super) fn encoded_length(text: &[u8]) -> usize {
        text.iter().map(|symbol| usize::from(LENGTHS[usize::from(*symbol)])).sum::<usize>().div_ceil(8)
    }

    pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
        let (mut bits, mut held) = (0_u64, 0_u32);
        for symbol in text.iter().map(|symbol| usize::from(*symbol)) {
            bits = bits << LENGTHS[symbol] | u64::from(CODE.codes[symbol]);
            held += u32::from(LENGTHS[symbol]);
            while held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
            }
        }
        if held > 0 {
            // Padded with the start of the end-of-string symbol, all ones.
            out.push((bits << (8 - held)) as u8 | u8::MAX >> held);
        }
    }

    /// Decodes a text; `None` if it is malformed or does not fit.
    pub(super) fn decode<'a>(coded: &[u8], room: &'a mut [u8]) -> Option<&'a [u8]> {
        let (mut bits, mut length, mut filled) = (0_u32, 0, 0);
        for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |place| u32::from(byte >> place & 1))) {
            (bits, length) = (bits << 1 | bit, length + 1);
            let (first, count, place) = *CODE.lengths.get(length)?;
            let offset = bits.wrapping_sub(first);
            if offset < count {
                *room.get_mut(filled)? = CODE.symbols[place + offset as usize];
                (bits, length, filled) = (0, 0, filled + 1);
            }
        }
        // RFC 7541 §5.2: padding is shorter than a byte and all ones.
        (length < 8 && bits == (1 << length) - 1).then_some(&room[..filled])
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// RFC 7541 Appendix C.4 and C.6.
        #[test]
        fn the_examples_of_the_rfc_are_encoded_and_decoded() {
            for (text, coded) in [
                (
                    "www.example.com",
                    &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                ),
                ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
                ("302", &[0x64, 0x02]),
                ("307", &[0x64, 0x0e, 0xff]),
            ] {
                let mut out = Vec::new();
                encode(text.as_bytes(), &mut out);
                assert_eq!((out.as_slice(), encoded_length(text.as_bytes())), (coded, coded.len()), "{text}");
                assert_eq!(decode(coded, &mut [0; 32]), Some(text.as_bytes()), "{text}");
            }
        }

        #[test]
        fn every_symbol_is_decoded_and_wrong_padding_refused() {
            for symbol in 0..=u8::MAX {
                let (text, mut out) = ([symbol; 3], Vec::new());
                encode(&text, &mut out);
                assert_eq!(decode(&out, &mut [0; 4]), Some(&text[..]), "{symbol}");
            }
            for wrong in [&[0x64, 0x02, 0xff][..], &[0x64, 0x0c], &[0xff; 4]] {
                assert_eq!(decode(wrong, &mut [0; 8]), None, "{wrong:?}");
            }
            assert_eq!(decode(&[0x64, 0x02], &mut [0; 2]), None);
        }
    }
}

/// RFC 9204 Appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 99] = [
    (":authority", ""), (":path", "/"), ("age", "0"), ("content-disposition", ""), ("content-length", "0"), ("cookie", ""),
    ("date", ""), ("etag", ""), ("if-modified-since", ""), ("if-none-match", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("referer", ""), ("set-cookie", ""), (":method", "CONNECT"), (":method", "DELETE"), (":method", "GET"),
    (":method", "HEAD"), (":method", "OPTIONS"), (":method", "POST"), (":method", "PUT"), (":scheme", "http"),
    (":scheme", "https"), (":status", "103"), (":status", "200"), (":status", "304"), (":status", "404"), (":status", "503"),
    ("accept", "*/*"), ("accept", "application/dns-message"), ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"), ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"), ("access-control-allow-origin", "*"), ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"), ("cache-control", "max-age=604800"), ("cache-control", "no-cache"),
    ("cache-control", "no-store"), ("cache-control", "public, max-age=31536000"), ("content-encoding", "br"),
    ("content-encoding", "gzip"), ("content-type", "application/dns-message"), ("content-type", "application/javascript"),
    ("content-type", "application/json"), ("content-type", "application/x-www-form-urlencoded"), ("content-type", "image/gif"),
    ("content-type", "image/jpeg"), ("content-type", "image/png"), ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"), ("content-type", "text/plain"), ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"), ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"), ("vary", "accept-encoding"),
    ("vary", "origin"), ("x-content-type-options", "nosniff"), ("x-xss-protection", "1; mode=block"), (":status", "100"),
    (":status", "204"), (":status", "206"), (":status", "302"), (":status", "400"), (":status", "403"), (":status", "421"),
    (":status", "425"), (":status", "500"), ("accept-language", ""), ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"), ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"), ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"), ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"), ("access-control-request-method", "get"),
    ("access-control-request-method", "post"), ("alt-svc", "clear"), ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"), ("early-data", "1"),
    ("expect-ct", ""), ("forwarded", ""), ("if-range", ""), ("origin", ""), ("purpose", "prefetch"), ("server", ""),
    ("timing-allow-origin", "*"), ("upgrade-insecure-requests", "1"), ("user-agent", ""), ("x-forwarded-for", ""),
    ("x-frame-options", "deny"), ("x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_fields_are_decoded() {
        let fields = [
            (":method", "GET"),
            (":path", "/kilobyte"),
            ("accept", "*/*"),
            ("x-frame-options", "sameorigin"),
            ("user-agent", "fairway-bench"),
            ("x-lab-id", "0123456789abcdef-00-01"),
            ("x-long", &"a".repeat(300)),
        ];
        let mut section = Vec::new();
        write_prefix(&mut section);
        for (name, value) in fields {
            push(&mut section, name, value);
        }
        let mut unchecked = fields.iter();
        read(&section, |name, value| {
            let expected = unchecked.next().expect("no more fields than were written");
            assert!(
                Needle::new(expected.0).matches(name) && Needle::new(expected.1).matches(value),
                "{expected:?}"
            );
            Ok(())
        })
        .unwrap();
        assert!(unchecked.next().is_none());
    }

    #[test]
    fn numbers_are_read_in_both_forms() {
        assert_eq!(Text::Plain(b"1048576").number(), Some(1_048_576));
        // "302" and "307" of RFC 7541 Appendix C.6.
        assert_eq!(Text::Huffman(&[0x64, 0x02]).number(), Some(302));
        assert_eq!(Text::Huffman(&[0x64, 0x0e, 0xff]).number(), Some(307));
        for wrong in ["", "1a", "+1", "99999999999999999999", "000000000000000000001"] {
            assert_eq!(Text::Plain(wrong.as_bytes()).number(), None, "{wrong}");
        }
    }

    #[test]
    fn invalid_sections_are_malformed() {
        let cases: [(&str, &[u8]); 8] = [
            ("no prefix", &[]),
            ("half of a prefix", &[0]),
            ("a dynamic table", &[1, 0]),
            ("an entry of it", &[0, 0, 0b1000_0001]),
            ("a name of it", &[0, 0, 0b0100_0001, 0]),
            ("an entry after the base", &[0, 0, 0b0001_0001]),
            ("no static entry", &[0, 0, 0xff, 36]),
            ("a string that is too long", &[0, 0, 0b0101_0000, 5, b'x']),
        ];
        for (what, section) in cases {
            assert!(read(section, |_, _| Ok(())).is_err(), "{what}");
        }
        let endless = [&[0, 0, 0xff][..], &[0xff; 12]].concat();
        assert!(read(&endless, |_, _| Ok(())).is_err());
    }
}
