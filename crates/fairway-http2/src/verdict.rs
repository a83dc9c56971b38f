//! The verdict on a single field: which part of a message it belongs to, or which rule it breaks (RFC 9113 §8.2, §8.3).
//! The compression tables keep the verdict with each entry, so an indexed field is not checked again.

use fairway_http::bytes::{is_token, is_value_byte, is_visible};
use fairway_http::parse_authority;

/// What makes a message malformed (RFC 9113 §8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Defect {
    /// An empty name, one that is not a token, or one with an upper-case letter (§8.2.1).
    FieldName,
    /// A control byte in a value, or white space at one of its ends (§8.2.1).
    FieldValue,
    /// A field that belongs to an HTTP/1 connection (§8.2.2).
    ConnectionField,
    /// `te` with anything but `trailers` (§8.2.2).
    Te,
    /// A pseudo-header field after a regular field (§8.3).
    PseudoLate,
    /// A pseudo-header field that appears twice (§8.3).
    PseudoRepeated,
    /// An unknown pseudo-header field, or one that does not belong here (§8.3).
    PseudoUnknown,
    /// A pseudo-header field is missing (§8.3.1, §8.3.2).
    PseudoMissing,
    /// A pseudo-header field among trailers (§8.1).
    PseudoInTrailers,
    /// A method that is not a token.
    Method,
    /// A scheme that is not one (RFC 3986 §3.1).
    Scheme,
    /// A path that is empty, does not begin with `/` and is not `*`, or contains forbidden bytes (§8.3.1).
    Path,
    /// An authority that RFC 3986 §3.2 does not allow, or one with user information (§8.3.1).
    Authority,
    /// A `host` that differs from `:authority` or is repeated (§8.3.1).
    Host,
    /// A status that is not three digits, or 101 (§8.3.2, §8.6).
    Status,
    /// A `:protocol` that was not offered or is not a token (RFC 8441 §4).
    Protocol,
    /// CONNECT with a scheme or a path (§8.5).
    Connect,
    /// A `content-length` that is not one decimal number.
    ContentLength,
    /// The DATA frames do not add up to `content-length` (§8.1.1).
    LengthDisagrees,
    /// An interim response that ends the stream (§8.1).
    InterimEnds,
    /// Trailers that do not end the stream (§8.1).
    TrailersWithoutEnd,
}

impl Defect {
    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Defect::FieldName => "field_name",
            Defect::FieldValue => "field_value",
            Defect::ConnectionField => "connection_field",
            Defect::Te => "te",
            Defect::PseudoLate => "pseudo_late",
            Defect::PseudoRepeated => "pseudo_repeated",
            Defect::PseudoUnknown => "pseudo_unknown",
            Defect::PseudoMissing => "pseudo_missing",
            Defect::PseudoInTrailers => "pseudo_in_trailers",
            Defect::Method => "method",
            Defect::Scheme => "scheme",
            Defect::Path => "path",
            Defect::Authority => "authority",
            Defect::Host => "host",
            Defect::Status => "status",
            Defect::Protocol => "protocol",
            Defect::Connect => "connect",
            Defect::ContentLength => "content_length",
            Defect::LengthDisagrees => "length_disagrees",
            Defect::InterimEnds => "interim_ends",
            Defect::TrailersWithoutEnd => "trailers_without_end",
        }
    }
}

