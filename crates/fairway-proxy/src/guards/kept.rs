//! What a worker found out about a request and holds for further ones, such as the answer of an authentication service or the claims
//! of a token: bounded in number and bytes, the oldest gives way. Never keeps what a request said, only a keyed hash of it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use fairway_net::clock::Instant;

/// The most values of a worker.
const MOST: usize = 4096;
/// The most bytes that they have together.
const MOST_BYTES: usize = 4 << 20;

/// What requests have in common that get the same answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tag([u8; 32]);

/// The values that a worker keeps. Nothing is made before the first is looked for.
pub(crate) struct Kept<T> {
    table: RefCell<Option<Box<Table<T>>>>,
    /// The most memory of one value, in bytes.
    largest: usize,
}

struct Table<T> {
    key: hmac::Key,
    values: HashMap<Tag, Entry<T>>,
    /// In the order of their arrival, with some that were replaced since.
    order: VecDeque<(Tag, u64)>,
    bytes: usize,
    arrivals: u64,
}

struct Entry<T> {
    value: T,
    until: Instant,
    bytes: usize,
    arrival: u64,
}

impl<T: Clone> Kept<T> {
    /// None yet, and none with more bytes than that.
    pub(crate) fn up_to(largest: usize) -> Self {
        Self { table: RefCell::default(), largest }
    }

    /// The tag of a request, of which these parts count.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut table = self.table.borrow_mut();
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

    /// What is kept under a tag.
    pub(crate) fn find(&self, tag: &Tag) -> Option<T> {
        let table = self.table.borrow();
        let kept = table.as_ref()?.values.get(tag)?;
        (Instant::now() < kept.until).then(|| kept.value.clone())
    }

    /// Keeps a value of this many bytes for this long, unless it is too large.
    pub(crate) fn keep(&self, tag: Tag, value: T, bytes: usize, time: Duration) {
        let bytes = size_of::<Entry<T>>() + bytes;
        let until = Instant::now().checked_add(time);
        if let (Some(table), Some(until), true) =
            (&mut *self.table.borrow_mut(), until, bytes <= self.largest)
        {
            table.make_room(bytes);
            table.arrivals += 1;
            let kept = Entry { value, until, bytes, arrival: table.arrivals };
            table.order.push_back((tag, table.arrivals));
            table.bytes += bytes;
            let before = table.values.insert(tag, kept);
            table.bytes -= before.map_or(0, |before| before.bytes);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.table.take();
    }
}

impl<T> Table<T> {
    fn new() -> Box<Self> {
        let key = hmac::Key::generate(HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new())
            .expect("the system gives random bytes, without which there is no TLS either");
        Box::new(Self { key, values: HashMap::new(), order: VecDeque::new(), bytes: 0, arrivals: 0 })
    }

    /// Lets the oldest go until one more of this size fits, and all that are over at the front.
    fn make_room(&mut self, bytes: usize) {
        let now = Instant::now();
        while let Some((tag, arrival)) = self.order.front().copied() {
            let kept = self.values.get(&tag).filter(|kept| kept.arrival == arrival);
            let is_over = kept.is_none_or(|kept| kept.until <= now);
            if !is_over && self.order.len() < MOST && self.bytes + bytes <= MOST_BYTES {
                return;
            }
            if let Some(kept) = kept {
                self.bytes -= kept.bytes;
                self.values.remove(&tag);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use super::*;

    const SMALL: usize = 100;
    const LARGEST: usize = 8 << 10;

    fn is_at_rest(kept: &Kept<&str>) -> bool {
        let table = kept.table.borrow();
        let table = table.as_ref().unwrap();
        let bytes: usize = table.values.values().map(|kept| kept.bytes).sum();
        bytes == table.bytes && table.order.len() <= MOST && table.values.len() <= table.order.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_kept_for_its_time_and_under_its_tag_only() {
        let kept = Kept::up_to(LARGEST);
        let (tag, other) = (kept.tag(&[b"ab", b"c"]), kept.tag(&[b"a", b"bc"]));
        kept.keep(tag, "alice", SMALL, Duration::from_secs(5));
        assert_eq!(kept.find(&tag), Some("alice"));
        assert_eq!(kept.find(&other), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(kept.find(&tag), None);
        kept.keep(tag, "bob", SMALL, Duration::from_secs(5));
        assert_eq!(kept.find(&tag), Some("bob"));
        assert!(is_at_rest(&kept));
        kept.clear();
        assert_eq!(kept.find(&tag), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_gives_way_to_what_is_too_much() {
        let kept = Kept::up_to(LARGEST);
        let tag = |number: usize| kept.tag(&[&number.to_be_bytes()]);
        for number in 0..MOST + 2 {
            kept.keep(tag(number), "a", SMALL, Duration::from_secs(60));
        }
        assert!(kept.find(&tag(0)).is_none() && kept.find(&tag(1)).is_none());
        assert!(kept.find(&tag(2)).is_some() && kept.find(&tag(MOST + 1)).is_some());
        for number in 0..MOST {
            kept.keep(tag(number), "a", LARGEST / 4, Duration::from_secs(60));
        }
        assert!(kept.find(&tag(0)).is_none() && kept.find(&tag(MOST - 1)).is_some());
        assert!(kept.table.borrow().as_ref().unwrap().bytes <= MOST_BYTES);
        assert!(is_at_rest(&kept));
        kept.keep(tag(MOST), "a", LARGEST, Duration::from_secs(60));
        assert_eq!(kept.find(&tag(MOST)), None, "it is too large");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_replaced_over_and_over_pushes_out_no_others() {
        let kept = Kept::up_to(LARGEST);
        let (often, once) = (kept.tag(&[b"often"]), kept.tag(&[b"once"]));
        for _ in 0..3 * MOST {
            kept.keep(often, "a", SMALL, Duration::from_secs(60));
        }
        kept.keep(once, "b", SMALL, Duration::from_secs(60));
        assert!(kept.find(&often).is_some() && kept.find(&once).is_some());
        assert!(is_at_rest(&kept));
    }
}
