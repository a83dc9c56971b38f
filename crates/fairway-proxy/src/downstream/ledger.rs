//! What a connection of HTTP/2 or HTTP/3 has of its worker, and what it did that is counted. Looked at once a turn; serves
//! nothing.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http2::{Noted, Server};
use fairway_net::growth::Loan;

use crate::metrics::Http3;
use crate::network::Network;
use crate::worker::Worker;

/// Of one connection of HTTP/2.
pub(super) struct Ledger {
    /// What its windows may have grown by.
    grown: Loan,
    streams: OpenStreams,
    faults: Faults,
}

impl Ledger {
    /// Of a connection that begins.
    pub(super) fn new<N: Network>(worker: &Worker<N>, client: IpAddr) -> Self {
        Self {
            grown: Loan::new(&worker.budgets.windows),
            streams: OpenStreams::new(worker.counters.http2.streams()),
            faults: Faults::new("HTTP/2", client),
        }
    }

    /// Brings it up to date.
    pub(super) fn look<N: Network>(&mut self, worker: &Worker<N>, codec: &mut Server) {
        self.streams.count(codec.open_streams() as u64);
        let wanted = codec.window_wanted();
        if wanted > 0 && self.grown.extend(u64::from(wanted), worker.window_growth()) {
            codec.grant_window(wanted);
        }
        if !self.grown.is_empty() {
            self.grown.give_back(u64::from(codec.reclaim_window()));
        }
        while let Some(note) = codec.noted() {
            worker.counters.http2.clients.note(note);
            self.faults.tell(worth(note.what, note.reason), note.what.label(), note.reason);
        }
    }
}

/// Of one connection of HTTP/3.
pub(super) struct Http3Ledger {
    streams: OpenStreams,
    faults: Faults,
    /// Connections of the worker, this one among them.
    connections: Rc<Cell<u64>>,
}

impl Http3Ledger {
    /// Of a connection that begins.
    pub(super) fn new(counters: &Http3, client: IpAddr) -> Self {
        let connections = Rc::clone(&counters.connections);
        connections.set(connections.get() + 1);
        let (streams, faults) = (OpenStreams::new(counters.streams()), Faults::new("HTTP/3", client));
        Self { streams, faults, connections }
    }

    /// Brings it up to date.
    pub(super) fn look(&mut self, counters: &Http3, codec: &mut fairway_http3::Server, open_streams: usize) {
        self.streams.count(open_streams as u64);
        while let Some(note) = codec.noted() {
            counters.events.add((note.what.label(), note.reason), note.count);
            self.faults.tell(worth(note.what, note.reason), note.what.label(), note.reason);
        }
    }

    /// The connection ended because the client took too long.
    pub(super) fn gave_up(&mut self, counters: &Http3, reason: &'static str) {
        counters.events.add((Noted::ConnectionFault.label(), reason), 1);
        self.faults.tell(Worth::Nothing, Noted::ConnectionFault.label(), reason);
    }
}

impl Drop for Http3Ledger {
    fn drop(&mut self) {
        self.connections.set(self.connections.get() - 1);
    }
}

/// The open streams of one connection among those of its worker.
struct OpenStreams {
    all: Rc<Cell<u64>>,
    own: u64,
}

impl OpenStreams {
    /// None yet, of `all` of the worker.
    fn new(all: Rc<Cell<u64>>) -> Self {
        Self { all, own: 0 }
    }

    fn count(&mut self, now: u64) {
        self.all.set((self.all.get() + now).saturating_sub(self.own));
        self.own = now;
    }
}

impl Drop for OpenStreams {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// How much something is worth in the log.
#[derive(Clone, Copy)]
enum Worth {
    Nothing,
    Debugging,
    Telling,
}

fn worth(what: Noted, reason: &str) -> Worth {
    match what {
        Noted::Reset | Noted::GoAway | Noted::GoAwayReceived | Noted::Rejected => Worth::Nothing,
        // Peers that vanish are everyday life.
        Noted::ConnectionFault if matches!(reason, "silence" | "settings_timeout") => Worth::Nothing,
        Noted::ConnectionFault | Noted::Warned => Worth::Telling,
        Noted::StreamFault => Worth::Debugging,
    }
}

/// What is logged of a connection.
struct Faults {
    protocol: &'static str,
    client: IpAddr,
    /// Whether the log has a line about it.
    is_told: bool,
}

impl Faults {
    fn new(protocol: &'static str, client: IpAddr) -> Self {
        Self { protocol, client, is_told: false }
    }

    /// Logs the first thing that is the client's fault; what follows is only counted.
    fn tell(&mut self, worth: Worth, event: &'static str, reason: &'static str) {
        let Self { protocol, client, is_told } = self;
        match worth {
            Worth::Telling if !*is_told => {
                tracing::info!(%client, reason, "a client's {protocol} connection is ended: {event}");
                *is_told = true;
            }
            Worth::Debugging if !*is_told => {
                tracing::debug!(%client, reason, "a stream of a client's {protocol} connection is ended");
            }
            Worth::Nothing | Worth::Debugging | Worth::Telling => {}
        }
    }
}
