//! One check of one endpoint, over a connection that is kept for the next one.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, ready};

use fairway_connection::sides::{BodyStep, Failure, HeadRead, Hop, RequestPlan, Share, Upgrade, Upstream};
use fairway_connection::upstream::Checked;
use fairway_http::{BodySize, Head};
use fairway_model::{BackendProtocol, Probe};
use tokio::time::timeout;

use crate::fault::Fault;
use crate::network::Network;
use crate::upstream::endpoint::EndpointIdentity;
use crate::worker::{ToEndpoint, Worker};

/// The longest body of a response that is read; longer ones are cut, which is no failure.
const MAX_BODY: usize = 64 * 1024;
/// Taken at a time.
const PIECE: usize = 16 * 1024;
/// Interim responses before the final one.
const MAX_INTERIM: usize = 8;

/// Of gRPC's health protocol (grpc/doc/health-checking.md).
const GRPC_PATH: &[u8] = b"/grpc.health.v1.Health/Check";
/// `HealthCheckResponse` with `status: SERVING`, in protobuf.
const SERVING: [u8; 2] = [0x08, 0x01];

/// Why there is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The endpoint failed.
    Endpoint(&'static str),
    /// This process or its machine has no socket left, which says nothing of the endpoint.
    NoSocket,
}

/// The connection ended before the response.
const BROKEN: Problem = Problem::Endpoint("it closed the connection");

/// What a response says.
#[derive(Default, PartialEq)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    grpc_status: Option<Vec<u8>>,
}

/// Asks the endpoint once. `kept` has the connection of the last check, and gets the one for the next.
///
/// # Errors
/// The endpoint failed.
pub(super) async fn ask<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &Checked,
    kept: &mut Option<ToEndpoint<N>>,
) -> Result<(), Problem> {
    let patience = checked.check.timeout;
    let asked = timeout(patience, ask_in_time(worker, checked, kept)).await;
    asked.unwrap_or(Err(Problem::Endpoint("it did not answer in time")))
}

async fn ask_in_time<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &Checked,
    kept: &mut Option<ToEndpoint<N>>,
) -> Result<(), Problem> {
    let probe = &checked.check.probe;
    if *probe == Probe::Tcp {
        let plain =
            EndpointIdentity { tls: None, protocol: BackendProtocol::Http1, ..checked.identity.clone() };
        return connect(worker, checked, &plain).await.map(|mut hop| hop.abandon());
    }
    // Taken: a check that is given up takes its connection along.
    let known = kept.take().and_then(|mut hop| hop.is_quiet().then_some(hop));
    let (mut hop, was_kept) = match known {
        Some(hop) => (hop, true),
        None => (connect(worker, checked, &spoken_to(checked)).await?, false),
    };
    let mut answer = over(worker, checked, &mut hop).await;
    if was_kept && answer == Err(BROKEN) {
        // It may have been closed for its age just then, which says nothing of the endpoint.
        hop = connect(worker, checked, &spoken_to(checked)).await?;
        answer = over(worker, checked, &mut hop).await;
    }
    let verdict = judge(probe, &answer?);
    if hop.is_reusable() {
        hop.rest();
        *kept = Some(hop);
    }
    verdict
}

/// Asks over a connection, or a part of it.
async fn over<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &Checked,
    hop: &mut ToEndpoint<N>,
) -> Result<Answer, Problem> {
    match hop.share() {
        Share::Whole => exchange(worker, checked, hop).await,
        Share::Part(mut part) => exchange(worker, checked, &mut part).await,
        Share::Full => Err(Problem::Endpoint("its connection takes no more requests")),
    }
}

/// gRPC is spoken over HTTP/2, whatever requests get.
fn spoken_to(checked: &Checked) -> EndpointIdentity {
    let identity = &checked.identity;
    let protocol = match (&checked.check.probe, &identity.tls) {
        (Probe::Grpc { .. }, None) => BackendProtocol::H2c,
        (Probe::Grpc { .. }, Some(_)) => BackendProtocol::Http2,
        _ => identity.protocol,
    };
    EndpointIdentity { protocol, ..identity.clone() }
}

async fn connect<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &Checked,
    to: &EndpointIdentity,
) -> Result<ToEndpoint<N>, Problem> {
    let adopted = worker.adopted();
    let connecting = worker.connector.start(to, adopted.identities(), checked.check.timeout);
    connecting.await.map(|connected| connected.hop).map_err(|fault| match fault {
        Fault::LocalShortage => Problem::NoSocket,
        _ => Problem::Endpoint("no connection can be made"),
    })
}

