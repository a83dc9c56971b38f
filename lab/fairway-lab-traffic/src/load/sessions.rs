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

/// Tickets at most; the oldest go first.
const TICKETS: usize = 16_384;
/// Servers at most, for what TLS 1.2 remembers. A stream has one.
const SERVERS: usize = 16;

/// The sessions of one thread with one server.
#[derive(Debug)]
pub(super) struct Sessions {
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    rest: ClientSessionMemoryCache,
    observed: Arc<Observed>,
}

impl Sessions {
    pub(super) fn new(observed: Arc<Observed>) -> Self {
        Self { tickets: Mutex::default(), rest: ClientSessionMemoryCache::new(SERVERS), observed }
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
        self.observed.ticket();
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

/// Keeps nothing, so that every handshake is full.
#[derive(Debug)]
pub(super) struct NoSessions(pub(super) Arc<Observed>);

impl ClientSessionStore for NoSessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, _: Tls13ClientSessionValue) {
        self.0.ticket();
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}
