//! Writers for output that contains untrusted text from objects and responses. Control characters in it could move the cursor of a
//! terminal, hide lines, set the title or reorder text. Text output replaces them with question marks; JSON and YAML output escape
//! them, which keeps the values.

use std::io::{self, Write};

use anyhow::Result;
use fairway_model::is_layout_control;
use serde::Serialize;

/// Replaces layout controls with question marks.
pub(crate) struct PlainText<W>(pub(crate) W);

/// Escapes the layout controls in the strings of JSON.
pub(crate) struct EscapedJson<W>(pub(crate) W);

/// Turns JSON into YAML, with the layout controls in its strings as YAML escapes, which have no surrogate pairs.
struct EscapedYaml<W>(W);

/// A value as YAML. If one of its strings has layout controls, all strings are double-quoted and escape them.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String> {
    let text = serde_saphyr::to_string(value)?;
    if !text.chars().any(is_hidden) {
        return Ok(text);
    }
    let mut escaped = Vec::new();
    serde_json::to_writer_pretty(EscapedYaml(&mut escaped), value)?;
    escaped.push(b'\n');
    Ok(String::from_utf8(escaped)?)
}

impl<W: Write> Write for PlainText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_until_hidden(&mut self.0, bytes, |out, _| out.write_all(b"?"))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Write for EscapedJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // RFC 8259 §7: a character outside the Basic Multilingual Plane is two escapes.
        let escape = |out: &mut W, control: char| {
            control.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
        };
        write_until_hidden(&mut self.0, bytes, escape)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Write for EscapedYaml<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // YAML 1.2 §5.7: one escape for each character.
        write_until_hidden(&mut self.0, bytes, |out, control| write!(out, "\\U{:08x}", u32::from(control)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes the text before the first layout control or, if that is the first character, its replacement.
fn write_until_hidden<W: Write>(
    out: &mut W,
    bytes: &[u8],
    instead: impl FnOnce(&mut W, char) -> io::Result<()>,
) -> io::Result<usize> {
    match (0..bytes.len()).find_map(|at| Some((at, hidden_char(&bytes[at..])?))) {
        Some((0, control)) => instead(out, control).map(|()| control.len_utf8()),
        Some((end, _)) => out.write(&bytes[..end]),
        None => out.write(bytes),
    }
}

/// Whether a character is a layout control other than a newline or tab.
fn is_hidden(c: char) -> bool {
    is_layout_control(c) && !matches!(c, '\n' | '\t')
}

/// The hidden character at the start of UTF-8 text, if there is one.
fn hidden_char(bytes: &[u8]) -> Option<char> {
    let length = match bytes.first()? {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let text = str::from_utf8(bytes.get(..length)?).ok()?;
    text.chars().next().filter(|c| is_hidden(*c))
}

#[cfg(test)]
mod tests {
    use fairway_objects::manifest::{self, Schema};

    use super::*;

    #[test]
    fn control_characters_are_replaced_and_others_kept() {
        let mut out = Vec::new();
        write!(
            PlainText(&mut out),
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

    #[test]
    fn yaml_has_the_same_values_and_shows_no_control_character() {
        for (hidden, is_block) in
            [("b c", true), ("b\u{202e}", false), ("\u{e0041}\u{7f}\r\"\\\n\t😀", false)]
        {
            let value = serde_json::json!({ "a": [hidden, "line\n\tline\n"] });
            let text = yaml(&value).unwrap();
            assert_eq!(text.starts_with("a:\n"), is_block, "{text}");
            assert!(!text.chars().any(is_hidden), "{text}");
            let root = manifest::parse_single(&text, Schema::Yaml11).unwrap().unwrap();
            assert_eq!(root.to_json(), value);
        }
    }
}
