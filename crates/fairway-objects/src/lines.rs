//! The lines of a document's fields, by their paths. Written once and seldom read, so it is kept small: only fields with
//! another line than the field around them, each path as what it has in common with the one before it, and the rest.

use std::collections::BTreeMap;

/// The lines of fields, by their paths in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines(Box<[u8]>);

impl Lines {
    /// The lines of these paths in a document that begins in line `document`; `None` where all of it is one line.
    #[must_use]
    pub fn of(lines: &BTreeMap<String, u32>, document: u32) -> Option<Self> {
        let mut kept = BTreeMap::<&str, u32>::new();
        let (mut bytes, mut before, mut line_before) = (Vec::new(), "", 0);
        for (path, line) in lines {
            let inherited = nearest(around(path), |path| kept.get(path).copied()).unwrap_or(document);
            let shared = u8::try_from(common(before.as_bytes(), path.as_bytes())).unwrap_or(u8::MAX);
            let rest = &path.as_bytes()[usize::from(shared)..];
            // What is left out has the line of what holds it.
            let Ok(length) = u32::try_from(rest.len()) else { continue };
            if *line == inherited {
                continue;
            }
            bytes.push(shared);
            put(&mut bytes, length);
            put(&mut bytes, difference(line_before, *line));
            bytes.extend(rest);
            before = path;
            line_before = *line;
            kept.insert(path, *line);
        }
        (!bytes.is_empty()).then(|| Self(bytes.into()))
    }

    /// The line of a path, or of the nearest one around it that has a line; `None` where that is the document.
    #[must_use]
    pub fn nearest(&self, path: &str) -> Option<u32> {
        nearest(path, |path| self.of_path(path))
    }

    /// The line of exactly this path.
    fn of_path(&self, path: &str) -> Option<u32> {
        let path = path.as_bytes();
        // How many bytes the last path and the one that is looked for have in common.
        let (mut rest, mut matched, mut line) = (&*self.0, 0, 0);
        while let Some((shared, more)) = rest.split_first() {
            rest = more;
            let length = take(&mut rest)? as usize;
            line = follow(line, take(&mut rest)?);
            let (own, more) = rest.split_at_checked(length)?;
            rest = more;
            let shared = usize::from(*shared);
            if shared > matched {
                // It differs from what is looked for where the last one does.
                continue;
            }
            matched = shared + common(own, &path[shared..]);
            if matched == path.len() && matched == shared + own.len() {
                return Some(line);
            }
        }
        None
    }
}

/// The line of a path, or of the nearest one around it that is known.
fn nearest(mut path: &str, known: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    while !path.is_empty() {
        if let Some(line) = known(path) {
            return Some(line);
        }
        path = around(path);
    }
    None
}

/// The path of the field that holds the one at `path`; empty for the document.
fn around(path: &str) -> &str {
    if let Some(inner) = path.strip_suffix("\"]") {
        return inner.rfind("[\"").map_or("", |at| &path[..at]);
    }
    path.rfind(['.', '[']).map_or("", |at| &path[..at])
}

/// How many bytes two texts begin with in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// From one line to the next, small whichever comes first.
fn difference(from: u32, to: u32) -> u32 {
    let difference = to.wrapping_sub(from).cast_signed();
    ((difference << 1) ^ (difference >> 31)).cast_unsigned()
}

/// The line that is so far from another one.
fn follow(from: u32, difference: u32) -> u32 {
    let sign = (difference & 1).wrapping_neg();
    from.wrapping_add((difference >> 1) ^ sign)
}

/// Appends a number: seven bits a byte, the lowest first, and the highest bit where more follow.
fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front.
fn take(from: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..u32::BITS).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
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
        let long = "metadata.annotations[\"".to_owned() + &"x".repeat(300);
        let paths = [
            "a",
            "ab",
            "abc",
            "b",
            "metadata",
            "metadata.name",
            &long,
            &(long.clone() + "y"),
            &(long.clone() + "z"),
            "spec.rules[0]",
            "spec.rules[0].http.paths[0]",
            "spec.rules[0].http.paths[10]",
            "spec.rules[0].http.paths[1]",
            "spec.rules[1]",
            "",
        ];
        let known: BTreeMap<String, u32> =
            paths.iter().zip(1..).map(|(path, line)| ((*path).to_owned(), line)).collect();
        let lines = Lines::of(&known, 0).expect("there are lines");
        for (path, line) in &known {
            assert_eq!(lines.of_path(path), Some(*line), "{path}");
        }
        for other in ["abcd", "c", "met", "metadata.names", "spec.rules[0].http", "spec.rules[2]", "z"] {
            assert_eq!(lines.of_path(other), None, "{other}");
        }
        assert!(lines.0.len() < 3 * known.keys().map(String::len).sum::<usize>() / 4);
    }

    #[test]
    fn a_field_in_the_line_of_what_holds_it_is_left_out_and_found_all_the_same() {
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
        let known: BTreeMap<String, u32> = paths.map(|(path, line)| (path.to_owned(), line)).into();
        let lines = Lines::of(&known, 2).expect("there are lines");
        let found = |path: &str| lines.nearest(path).unwrap_or(2);
        for (path, line) in paths {
            assert_eq!(found(path), line, "{path}");
        }
        let kept = paths.iter().filter(|(path, _)| lines.of_path(path).is_some()).count();
        assert_eq!(kept, 5);
        assert_eq!((found("spec.rules[0].http.paths[3].backend"), found("status")), (2, 2));
        let one_line: BTreeMap<String, u32> = paths.map(|(path, _)| (path.to_owned(), 7)).into();
        assert_eq!(Lines::of(&one_line, 7), None);
        assert_eq!(Lines::of(&BTreeMap::new(), 1), None);
    }

    #[test]
    fn a_line_is_found_from_the_one_before_it_wherever_both_are() {
        for (from, to) in [(0, 0), (1, 2), (2, 1), (0, u32::MAX), (u32::MAX, 0), (7, 1 << 31), (1 << 31, 7)] {
            let mut bytes = Vec::new();
            put(&mut bytes, difference(from, to));
            let mut rest = &*bytes;
            assert_eq!(take(&mut rest).map(|it| follow(from, it)), Some(to), "{from} {to}");
            assert!(rest.is_empty());
        }
        assert_eq!(take(&mut &[0x80; 9][..]), None);
        assert_eq!(take(&mut &[][..]), None);
    }
}
