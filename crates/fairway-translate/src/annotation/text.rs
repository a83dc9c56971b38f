//! The text forms of values, as Go and nginx read them. Owns no defaults.

/// A switch as Go's `strconv.ParseBool` reads it.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A size as nginx reads it (`ngx_parse_offset`): digits and at most one of `k`, `m`, `g`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_nginx() {
        assert_eq!(bytes("8"), Some(8));
        assert_eq!(bytes("1k"), Some(1024));
        assert_eq!(bytes("2M"), Some(2 << 20));
        assert_eq!(bytes("1g"), Some(1 << 30));
        for bad in ["", "k", "lots", "1kb", "-1", "+1", "1.5m", "1 m", "99999999999999999999"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn switches_are_those_of_go() {
        assert_eq!((switch("True"), switch("f"), switch("yes")), (Some(true), Some(false), None));
    }
}
