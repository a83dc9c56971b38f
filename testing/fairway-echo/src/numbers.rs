//! Which numbered requests arrived, and how often: the proof that nothing was delivered twice. Never judges.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use http::Method;
use serde::Serialize;

/// The request field that carries the number, any text.
pub const NUMBER_FIELD: &str = "x-request-number";

/// The numbers of all requests.
pub(crate) struct Numbers {
    counts: Mutex<HashMap<String, u32>>,
    file: Option<File>,
}

/// What `/seen` answers.
#[derive(Debug, Serialize)]
pub(crate) struct Seen {
    /// Numbered requests.
    requests: u64,
    /// Different pairs of method and number.
    distinct: usize,
    /// `METHOD NUMBER` of what came more than once, with how often.
    duplicates: BTreeMap<String, u32>,
    /// Everything, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<BTreeMap<String, u32>>,
}

impl Numbers {
    /// Counts in memory, and appends to `file` when there is one.
    pub(crate) fn new(file: Option<&Path>) -> io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { counts: Mutex::default(), file: file.map(open).transpose()? })
    }

    /// Notes a request whose head arrived.
    pub(crate) fn note(&self, method: &Method, number: &str) {
        let mut line = format!("{method} {number}");
        *self.counts.lock().expect("no holder of this lock panics").entry(line.clone()).or_default() += 1;
        if let Some(mut file) = self.file.as_ref() {
            line.push('\n');
            // One write of O_APPEND: lines of several processes do not mix.
            if let Err(error) = file.write_all(line.as_bytes()) {
                tracing::error!("the number {number} was not written: {error}");
            }
        }
    }

    /// What came, of one method or all.
    pub(crate) fn seen(&self, method: Option<&str>, all: bool) -> Seen {
        let counts = self.counts.lock().expect("no holder of this lock panics");
        let wanted = |line: &str| method.is_none_or(|method| line.split(' ').next() == Some(method));
        let of_interest = || counts.iter().filter(|(line, _)| wanted(line));
        let listed = |least: u32| {
            of_interest()
                .filter(|(_, count)| **count >= least)
                .map(|(line, count)| (line.clone(), *count))
                .collect()
        };
        Seen {
            requests: of_interest().map(|(_, count)| u64::from(*count)).sum(),
            distinct: of_interest().count(),
            duplicates: listed(2),
            all: all.then(|| listed(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_twice_is_named_and_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("numbers");
        let numbers = [Numbers::new(Some(&file)).unwrap(), Numbers::new(Some(&file)).unwrap()];
        numbers[0].note(&Method::POST, "1");
        numbers[1].note(&Method::GET, "1");
        numbers[0].note(&Method::POST, "2");
        numbers[0].note(&Method::POST, "1");
        let seen = numbers[0].seen(None, false);
        assert_eq!((seen.requests, seen.distinct), (3, 2));
        assert_eq!(seen.duplicates, [("POST 1".to_owned(), 2)].into());
        assert_eq!(numbers[0].seen(Some("GET"), true).all, Some(BTreeMap::new()));
        assert_eq!(std::fs::read_to_string(file).unwrap(), "POST 1\nGET 1\nPOST 2\nPOST 1\n");
    }
}
