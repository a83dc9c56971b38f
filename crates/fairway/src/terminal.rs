//! Output that objects and answers are part of, which anybody may have written. Control characters in it would move the cursor of a
//! terminal, hide lines or set the title, others turn text around or are not shown. Text shows them as question marks; JSON has them
//! as escapes, which keep the values.

use std::io::{self, Write};

use fairway_model::is_layout_control;

/// Passes on everything but layout controls.
pub(crate) struct Plain<W>(pub(crate) W);

/// Passes on JSON, with the layout controls in its strings as escapes.
pub(crate) struct EscapedJson<W>(pub(crate) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        pass(&mut self.0, bytes, |out, _| out.write_all(b"?"))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Write for EscapedJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // RFC 8259 §7: characters outside of the Basic Multilingual Plane are two escapes.
        let escape = |out: &mut W, control: char| {
            control.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
        };
        pass(&mut self.0, bytes, escape)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes what comes before the first layout control or, where that is the first, something else for it.
fn pass<W: Write>(
    out: &mut W,
    bytes: &[u8],
    instead: impl FnOnce(&mut W, char) -> io::Result<()>,
) -> io::Result<usize> {
    match (0..bytes.len()).find_map(|at| Some((at, control(&bytes[at..])?))) {
        Some((0, control)) => instead(out, control).map(|()| control.len_utf8()),
        Some((end, _)) => out.write(&bytes[..end]),
        None => out.write(bytes),
    }
}

/// The layout control at the start of this UTF-8, except for what lays out lines.
fn control(bytes: &[u8]) -> Option<char> {
    let length = match bytes.first()? {
        b'\n' | b'\t' => return None,
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let text = str::from_utf8(bytes.get(..length)?).ok()?;
    text.chars().next().filter(|c| is_layout_control(*c))
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

    #[test]
    fn json_has_the_same_values_and_shows_no_control_character() {
        let value = serde_json::json!({ "a\u{202e}": ["b\n\u{7f}é\u{feff}😀", "\u{e0041}\u{2066}c\""] });
        let mut out = Vec::new();
        serde_json::to_writer_pretty(EscapedJson(&mut out), &value).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\"a\\u202e\"") && text.contains("\"\\udb40\\udc41\\u2066c\\\"\""), "{text}");
        assert!(!text.chars().any(|c| is_layout_control(c) && c != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
