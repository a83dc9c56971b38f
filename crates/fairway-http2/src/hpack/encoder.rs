//! Encodes fields to field blocks (RFC 7541 §6).
//!
//! By default there is no dynamic table: fields of the static table are indexed, the rest are plain literals, which
//! costs the peer a few bytes and us next to nothing. With a table, repeated fields become one byte.

use std::collections::VecDeque;

use fairway_http::Known;

use super::table::{ENTRY_OVERHEAD_BYTES, Line, Table};
use super::{fixed, huffman, integer};
use crate::verdict::Verdict;

/// How strings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringCoding {
    /// Uncompressed.
    Plain,
    /// Huffman-coded if that is shorter.
    Huffman,
}

/// Entries of the dynamic table in use: each field is compared with all of them, so there are few.
const MAX_ENTRIES: usize = 32;

/// Fields that never enter a table: connections to an endpoint carry the requests of many clients, and compression
/// would reveal secrets by size (RFC 7541 §7.1).
const NEVER_INDEXED: [&str; 3] = ["authorization", "proxy-authorization", "x-api-key"];

/// Fields whose values hardly ever repeat, or that are secret but too common to be marked.
const NOT_INDEXED: [&str; 8] =
    [":path", "content-length", "cookie", "set-cookie", "etag", "location", "x-request-id", "last-modified"];

/// Encodes the blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    strings: StringCoding,
    /// The preferred table size, 0 for none.
    preferred_bytes: usize,
    table: Table,
    /// A hash of each entry of the table, oldest first.
    hashes: VecDeque<u32>,
    /// Sizes to announce with the next block: the smallest that the peer asked for since the last one, and the current
    /// one.
    pending_updates: Option<(usize, usize)>,
    /// The line of a field that enters the table.
    scratch: Vec<u8>,
}

impl Encoder {
    /// With an empty table of at most `wanted` bytes; 0 for none.
    #[must_use]
    pub fn new(strings: StringCoding, table_size: usize) -> Self {
        let wanted = table_size.min(4096);
        let mut encoder = Encoder {
            strings,
            preferred_bytes: wanted,
            table: Table::new(4096),
            hashes: VecDeque::new(),
            pending_updates: None,
            scratch: Vec::new(),
        };
        if wanted < 4096 && wanted > 0 {
            encoder.set_limit(4096);
        }
        encoder
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE changed. "An encoder can choose to use less capacity than this maximum size"
    /// (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: usize) {
        // Without a table there is nothing to evict, but a peer that reduces the limit expects an update.
        let max = if self.preferred_bytes == 0 { limit.min(4096) } else { limit.min(self.preferred_bytes) };
        let before = self.table.max_bytes();
        if max == before && self.pending_updates.is_none() {
            return;
        }
        let smallest = self.pending_updates.map_or(max, |(smallest, _)| smallest.min(max));
        self.pending_updates = Some((smallest, max));
        self.resize(max);
    }

    /// Releases the memory that only encoding needs.
    pub fn release_memory(&mut self) {
        self.scratch = Vec::new();
    }

