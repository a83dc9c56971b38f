//! Untrusted text in messages.

/// Whether a character ends a line, moves the cursor, changes the order in which other characters are displayed, or
/// is invisible: a control character, U+2028, U+2029, an interlinear annotation character, or one with Unicode's
/// property `Default_Ignorable_Code_Point` (UAX #44), such as bidirectional controls, zero-width characters, the soft
/// hyphen, the byte order mark, variation selectors and tags.
#[must_use]
pub fn is_layout_control(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line: each layout control except tabs becomes a question mark.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if is_layout_control(c) && c != '\t' { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_line_breaks_and_bidirectional_controls() {
        let text = "a\nb\rc\u{85}d\u{2028}e\u{2029}f\u{202e}g\u{2066}h\u{61c}i\u{200f}j\u{1b}k\tlé😀";
        assert_eq!(on_one_line(text), "a?b?c?d?e?f?g?h?i?j?k\tlé😀");
    }

    #[test]
    fn replaces_invisible_characters() {
        let zero_width = "\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2060}\u{2061}\u{2064}\u{feff}\u{ad}";
        let others =
            "\u{34f}\u{115f}\u{180e}\u{2065}\u{206a}\u{3164}\u{fe0f}\u{ffa0}\u{fff9}\u{e0041}\u{e0100}";
        for c in zero_width.chars().chain(others.chars()) {
            assert_eq!(on_one_line(&format!("a{c}b")), "a?b", "U+{:04X}", u32::from(c));
        }
        let shown = "\u{a0}\u{200a}\u{2010}\u{2070}\u{fffd}\u{1f600}\u{301}";
        assert_eq!(on_one_line(shown), shown);
    }
}
