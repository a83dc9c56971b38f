//! What a worker counts. Plain cells on one thread, copied when somebody asks: the request path never shares a counter.

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
use crate::metrics::reason::{Reason, Stage};
use crate::metrics::record::Record;
use crate::metrics::sample::{Gauges, Sample};
use crate::metrics::series::SeriesTable;
use crate::metrics::totals::Totals;

/// The counters of one worker.
pub struct Counters {
    connections: Connections,
    handshakes: Handshakes,
    /// Snapshots that were adopted.
    pub adoptions: Cell<u64>,
    /// From the publication of the current snapshot to its adoption.
    pub adoption: Cell<Duration>,
    /// What happened on the way to answers.
    pub attempts: Attempts,
    /// What happened on connections of HTTP/2.
    pub http2: Http2,
    /// What happened on connections of HTTP/3.
    pub http3: Http3,
    /// Responses that were compressed.
    pub compressed: CompressedBytes,
    /// Bodies that were held.
    pub buffered: Buffered,
    /// What happened to datagrams of QUIC.
    pub quic: Rc<Quic>,
    /// Connections that are forwarded as they come.
    pub streams: Streams,
    /// Datagrams that are forwarded as they come.
    pub datagrams: Datagrams,
    bytes: Bytes,
    /// Connections that were refused before a request, and answers that Fairway made, by reason.
    reasons: RefCell<BTreeMap<Reason, u64>>,
    /// Faults of exchanges by who caused them.
    faults: RefCell<BTreeMap<(Cause, &'static str), u64>>,
    /// What versions of the configuration cost.
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

/// What happened on the way to an answer.
#[derive(Default)]
pub struct Attempts {
    /// Requests sent to an endpoint.
    pub sent: Cell<u64>,
    /// Connections made to endpoints.
    pub connected: Cell<u64>,
    /// Requests that were given up because the endpoint did not acknowledge them.
    pub unacknowledged: Cell<u64>,
    /// Attempts after the first.
    pub retried: Cell<u64>,
    /// Reused connections that were found dead.
    pub stale: Cell<u64>,
    /// Endpoints that were ejected.
    pub ejected: Cell<u64>,
    pub hedges: Hedges,
    /// Non-idempotent requests that were written and then lost: failed, never sent twice.
    pub lost: Cell<u64>,
}

/// What became of connects that were late.
#[derive(Default)]
pub struct Hedges {
    /// Another endpoint's connect was there first.
    pub won: Cell<u64>,
    /// Another endpoint's connect was begun, and the late one was there first after all, or none came.
    pub lost: Cell<u64>,
    /// An idle connection to another endpoint was used instead, which costs no connect.
    pub reused: Cell<u64>,
    /// The endpoint was suspect already: its connect was given up for one to another endpoint. Or a connect that exchanges share
    /// was waited for no longer.
    pub moved: Cell<u64>,
    /// The budget allowed no other connect at that time.
    pub refused: Cell<u64>,
}

impl Hedges {
    fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("won", self.won.get()),
            ("lost", self.lost.get()),
            ("reused", self.reused.get()),
            ("moved", self.moved.get()),
            ("refused", self.refused.get()),
        ]
    }
}

/// Bodies that were held.
#[derive(Default)]
pub struct Buffered {
    /// Until they were whole.
    pub requests: Cell<u64>,
    /// Because the client was slower than the endpoint.
    pub responses: Cell<u64>,
}

/// Connections that are forwarded as they come.
#[derive(Default)]
pub struct Streams {
    opened: Cell<u64>,
    open: Cell<u64>,
    received: Cell<u64>,
    sent: Cell<u64>,
}

impl Streams {
    /// One began.
    pub fn opened(&self) {
        count(&self.opened);
        count(&self.open);
    }

    /// One is gone.
    pub fn closed(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }

    /// So many bytes came from a client, and so many went to one.
    #[inline]
    pub fn moved(&self, received: u64, sent: u64) {
        self.received.set(self.received.get() + received);
        self.sent.set(self.sent.get() + sent);
    }

    /// Those that are under way.
    pub fn open(&self) -> u64 {
        self.open.get()
    }
}

/// Datagrams that are forwarded as they come, and their sessions.
#[derive(Default)]
pub struct Datagrams {
    opened: Cell<u64>,
    open: Cell<u64>,
    received: Cell<u64>,
    sent: Cell<u64>,
    bytes: Bytes,
}

impl Datagrams {
    /// A session began.
    pub fn opened(&self) {
        count(&self.opened);
        count(&self.open);
    }

    /// One of so many bytes came from a client.
    #[inline]
    pub fn received(&self, bytes: usize) {
        count(&self.received);
        self.bytes.received.set(self.bytes.received.get() + bytes as u64);
    }

    /// One of so many bytes went to a client.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        count(&self.sent);
        self.bytes.sent.set(self.bytes.sent.get() + bytes as u64);
    }

    /// Sessions that are open.
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

