//! Borrows the shares of clients from other replicas, in rounds: each asks all others about some clients at the same time. Opens no
//! connection: whoever runs the rounds carries the messages.

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

use super::limits::FleetLimits;
use super::message::{Ask, ClientOfLimit, MAX_CLIENTS_PER_ASK, Outcome, Reply};
use super::terms::borrowed_time;
use super::wanted::Wanted;
use crate::tls::Group;

/// Between the beginnings of two rounds, at least.
const ROUND_INTERVAL: Duration = Duration::from_millis(250);
/// How long nobody is asked again about a client whose shares were not lent.
const REST: Duration = Duration::from_secs(1);
/// Replicas that are asked.
const MAX_LENDERS: usize = 50;

/// Asks for the shares of clients whose requests were refused. There is one in a process.
pub struct Borrower {
    limits: FleetLimits,
    wanted: mpsc::Receiver<Wanted>,
    clients: HashMap<ClientKey, Client>,
    /// What replicas tell this process by.
    id: u64,
    /// Of the last round.
    number: u64,
    earliest_round: Instant,
    told_of_no_key: bool,
}

struct Client {
    of_limit: ClientOfLimit,
    state: ClientState,
    /// When something is to be done.
    due: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// Its requests were refused.
    Wants,
    /// Shares are borrowed, which end a while after it is due.
    Borrows,
    /// It was asked for in vain, or is being asked for.
    Rests,
}

/// Messages that are to be sent at the same time.
pub struct Round {
    messages: Vec<Message>,
    at: Instant,
    number: u64,
    replicas: u32,
    clients: Vec<ClientKey>,
}

/// An ask for one replica.
pub struct Message {
    /// Where the replica answers probes.
    pub to: SocketAddr,
    /// What it is sent.
    pub ask: Vec<u8>,
    lender: Arc<str>,
}

impl Borrower {
    /// The one of these limits; `None` after the first call, or where the system gives no random numbers.
    #[must_use]
    pub fn new(limits: FleetLimits) -> Option<Self> {
        let mut id = [0; 8];
        rand::fill(&mut id).ok()?;
        let wanted = limits.take_wanted()?;
        Some(Self {
            limits,
            wanted,
            clients: HashMap::new(),
            id: u64::from_be_bytes(id),
            number: 0,
            earliest_round: Instant::now(),
            told_of_no_key: false,
        })
    }

    /// Waits until replicas are to be asked.
    pub async fn next_round(&mut self) -> Round {
        loop {
            while let Ok(wanted) = self.wanted.try_recv() {
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
                // The limits keep the other end.
                wanted = self.wanted.recv() => wanted.into_iter().for_each(|wanted| self.add(wanted)),
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            }
        }
    }

    fn add(&mut self, wanted: Wanted) {
        let Wanted { key, client: of_limit } = wanted;
        self.clients.insert(key, Client { of_limit, state: ClientState::Wants, due: Instant::now() });
    }

    fn begin_round(&mut self, now: Instant) -> Option<Round> {
        let shared = &self.limits.0;
        let replicas = shared.size.replicas();
        let is_due = |(key, client): (&ClientKey, &Client)| (client.due <= now).then_some(*key);
        let due: Vec<_> = self.clients.iter().filter_map(is_due).collect();
        let mut asked = Vec::new();
        for key in due {
            let Some(client) = self.clients.get_mut(&key) else { continue };
            let share = client.of_limit.whole.shared_by(replicas);
            let is_used = || {
                let since = now.checked_sub(share.interval).unwrap_or(now);
                shared.counts.has_asked_since(key, since)
            };
            let asks = match client.state {
                ClientState::Wants => true,
                ClientState::Borrows => is_used(),
                ClientState::Rests => false,
            };
            if !asks {
                self.clients.remove(&key);
                shared.wanted.forget(key);
            } else if shared.lender.wants_back(key, now) {
                (client.state, client.due) = (ClientState::Rests, now + REST);
            } else if asked.len() < MAX_CLIENTS_PER_ASK {
                (client.state, client.due) = (ClientState::Rests, now + REST);
                asked.push(key);
            }
        }
        if asked.is_empty() {
            return None;
        }
        self.number += 1;
        let messages = self.messages(&asked, replicas);
        (!messages.is_empty()).then_some(Round {
            messages,
            at: now,
            number: self.number,
            replicas,
            clients: asked,
        })
    }

    fn messages(&mut self, asked: &[ClientKey], replicas: u32) -> Vec<Message> {
        let clients = asked.iter().filter_map(|key| Some(self.clients.get(key)?.of_limit.clone()));
        let ask =
            Ask { borrower: self.id, number: self.number, replicas, clients: clients.collect() }.encode();
        let (members, wall) = (self.limits.members(), UnixTime::now().as_secs());
        let message = |(name, to): &(Arc<str>, SocketAddr)| {
            let ask = self.limits.0.keys.seal_shared(Group::lease("ask", name), wall, &ask)?;
            Some(Message { to: *to, ask, lender: Arc::clone(name) })
        };
        let lenders = members.others.iter().take(MAX_LENDERS);
        let messages: Vec<_> = lenders.filter_map(message).collect();
        if messages.is_empty()
            && !members.others.is_empty()
            && !std::mem::replace(&mut self.told_of_no_key, true)
        {
            tracing::info!(
                "replicas share no session keys: limits of the fleet are divided, and no replica lends its share"
            );
        }
        messages
    }

    /// Takes the answers to the messages of a round, in their order.
    pub fn finish_round(&mut self, round: &Round, answers: &[Option<Vec<u8>>]) {
        let shared = &self.limits.0;
        let mut lenders = vec![0; round.clients.len()];
        for (message, answer) in round.messages.iter().zip(answers) {
            let reply = answer.as_deref().and_then(|answer| self.read(round, message, answer));
            let Some(reply) = reply else {
                shared.figures.unanswered(round.clients.len());
                continue;
            };
            for (lenders, outcome) in lenders.iter_mut().zip(reply.outcomes) {
                shared.figures.asked(outcome);
                *lenders += u32::from(outcome == Outcome::Lent);
            }
        }
        let now = Instant::now();
        for (key, lenders) in round.clients.iter().zip(lenders).filter(|(_, lenders)| *lenders > 0) {
            let Some(client) = self.clients.get_mut(key) else { continue };
            let time = borrowed_time(client.of_limit.whole.shared_by(round.replicas));
            let sixteenths = 16 + LENT_SIXTEENTHS * lenders;
            if shared.counts.borrow(*key, sixteenths, round.replicas, round.at + time, now) {
                (client.state, client.due) = (ClientState::Borrows, round.at + time * 2 / 3);
            }
        }
    }

    /// The answer of a replica to what it was asked in this round.
    fn read(&self, round: &Round, message: &Message, answer: &[u8]) -> Option<Reply> {
        let (_, reply) = self.limits.0.keys.open_shared(Group::lease("answer", &message.lender), answer)?;
        let reply = Reply::decode(&reply)?;
        let is_of_round = reply.borrower == self.id
            && reply.number == round.number
            && reply.outcomes.len() == round.clients.len();
        is_of_round.then_some(reply)
    }
}

impl Round {
    /// What is to be sent, each to another replica.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}
