//! Splits values into cookies, because browsers limit a cookie to 4 KiB.
//!
//! All names begin with `__Host-` (RFC 6265bis §4.1.3.2): browsers accept such a cookie only from the host itself and
//! over TLS, so no other host of the domain can set one.

use std::time::Duration;

/// Maximum length of a cookie value, in bytes: with name and attributes it stays below 4,096.
const MAX_PART_BYTES: usize = 3_800;
/// Maximum number of cookies per value.
pub const MAX_COOKIE_PARTS: usize = 4;
/// Maximum length of a value.
const MAX_COOKIE_VALUE_BYTES: usize = MAX_COOKIE_PARTS * MAX_PART_BYTES;

const ATTRIBUTES: &str = "; Path=/; Secure; HttpOnly; SameSite=Lax";

/// `Set-Cookie` lines for a base64url value: the first part contains the number of parts. `None` if it is too long.
#[must_use]
pub fn cookie_lines(name: &str, value: &str, max_age: Option<Duration>) -> Option<Vec<String>> {
    let parts: Vec<&str> =
        value.as_bytes().chunks(MAX_PART_BYTES).map(str::from_utf8).collect::<Result<_, _>>().ok()?;
    if parts.is_empty() || parts.len() > MAX_COOKIE_PARTS {
        return None;
    }
    let max_age = max_age.map(|age| format!("; Max-Age={}", age.as_secs())).unwrap_or_default();
    let line = |(number, part): (usize, &&str)| match number {
        0 => format!("{name}={}.{part}{ATTRIBUTES}{max_age}", parts.len()),
        number => format!("{name}-{number}={part}{ATTRIBUTES}{max_age}"),
    };
    Some(parts.iter().enumerate().map(line).collect())
}

/// `Set-Cookie` that removes a cookie.
#[must_use]
pub fn removal_line(name: &str) -> String {
    format!("{name}={ATTRIBUTES}; Max-Age=0")
}

/// `Set-Cookie` lines that remove the parts that the browser sent, except for the first `kept`.
pub fn removal_lines<'c>(
    lines: impl Iterator<Item = &'c [u8]>,
    name: &str,
    kept: usize,
) -> impl Iterator<Item = String> {
    let numbers = pairs(lines).filter_map(move |(own, _)| part_number(own, name));
    numbers.filter(move |number| *number >= kept).map(move |number| removal_line(&part_name(name, number)))
}

/// The parts of a value in order.
#[derive(Clone, Copy, Debug)]
pub struct CookieParts<'c> {
    parts: [&'c [u8]; MAX_COOKIE_PARTS],
    count: usize,
}

/// Finds a value in the `Cookie` lines of a request; `None` if a part is missing or duplicated.
pub fn find_cookie<'c>(lines: impl Iterator<Item = &'c [u8]>, name: &str) -> Option<CookieParts<'c>> {
    let mut found = [None; MAX_COOKIE_PARTS];
    for (own, value) in pairs(lines) {
        let Some(number) = part_number(own, name) else { continue };
        if found.get_mut(number).is_some_and(|part| part.replace(value).is_some()) {
            return None;
        }
    }
    let (count, first) = match found[0]? {
        [count @ b'1'..=b'9', b'.', first @ ..] => (usize::from(count - b'0'), first),
        _ => return None,
    };
    let mut parts = [first; MAX_COOKIE_PARTS];
    for (part, found) in parts.get_mut(..count)?.iter_mut().zip(found).skip(1) {
        *part = found?;
    }
    Some(CookieParts { parts, count })
}

impl<'c> CookieParts<'c> {
    /// All of them.
    #[must_use]
    pub fn parts(&self) -> &[&'c [u8]] {
        &self.parts[..self.count]
    }

    /// The value; `None` if it is not a value written by this module.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        let value = String::from_utf8(self.parts().concat()).ok()?;
        (value.len() <= MAX_COOKIE_VALUE_BYTES).then_some(value)
    }
}

/// The names of cookies with this prefix.
pub fn cookie_names<'c>(
    lines: impl Iterator<Item = &'c [u8]>,
    prefix: &str,
) -> impl Iterator<Item = &'c str> {
    let names = pairs(lines).filter_map(|(name, _)| str::from_utf8(name).ok());
    names.filter(move |name| name.starts_with(prefix))
}

/// Joins the `Cookie` lines without the cookies whose names have this prefix.
pub fn without_cookies<'c>(lines: impl Iterator<Item = &'c [u8]>, prefix: &[u8], out: &mut Vec<u8>) {
    for pair in lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii) {
        if pair.is_empty() || pair.starts_with(prefix) {
            continue;
        }
        if !out.is_empty() {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(pair);
    }
}

