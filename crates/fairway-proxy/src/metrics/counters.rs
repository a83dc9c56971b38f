//! Counters of a worker: plain cells on one thread, copied on demand. The request path never shares a counter.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fairway_http::grpc::Code;
use tokio::sync::Notify;
use tokio_rustls::server::TlsStream;

use crate::cause::Cause;
use crate::fault::Fault;
use crate::metrics::compression::CompressedBytes;
use crate::metrics::generations::Generations;
use crate::metrics::http2::Http2;
use crate::metrics::http3::Http3;
use crate::metrics::quic::Quic;
use crate::metrics::reason::{FaultStage, Reason};
use crate::metrics::record::ExchangeRecord;
use crate::metrics::sample::{Gauges, Sample};
use crate::metrics::series::SeriesTable;
use crate::metrics::totals::Totals;

/// The counters of one worker.
pub struct Counters {
    connections: Connections,
    handshakes: Handshakes,
    /// Snapshots adopted.
    pub adoptions: Cell<u64>,
    /// Time from publication to adoption of the current snapshot.
    pub adoption_time: Cell<Duration>,
    /// Upstream attempts.
    pub attempts: Attempts,
    /// HTTP/2 connections.
    pub http2: Http2,
    /// HTTP/3 connections.
    pub http3: Http3,
    /// Bytes of compressed responses.
    pub compressed: CompressedBytes,
    /// Buffered bodies.
    pub buffered: Buffered,
    /// QUIC datagrams.
    pub quic: Rc<Quic>,
    /// Forwarded TCP connections.
    pub streams: Streams,
    /// Forwarded datagrams.
    pub datagrams: Datagrams,
    bytes: Bytes,
    /// Connections refused before a request, and responses made by Fairway, by reason.
    reasons: RefCell<BTreeMap<Reason, u64>>,
    /// Faults of exchanges by cause.
    faults: RefCell<BTreeMap<(Cause, &'static str), u64>>,
    /// Requests and failures by configuration version.
    pub(crate) generations: Generations,
    series: RefCell<SeriesTable>,
}

#[derive(Default)]
struct Connections {
    accepted: Cell<u64>,
    /// Accepted by another worker.
    taken_over: Cell<u64>,
    open: Rc<Cell<u64>>,
    closed: Notify,
}

#[derive(Default)]
struct Handshakes {
    full: Cell<u64>,
    resumed: Cell<u64>,
    microseconds: Cell<u64>,
}

/// Upstream attempts.
#[derive(Default)]
pub struct Attempts {
    /// Requests sent to an endpoint.
    pub sent: Cell<u64>,
    /// Connections made to endpoints.
    pub connected: Cell<u64>,
    /// Requests abandoned because the endpoint did not acknowledge them.
    pub unacknowledged: Cell<u64>,
    /// Attempts after the first.
    pub retried: Cell<u64>,
    /// Reused connections found dead.
    pub stale: Cell<u64>,
    /// Endpoints ejected.
    pub ejected: Cell<u64>,
    pub hedges: Hedges,
    /// Non-idempotent requests that were written and lost: failed, never sent again.
    pub lost: Cell<u64>,
}

/// Outcomes of slow connects.
#[derive(Default)]
pub struct Hedges {
    /// The connect to another endpoint completed first.
    pub won: Cell<u64>,
    /// The slow connect completed first after all, or neither did.
    pub lost: Cell<u64>,
    /// An idle connection to another endpoint was used instead, at no cost.
    pub reused: Cell<u64>,
    /// The endpoint was already suspect: its connect was replaced by one to another endpoint. Or the exchange
    /// stopped waiting for a shared connect.
    pub switched: Cell<u64>,
    /// The budget allowed no other connect at that time.
    pub refused: Cell<u64>,
}

impl Hedges {
    fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("won", self.won.get()),
            ("lost", self.lost.get()),
            ("reused", self.reused.get()),
            ("moved", self.switched.get()),
            ("refused", self.refused.get()),
        ]
    }
}

/// Buffered bodies.
#[derive(Default)]
pub struct Buffered {
    /// Request bodies buffered until complete.
    pub requests: Cell<u64>,
    /// Response bodies buffered because the client was slower than the endpoint.
    pub responses: Cell<u64>,
}

/// Forwarded TCP connections.
#[derive(Default)]
pub struct Streams {
    opened: Cell<u64>,
    open: Cell<u64>,
    received: Cell<u64>,
    sent: Cell<u64>,
}

impl Streams {
    /// Counts a started connection.
    pub fn opened(&self) {
        increment(&self.opened);
        increment(&self.open);
    }

    /// Counts a closed connection.
    pub fn closed(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }

