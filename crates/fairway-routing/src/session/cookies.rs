//! Finds values of cookies and query parameters. Does not decode them.

use fairway_http::Head;

/// The value of a cookie; its name is case-sensitive (RFC 6265 §4.1.1).
pub fn cookie_of<'r>(request: &'r Head, name: &[u8]) -> Option<&'r [u8]> {
    request.all_named(b"cookie").find_map(|line| value_of(line, b';', name))
}

/// The value of a query parameter.
pub fn parameter_of<'r>(query: &'r [u8], name: &[u8]) -> Option<&'r [u8]> {
    value_of(query, b'&', name)
}

/// Spaces, which do not occur in a query, are not part of a cookie pair.
fn value_of<'r>(mut pairs: &'r [u8], separator: u8, name: &[u8]) -> Option<&'r [u8]> {
    loop {
        let end = memchr::memchr(separator, pairs);
        let pair = pairs[..end.unwrap_or(pairs.len())].trim_ascii();
        if let Some(value) = pair.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
            return Some(value);
        }
        pairs = &pairs[end? + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut request = Head::new();
        request.start_request(b"GET", b"/");
        request.append(b"Cookie", b"xroute=1; route=2;  other=3");
        request.append(b"Cookie", b"last=a=b");
        let found = |name: &str| cookie_of(&request, name.as_bytes()).map(<[u8]>::to_vec);
        assert_eq!(found("route"), Some(b"2".to_vec()));
        assert_eq!(found("other"), Some(b"3".to_vec()));
        assert_eq!(found("last"), Some(b"a=b".to_vec()));
        assert_eq!(found("Route"), None);
        assert_eq!(found("rou"), None);
    }
}
