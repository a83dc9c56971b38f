//! The dynamic table that the client fills (RFC 9204 §3.2), and field sections that refer to it (§4.5). Does not check
//! messages: every field is passed on.
//!
//! Entries are counted from the first insertion (absolute index, §3.2.4). Decoder instructions are collected here until
//! they can be written to the decoder stream.

use fairway_http::Known;
use fairway_http2::Verdict;
use fairway_http2::hpack::integer::{self, Integer};
use fairway_http2::hpack::{Line, MAX_TABLE_BYTES, Table, huffman};

use super::instruction::{self, Instruction, ParseResult, StringLiteral};
use super::{fixed, instruction::read_text};
use crate::code::{Code, Fault};

/// The size of an entry in addition to its name and value (RFC 9204 §3.2.1).
const OVERHEAD: usize = 32;

/// The scratch buffer is freed if it grew beyond this.
const KEPT_SCRATCH: usize = 4 * 1024;

/// Maximum pending output for the decoder stream: only a client that does not read it reaches this.
const MAX_FEEDBACK: usize = 4 * 1024;

/// The result of a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionResult {
    /// Its fields were returned.
    Decoded,
    /// It needs this many insertions; none of its fields were returned.
    Blocked(u64),
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    max_capacity: usize,
    /// Entries inserted so far.
    inserted: u64,
    /// Known Received Count at the client's encoder (RFC 9204 §2.1.4), once all feedback is received.
    acknowledged: u64,
    /// The start of an encoder instruction.
    partial: Vec<u8>,
    /// The literal field being read.
    scratch: Vec<u8>,
    /// Pending decoder instructions.
    feedback: Vec<u8>,
}

/// The name of a literal field, which is in the scratch buffer.
struct LiteralName {
    bytes: usize,
    known: Known,
    verdict: Verdict,
}

/// The prefix of a section (RFC 9204 §4.5.1).
struct SectionPrefix {
    required: u64,
    base: u64,
    used: usize,
}

impl Decoder {
    /// With an empty table of capacity 0, which the client can raise to `max_capacity` bytes.
    #[must_use]
    pub fn new(max_capacity: usize) -> Self {
        Decoder {
            table: Table::new(0),
            max_capacity: max_capacity.min(MAX_TABLE_BYTES),
            inserted: 0,
            acknowledged: 0,
            partial: Vec::new(),
            scratch: Vec::new(),
            feedback: Vec::new(),
        }
    }

