//! Conditions on texts that are made of parts of a request, and what depends on them: answers and fields of snippets. The texts are
//! made by whoever has the request; here their tests are prepared.

use std::sync::Arc;

use fairway_model::{ChosenFields, Condition, Content, Respond, Template, Test};
use fairway_pattern::{Finder, GroupBuffer, LONGEST_TEXT, Pattern};

/// A condition, compiled.
#[derive(Clone, Debug)]
pub struct CompiledCondition {
    /// What is tested.
    pub value: Template,
    test: CompiledTest,
    negated: bool,
}

#[derive(Clone, Debug)]
enum CompiledTest {
    Truth,
    Equal(Arc<str>),
    EqualIgnoringCase(Arc<str>),
    Pattern(Arc<Pattern>),
}

impl CompiledCondition {
    fn compiled(of: &Condition) -> Result<Self, String> {
        let test =
            match &of.test {
                Test::Truth => CompiledTest::Truth,
                Test::Equal(text) => CompiledTest::Equal(Arc::clone(text)),
                Test::EqualIgnoringCase(text) => CompiledTest::EqualIgnoringCase(Arc::clone(text)),
                Test::Pattern { pattern, ignore_case } => {
                    let found = Pattern::anywhere(pattern, *ignore_case);
                    CompiledTest::Pattern(found.map_err(|why| {
                        format!("the regular expression of a condition, {pattern:?}, {why}")
                    })?)
                }
            };
        Ok(Self { value: of.value.clone(), test, negated: of.negated })
    }

    fn all(of: &[Condition]) -> Result<Box<[Self]>, String> {
        of.iter().map(Self::compiled).collect()
    }

    /// Whether the text is too long to be compared with a pattern at a known cost.
    #[must_use]
    pub fn is_beyond(&self, text: &[u8]) -> bool {
        matches!(self.test, CompiledTest::Pattern(_)) && text.len() > LONGEST_TEXT
    }

    /// Whether it holds where the value is this text.
    #[must_use]
    pub fn holds(&self, text: &[u8]) -> bool {
        let passes = match &self.test {
            CompiledTest::Truth => !matches!(text, b"" | b"0"),
            CompiledTest::Equal(other) => other.as_bytes() == text,
            CompiledTest::EqualIgnoringCase(other) => other.as_bytes().eq_ignore_ascii_case(text),
            CompiledTest::Pattern(pattern) => pattern.is_match(text),
        };
        passes != self.negated
    }
}

/// Fields that some messages get, compiled.
#[derive(Clone, Debug)]
pub struct CompiledChosen {
    /// All must hold.
    pub when: Box<[CompiledCondition]>,
    /// The fields, and the statuses that get them.
    pub of: Arc<ChosenFields>,
}

impl CompiledChosen {
    pub(crate) fn compiled(of: &Arc<ChosenFields>) -> Result<Self, String> {
        Ok(Self { when: CompiledCondition::all(&of.when)?, of: Arc::clone(of) })
    }

    /// Whether responses with this status get the fields.
    #[must_use]
    pub fn is_for(&self, status: u16) -> bool {
        self.of.statuses.is_empty() || self.of.statuses.binary_search(&status).is_ok()
    }
}

/// An answer to some requests, compiled.
#[derive(Clone, Debug)]
pub struct CompiledRespond {
    /// All must hold.
    pub when: Box<[CompiledCondition]>,
    /// What is answered.
    pub of: Arc<Respond>,
    /// What is done to the answer, where it is one of the host.
    pub of_host: Option<Box<[CompiledChosen]>>,
    /// Where it leads, where captures of the path say it.
    pub rewritten: Option<Rewritten>,
}

impl CompiledRespond {
    pub(crate) fn compiled(of: &Arc<Respond>) -> Result<Self, String> {
        let of_host = of.of_host.as_ref().map(|all| {
            all.iter().map(|fields| CompiledChosen::compiled(&Arc::new(fields.clone()))).collect()
        });
        let rewritten = match &of.content {
            Content::Rewritten { pattern, ignore_case, replacement } => {
                Some(Rewritten::compiled(pattern, *ignore_case, replacement)?)
            }
            _ => None,
        };
        let when = CompiledCondition::all(&of.when)?;
        Ok(Self { when, of: Arc::clone(of), of_host: of_host.transpose()?, rewritten })
    }
}

