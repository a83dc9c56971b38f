//! Parses patterns like PCRE2 with nginx's options: bytes instead of characters, no `(?m)`, and `$` also before a
//! final line feed (pcre2pattern(3)). Anything uncertain is rejected.

use crate::class;
use crate::cursor::{Parser, unsupported};
use crate::refusal::Refusal;
use crate::set::ByteSet;
use crate::syntax::{Assertion, LookDirection, Node, Parsed};

/// Maximum nesting of groups.
const MAX_GROUP_DEPTH: u32 = 100;
/// PCRE2: "the numbers must be less than 65536".
const MAX_REPETITIONS: u32 = 65_535;

/// Parses `text`.
pub(crate) fn parse(text: &str, ignore_case: bool) -> Result<Parsed, Refusal> {
    let mut parser = Parser { text: text.as_bytes(), at: 0, groups: 0, depth: 0 };
    let branches =
        parser.branches(Flags { ignore_case, spaced: false, dot: ByteSet::single(b'\n').complement() })?;
    match parser.peek() {
        None => Ok(Parsed { branches }),
        Some(_) => Err(Refusal::because("unopened group")),
    }
}

/// The flags set by `(?flags)`, valid until the end of the group.
#[derive(Clone, Copy)]
struct Flags {
    ignore_case: bool,
    spaced: bool,
    /// The bytes that `.` matches.
    dot: ByteSet,
}