    /// Bytes of memory kept between blocks.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.table.kept_bytes() + self.hashes.capacity() * 4 + self.scratch.capacity()
    }

    /// Begins a block.
    #[inline]
    pub fn begin_block(&mut self, out: &mut Vec<u8>) {
        if let Some((smallest, present)) = self.pending_updates.take() {
            if smallest < present {
                integer::write(smallest as u64, 5, 0x20, out);
            }
            integer::write(present as u64, 5, 0x20, out);
        }
    }

    /// Appends `:status`.
    #[inline]
    pub fn write_status(&mut self, status: u16, out: &mut Vec<u8>) {
        let digits =
            [(status / 100 % 10) as u8, (status / 10 % 10) as u8, (status % 10) as u8].map(|it| b'0' + it);
        self.write_field(b":status", &digits, false, out);
    }

    /// Appends a field; its name is written in lower case (RFC 9113 §8.2). A sensitive one is never indexed, here or on
    /// any later hop (RFC 7541 §7.1.3).
    #[inline]
    pub fn write_field(&mut self, name: &[u8], value: &[u8], sensitive: bool, out: &mut Vec<u8>) {
        let fixed = fixed::index_of(name);
        if let Some(index) = fixed.and_then(|lowest| fixed::with_value(lowest, value)) {
            return integer::write(index as u64, 7, 0x80, out);
        }
        let sensitive = sensitive || is_one_of(name, &NEVER_INDEXED);
        if self.preferred_bytes > 0 && !sensitive && !is_one_of(name, &NOT_INDEXED) {
            return self.write_indexable(fixed, name, value, out);
        }
        let high = if sensitive { 0x10 } else { 0 };
        self.write_literal(fixed.unwrap_or(0), 4, high, name, value, out);
    }

    /// Appends a field that is in the dynamic table or enters it.
    fn write_indexable(&mut self, fixed: Option<usize>, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let hash = hash(name, value);
        let newest_first = self.hashes.iter().rev().enumerate().filter(|(_, other)| **other == hash);
        for (at, _) in newest_first {
            let same = |line: Line<'_>| line.name().eq_ignore_ascii_case(name) && line.value() == value;
            if self.table.get_from_newest(at).is_some_and(same) {
                return integer::write((fixed::COUNT + 1 + at) as u64, 7, 0x80, out);
            }
        }
        // One long field must not evict all others.
        if name.len() + value.len() + ENTRY_OVERHEAD_BYTES > self.table.max_bytes() / 4 {
            return self.write_literal(fixed.unwrap_or(0), 4, 0, name, value, out);
        }
        self.scratch.clear();
        self.scratch.extend(name.iter().map(u8::to_ascii_lowercase));
        self.scratch.extend_from_slice(b": ");
        self.scratch.extend_from_slice(value);
        self.scratch.extend_from_slice(b"\r\n");
        let line = Line {
            bytes: &self.scratch,
            name_bytes: name.len(),
            known: Known::Other,
            verdict: Verdict::Regular,
            sensitive: false,
        };
        while self.table.count() >= MAX_ENTRIES {
            // The peer keeps more entries than we do: ours are a prefix of its table, so our indices are valid there.
            self.table.evict();
        }
        self.table.insert(line);
        self.hashes.push_back(hash);
        while self.hashes.len() > self.table.count() {
            self.hashes.pop_front();
        }
        self.write_literal(fixed.unwrap_or(0), 6, 0x40, name, value, out);
    }

    fn resize(&mut self, limit: usize) {
        self.table.resize(limit);
        while self.hashes.len() > self.table.count() {
            self.hashes.pop_front();
        }
    }

    /// Appends a literal: `index` is that of its name or 0, `bits` the length of its prefix, `high` the bits before it.
    #[inline]
    fn write_literal(&self, index: usize, bits: u32, high: u8, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        integer::write(index as u64, bits, high, out);
        if index == 0 {
            self.write_name(name, out);
        }
        self.write_string(value, out);
    }

    /// Appends a name in lower case.
    #[inline]
    fn write_name(&self, name: &[u8], out: &mut Vec<u8>) {
        let mut lower = [0; 64];
        match lower.get_mut(..name.len()) {
            Some(lower) if self.strings == StringCoding::Huffman => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                self.write_string(lower, out);
            }
            _ => {
                integer::write(name.len() as u64, 7, 0, out);
                out.extend_from_slice(name);
                let at = out.len() - name.len();
                out[at..].make_ascii_lowercase();
            }
        }
    }

    #[inline]
    fn write_string(&self, text: &[u8], out: &mut Vec<u8>) {
        if self.strings == StringCoding::Huffman {
            let length = huffman::encoded_len(text);
            if length < text.len() {
                integer::write(length as u64, 7, 0x80, out);
                return huffman::encode(text, out);
            }
        }
        integer::write(text.len() as u64, 7, 0, out);
        out.extend_from_slice(text);
    }
}

#[inline]
fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// FNV-1a over the lower-case name and the value.
#[inline]
fn hash(name: &[u8], value: &[u8]) -> u32 {
    let lower = name.iter().map(|byte| byte | 0x20);
    lower
        .chain(value.iter().copied())
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
