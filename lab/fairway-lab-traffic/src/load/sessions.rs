//! TLS sessions that a thread of the generator has: as many tickets of TLS 1.3 as there may be clients. rustls' own store
//! keeps eight for each server, so that most of many clients could not resume a server that sends one ticket each. Every
//! ticket is counted, also where none is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls_pki_types::ServerName;

use super::observed::Observed;

/// Tickets at most, where they are kept; the oldest go first.
const TICKETS: usize = 16_384;
/// Servers at most, for what TLS 1.2 remembers. A stream has one.
const SERVERS: usize = 16;

/// The sessions of one thread with one server.
#[derive(Debug)]
pub(super) struct Sessions {
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    most_tickets: usize,
    rest: ClientSessionMemoryCache,
    observed: Arc<Observed>,
}

impl Sessions {
    /// Without `resumption` nothing is kept, so that every handshake is full and none knows a group of an earlier one.
    pub(super) fn new(observed: Arc<Observed>, resumption: bool) -> Self {
        let most_tickets = if resumption { TICKETS } else { 0 };
        let rest = ClientSessionMemoryCache::new(SERVERS);
        Self { tickets: Mutex::default(), most_tickets, rest, observed }
    }

    fn tickets(&self) -> MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        if self.most_tickets > 0 {
            self.rest.set_kx_hint(server, group);
        }
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.rest.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        if self.most_tickets > 0 {
            self.rest.set_tls12_session(server, value);
        }
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.rest.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.rest.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.observed.ticket();
        let mut tickets = self.tickets();
        tickets.push_back(value);
        if tickets.len() > self.most_tickets {
            tickets.pop_front();
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest, as other clients do: a server that remembers few sessions has forgotten the oldest first.
        self.tickets().pop_back()
    }
}
