//! Conditional headers and direct responses of snippets, with compiled conditions. The tested values are computed from
//! the request by the data plane.

use std::sync::Arc;

use fairway_http::bytes::push_escape;
use fairway_model::{
    Condition, ConditionTest, ConditionalHeaders, ConditionalResponse, ResponseContent, Template,
};
use fairway_pattern::{Finder, GroupBuffer, LONGEST_TEXT, Pattern};

/// A compiled condition.
#[derive(Clone, Debug)]
pub struct CompiledCondition {
    /// The value to test.
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
    TooLong,
}

impl CompiledCondition {
    fn compiled(source: &Condition) -> Result<Self, String> {
        let test =
            match &source.test {
                ConditionTest::Truth => CompiledTest::Truth,
                ConditionTest::Equal(text) => CompiledTest::Equal(Arc::clone(text)),
                ConditionTest::EqualIgnoringCase(text) => CompiledTest::EqualIgnoringCase(Arc::clone(text)),
                ConditionTest::TooLong => CompiledTest::TooLong,
                ConditionTest::Pattern { pattern, ignore_case } => {
                    let found = Pattern::anywhere(pattern, *ignore_case);
                    CompiledTest::Pattern(found.map_err(|why| {
                        format!("the regular expression of a condition, {pattern:?}, {why}")
                    })?)
                }
            };
        Ok(Self { value: source.value.clone(), test, negated: source.negated })
    }

    fn compile_all(conditions: &[Condition]) -> Result<Box<[Self]>, String> {
        conditions.iter().map(Self::compiled).collect()
    }

    /// Whether the value is too long to match a pattern at a bounded cost.
    #[must_use]
    pub fn is_beyond(&self, text: &[u8]) -> bool {
        matches!(self.test, CompiledTest::Pattern(_)) && text.len() > LONGEST_TEXT
    }

    /// Whether the condition holds for this value.
    #[must_use]
    pub fn holds(&self, text: &[u8]) -> bool {
        let passes = match &self.test {
            CompiledTest::Truth => !matches!(text, b"" | b"0"),
            CompiledTest::Equal(other) => other.as_bytes() == text,
            CompiledTest::EqualIgnoringCase(other) => other.as_bytes().eq_ignore_ascii_case(text),
            CompiledTest::Pattern(pattern) => pattern.is_match(text),
            CompiledTest::TooLong => text.len() > LONGEST_TEXT,
        };
        passes != self.negated
    }
}

/// Compiled conditional headers.
#[derive(Clone, Debug)]
pub struct CompiledConditionalHeaders {
    /// All must hold.
    pub when: Box<[CompiledCondition]>,
    /// The headers, and the statuses they apply to.
    pub source: Arc<ConditionalHeaders>,
}

impl CompiledConditionalHeaders {
    pub(crate) fn compiled(headers: &Arc<ConditionalHeaders>) -> Result<Self, String> {
        Ok(Self { when: CompiledCondition::compile_all(&headers.when)?, source: Arc::clone(headers) })
    }

    /// Whether the headers apply to responses with this status.
    #[must_use]
    pub fn is_for(&self, status: u16) -> bool {
        self.source.statuses.is_empty() || self.source.statuses.binary_search(&status).is_ok()
    }
}

/// A compiled direct response.
#[derive(Clone, Debug)]
pub struct CompiledDirectResponse {
    /// All must hold.
    pub when: Box<[CompiledCondition]>,
    /// The response.
    pub source: Arc<ConditionalResponse>,
    /// Conditional headers of the host, if the response belongs to it.
    pub of_host: Option<Box<[CompiledConditionalHeaders]>>,
    /// The `Location`, if it contains captures of the path.
    pub rewritten: Option<CapturedLocation>,
}

impl CompiledDirectResponse {
    pub(crate) fn compiled(response: &Arc<ConditionalResponse>) -> Result<Self, String> {
        let of_host = response.host_headers.as_ref().map(|all| {
            all.iter().map(|fields| CompiledConditionalHeaders::compiled(&Arc::new(fields.clone()))).collect()
        });
        let rewritten = match &response.content {
            ResponseContent::Rewritten { pattern, ignore_case, replacement } => {
                Some(CapturedLocation::compiled(pattern, *ignore_case, replacement)?)
            }
            _ => None,
        };
        let when = CompiledCondition::compile_all(&response.when)?;
        Ok(Self { when, source: Arc::clone(response), of_host: of_host.transpose()?, rewritten })
    }
}

/// A `Location` with captures of a pattern (nginx `rewrite` with `permanent` or `redirect`).
#[derive(Clone, Debug)]
pub struct CapturedLocation {
    finder: Arc<Finder>,
    location_pieces: Box<[LocationPiece]>,
    /// What separates the request's own query; `None` drops the query.
    query_mark: Option<u8>,
}

#[derive(Clone, Debug)]
enum LocationPiece {
    Text(Box<[u8]>),
    Capture(usize),
}

