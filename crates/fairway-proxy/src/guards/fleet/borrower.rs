//! Borrows the shares of clients from other replicas in rounds: each round asks all others about some clients at once. It opens
//! no connections: its caller sends the messages.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use fairway_net::clock::Instant;
use fairway_net::counts::{ClientKey, LENT_SIXTEENTHS};
use rustls_pki_types::UnixTime;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::borrow_queue::WantedShare;
use super::limits::FleetLimits;
use super::message::{ClientOfLimit, LendOutcome, LendRequest, MAX_CLIENTS_PER_REQUEST, Reply};
use super::terms::borrowed_time;
use crate::tls::TicketGroup;

/// The minimum interval between the starts of two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(250);
/// How long a client whose shares were not lent is not asked for again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The maximum number of replicas that are asked.
const MAX_LENDERS: usize = 50;

/// Asks for the shares of clients whose requests were refused. There is one per process.
pub struct Borrower {
    limits: FleetLimits,
    wanted_shares: mpsc::Receiver<WantedShare>,
    clients: HashMap<ClientKey, WantingClient>,
    /// Identifies this process to other replicas.
    id: u64,
    /// The number of the last round.
    number: u64,
    earliest_round: Instant,
    has_logged_missing_key: bool,
}

struct WantingClient {
    of_limit: ClientOfLimit,
    state: ClientState,
    /// When the next action is due.
    due: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// Its requests were refused; its shares are to be borrowed.
    Wants,
    /// Shares are borrowed; they end some time after `due`.
    Borrows,
    /// It is being asked for, or was asked for without success.
    Rests,
}

/// Messages to send at the same time.
pub struct Round {
    messages: Vec<Message>,
    at: Instant,
    number: u64,
    replicas: u32,
    clients: Vec<ClientKey>,
}

/// A message for one replica.
pub struct Message {
    /// The address at which the replica serves probes.
    pub recipient: SocketAddr,
    /// The encrypted message.
    pub request: Vec<u8>,
    lender: Arc<str>,
}

impl Borrower {
    /// Creates the borrower of these limits; `None` after the first call, or if the system gives no random numbers.
    #[must_use]
    pub fn new(limits: FleetLimits) -> Option<Self> {
        let mut id = [0; 8];
        rand::fill(&mut id).ok()?;
        let wanted_share = limits.take_wanted_shares()?;
        Some(Self {
            limits,
            wanted_shares: wanted_share,
            clients: HashMap::new(),
            id: u64::from_be_bytes(id),
            number: 0,
            earliest_round: Instant::now(),
            has_logged_missing_key: false,
        })
    }

    /// Waits for the next round.
    pub async fn next_round(&mut self) -> Round {
        loop {
            while let Ok(wanted) = self.wanted_shares.try_recv() {
                self.add(wanted);
            }
            let now = Instant::now();
            if self.earliest_round <= now
                && let Some(round) = self.begin_round(now)
            {
                self.earliest_round = now + ROUND_INTERVAL;
                return round;
            }
            let due = self.clients.values().map(|client| client.due).min();
            let due = due.map(|due| due.max(self.earliest_round));
            tokio::select! {
                // The limits keep the sender.
                wanted = self.wanted_shares.recv() => wanted.into_iter().for_each(|wanted| self.add(wanted)),
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            }
        }
    }

    fn add(&mut self, wanted_share: WantedShare) {
        let WantedShare { key, client: of_limit } = wanted_share;
        self.clients.insert(key, WantingClient { of_limit, state: ClientState::Wants, due: Instant::now() });
    }

