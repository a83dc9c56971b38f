//! Golden files. `UPDATE_GOLDEN=1` rewrites them with the actual output, for review in the commit's diff.

use std::fs;
use std::path::Path;

/// Fails unless `file` equals the actual output.
#[track_caller]
pub fn check(file: impl AsRef<Path>, found: &str) {
    if let Some(difference) = difference(file, found) {
        panic!("{difference}");
    }
}

/// The difference from `file`, for tests that compare many files before failing.
pub fn difference(file: impl AsRef<Path>, found: &str) -> Option<String> {
    let file = file.as_ref();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file, found).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return None;
    }
    let expected = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return Some(format!("{}: {error}; UPDATE_GOLDEN=1 writes it", file.display())),
    };
    first_difference(&expected, found)
        .map(|what| format!("{} differs: {what}\nUPDATE_GOLDEN=1 writes it anew", file.display()))
}

fn first_difference(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let (mut one, mut other) = (expected.split_inclusive('\n'), found.split_inclusive('\n'));
    let shown = |text: Option<&str>| text.map_or("the end".to_owned(), |text| format!("{text:?}"));
    (1..)
        .map(|line| (line, one.next(), other.next()))
        .find(|(_, one, other)| one != other)
        .map(|(line, one, other)| format!("line {line}\nexpected {}\nfound    {}", shown(one), shown(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        for (expected, found, what) in [
            ("a\nb\n", "a\nc\n", "line 2\nexpected \"b\\n\"\nfound    \"c\\n\""),
            ("a\n", "a\nb\n", "line 2\nexpected the end\nfound    \"b\\n\""),
            ("a\nb\n", "a\n", "line 2\nexpected \"b\\n\"\nfound    the end"),
            ("a\n", "a", "line 1\nexpected \"a\\n\"\nfound    \"a\""),
        ] {
            assert_eq!(first_difference(expected, found).as_deref(), Some(what), "{found:?}");
        }
    }

    #[test]
    fn a_missing_file_is_a_difference() {
        let folder = tempfile::tempdir().unwrap();
        assert!(difference(folder.path().join("none.txt"), "").unwrap().contains("none.txt: "));
    }
}
