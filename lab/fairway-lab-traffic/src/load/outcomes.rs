//! The outcome of each request with an id: one byte per number that says whether the response was as expected. Does not
//! know what backends received.

use std::collections::BTreeMap;

/// The id of a request, unique over runs, threads and requests. As text `<run>-<thread>-<number>`, hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The run of the stream.
    pub run: u64,
    /// The thread of the generator.
    pub thread: u64,
    /// The number within the thread, ascending, with gaps.
    pub number: u64,
}

impl Id {
    /// Parses an id; `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut words = text.split(|byte| *byte == b'-').map(hexadecimal);
        let id = Self { run: words.next()??, thread: words.next()??, number: words.next()?? };
        words.next().is_none().then_some(id)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:x}-{:x}-{:x}", self.run, self.thread, self.number)
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let is_short = (1..=16).contains(&digits.len());
    is_short.then_some(())?;
    digits.iter().try_fold(0, |sum, digit| Some(sum << 4 | u64::from(char::from(*digit).to_digit(16)?)))
}

/// Whether the request with this number is a POST. POSTs are a fraction of all requests and evenly spread.
pub(super) fn is_post(fraction: f64, number: u64) -> bool {
    fraction > 0.0
        && (number as f64 * fraction).floor() > (number.saturating_sub(1) as f64 * fraction).floor()
}

/// The outcomes of a stream's finished requests with an id.
#[derive(Clone)]
pub struct Fates {
    run: u64,
    posts: f64,
    /// The thread that records them.
    thread: u64,
    /// By thread and number: whether the response was as expected; `None` while it is outstanding.
    threads: BTreeMap<u64, Vec<Option<bool>>>,
}

/// A finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    /// Its id.
    pub id: Id,
    /// Whether it was a POST; all others use the plan's method.
    pub is_post: bool,
    /// Whether the response was as expected.
    pub is_answered: bool,
}

impl Fates {
    /// An empty record for a thread.
    pub(super) fn new(run: u64, thread: u64, posts: f64) -> Self {
        Self { run, posts, thread, threads: BTreeMap::new() }
    }

    /// Records the end of a request of this thread.
    pub(super) fn record(&mut self, number: u64, is_answered: bool) {
        self.store(self.thread, number, is_answered);
    }

    /// Adds the outcomes of another thread or another segment of the stream.
    pub(super) fn add(&mut self, other: &Self) {
        for one in other.finished_requests() {
            self.store(one.id.thread, one.id.number, one.is_answered);
        }
    }

    fn store(&mut self, thread: u64, number: u64, is_answered: bool) {
        let (numbers, place) = (self.threads.entry(thread).or_default(), number as usize);
        if numbers.len() <= place {
            numbers.resize(place + 1, None);
        }
        numbers[place] = Some(is_answered);
    }

    /// All finished requests, ordered by thread and number.
    pub fn finished_requests(&self) -> impl Iterator<Item = FinishedRequest> + '_ {
        self.threads.iter().flat_map(move |(thread, numbers)| {
            (0..).zip(numbers).filter_map(move |(number, is_answered)| {
                Some(FinishedRequest {
                    id: Id { run: self.run, thread: *thread, number },
                    is_post: is_post(self.posts, number),
                    is_answered: (*is_answered)?,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_other_texts_are_none() {
        let id = Id { run: 0xfeed, thread: 2, number: 0x1f };
        assert_eq!(Id::parse(id.to_string().as_bytes()), Some(id));
        for text in ["", "a", "a-b", "a-b-", "a-b-c-d", "x-1-2", "1-2-10000000000000000"] {
            assert_eq!(Id::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn outcomes_are_stored_in_any_order() {
        let mut fates = Fates::new(7, 1, 0.0);
        for (number, is_answered) in [(200, true), (3, false), (64, true), (129, false)] {
            fates.record(number, is_answered);
        }
        for (thread, number) in [(1, 201), (0, 3)] {
            let mut more = Fates::new(7, thread, 0.0);
            more.record(number, true);
            fates.add(&more);
        }
        let all: Vec<_> = fates
            .finished_requests()
            .map(|request| (request.id.thread, request.id.number, request.is_answered))
            .collect();
        assert_eq!(
            all,
            [(0, 3, true), (1, 3, false), (1, 64, true), (1, 129, false), (1, 200, true), (1, 201, true)]
        );
    }

    #[test]
    fn posts_are_the_configured_fraction() {
        for (fraction, count) in [(0.0, 0), (0.05, 50), (0.5, 500), (1.0, 1_000)] {
            let posts = (1..=1_000).filter(|number| is_post(fraction, *number)).count();
            assert_eq!(posts, count, "{fraction}");
        }
        assert!(!is_post(0.5, 0));
    }
}
