//! Lends shares to other replicas: which, to whom, until when. The time is passed in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_net::counts::{ClientKey, Counts, Payment};

use super::figures::RefusedMessage;
use super::message::{Ask, ClientOfLimit, Outcome};
use super::terms::{is_leased, lent_time};

/// Clients whose shares are lent at a time.
const MAX_LENT: usize = 1024;
/// Replicas whose asks are told apart.
const MAX_BORROWERS: usize = 1024;
/// How long after a lease the same borrower may go on with it, and how long a client that needed its share keeps it.
const MEMORY: Duration = Duration::from_secs(10);
/// How far the clocks of replicas may differ, with the time that a message takes, in seconds.
pub(super) const MAX_MESSAGE_AGE: u64 = 10;

#[derive(Default)]
pub(super) struct Lender(Mutex<Book>);

#[derive(Default)]
struct Book {
    lent: HashMap<ClientKey, LentShare>,
    borrowers: HashMap<u64, LastAsk>,
}

struct LentShare {
    borrower: u64,
    payment: Payment,
    end: Instant,
    /// The client has asked this replica for more than is left of its share.
    is_wanted_back: bool,
}

/// The last ask of a borrower.
struct LastAsk {
    number: u64,
    at: Instant,
}

impl Lender {
    /// Decides about each client of an ask, of a replica of `replicas`. The ask was made at `made` by the clock of its sender, and it is
    /// `wall` by the own one, in seconds.
    pub(super) fn decide(
        &self,
        ask: &Ask,
        made: u64,
        replicas: u32,
        counts: &Counts,
        now: Instant,
        wall: u64,
    ) -> Result<Vec<Outcome>, RefusedMessage> {
        if wall.abs_diff(made) > MAX_MESSAGE_AGE {
            return Err(RefusedMessage::Stale);
        }
        let mut book = self.lock();
        book.note_ask(ask, now)?;
        book.lent.retain(|_, lent| now < lent.end + MEMORY);
        if ask.replicas != replicas {
            return Ok(vec![Outcome::OtherCount; ask.clients.len()]);
        }
        let outcome = |client| book.lend(ask, client, counts, now);
        Ok(ask.clients.iter().map(outcome).collect())
    }

    /// Whether the share of a client is lent, which asks this replica for more than is left. It is lent no longer than it is, and not again
    /// for a while.
    pub(super) fn wants_back(&self, key: ClientKey, now: Instant) -> bool {
        let mut book = self.lock();
        let Some(lent) = book.lent.get_mut(&key).filter(|lent| now < lent.end) else { return false };
        lent.is_wanted_back = true;
        true
    }

    // Entries are put in and taken out whole, whoever panics.
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// An ask is taken once, and none after a later one of the same borrower. Whom this forgets has sent nothing that is not too old by now.
    fn note_ask(&mut self, ask: &Ask, now: Instant) -> Result<(), RefusedMessage> {
        let memory = Duration::from_secs(2 * MAX_MESSAGE_AGE + 1);
        self.borrowers.retain(|_, last| now < last.at + memory);
        let is_full = self.borrowers.len() >= MAX_BORROWERS;
        match self.borrowers.get(&ask.borrower) {
            Some(last) if ask.number <= last.number => return Err(RefusedMessage::Replayed),
            None if is_full => return Err(RefusedMessage::TooManySenders),
            _ => {}
        }
        self.borrowers.insert(ask.borrower, LastAsk { number: ask.number, at: now });
        Ok(())
    }

    fn lend(&mut self, ask: &Ask, client: &ClientOfLimit, counts: &Counts, now: Instant) -> Outcome {
        let (rate, key) = (client.whole.shared_by(ask.replicas), client.key(counts));
        if !is_leased(rate) {
            return Outcome::InUse;
        }
        let before = match self.lent.get(&key) {
            Some(lent) if lent.is_wanted_back => return Outcome::Taken,
            Some(lent) if lent.borrower == ask.borrower => Some(lent.payment),
            Some(lent) if now < lent.end => return Outcome::Taken,
            Some(_) => None,
            None if self.lent.len() >= MAX_LENT => return Outcome::Full,
            None => None,
        };
        let end = now + lent_time(rate);
        let Some(payment) = counts.lend(key, rate, end, now, before) else { return Outcome::InUse };
        let lent = LentShare { borrower: ask.borrower, payment, end, is_wanted_back: false };
        self.lent.insert(key, lent);
        Outcome::Lent
    }
}