    fn begin_round(&mut self, now: Instant) -> Option<Round> {
        let shared = &self.limits.0;
        let replicas = shared.size.replicas();
        let is_due = |(key, client): (&ClientKey, &WantingClient)| (client.due <= now).then_some(*key);
        let due: Vec<_> = self.clients.iter().filter_map(is_due).collect();
        let mut due_clients = Vec::new();
        for key in due {
            let Some(client) = self.clients.get_mut(&key) else { continue };
            let share = client.of_limit.fleet_rate.shared_by(replicas);
            let is_used = || {
                let since = now.checked_sub(share.interval).unwrap_or(now);
                shared.counts.has_requested_since(key, since)
            };
            let asks = match client.state {
                ClientState::Wants => true,
                ClientState::Borrows => is_used(),
                ClientState::Rests => false,
            };
            if !asks {
                self.clients.remove(&key);
                shared.wanted_clients.forget(key);
            } else if shared.lender.is_reclaiming(key, now) {
                (client.state, client.due) = (ClientState::Rests, now + RETRY_DELAY);
            } else if due_clients.len() < MAX_CLIENTS_PER_REQUEST {
                (client.state, client.due) = (ClientState::Rests, now + RETRY_DELAY);
                due_clients.push(key);
            }
        }
        if due_clients.is_empty() {
            return None;
        }
        self.number += 1;
        let messages = self.messages(&due_clients, replicas);
        (!messages.is_empty()).then_some(Round {
            messages,
            at: now,
            number: self.number,
            replicas,
            clients: due_clients,
        })
    }

    fn messages(&mut self, due_clients: &[ClientKey], replicas: u32) -> Vec<Message> {
        let clients = due_clients.iter().filter_map(|key| Some(self.clients.get(key)?.of_limit.clone()));
        let ask =
            LendRequest { borrower: self.id, number: self.number, replicas, clients: clients.collect() }
                .encode();
        let (members, wall) = (self.limits.members(), UnixTime::now().as_secs());
        let message = |(name, to): &(Arc<str>, SocketAddr)| {
            let ask = self.limits.0.keys.seal_shared(TicketGroup::lease("ask", name), wall, &ask)?;
            Some(Message { recipient: *to, request: ask, lender: Arc::clone(name) })
        };
        let lenders = members.others.iter().take(MAX_LENDERS);
        let messages: Vec<_> = lenders.filter_map(message).collect();
        if messages.is_empty()
            && !members.others.is_empty()
            && !std::mem::replace(&mut self.has_logged_missing_key, true)
        {
            tracing::info!(
                "replicas share no session keys: fleet limits are divided among them, and no replica lends its share"
            );
        }
        messages
    }

    /// Processes the responses to the messages of a round, in their order.
    pub fn finish_round(&mut self, round: &Round, responses: &[Option<Vec<u8>>]) {
        let shared = &self.limits.0;
        let mut lenders = vec![0; round.clients.len()];
        for (message, response) in round.messages.iter().zip(responses) {
            let reply = response.as_deref().and_then(|response| self.read(round, message, response));
            let Some(reply) = reply else {
                shared.figures.count_unanswered(round.clients.len());
                continue;
            };
            for (lenders, outcome) in lenders.iter_mut().zip(reply.outcomes) {
                shared.figures.count_request(outcome);
                *lenders += u32::from(outcome == LendOutcome::Lent);
            }
        }
        let now = Instant::now();
        for (key, lenders) in round.clients.iter().zip(lenders).filter(|(_, lenders)| *lenders > 0) {
            let Some(client) = self.clients.get_mut(key) else { continue };
            let time = borrowed_time(client.of_limit.fleet_rate.shared_by(round.replicas));
            let sixteenths = 16 + LENT_SIXTEENTHS * lenders;
            if shared.counts.borrow(*key, sixteenths, round.replicas, round.at + time, now) {
                (client.state, client.due) = (ClientState::Borrows, round.at + time * 2 / 3);
            }
        }
    }

    /// Decrypts and checks the response of a replica in this round.
    fn read(&self, round: &Round, message: &Message, response: &[u8]) -> Option<Reply> {
        let (_, reply) =
            self.limits.0.keys.open_shared(TicketGroup::lease("answer", &message.lender), response)?;
        let reply = Reply::decode(&reply)?;
        let is_of_round = reply.borrower == self.id
            && reply.number == round.number
            && reply.outcomes.len() == round.clients.len();
        is_of_round.then_some(reply)
    }
}

impl Round {
    /// The messages to send, each to another replica.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}
