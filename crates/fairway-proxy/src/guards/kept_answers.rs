//! Answers of authentication services that hold for further requests, kept by each worker: bounded in number and bytes, the
//! oldest gives way. Never keeps what a request said, only a keyed hash of it, and nothing of an answer but what is used.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use fairway_http::Head;
use fairway_net::clock::Instant;

/// The most answers of a worker.
const MOST: usize = 4096;
/// The most bytes that they have together.
const MOST_BYTES: usize = 4 << 20;
/// The most memory of one, in bytes.
const LARGEST: usize = 8 << 10;

/// What requests have in common that get the same answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tag([u8; 32]);

/// The answers that a worker keeps. Nothing is made before the first is looked for.
#[derive(Default)]
pub(crate) struct KeptAnswers(RefCell<Option<Box<Table>>>);

struct Table {
    key: hmac::Key,
    answers: HashMap<Tag, Kept>,
    /// In the order of their arrival, with some that were replaced since.
    order: VecDeque<(Tag, u64)>,
    bytes: usize,
    arrivals: u64,
}

struct Kept {
    answer: Rc<Head>,
    until: Instant,
    bytes: usize,
    arrival: u64,
}

impl KeptAnswers {
    /// The tag of a request, of which these parts count.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut table = self.0.borrow_mut();
        let mut context = hmac::Context::with_key(&table.get_or_insert_with(Table::new).key);
        for part in parts {
            // With their lengths, no two lists of parts are the same bytes.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        Tag(tag)
    }

    /// The answer that is kept under a tag.
    pub(crate) fn find(&self, tag: &Tag) -> Option<Rc<Head>> {
        let table = self.0.borrow();
        let kept = table.as_ref()?.answers.get(tag)?;
        (Instant::now() < kept.until).then(|| Rc::clone(&kept.answer))
    }

    /// Keeps an answer for this long, unless it is too large.
    pub(crate) fn keep(&self, tag: Tag, answer: Head, time: Duration) {
        let bytes = size_of::<Kept>() + answer.kept_bytes();
        let until = Instant::now().checked_add(time);
        if let (Some(table), Some(until), true) = (&mut *self.0.borrow_mut(), until, bytes <= LARGEST) {
            table.make_room(bytes);
            table.arrivals += 1;
            let kept = Kept { answer: Rc::new(answer), until, bytes, arrival: table.arrivals };
            table.order.push_back((tag, table.arrivals));
            table.bytes += bytes;
            let before = table.answers.insert(tag, kept);
            table.bytes -= before.map_or(0, |before| before.bytes);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

impl Table {
    fn new() -> Box<Self> {
        let key = hmac::Key::generate(HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new())
            .expect("the system gives random bytes, without which there is no TLS either");
        Box::new(Self { key, answers: HashMap::new(), order: VecDeque::new(), bytes: 0, arrivals: 0 })
    }

    /// Lets the oldest go until one more of this size fits, and all that are over at the front.
    fn make_room(&mut self, bytes: usize) {
        let now = Instant::now();
        while let Some((tag, arrival)) = self.order.front().copied() {
            let kept = self.answers.get(&tag).filter(|kept| kept.arrival == arrival);
            let is_over = kept.is_none_or(|kept| kept.until <= now);
            if !is_over && self.order.len() < MOST && self.bytes + bytes <= MOST_BYTES {
                return;
            }
            if let Some(kept) = kept {
                self.bytes -= kept.bytes;
                self.answers.remove(&tag);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use super::*;

    fn answer(value: &str) -> Head {
        let mut head = Head::new();
        head.start_response(200);
        head.append(b"X-User", value.as_bytes());
        head
    }

    fn is_at_rest(kept: &KeptAnswers) -> bool {
        let table = kept.0.borrow();
        let table = table.as_ref().unwrap();
        let bytes: usize = table.answers.values().map(|kept| kept.bytes).sum();
        bytes == table.bytes && table.order.len() <= MOST && table.answers.len() <= table.order.len()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_its_time_and_under_its_tag_only() {
        let kept = KeptAnswers::default();
        let (tag, other) = (kept.tag(&[b"ab", b"c"]), kept.tag(&[b"a", b"bc"]));
        kept.keep(tag, answer("alice"), Duration::from_secs(5));
        assert_eq!(kept.find(&tag).unwrap().named(b"X-User"), Some(&b"alice"[..]));
        assert!(kept.find(&other).is_none());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(kept.find(&tag).is_none());
        kept.keep(tag, answer("bob"), Duration::from_secs(5));
        assert_eq!(kept.find(&tag).unwrap().named(b"X-User"), Some(&b"bob"[..]));
        assert!(is_at_rest(&kept));
        kept.clear();
        assert!(kept.find(&tag).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_gives_way_to_what_is_too_much() {
        let kept = KeptAnswers::default();
        let tag = |number: usize| kept.tag(&[&number.to_be_bytes()]);
        for number in 0..MOST + 2 {
            kept.keep(tag(number), answer("a"), Duration::from_secs(60));
        }
        assert!(kept.find(&tag(0)).is_none() && kept.find(&tag(1)).is_none());
        assert!(kept.find(&tag(2)).is_some() && kept.find(&tag(MOST + 1)).is_some());
        let large = "x".repeat(LARGEST / 4);
        for number in 0..MOST {
            kept.keep(tag(number), answer(&large), Duration::from_secs(60));
        }
        assert!(kept.find(&tag(0)).is_none() && kept.find(&tag(MOST - 1)).is_some());
        assert!(kept.0.borrow().as_ref().unwrap().bytes <= MOST_BYTES);
        assert!(is_at_rest(&kept));
        kept.keep(tag(MOST), answer(&"x".repeat(LARGEST)), Duration::from_secs(60));
        assert!(kept.find(&tag(MOST)).is_none(), "it is too large");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_replaced_over_and_over_pushes_out_no_others() {
        let kept = KeptAnswers::default();
        let (often, once) = (kept.tag(&[b"often"]), kept.tag(&[b"once"]));
        for _ in 0..3 * MOST {
            kept.keep(often, answer("a"), Duration::from_secs(60));
        }
        kept.keep(once, answer("b"), Duration::from_secs(60));
        assert!(kept.find(&often).is_some() && kept.find(&once).is_some());
        assert!(is_at_rest(&kept));
    }
}
