//! The Huffman code of RFC 7541 Appendix B. It is canonical, so all tables are derived from the code lengths at compile
//! time.

/// End of string; only its prefix may appear, as padding (RFC 7541 §5.2).
const EOS: usize = 256;

/// The length of each symbol's code in bits, EOS last.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6,
    6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6,
    6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22,
    20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
    22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
    23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22,
    25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const MAX_CODE_BITS: usize = 30;

/// Symbols by code, codes by symbol, and where the codes of each length begin.
struct Canon {
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
    /// The code of each symbol.
    codes: [u32; 257],
    /// The first code of each length, and one past the last, as the high bits of 32.
    ends: [u64; MAX_CODE_BITS + 1],
    /// The number of symbols with shorter codes, minus the first code of this length.
    offsets: [i64; MAX_CODE_BITS + 1],
}

const CANON: Canon = canon();

const fn canon() -> Canon {
    let mut canon = Canon {
        symbols: [0; 257],
        codes: [0; 257],
        ends: [0; MAX_CODE_BITS + 1],
        offsets: [0; MAX_CODE_BITS + 1],
    };
    let (mut code, mut ordered, mut bits) = (0u32, 0, 1);
    while bits <= MAX_CODE_BITS {
        code <<= 1;
        canon.offsets[bits] = ordered as i64 - code as i64;
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == bits {
                canon.symbols[ordered] = symbol as u16;
                canon.codes[symbol] = code;
                ordered += 1;
                code += 1;
            }
            symbol += 1;
        }
        canon.ends[bits] = (code as u64) << (32 - bits);
        bits += 1;
    }
    canon
}

/// Bits looked up at once: usually two codes of text. The table has 16 KiB, half of a first-level cache.
const PEEK_BITS: u32 = 12;

/// Lookups between two refills: their bits are available, and their symbols fill at most one word.
const LOOKUPS_PER_REFILL: u32 = 4;

/// What the next [`PEEK_BITS`] bits begin with: one or two symbols, or none if the code is longer. From the lowest byte:
/// bits consumed, bits of output, and the symbols.
static PEEK_TABLE: [u32; 1 << PEEK_BITS] = {
    let mut table = [0; 1 << PEEK_BITS];
    let mut bits = 0;
    while bits < 1 << PEEK_BITS {
        table[bits] = peek_entry((bits as u32) << (32 - PEEK_BITS));
        bits += 1;
    }
    table
};

/// An entry of [`PEEK_TABLE`].
const fn peek_entry(window: u32) -> u32 {
    let (first, taken) = symbol(window);
    if taken > PEEK_BITS {
        return 0;
    }
    let (second, more) = symbol(window << taken);
    if taken + more > PEEK_BITS {
        return taken | 8 << 8 | (first as u32) << 16;
    }
    (taken + more) | 16 << 8 | (first as u32) << 16 | (second as u32) << 24
}

/// The symbol that these bits begin with, and the length of its code.
const fn symbol(window: u32) -> (u16, u32) {
    let mut bits = 5;
    while bits < MAX_CODE_BITS && window as u64 >= CANON.ends[bits] {
        bits += 1;
    }
    let code = (window >> (32 - bits)) as i64;
    (CANON.symbols[(code + CANON.offsets[bits]) as usize], bits as u32)
}

/// The code of each byte in the low bits, its length in the highest byte of 64.
static CODES: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = CANON.codes[byte] as u64 | (LENGTHS[byte] as u64) << 56;
        byte += 1;
    }
    table
};

/// Received bits, the next one highest.
struct Bits<'a> {
    input: &'a [u8],
    window: u64,
    count: u32,
}

