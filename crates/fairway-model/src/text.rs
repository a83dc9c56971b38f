//! Text that somebody else wrote, as a part of what people read.

/// Whether a character ends a line, moves a cursor, or changes the order in which other characters are shown: a control
/// character, U+2028, U+2029, or one of Unicode's bidirectional controls (UAX #9 §2).
#[must_use]
pub fn is_layout_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line: each layout control except tabs is a question mark.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if is_layout_control(c) && c != '\t' { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_line_or_turns_it_around() {
        let text = "a\nb\rc\u{85}d\u{2028}e\u{2029}f\u{202e}g\u{2066}h\u{61c}i\u{200f}j\u{1b}k\tlé\u{200d}m";
        assert_eq!(on_one_line(text), "a?b?c?d?e?f?g?h?i?j?k\tlé\u{200d}m");
    }
}
