//! Text for a terminal that objects and answers are part of, which anybody may have written. Control characters in it would move the
//! cursor, hide lines or set the title: they are shown as question marks.

use std::io::{self, Write};

/// Passes on everything but control characters.
pub(crate) struct Plain<W>(pub(crate) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let control = (0..bytes.len()).find_map(|at| Some((at, control(&bytes[at..])?)));
        match control {
            Some((0, length)) => self.0.write_all(b"?").map(|()| length),
            Some((end, _)) => self.0.write(&bytes[..end]),
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The length of the control character at the start of this UTF-8: one of ASCII, except for what lays out lines, or one of the 32
/// from U+0080, among which terminals know a second form of the escape sequences.
fn control(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n' | b'\t', ..] => None,
        [byte, ..] if byte.is_ascii_control() => Some(1),
        [0xc2, 0x80..=0x9f, ..] => Some(2),
        _ => None,
    }
}

/// Text that is one part of a line: what would end the line is a question mark, too.
pub(crate) fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_everything_else_stays() {
        let mut out = Vec::new();
        write!(Plain(&mut out), "a\u{1b}[2J\r\u{7f}é\tb\n\u{7}\u{9b}2J\u{a0}").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a?[2J??é\tb\n??2J\u{a0}");
    }
}