impl Bits<'_> {
    /// Reads as many whole bytes as fit.
    #[inline]
    fn fill(&mut self) {
        if let Some(word) = self.input.first_chunk::<8>() {
            let bytes = (63 - self.count) / 8;
            self.window |= u64::from_be_bytes(*word) >> self.count;
            self.count += bytes * 8;
            // A byte that is only partly in the window is read again, and must not be there twice.
            self.window &= !0u64 << (64 - self.count);
            self.input = &self.input[bytes as usize..];
        } else {
            self.fill_slowly();
        }
    }

    fn fill_slowly(&mut self) {
        while let (true, [byte, rest @ ..]) = (self.count <= 56, self.input) {
            self.window |= u64::from(*byte) << (56 - self.count);
            self.count += 8;
            self.input = rest;
        }
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.window <<= bits;
        self.count -= bits;
    }

    /// The entry of [`PEEK_TABLE`] that comes next.
    #[inline]
    fn peek(&self) -> u32 {
        PEEK_TABLE[(self.window >> (64 - PEEK_BITS)) as usize]
    }

    /// The symbols of several lookups in memory order, their number of bits, and whether a long code is next.
    #[inline]
    fn decode_several(&mut self) -> (u64, u32, bool) {
        let (mut symbols, mut written, mut taken, mut last) = (0u64, 0u32, 0u32, 0u32);
        let mut window = self.window;
        for _ in 0..LOOKUPS_PER_REFILL {
            let entry = PEEK_TABLE[(window >> (64 - PEEK_BITS)) as usize];
            window <<= entry & 0x3f;
            taken += entry & 0xff;
            symbols |= u64::from(entry >> 16) << (written & 63);
            written += entry >> 8 & 0xff;
            last = entry;
        }
        self.window = window;
        self.count -= taken;
        (symbols, written, last == 0)
    }

    /// The next symbol, if its code is complete.
    #[inline]
    fn decode_one(&mut self) -> Option<u16> {
        let (symbol, bits) = symbol((self.window >> 32) as u32);
        (bits <= self.count).then(|| {
            self.skip(bits);
            symbol
        })
    }
}

/// Appends the decoded string. `None` if it contains EOS, or ends with more than 7 bits of padding, or padding other
/// than ones: "A padding strictly longer than 7 bits MUST be treated as a decoding error. A padding not corresponding
/// to the most significant bits of the code for the EOS symbol MUST be treated as a decoding error" (RFC 7541 §5.2).
#[must_use]
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    // The shortest code has 5 bits.
    out.resize(start + input.len() * 8 / 5 + 8, 0);
    let end = decode_into(input, &mut out[start..]);
    out.truncate(start + end.unwrap_or(0));
    end.map(|_| ())
}

#[inline]
fn decode_into(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut bits = Bits { input, window: 0, count: 0 };
    let mut at = 0;
    loop {
        bits.fill();
        while bits.count >= LOOKUPS_PER_REFILL * PEEK_BITS {
            let room = out[at..].first_chunk_mut::<8>()?;
            let (symbols, written, stuck) = bits.decode_several();
            *room = symbols.to_le_bytes();
            at += written as usize / 8;
            // Part of it may not be in the window yet.
            if stuck && let Some(symbol) = bits.decode_one() {
                out[at] = u8::try_from(symbol).ok()?;
                at += 1;
            }
        }
        if bits.input.is_empty() {
            break;
        }
    }
    while bits.count > 0 {
        let [taken, written, first, second] = bits.peek().to_le_bytes();
        if taken > 0 && u32::from(taken) <= bits.count {
            *out[at..].first_chunk_mut()? = [first, second];
            at += usize::from(written) / 8;
            bits.skip(u32::from(taken));
        } else if let Some(symbol) = bits.decode_one() {
            *out.get_mut(at)? = u8::try_from(symbol).ok()?;
            at += 1;
        } else {
            break;
        }
    }
    let padding = !(!0u64).checked_shr(bits.count).unwrap_or(0);
    (bits.count < 8 && bits.window == padding).then_some(at)
}

