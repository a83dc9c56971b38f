//! Accounting of HTTP/2 and HTTP/3 connections: resources leased from the worker, and counted events. Updated
//! once per turn.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use fairway_http2::{PeerEventKind, Server};
use fairway_net::growth::MemoryLoan;
use quinn_proto::{ConnectionError, TransportErrorCode};

use crate::metrics::Http3;
use crate::network::Network;
use crate::worker::Worker;

/// Accounting of one HTTP/2 connection.
pub(super) struct ConnectionLedger {
    /// Window growth leased from the worker's budget.
    window_growth: MemoryLoan,
    streams: OpenStreams,
    fault_log: FaultLog,
}

impl ConnectionLedger {
    /// For a new connection.
    pub(super) fn new<N: Network>(worker: &Worker<N>, client: IpAddr) -> Self {
        Self {
            window_growth: MemoryLoan::new(&worker.budgets.window_growth),
            streams: OpenStreams::new(worker.counters.http2.streams()),
            fault_log: FaultLog::new("HTTP/2", client),
        }
    }

    /// Updates counts and window growth.
    pub(super) fn update<N: Network>(&mut self, worker: &Worker<N>, codec: &mut Server) {
        self.streams.count(codec.open_streams() as u64);
        let wanted_bytes = codec.wanted_window_bytes();
        if wanted_bytes > 0 && self.window_growth.extend(u64::from(wanted_bytes), worker.window_growth()) {
            codec.grant_window(wanted_bytes);
        }
        if !self.window_growth.is_empty() {
            self.window_growth.give_back(u64::from(codec.reclaim_window()));
        }
        while let Some(note) = codec.take_event() {
            worker.counters.http2.clients.record(note);
            self.fault_log.log(log_worth(note.kind, note.reason), note.kind.label(), note.reason);
        }
    }
}

/// Accounting of one HTTP/3 connection.
pub(super) struct Http3Ledger {
    streams: OpenStreams,
    fault_log: FaultLog,
    /// Open connections of the worker, including this one.
    connections: Rc<Cell<u64>>,
}

impl Http3Ledger {
    /// For a new connection.
    pub(super) fn new(counters: &Http3, client: IpAddr) -> Self {
        let connections = Rc::clone(&counters.connections);
        connections.set(connections.get() + 1);
        let (streams, fault_log) = (OpenStreams::new(counters.streams()), FaultLog::new("HTTP/3", client));
        Self { streams, fault_log, connections }
    }

    /// Updates counts.
    pub(super) fn update(
        &mut self,
        counters: &Http3,
        codec: &mut fairway_http3::Server,
        open_streams: usize,
    ) {
        self.streams.count(open_streams as u64);
        while let Some(note) = codec.next_peer_event() {
            counters.events.add((note.kind.label(), note.reason), note.count);
            self.fault_log.log(log_worth(note.kind, note.reason), note.kind.label(), note.reason);
        }
    }

    /// Counts a connection that ended because the client took too long.
    pub(super) fn record_timeout(&mut self, counters: &Http3, reason: &'static str) {
        counters.events.add((PeerEventKind::ConnectionFault.label(), reason), 1);
        self.fault_log.log(LogWorth::Nothing, PeerEventKind::ConnectionFault.label(), reason);
    }

    /// Counts a request that ended for that reason while others continue.
    pub(super) fn record_rejection(&mut self, counters: &Http3, reason: &'static str) {
        counters.events.add((PeerEventKind::StreamFault.label(), reason), 1);
        self.fault_log.log(LogWorth::Debug, PeerEventKind::StreamFault.label(), reason);
    }

    /// Counts a lost QUIC connection. Only clients that violated QUIC are at fault.
    pub(super) fn record_loss(&mut self, counters: &Http3, error: &ConnectionError) {
        if let ConnectionError::TransportError(error) = error {
            let reason = transport_reason(error.code);
            counters.events.add((TRANSPORT_FAULT, reason), 1);
            self.fault_log.log(LogWorth::Info, TRANSPORT_FAULT, reason);
        }
    }
}

/// Event of a connection closed because its client violated QUIC.
const TRANSPORT_FAULT: &str = "transport_fault";

/// Name of a transport error code (RFC 9000 §20.1).
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

/// Open streams of one connection, as part of the worker's.
struct OpenStreams {
    worker_streams: Rc<Cell<u64>>,
    connection_streams: u64,
}

impl OpenStreams {
    /// No streams yet; `worker_streams` counts those of the worker.
    fn new(worker_streams: Rc<Cell<u64>>) -> Self {
        Self { worker_streams, connection_streams: 0 }
    }

    fn count(&mut self, now: u64) {
        self.worker_streams.set((self.worker_streams.get() + now).saturating_sub(self.connection_streams));
        self.connection_streams = now;
    }
}

impl Drop for OpenStreams {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Log level of an event.
#[derive(Clone, Copy)]
enum LogWorth {
    Nothing,
    Debug,
    Info,
}

fn log_worth(kind: PeerEventKind, reason: &str) -> LogWorth {
    match kind {
        PeerEventKind::Reset
        | PeerEventKind::GoAway
        | PeerEventKind::GoAwayReceived
        | PeerEventKind::Rejected => LogWorth::Nothing,
        // Vanishing peers are normal.
        PeerEventKind::ConnectionFault if matches!(reason, "silence" | "settings_timeout") => {
            LogWorth::Nothing
        }
        PeerEventKind::ConnectionFault | PeerEventKind::Warned => LogWorth::Info,
        PeerEventKind::StreamFault => LogWorth::Debug,
    }
}

/// Logs the faults of one connection.
struct FaultLog {
    protocol: &'static str,
    client: IpAddr,
    /// Whether a fault was logged.
    has_logged: bool,
}

impl FaultLog {
    fn new(protocol: &'static str, client: IpAddr) -> Self {
        Self { protocol, client, has_logged: false }
    }

    /// Logs the first fault of the client; further ones are only counted.
    fn log(&mut self, worth: LogWorth, event: &'static str, reason: &'static str) {
        let Self { protocol, client, has_logged } = self;
        match worth {
            LogWorth::Info if !*has_logged => {
                tracing::info!(%client, reason, "closing a client's {protocol} connection: {event}");
                *has_logged = true;
            }
            LogWorth::Debug if !*has_logged => {
                tracing::debug!(%client, reason, "resetting a stream of a client's {protocol} connection");
            }
            LogWorth::Nothing | LogWorth::Debug | LogWorth::Info => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::TransportError;

    use super::*;

    #[test]
    fn quic_violations_of_clients_are_counted_by_error_code() {
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
            ledger.record_loss(&counters, &error);
        }
        let expected =
            [(("transport_fault", "crypto_error"), 1), (("transport_fault", "final_size_error"), 1)];
        assert_eq!(counters.events.by_event(), expected.into());
    }
}