/// Adds one.
pub fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl Default for Counters {
    /// Nothing counted yet.
    fn default() -> Self {
        Self {
            connections: Connections::default(),
            handshakes: Handshakes::default(),
            adoptions: Cell::new(0),
            adoption: Cell::new(Duration::ZERO),
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
    /// A client connected.
    pub(crate) fn connection_opened(&self) {
        count(&self.connections.accepted);
        count(&self.connections.open);
    }

    /// Another worker had accepted it.
    pub(crate) fn connection_taken_over(&self) {
        count(&self.connections.taken_over);
        count(&self.connections.open);
    }

    /// A connection of a client is gone.
    pub(crate) fn connection_closed(&self) {
        self.connections.open.set(self.connections.open.get().saturating_sub(1));
        self.connections.closed.notify_one();
    }

    /// Connections of clients that are open.
    pub(crate) fn open_connections(&self) -> u64 {
        self.connections.open.get()
    }

    /// The same, as it changes.
    pub fn open(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.connections.open)
    }

    /// Waits until no connection and no session of datagrams is open, at most for `limit`.
    pub(crate) async fn connections_closed(&self, limit: Duration) {
        let all = async {
            while self.open_connections() > 0 || self.datagrams.open() > 0 {
                self.connections.closed.notified().await;
            }
        };
        // Those that are still open are cut: that is what the limit says.
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// A connection was refused before its first request.
    pub fn refused(&self, fault: Fault) {
        self.reason(Stage::Connection, fault);
    }

    /// A handshake over TCP succeeded.
    pub fn handshake<S>(&self, took: Duration, stream: &TlsStream<S>) {
        let resumed = stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        self.shook_hands(took, resumed);
    }

    /// A handshake succeeded, which resumed a session or did not.
    pub fn shook_hands(&self, took: Duration, resumed: bool) {
        count(if resumed { &self.handshakes.resumed } else { &self.handshakes.full });
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.handshakes.microseconds.set(self.handshakes.microseconds.get().saturating_add(micros));
    }

    /// A handshake failed.
    pub fn handshake_failed(&self, fault: Fault) {
        let label = match fault {
            Fault::ClientTimeout => "handshake_timeout",
            Fault::NoListener
            | Fault::NoRoute
            | Fault::NoBackend
            | Fault::ProtectionUnavailable
            | Fault::ListenerFull => fault.label(),
            _ => "handshake_failed",
        };
        self.label(Stage::Connection, label);
    }

    /// An exchange is over.
    pub fn exchange(&self, record: &Record<'_>) {
        self.bytes.received.set(self.bytes.received.get() + record.request_bytes);
        self.bytes.sent.set(self.bytes.sent.get() + record.sent_bytes);
        if let Some(fault) = record.fault {
            self.reason(Stage::Exchange, fault);
            *self.faults.borrow_mut().entry((fault.cause(), fault.label())).or_default() += 1;
        }
        if let Some(status) = record.call.status {
            self.label(Stage::Call, Code::name_of(status));
        }
        self.series.borrow_mut().observe(record);
    }

    /// A connection that was forwarded as it came is over, for this reason.
    pub fn stream_ended(&self, reason: &'static str) {
        self.label(Stage::Stream, reason);
    }

    /// A session of datagrams is over, for this reason.
    pub(crate) fn session_ended(&self, reason: &'static str) {
        self.datagrams.open.set(self.datagrams.open.get().saturating_sub(1));
        self.connections.closed.notify_one();
        self.label(Stage::Session, reason);
    }

    /// A datagram was dropped, for this reason.
    pub(crate) fn datagram_dropped(&self, reason: &'static str) {
        self.label(Stage::Datagram, reason);
    }

    /// An authorization service was asked over gRPC, with this result.
    pub(crate) fn checked(&self, result: &'static str) {
        self.label(Stage::Check, result);
    }

    /// A health check is over, with this result.
    pub(crate) fn health_checked(&self, result: &'static str) {
        self.label(Stage::HealthCheck, result);
    }

    /// No other attempt follows one that failed, because of this.
    pub(crate) fn retry_refused(&self, reason: &'static str) {
        self.label(Stage::RetryRefused, reason);
    }

    /// The stream to an extension service is over, with this result.
    pub(crate) fn extension_ended(&self, result: &'static str) {
        self.label(Stage::Extension, result);
    }

    fn reason(&self, stage: Stage, fault: Fault) {
        self.label(stage, fault.label());
    }

    fn label(&self, stage: Stage, label: &'static str) {
        *self.reasons.borrow_mut().entry((stage, label)).or_default() += 1;
    }

    /// The few numbers that say how exchanges went.
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

    /// Everything, copied.
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
            ("http2_held_requests_total", self.http2.held.get()),
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
            http2: self.http2.clients.counted(),
            http3: self.http3.events.counted(),
            upstream_http2: self.http2.endpoints.counted(),
            zones: BTreeMap::new(),
            compressed: self.compressed.counted(),
            costs: self.generations.total(),
            series: self.series.borrow().series(),
        }
    }
}
