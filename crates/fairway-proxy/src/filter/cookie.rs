//! Cookies as nginx reads them for `$cookie_NAME`: conditions must see the cookie that nginx would see, however it is written.

/// The value of the first cookie of this name in any case.
///
/// The same as `ngx_http_parse_multi_header_lines` from nginx 1.29.8 on: the one before ended a pair at a comma, too.
pub(super) fn find<'r>(mut lines: impl Iterator<Item = &'r [u8]>, name: &[u8]) -> Option<&'r [u8]> {
    lines.find_map(|line| find_in_line(line, name))
}

fn find_in_line<'r>(mut rest: &'r [u8], name: &[u8]) -> Option<&'r [u8]> {
    loop {
        if let Some((start, behind)) = rest.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
        {
            match without_spaces(behind) {
                [b'=', value @ ..] => {
                    let value = without_spaces(value);
                    return Some(&value[..memchr::memchr(b';', value).unwrap_or(value.len())]);
                }
                // nginx skips this byte, too, even where it is the separator.
                behind => rest = behind.get(1..)?,
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
