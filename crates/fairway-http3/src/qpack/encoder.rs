//! Encodes field sections (RFC 9204 §4.5) with the static table and literals. Never refers to a dynamic table, so every
//! section can be decoded at once.

use fairway_http2::hpack::integer;

use super::fixed::{self, StaticMatch};

/// The bit for literals that every hop must keep as literals: "never indexed" (RFC 9204 §4.5.4).
const NEVER_INDEXED_REFERENCE: u8 = 0x20;
const NEVER_INDEXED_NAME: u8 = 0x10;

/// Writes field sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoder;

impl Encoder {
    /// Begins a section: Required Insert Count and Base are 0 (RFC 9204 §4.5.1).
    pub fn begin_section(out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0]);
    }

    /// Appends `:status`.
    pub fn status(status: u16, out: &mut Vec<u8>) {
        if status == 200 {
            return out.push(0xc0 | 25);
        }
        let digit = |number: u16| b'0' + (number % 10) as u8;
        Encoder::field(b":status", &[digit(status / 100), digit(status / 10), digit(status)], false, out);
    }

    /// Appends a field; its name is written in lower case (RFC 9114 §4.2).
    pub fn field(name: &[u8], value: &[u8], sensitive: bool, out: &mut Vec<u8>) {
        match fixed::find(name, value) {
            StaticMatch::Field(index) if !sensitive => return integer::write(index as u64, 6, 0xc0, out),
            StaticMatch::Field(index) | StaticMatch::Name(index) => {
                let high = if sensitive { 0x50 | NEVER_INDEXED_REFERENCE } else { 0x50 };
                integer::write(index as u64, 4, high, out);
            }
            StaticMatch::None => {
                let high = if sensitive { 0x20 | NEVER_INDEXED_NAME } else { 0x20 };
                integer::write(name.len() as u64, 3, high, out);
                let start = out.len();
                out.extend_from_slice(name);
                out[start..].make_ascii_lowercase();
            }
        }
        integer::write(value.len() as u64, 7, 0, out);
        out.extend_from_slice(value);
    }
}
