//! Values of query parameters, decoded while comparing, without copies.

/// The raw value of the first parameter whose decoded name is `name` (Gateway API `HTTPQueryParamMatch`: the first of
/// several is used).
pub(crate) fn first<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    all(query, name).next()
}

/// The raw values of all parameters whose decoded name is `name`.
pub(crate) fn all<'q>(query: &'q [u8], name: &[u8]) -> impl Iterator<Item = &'q [u8]> {
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let (raw, value) = name_and_value(pair)?;
        equals_decoded(raw, name).then_some(value)
    })
}

/// `None` for an empty pair.
fn name_and_value(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
    let value = pair.get(end + 1..).unwrap_or_default();
    (!pair.is_empty()).then_some((&pair[..end], value))
}

/// The raw values of all parameters that some backend reads as `name`: nginx ignores case in `$arg_name`, others also
/// separate parameters by `;`. A value may be returned twice.
pub(crate) fn all_readings<'q>(query: &'q [u8], name: &[u8]) -> impl Iterator<Item = &'q [u8]> {
    let semicolons = query.contains(&b';').then(|| query.split(|byte| matches!(byte, b'&' | b';')));
    let pairs = query.split(|byte| *byte == b'&').chain(semicolons.into_iter().flatten());
    pairs.filter_map(move |pair| {
        let (raw, value) = name_and_value(pair)?;
        let lower = |byte: u8| byte.to_ascii_lowercase();
        decoded(raw).map(lower).eq(name.iter().copied().map(lower)).then_some(value)
    })
}

/// Whether `raw` decodes to `wanted`.
pub(crate) fn equals_decoded(raw: &[u8], expected: &[u8]) -> bool {
    raw == expected && !needs_decoding(raw) || decoded(raw).eq(expected.iter().copied())
}

/// Whether decoding changes `raw`.
pub(crate) fn needs_decoding(raw: &[u8]) -> bool {
    raw.iter().any(|byte| matches!(byte, b'%' | b'+'))
}

/// The decoded bytes of `raw` (`application/x-www-form-urlencoded`, WHATWG URL §5.1: `+` is a space, an invalid escape
/// stands for itself).
pub(crate) fn decoded(raw: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (byte, length) = match rest {
            [] => return None,
            [b'%', high, low, ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [b'+', ..] => (b' ', 1),
            [byte, ..] => (*byte, 1),
        };
        rest = &rest[length..];
        Some(byte)
    })
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_counts() {
        assert_eq!(first(b"a=1&b=2&a=3", b"a"), Some(&b"1"[..]));
        assert_eq!(first(b"a=1&b=2&a=3", b"c"), None);
        assert_eq!(all(b"a=1&b=2&%61=3", b"a").collect::<Vec<_>>(), [b"1", b"3"]);
    }

    #[test]
    fn a_parameter_may_have_no_value() {
        assert_eq!(first(b"flag&x=1", b"flag"), Some(&b""[..]));
        assert_eq!(first(b"", b""), None);
        assert_eq!(first(b"=v", b""), Some(&b"v"[..]));
    }

    #[test]
    fn names_and_values_are_compared_decoded() {
        assert_eq!(first(b"%61+b=1", b"a b"), Some(&b"1"[..]));
        assert!(equals_decoded(b"a%20b%2", b"a b%2"));
        assert!(!equals_decoded(b"a+b", b"a+b"));
        assert!(equals_decoded(b"%c3%A9", "\u{e9}".as_bytes()));
    }
}
