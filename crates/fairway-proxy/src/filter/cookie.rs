//! Cookies as nginx reads them for `$cookie_NAME`. Conditions must see the same cookie as in nginx, however it is written.

/// The value of the first cookie with this name, ignoring case.
///
/// Like `ngx_http_parse_multi_header_lines` since nginx 1.29.8; earlier versions also ended a pair at a comma.
pub(super) fn find<'r>(mut lines: impl Iterator<Item = &'r [u8]>, name: &[u8]) -> Option<&'r [u8]> {
    lines.find_map(|line| find_in_line(line, name))
}

fn find_in_line<'r>(mut rest: &'r [u8], name: &[u8]) -> Option<&'r [u8]> {
    loop {
        if let Some((start, after_name)) = rest.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
        {
            match without_spaces(after_name) {
                [b'=', value @ ..] => {
                    let value = without_spaces(value);
                    return Some(&value[..memchr::memchr(b';', value).unwrap_or(value.len())]);
                }
                // nginx skips this byte, too, even if it is the separator.
                after_name => rest = after_name.get(1..)?,
            }
        }
        let separator = memchr::memchr(b';', rest)?;
        rest = without_spaces(&rest[separator + 1..]);
    }
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[start..]
}
