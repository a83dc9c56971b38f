//! Rewrites the request target for a backend: path and query.
//!
//! Bytes that a path must not contain are percent-encoded, so that a decoded capture can neither end the request line
//! nor begin a query. The resulting target is not checked again, since it is valid by construction: it begins with a
//! slash, configured texts and captures are encoded, and the received query belongs to a target that
//! [`fairway_http::Target::parse`] has accepted.

use std::sync::Arc;

use fairway_model::{PathForm, PathRewrite};
use fairway_pattern::{Anchor, Finder, GroupBuffer, Pattern};

/// A compiled [`PathRewrite`].
#[derive(Clone, Debug)]
pub struct CompiledRewrite {
    how: RewriteKind,
    /// The form of the path that `apply` takes.
    form: PathForm,
}

#[derive(Clone, Debug)]
enum RewriteKind {
    Full(NewTarget),
    Prefix(Arc<str>),
    /// The new target has no captures.
    Pattern(Arc<Pattern>, NewTarget),
    Captures(Arc<Finder>, NewTarget),
}

/// A new path, and what happens to the query.
#[derive(Clone, Debug)]
struct NewTarget {
    path: Box<[TargetPiece]>,
    /// The query of the new path.
    query: Option<Box<[TargetPiece]>>,
    received: ReceivedQuery,
}

/// What happens to the request's own query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceivedQuery {
    /// It is kept, after that of the new path.
    Appended,
    Dropped,
}

#[derive(Clone, Debug)]
enum TargetPiece {
    /// Literal text, already encoded.
    Text(Box<[u8]>),
    /// `$1`..`$9`
    Capture(usize),
}

impl CompiledRewrite {
    /// Compiles `path` for a host whose rules see `form`.
    pub(crate) fn compiled(path: &PathRewrite, form: PathForm) -> Result<Self, String> {
        Ok(match path {
            PathRewrite::Full(path) => Self { how: RewriteKind::Full(NewTarget::verbatim(path)), form },
            PathRewrite::Prefix(path) => Self { how: RewriteKind::Prefix(path.clone()), form },
            PathRewrite::Regex { pattern, replacement, ignore_case } => {
                let target = NewTarget::template(replacement);
                let how = match target.has_captures() {
                    true => Finder::shared(pattern, *ignore_case)
                        .map(|finder| RewriteKind::Captures(finder, target)),
                    false => Pattern::shared(pattern, Anchor::Start, *ignore_case)
                        .map(|pattern| RewriteKind::Pattern(pattern, target)),
                };
                let how =
                    how.map_err(|why| format!("the regular expression of the rewrite of {pattern:?} {why}"))?;
                Self { how, form: PathForm::Decoded }
            }
        })
    }

    /// The form of the path that [`Self::apply`] takes: [`PathForm::Decoded`] for regular expressions, otherwise the
    /// form for the host's rules.
    #[must_use]
    pub fn path_form(&self) -> PathForm {
        self.form
    }

    /// Whether its cost depends on the length of the path.
    pub(crate) fn reads_on(&self) -> bool {
        matches!(self.how, RewriteKind::Pattern(..) | RewriteKind::Captures(..))
    }

    /// Appends the new target to `out`: the path, and `?` with the query if there is one.
    ///
    /// `path` is in [`Self::path_form`], `query` without its `?`, and `prefix` from [`crate::Matched::Rule`]. Returns
    /// `false` and writes nothing if the pattern does not match: the target is then forwarded as received.
    pub fn apply(&self, path: &[u8], query: &[u8], prefix: usize, out: &mut Vec<u8>) -> bool {
        match &self.how {
            RewriteKind::Full(target) => target.write(|_| &[], query, out),
            RewriteKind::Prefix(replacement) => {
                let (start, rest) = (out.len(), path.get(prefix..).unwrap_or_default());
                write_replaced_prefix(replacement, rest, self.form, out);
                begin_with_slash(start, out);
                write_query(query, out);
            }
            RewriteKind::Pattern(pattern, target) => {
                if !pattern.is_match(path) {
                    return false;
                }
                target.write(|_| &[], query, out);
            }
            RewriteKind::Captures(finder, target) => {
                let mut buffer = GroupBuffer::default();
                let Some(found) = finder.find(path, &mut buffer) else { return false };
                target.write(|n| found.group(n).map_or(&[], |range| &path[range]), query, out);
            }
        }
        true
    }
}

