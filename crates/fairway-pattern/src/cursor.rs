//! The position of a parser in its pattern.

use crate::refusal::Refusal;

/// Reads a pattern byte by byte.
pub(crate) struct Parser<'t> {
    pub(crate) text: &'t [u8],
    pub(crate) at: usize,
    pub(crate) groups: u32,
    pub(crate) depth: u32,
}

impl<'t> Parser<'t> {
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn peek_after(&self) -> Option<u8> {
        self.text.get(self.at + 1).copied()
    }

    pub(crate) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    pub(crate) fn eat(&mut self, text: &[u8]) -> bool {
        let found = self.text[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// The text before the next `end`, which is skipped.
    pub(crate) fn until(&mut self, end: &[u8]) -> Option<&'t [u8]> {
        let rest: &'t [u8] = &self.text[self.at..];
        let length = rest.windows(end.len()).position(|window| window == end)?;
        self.at += length + end.len();
        Some(&rest[..length])
    }
}

/// Rejects a PCRE feature that this crate does not support.
pub(crate) fn unsupported(construct: &str) -> Refusal {
    Refusal::because(format!("{construct} is not supported"))
}