impl CapturedLocation {
    fn compiled(pattern: &str, ignore_case: bool, replacement: &str) -> Result<Self, String> {
        let finder = Finder::shared(pattern, ignore_case);
        let finder =
            finder.map_err(|why| format!("the regular expression of a rewrite, {pattern:?}, {why}"))?;
        let (text, query_mark) = match replacement.strip_suffix('?') {
            Some(text) => (text, None),
            None => (replacement, Some(if replacement.contains('?') { b'&' } else { b'?' })),
        };
        let mut chunks = Vec::new();
        for (number, part) in text.split('$').enumerate() {
            let capture = (number > 0).then(|| part.bytes().next()).flatten().filter(u8::is_ascii_digit);
            let text = match capture {
                Some(digit) => {
                    chunks.push(LocationPiece::Capture(usize::from(digit - b'0')));
                    &part[1..]
                }
                None => part,
            };
            chunks.push(LocationPiece::Text(text.as_bytes().into()));
        }
        Ok(Self { finder, location_pieces: chunks.into(), query_mark })
    }

    /// Appends the URL for a decoded path; returns `false` and writes nothing if the pattern does not match. Captures
    /// are escaped if the path was `escaped` (`ngx_http_script_copy_capture_code`), and the result is unescaped before
    /// the query is appended (`ngx_http_script_regex_end_code`).
    pub fn write(&self, path: &[u8], escaped: bool, query: &[u8], out: &mut Vec<u8>) -> bool {
        let mut buffer = GroupBuffer::default();
        let Some(found) = self.finder.find(path, &mut buffer) else { return false };
        let mut url = Vec::new();
        for piece in &self.location_pieces {
            match piece {
                LocationPiece::Text(text) => url.extend_from_slice(text),
                LocationPiece::Capture(number) => {
                    let capture = found.group(*number).map_or(&[][..], |range| &path[range]);
                    write_capture(capture, escaped, &mut url);
                }
            }
        }
        unescape_redirect(&url, out);
        if let Some(mark) = self.query_mark.filter(|_| !query.is_empty()) {
            out.push(mark);
            out.extend_from_slice(query);
        }
        true
    }
}

