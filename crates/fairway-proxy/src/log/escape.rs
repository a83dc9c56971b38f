//! Escaping of values in a log line.

use std::fmt::Display;
use std::io::Write;

use fairway_model::{LogEscape, is_layout_control};

/// Writes one value.
pub(crate) struct EscapedWriter<'a> {
    out: &'a mut Vec<u8>,
    escape: LogEscape,
    /// The character after the value in the line.
    end: Option<char>,
}

impl<'a> EscapedWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, escape: LogEscape, end: Option<char>) -> Self {
        Self { out, escape, end }
    }

    /// Writes untrusted text.
    pub(crate) fn text(&mut self, value: &[u8]) {
        match self.escape {
            LogEscape::Nginx => self.nginx(value),
            LogEscape::Json => self.json(value),
        }
    }

    /// Writes Fairway's own text, which needs no escaping.
    pub(crate) fn unescaped(&mut self, word: &str) {
        self.out.extend_from_slice(word.as_bytes());
    }

    /// Writes a number.
    pub(crate) fn number(&mut self, number: impl itoa::Integer) {
        self.unescaped(itoa::Buffer::new().format(number));
    }

    /// Writes a value of Fairway's own that needs no escaping.
    pub(crate) fn display(&mut self, value: impl Display) {
        write!(self.out, "{value}").expect("a vector takes every write");
    }

    /// Escapes as nginx does: bytes that could break the line become `\xHH`.
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

    /// Escapes as in a JSON string. Invalid UTF-8 becomes U+FFFD, because JSON strings cannot represent it.
    fn json(&mut self, value: &[u8]) {
        for chunk in value.utf8_chunks() {
            for c in chunk.valid().chars() {
                self.json_char(c);
            }
            if !chunk.invalid().is_empty() {
                self.unescaped("\u{fffd}");
            }
        }
    }

    fn json_char(&mut self, c: char) {
        match c {
            '"' => self.unescaped("\\\""),
            '\\' => self.unescaped("\\\\"),
            '\n' => self.unescaped("\\n"),
            '\r' => self.unescaped("\\r"),
            '\t' => self.unescaped("\\t"),
            '\u{8}' => self.unescaped("\\b"),
            '\u{c}' => self.unescaped("\\f"),
            _ if is_layout_control(c) || Some(c) == self.end => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(self.out, "\\u{unit:04X}").expect("a vector takes every write");
                }
            }
            ' '..='~' => self.out.push(c as u8),
            _ => self.unescaped(c.encode_utf8(&mut [0; 4])),
        }
    }
}