    /// Counts bytes from and to a client.
    #[inline]
    pub fn moved(&self, received: u64, sent: u64) {
        self.received.set(self.received.get() + received);
        self.sent.set(self.sent.get() + sent);
    }

    /// Open connections.
    pub fn open(&self) -> u64 {
        self.open.get()
    }
}

/// Forwarded datagrams and their sessions.
#[derive(Default)]
pub struct Datagrams {
    opened: Cell<u64>,
    open: Cell<u64>,
    received: Cell<u64>,
    sent: Cell<u64>,
    bytes: Bytes,
}

impl Datagrams {
    /// Counts a started session.
    pub fn opened(&self) {
        increment(&self.opened);
        increment(&self.open);
    }

    /// Counts a datagram from a client.
    #[inline]
    pub fn received(&self, bytes: usize) {
        increment(&self.received);
        self.bytes.received.set(self.bytes.received.get() + bytes as u64);
    }

    /// Counts a datagram to a client.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        increment(&self.sent);
        self.bytes.sent.set(self.bytes.sent.get() + bytes as u64);
    }

    /// Open sessions.
    pub fn open(&self) -> u64 {
        self.open.get()
    }

    fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("datagram_sessions_opened_total", self.opened.get()),
            ("datagrams_received_total", self.received.get()),
            ("datagrams_sent_total", self.sent.get()),
            ("datagram_received_bytes_total", self.bytes.received.get()),
            ("datagram_sent_bytes_total", self.bytes.sent.get()),
        ]
    }
}

#[derive(Default)]
struct Bytes {
    received: Cell<u64>,
    sent: Cell<u64>,
}

