//! Decodes field blocks to lines (RFC 7541 §3, §6). Does not check messages: every field is passed on, and the table
//! stays in step even if the fields are not wanted.

use fairway_http::Known;

use super::table::{Line, MAX_TABLE_BYTES, Table};
use super::{fixed, huffman, integer};
use crate::verdict::Verdict;

/// The scratch buffer is freed after a block if it grew beyond this.
const MAX_KEPT_SCRATCH_BYTES: usize = 8 * 1024;

/// A block that breaks a rule of RFC 7541: the table is out of step, so the connection cannot continue (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionError;

/// Decodes the blocks of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The table size we allow.
    limit: usize,
    /// The next block must begin with a size update to at most this.
    required_update: Option<usize>,
    /// The literal field being read.
    scratch: Vec<u8>,
}

/// The name of a literal field.
#[derive(Clone, Copy)]
struct LiteralName {
    bytes: usize,
    known: Known,
    verdict: Verdict,
}

impl Decoder {
    /// With an empty table. `limit` is our SETTINGS_HEADER_TABLE_SIZE, 4,096 by default.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(MAX_TABLE_BYTES);
        let mut decoder = Decoder {
            table: Table::new(INITIAL_TABLE_BYTES),
            limit: INITIAL_TABLE_BYTES,
            required_update: None,
            scratch: Vec::new(),
        };
        decoder.set_limit(limit);
        decoder
    }

    /// The peer acknowledged another limit. "an encoder MUST signal the change if it is smaller" (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MAX_TABLE_BYTES);
        if self.limit < self.table.max_bytes() {
            self.required_update = Some(self.required_update.map_or(self.limit, |owed| owed.min(self.limit)));
        }
    }

    /// Releases the memory that only decoding needs.
    pub fn release_memory(&mut self) {
        self.scratch = Vec::new();
    }

    /// Bytes of memory kept between blocks.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.table.kept_bytes() + self.scratch.capacity()
    }

    /// Decodes a complete block and returns its fields in order.
    ///
    /// # Errors
    /// The block breaks a rule; fields before it may have been returned.
    pub fn decode(&mut self, block: &[u8], mut take: impl FnMut(Line<'_>)) -> Result<(), CompressionError> {
        let mut rest = self.read_size_updates(block)?;
        while let Some(&first) = rest.first() {
            rest = if first & 0x80 != 0 {
                let (index, used) = integer::decode(rest, 7).ok_or(CompressionError)?;
                take(self.indexed_line(index as usize)?);
                &rest[used..]
            } else {
                self.read_literal(rest, &mut take)?
            };
        }
        if self.scratch.capacity() > MAX_KEPT_SCRATCH_BYTES {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// "This dynamic table size update MUST occur at the beginning of the first header block following the change to the
    /// dynamic table size" (RFC 7541 §4.2). "The new maximum size MUST be lower than or equal to the limit" (§6.3).
    fn read_size_updates<'b>(&mut self, mut block: &'b [u8]) -> Result<&'b [u8], CompressionError> {
        while let Some(0x20..=0x3f) = block.first() {
            let (most, used) = integer::decode(block, 5).ok_or(CompressionError)?;
            if most as usize > self.limit {
                return Err(CompressionError);
            }
            if self.required_update.is_some_and(|owed| most as usize <= owed) {
                self.required_update = None;
            }
            self.table.resize(most as usize);
            block = &block[used..];
        }
        match self.required_update {
            Some(_) if !block.is_empty() => Err(CompressionError),
            _ => Ok(block),
        }
    }

    /// "The index value of 0 is not used. It MUST be treated as a decoding error" (RFC 7541 §6.1), as must one beyond both
    /// tables (§2.3.3).
    #[inline]
    fn indexed_line(&self, index: usize) -> Result<Line<'_>, CompressionError> {
        if let Some(entry) = fixed::TABLE.get(index.wrapping_sub(1)) {
            return Ok(entry.line());
        }
        self.table
            .get_from_newest(index.checked_sub(fixed::COUNT + 1).ok_or(CompressionError)?)
            .ok_or(CompressionError)
    }

    /// `01`: with incremental indexing; `0001`: never indexed; `0000`: without indexing (RFC 7541 §6.2). `001` here
    /// would be a size update after the first field.
    #[inline]
    fn read_literal<'b>(
        &mut self,
        block: &'b [u8],
        take: &mut impl FnMut(Line<'_>),
    ) -> Result<&'b [u8], CompressionError> {
        let (bits, enters, sensitive) = match block[0] >> 4 {
            0b0100..=0b0111 => (6, true, false),
            0b0001 => (4, false, true),
            0b0000 => (4, false, false),
            _ => return Err(CompressionError),
        };
        let (index, used) = integer::decode(block, bits).ok_or(CompressionError)?;
        self.scratch.clear();
        let (name, rest) = self.read_name(index as usize, &block[used..])?;
        self.scratch.extend_from_slice(b": ");
        let value = self.scratch.len();
        let rest = read_string(rest, &mut self.scratch)?;
        let verdict = name.verdict.with_value(&self.scratch[..name.bytes], &self.scratch[value..]);
        self.scratch.extend_from_slice(b"\r\n");
        let line =
            Line { bytes: &self.scratch, name_bytes: name.bytes, known: name.known, verdict, sensitive };
        take(line);
        if enters {
            self.table.insert(line);
        }
        Ok(rest)
    }

    /// Copies a name into the scratch buffer: from a table, or from a string if the index is 0.
    fn read_name<'b>(
        &mut self,
        index: usize,
        block: &'b [u8],
    ) -> Result<(LiteralName, &'b [u8]), CompressionError> {
        if let Some(entry) = fixed::TABLE.get(index.wrapping_sub(1)) {
            self.scratch.extend_from_slice(entry.name);
            let name =
                LiteralName { bytes: entry.name.len(), known: entry.known, verdict: entry.name_verdict };
            return Ok((name, block));
        }
        if index > 0 {
            let line = self.table.get_from_newest(index - fixed::COUNT - 1).ok_or(CompressionError)?;
            self.scratch.extend_from_slice(line.name());
            let verdict = match line.verdict {
                // The value may be what was invalid.
                Verdict::Bad(_) => Verdict::for_name(line.name()),
                verdict => verdict,
            };
            return Ok((LiteralName { bytes: line.name_bytes, known: line.known, verdict }, block));
        }
        let rest = read_string(block, &mut self.scratch)?;
        let (known, verdict) = (Known::from_name(&self.scratch), Verdict::for_name(&self.scratch));
        // The name is known for certain only if it is valid.
        let known = if matches!(verdict, Verdict::Bad(_)) { Known::Other } else { known };
        Ok((LiteralName { bytes: self.scratch.len(), known, verdict }, rest))
    }
}

/// "the dynamic table size ... initial value is 4,096 octets" (RFC 9113 §6.5.2).
const INITIAL_TABLE_BYTES: usize = 4096;

/// Appends a string literal (RFC 7541 §5.2). Returns the rest of the block.
#[inline]
fn read_string<'b>(block: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], CompressionError> {
    let (length, used) = integer::decode(block, 7).ok_or(CompressionError)?;
    let (text, rest) = block[used..].split_at_checked(length as usize).ok_or(CompressionError)?;
    if block[0] & 0x80 == 0 {
        out.extend_from_slice(text);
    } else {
        huffman::decode(text, out).ok_or(CompressionError)?;
    }
    Ok(rest)
}
