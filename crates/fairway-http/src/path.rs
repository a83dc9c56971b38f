//! Path normalisation for routing (RFC 3986 §6.2.2): the form for Gateway API routes ([`normalise`]) and the form of
//! nginx ([`decode`]). The query is not included.

use crate::bytes::{escaped, is_unreserved, push_escape};
use crate::malformed::Malformed;
use crate::swar::any_pair;

/// Whether both forms of this path are the path itself: no escapes, no empty segments, no dot segments.
///
/// May return `false` for a plain path that looks like one with them (`/.well-known`).
#[inline]
pub fn is_plain(path: &[u8]) -> bool {
    let [b'/', ..] = path else { return path == b"*" };
    let dirty = any_pair(path, |before, bytes| {
        let segment = before.are(b'/') & (bytes.are(b'/') | bytes.are(b'.'));
        bytes.invisible() | bytes.are(b'%') | segment
    });
    !dirty
}

/// Appends the normalised form: escaped unreserved bytes are decoded, other escapes get upper-case digits (RFC 3986
/// §6.2.2.1, §6.2.2.2), dot segments are removed (§5.2.4), empty segments are merged.
///
/// `%2F` stays escaped, so it never separates segments.
pub fn normalise(path: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    resolve(path, out, |byte, out| if is_unreserved(byte) { out.push(byte) } else { push_escape(byte, out) })
}

/// Appends the normalised form for a rule that matched the decoded form. Escaped slashes stay, unless one of them was
/// involved in resolving segments: then all are decoded. So decoding the result gives the path that was matched.
pub fn normalise_as_decoded(path: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    normalise(path, out)?;
    if !path.windows(3).any(|three| three.eq_ignore_ascii_case(ESCAPED_SLASH)) {
        return Ok(());
    }
    let mut resolved = Vec::new();
    resolve(path, &mut resolved, |byte, out| match byte {
        b'/' => out.push(byte),
        _ if is_unreserved(byte) => out.push(byte),
        _ => push_escape(byte, out),
    })?;
    if !differs_in_slashes_only(&out[start..], &resolved) {
        out.truncate(start);
        out.append(&mut resolved);
    }
    Ok(())
}

/// In normalised form.
const ESCAPED_SLASH: &[u8] = b"%2F";

/// Whether decoding the escaped slashes of one text gives the other.
fn differs_in_slashes_only(mut escaped: &[u8], decoded: &[u8]) -> bool {
    let all = decoded.iter().all(|byte| {
        let rest = match byte {
            b'/' => escaped.strip_prefix(ESCAPED_SLASH).or_else(|| escaped.strip_prefix(b"/")),
            byte => escaped.strip_prefix(std::slice::from_ref(byte)),
        };
        rest.inspect(|rest| escaped = rest).is_some()
    });
    all && escaped.is_empty()
}

/// Appends the form of nginx: all escapes are decoded, including `%2F`, and then empty and dot segments are resolved.
pub fn decode(path: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    resolve(path, out, |byte, out| out.push(byte))
}

/// Appends the path, calling `unescape` for each escaped byte and resolving segments as they end.
fn resolve(path: &[u8], out: &mut Vec<u8>, unescape: impl Fn(u8, &mut Vec<u8>)) -> Result<(), Malformed> {
    let root = out.len();
    let [b'/', rest @ ..] = path else {
        out.extend_from_slice(path);
        return if path == b"*" { Ok(()) } else { Err(Malformed::TargetInvalid) };
    };
    out.push(b'/');
    let mut rest = rest;
    let mut segment = out.len();
    while let [byte, after @ ..] = rest {
        rest = after;
        match *byte {
            b'%' => {
                let byte = escaped(rest.first(), rest.get(1)).ok_or(Malformed::PathEscape)?;
                if byte == 0 {
                    return Err(Malformed::PathNul);
                }
                rest = &rest[2..];
                unescape(byte, out);
            }
            byte if byte.is_ascii_graphic() => out.push(byte),
            _ => return Err(Malformed::PathByte),
        }
        if out.last() == Some(&b'/') {
            out.pop();
            segment = end_segment(root, segment, true, out)?;
        }
    }
    end_segment(root, segment, false, out).map(drop)
}

/// Resolves the segment that begins at `segment`. Returns where the next one begins. The output before it ends with a
/// slash.
#[inline]
fn end_segment(root: usize, segment: usize, slash: bool, out: &mut Vec<u8>) -> Result<usize, Malformed> {
    match &out[segment..] {
        b"" | b"." => out.truncate(segment),
        b".." => {
            let parent = &out[root..segment - 1];
            let slash = memchr::memrchr(b'/', parent).ok_or(Malformed::PathAboveRoot)?;
            out.truncate(root + slash + 1);
        }
        _ if slash => out.push(b'/'),
        _ => {}
    }
    Ok(out.len())
}

#[cfg(test)]
mod tests;
