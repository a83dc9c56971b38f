//! Encoder instructions (RFC 9204 §4.3) and decoder instructions (§4.4).

use fairway_http2::hpack::integer::{self, Integer};

use crate::code::{Code, Fault};

/// An encoder instruction, its strings still encoded (RFC 9204 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction<'a> {
    /// Set Dynamic Table Capacity.
    Capacity(u64),
    /// Insert with Name Reference to the static table.
    InsertStatic { index: u64, value: StringLiteral<'a> },
    /// Insert with Name Reference to the dynamic table, relative to the newest entry.
    InsertDynamic { index: u64, value: StringLiteral<'a> },
    /// Insert with Literal Name.
    InsertLiteral { name: StringLiteral<'a>, value: StringLiteral<'a> },
    /// Duplicate of an entry, relative to the newest one.
    Duplicate(u64),
}

/// A string literal (RFC 9204 §4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StringLiteral<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) huffman: bool,
}

/// The result of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseResult<T> {
    /// The value, and its encoded length.
    Whole(T, usize),
    /// More bytes are needed.
    Incomplete,
    /// It breaks a rule.
    Bad,
}

/// Reads a string whose length has a prefix of `bits` bits, below the Huffman bit. One longer than `max_bytes` is
/// invalid.
pub(super) fn read_text(input: &[u8], bits: u32, max_bytes: usize) -> ParseResult<StringLiteral<'_>> {
    let (length, used) = match integer::read(input, bits) {
        Integer::Value(length, used) => (length, used),
        Integer::Incomplete => return ParseResult::Incomplete,
        Integer::TooLarge => return ParseResult::Bad,
    };
    if length > max_bytes as u64 {
        return ParseResult::Bad;
    }
    let end = used + length as usize;
    match input.get(used..end) {
        Some(bytes) => ParseResult::Whole(StringLiteral { bytes, huffman: input[0] & 1 << bits != 0 }, end),
        None => ParseResult::Incomplete,
    }
}

/// Reads an encoder instruction whose strings have at most `max_bytes` bytes each.
pub(super) fn read(input: &[u8], max_bytes: usize) -> ParseResult<Instruction<'_>> {
    let Some(&first) = input.first() else { return ParseResult::Incomplete };
    let (bits, has_index) = match first {
        0x80.. => (6, true),
        0x40..=0x7f => (5, false),
        _ => (5, true),
    };
    if !has_index {
        let (name, used) = match read_text(input, bits, max_bytes) {
            ParseResult::Whole(name, used) => (name, used),
            ParseResult::Incomplete => return ParseResult::Incomplete,
            ParseResult::Bad => return ParseResult::Bad,
        };
        return with_value(input, used, max_bytes, |value| Instruction::InsertLiteral { name, value });
    }
    let (number, used) = match integer::read(input, bits) {
        Integer::Value(number, used) => (number, used),
        Integer::Incomplete => return ParseResult::Incomplete,
        Integer::TooLarge => return ParseResult::Bad,
    };
    match first {
        0xc0.. => {
            with_value(input, used, max_bytes, |value| Instruction::InsertStatic { index: number, value })
        }
        0x80.. => {
            with_value(input, used, max_bytes, |value| Instruction::InsertDynamic { index: number, value })
        }
        0x20.. => ParseResult::Whole(Instruction::Capacity(number), used),
        _ => ParseResult::Whole(Instruction::Duplicate(number), used),
    }
}

fn with_value<'a>(
    input: &'a [u8],
    used: usize,
    max_bytes: usize,
    instruction: impl FnOnce(StringLiteral<'a>) -> Instruction<'a>,
) -> ParseResult<Instruction<'a>> {
    match read_text(&input[used..], 7, max_bytes) {
        ParseResult::Whole(value, more) => ParseResult::Whole(instruction(value), used + more),
        ParseResult::Incomplete => ParseResult::Incomplete,
        ParseResult::Bad => ParseResult::Bad,
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

/// A decoder instruction that is valid for an encoder without insertions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecoderInstruction {
    /// Stream Cancellation.
    Cancellation(u64),
    /// The instruction is incomplete.
    Incomplete,
}

/// Reads one instruction of the peer's decoder stream, and its encoded length.
///
/// # Errors
/// QPACK_DECODER_STREAM_ERROR: nothing was inserted and no section refers to the dynamic table, so a Section
/// Acknowledgment (RFC 9204 §4.4.1) and any increment (§4.4.3) are invalid.
pub fn read_acknowledgment(input: &[u8]) -> Result<(DecoderInstruction, usize), Fault> {
    let error = |rule| Fault::connection(Code::QpackDecoderStream, rule);
    let bits = match input.first() {
        None => return Ok((DecoderInstruction::Incomplete, 0)),
        Some(0x80..) => 7,
        Some(_) => 6,
    };
    match (integer::read(input, bits), input[0]) {
        (Integer::Incomplete, _) => Ok((DecoderInstruction::Incomplete, 0)),
        (Integer::TooLarge, _) => Err(error("decoder_integer")),
        (Integer::Value(..), 0x80..) => Err(error("section_not_referring")),
        (Integer::Value(stream, used), 0x40..) => Ok((DecoderInstruction::Cancellation(stream), used)),
        (Integer::Value(0, _), _) => Err(error("increment_zero")),
        (Integer::Value(..), _) => Err(error("increment_too_large")),
    }
}
