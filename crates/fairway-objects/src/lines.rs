//! The lines of a document's fields, by their paths. Written once and seldom read, so that it is kept small: each path as what
//! it has in common with the one before it, and the rest.

use std::collections::BTreeMap;

/// The lines of fields, by their paths in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines(Box<[u8]>);

/// The number of bytes in common with the path before, the length of the rest, and the line.
const HEAD: usize = 1 + 2 + 4;

impl Lines {
    /// The lines of these paths.
    #[must_use]
    pub fn of(lines: &BTreeMap<String, u32>) -> Self {
        let (mut bytes, mut before) = (Vec::new(), "");
        for (path, line) in lines {
            let shared = u8::try_from(common(before.as_bytes(), path.as_bytes())).unwrap_or(u8::MAX);
            let rest = &path.as_bytes()[usize::from(shared)..];
            // A path that is longer has the line of what holds it.
            let Ok(length) = u16::try_from(rest.len()) else { continue };
            bytes.push(shared);
            bytes.extend(length.to_le_bytes());
            bytes.extend(line.to_le_bytes());
            bytes.extend(rest);
            before = path;
        }
        Self(bytes.into())
    }

    /// The line of exactly this path.
    #[must_use]
    pub fn of_path(&self, path: &str) -> Option<u32> {
        let path = path.as_bytes();
        // How many bytes the last path and the one that is looked for have in common.
        let (mut rest, mut matched) = (&*self.0, 0);
        while let Some((head, more)) = rest.split_first_chunk::<HEAD>() {
            let [shared, short, long, line @ ..] = *head;
            let (own, more) = more.split_at_checked(u16::from_le_bytes([short, long]).into())?;
            rest = more;
            let shared = usize::from(shared);
            if shared > matched {
                // It differs from what is looked for where the last one does.
                continue;
            }
            matched = shared + common(own, &path[shared..]);
            if matched == path.len() && matched == shared + own.len() {
                return Some(u32::from_le_bytes(line));
            }
        }
        None
    }
}

/// How many bytes two texts begin with in common.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
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
        let lines = Lines::of(&known);
        for (path, line) in &known {
            assert_eq!(lines.of_path(path), Some(*line), "{path}");
        }
        for other in ["abcd", "c", "met", "metadata.names", "spec.rules[0].http", "spec.rules[2]", "z"] {
            assert_eq!(lines.of_path(other), None, "{other}");
        }
        assert!(lines.0.len() < 3 * known.keys().map(String::len).sum::<usize>() / 4);
        assert_eq!(Lines::of(&BTreeMap::new()).of_path("a"), None);
    }
}
