//! How often each request of the generator came to a backend, whichever it was. Its ids are numbers and cost a byte each;
//! what else calls itself an id is left out.

use std::collections::HashMap;

use crate::load::Id;

/// Numbers that are kept of a thread at most, in 256 MB.
const NUMBERS: u64 = 1 << 28;

/// What came to all backends of a run.
#[derive(Default)]
pub struct Register {
    /// By run and thread: how often each number came.
    times: HashMap<(u64, u64), Vec<u8>>,
    seen: Seen,
}

/// The sums over everything that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests with an id.
    pub requests: u64,
    /// Those of them whose id was there before.
    pub again: u64,
}

impl Register {
    /// A request with this id came to a backend.
    pub(super) fn note(&mut self, text: &[u8]) {
        let Some(id) = Id::parse(text).filter(|id| id.number < NUMBERS) else { return };
        let (numbers, place) = (self.times.entry((id.run, id.thread)).or_default(), id.number as usize);
        if numbers.len() <= place {
            numbers.resize(place + 1, 0);
        }
        self.seen.requests += 1;
        self.seen.again += u64::from(numbers[place] > 0);
        numbers[place] = numbers[place].saturating_add(1);
    }

    /// How often backends were given the request of an id; 255 stands for that and more.
    #[must_use]
    pub fn times(&self, id: Id) -> u8 {
        let numbers = self.times.get(&(id.run, id.thread));
        numbers.and_then(|numbers| numbers.get(id.number as usize)).copied().unwrap_or(0)
    }

    /// The sums over everything that came.
    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// Forgets the ids of streams: nobody asks after them any more.
    pub(super) fn forget(&mut self) {
        self.times.clear();
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
        assert_eq!(register.seen(), Seen { requests: 5, again: 1 });
        register.forget();
        assert_eq!(register.times(Id { run: 10, thread: 0, number: 1 }), 0);
    }
}