impl CompiledRewrite {
    /// Appends the replacement with the captures of the pattern: not as a target, so without a leading slash or a
    /// query. Takes a path as [`Self::apply`] does. Returns `false` and writes nothing if the pattern does not match.
    pub fn expand(&self, path: &[u8], out: &mut Vec<u8>) -> bool {
        let RewriteKind::Captures(finder, target) = &self.how else { return false };
        let mut buffer = GroupBuffer::default();
        let Some(found) = finder.find(path, &mut buffer) else { return false };
        target.write_path(|n| found.group(n).map_or(&[], |range| &path[range]), out);
        true
    }
}

impl NewTarget {
    fn verbatim(text: &str) -> Self {
        let chunk = |text: &str| Box::new([TargetPiece::Text(encoded(text.as_bytes(), EscapeMode::Escapes))]);
        match text.split_once('?') {
            None => Self { path: chunk(text), query: None, received: ReceivedQuery::Appended },
            Some((path, query)) => {
                Self { path: chunk(path), query: Some(chunk(query)), received: ReceivedQuery::Dropped }
            }
        }
    }

    /// nginx `rewrite`: "If a replacement string includes the new request arguments, the previous request arguments are
    /// appended after them. If this is undesired, putting a question mark at the end of a replacement string avoids
    /// having them appended".
    fn template(text: &str) -> Self {
        let (text, received) = match text.strip_suffix('?') {
            None => (text, ReceivedQuery::Appended),
            Some(text) => (text, ReceivedQuery::Dropped),
        };
        let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
        let query = query.map(|query| parse_pieces(query, EscapeMode::Escapes));
        Self { path: parse_pieces(path, EscapeMode::Nothing), query, received }
    }

    fn has_captures(&self) -> bool {
        let query = self.query.iter().flatten();
        self.path.iter().chain(query).any(|piece| matches!(piece, TargetPiece::Capture(_)))
    }

    fn write<'p>(&self, capture: impl Fn(usize) -> &'p [u8], query: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.write_path(&capture, out);
        begin_with_slash(start, out);
        let received = if self.received == ReceivedQuery::Dropped { &[] } else { query };
        let Some(own) = &self.query else { return write_query(received, out) };
        out.push(b'?');
        for piece in own {
            match piece {
                TargetPiece::Text(text) => out.extend_from_slice(text),
                TargetPiece::Capture(number) => encode(capture(*number), illegal_in_parameter, out),
            }
        }
        if !received.is_empty() {
            out.push(b'&');
            out.extend_from_slice(received);
        }
    }
}

impl NewTarget {
    fn write_path<'p>(&self, capture: impl Fn(usize) -> &'p [u8], out: &mut Vec<u8>) {
        for piece in &self.path {
            match piece {
                TargetPiece::Text(text) => out.extend_from_slice(text),
                TargetPiece::Capture(number) => encode(capture(*number), illegal_in_path, out),
            }
        }
    }
}

/// Gateway API `ReplacePrefixMatch`: `rest` is empty or begins with a slash, and exactly one slash joins the two.
fn write_replaced_prefix(replacement: &str, rest: &[u8], form: PathForm, out: &mut Vec<u8>) {
    let rest_begins = rest.first() == Some(&b'/');
    let prefix = match replacement.strip_suffix('/') {
        Some(bare) if rest_begins => bare,
        _ => replacement,
    };
    encode(prefix.as_bytes(), illegal_but_escapes, out);
    if !rest_begins && (prefix.is_empty() || !rest.is_empty() && !prefix.ends_with('/')) {
        out.push(b'/');
    }
    match form {
        PathForm::Normalised => encode(rest, illegal_but_escapes, out),
        PathForm::Decoded => encode(rest, illegal_in_path, out),
    }
}

/// RFC 9112 §3.2.1: an origin-form begins with a slash.
fn begin_with_slash(start: usize, out: &mut Vec<u8>) {
    if out.get(start) != Some(&b'/') {
        out.insert(start, b'/');
    }
}

