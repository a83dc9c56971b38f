//! What guards need besides the request: what all workers count together, what verifies passwords, and answers of services
//! that were asked before.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fairway_http::Head;
use fairway_model::ClientVerification;
use fairway_net::counts::Counts;
use fairway_token::KeySet;
use fairway_token::login::Provider;

use crate::guards::{
    FleetLimits, Kept, Logins, Logouts, Passwords, Pool, Refreshes, SharedDocuments, Tokens,
};
use crate::tls::{ClientTrust, SessionTickets};

/// The most memory of an answer of an authentication service that is kept, in bytes.
const MAX_ANSWER_BYTES: usize = 8 << 10;

/// Of a worker.
pub(crate) struct Guards {
    /// What policies count, together with the other workers.
    pub(crate) counts: Arc<Counts>,
    /// What of that replicas share.
    pub(crate) fleet: FleetLimits,
    pub(crate) passwords: Passwords,
    pub(crate) trusts: Trusts,
    pub(crate) answers: Kept<Rc<Head>>,
    pub(crate) tokens: Tokens,
    /// Sessions of users who have logged in.
    pub(crate) logins: Logins,
}

/// Who may issue certificates of clients, as it was read when the first client came.
#[derive(Default)]
pub(crate) struct Trusts(RefCell<Vec<Trust>>);

struct Trust {
    rules: Arc<ClientVerification>,
    read: Option<Rc<ClientTrust>>,
}

impl Trusts {
    /// By these rules. `None` where they trust nobody, because they cannot be read.
    pub(crate) fn of(&self, rules: &Arc<ClientVerification>) -> Option<Rc<ClientTrust>> {
        let mut known = self.0.borrow_mut();
        if let Some(trust) = known.iter().find(|trust| Arc::ptr_eq(&trust.rules, rules)) {
            return trust.read.clone();
        }
        // What no snapshot has any more.
        known.retain(|trust| Arc::strong_count(&trust.rules) > 1);
        let read = ClientTrust::new(rules).ok().map(Rc::new);
        known.push(Trust { rules: Arc::clone(rules), read: read.clone() });
        read
    }
}

/// What the guards of all workers share.
#[derive(Clone)]
pub(crate) struct SharedGuards {
    fleet: FleetLimits,
    pool: Arc<Pool>,
    key_sets: SharedDocuments<KeySet>,
    providers: SharedDocuments<Provider>,
    refreshes: Refreshes,
    tickets: SessionTickets,
    logouts: Logouts,
}

impl SharedGuards {
    /// Of a process with this many workers.
    pub(crate) fn new(workers: usize, tickets: SessionTickets, logouts: Logouts) -> Self {
        Self {
            fleet: FleetLimits::default(),
            pool: Pool::new(workers),
            key_sets: SharedDocuments::default(),
            providers: SharedDocuments::default(),
            refreshes: Refreshes::default(),
            tickets,
            logouts,
        }
    }

    /// The same in a fleet.
    pub(crate) fn in_fleet(self, fleet: FleetLimits) -> Self {
        Self { fleet, ..self }
    }

    /// Those of a worker.
    pub(super) fn of_worker(self) -> Guards {
        Guards {
            counts: Arc::clone(self.fleet.counts()),
            fleet: self.fleet,
            passwords: Passwords::new(self.pool),
            trusts: Trusts::default(),
            answers: Kept::up_to(MAX_ANSWER_BYTES),
            tokens: Tokens::new(self.key_sets),
            logins: Logins::new(self.providers, self.refreshes, self.tickets, self.logouts),
        }
    }
}
