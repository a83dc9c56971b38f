//! What the log knows of an exchange, for any format.

use fairway_log::{Amounts, Certificate, Line, Parties, Process, Target, Upstream, WallClock};
use fairway_tls::Shown;

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::peer::Peer;
use crate::record::Record;

/// Who asked, and where.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) peer: &'a Peer,
    /// The port of the listener, as clients see it.
    pub(crate) port: Option<u16>,
    /// The PROXY protocol named the client.
    pub(crate) introduced: bool,
}

/// Why an answer is not the endpoint's; `-` when it is.
pub(super) fn flag(record: &Record<'_>) -> &'static str {
    record.fault.map_or("-", Fault::label)
}

/// An exchange that is over.
pub(super) fn line<'a>(
    (record, buffers, seen): (&'a Record<'_>, &'a Buffers, Seen<'a>),
    clock: &'a WallClock,
    process: &'a Process,
) -> Line<'a> {
    let (peer, forms) = (seen.peer, buffers.forms.read());
    let shown = peer.proof.as_deref().and_then(|proof| proof.shown.as_ref());
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
        },
        certificate: shown.map(|Shown { subject, issuer, verdict, .. }| Certificate {
            subject,
            issuer,
            verdict: *verdict,
        }),
        amounts: Amounts {
            status: record.status,
            request: record.request_bytes,
            body: record.body_bytes,
            sent: record.sent_bytes,
            took: record.took(),
        },
        rule: record.rule.map(|rule| &rule.rule().labels),
        server: record.host_label,
        upstream: record.upstream.map(|up| Upstream {
            endpoint: up.endpoint,
            status: up.status,
            connect: up.connect.duration(),
            header: up.header.duration(),
            response: up.response.duration(),
        }),
        reason: record.fault.map(Fault::label),
        clock,
        process,
    }
}
