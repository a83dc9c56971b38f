//! What a connection of HTTP/2 or HTTP/3 has of its worker, and what it did that is counted. Looked at once a turn; serves
//! nothing.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http2::{Noted, Server};
use fairway_net::growth::Loan;
use quinn_proto::{ConnectionError, TransportErrorCode};

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

    /// A request ended for the same reason, and no other did.
    pub(super) fn rejected(&mut self, counters: &Http3, reason: &'static str) {
        counters.events.add((Noted::StreamFault.label(), reason), 1);
        self.faults.tell(Worth::Debugging, Noted::StreamFault.label(), reason);
    }

    /// QUIC says that the connection is over. Only a client that broke a rule of QUIC is to blame.
    pub(super) fn lost(&mut self, counters: &Http3, error: &ConnectionError) {
        if let ConnectionError::TransportError(error) = error {
            let reason = transport_reason(error.code);
            counters.events.add((TRANSPORT_FAULT, reason), 1);
            self.faults.tell(Worth::Telling, TRANSPORT_FAULT, reason);
        }
    }
}

/// The event of a connection that Fairway closed because its client broke a rule of QUIC.
const TRANSPORT_FAULT: &str = "transport_fault";

/// The code that a connection was closed with, as RFC 9000 §20.1 names it.
fn transport_reason(code: TransportErrorCode) -> &'static str {
    match code {
        TransportErrorCode::NO_ERROR => "no_error",
        TransportErrorCode::INTERNAL_ERROR => "internal_error",
        TransportErrorCode::FLOW_CONTROL_ERROR => "flow_control_error",
        TransportErrorCode::STREAM_LIMIT_ERROR => "stream_limit_error",
        TransportErrorCode::STREAM_STATE_ERROR => "stream_state_error",
        TransportErrorCode::FINAL_SIZE_ERROR => "final_size_error",
        TransportErrorCode::FRAME_ENCODING_ERROR => "frame_encoding_error",
        TransportErrorCode::TRANSPORT_PARAMETER_ERROR => "transport_parameter_error",
        TransportErrorCode::CONNECTION_ID_LIMIT_ERROR => "connection_id_limit_error",
        TransportErrorCode::PROTOCOL_VIOLATION => "protocol_violation",
        TransportErrorCode::CRYPTO_BUFFER_EXCEEDED => "crypto_buffer_exceeded",
        TransportErrorCode::KEY_UPDATE_ERROR => "key_update_error",
        TransportErrorCode::AEAD_LIMIT_REACHED => "aead_limit_reached",
        TransportErrorCode::NO_VIABLE_PATH => "no_viable_path",
        _ => "crypto_error",
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

#[cfg(test)]
mod tests {
    use quinn_proto::TransportError;

    use super::*;

    #[test]
    fn rules_of_quic_that_clients_break_are_counted_by_their_codes() {
        let counters = Http3::default();
        let mut ledger = Http3Ledger::new(&counters, IpAddr::from([192, 0, 2, 1]));
        let broken: TransportError = TransportErrorCode::FINAL_SIZE_ERROR.into();
        let alert: TransportError = TransportErrorCode::crypto(10).into();
        for error in [
            ConnectionError::TransportError(broken),
            ConnectionError::TransportError(alert),
            ConnectionError::TimedOut,
            ConnectionError::Reset,
        ] {
            ledger.lost(&counters, &error);
        }
        let expected =
            [(("transport_fault", "crypto_error"), 1), (("transport_fault", "final_size_error"), 1)];
        assert_eq!(counters.events.counted(), expected.into());
    }
}
