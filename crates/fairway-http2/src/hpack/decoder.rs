//! Field blocks to lines (RFC 7541 §3, §6). Never judges a message: every field is given to whoever reads the block, and
//! the table stays in step even when nobody wants the fields.

use fairway_http::Known;

use super::table::{Line, MOST, Table};
use super::{fixed, huffman, integer};
use crate::verdict::Verdict;

/// What a string may grow to before its buffer is given back after the block.
const KEPT_SCRATCH: usize = 8 * 1024;

/// A block that breaks a rule of RFC 7541: the table is out of step, so the connection cannot go on (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defective;

/// Reads the blocks of one direction of a connection, one after the other.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What we allow the table to be.
    limit: usize,
    /// The next block must begin with a size update to at most this.
    owed: Option<usize>,
    /// The literal field that is being read.
    scratch: Vec<u8>,
}

/// How the name of a literal field begins.
#[derive(Clone, Copy)]
struct Name {
    bytes: usize,
    known: Known,
    verdict: Verdict,
}

impl Decoder {
    /// With an empty table. `limit` is what our SETTINGS_HEADER_TABLE_SIZE says, 4,096 if they do not.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(MOST);
        let mut decoder =
            Decoder { table: Table::new(INITIAL), limit: INITIAL, owed: None, scratch: Vec::new() };
        decoder.set_limit(limit);
        decoder
    }

    /// The peer acknowledged another limit. "an encoder MUST signal the change if it is smaller" (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MOST);
        if self.limit < self.table.most() {
            self.owed = Some(self.owed.map_or(self.limit, |owed| owed.min(self.limit)));
        }
    }

    /// Gives back what only blocks need.
    pub fn rest(&mut self) {
        self.scratch = Vec::new();
    }

    /// The memory that it keeps from block to block, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.table.kept_bytes() + self.scratch.capacity()
    }

    /// Reads a whole block and gives its fields in their order.
    ///
    /// # Errors
    /// When the block breaks a rule; it can have given fields before.
    pub fn decode(&mut self, block: &[u8], mut take: impl FnMut(Line<'_>)) -> Result<(), Defective> {
        let mut rest = self.updates(block)?;
        while let Some(&first) = rest.first() {
            rest = if first & 0x80 != 0 {
                let (index, used) = integer::decode(rest, 7).ok_or(Defective)?;
                take(self.indexed(index as usize)?);
                &rest[used..]
            } else {
                self.literal(rest, &mut take)?
            };
        }
        if self.scratch.capacity() > KEPT_SCRATCH {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// "This dynamic table size update MUST occur at the beginning of the first header block following the change to the
    /// dynamic table size" (RFC 7541 §4.2). "The new maximum size MUST be lower than or equal to the limit" (§6.3).
    fn updates<'b>(&mut self, mut block: &'b [u8]) -> Result<&'b [u8], Defective> {
        while let Some(0x20..=0x3f) = block.first() {
            let (most, used) = integer::decode(block, 5).ok_or(Defective)?;
            if most as usize > self.limit {
                return Err(Defective);
            }
            if self.owed.is_some_and(|owed| most as usize <= owed) {
                self.owed = None;
            }
            self.table.resize(most as usize);
            block = &block[used..];
        }
        match self.owed {
            Some(_) if !block.is_empty() => Err(Defective),
            _ => Ok(block),
        }
    }

    /// "The index value of 0 is not used. It MUST be treated as a decoding error" (RFC 7541 §6.1), as must one beyond both
    /// tables (§2.3.3).
    #[inline]
    fn indexed(&self, index: usize) -> Result<Line<'_>, Defective> {
        if let Some(entry) = fixed::TABLE.get(index.wrapping_sub(1)) {
            return Ok(entry.line());
        }
        self.table.newest(index.checked_sub(fixed::COUNT + 1).ok_or(Defective)?).ok_or(Defective)
    }

    /// `01`: with incremental indexing; `0001`: never indexed; `0000`: without indexing (RFC 7541 §6.2). `001` here is a
    /// size update behind the first field.
    #[inline]
    fn literal<'b>(
        &mut self,
        block: &'b [u8],
        take: &mut impl FnMut(Line<'_>),
    ) -> Result<&'b [u8], Defective> {
        let (bits, enters, sensitive) = match block[0] >> 4 {
            0b0100..=0b0111 => (6, true, false),
            0b0001 => (4, false, true),
            0b0000 => (4, false, false),
            _ => return Err(Defective),
        };
        let (index, used) = integer::decode(block, bits).ok_or(Defective)?;
        self.scratch.clear();
        let (name, rest) = self.name(index as usize, &block[used..])?;
        self.scratch.extend_from_slice(b": ");
        let value = self.scratch.len();
        let rest = string(rest, &mut self.scratch)?;
        let verdict = name.verdict.with(&self.scratch[..name.bytes], &self.scratch[value..]);
        self.scratch.extend_from_slice(b"\r\n");
        let line =
            Line { bytes: &self.scratch, name_bytes: name.bytes, known: name.known, verdict, sensitive };
        take(line);
        if enters {
            self.table.insert(line);
        }
        Ok(rest)
    }

    /// Puts a name into the scratch buffer: one of a table, or a string if the index is 0.
    fn name<'b>(&mut self, index: usize, block: &'b [u8]) -> Result<(Name, &'b [u8]), Defective> {
        if let Some(entry) = fixed::TABLE.get(index.wrapping_sub(1)) {
            self.scratch.extend_from_slice(entry.name);
            let name = Name { bytes: entry.name.len(), known: entry.known, verdict: entry.name_verdict };
            return Ok((name, block));
        }
        if index > 0 {
            let line = self.table.newest(index - fixed::COUNT - 1).ok_or(Defective)?;
            self.scratch.extend_from_slice(line.name());
            let verdict = match line.verdict {
                // It may be the value that was bad.
                Verdict::Bad(_) => Verdict::of_name(line.name()),
                verdict => verdict,
            };
            return Ok((Name { bytes: line.name_bytes, known: line.known, verdict }, block));
        }
        let rest = string(block, &mut self.scratch)?;
        let (known, verdict) = (Known::of(&self.scratch), Verdict::of_name(&self.scratch));
        // Only for a valid name is the known one certain.
        let known = if matches!(verdict, Verdict::Bad(_)) { Known::Other } else { known };
        Ok((Name { bytes: self.scratch.len(), known, verdict }, rest))
    }
}

/// "the dynamic table size ... initial value is 4,096 octets" (RFC 9113 §6.5.2).
const INITIAL: usize = 4096;

/// Appends a string literal (RFC 7541 §5.2), and returns what follows it.
#[inline]
fn string<'b>(block: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], Defective> {
    let (length, used) = integer::decode(block, 7).ok_or(Defective)?;
    let (text, rest) = block[used..].split_at_checked(length as usize).ok_or(Defective)?;
    if block[0] & 0x80 == 0 {
        out.extend_from_slice(text);
    } else {
        huffman::decode(text, out).ok_or(Defective)?;
    }
    Ok(rest)
}
