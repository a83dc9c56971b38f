//! Counts how often each request of the generator arrived at any backend. Its ids are numbers and cost a byte each; other
//! ids are ignored.

use std::collections::HashMap;

use crate::load::Id;

/// Maximum number of ids per thread, in 256 MB.
const NUMBERS: u64 = 1 << 28;

/// The requests received by all backends of a run.
#[derive(Default)]
pub struct Register {
    /// How often each request number arrived, by run and thread.
    times: HashMap<(u64, u64), Vec<u8>>,
    totals: ReceivedTotals,
}

/// Totals over all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedTotals {
    /// Requests with an id.
    pub requests: u64,
    /// Requests whose id was received before.
    pub repeated: u64,
}

impl Register {
    /// Records a request with this id.
    pub(super) fn record_id(&mut self, text: &[u8]) {
        let Some(id) = Id::parse(text).filter(|id| id.number < NUMBERS) else { return };
        let (numbers, place) = (self.times.entry((id.run, id.thread)).or_default(), id.number as usize);
        if numbers.len() <= place {
            numbers.resize(place + 1, 0);
        }
        self.totals.requests += 1;
        self.totals.repeated += u64::from(numbers[place] > 0);
        numbers[place] = numbers[place].saturating_add(1);
    }

    /// How often backends received the request with an id; 255 means that or more.
    #[must_use]
    pub fn times(&self, id: Id) -> u8 {
        let numbers = self.times.get(&(id.run, id.thread));
        numbers.and_then(|numbers| numbers.get(id.number as usize)).copied().unwrap_or(0)
    }

    /// Totals over all requests.
    pub(super) fn totals(&self) -> ReceivedTotals {
        self.totals
    }

    /// Forgets the ids of finished streams.
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
            register.record_id(text.as_bytes());
        }
        let times = |text: &str| register.times(Id::parse(text.as_bytes()).expect("it is one"));
        assert_eq!(["a-0-1", "a-1-1", "b-0-1", "a-0-10001", "a-0-2", "c-0-1"].map(times), [2, 1, 1, 1, 0, 0]);
        assert_eq!(register.totals(), ReceivedTotals { requests: 5, repeated: 1 });
        register.forget();
        assert_eq!(register.times(Id { run: 10, thread: 0, number: 1 }), 0);
    }
}
