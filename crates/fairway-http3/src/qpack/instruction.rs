//! What the two ends tell each other about the dynamic table: encoder instructions (RFC 9204 §4.3) and decoder instructions
//! (§4.4). Never changes a table.

use fairway_http2::hpack::integer::{self, Integer};

use crate::code::{Code, Fault};

/// An encoder instruction, its strings still encoded (RFC 9204 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction<'a> {
    /// Set Dynamic Table Capacity.
    Capacity(u64),
    /// Insert with Name Reference to the static table.
    InsertStatic { index: u64, value: Text<'a> },
    /// Insert with Name Reference to the dynamic table, relative to the newest entry.
    InsertDynamic { index: u64, value: Text<'a> },
    /// Insert with Literal Name.
    InsertLiteral { name: Text<'a>, value: Text<'a> },
    /// Duplicate of an entry, relative to the newest one.
    Duplicate(u64),
}

/// A string literal (RFC 9204 §4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) huffman: bool,
}

/// What the bytes at the beginning of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed<T> {
    /// The thing, and how many bytes it takes.
    Whole(T, usize),
    /// More bytes are needed.
    Incomplete,
    /// It breaks a rule.
    Bad,
}

/// Reads the string whose length has a prefix of `bits` bits, below the bit that says whether it is Huffman-coded. One that is
/// longer than `max_bytes` is bad.
pub(super) fn read_text(input: &[u8], bits: u32, max_bytes: usize) -> Parsed<Text<'_>> {
    let (length, used) = match integer::read(input, bits) {
        Integer::Value(length, used) => (length, used),
        Integer::Incomplete => return Parsed::Incomplete,
        Integer::TooLarge => return Parsed::Bad,
    };
    if length > max_bytes as u64 {
        return Parsed::Bad;
    }
    let end = used + length as usize;
    match input.get(used..end) {
        Some(bytes) => Parsed::Whole(Text { bytes, huffman: input[0] & 1 << bits != 0 }, end),
        None => Parsed::Incomplete,
    }
}

/// Reads an encoder instruction whose strings have at most `max_bytes` bytes each.
pub(super) fn read(input: &[u8], max_bytes: usize) -> Parsed<Instruction<'_>> {
    let Some(&first) = input.first() else { return Parsed::Incomplete };
    let (bits, has_index) = match first {
        0x80.. => (6, true),
        0x40..=0x7f => (5, false),
        _ => (5, true),
    };
    if !has_index {
        let (name, used) = match read_text(input, bits, max_bytes) {
            Parsed::Whole(name, used) => (name, used),
            Parsed::Incomplete => return Parsed::Incomplete,
            Parsed::Bad => return Parsed::Bad,
        };
        return with_value(input, used, max_bytes, |value| Instruction::InsertLiteral { name, value });
    }
    let (number, used) = match integer::read(input, bits) {
        Integer::Value(number, used) => (number, used),
        Integer::Incomplete => return Parsed::Incomplete,
        Integer::TooLarge => return Parsed::Bad,
    };
    match first {
        0xc0.. => {
            with_value(input, used, max_bytes, |value| Instruction::InsertStatic { index: number, value })
        }
        0x80.. => {
            with_value(input, used, max_bytes, |value| Instruction::InsertDynamic { index: number, value })
        }
        0x20.. => Parsed::Whole(Instruction::Capacity(number), used),
        _ => Parsed::Whole(Instruction::Duplicate(number), used),
    }
}

fn with_value<'a>(
    input: &'a [u8],
    used: usize,
    max_bytes: usize,
    instruction: impl FnOnce(Text<'a>) -> Instruction<'a>,
) -> Parsed<Instruction<'a>> {
    match read_text(&input[used..], 7, max_bytes) {
        Parsed::Whole(value, more) => Parsed::Whole(instruction(value), used + more),
        Parsed::Incomplete => Parsed::Incomplete,
        Parsed::Bad => Parsed::Bad,
    }
}

/// Section Acknowledgment (RFC 9204 §4.4.1).
pub(super) fn write_acknowledgment(stream: u64, out: &mut Vec<u8>) {
    integer::write(stream, 7, 0x80, out);
}

/// Stream Cancellation (RFC 9204 §4.4.2).
pub(super) fn write_cancellation(stream: u64, out: &mut Vec<u8>) {
    integer::write(stream, 6, 0x40, out);
}

/// Insert Count Increment (RFC 9204 §4.4.3).
pub(super) fn write_increment(increment: u64, out: &mut Vec<u8>) {
    integer::write(increment, 6, 0, out);
}

/// A decoder instruction that is valid for an encoder that inserts nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgment {
    /// Stream Cancellation.
    Cancellation(u64),
    /// The instruction is not complete.
    Incomplete,
}

/// Reads one instruction of the peer's decoder stream, and how many bytes it takes.
///
/// # Errors
/// QPACK_DECODER_STREAM_ERROR: nothing was inserted and no section refers to the dynamic table, so an acknowledgment of a
/// section (RFC 9204 §4.4.1) and any increment (§4.4.3) are wrong.
pub fn read_acknowledgment(input: &[u8]) -> Result<(Acknowledgment, usize), Fault> {
    let error = |rule| Fault::connection(Code::QpackDecoderStream, rule);
    let bits = match input.first() {
        None => return Ok((Acknowledgment::Incomplete, 0)),
        Some(0x80..) => 7,
        Some(_) => 6,
    };
    match (integer::read(input, bits), input[0]) {
        (Integer::Incomplete, _) => Ok((Acknowledgment::Incomplete, 0)),
        (Integer::TooLarge, _) => Err(error("decoder_integer")),
        (Integer::Value(..), 0x80..) => Err(error("section_not_referring")),
        (Integer::Value(stream, used), 0x40..) => Ok((Acknowledgment::Cancellation(stream), used)),
        (Integer::Value(0, _), _) => Err(error("increment_zero")),
        (Integer::Value(..), _) => Err(error("increment_too_large")),
    }
}