fn write_query(query: &[u8], out: &mut Vec<u8>) {
    if !query.is_empty() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// Splits a replacement at `$1`..`$9`; any other `$` is literal.
fn parse_pieces(text: &str, keep: EscapeMode) -> Box<[TargetPiece]> {
    let mut chunks = Vec::new();
    let (mut rest, mut from) = (text, 0);
    while let Some(dollar) = rest[from..].find('$').map(|place| place + from) {
        let digit = rest.as_bytes().get(dollar + 1).filter(|byte| matches!(byte, b'1'..=b'9'));
        let Some(digit) = digit else {
            from = dollar + 1;
            continue;
        };
        if dollar > 0 {
            chunks.push(TargetPiece::Text(encoded(&rest.as_bytes()[..dollar], keep)));
        }
        chunks.push(TargetPiece::Capture(usize::from(digit - b'0')));
        (rest, from) = (&rest[dollar + 2..], 0);
    }
    if !rest.is_empty() {
        chunks.push(TargetPiece::Text(encoded(rest.as_bytes(), keep)));
    }
    chunks.into()
}

/// Whether a configured text is already escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EscapeMode {
    /// It is: `%` is kept.
    Escapes,
    /// It is plain text, like nginx replacements: `%` is escaped.
    Nothing,
}

fn encoded(text: &[u8], keep: EscapeMode) -> Box<[u8]> {
    let mut out = Vec::with_capacity(text.len());
    match keep {
        EscapeMode::Escapes => encode(text, illegal_but_escapes, &mut out),
        EscapeMode::Nothing => encode(text, illegal_in_path, &mut out),
    }
    out.into()
}

/// Percent-encodes (RFC 3986 §2.1) `illegal` bytes. Most texts have none, which a scan without an early exit detects:
/// they are copied at once.
#[inline]
fn encode(bytes: &[u8], illegal: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    if bytes.iter().fold(false, |found, byte| found | illegal(*byte)) {
        escape(bytes, illegal, out);
    } else {
        out.extend_from_slice(bytes);
    }
}

#[cold]
fn escape(mut bytes: &[u8], illegal: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    while let Some(place) = bytes.iter().position(|byte| illegal(*byte)) {
        let byte = bytes[place];
        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
        out.extend_from_slice(&bytes[..place]);
        out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        bytes = &bytes[place + 1..];
    }
    out.extend_from_slice(bytes);
}

/// The bytes that nginx escapes in a rewritten path.
#[inline]
fn illegal_in_path(byte: u8) -> bool {
    const ILLEGAL: [bool; 256] = table(b"%?");
    ILLEGAL[usize::from(byte)]
}

/// The bytes that a target must not contain, except `%`. The `?` of a configured text was removed before.
#[inline]
fn illegal_but_escapes(byte: u8) -> bool {
    const ILLEGAL: [bool; 256] = table(b"");
    ILLEGAL[usize::from(byte)]
}

/// Also bytes that would begin another parameter.
#[inline]
fn illegal_in_parameter(byte: u8) -> bool {
    const ILLEGAL: [bool; 256] = table(b"%?&+;");
    ILLEGAL[usize::from(byte)]
}

/// A table of the bytes that a target must not contain, and those in `more`.
const fn table(allowed: &[u8]) -> [bool; 256] {
    let mut table = [true; 256];
    let mut byte = b'!';
    while byte < 0x7f {
        table[byte as usize] = false;
        byte += 1;
    }
    forbid(forbid(table, b"\"#<>\\^`{|}"), allowed)
}

const fn forbid(mut table: [bool; 256], mut bytes: &[u8]) -> [bool; 256] {
    while let [first, rest @ ..] = bytes {
        table[*first as usize] = true;
        bytes = rest;
    }
    table
}

