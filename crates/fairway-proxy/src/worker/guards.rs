//! State of guards in a worker: shared counts, password verification, cached authentication responses, tokens
//! and logins.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fairway_http::Head;
use fairway_model::ClientVerification;
use fairway_net::counts::ClientCounts;
use fairway_token::KeySet;
use fairway_token::login::Provider;

use crate::guards::{
    ExpiringCache, FleetLimits, Logins, Logouts, PasswordThreads, Passwords, Refreshes, SharedDocuments,
    Tokens,
};
use crate::tls::{ClientTrust, SessionTickets};

/// Bytes kept of a response of an authentication service.
const MAX_CACHED_AUTH_RESPONSE_BYTES: usize = 8 << 10;

/// Guard state of one worker.
pub(crate) struct Guards {
    /// Counters of policies, shared by all workers.
    pub(crate) counts: Arc<ClientCounts>,
    /// Limits shared with other replicas.
    pub(crate) fleet: FleetLimits,
    pub(crate) passwords: Passwords,
    pub(crate) client_trusts: ClientTrustCache,
    pub(crate) auth_responses: ExpiringCache<Rc<Head>>,
    pub(crate) tokens: Tokens,
    /// Login sessions of users.
    pub(crate) logins: Logins,
}

/// Parsed client CAs, by rules. Parsed when the first client needs them.
#[derive(Default)]
pub(crate) struct ClientTrustCache(RefCell<Vec<CachedTrust>>);

struct CachedTrust {
    rules: Arc<ClientVerification>,
    trust: Option<Rc<ClientTrust>>,
}

impl ClientTrustCache {
    /// CAs of these rules. `None` if they cannot be parsed: then no client is trusted.
    pub(crate) fn for_rules(&self, rules: &Arc<ClientVerification>) -> Option<Rc<ClientTrust>> {
        let mut known = self.0.borrow_mut();
        if let Some(trust) = known.iter().find(|trust| Arc::ptr_eq(&trust.rules, rules)) {
            return trust.trust.clone();
        }
        // Drops rules that no snapshot uses.
        known.retain(|trust| Arc::strong_count(&trust.rules) > 1);
        let read = ClientTrust::new(rules).ok().map(Rc::new);
        known.push(CachedTrust { rules: Arc::clone(rules), trust: read.clone() });
        read
    }
}

/// Guard state shared by all workers.
#[derive(Clone)]
pub(crate) struct SharedGuards {
    fleet: FleetLimits,
    pool: Arc<PasswordThreads>,
    key_sets: SharedDocuments<KeySet>,
    providers: SharedDocuments<Provider>,
    refreshes: Refreshes,
    tickets: SessionTickets,
    logouts: Logouts,
}

impl SharedGuards {
    /// Shared state of a process with this many workers.
    pub(crate) fn new(workers: usize, tickets: SessionTickets, logouts: Logouts) -> Self {
        Self {
            fleet: FleetLimits::default(),
            pool: PasswordThreads::new(workers),
            key_sets: SharedDocuments::default(),
            providers: SharedDocuments::default(),
            refreshes: Refreshes::default(),
            tickets,
            logouts,
        }
    }

    /// Adds the limits shared with other replicas.
    pub(crate) fn in_fleet(self, fleet: FleetLimits) -> Self {
        Self { fleet, ..self }
    }

    /// Guard state of one worker.
    pub(super) fn into_worker_guards(self) -> Guards {
        Guards {
            counts: Arc::clone(self.fleet.counts()),
            fleet: self.fleet,
            passwords: Passwords::new(self.pool),
            client_trusts: ClientTrustCache::default(),
            auth_responses: ExpiringCache::with_max_entry_bytes(MAX_CACHED_AUTH_RESPONSE_BYTES),
            tokens: Tokens::new(self.key_sets),
            logins: Logins::new(self.providers, self.refreshes, self.tickets, self.logouts),
        }
    }
}
