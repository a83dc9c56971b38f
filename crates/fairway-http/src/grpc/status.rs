//! gRPC status codes.

/// A gRPC status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are explained by gRPC's own statuscodes.md")]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Code {
    /// The code for an HTTP response without a gRPC status (http-grpc-status-mapping.md).
    #[must_use]
    pub fn of_http(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// The number in `grpc-status`.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// The name of a code; `OTHER` for unknown numbers.
    #[must_use]
    pub fn name_of(number: u32) -> &'static str {
        usize::try_from(number).ok().and_then(|number| NAMES.get(number)).unwrap_or(&"OTHER")
    }
}

/// Parses the value of `grpc-status`.
#[must_use]
pub fn read_status(value: &[u8]) -> Option<u32> {
    let is_number = (1..=9).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| value.iter().fold(0, |number, digit| 10 * number + u32::from(digit - b'0')))
}

/// Appends a `grpc-message` value: printable ASCII as it is, everything else as `%XX`.
pub fn write_message(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_is_that_of_the_specification() {
        for status in 100..600 {
            let expected = match status {
                400 => 13,
                401 => 16,
                403 => 7,
                404 => 12,
                429 | 502 | 503 | 504 => 14,
                _ => 2,
            };
            assert_eq!(Code::of_http(status).number(), expected, "{status}");
        }
    }

    #[test]
    fn names_and_numbers_belong_together() {
        assert_eq!(Code::name_of(Code::Ok.number()), "OK");
        assert_eq!(Code::name_of(Code::DeadlineExceeded.number()), "DEADLINE_EXCEEDED");
        assert_eq!(Code::name_of(Code::Unauthenticated.number()), "UNAUTHENTICATED");
        assert_eq!(Code::name_of(17), "OTHER");
    }

    #[test]
    fn statuses_are_numbers_and_nothing_else() {
        assert_eq!(
            [read_status(b"0"), read_status(b"16"), read_status(b"999999999")],
            [Some(0), Some(16), Some(999_999_999)]
        );
        for value in ["", "-1", "OK", "1 ", "9999999999"] {
            assert_eq!(read_status(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn messages_are_percent_encoded() {
        let encoded = |text: &str| {
            let mut out = Vec::new();
            write_message(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(encoded("plain ~ text"), "plain ~ text");
        assert_eq!(encoded("100%\r\n\u{e4}\u{7f}"), "100%25%0D%0A%C3%A4%7F");
    }
}