fn judge(probe: &Probe, answer: &Answer) -> Result<(), Problem> {
    if !probe.accepts(answer.status) {
        return Err(Problem::Endpoint("its status is none that is expected"));
    }
    if let Probe::Grpc { .. } = probe {
        if answer.grpc_status.as_deref() != Some(b"0") {
            return Err(Problem::Endpoint("its call has not the status OK"));
        }
        // A message is behind a flag and its length.
        if answer.body.get(5..) != Some(&SERVING) {
            return Err(Problem::Endpoint("it says that it does not serve"));
        }
    }
    Ok(())
}

/// Sends a request, and reads the response to its end.
async fn exchange<N: Network, U: Upstream>(
    worker: &Rc<Worker<N>>,
    checked: &Checked,
    up: &mut U,
) -> Result<Answer, Problem> {
    let mut buffers = worker.lend_buffers();
    let message = write_head(&mut buffers.request, checked);
    let target = match &checked.check.probe {
        Probe::Http { path, .. } => path.as_bytes(),
        Probe::Grpc { .. } | Probe::Tcp => GRPC_PATH,
    };
    let body = if message.is_some() { BodySize::Unknown } else { BodySize::None };
    let plan = RequestPlan { target, body, upgrade: Upgrade::None, http10: false, connection: None };
    up.send_request(&buffers.request, &plan);
    let (mut answer, mut unsent, mut interim) = (Answer::default(), message, 0);
    let limits = worker.options.limits.head();
    poll_fn(|cx| {
        if let Some(message) = unsent.take() {
            up.send_data(cx, &message).map_err(|_| BROKEN)?;
            up.finish(std::iter::empty()).map_err(|_| BROKEN)?;
        }
        if up.queued() > 0
            && let Poll::Ready(Err(_)) = up.poll_flush(cx)
        {
            return Poll::Ready(Err(BROKEN));
        }
        loop {
            match ready!(up.poll_answer(cx, &mut buffers.answer, &limits)) {
                HeadRead::Whole(_) if buffers.answer.status() >= 200 => return Poll::Ready(Ok(())),
                HeadRead::Whole(_) if interim < MAX_INTERIM => interim += 1,
                HeadRead::Closed | HeadRead::Cut | HeadRead::Unreachable => return Poll::Ready(Err(BROKEN)),
                _ => return Poll::Ready(Err(Problem::Endpoint("what it sends is no HTTP"))),
            }
        }
    })
    .await?;
    answer.status = buffers.answer.status();
    answer.grpc_status = buffers.answer.all_named(b"grpc-status").next().map(<[u8]>::to_vec);
    poll_fn(|cx| {
        loop {
            let Answer { body, .. } = &mut answer;
            let step = up.poll_body(cx, PIECE, |_, bytes| {
                if body.len() + bytes.len() > MAX_BODY {
                    return Err(Failure::Refused);
                }
                body.extend_from_slice(bytes);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::End) => return Poll::Ready(Ok(())),
                Ok(_) => {}
                Err(Failure::Refused) => return Poll::Ready(Ok(())),
                Err(_) => return Poll::Ready(Err(Problem::Endpoint("its response breaks off"))),
            }
        }
    })
    .await?;
    if answer.grpc_status.is_none() {
        let mut trailers = up.trailers().filter(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"));
        answer.grpc_status = trailers.next().map(|(_, value)| value.to_vec());
    }
    Ok(answer)
}

/// Writes the head; gives the body of a call.
fn write_head(head: &mut Head, checked: &Checked) -> Option<Vec<u8>> {
    let address = checked.identity.address.to_string();
    match &checked.check.probe {
        Probe::Http { path, host, .. } => {
            head.start_request(b"GET", path.as_bytes());
            head.append(b"Host", host.as_deref().unwrap_or(&address).as_bytes());
            head.append(b"User-Agent", b"fairway");
            None
        }
        Probe::Grpc { service } => {
            head.start_request(b"POST", GRPC_PATH);
            head.append(b"Host", address.as_bytes());
            head.append(b"Content-Type", b"application/grpc");
            head.append(b"User-Agent", b"fairway");
            Some(call(service))
        }
        Probe::Tcp => None,
    }
}

/// A message of gRPC with `HealthCheckRequest`, whose only field is the service.
fn call(service: &str) -> Vec<u8> {
    let mut request = Vec::new();
    if !service.is_empty() {
        request.push(0x0a);
        let mut length = service.len();
        while length > 0x7f {
            request.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        request.push(length as u8);
        request.extend_from_slice(service.as_bytes());
    }
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(request.len()).unwrap_or(u32::MAX).to_be_bytes());
    message.extend_from_slice(&request);
    message
}
