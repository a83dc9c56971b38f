//! The backends' records: which numbered requests arrived, and how often. Reads files only.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde::Serialize;

/// Deliveries of numbered requests, counted over all backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deliveries {
    /// GETs that arrived at least once.
    pub gets: u64,
    /// Repeated deliveries of idempotent requests, which retries may cause.
    pub gets_again: u64,
    /// POSTs that arrived at least once.
    pub posts: u64,
    /// Repeated deliveries of POSTs, which must not happen.
    pub posts_again: u64,
    /// The numbers of some POSTs that arrived more than once.
    pub examples: Vec<u64>,
}

/// How many numbers are listed.
const MAX_EXAMPLES: usize = 20;

impl Deliveries {
    /// Reads the file that the backends share.
    pub fn read(file: &Path) -> io::Result<Self> {
        Self::from_lines(&std::fs::read_to_string(file)?)
    }

    fn from_lines(lines: &str) -> io::Result<Self> {
        let mut counts: HashMap<(&str, u64), u64> = HashMap::new();
        for line in lines.lines() {
            let request =
                line.split_once(' ').and_then(|(method, number)| Some((method, number.parse().ok()?)));
            let request = request.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("not a delivery: {line:?}"))
            })?;
            *counts.entry(request).or_default() += 1;
        }
        let mut found = Self::default();
        for ((method, number), count) in counts {
            if method == "POST" {
                found.posts += 1;
                found.posts_again += count - 1;
                if count > 1 && found.examples.len() < MAX_EXAMPLES {
                    found.examples.push(number);
                }
            } else {
                found.gets += 1;
                found.gets_again += count - 1;
            }
        }
        found.examples.sort_unstable();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_duplicate_only_with_the_same_method() {
        let found = Deliveries::from_lines("POST 1\nGET 1\nGET 2\nGET 2\nPOST 3\nPOST 3\nPOST 3\n").unwrap();
        let expected = Deliveries { gets: 2, gets_again: 1, posts: 2, posts_again: 2, examples: vec![3] };
        assert_eq!(found, expected);
        assert!(Deliveries::from_lines("POST one").is_err());
    }
}
