//! Values by their names: cookies and parameters of the query. Decodes nothing.

use fairway_message::Head;

/// The value of a cookie; its name is case-sensitive (RFC 6265 §4.1.1).
pub fn cookie_of<'r>(request: &'r Head, name: &[u8]) -> Option<&'r [u8]> {
    let pairs = request.all_named(b"cookie").flat_map(|line| line.split(|byte| *byte == b';'));
    value_of(pairs.map(<[u8]>::trim_ascii), name)
}

/// The value of a query parameter.
pub fn parameter_of<'r>(query: &'r [u8], name: &[u8]) -> Option<&'r [u8]> {
    value_of(query.split(|byte| *byte == b'&'), name)
}

fn value_of<'r>(mut pairs: impl Iterator<Item = &'r [u8]>, name: &[u8]) -> Option<&'r [u8]> {
    pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
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
