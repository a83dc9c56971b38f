//! Values as they may stand in a line.

use std::fmt::Display;
use std::io::Write;

use fairway_model::{Escape, is_layout_control};

/// Where one value is written.
pub(crate) struct Escaped<'a> {
    out: &'a mut Vec<u8>,
    escape: Escape,
    /// What ends the value in the line.
    end: Option<char>,
}

impl<'a> Escaped<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, escape: Escape, end: Option<char>) -> Self {
        Self { out, escape, end }
    }

    /// Text that somebody else chose.
    pub(crate) fn text(&mut self, value: &[u8]) {
        match self.escape {
            Escape::Nginx => self.nginx(value),
            Escape::Json => self.json(value),
        }
    }

    /// Words of Fairway's own, which need no escape.
    pub(crate) fn plain(&mut self, word: &str) {
        self.out.extend_from_slice(word.as_bytes());
    }

    /// A number.
    pub(crate) fn number(&mut self, number: impl itoa::Integer) {
        self.plain(itoa::Buffer::new().format(number));
    }

    /// Something of Fairway's own that needs no escape.
    pub(crate) fn display(&mut self, value: impl Display) {
        write!(self.out, "{value}").expect("a vector takes every write");
    }

    /// As nginx escapes: what could break the line is written `\xHH`.
    fn nginx(&mut self, value: &[u8]) {
        let end = self.end.and_then(|end| u8::try_from(end).ok());
        for byte in value {
            let is_plain = (0x20..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
            if is_plain && Some(*byte) != end {
                self.out.push(*byte);
            } else {
                write!(self.out, "\\x{byte:02X}").expect("a vector takes every write");
            }
        }
    }

    /// As in a string of JSON. Bytes that are no UTF-8 become U+FFFD, for a string of JSON can have no others.
    fn json(&mut self, value: &[u8]) {
        for chunk in value.utf8_chunks() {
            for c in chunk.valid().chars() {
                self.json_char(c);
            }
            if !chunk.invalid().is_empty() {
                self.plain("\u{fffd}");
            }
        }
    }

    fn json_char(&mut self, c: char) {
        match c {
            '"' => self.plain("\\\""),
            '\\' => self.plain("\\\\"),
            '\n' => self.plain("\\n"),
            '\r' => self.plain("\\r"),
            '\t' => self.plain("\\t"),
            '\u{8}' => self.plain("\\b"),
            '\u{c}' => self.plain("\\f"),
            _ if is_layout_control(c) || Some(c) == self.end => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(self.out, "\\u{unit:04X}").expect("a vector takes every write");
                }
            }
            ' '..='~' => self.out.push(c as u8),
            _ => self.plain(c.encode_utf8(&mut [0; 4])),
        }
    }
}
