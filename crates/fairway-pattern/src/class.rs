//! Escapes and character classes.

use crate::cursor::{Parser, unsupported};
use crate::refusal::Refusal;
use crate::set::ByteSet;
use crate::syntax::Assertion;

/// The meaning of an escape.
pub(crate) enum Escape {
    Set(ByteSet),
    Assertion(Assertion),
    Nothing,
}

/// Parses an escape outside of brackets, after the backslash.
pub(crate) fn escape(parser: &mut Parser<'_>) -> Result<Escape, Refusal> {
    let assertion = match parser.peek() {
        Some(b'A') => Assertion::Start,
        Some(b'z') => Assertion::End,
        Some(b'Z') => Assertion::EndOrLastLine,
        Some(b'b') => Assertion::Word,
        Some(b'B') => Assertion::NotWord,
        Some(b'N') => {
            parser.next();
            return match parser.peek() {
                Some(b'{') => Err(unsupported("\\N{..}")),
                _ => Ok(Escape::Set(ByteSet::single(b'\n').complement())),
            };
        }
        // It only changes the text of the match, which is not used.
        Some(b'K') => {
            parser.next();
            return Ok(Escape::Nothing);
        }
        _ => return common_escape(parser).map(Escape::Set),
    };
    parser.next();
    Ok(Escape::Assertion(assertion))
}

/// Parses an escape that has the same meaning inside and outside of brackets.
fn common_escape(parser: &mut Parser<'_>) -> Result<ByteSet, Refusal> {
    let Some(byte) = parser.next() else { return Err(Refusal::because("it ends with a backslash")) };
    Ok(match byte {
        b'd' => ByteSet::digits(),
        b'D' => ByteSet::digits().complement(),
        b'w' => ByteSet::word(),
        b'W' => ByteSet::word().complement(),
        b's' => ByteSet::space(),
        b'S' => ByteSet::space().complement(),
        b'h' => ByteSet::horizontal_space(),
        b'H' => ByteSet::horizontal_space().complement(),
        b'v' => ByteSet::vertical_space(),
        b'V' => ByteSet::vertical_space().complement(),
        b'a' => ByteSet::single(7),
        b'e' => ByteSet::single(27),
        b'f' => ByteSet::single(12),
        b'n' => ByteSet::single(b'\n'),
        b'r' => ByteSet::single(b'\r'),
        b't' => ByteSet::single(b'\t'),
        b'x' => ByteSet::single(hexadecimal(parser)?),
        b'0' => {
            let mut value = 0;
            for _ in 0..2 {
                let Some(digit) = parser.peek().filter(|byte| matches!(byte, b'0'..=b'7')) else { break };
                parser.next();
                value = value * 8 + (digit - b'0');
            }
            ByteSet::single(value)
        }
        b'1'..=b'9' | b'g' | b'k' => return Err(Refusal::because("backreferences are not supported")),
        b'p' | b'P' | b'X' => {
            return Err(unsupported("a class of Unicode characters; ingress-nginx compares bytes, so it"));
        }
        letter if letter.is_ascii_alphanumeric() => {
            return Err(unsupported(&format!("\\{}", char::from(letter))));
        }
        other => ByteSet::single(other),
    })
}

/// `\xhh` with up to two digits, or `\x{h..}`.
fn hexadecimal(parser: &mut Parser<'_>) -> Result<u8, Refusal> {
    let value = |digits: &[u8]| {
        let text = std::str::from_utf8(digits).ok()?;
        u8::from_str_radix(text, 16).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if parser.eat(b"{") {
        let digits = parser.until(b"}").unwrap_or_default();
        return value(digits).ok_or_else(|| Refusal::because("\\x{..} is no byte in hexadecimal digits"));
    }
    let mut digits = Vec::new();
    while let Some(digit) = parser.peek().filter(|byte| byte.is_ascii_hexdigit() && digits.len() < 2) {
        parser.next();
        digits.push(digit);
    }
    Ok(value(&digits).unwrap_or_default())
}

/// Parses a class after the opening bracket. Case is folded here too, because a negation may follow.
pub(crate) fn class(parser: &mut Parser<'_>, ignore_case: bool) -> Result<ByteSet, Refusal> {
    let unclosed = || Refusal::because("unclosed character class");
    let negated = parser.eat(b"^");
    let mut set = ByteSet::default();
    let mut first = true;
    loop {
        if !first && parser.eat(b"]") {
            break;
        }
        first = false;
        let (member, single) = member(parser)?.ok_or_else(unclosed)?;
        set = set.union(member);
        // A hyphen at the end, or after a class, is literal.
        if parser.peek() != Some(b'-') || parser.is_before_end_of_class() {
            continue;
        }
        let Some(low) = single else { continue };
        parser.next();
        let (_, high) = self::member(parser)?.ok_or_else(unclosed)?;
        let high = high.filter(|high| low <= *high);
        set = set.union(ByteSet::range(
            low,
            high.ok_or_else(|| Refusal::because("invalid range in a character class"))?,
        ));
    }
    let set = if ignore_case { set.without_case() } else { set };
    Ok(if negated { set.complement() } else { set })
}

/// One member of a class, and its byte if it is a single one.
fn member(parser: &mut Parser<'_>) -> Result<Option<(ByteSet, Option<u8>)>, Refusal> {
    if parser.eat(b"[:") {
        let name = parser.until(b":]").unwrap_or_default();
        let (negated, name) = name.strip_prefix(b"^").map_or((false, name), |name| (true, name));
        let set = ByteSet::from_posix_name(name).ok_or_else(|| Refusal::because("unknown [:class:]"))?;
        return Ok(Some((if negated { set.complement() } else { set }, None)));
    }
    if parser.eat(b"[.") || parser.eat(b"[=") {
        return Err(unsupported("[. and [= in a character class"));
    }
    if !parser.eat(b"\\") {
        return Ok(parser.next().map(|byte| (ByteSet::single(byte), Some(byte))));
    }
    if parser.eat(b"b") {
        return Ok(Some((ByteSet::single(8), Some(8))));
    }
    let set = common_escape(parser)?;
    let mut members = (0..=255).filter(|byte| set.contains(*byte));
    let only = members.next().filter(|_| members.next().is_none());
    Ok(Some((set, only)))
}

impl Parser<'_> {
    /// Whether the byte after the next one closes the class.
    fn is_before_end_of_class(&self) -> bool {
        self.peek_after() == Some(b']')
    }
}
