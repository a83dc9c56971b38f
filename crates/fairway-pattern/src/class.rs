//! Escapes, and what stands between brackets.

use crate::cursor::{Parser, unsupported};
use crate::refusal::Refusal;
use crate::set::Set;
use crate::syntax::Assertion;

/// What a backslash and what follows it mean.
pub(crate) enum Escape {
    Set(Set),
    Assertion(Assertion),
    Nothing,
}

/// After a backslash that is not in brackets.
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
                _ => Ok(Escape::Set(Set::of(b'\n').not())),
            };
        }
        // Only the text of the match would be another, which nothing uses.
        Some(b'K') => {
            parser.next();
            return Ok(Escape::Nothing);
        }
        _ => return common(parser).map(Escape::Set),
    };
    parser.next();
    Ok(Escape::Assertion(assertion))
}

/// What means the same in brackets and outside of them.
fn common(parser: &mut Parser<'_>) -> Result<Set, Refusal> {
    let Some(byte) = parser.next() else { return Err(Refusal::because("it ends with a backslash")) };
    Ok(match byte {
        b'd' => Set::digits(),
        b'D' => Set::digits().not(),
        b'w' => Set::word(),
        b'W' => Set::word().not(),
        b's' => Set::space(),
        b'S' => Set::space().not(),
        b'h' => Set::horizontal_space(),
        b'H' => Set::horizontal_space().not(),
        b'v' => Set::vertical_space(),
        b'V' => Set::vertical_space().not(),
        b'a' => Set::of(7),
        b'e' => Set::of(27),
        b'f' => Set::of(12),
        b'n' => Set::of(b'\n'),
        b'r' => Set::of(b'\r'),
        b't' => Set::of(b'\t'),
        b'x' => Set::of(hexadecimal(parser)?),
        b'0' => {
            let mut value = 0;
            for _ in 0..2 {
                let Some(digit) = parser.peek().filter(|byte| matches!(byte, b'0'..=b'7')) else { break };
                parser.next();
                value = value * 8 + (digit - b'0');
            }
            Set::of(value)
        }
        b'1'..=b'9' | b'g' | b'k' => return Err(Refusal::because("backreferences are not supported")),
        b'p' | b'P' | b'X' => {
            return Err(unsupported("a class of Unicode characters; ingress-nginx compares bytes, so it"));
        }
        letter if letter.is_ascii_alphanumeric() => {
            return Err(unsupported(&format!("\\{}", char::from(letter))));
        }
        other => Set::of(other),
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

/// After an opening bracket; case is folded here too, because a negation follows it.
pub(crate) fn class(parser: &mut Parser<'_>, ignore_case: bool) -> Result<Set, Refusal> {
    let unclosed = || Refusal::because("unclosed character class");
    let negated = parser.eat(b"^");
    let mut set = Set::default();
    let mut first = true;
    loop {
        if !first && parser.eat(b"]") {
            break;
        }
        first = false;
        let (member, single) = member(parser)?.ok_or_else(unclosed)?;
        set = set.or(member);
        // A hyphen at the end, or after a class, is itself.
        if parser.peek() != Some(b'-') || parser.is_before_end_of_class() {
            continue;
        }
        let Some(low) = single else { continue };
        parser.next();
        let (_, high) = self::member(parser)?.ok_or_else(unclosed)?;
        let high = high.filter(|high| low <= *high);
        set = set
            .or(Set::range(low, high.ok_or_else(|| Refusal::because("invalid range in a character class"))?));
    }
    let set = if ignore_case { set.without_case() } else { set };
    Ok(if negated { set.not() } else { set })
}

/// One member of a class, and the byte that it is unless it is more than one.
fn member(parser: &mut Parser<'_>) -> Result<Option<(Set, Option<u8>)>, Refusal> {
    if parser.eat(b"[:") {
        let name = parser.until(b":]").unwrap_or_default();
        let (negated, name) = name.strip_prefix(b"^").map_or((false, name), |name| (true, name));
        let set = Set::named(name).ok_or_else(|| Refusal::because("unknown [:class:]"))?;
        return Ok(Some((if negated { set.not() } else { set }, None)));
    }
    if parser.eat(b"[.") || parser.eat(b"[=") {
        return Err(unsupported("[. and [= in a character class"));
    }
    if !parser.eat(b"\\") {
        return Ok(parser.next().map(|byte| (Set::of(byte), Some(byte))));
    }
    if parser.eat(b"b") {
        return Ok(Some((Set::of(8), Some(8))));
    }
    let set = common(parser)?;
    let mut members = (0..=255).filter(|byte| set.has(*byte));
    let only = members.next().filter(|_| members.next().is_none());
    Ok(Some((set, only)))
}

impl Parser<'_> {
    /// Whether the byte after the next one closes the class.
    fn is_before_end_of_class(&self) -> bool {
        self.peek_after() == Some(b']')
    }
}