    /// Entries inserted so far.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Processes bytes of the client's encoder stream; returns how many instructions were complete.
    ///
    /// # Errors
    /// QPACK_ENCODER_STREAM_ERROR if an instruction breaks a rule.
    pub fn receive(&mut self, input: &[u8]) -> Result<u32, Fault> {
        if self.partial.is_empty() {
            let (used, count) = self.instructions(input)?;
            self.partial.extend_from_slice(&input[used..]);
            return Ok(count);
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(input);
        let (used, count) = self.instructions(&partial)?;
        if used < partial.len() {
            partial.drain(..used);
            self.partial = partial;
        }
        Ok(count)
    }

    /// Applies all complete instructions; returns their bytes and number.
    fn instructions(&mut self, input: &[u8]) -> Result<(usize, u32), Fault> {
        let (mut used, mut count) = (0, 0);
        // A Huffman code has at most 30 bits per byte, so longer strings fit no table.
        let max_bytes = self.max_capacity * 4;
        loop {
            match instruction::read(&input[used..], max_bytes) {
                ParseResult::Whole(instruction, bytes) => {
                    self.carry_out(instruction).map_err(encoder_error)?;
                    used += bytes;
                    count += 1;
                }
                ParseResult::Incomplete => break,
                ParseResult::Bad => return Err(encoder_error("instruction_too_large")),
            }
        }
        if self.scratch.capacity() > KEPT_SCRATCH {
            self.scratch = Vec::new();
        }
        Ok((used, count))
    }

    fn carry_out(&mut self, instruction: Instruction<'_>) -> Result<(), &'static str> {
        self.scratch.clear();
        let (name, value) = match instruction {
            Instruction::Capacity(capacity) => {
                // "The new capacity MUST be lower than or equal to the limit" (RFC 9204 §4.3.1).
                if capacity > self.max_capacity as u64 {
                    return Err("capacity_over_limit");
                }
                self.table.resize(capacity as usize);
                return Ok(());
            }
            Instruction::Duplicate(index) => {
                let at = self.relative_position(index).ok_or("duplicate_of_missing_entry")?;
                let line = self.table.get_from_newest(at).ok_or("duplicate_of_missing_entry")?;
                self.scratch.extend_from_slice(line.bytes);
                let (name_bytes, known, verdict) = (line.name_bytes, line.known, line.verdict);
                return self.insert(name_bytes, known, verdict);
            }
            Instruction::InsertStatic { index, value } => {
                (self.static_name(index).ok_or("static_index")?, value)
            }
            Instruction::InsertDynamic { index, value } => {
                let at = self.relative_position(index).ok_or("name_of_missing_entry")?;
                (self.dynamic_name(at).ok_or("name_of_missing_entry")?, value)
            }
            Instruction::InsertLiteral { name, value } => {
                (self.literal_name(name).ok_or("huffman_code")?, value)
            }
        };
        let verdict = self.value(&name, value).ok_or("huffman_code")?;
        self.insert(name.bytes, name.known, verdict)
    }

    /// Inserts the line in the scratch buffer. "It is an error if the encoder attempts to add an entry that is larger
    /// than the dynamic table capacity" (RFC 9204 §3.2.2).
    fn insert(&mut self, name_bytes: usize, known: Known, verdict: Verdict) -> Result<(), &'static str> {
        let line = Line { bytes: &self.scratch, name_bytes, known, verdict, sensitive: false };
        if line.size() > self.table.max_bytes() {
            return Err("entry_over_capacity");
        }
        self.table.insert(line);
        self.inserted += 1;
        Ok(())
    }

    /// Decodes a section of a stream and returns its fields in order.
    ///
    /// # Errors
    /// QPACK_DECOMPRESSION_FAILED if the section breaks a rule; fields before it may have been returned.
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        mut take: impl FnMut(Line<'_>),
    ) -> Result<SectionResult, Fault> {
        let prefix = self.prefix(section).ok_or_else(|| section_error("section_prefix"))?;
        if prefix.required > self.inserted {
            return Ok(SectionResult::Blocked(prefix.required));
        }
        let mut rest = &section[prefix.used..];
        while !rest.is_empty() {
            rest = self.field(rest, &prefix, &mut take).map_err(section_error)?;
        }
        if self.scratch.capacity() > KEPT_SCRATCH {
            self.scratch = Vec::new();
        }
        // "After the decoder finishes decoding a field section encoded using representations containing dynamic table references,
        // it MUST emit a Section Acknowledgment instruction" (RFC 9204 §2.2.2.1).
        if prefix.required > 0 {
            instruction::write_acknowledgment(stream, &mut self.feedback);
            self.acknowledged = self.acknowledged.max(prefix.required);
        }
        Ok(SectionResult::Decoded)
    }

    /// Reads Required Insert Count (RFC 9204 §4.5.1.1) and Base (§4.5.1.2).
    fn prefix(&self, section: &[u8]) -> Option<SectionPrefix> {
        let Integer::Value(encoded, first) = integer::read(section, 8) else { return None };
        let Integer::Value(delta, second) = integer::read(&section[first..], 7) else { return None };
        let required = self.required(encoded)?;
        let base = if section[first] & 0x80 == 0 {
            required.checked_add(delta)?
        } else {
            required.checked_sub(delta)?.checked_sub(1)?
        };
        Some(SectionPrefix { required, base, used: first + second })
    }

    /// Decodes the Required Insert Count, which is encoded modulo twice the maximum number of entries.
    fn required(&self, encoded: u64) -> Option<u64> {
        if encoded == 0 {
            return Some(0);
        }
        let max_entries = (self.max_capacity / OVERHEAD) as u64;
        let full_range = 2 * max_entries;
        if encoded > full_range {
            return None;
        }
        let max_value = self.inserted + max_entries;
        let max_wrapped = max_value / full_range * full_range;
        let mut required = max_wrapped + encoded - 1;
        if required > max_value {
            // "If the value exceeds MaxValue, the Encoder's value must have wrapped one fewer time".
            required = required.checked_sub(full_range)?;
        }
        (required > 0).then_some(required)
    }

    /// Reads one field line (RFC 9204 §4.5.2 to §4.5.6) and returns the rest of the input.
    fn field<'s>(
        &mut self,
        input: &'s [u8],
        prefix: &SectionPrefix,
        take: &mut impl FnMut(Line<'_>),
    ) -> Result<&'s [u8], &'static str> {
        match input[0] {
            0xc0.. => {
                let (index, rest) = number(input, 6)?;
                take(fixed::entry(index).ok_or("static_index")?.line());
                Ok(rest)
            }
            0x80.. => {
                let (index, rest) = number(input, 6)?;
                take(self.line(before_base(prefix, index), prefix)?);
                Ok(rest)
            }
            0x10..=0x1f => {
                let (index, rest) = number(input, 4)?;
                take(self.line(prefix.base.checked_add(index), prefix)?);
                Ok(rest)
            }
            first => self.literal(input, first, prefix, take),
        }
    }

    /// Reads a literal field line: `01NT` with a name reference, `001N` with a literal name, `0000N` with a post-Base name
    /// reference.
    fn literal<'s>(
        &mut self,
        input: &'s [u8],
        first: u8,
        prefix: &SectionPrefix,
        take: &mut impl FnMut(Line<'_>),
    ) -> Result<&'s [u8], &'static str> {
        self.scratch.clear();
        let (name, sensitive, rest) = match first {
            0x40.. => {
                let (index, rest) = number(input, 4)?;
                let name = if first & 0x10 != 0 {
                    self.static_name(index).ok_or("static_index")?
                } else {
                    self.referred_name(before_base(prefix, index), prefix)?
                };
                (name, first & 0x20 != 0, rest)
            }
            0x20.. => {
                let (text, rest) = text(input, 3)?;
                (self.literal_name(text).ok_or("huffman_code")?, first & 0x10 != 0, rest)
            }
            _ => {
                let (index, rest) = number(input, 3)?;
                (self.referred_name(prefix.base.checked_add(index), prefix)?, first & 0x08 != 0, rest)
            }
        };
        let (value, rest) = text(rest, 7)?;
        let verdict = self.value(&name, value).ok_or("huffman_code")?;
        take(Line { bytes: &self.scratch, name_bytes: name.bytes, known: name.known, verdict, sensitive });
        Ok(rest)
    }

    /// How many entries were inserted after the one with this absolute index. "If the decoder encounters a reference in
    /// a field line representation to a dynamic table entry that has already been evicted or that has an absolute index
    /// greater than or equal to the declared Required Insert Count, it MUST treat this as a connection error" (RFC 9204
    /// §2.2.3).
    fn position(&self, index: Option<u64>, prefix: &SectionPrefix) -> Option<usize> {
        let index = index.filter(|index| *index < prefix.required)?;
        usize::try_from(self.inserted.checked_sub(index + 1)?).ok()
    }

    fn line(&self, index: Option<u64>, prefix: &SectionPrefix) -> Result<Line<'_>, &'static str> {
        self.position(index, prefix).and_then(|at| self.table.get_from_newest(at)).ok_or("dynamic_index")
    }

    fn referred_name(
        &mut self,
        index: Option<u64>,
        prefix: &SectionPrefix,
    ) -> Result<LiteralName, &'static str> {
        self.position(index, prefix).and_then(|at| self.dynamic_name(at)).ok_or("dynamic_index")
    }

