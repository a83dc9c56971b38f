//! The line numbers of a document's fields, by path. They are only read for diagnostics, so the encoding favours a
//! small size over fast lookups.

use std::collections::BTreeMap;

/// The line numbers of the fields that are on another line than their parent field; all others have the line of their
/// parent.
///
/// The bytes are a sequence of records, ordered by path. Paths share prefixes with their predecessors, and lines are
/// close to those of their predecessors, so each record only has the differences from the previous one:
///
/// | part | encoding |
/// | --- | --- |
/// | prefix length | one byte: how many bytes the path shares with the previous path, at most 255 |
/// | suffix length | a number: how many bytes of the path follow the prefix |
/// | line | a number: the zigzag-encoded difference from the previous record's line, or from 0 in the first record |
/// | suffix | the bytes of the path after the prefix |
///
/// A number has seven bits per byte, low bits first (LEB128).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLines(Box<[u8]>);

impl FieldLines {
    /// Encodes the line of each path. The fields of the document's root inherit `document_line`, the line where the
    /// document starts. `None` if all paths are on that line.
    #[must_use]
    pub fn from_lines(lines: &BTreeMap<String, u32>, document_line: u32) -> Option<Self> {
        let mut encoded = BTreeMap::<&str, u32>::new();
        let (mut bytes, mut previous_path, mut previous_line) = (Vec::new(), "", 0);
        for (path, line) in lines {
            let inherited_line = nearest_line(parent_path(path), |ancestor| encoded.get(ancestor).copied());
            if *line == inherited_line.unwrap_or(document_line) {
                continue;
            }
            let prefix_len = common_prefix_len(previous_path.as_bytes(), path.as_bytes());
            let prefix_len = u8::try_from(prefix_len).unwrap_or(u8::MAX);
            let suffix = &path.as_bytes()[usize::from(prefix_len)..];
            // A path of 4 GiB cannot be encoded; its field gets the line of its parent.
            let Ok(suffix_len) = u32::try_from(suffix.len()) else { continue };
            bytes.push(prefix_len);
            write_number(&mut bytes, suffix_len);
            write_number(&mut bytes, encode_difference(previous_line, *line));
            bytes.extend(suffix);
            previous_path = path;
            previous_line = *line;
            encoded.insert(path, *line);
        }
        (!bytes.is_empty()).then(|| Self(bytes.into()))
    }

    /// The line of a path: its own or that of its nearest ancestor with a record. `None` if it has the line of the
    /// document.
    #[must_use]
    pub fn nearest(&self, path: &str) -> Option<u32> {
        nearest_line(path, |candidate| self.exact_line(candidate))
    }

    /// The line in the record of exactly this path.
    ///
    /// Compares without decoding the paths: `matched_len` is how many bytes the current record's path shares with the
    /// wanted one, and follows from its prefix length and suffix.
    fn exact_line(&self, path: &str) -> Option<u32> {
        let target = path.as_bytes();
        let (mut unread, mut matched_len, mut line) = (&*self.0, 0, 0);
        while let Some((prefix_len, after_prefix_len)) = unread.split_first() {
            unread = after_prefix_len;
            let suffix_len = read_number(&mut unread)? as usize;
            line = apply_difference(line, read_number(&mut unread)?);
            let (suffix, next_record) = unread.split_at_checked(suffix_len)?;
            unread = next_record;
            let prefix_len = usize::from(*prefix_len);
            if prefix_len > matched_len {
                // The prefix includes the byte in which the previous path differs from the wanted one, so this path
                // differs in the same byte and `matched_len` stays.
                continue;
            }
            matched_len = prefix_len + common_prefix_len(suffix, &target[prefix_len..]);
            if matched_len == target.len() && matched_len == prefix_len + suffix.len() {
                return Some(line);
            }
        }
        None
    }
}

/// The line of a path or of its nearest ancestor for which `find_line` returns one.
fn nearest_line(mut path: &str, find_line: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    while !path.is_empty() {
        if let Some(line) = find_line(path) {
            return Some(line);
        }
        path = parent_path(path);
    }
    None
}

/// The path of the parent field; empty for a field of the document's root. A path is like `spec.rules[0].host` or
/// `metadata.annotations["a.b/c"]`; dots in a quoted key do not separate fields.
fn parent_path(path: &str) -> &str {
    if let Some(inner) = path.strip_suffix("\"]") {
        return inner.rfind("[\"").map_or("", |at| &path[..at]);
    }
    path.rfind(['.', '[']).map_or("", |at| &path[..at])
}