/// Names and values in `Cookie` lines (RFC 6265 §4.2.1).
fn pairs<'c>(lines: impl Iterator<Item = &'c [u8]>) -> impl Iterator<Item = (&'c [u8], &'c [u8])> {
    lines.flat_map(|line| line.split(|byte| *byte == b';')).filter_map(|pair| {
        let pair = pair.trim_ascii();
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        Some((&pair[..equals], &pair[equals + 1..]))
    })
}

fn part_number(cookie_name: &[u8], name: &str) -> Option<usize> {
    match cookie_name.strip_prefix(name.as_bytes())? {
        b"" => Some(0),
        [b'-', digit @ b'1'..=b'9'] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

fn part_name(name: &str, number: usize) -> String {
    if number == 0 { name.to_owned() } else { format!("{name}-{number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "__Host-fairway-session-0123abcd";

    /// The cookies as the browser sends them back.
    fn sent_back(lines: &[String]) -> Vec<u8> {
        let pairs: Vec<_> = lines.iter().map(|line| line.split_once(';').unwrap().0).collect();
        pairs.join("; ").into_bytes()
    }

    fn find(line: &[u8]) -> Option<String> {
        find_cookie(std::iter::once(line), NAME)?.value()
    }

    #[test]
    fn values_of_every_length_come_back_and_no_cookie_is_too_long_for_a_browser() {
        for length in [1, MAX_PART_BYTES, MAX_PART_BYTES + 1, MAX_COOKIE_VALUE_BYTES] {
            let value: String = ('a'..='z').cycle().take(length).collect();
            let lines = cookie_lines(NAME, &value, Some(Duration::from_secs(604_800))).unwrap();
            assert!(lines.iter().all(|line| line.len() < 4_096));
            assert!(
                lines.iter().all(|line| line.contains("; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age="))
            );
            assert_eq!(find(&sent_back(&lines)), Some(value.clone()));
            let split: Vec<Vec<u8>> =
                lines.iter().rev().map(|line| sent_back(std::slice::from_ref(line))).collect();
            let split = split.iter().map(Vec::as_slice);
            assert_eq!(
                find_cookie(split, NAME).and_then(|it| it.value()),
                Some(value),
                "HTTP/2 splits the field"
            );
        }
        let too_long = "a".repeat(MAX_COOKIE_VALUE_BYTES + 1);
        assert_eq!(cookie_lines(NAME, &too_long, None), None);
        assert_eq!(cookie_lines(NAME, "", None), None);
    }

    #[test]
    fn a_value_is_whole_or_not_there() {
        let lines = cookie_lines(NAME, &"a".repeat(2 * MAX_PART_BYTES + 1), None).unwrap();
        for missing in 0..lines.len() {
            let mut others = lines.clone();
            others.remove(missing);
            assert_eq!(find(&sent_back(&others)), None, "part {missing}");
            let twice = [&lines[..], &lines[missing..=missing]].concat();
            assert_eq!(find(&sent_back(&twice)), None, "part {missing} twice");
        }
        for line in
            ["", NAME, "=", "; ;", &format!("{NAME}=a"), &format!("{NAME}=0.a"), &format!("{NAME}=5.a")]
        {
            assert_eq!(find(line.as_bytes()), None, "{line}");
        }
        assert_eq!(find(format!("a=b;{NAME}=1.x=y ; c").as_bytes()).as_deref(), Some("x=y"));
    }

    #[test]
    fn existing_cookies_are_removed() {
        let line = format!("{NAME}=3.a; {NAME}-1=b; {NAME}-2=c; {NAME}-x=d");
        let removed = |kept| removal_lines(std::iter::once(line.as_bytes()), NAME, kept).collect::<Vec<_>>();
        assert_eq!(removed(2), [removal_line(&format!("{NAME}-2"))]);
        assert_eq!(removed(0).len(), 3);
        assert!(removal_line(NAME).ends_with("; Max-Age=0"));
    }

    #[test]
    fn endpoints_get_only_the_other_cookies() {
        let lines = ["a=b; __Host-fairway-session-0=1.x;c=d", "__Host-fairway-login-0=1.y", " e ;"];
        let mut out = Vec::new();
        without_cookies(lines.iter().map(|line| line.as_bytes()), b"__Host-fairway-", &mut out);
        assert_eq!(out, b"a=b; c=d; e");
        let names = cookie_names(lines.iter().map(|line| line.as_bytes()), "__Host-fairway-login-");
        assert_eq!(names.collect::<Vec<_>>(), ["__Host-fairway-login-0"]);
    }
}