    fn relative_position(&self, index: u64) -> Option<usize> {
        usize::try_from(index).ok().filter(|at| *at < self.table.count())
    }

    /// Copies the name of a static entry to the scratch buffer.
    fn static_name(&mut self, index: u64) -> Option<LiteralName> {
        let entry = fixed::entry(index)?;
        self.scratch.extend_from_slice(entry.name);
        Some(LiteralName { bytes: entry.name.len(), known: entry.known, verdict: entry.name_verdict })
    }

    /// The same for a dynamic entry with this many later ones.
    fn dynamic_name(&mut self, at: usize) -> Option<LiteralName> {
        let line = self.table.get_from_newest(at)?;
        self.scratch.extend_from_slice(line.name());
        let verdict = match line.verdict {
            // The value of that entry may be what is invalid.
            Verdict::Bad(_) => Verdict::for_name(line.name()),
            verdict => verdict,
        };
        Some(LiteralName { bytes: line.name_bytes, known: line.known, verdict })
    }

    /// The same for a string.
    fn literal_name(&mut self, name: StringLiteral<'_>) -> Option<LiteralName> {
        append(name, &mut self.scratch)?;
        let verdict = Verdict::for_name(&self.scratch);
        // `Known` lookup needs a valid name.
        let known =
            if matches!(verdict, Verdict::Bad(_)) { Known::Other } else { Known::from_name(&self.scratch) };
        Some(LiteralName { bytes: self.scratch.len(), known, verdict })
    }

