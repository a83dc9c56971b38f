//! Lends shares to other replicas: decides which, to whom, and for how long. The time is passed in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairway_net::clock::Instant;
use fairway_net::counts::{ClientCounts, ClientKey, Payment};

use super::figures::RefusedMessage;
use super::message::{ClientOfLimit, LendOutcome, LendRequest};
use super::terms::{is_leased, lent_time};

/// Clients whose shares may be lent at a time.
const MAX_LENT: usize = 1024;
/// Replicas whose messages are tracked.
const MAX_BORROWERS: usize = 1024;
/// How long after a lease its borrower may renew it, and how long a client that needed its share keeps it.
const LEASE_MEMORY: Duration = Duration::from_secs(10);
/// The maximum difference between replicas' clocks plus the transit time of a message, in seconds.
pub(super) const MAX_MESSAGE_AGE: u64 = 10;

#[derive(Default)]
pub(super) struct Lender(Mutex<LeaseBook>);

#[derive(Default)]
struct LeaseBook {
    lent_shares: HashMap<ClientKey, LentShare>,
    borrowers: HashMap<u64, LastRequest>,
}

struct LentShare {
    borrower: u64,
    payment: Payment,
    end: Instant,
    /// The client has asked this replica for more than the rest of its share.
    is_wanted_back: bool,
}

/// The last message of a borrower.
struct LastRequest {
    number: u64,
    at: Instant,
}

impl Lender {
    /// Decides about each client of a message, with this number of `replicas`. `made` is when the message was made by the
    /// sender's clock, `wall` the time by this replica's clock, in seconds.
    pub(super) fn decide(
        &self,
        request: &LendRequest,
        made: u64,
        replicas: u32,
        counts: &ClientCounts,
        now: Instant,
        wall: u64,
    ) -> Result<Vec<LendOutcome>, RefusedMessage> {
        if wall.abs_diff(made) > MAX_MESSAGE_AGE {
            return Err(RefusedMessage::Stale);
        }
        let mut book = self.lock();
        book.record_request(request, now)?;
        book.lent_shares.retain(|_, lent| now < lent.end + LEASE_MEMORY);
        if request.replicas != replicas {
            return Ok(vec![LendOutcome::OtherCount; request.clients.len()]);
        }
        let outcome = |client| book.lend(request, client, counts, now);
        Ok(request.clients.iter().map(outcome).collect())
    }

    /// Whether the share of a client that now needs it here is lent. If so, the lease is not renewed, and the share is not lent
    /// again for a while.
    pub(super) fn is_reclaiming(&self, key: ClientKey, now: Instant) -> bool {
        let mut book = self.lock();
        let Some(lent) = book.lent_shares.get_mut(&key).filter(|lent| now < lent.end) else { return false };
        lent.is_wanted_back = true;
        true
    }

    // A panic cannot leave a partly changed entry.
    fn lock(&self) -> MutexGuard<'_, LeaseBook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseBook {
    /// Rejects a message that was received before, or after a later one of the same borrower. Forgotten borrowers can only
    /// replay messages that are too old.
    fn record_request(&mut self, request: &LendRequest, now: Instant) -> Result<(), RefusedMessage> {
        let memory = Duration::from_secs(2 * MAX_MESSAGE_AGE + 1);
        self.borrowers.retain(|_, last| now < last.at + memory);
        let is_full = self.borrowers.len() >= MAX_BORROWERS;
        match self.borrowers.get(&request.borrower) {
            Some(last) if request.number <= last.number => return Err(RefusedMessage::Replayed),
            None if is_full => return Err(RefusedMessage::TooManySenders),
            _ => {}
        }
        self.borrowers.insert(request.borrower, LastRequest { number: request.number, at: now });
        Ok(())
    }

    fn lend(
        &mut self,
        request: &LendRequest,
        client: &ClientOfLimit,
        counts: &ClientCounts,
        now: Instant,
    ) -> LendOutcome {
        let (rate, key) = (client.fleet_rate.shared_by(request.replicas), client.key(counts));
        if !is_leased(rate) {
            return LendOutcome::InUse;
        }
        let before = match self.lent_shares.get(&key) {
            Some(lent) if lent.is_wanted_back => return LendOutcome::Taken,
            Some(lent) if lent.borrower == request.borrower => Some(lent.payment),
            Some(lent) if now < lent.end => return LendOutcome::Taken,
            Some(_) => None,
            None if self.lent_shares.len() >= MAX_LENT => return LendOutcome::Full,
            None => None,
        };
        let end = now + lent_time(rate);
        let Some(payment) = counts.lend(key, rate, end, now, before) else { return LendOutcome::InUse };
        let lent = LentShare { borrower: request.borrower, payment, end, is_wanted_back: false };
        self.lent_shares.insert(key, lent);
        LendOutcome::Lent
    }
}