/// Increments a counter.
pub fn increment(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl Default for Counters {
    /// All zero.
    fn default() -> Self {
        Self {
            connections: Connections::default(),
            handshakes: Handshakes::default(),
            adoptions: Cell::new(0),
            adoption_time: Cell::new(Duration::ZERO),
            attempts: Attempts::default(),
            http2: Http2::default(),
            http3: Http3::default(),
            compressed: CompressedBytes::default(),
            buffered: Buffered::default(),
            quic: Rc::default(),
            streams: Streams::default(),
            datagrams: Datagrams::default(),
            bytes: Bytes::default(),
            reasons: RefCell::default(),
            faults: RefCell::default(),
            generations: Generations::default(),
            series: RefCell::new(SeriesTable::new()),
        }
    }
}

impl Counters {
    /// Counts an accepted connection.
    pub(crate) fn connection_opened(&self) {
        increment(&self.connections.accepted);
        increment(&self.connections.open);
    }

    /// Counts a connection accepted by another worker.
    pub(crate) fn connection_taken_over(&self) {
        increment(&self.connections.taken_over);
        increment(&self.connections.open);
    }

    /// Counts a closed connection.
    pub(crate) fn connection_closed(&self) {
        self.connections.open.set(self.connections.open.get().saturating_sub(1));
        self.connections.closed.notify_one();
    }

    /// Open downstream connections.
    pub(crate) fn open_connections(&self) -> u64 {
        self.connections.open.get()
    }

    /// The live gauge of open connections.
    pub fn open_gauge(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.connections.open)
    }

    /// Waits until no connection and no datagram session is open, at most for `limit`.
    pub(crate) async fn wait_for_connections(&self, limit: Duration) {
        let all = async {
            while self.open_connections() > 0 || self.datagrams.open() > 0 {
                self.connections.closed.notified().await;
            }
        };
        // The caller cuts whatever is still open.
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Counts a connection refused before its first request.
    pub fn count_refused(&self, fault: Fault) {
        self.count_fault(FaultStage::Connection, fault);
    }

    /// Counts a completed handshake over TCP.
    pub fn count_tcp_handshake<S>(&self, duration: Duration, stream: &TlsStream<S>) {
        let resumed = stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        self.count_handshake(duration, resumed);
    }

    /// Counts a completed handshake, full or resumed.
    pub fn count_handshake(&self, duration: Duration, resumed: bool) {
        increment(if resumed { &self.handshakes.resumed } else { &self.handshakes.full });
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.handshakes.microseconds.set(self.handshakes.microseconds.get().saturating_add(micros));
    }

    /// Counts a failed handshake.
    pub fn count_failed_handshake(&self, fault: Fault) {
        let label = match fault {
            Fault::ClientTimeout => "handshake_timeout",
            Fault::NoListener
            | Fault::NoRoute
            | Fault::NoBackend
            | Fault::ProtectionUnavailable
            | Fault::ListenerFull => fault.label(),
            _ => "handshake_failed",
        };
        self.count_label(FaultStage::Connection, label);
    }

    /// Counts a finished exchange.
    pub fn observe(&self, record: &ExchangeRecord<'_>) {
        self.bytes.received.set(self.bytes.received.get() + record.request_bytes);
        self.bytes.sent.set(self.bytes.sent.get() + record.sent_bytes);
        if let Some(fault) = record.fault {
            self.count_fault(FaultStage::Exchange, fault);
            *self.faults.borrow_mut().entry((fault.cause(), fault.label())).or_default() += 1;
        }
        if let Some(status) = record.grpc_call.status {
            self.count_label(FaultStage::GrpcCall, Code::name_of(status));
        }
        self.series.borrow_mut().observe(record);
    }

    /// Counts the end of a forwarded connection.
    pub fn count_stream_end(&self, reason: &'static str) {
        self.count_label(FaultStage::Stream, reason);
    }

    /// Counts the end of a datagram session.
    pub(crate) fn count_session_end(&self, reason: &'static str) {
        self.datagrams.open.set(self.datagrams.open.get().saturating_sub(1));
        self.connections.closed.notify_one();
        self.count_label(FaultStage::Session, reason);
    }

    /// Counts a dropped datagram.
    pub(crate) fn count_dropped_datagram(&self, reason: &'static str) {
        self.count_label(FaultStage::Datagram, reason);
    }

    /// Counts a gRPC authorization check by result.
    pub(crate) fn count_authorization_check(&self, result: &'static str) {
        self.count_label(FaultStage::AuthorizationCheck, result);
    }

    /// Counts a health check by result.
    pub(crate) fn count_health_check(&self, result: &'static str) {
        self.count_label(FaultStage::HealthCheck, result);
    }

    /// Counts a retry that was not made, by reason.
    pub(crate) fn count_refused_retry(&self, reason: &'static str) {
        self.count_label(FaultStage::RetryRefused, reason);
    }

    /// Counts the end of a stream to an extension service by result.
    pub(crate) fn count_extension_stream(&self, result: &'static str) {
        self.count_label(FaultStage::Extension, result);
    }

    fn count_fault(&self, stage: FaultStage, fault: Fault) {
        self.count_label(stage, fault.label());
    }

    fn count_label(&self, stage: FaultStage, label: &'static str) {
        *self.reasons.borrow_mut().entry((stage, label)).or_default() += 1;
    }

    /// Totals of all exchanges.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            faults: self.faults.borrow().clone(),
            open_connections: self.open_connections(),
            self_inflicted_last_day: self.generations.last_day(),
            ..Totals::default()
        };
        self.series.borrow().add_to(&mut totals);
        totals
    }

    /// A copy of all counters.
    pub fn sample(&self, gauges: Gauges) -> Sample {
        let attempts = &self.attempts;
        let counts = [
            ("connections_accepted_total", self.connections.accepted.get()),
            ("connections_taken_over_total", self.connections.taken_over.get()),
            ("tls_handshakes_full_total", self.handshakes.full.get()),
            ("tls_handshakes_resumed_total", self.handshakes.resumed.get()),
            ("tls_handshake_microseconds_total", self.handshakes.microseconds.get()),
            ("snapshot_adoptions_total", self.adoptions.get()),
            ("upstream_requests_total", attempts.sent.get()),
            ("upstream_connections_total", attempts.connected.get()),
            ("upstream_unacknowledged_total", attempts.unacknowledged.get()),
            ("upstream_retries_total", attempts.retried.get()),
            ("upstream_stale_connections_total", attempts.stale.get()),
            ("upstream_ejections_total", attempts.ejected.get()),
            ("upstream_lost_non_idempotent_total", attempts.lost.get()),
            ("http2_held_requests_total", self.http2.held_requests.get()),
            ("received_bytes_total", self.bytes.received.get()),
            ("sent_bytes_total", self.bytes.sent.get()),
            ("buffered_request_bodies_total", self.buffered.requests.get()),
            ("buffered_response_bodies_total", self.buffered.responses.get()),
            ("streams_opened_total", self.streams.opened.get()),
            ("stream_received_bytes_total", self.streams.received.get()),
            ("stream_sent_bytes_total", self.streams.sent.get()),
            ("metrics_folded_requests_total", self.series.borrow().folded()),
        ];
        let counts = counts.into_iter().chain(self.http3.counts());
        Sample {
            counts: counts.chain(self.datagrams.counts()).chain(self.quic.counts()).collect(),
            hedges: attempts.hedges.counts().into(),
            gauges,
            open_connections: self.open_connections(),
            reasons: self.reasons.borrow().clone(),
            http2: self.http2.clients.by_event(),
            http3: self.http3.events.by_event(),
            upstream_http2: self.http2.endpoints.by_event(),
            zones: BTreeMap::new(),
            compressed: self.compressed.counted(),
            costs: self.generations.total(),
            series: self.series.borrow().series(),
        }
    }
}
