//! What a connection of HTTP/2 has of its worker, and what it did that is counted. Looked at once a turn; serves nothing.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http2::{Note, Noted, Server};
use fairway_net::growth::Loan;

use crate::network::Network;
use crate::worker::Worker;

/// Of one connection.
pub(super) struct Ledger {
    /// What its windows may have grown by.
    grown: Loan,
    /// Open streams of the worker.
    open: Rc<Cell<u64>>,
    /// Those of this connection among them.
    own_open: u64,
    client: IpAddr,
    /// Whether the log has a line about it.
    is_told: bool,
}

impl Ledger {
    /// Of a connection that begins.
    pub(super) fn new<N: Network>(worker: &Worker<N>, client: IpAddr) -> Self {
        let open = worker.counters.http2.streams();
        Self { grown: Loan::new(&worker.budgets.windows), open, own_open: 0, client, is_told: false }
    }

    /// Brings it up to date.
    pub(super) fn look<N: Network>(&mut self, worker: &Worker<N>, codec: &mut Server) {
        self.count_streams(codec.open_streams() as u64);
        let wanted = codec.window_wanted();
        if wanted > 0 && self.grown.extend(u64::from(wanted), worker.window_growth()) {
            codec.grant_window(wanted);
        }
        if !self.grown.is_empty() {
            self.grown.give_back(u64::from(codec.reclaim_window()));
        }
        while let Some(note) = codec.noted() {
            worker.counters.http2.clients.note(note);
            self.tell(note);
        }
    }

    fn count_streams(&mut self, now: u64) {
        self.open.set((self.open.get() + now).saturating_sub(self.own_open));
        self.own_open = now;
    }

    /// Logs the first thing that is the client's fault; what follows is only counted.
    fn tell(&mut self, note: Note) {
        let Note { what, reason, .. } = note;
        let client = self.client;
        match what {
            _ if self.is_told => return,
            Noted::Reset | Noted::GoAway | Noted::GoAwayReceived => return,
            // Peers that vanish are everyday life.
            Noted::ConnectionFault if matches!(reason, "silence" | "settings_timeout") => return,
            Noted::ConnectionFault | Noted::Warned => {
                tracing::info!(%client, reason, "a client's HTTP/2 connection is ended: {}", what.label());
            }
            Noted::StreamFault => {
                tracing::debug!(%client, reason, "a stream of a client's HTTP/2 connection is ended");
                return;
            }
        }
        self.is_told = true;
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.count_streams(0);
    }
}
