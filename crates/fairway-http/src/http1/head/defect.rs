//! Finds the rule that a refused head breaks. Off the hot path: the head is scanned a second time, line by line, after
//! the decision to refuse it.

use httparse::Error;
use memchr::memchr;

use crate::Malformed;
use crate::bytes::{is_token, is_value_byte};

/// The rule that this request head breaks.
#[cold]
pub(super) fn of_request(text: &[u8], error: Error) -> Malformed {
    match error {
        Error::TooManyHeaders => Malformed::TooManyFields,
        Error::HeaderName | Error::HeaderValue | Error::NewLine => {
            of_lines(text).unwrap_or(Malformed::RequestLine)
        }
        _ => of_request_line(first_line(text)),
    }
}

/// The rule that this response head breaks.
#[cold]
pub(super) fn of_response(text: &[u8], error: Error) -> Malformed {
    match error {
        Error::TooManyHeaders => Malformed::TooManyFields,
        Error::HeaderName | Error::HeaderValue | Error::NewLine => {
            of_lines(text).unwrap_or(Malformed::StatusLine)
        }
        Error::Version if names_version(text) => Malformed::UnsupportedVersion,
        _ => Malformed::StatusLine,
    }
}

fn first_line(text: &[u8]) -> &[u8] {
    let line = &text[..memchr(b'\n', text).unwrap_or(text.len())];
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn of_request_line(line: &[u8]) -> Malformed {
    if line.contains(&0) {
        return Malformed::Nul;
    }
    let mut parts = line.split(|&byte| byte == b' ');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(method), _, _, _) if !is_token(method) => Malformed::RequestLine,
        (_, Some(target), Some(_), None) if !target.is_ascii() => Malformed::TargetInvalid,
        (_, Some(target), Some(version), None) if !target.is_empty() && names_version(version) => {
            Malformed::UnsupportedVersion
        }
        _ => Malformed::RequestLine,
    }
}

/// A valid `HTTP-version = HTTP-name "/" DIGIT "." DIGIT` (RFC 9112 §2.3) other than 1.0 and 1.1.
fn names_version(text: &[u8]) -> bool {
    match text {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, ..] => {
            major.is_ascii_digit() && minor.is_ascii_digit() && !matches!((major, minor), (b'1', b'0' | b'1'))
        }
        _ => false,
    }
}

/// The first defect of a line end or a field line.
fn of_lines(text: &[u8]) -> Option<Malformed> {
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    lines
        .next()
        .and_then(of_line_end)
        .or_else(|| lines.find_map(|line| of_line_end(line).or_else(|| of_field(line))))
}

fn of_line_end(line: &[u8]) -> Option<Malformed> {
    let (body, ended) = match line {
        [body @ .., b'\r', b'\n'] => (body, true),
        [_, b'\n'] | [.., b'\n'] => return Some(Malformed::BareLineFeed),
        // The CR of an unfinished line may still get its LF.
        [body @ .., b'\r'] => (body, false),
        body => (body, false),
    };
    if body.contains(&b'\r') {
        return Some(Malformed::BareCarriageReturn);
    }
    (ended || !body.is_empty()).then_some(body).filter(|body| body.contains(&0)).map(|_| Malformed::Nul)
}

fn of_field(line: &[u8]) -> Option<Malformed> {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    match line {
        [] => return None,
        [b' ' | b'\t', ..] => return Some(Malformed::ObsFold),
        [b':', ..] => return Some(Malformed::EmptyFieldName),
        _ => {}
    }
    let (name, value) = line.split_at(memchr(b':', line).unwrap_or(line.len()));
    match name {
        [.., b' ' | b'\t'] if !value.is_empty() => Some(Malformed::SpaceBeforeColon),
        name if !is_token(name) || value.is_empty() => Some(Malformed::FieldName),
        _ if !value.iter().all(|&byte| is_value_byte(byte) || byte == b'\r') => Some(Malformed::FieldValue),
        _ => None,
    }
}