/// The length in bytes of the common prefix of two texts.
fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The difference of two lines in zigzag encoding: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..., so that a small step
/// back is also a small number.
fn encode_difference(from: u32, to: u32) -> u32 {
    let difference = to.wrapping_sub(from).cast_signed();
    ((difference << 1) ^ (difference >> 31)).cast_unsigned()
}

/// The line at a zigzag-encoded difference from another line.
fn apply_difference(from: u32, difference: u32) -> u32 {
    let sign = (difference & 1).wrapping_neg();
    from.wrapping_add((difference >> 1) ^ sign)
}

/// Appends a number: seven bits per byte, low bits first. The high bit of a byte says that more bytes follow.
fn write_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number and advances `unread` past it. `None` if it is truncated or longer than a `u32`.
fn read_number(unread: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..u32::BITS).step_by(7) {
        let (byte, next) = unread.split_first()?;
        *unread = next;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_line_and_others_have_none() {
        let long_path = "metadata.annotations[\"".to_owned() + &"x".repeat(300);
        let paths = [
            "a",
            "ab",
            "abc",
            "b",
            "metadata",
            "metadata.name",
            &long_path,
            &(long_path.clone() + "y"),
            &(long_path.clone() + "z"),
            "spec.rules[0]",
            "spec.rules[0].http.paths[0]",
            "spec.rules[0].http.paths[10]",
            "spec.rules[0].http.paths[1]",
            "spec.rules[1]",
            "",
        ];
        let line_by_path: BTreeMap<String, u32> =
            paths.iter().zip(1..).map(|(path, line)| ((*path).to_owned(), line)).collect();
        let lines =
            FieldLines::from_lines(&line_by_path, 0).expect("fields on other lines than the document");
        for (path, line) in &line_by_path {
            assert_eq!(lines.exact_line(path), Some(*line), "{path}");
        }
        for other in ["abcd", "c", "met", "metadata.names", "spec.rules[0].http", "spec.rules[2]", "z"] {
            assert_eq!(lines.exact_line(other), None, "{other}");
        }
        let path_bytes = line_by_path.keys().map(String::len).sum::<usize>();
        assert!(
            lines.0.len() < path_bytes * 3 / 4,
            "shared prefixes save at least a quarter of the paths' bytes"
        );
    }

    #[test]
    fn a_field_on_the_line_of_its_parent_is_omitted_and_still_found() {
        let paths = [
            ("metadata", 3),
            ("metadata.annotations", 4),
            ("metadata.annotations[\"a.b/c\"]", 4),
            ("spec", 2),
            ("spec.rules", 2),
            ("spec.rules[0]", 9),
            ("spec.rules[0].host", 9),
            ("spec.rules[0].http", 100_000),
            ("spec.rules[0].http.paths", 2),
        ];
        let line_by_path: BTreeMap<String, u32> = paths.map(|(path, line)| (path.to_owned(), line)).into();
        let lines =
            FieldLines::from_lines(&line_by_path, 2).expect("fields on other lines than the document");
        let found_line = |path: &str| lines.nearest(path).unwrap_or(2);
        for (path, line) in paths {
            assert_eq!(found_line(path), line, "{path}");
        }
        let encoded = paths.iter().filter(|(path, _)| lines.exact_line(path).is_some()).count();
        assert_eq!(encoded, 5, "the fields on another line than their parent");
        assert_eq!((found_line("spec.rules[0].http.paths[3].backend"), found_line("status")), (2, 2));
        let one_line: BTreeMap<String, u32> = paths.map(|(path, _)| (path.to_owned(), 7)).into();
        assert_eq!(FieldLines::from_lines(&one_line, 7), None);
        assert_eq!(FieldLines::from_lines(&BTreeMap::new(), 1), None);
    }

    #[test]
    fn a_line_is_decoded_from_its_predecessor() {
        for (from, to) in [(0, 0), (1, 2), (2, 1), (0, u32::MAX), (u32::MAX, 0), (7, 1 << 31), (1 << 31, 7)] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, encode_difference(from, to));
            let mut unread = &*bytes;
            let decoded = read_number(&mut unread).map(|difference| apply_difference(from, difference));
            assert_eq!(decoded, Some(to), "the line after {from}");
            assert!(unread.is_empty(), "the number ends with its last byte");
        }
        assert_eq!(read_number(&mut &[0x80; 9][..]), None, "too long for a u32");
        assert_eq!(read_number(&mut &[][..]), None, "truncated");
    }
}