/// The encoded length of a string.
#[inline]
#[must_use]
pub fn encoded_len(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Appends a string, padded with ones.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut count) = (0u64, 0u32);
    for &byte in text {
        let code = CODES[usize::from(byte)];
        let bits = (code >> 56) as u32;
        window = window << bits | (code & 0xffff_ffff);
        count += bits;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((window >> count) as u32).to_be_bytes());
        }
    }
    let whole_bytes = count.div_ceil(8) * 8;
    let padded = window << (whole_bytes - count) | 0xff >> (8 - (whole_bytes - count));
    let bytes = (padded << (64 - whole_bytes).min(63)).to_be_bytes();
    out.extend_from_slice(&bytes[..whole_bytes as usize / 8]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(input: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        let done = decode(input, &mut out);
        assert!(out.starts_with(b"before"));
        if done.is_none() {
            assert_eq!(out, b"before", "nothing stays of what is refused");
        }
        done.map(|()| out.split_off(6))
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_len(text));
        out
    }

    /// The bytes of a text of 0 and 1, which must be a multiple of 8.
    fn bytes(bits: &str) -> Vec<u8> {
        assert_eq!(bits.len() % 8, 0);
        bits.as_bytes()
            .chunks(8)
            .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0')))
            .collect()
    }

    #[test]
    fn rfc7541_c_4_strings() {
        let text = b"www.example.com";
        let code = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(encoded(text), code);
        assert_eq!(decoded(&code).as_deref(), Some(&text[..]));
        assert_eq!(encoded(b"no-cache"), [0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]);
    }

    #[test]
    fn rfc7541_b_the_codes_match_the_appendix() {
        for (symbol, code, bits) in [
            (0, 0x1ff8, 13),
            (b' ', 0x14, 6),
            (b'0', 0x0, 5),
            (b'a', 0x3, 5),
            (b'\\', 0x7fff0, 19),
            (b'~', 0x1ffd, 13),
            (255, 0x03ff_ffee, 26),
            (b'\n', 0x3fff_fffc, 30),
            (22, 0x3fff_fffe, 30),
        ] {
            assert_eq!(CODES[usize::from(symbol)], code | bits << 56, "{symbol}");
        }
        assert_eq!(CANON.codes[EOS], 0x3fff_ffff);
    }

    #[test]
    fn every_byte_reads_back_alone_and_among_others() {
        for byte in 0..=255u8 {
            for text in [vec![byte], vec![byte; 9], [b"abcdefgh", &[byte][..], b"ijklmnopqrst"].concat()] {
                assert_eq!(decoded(&encoded(&text)), Some(text));
            }
        }
        assert_eq!(decoded(b""), Some(Vec::new()));
    }

    #[test]
    fn a_long_code_may_span_two_reads() {
        // Seven bytes are read at first. The long code begins at every bit of them.
        for before in 0..16 {
            for long in [0, 22, 203, 255] {
                let text = [&b"A3 3 0aA3 3 0aA3"[..before], &[long], b" and what follows"].concat();
                assert_eq!(decoded(&encoded(&text)), Some(text));
            }
        }
    }

    #[test]
    fn rfc7541_5_2_padding_is_at_most_seven_ones() {
        // `0` is 00000, so three bits of padding follow.
        assert_eq!(decoded(&bytes("00000111")), Some(b"0".to_vec()));
        for padding in ["000", "011", "101", "110"] {
            assert_eq!(decoded(&bytes(&format!("00000{padding}"))), None, "{padding}");
        }
        assert_eq!(decoded(&bytes("0000011111111111")), None, "eleven ones");
        assert_eq!(decoded(&[0xff]), None, "eight ones");
        assert_eq!(decoded(&[0xff, 0xff, 0xff]), None);
        // `0` and two blanks have 5 + 6 + 6 bits.
        assert_eq!(decoded(&bytes("000000101000101001111111")), Some(b"0  ".to_vec()), "seven ones");
        assert_eq!(decoded(&bytes("000000101000101001111110")), None);
    }

    #[test]
    fn rfc7541_5_2_eos_is_an_error() {
        let eos = format!("{}11", "1".repeat(30));
        assert_eq!(decoded(&bytes(&eos)), None);
        assert_eq!(decoded(&bytes(&format!("00000{}{}", "1".repeat(30), "00000".repeat(9)))), None);
    }

    proptest! {
        #[test]
        fn any_text_reads_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encoded(&text)), Some(text));
        }

        #[test]
        fn usual_text_reads_back(text in "[ -~]{0,200}") {
            prop_assert_eq!(decoded(&encoded(text.as_bytes())), Some(text.into_bytes()));
        }

        #[test]
        fn what_is_accepted_has_one_code(input in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(text) = decoded(&input) {
                prop_assert_eq!(encoded(&text), input);
            }
        }
    }
}
