//! What the log knows of an exchange, for any format.

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::log::{
    Amounts, Certificate, Connection, Line, NotedConnection, Parties, Process, ServedBy, Target, Tls, Trace,
    Upstream, WallClock,
};
use crate::metrics::record::Record;
use crate::peer::{Noted, Peer};
use crate::tls::Agreed;

/// Who asked, and where.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) peer: &'a Peer,
    /// The port of the listener, as clients see it.
    pub(crate) port: Option<u16>,
    /// The PROXY protocol named the client.
    pub(crate) introduced: bool,
    /// Requests of the connection before this one.
    pub(crate) served: u64,
}

/// An exchange that is over.
pub(super) fn line<'a>(
    record: &'a Record<'_>,
    buffers: &'a Buffers,
    seen: Seen<'a>,
    clock: &'a WallClock,
    process: &'a Process,
) -> Line<'a> {
    let (peer, forms) = (seen.peer, buffers.forms.read());
    Line {
        request: &buffers.request,
        answer: (record.sent_bytes > 0).then_some(&*buffers.answer),
        target: Target {
            scheme: peer.scheme.as_str(),
            port: seen.port,
            host: &buffers.host,
            received_host: &forms.host,
            origin: &forms.origin,
            decoded: &forms.decoded,
        },
        parties: Parties {
            remote: peer.client,
            client: buffers.parties.client,
            sender: buffers.parties.sender,
            named: seen.introduced.then_some(peer.client),
            subject: forms.identity.token.as_ref().and_then(|token| token.claims.subject()),
            api_client: forms.identity.api_client.as_deref(),
            location: forms.location.as_deref(),
        },
        connection: connection(peer, seen.served),
        amounts: Amounts {
            status: record.status,
            request: record.request_bytes,
            body: record.body_bytes,
            sent: record.sent_bytes,
            took: record.took(),
            grpc_status: record.call.status,
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

fn connection(peer: &Peer, served: u64) -> Connection<'_> {
    let shown = peer.proof().and_then(|proof| proof.shown.as_ref());
    let certificate = shown.map(|shown| Certificate {
        subject: &shown.subject,
        issuer: &shown.issuer,
        serial: &shown.serial,
        fingerprint: &shown.fingerprint,
        verdict: shown.verdict,
    });
    let noted = peer.noted();
    Connection {
        requests: served + 1,
        noted: noted.map(|&Noted { number, port, .. }| NotedConnection { port, number }),
        tls: noted.and_then(|noted| noted.tls.as_ref()).map(tls),
        certificate,
    }
}

fn tls(agreed: &Agreed) -> Tls<'_> {
    let Agreed { version, suite, group, name, resumed, protocol } = agreed;
    Tls { version, suite, group: *group, name: name.as_deref(), resumed: *resumed, protocol: *protocol }
}