    /// Completes the line in the scratch buffer, which has the name, and returns its verdict.
    fn value(&mut self, name: &LiteralName, value: StringLiteral<'_>) -> Option<Verdict> {
        self.scratch.extend_from_slice(b": ");
        let start = self.scratch.len();
        append(value, &mut self.scratch)?;
        let verdict = name.verdict.with_value(&self.scratch[..name.bytes], &self.scratch[start..]);
        self.scratch.extend_from_slice(b"\r\n");
        Some(verdict)
    }

    /// The stream ended, or is no longer read, before all its sections were decoded: "the decoder MUST generate a
    /// Stream Cancellation" unless there can be no dynamic table (RFC 9204 §2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        if self.max_capacity > 0 {
            instruction::write_cancellation(stream, &mut self.feedback);
        }
    }

    /// Pending output for the decoder stream, including insertions that were not acknowledged.
    pub fn feedback(&mut self) -> &[u8] {
        if self.inserted > self.acknowledged {
            instruction::write_increment(self.inserted - self.acknowledged, &mut self.feedback);
            self.acknowledged = self.inserted;
        }
        &self.feedback
    }

    /// This many bytes of the feedback were sent.
    ///
    /// # Errors
    /// H3_EXCESSIVE_LOAD if too much of it is pending.
    pub fn sent_feedback(&mut self, bytes: usize) -> Result<(), Fault> {
        self.feedback.drain(..bytes);
        if self.feedback.len() > MAX_FEEDBACK {
            return Err(Fault::connection(Code::ExcessiveLoad, "decoder_stream_unread"));
        }
        if self.feedback.is_empty() && self.feedback.capacity() > 256 {
            self.feedback = Vec::new();
        }
        Ok(())
    }

    /// Releases the memory that only instructions and sections need.
    pub fn release_memory(&mut self) {
        self.scratch = Vec::new();
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let buffers = self.partial.capacity() + self.scratch.capacity() + self.feedback.capacity();
        self.table.kept_bytes() + buffers
    }
}

/// The absolute index of an entry relative to Base (RFC 9204 §3.2.5).
fn before_base(prefix: &SectionPrefix, index: u64) -> Option<u64> {
    prefix.base.checked_sub(index)?.checked_sub(1)
}

fn number(input: &[u8], bits: u32) -> Result<(u64, &[u8]), &'static str> {
    match integer::read(input, bits) {
        Integer::Value(value, used) => Ok((value, &input[used..])),
        Integer::Incomplete => Err("section_truncated"),
        Integer::TooLarge => Err("section_integer"),
    }
}

fn text(input: &[u8], bits: u32) -> Result<(StringLiteral<'_>, &[u8]), &'static str> {
    match read_text(input, bits, input.len()) {
        ParseResult::Whole(text, used) => Ok((text, &input[used..])),
        ParseResult::Incomplete | ParseResult::Bad => Err("section_truncated"),
    }
}

/// Appends a string; `None` if its Huffman code is bad.
fn append(text: StringLiteral<'_>, out: &mut Vec<u8>) -> Option<()> {
    if text.huffman {
        huffman::decode(text.bytes, out)
    } else {
        out.extend_from_slice(text.bytes);
        Some(())
    }
}

fn encoder_error(rule: &'static str) -> Fault {
    Fault::connection(Code::QpackEncoderStream, rule)
}

fn section_error(rule: &'static str) -> Fault {
    Fault::connection(Code::QpackDecompression, rule)
}
