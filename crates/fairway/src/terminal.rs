//! Text for a terminal that objects and answers are part of, which anybody may have written. Control characters in it would move the
//! cursor, hide lines or set the title, others turn text around or are not shown: they are shown as question marks.

use std::io::{self, Write};

use fairway_model::is_layout_control;

/// Passes on everything but layout controls.
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

/// The length of the layout control at the start of this UTF-8, except for what lays out lines.
fn control(bytes: &[u8]) -> Option<usize> {
    let length = match bytes.first()? {
        b'\n' | b'\t' => return None,
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let text = str::from_utf8(bytes.get(..length)?).ok()?;
    text.chars().next().is_some_and(is_layout_control).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_everything_else_stays() {
        let mut out = Vec::new();
        write!(
            Plain(&mut out),
            "a\u{1b}[2J\r\u{7f}é\tb\n\u{7}\u{9b}2J\u{a0}\u{2028}\u{202e}\u{61c}😀\u{200b}\u{ad}\u{e0041}"
        )
        .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a?[2J??é\tb\n??2J\u{a0}???😀???");
    }
}