/// A `Location` that is made of the captures of a pattern (nginx `rewrite` with `permanent` or `redirect`).
#[derive(Clone, Debug)]
pub struct Rewritten {
    finder: Arc<Finder>,
    pieces: Box<[Piece]>,
    /// What the request's own query comes behind; `None` drops it.
    query_mark: Option<u8>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Box<[u8]>),
    Capture(usize),
}

impl Rewritten {
    fn compiled(pattern: &str, ignore_case: bool, replacement: &str) -> Result<Self, String> {
        let finder = Finder::shared(pattern, ignore_case);
        let finder =
            finder.map_err(|why| format!("the regular expression of a rewrite, {pattern:?}, {why}"))?;
        let (text, query_mark) = match replacement.strip_suffix('?') {
            Some(text) => (text, None),
            None => (replacement, Some(if replacement.contains('?') { b'&' } else { b'?' })),
        };
        let mut pieces = Vec::new();
        for (number, part) in text.split('$').enumerate() {
            let capture = (number > 0).then(|| part.bytes().next()).flatten().filter(u8::is_ascii_digit);
            let text = match capture {
                Some(digit) => {
                    pieces.push(Piece::Capture(usize::from(digit - b'0')));
                    &part[1..]
                }
                None => part,
            };
            pieces.push(Piece::Text(text.as_bytes().into()));
        }
        Ok(Self { finder, pieces: pieces.into(), query_mark })
    }

    /// Appends the URL for a decoded path; `false` writes nothing, as the pattern is not found. Captures are escaped where the path was
    /// `escaped` (`ngx_http_script_copy_capture_code`).
    pub fn write(&self, path: &[u8], escaped: bool, query: &[u8], out: &mut Vec<u8>) -> bool {
        let mut buffer = GroupBuffer::default();
        let Some(found) = self.finder.find(path, &mut buffer) else { return false };
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Capture(number) => {
                    let capture = found.group(*number).map_or(&[][..], |range| &path[range]);
                    write_capture(capture, escaped, out);
                }
            }
        }
        if let Some(mark) = self.query_mark.filter(|_| !query.is_empty()) {
            out.push(mark);
            out.extend_from_slice(query);
        }
        true
    }
}

/// nginx `NGX_ESCAPE_ARGS`.
fn write_capture(capture: &[u8], escaped: bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in capture {
        let plain = byte.is_ascii_graphic() && !b"\"#%&+;<>?\\^`{|}".contains(&byte);
        if plain || !escaped {
            out.push(byte);
        } else {
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_those_of_nginx() {
        let condition = |test, negated| {
            CompiledCondition::compiled(&Condition { value: Template::default(), test, negated }).unwrap()
        };
        let truth = condition(Test::Truth, false);
        assert_eq!([&b""[..], b"0", b"00", b"a"].map(|text| truth.holds(text)), [false, false, true, true]);
        let equal = condition(Test::Equal("Ab".into()), true);
        assert_eq!([&b"Ab"[..], b"ab"].map(|text| equal.holds(text)), [false, true]);
        assert!(condition(Test::EqualIgnoringCase("Ab".into()), false).holds(b"aB"));
        let pattern = Test::Pattern { pattern: "^b|C$".into(), ignore_case: true };
        let pattern = condition(pattern, false);
        assert_eq!([&b"Bx"[..], b"xc", b"xbx"].map(|text| pattern.holds(text)), [true, true, false]);
    }

    #[test]
    fn captures_are_escaped_as_nginx_does_and_the_query_follows() {
        let written = |pattern: &str, replacement: &str, path: &str, escaped, query: &str| {
            let mut out = Vec::new();
            let rewritten = Rewritten::compiled(pattern, false, replacement).unwrap();
            rewritten
                .write(path.as_bytes(), escaped, query.as_bytes(), &mut out)
                .then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(written("/a/(.*)$", "/b/$1", "/a/c d", true, "q=1").as_deref(), Some("/b/c%20d?q=1"));
        assert_eq!(written("/a/(.*)$", "/b/$1", "/a/c&d", false, "").as_deref(), Some("/b/c&d"));
        assert_eq!(written("/a/(.*)$", "/b?c=$1", "/a/x", false, "q=1").as_deref(), Some("/b?c=x&q=1"));
        assert_eq!(written("/a/(.*)$", "/b/$1?", "/a/x", false, "q=1").as_deref(), Some("/b/x"));
        assert_eq!(written("(?s:.*?)(?:/x/)", "/y", "/a/x/", false, "").as_deref(), Some("/y"));
        assert_eq!(written("/a/", "/b", "/x", false, ""), None);
    }
}