/// The verdict on a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A regular field.
    Regular,
    /// A cookie crumb (§8.2.3).
    Cookie,
    /// `host`, with a valid authority or empty.
    Host,
    /// `content-length`, one decimal number.
    Length,
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`, valid.
    Authority,
    /// `:path`, valid.
    Path,
    /// `:status`, three digits.
    Status,
    /// `:protocol`
    Protocol,
    /// It breaks a rule.
    Bad(Defect),
}

impl Verdict {
    /// The verdict on a field.
    #[must_use]
    pub fn for_field(name: &[u8], value: &[u8]) -> Verdict {
        Verdict::for_name(name).with_value(name, value)
    }

    /// The verdict on any field of this name.
    #[must_use]
    pub fn for_name(name: &[u8]) -> Verdict {
        if let [b':', rest @ ..] = name {
            return Verdict::for_pseudo(rest);
        }
        if name.is_empty() || !name.iter().all(|&byte| NAME_BYTES[usize::from(byte)]) {
            return Verdict::Bad(Defect::FieldName);
        }
        match name {
            b"cookie" => Verdict::Cookie,
            b"host" => Verdict::Host,
            b"content-length" => Verdict::Length,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Verdict::Bad(Defect::ConnectionField)
            }
            _ => Verdict::Regular,
        }
    }

    fn for_pseudo(name: &[u8]) -> Verdict {
        match name {
            b"method" => Verdict::Method,
            b"scheme" => Verdict::Scheme,
            b"authority" => Verdict::Authority,
            b"path" => Verdict::Path,
            b"status" => Verdict::Status,
            b"protocol" => Verdict::Protocol,
            _ => Verdict::Bad(Defect::PseudoUnknown),
        }
    }

    /// Completes the verdict on a name with a value.
    #[must_use]
    pub fn with_value(self, name: &[u8], value: &[u8]) -> Verdict {
        let (holds, defect) = match self {
            Verdict::Bad(_) => return self,
            Verdict::Regular if name == b"te" => (value == b"trailers", Defect::Te),
            Verdict::Regular | Verdict::Cookie => (is_value(value), Defect::FieldValue),
            Verdict::Host => (value.is_empty() || parse_authority(value).is_ok(), Defect::Authority),
            Verdict::Length => (is_length(value), Defect::ContentLength),
            Verdict::Method => (is_token(value), Defect::Method),
            Verdict::Scheme => (is_scheme(value), Defect::Scheme),
            Verdict::Authority => (parse_authority(value).is_ok(), Defect::Authority),
            Verdict::Path => (is_path(value), Defect::Path),
            Verdict::Status => (is_status(value), Defect::Status),
            Verdict::Protocol => (is_token(value), Defect::Protocol),
        };
        if holds { self } else { Verdict::Bad(defect) }
    }
}

/// `token` without upper-case letters: "A field name MUST NOT contain characters in the ranges 0x00-0x20, 0x41-0x5a, or
/// 0x7f-0xff" (RFC 9113 §8.2.1), and HTTP/1 endpoints must not get names that are no tokens.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let at = byte as u8;
        table[byte] = at.is_ascii_lowercase()
            || at.is_ascii_digit()
            || matches!(
                at,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        byte += 1;
    }
    table
};

/// No control bytes, and no white space at the ends. Without an early exit, so that it is vectorised.
#[inline]
fn is_value(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let good = value.iter().fold(true, |good, &byte| good & is_value_byte(byte));
    good && !blank(value.first()) && !blank(value.last())
}

/// `1*DIGIT` of at most 64 bits (RFC 9110 §8.6).
fn is_length(value: &[u8]) -> bool {
    parse_length(value).is_some()
}

/// The number of a `content-length`.
#[must_use]
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// `ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )` (RFC 3986 §3.1).
fn is_scheme(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_alphabetic)
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// `/` and what follows up to a fragment, or `*`.
fn is_path(value: &[u8]) -> bool {
    match value {
        [b'/', ..] => is_visible(value) && memchr::memchr(b'#', value).is_none(),
        _ => value == b"*",
    }
}

/// Three digits, not below 100.
fn is_status(value: &[u8]) -> bool {
    matches!(value, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn bad(name: &str, value: &str, defect: Defect) {
        assert_eq!(
            Verdict::for_field(name.as_bytes(), value.as_bytes()),
            Verdict::Bad(defect),
            "{name}: {value:?}"
        );
    }

    #[test]
    fn rfc9113_8_2_1_names_are_lower_case_tokens() {
        for name in ["", "A", "aB", "a b", "a:", "a\r", "a\0", "\u{e9}", "a\u{7f}", "a/b"] {
            bad(name, "x", Defect::FieldName);
        }
        assert_eq!(Verdict::for_field(b"x-a_b.c~1", b"x"), Verdict::Regular);
        for byte in 0..=255u8 {
            let is_name = is_token(&[byte]) && !byte.is_ascii_uppercase();
            assert_eq!(Verdict::for_name(&[byte]) == Verdict::Regular, is_name, "{byte:#x}");
        }
    }

    #[test]
    fn rfc9113_8_2_1_values_have_no_controls_and_no_blanks_at_the_ends() {
        for value in ["a\0", "\r", "a\nb", "\n", " a", "a ", "\ta", "a\t", "\u{1}", "\u{7f}", " "] {
            bad("x", value, Defect::FieldValue);
            bad("cookie", value, Defect::FieldValue);
        }
        for value in ["", "a", "a b", "a\tb", "\u{e9}"] {
            assert_eq!(Verdict::for_field(b"x", value.as_bytes()), Verdict::Regular, "{value:?}");
        }
    }

    #[test]
    fn rfc9113_8_2_2_fields_of_a_connection_are_refused() {
        for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
            bad(name, "x", Defect::ConnectionField);
        }
        for value in ["", "gzip", "trailers, gzip", "Trailers"] {
            bad("te", value, Defect::Te);
        }
        assert_eq!(Verdict::for_field(b"te", b"trailers"), Verdict::Regular);
    }

    #[test]
    fn rfc9113_8_3_pseudo_header_fields_have_valid_values_or_are_unknown() {
        for name in [":", ":x", ":Method", ":path ", ":host"] {
            bad(name, "x", Defect::PseudoUnknown);
        }
        for path in ["", "a", "//\u{e9}", "/a b", "/a#b", "/\0", "http://a/", "**", "/a\r\nb"] {
            bad(":path", path, Defect::Path);
        }
        for authority in ["", "u@a", "a b", "a/b", "a:x", "a\r\nb"] {
            bad(":authority", authority, Defect::Authority);
        }
        for status in ["", "99", "1000", "20x", "099", "+20"] {
            bad(":status", status, Defect::Status);
        }
        bad(":method", "G T", Defect::Method);
        bad(":method", "", Defect::Method);
        bad(":scheme", "", Defect::Scheme);
        bad(":scheme", "1a", Defect::Scheme);
        bad(":protocol", "a b", Defect::Protocol);
        assert_eq!(Verdict::for_field(b":path", b"/a?b"), Verdict::Path);
        assert_eq!(Verdict::for_field(b":path", b"*"), Verdict::Path);
    }

    #[test]
    fn rfc9110_8_6_a_length_is_one_number() {
        for value in ["", "+1", "1,1", "-1", "1 ", "0x1", "18446744073709551616"] {
            bad("content-length", value, Defect::ContentLength);
        }
        assert_eq!(parse_length(b"18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn a_verdict_is_one_byte() {
        assert_eq!(size_of::<Verdict>(), 1);
    }
}
