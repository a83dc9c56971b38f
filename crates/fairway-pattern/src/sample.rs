//! Generates a text that a regular expression probably matches. It has only a superficial view of the syntax: callers
//! must verify the result.

use std::iter::Peekable;
use std::str::Chars;

/// More deeply nested groups are skipped.
const MAX_DEPTH: usize = 32;

/// How optional parts are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalPart {
    /// By nothing.
    Absent,
    /// By the part, once.
    Once,
}

/// A text for `pattern`, of at most about `longest` bytes.
#[must_use]
pub fn sample(pattern: &str, optional: OptionalPart, longest: usize) -> String {
    Sampler { remaining: pattern.chars().peekable(), optional, longest }.alternatives(0)
}

struct Sampler<'p> {
    remaining: Peekable<Chars<'p>>,
    optional: OptionalPart,
    longest: usize,
}

impl Sampler<'_> {
    /// The first alternative of `a|b|c`.
    fn alternatives(&mut self, depth: usize) -> String {
        let first = self.sequence(depth);
        while self.remaining.next_if_eq(&'|').is_some() {
            self.sequence(depth);
        }
        first
    }

    fn sequence(&mut self, depth: usize) -> String {
        let mut text = String::new();
        while let Some(next) = self.remaining.next_if(|next| !matches!(next, '|' | ')')) {
            let atom = self.atom(next, depth);
            for _ in 0..self.repetitions() {
                if text.len() + atom.len() <= self.longest {
                    text.push_str(&atom);
                }
            }
        }
        text
    }

    fn atom(&mut self, first: char, depth: usize) -> String {
        match first {
            '(' => self.group(depth + 1),
            '[' => self.class().into(),
            '\\' => self.escaped(),
            '.' => "z".into(),
            '^' | '$' => String::new(),
            literal => literal.into(),
        }
    }

    fn group(&mut self, depth: usize) -> String {
        let mut counts = depth <= MAX_DEPTH;
        if self.remaining.next_if_eq(&'?').is_some() {
            // Flags and names end at `:` or `>`; look-around is empty.
            while let Some(flag) = self.remaining.next_if(|next| *next != ')') {
                counts &= !matches!(flag, '=' | '!');
                if matches!(flag, ':' | '>' | '=' | '!') {
                    break;
                }
            }
        }
        let text = if depth <= MAX_DEPTH { self.alternatives(depth) } else { String::new() };
        self.remaining.next_if_eq(&')');
        if counts { text } else { String::new() }
    }

    /// The first character of a class, or one that a negated class probably contains.
    fn class(&mut self) -> char {
        let negated = self.remaining.next_if_eq(&'^').is_some();
        let first = match self.remaining.next() {
            Some('\\') => self.escaped().chars().next().unwrap_or('z'),
            Some(first) => first,
            None => return 'z',
        };
        while let Some(next) = self.remaining.next() {
            match next {
                ']' => break,
                '\\' => _ = self.remaining.next(),
                _ => {}
            }
        }
        match (negated, first) {
            (true, 'z' | 'a') => '1',
            (true, _) => 'z',
            (false, first) => first,
        }
    }

    fn escaped(&mut self) -> String {
        match self.remaining.next() {
            Some('d') => "1".into(),
            Some('w' | 'D' | 'S') => "z".into(),
            Some('s') => " ".into(),
            Some('W') => "-".into(),
            Some('b' | 'B' | 'A' | 'z') | None => String::new(),
            Some(literal) => literal.into(),
        }
    }

    fn repetitions(&mut self) -> usize {
        let once = usize::from(self.optional == OptionalPart::Once);
        let times = match self.remaining.peek() {
            Some('*' | '?') => once,
            Some('{') => {
                self.remaining.next();
                let mut digits = String::new();
                while let Some(digit) = self.remaining.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                while self.remaining.next_if(|next| *next != '}').is_some() {}
                digits.parse().unwrap_or(1).min(self.longest)
            }
            Some('+') => 1,
            _ => return 1,
        };
        self.remaining.next();
        self.remaining.next_if_eq(&'?');
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anchor, Pattern};

    #[test]
    fn common_patterns_match_their_samples() {
        for pattern in [
            "/v[0-9]+/",
            r"/api(/|$)(.*)",
            r"/(?:a|b)/\d{4}-\d{2}",
            r"/(?<id>[^/]+)/edit$",
            r"/[\w-]+\.html",
            "/a?b*c+d{2,3}?",
            "/((a)|(b))?/x",
        ] {
            let compiled = Pattern::new(pattern, Anchor::Start, false).unwrap();
            for optional in [OptionalPart::Absent, OptionalPart::Once] {
                let text = sample(pattern, optional, 1024);
                assert!(compiled.is_match(text.as_bytes()), "{pattern}: {text}");
            }
        }
    }

    #[test]
    fn a_sample_stays_short_and_odd_patterns_end() {
        assert!(sample("/(a{1000}){1000}", OptionalPart::Once, 1024).len() <= 1024);
        for pattern in ["", "(", "[", "\\", "a{", "(?", "(?P<", "|)|(", "))))", &"(".repeat(8192)] {
            assert!(sample(pattern, OptionalPart::Once, 1024).len() <= 1024, "{pattern}");
        }
    }
}