#[cfg(test)]
mod tests {
    use fairway_http::{Method, Target, TargetForm};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_rewritten_target_is_one_that_could_have_been_received(
            new in "[ -~é]{0,12}",
            rest in proptest::collection::vec(any::<u8>(), 0..20),
            query in "[!-\"$-~]{0,9}",
            prefix in 0_usize..20,
        ) {
            let path = [b"/", &rest[..]].concat();
            let patterns = ["/(.*)", "/((?s).*)", "/(a?)(.*)", "/"].map(|pattern| regex(pattern, &new));
            let others = [PathRewrite::Full(new.as_str().into()), PathRewrite::Prefix(new.as_str().into())];
            for rewrite in patterns.into_iter().chain(others) {
                for form in [PathForm::Normalised, PathForm::Decoded] {
                    let compiled = CompiledRewrite::compiled(&rewrite, form).unwrap();
                    let mut out = Vec::new();
                    if compiled.apply(&path, query.as_bytes(), prefix, &mut out) {
                        let parsed = Target::parse(Method::Get, &out).map(|target| target.form);
                        prop_assert_eq!(parsed, Ok(TargetForm::Origin), "{:?}: {:?}", rewrite, out);
                    }
                }
            }
        }
    }

    #[test]
    fn a_byte_is_escaped_wherever_it_stands_and_the_others_are_copied() {
        let all = regex("/(.*)", "/$1");
        for length in 0..20 {
            let plain = format!("/{}", "a".repeat(length));
            assert_eq!(applied(&all, &plain, "", 0).as_deref(), Some(&*plain));
            for place in 0..length {
                let (before, behind) = ("a".repeat(place), "a".repeat(length - place - 1));
                let escaped = applied(&all, &format!("/{before}^{behind}"), "", 0).unwrap();
                assert_eq!(escaped, format!("/{before}%5E{behind}"));
            }
        }
    }

    fn applied(rewrite: &PathRewrite, path: &str, query: &str, prefix: usize) -> Option<String> {
        let rewrite = CompiledRewrite::compiled(rewrite, PathForm::Normalised).unwrap();
        let mut out = Vec::new();
        let found = rewrite.apply(path.as_bytes(), query.as_bytes(), prefix, &mut out);
        assert!(found || out.is_empty());
        found.then(|| String::from_utf8(out).unwrap())
    }

    fn regex(pattern: &str, replacement: &str) -> PathRewrite {
        PathRewrite::Regex { pattern: pattern.into(), replacement: replacement.into(), ignore_case: true }
    }

    /// What ingress-nginx 1.x forwarded in the recorded cases of the same names.
    #[test]
    fn rewrites_as_ingress_nginx_does() {
        let something = "/something(/|$)(.*)";
        for (pattern, replacement, path, query, forwarded) in [
            (something, "/$2", "/something", "", "/"),
            (something, "/$2", "/something/", "", "/"),
            (something, "/$2", "/something/new", "x=1", "/new?x=1"),
            (something, "/$2", "/SOMETHING/new/", "", "/new/"),
            (something, "/$2", "/something/a b", "", "/a%20b"),
            (something, "/$2", "/something/a/b", "", "/a/b"),
            ("/([a-z]+)/([0-9]+)/?(.*)", "/$2/$1/$3", "/ABC/12/x", "", "/12/ABC/x"),
            ("/(.*)", "/api/$1", "/a/b", "x=1", "/api/a/b?x=1"),
            ("/something", "/fixed/path", "/somethingnew", "x=1", "/fixed/path?x=1"),
            ("/one", "/two", "/one/x", "", "/two"),
            ("/api/(?!(health)|version)(.*)", "/$1$2", "/api/users", "", "/users"),
            ("/v1/(.*)|/v2/(.*)", "/$1$2", "/x/v2/a", "", "/a"),
        ] {
            assert_eq!(
                applied(&regex(pattern, replacement), path, query, 0).as_deref(),
                Some(forwarded),
                "{path}"
            );
        }
    }

    #[test]
    fn captures_form_a_separate_text() {
        let expanded = |pattern: &str, replacement: &str, path: &str| {
            let rewrite = CompiledRewrite::compiled(&regex(pattern, replacement), PathForm::Decoded).unwrap();
            let mut out = Vec::new();
            rewrite.expand(path.as_bytes(), &mut out).then(|| String::from_utf8(out).unwrap())
        };
        let tenant = "/(t[0-9]+)(/|$)(.*)";
        assert_eq!(expanded(tenant, "/$1", "/t7/a").as_deref(), Some("/t7"));
        assert_eq!(expanded(tenant, "$1", "/t7").as_deref(), Some("t7"), "no target, so no slash");
        assert_eq!(expanded(tenant, "/$9", "/t7").as_deref(), Some("/"));
        assert_eq!(expanded(tenant, "/$1", "/other"), None);
        assert_eq!(expanded("/((?s).*)", "/$1", "/a\r\nX: y").as_deref(), Some("/a%0D%0AX:%20y"));
    }

    #[test]
    fn an_unmatched_pattern_changes_nothing() {
        assert_eq!(applied(&regex("/x", "/y"), "/z", "q", 0), None);
        assert_eq!(applied(&regex("/x(.)", "/$1"), "/z", "q", 0), None);
        assert_eq!(applied(&regex("/(?!z)(.)", "/$1"), "/z", "q", 0), None);
    }

    #[test]
    fn a_decoded_capture_cannot_break_out_of_the_path() {
        let all = regex("/(.*)$", "/$1");
        assert_eq!(applied(&all, "/a?b#c%d", "q=1", 0).as_deref(), Some("/a%3Fb%23c%25d?q=1"));
        let lines = regex(r"/((?s).*)", "/$1");
        assert_eq!(applied(&lines, "/a\r\nX: y", "", 0).as_deref(), Some("/a%0D%0AX:%20y"));
        let parameter = regex("/(.*)", "/p?v=$1");
        assert_eq!(applied(&parameter, "/a&b=c", "x=1", 0).as_deref(), Some("/p?v=a%26b=c&x=1"));
    }

    #[test]
    fn a_question_mark_at_the_end_drops_the_query() {
        assert_eq!(applied(&regex("/", "/new?"), "/x", "q=1", 0).as_deref(), Some("/new"));
        assert_eq!(applied(&regex("/", "/new?a=1?"), "/x", "q=1", 0).as_deref(), Some("/new?a=1"));
        assert_eq!(applied(&regex("/", "/new?a=1"), "/x", "q=1", 0).as_deref(), Some("/new?a=1&q=1"));
    }

    #[test]
    fn a_target_always_begins_with_a_slash() {
        assert_eq!(applied(&regex("/(.*)", "$1"), "/x", "", 0).as_deref(), Some("/x"));
        assert_eq!(applied(&PathRewrite::Full("".into()), "/x", "", 0).as_deref(), Some("/"));
    }

    #[test]
    fn only_one_digit_makes_a_capture() {
        assert_eq!(applied(&regex("/(.)", "/$10$x$"), "/a", "", 0).as_deref(), Some("/a0$x$"));
        assert_eq!(applied(&regex("/(.)", "/$2-"), "/a", "", 0).as_deref(), Some("/-"));
    }

    #[test]
    fn a_full_path_keeps_the_query_unless_it_brings_one() {
        let full = |path: &str| applied(&PathRewrite::Full(path.into()), "/x", "q=1", 0).unwrap();
        assert_eq!(full("/new%20path"), "/new%20path?q=1");
        assert_eq!(full("/new?own=1"), "/new?own=1");
    }

    /// The table of Gateway API `HTTPPathModifier.replacePrefixMatch`; a prefix is counted without its slash.
    #[test]
    fn replaces_prefixes_as_the_gateway_api_table_says() {
        for (path, prefix, replacement, forwarded) in [
            ("/foo/bar", 4, "/xyz", "/xyz/bar"),
            ("/foo/bar", 4, "/xyz/", "/xyz/bar"),
            ("/foo", 4, "/xyz", "/xyz"),
            ("/foo/", 4, "/xyz", "/xyz/"),
            ("/foo/bar", 4, "", "/bar"),
            ("/foo/", 4, "", "/"),
            ("/foo", 4, "", "/"),
            ("/foo/", 4, "/", "/"),
            ("/foo", 4, "/", "/"),
            ("/bar", 0, "/xyz", "/xyz/bar"),
            // The API server accepts a prefix without a slash, too.
            ("/foo/bar", 4, "xyz", "/xyz/bar"),
            ("/foo", 4, "xyz/", "/xyz/"),
        ] {
            let rewrite = PathRewrite::Prefix(replacement.into());
            assert_eq!(
                applied(&rewrite, path, "", prefix).as_deref(),
                Some(forwarded),
                "{path} {replacement:?}"
            );
        }
    }

    #[test]
    fn the_rest_after_a_prefix_keeps_its_escapes_only_if_it_has_any() {
        let rewrite = PathRewrite::Prefix("/n".into());
        assert_eq!(applied(&rewrite, "/a/b%2Fc", "", 2).as_deref(), Some("/n/b%2Fc"));
        let decoded = CompiledRewrite::compiled(&rewrite, PathForm::Decoded).unwrap();
        let mut out = Vec::new();
        assert!(decoded.apply(b"/a/b%c d", b"", 2, &mut out));
        assert_eq!(out, b"/n/b%25c%20d");
    }
}