impl Parser<'_> {
    /// Parses up to the end of the group or pattern.
    fn branches(&mut self, mut flags: Flags) -> Result<Vec<Node>, Refusal> {
        let mut branches = vec![self.branch(&mut flags)?];
        while self.eat(b"|") {
            branches.push(self.branch(&mut flags)?);
        }
        Ok(branches)
    }

    fn branch(&mut self, flags: &mut Flags) -> Result<Node, Refusal> {
        let mut parts = Vec::new();
        loop {
            if flags.spaced {
                self.skip_spaces();
            }
            if matches!(self.peek(), None | Some(b'|' | b')')) {
                return Ok(if parts.is_empty() { Node::Empty } else { Node::Concat(parts) });
            }
            let part = self.atom(flags)?;
            if flags.spaced {
                self.skip_spaces();
            }
            let repeats = self.quantifier()?;
            match (part, repeats) {
                (Some(part), None) => parts.push(part),
                (Some(part), Some((min, max, greedy))) => parts.push(self.repeat(part, min, max, greedy)?),
                (None, None) => {}
                (None, Some(_)) => return Err(Refusal::because("a quantifier follows nothing")),
            }
        }
    }

    /// `(?x)`: skips spaces and comments.
    fn skip_spaces(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'#' {
                while self.next().is_some_and(|byte| byte != b'\n') {}
            } else if ByteSet::space().contains(byte) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// An atom without its quantifier; `None` for flags and comments.
    fn atom(&mut self, flags: &mut Flags) -> Result<Option<Node>, Refusal> {
        let folded = |set: ByteSet| Node::Byte(if flags.ignore_case { set.without_case() } else { set });
        Ok(Some(match self.next().unwrap_or_default() {
            b'(' => return self.group(flags),
            b'[' => folded(class::class(self, flags.ignore_case)?),
            b'.' => Node::Byte(flags.dot),
            b'^' => Node::Assert(Assertion::Start),
            b'$' => Node::Assert(Assertion::EndOrLastLine),
            b'*' | b'+' | b'?' => return Err(Refusal::because("a quantifier follows nothing")),
            b'\\' if self.eat(b"Q") => {
                let rest = self.text.len() - self.at;
                let end = self.text[self.at..].windows(2).position(|two| two == b"\\E").unwrap_or(rest);
                let quoted = self.text[self.at..self.at + end].to_vec();
                self.at = (self.at + end + 2).min(self.text.len());
                // A quantifier would apply to the last byte only.
                if matches!(self.peek(), Some(b'*' | b'+' | b'?' | b'{')) {
                    return Err(Refusal::because("a quantifier after \\Q..\\E is not supported"));
                }
                Node::Concat(quoted.into_iter().map(|byte| folded(ByteSet::single(byte))).collect())
            }
            b'\\' => match class::escape(self)? {
                class::Escape::Set(set) => folded(set),
                class::Escape::Assertion(assertion) => Node::Assert(assertion),
                class::Escape::Nothing => return Ok(None),
            },
            byte => folded(ByteSet::single(byte)),
        }))
    }

    fn group(&mut self, flags: &mut Flags) -> Result<Option<Node>, Refusal> {
        if self.eat(b"*") {
            return Err(unsupported("a verb such as (*UTF8)"));
        }
        if !self.eat(b"?") {
            self.groups += 1;
            let number = self.groups;
            return Ok(Some(Node::Capture(number, Box::new(self.group_body(*flags)?))));
        }
        if self.eat(b"#") {
            self.until(b")").ok_or_else(|| Refusal::because("unclosed group"))?;
            return Ok(None);
        }
        if self.eat(b":") {
            return self.group_body(*flags).map(Some);
        }
        for (open, side, negative) in [
            (&b"="[..], LookDirection::Ahead, false),
            (b"!", LookDirection::Ahead, true),
            (b"<=", LookDirection::Behind, false),
            (b"<!", LookDirection::Behind, true),
        ] {
            if self.eat(open) {
                let node = Box::new(self.group_body(*flags)?);
                return Ok(Some(Node::Look { side, negative, node }));
            }
        }
        for (open, close) in [(&b"P<"[..], b">"), (b"<", b">"), (b"'", b"'")] {
            if self.eat(open) {
                let name = self.until(close).unwrap_or_default();
                let good = !name.is_empty()
                    && name.iter().all(|byte| ByteSet::word().contains(*byte))
                    && !ByteSet::digits().contains(name[0]);
                if !good {
                    return Err(Refusal::because("a group with an invalid name"));
                }
                self.groups += 1;
                let number = self.groups;
                return Ok(Some(Node::Capture(number, Box::new(self.group_body(*flags)?))));
            }
        }
        self.flags(flags)
    }

    /// `(?i)`, `(?s-i:..)`.
    fn flags(&mut self, flags: &mut Flags) -> Result<Option<Node>, Refusal> {
        let mut set = *flags;
        let mut on = true;
        loop {
            match self.next() {
                Some(b'-') if on => on = false,
                Some(b'i') => set.ignore_case = on,
                Some(b's') => set.dot = if on { ByteSet::all() } else { ByteSet::single(b'\n').complement() },
                Some(b'x') if self.peek() != Some(b'x') => set.spaced = on,
                Some(b')') => {
                    *flags = set;
                    return Ok(None);
                }
                Some(b':') => return self.group_body(set).map(Some),
                Some(b'>') => return Err(unsupported("an atomic group, (?>..); (?:..) matches no less,")),
                Some(b'|') => return Err(unsupported("a group that numbers its branches alike, (?|..),")),
                Some(b'R' | b'&' | b'P' | b'0'..=b'9' | b'+') => return Err(unsupported("recursion")),
                Some(b'(') => return Err(unsupported("a condition, (?(..)..),")),
                Some(b'm') => return Err(unsupported("the flag m; a path is one line, so leave it out: it")),
                Some(_) => return Err(unsupported("a flag other than i, s and x")),
                None => return Err(Refusal::because("unclosed group")),
            }
        }
    }

    /// The content of an open group, and its end.
    fn group_body(&mut self, flags: Flags) -> Result<Node, Refusal> {
        self.depth += 1;
        if self.depth > MAX_GROUP_DEPTH {
            return Err(Refusal::because(format!("groups are nested more than {MAX_GROUP_DEPTH} deep")));
        }
        let mut branches = self.branches(flags)?;
        if !self.eat(b")") {
            return Err(Refusal::because("unclosed group"));
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Alternation(branches),
        })
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>, bool)>, Refusal> {
        let (min, max) = match self.peek() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => match self.counted_quantifier()? {
                Some(bounds) => bounds,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.at += 1;
        let greedy = !self.eat(b"?");
        match self.peek() {
            Some(b'+') if greedy => {
                Err(unsupported("a possessive quantifier; one without the + matches no less: it"))
            }
            Some(b'*' | b'+' | b'?') => Err(Refusal::because("a quantifier follows a quantifier")),
            _ => Ok(Some((min, max, greedy))),
        }
    }

    /// `{n}`, `{n,}`, `{n,m}`, up to `}`; any other brace is literal.
    fn counted_quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>, Refusal> {
        let rest = &self.text[self.at + 1..];
        let Some(length) = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b',' | b' ' | b'\t'))
        else {
            return Ok(None);
        };
        let inner = &rest[..length];
        if rest[length] != b'}' || inner.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(inner);
        let (min, max) = text.split_once(',').map_or((&*text, None), |(min, max)| (min, Some(max)));
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|number| *number <= MAX_REPETITIONS);
        // PCRE2 versions differ in the meaning of `{,2}` and `{1, 2}`.
        let wrong =
            || Refusal::because(format!("{{{text}}} is no quantifier; write {{n}}, {{n,}} or {{n,m}}"));
        let min = number(min).ok_or_else(wrong)?;
        let max = match max {
            None => Some(min),
            Some("") => None,
            Some(max) => Some(number(max).filter(|max| *max >= min).ok_or_else(wrong)?),
        };
        self.at += 1 + length;
        Ok(Some((min, max)))
    }

    fn repeat(&self, part: Node, min: u32, max: Option<u32>, greedy: bool) -> Result<Node, Refusal> {
        if matches!(part, Node::Assert(_) | Node::Look { .. }) {
            return Err(unsupported("a quantifier after ^, $, \\b or look-around"));
        }
        Ok(Node::Repeat { node: Box::new(part), min, max, greedy })
    }
}
