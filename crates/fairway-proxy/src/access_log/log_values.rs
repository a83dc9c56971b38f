//! Collects what any log format may use of an exchange.

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::log::{
    Certificate, ClientIdentities, Connection, ExchangeAmounts, LogLine, LoggedConnection, ProcessInfo,
    RequestTarget, ServedBy, Tls, Trace, Upstream, WallClock,
};
use crate::metrics::record::ExchangeRecord;
use crate::peer::{ConnectionLogDetails, Peer};
use crate::tls::NegotiatedTls;

/// Downstream details of an exchange.
#[derive(Clone, Copy)]
pub(crate) struct LoggedPeer<'a> {
    pub(crate) peer: &'a Peer,
    /// Public port of the listener.
    pub(crate) port: Option<u16>,
    /// Whether the PROXY protocol named the client.
    pub(crate) is_introduced: bool,
    /// Requests on the connection before this one.
    pub(crate) earlier_requests: u64,
}

/// The log line of a finished exchange.
pub(super) fn build_line<'a>(
    record: &'a ExchangeRecord<'_>,
    buffers: &'a Buffers,
    logged: LoggedPeer<'a>,
    clock: &'a WallClock,
    process: &'a ProcessInfo,
) -> LogLine<'a> {
    let (peer, forms) = (logged.peer, buffers.extras.read());
    LogLine {
        request: &buffers.request,
        response: (record.sent_bytes > 0).then_some(&*buffers.response),
        target: RequestTarget {
            scheme: peer.scheme.as_str(),
            port: logged.port,
            host: &buffers.host,
            received_host: &forms.host,
            origin: &forms.origin,
            decoded: &forms.decoded,
        },
        identities: ClientIdentities {
            remote: peer.client,
            client: buffers.addresses.client,
            sender: buffers.addresses.sender,
            named: logged.is_introduced.then_some(peer.client),
            subject: forms.identity.token.as_ref().and_then(|token| token.claims.subject()),
            api_client: forms.identity.api_client.as_deref(),
            location: forms.location.as_deref(),
        },
        connection: connection(peer, logged.earlier_requests),
        amounts: ExchangeAmounts {
            status: record.status,
            request: record.request_bytes,
            body: record.body_bytes,
            sent: record.sent_bytes,
            duration: record.duration(),
            grpc_status: record.grpc_call.status,
        },
        served_by: ServedBy {
            rule: record.served_by.rule.map(|rule| &rule.rule().labels),
            host: record.served_by.host,
            canary: record.served_by.canary.as_ref().map(|backend| &backend.service),
        },
        upstream: record.upstream.map(|up| Upstream {
            endpoint: up.endpoint,
            status: up.status,
            connect: up.connect.duration(),
            header: up.header.duration(),
            response: up.response.duration(),
            received: &forms.received,
            attempts: up.attempts,
            hedged: up.hedged,
        }),
        trace: match &forms.sampled {
            Some(sampled) => Trace::Sampled { trace_id: sampled.trace_id, span_id: sampled.span_id },
            None if record.is_traced => Trace::Unsampled,
            None => Trace::None,
        },
        reason: record.fault.map(Fault::label),
        clock,
        process,
    }
}

fn connection(peer: &Peer, earlier_requests: u64) -> Connection<'_> {
    let presented = peer.proof().and_then(|proof| proof.certificate.as_ref());
    let certificate = presented.map(|presented| Certificate {
        subject: &presented.subject,
        issuer: &presented.issuer,
        serial: &presented.serial,
        fingerprint: &presented.fingerprint,
        verdict: presented.verdict,
    });
    let details = peer.logged_connection();
    Connection {
        requests: earlier_requests + 1,
        logged: details.map(|&ConnectionLogDetails { number, port, .. }| LoggedConnection { port, number }),
        tls: details.and_then(|details| details.tls.as_ref()).map(tls),
        certificate,
    }
}

fn tls(agreed: &NegotiatedTls) -> Tls<'_> {
    let NegotiatedTls { version, suite, group, name, resumed, protocol } = agreed;
    Tls { version, suite, group: *group, name: name.as_deref(), resumed: *resumed, protocol: *protocol }
}
