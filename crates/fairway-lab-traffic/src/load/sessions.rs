//! TLS sessions that a thread of the generator has: as many tickets of TLS 1.3 as there may be clients. rustls' own store
//! keeps eight for each server, so that most of many clients could not resume a server that sends one ticket each.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls_pki_types::ServerName;

/// Tickets at most; the oldest go first.
const TICKETS: usize = 16_384;
/// Servers at most, for what TLS 1.2 remembers. A stream has one.
const SERVERS: usize = 16;

/// The sessions of one thread with one server.
#[derive(Debug)]
pub(super) struct Sessions {
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    rest: ClientSessionMemoryCache,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self { tickets: Mutex::default(), rest: ClientSessionMemoryCache::new(SERVERS) }
    }

    fn tickets(&self) -> MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.rest.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.rest.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.rest.set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.rest.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.rest.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.tickets();
        if tickets.len() == TICKETS {
            tickets.pop_front();
        }
        tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest, as other clients do: a server that remembers few sessions has forgotten the oldest first.
        self.tickets().pop_back()
    }
}
