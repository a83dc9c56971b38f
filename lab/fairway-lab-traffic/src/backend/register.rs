//! How often each request of the generator came to a backend, whichever it was. Its ids are numbers and cost a byte each;
//! what else calls itself an id is left out.

use std::collections::HashMap;

use crate::load::Id;

/// Numbers that are kept together.
const PAGE: u64 = 4_096;
/// Pages at most, together 256 MB; ids beyond are not kept.
const PAGES: usize = 65_536;
/// Ids that are named when they come again.
const NAMED: usize = 1_000;

/// What came to all backends of a run.
#[derive(Default)]
pub struct Register {
    pages: HashMap<(u64, u64, u64), Box<[u8]>>,
    seen: Seen,
}

/// The sums over everything that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests with an id.
    pub requests: u64,
    /// Those of them whose id was there before.
    pub again: u64,
    /// Ids that were not kept: a request that comes again is not known as such.
    pub forgotten: u64,
    /// The first ids that were seen again.
    pub duplicates: Vec<String>,
}

impl Register {
    /// A request with this id came to a backend.
    pub(super) fn note(&mut self, text: &[u8]) {
        let Some(id) = Id::parse(text) else { return };
        self.seen.requests += 1;
        if self.note_id(id) {
            self.seen.again += 1;
            if self.seen.duplicates.len() < NAMED {
                self.seen.duplicates.push(String::from_utf8_lossy(text).into_owned());
            }
        }
    }

    fn note_id(&mut self, id: Id) -> bool {
        let is_full = self.pages.len() >= PAGES;
        let place = (id.run, id.thread, id.number / PAGE);
        if is_full && !self.pages.contains_key(&place) {
            self.seen.forgotten += 1;
            return false;
        }
        let page = self.pages.entry(place).or_insert_with(|| vec![0; PAGE as usize].into_boxed_slice());
        let times = &mut page[(id.number % PAGE) as usize];
        *times = times.saturating_add(1);
        *times > 1
    }

    /// How often backends were given the request of an id; 255 stands for that and more.
    #[must_use]
    pub fn times(&self, id: Id) -> u8 {
        let page = self.pages.get(&(id.run, id.thread, id.number / PAGE));
        page.map_or(0, |page| page[(id.number % PAGE) as usize])
    }

    /// The sums over everything that came.
    pub(super) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// Forgets the ids of streams: nobody asks after them any more.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_counted_apart_by_run_thread_and_number() {
        let mut register = Register::default();
        for text in ["a-0-1", "a-0-1", "a-1-1", "b-0-1", "a-0-10001", "not an id"] {
            register.note(text.as_bytes());
        }
        let times = |text: &str| register.times(Id::parse(text.as_bytes()).expect("it is one"));
        assert_eq!(["a-0-1", "a-1-1", "b-0-1", "a-0-10001", "a-0-2", "c-0-1"].map(times), [2, 1, 1, 1, 0, 0]);
        let seen = register.seen();
        assert_eq!((seen.requests, seen.again, seen.forgotten), (5, 1, 0));
        assert_eq!(seen.duplicates, ["a-0-1"]);
    }

    #[test]
    fn what_was_forgotten_begins_anew() {
        let mut register = Register::default();
        register.note(b"a-0-1");
        register.forget();
        assert_eq!(register.times(Id { run: 10, thread: 0, number: 1 }), 0);
    }
}