/// nginx `NGX_ESCAPE_ARGS`.
fn write_capture(capture: &[u8], escaped: bool, out: &mut Vec<u8>) {
    for &byte in capture {
        let plain = byte.is_ascii_graphic() && !b"\"#%&+;<>?\\^`{|}".contains(&byte);
        if plain || !escaped {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// nginx `NGX_UNESCAPE_REDIRECT`: up to the first `?`, literal or escaped, the escapes from `%26` to `%7E` are decoded.
/// So no control characters and no spaces result. Of an invalid escape, the characters already read are dropped.
pub fn unescape_redirect(mut text: &[u8], out: &mut Vec<u8>) {
    let value = |digit| char::from(digit).to_digit(16);
    loop {
        match *text {
            [] => return,
            [b'?', ..] => return out.extend_from_slice(text),
            [b'%', ref escape @ ..] => {
                let [high, ref rest @ ..] = *escape else { return };
                text = rest;
                let Some(high_value) = value(high) else {
                    out.push(high);
                    continue;
                };
                let [low, ref rest @ ..] = *text else { return };
                text = rest;
                let Some(low_value) = value(low) else { continue };
                match u8::try_from(high_value << 4 | low_value) {
                    Ok(b'?') => {
                        out.push(b'?');
                        return out.extend_from_slice(text);
                    }
                    Ok(byte @ b'&'..=b'~') => out.push(byte),
                    _ => out.extend([b'%', high, low]),
                }
            }
            [byte, ref rest @ ..] => {
                out.push(byte);
                text = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_match_as_in_nginx() {
        let condition = |test, negated| {
            CompiledCondition::compiled(&Condition { value: Template::default(), test, negated }).unwrap()
        };
        let truth = condition(ConditionTest::Truth, false);
        assert_eq!([&b""[..], b"0", b"00", b"a"].map(|text| truth.holds(text)), [false, false, true, true]);
        let equal = condition(ConditionTest::Equal("Ab".into()), true);
        assert_eq!([&b"Ab"[..], b"ab"].map(|text| equal.holds(text)), [false, true]);
        assert!(condition(ConditionTest::EqualIgnoringCase("Ab".into()), false).holds(b"aB"));
        let too_long = condition(ConditionTest::TooLong, false);
        assert_eq!(
            [LONGEST_TEXT, LONGEST_TEXT + 1].map(|length| too_long.holds(&vec![b'a'; length])),
            [false, true]
        );
        let pattern = ConditionTest::Pattern { pattern: "^b|C$".into(), ignore_case: true };
        let pattern = condition(pattern, false);
        assert_eq!([&b"Bx"[..], b"xc", b"xbx"].map(|text| pattern.holds(text)), [true, true, false]);
    }

    #[test]
    fn captures_are_escaped_as_nginx_does_and_the_query_follows() {
        let written = |pattern: &str, replacement: &str, path: &str, escaped, query: &str| {
            let mut out = Vec::new();
            let rewritten = CapturedLocation::compiled(pattern, false, replacement).unwrap();
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

    /// As nginx 1.30.6 answered each of these requests.
    #[test]
    fn a_rewritten_url_is_unescaped_as_nginx_does() {
        for (pattern, replacement, target, location) in [
            ("^/(.*)$", "/b/$1", "x%26y", "/b/x&y"),
            ("^/(.*)$", "/b/$1", "x%2By", "/b/x+y"),
            ("^/(.*)$", "/b/$1", "x%3By", "/b/x;y"),
            ("^/(.*)$", "/b/$1", "x%3Fy%3Fz", "/b/x?y%3Fz"),
            ("^/(.*)$", "/b/$1", "%3f%26", "/b/?%26"),
            ("^/(.*)$", "/b/$1", "x%3Cy%3E", "/b/x<y>"),
            ("^/(.*)$", "/b/$1", "x%7By%7D", "/b/x{y}"),
            ("^/(.*)$", "/b/$1", "x%5Ey%60%7C%5C", "/b/x^y`|\\"),
            ("^/(.*)$", "/b/$1", "x%41y%2Fz", "/b/xAy/z"),
            ("^/(.*)$", "/b/$1", "x%24", "/b/x$"),
            ("^/(.*)$", "/b/$1", "b+&c", "/b/b+&c"),
            ("^/(.*)$", "/b/$1", "b&c;d", "/b/b&c;d"),
            ("^/(.*)$", "/b/$1", "x%20y+z", "/b/x%20y+z"),
            ("^/(.*)$", "/b/$1", "x%22y%25z", "/b/x%22y%25z"),
            ("^/(.*)$", "/b/$1", "x%2541", "/b/x%2541"),
            ("^/(.*)$", "/b/$1", "x%253F%2541?q", "/b/x%253F%2541?q"),
            ("^/(.*)$", "/b/$1", "x%C3%A4", "/b/x%C3%A4"),
            ("^/(.*)$", "/b/$1", "x%01%1f%7f%80%09", "/b/x%01%1F%7F%80%09"),
            ("(?s)^/(.*)$", "/b/$1", "x%0d%0aSet-Cookie:%20a=b", "/b/x%0D%0ASet-Cookie:%20a=b"),
            ("^/(.*)$", "/b/$1", "x?q=%41%26", "/b/x?q=%41%26"),
            // Nothing after the first question mark is unescaped.
            ("^/(.*)$", "/b?c=$1", "x%26y%3Fz?r=1", "/b?c=x%26y%3Fz&r=1"),
            ("^/(.*)$", "/b?c=$1", "%41%25?r=%26", "/b?c=A%25&r=%26"),
            ("(?s)^/(.*)$", "/b?c=$1", "%0d%0ax", "/b?c=%0D%0Ax"),
            ("^/(.*)$", "/x/$1?", "x%26?q=1", "/x/x&"),
            // The text of the replacement is unescaped, too.
            ("^/$", "http://o/%41%2Fb%3Fc%20%25%41", "", "http://o/A/b?c%20%25%41"),
            ("^/$", "http://o/%41%2Fb%3Fc%20%25%41", "?a=b", "http://o/A/b?c%20%25%41?a=b"),
            ("^/$", "/%41b%3Fx", "?a", "/Ab?x?a"),
            ("^/$", "/d?y=%26", "?z=%41", "/d?y=%26&z=%41"),
            ("^/$", "%2Fe", "", "/e"),
            ("^/$", "/e%0d%0a%00%7f%ff%24%25%26%7e%C3%a4", "", "/e%0d%0a%00%7f%ff%24%25&~%C3%a4"),
            // Of an invalid escape, nginx drops the characters already read.
            ("^/$", "/%zz%4z%%41%4", "", "/zz%41"),
            ("^/$", "/%zz%4z%%41%?", "", "/zz%41"),
            ("^/$", "/e%?x%41?y%41", "", "/e?xA?y%41"),
            ("^/(..)$", "/e%$1", "41", "/eA"),
            ("^/(..)$", "/e%$1", "3f?q", "/e??q"),
            ("^/(..)$", "/e%$1", "%41%42", "/e%AB"),
            ("^/(..)$", "/e%$1", "%30d", "/e%0d"),
        ] {
            let (raw, query) = target.split_once('?').unwrap_or((target, ""));
            let path = decoded(raw);
            let escaped = raw.contains(['%', '+']);
            let mut out = Vec::new();
            let rewritten = CapturedLocation::compiled(pattern, false, replacement).unwrap();
            assert!(rewritten.write(&path, escaped, query.as_bytes(), &mut out), "{target}");
            assert_eq!(String::from_utf8(out).unwrap(), location, "{pattern} {replacement} {target}");
        }
    }

    fn decoded(raw: &str) -> Vec<u8> {
        let mut path = Vec::new();
        fairway_http::path::decode(format!("/{raw}").as_bytes(), &mut path).unwrap();
        path
    }
}
