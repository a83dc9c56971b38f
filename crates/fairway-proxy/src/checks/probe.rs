//! One health check of one endpoint, over a connection kept for the next one.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, ready};

use fairway_connection::sides::{BodyStep, Failure, HeadRead, Hop, RequestPlan, Share, Upgrade, Upstream};
use fairway_connection::upstream::CheckedEndpoint;
use fairway_http::{BodySize, Head};
use fairway_model::{BackendProtocol, Probe};
use tokio::time::timeout;

use crate::fault::Fault;
use crate::network::Network;
use crate::upstream::endpoint::EndpointIdentity;
use crate::worker::{EndpointHop, Worker};

/// Bytes of a response body that are read; longer ones are cut, which is no failure.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Bytes per read.
const READ_BYTES: usize = 16 * 1024;
/// Interim responses before the final one.
const MAX_INTERIM_RESPONSES: usize = 8;

/// Path of gRPC's health protocol (grpc/doc/health-checking.md).
const GRPC_PATH: &[u8] = b"/grpc.health.v1.Health/Check";
/// `HealthCheckResponse` with `status: SERVING`, in protobuf.
const GRPC_SERVING_MESSAGE: [u8; 2] = [0x08, 0x01];

/// Why a check did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeError {
    /// The endpoint failed.
    Endpoint(&'static str),
    /// The process or machine has no free socket, which says nothing about the endpoint.
    NoSocket,
}

/// The connection closed before the response.
const CONNECTION_CLOSED: ProbeError = ProbeError::Endpoint("it closed the connection");

/// The response to a probe.
#[derive(Default, PartialEq)]
struct ProbeResponse {
    status: u16,
    body: Vec<u8>,
    grpc_status: Option<Vec<u8>>,
}

/// Probes the endpoint once. `kept_connection` holds the connection of the last check, and receives the one for the next.
///
/// # Errors
/// The endpoint failed.
pub(super) async fn probe<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &CheckedEndpoint,
    kept_connection: &mut Option<EndpointHop<N>>,
) -> Result<(), ProbeError> {
    let check_timeout = checked.check.timeout;
    let result = timeout(check_timeout, probe_without_timeout(worker, checked, kept_connection)).await;
    result.unwrap_or(Err(ProbeError::Endpoint("the check timed out")))
}

async fn probe_without_timeout<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &CheckedEndpoint,
    kept_connection: &mut Option<EndpointHop<N>>,
) -> Result<(), ProbeError> {
    let probe = &checked.check.probe;
    if *probe == Probe::Tcp {
        let plain =
            EndpointIdentity { tls: None, protocol: BackendProtocol::Http1, ..checked.identity.clone() };
        return connect(worker, checked, &plain).await.map(|mut hop| hop.abandon());
    }
    // Taken out, so that an abandoned check drops its connection.
    let known = kept_connection.take().and_then(|mut hop| hop.is_reusable_now().then_some(hop));
    let (mut hop, was_kept) = match known {
        Some(hop) => (hop, true),
        None => (connect(worker, checked, &endpoint_identity(checked)).await?, false),
    };
    let mut response = send_over(worker, checked, &mut hop).await;
    if was_kept && response == Err(CONNECTION_CLOSED) {
        // The kept connection may have been closed for its age, which says nothing about the endpoint.
        hop = connect(worker, checked, &endpoint_identity(checked)).await?;
        response = send_over(worker, checked, &mut hop).await;
    }
    let verdict = evaluate(probe, &response?);
    if hop.is_reusable() {
        hop.release_buffers();
        *kept_connection = Some(hop);
    }
    verdict
}

/// Sends the probe over a connection, or a stream of it.
async fn send_over<N: Network>(
    worker: &Rc<Worker<N>>,
    checked: &CheckedEndpoint,
    hop: &mut EndpointHop<N>,
) -> Result<ProbeResponse, ProbeError> {
    match hop.try_share() {
        Share::Whole => exchange(worker, checked, hop).await,
        Share::Part(mut part) => exchange(worker, checked, &mut part).await,
        Share::Full => Err(ProbeError::Endpoint("its connection accepts no more requests")),
    }
}

/// gRPC probes use HTTP/2, whatever the protocol of requests.
fn endpoint_identity(checked: &CheckedEndpoint) -> EndpointIdentity {
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
    checked: &CheckedEndpoint,
    to: &EndpointIdentity,
) -> Result<EndpointHop<N>, ProbeError> {
    let adopted = worker.adopted();
    let connecting = worker.connector.start(to, adopted.identities(), checked.check.timeout);
    connecting.await.map(|connected| connected.hop).map_err(|fault| match fault {
        Fault::LocalShortage => ProbeError::NoSocket,
        _ => ProbeError::Endpoint("cannot connect"),
    })
}

fn evaluate(probe: &Probe, response: &ProbeResponse) -> Result<(), ProbeError> {
    if !probe.accepts(response.status) {
        return Err(ProbeError::Endpoint("unexpected status"));
    }
    if let Probe::Grpc { .. } = probe {
        if response.grpc_status.as_deref() != Some(b"0") {
            return Err(ProbeError::Endpoint("the status of the gRPC call is not OK"));
        }
        // A message follows a flag and its length.
        if response.body.get(5..) != Some(&GRPC_SERVING_MESSAGE) {
            return Err(ProbeError::Endpoint("it reports that it is not serving"));
        }
    }
    Ok(())
}

/// Sends a request and reads the whole response.
async fn exchange<N: Network, U: Upstream>(
    worker: &Rc<Worker<N>>,
    checked: &CheckedEndpoint,
    up: &mut U,
) -> Result<ProbeResponse, ProbeError> {
    let mut buffers = worker.lend_buffers();
    let message = write_head(&mut buffers.request, checked);
    let target = match &checked.check.probe {
        Probe::Http { path, .. } => path.as_bytes(),
        Probe::Grpc { .. } | Probe::Tcp => GRPC_PATH,
    };
    let body = if message.is_some() { BodySize::Unknown } else { BodySize::None };
    let plan = RequestPlan { target, body, upgrade: Upgrade::None, http10: false, connection: None };
    up.send_request(&buffers.request, &plan);
    let (mut response, mut unsent, mut interim) = (ProbeResponse::default(), message, 0);
    let limits = worker.options.limits.head();
    poll_fn(|cx| {
        if let Some(message) = unsent.take() {
            up.send_data(cx, &message).map_err(|_| CONNECTION_CLOSED)?;
            up.finish(std::iter::empty()).map_err(|_| CONNECTION_CLOSED)?;
        }
        if up.queued() > 0
            && let Poll::Ready(Err(_)) = up.poll_flush(cx)
        {
            return Poll::Ready(Err(CONNECTION_CLOSED));
        }
        loop {
            match ready!(up.poll_response(cx, &mut buffers.response, &limits)) {
                HeadRead::Whole(_) if buffers.response.status() >= 200 => return Poll::Ready(Ok(())),
                HeadRead::Whole(_) if interim < MAX_INTERIM_RESPONSES => interim += 1,
                HeadRead::Closed | HeadRead::Cut | HeadRead::Unreachable => {
                    return Poll::Ready(Err(CONNECTION_CLOSED));
                }
                _ => return Poll::Ready(Err(ProbeError::Endpoint("it sent no valid HTTP response"))),
            }
        }
    })
    .await?;
    response.status = buffers.response.status();
    response.grpc_status = buffers.response.all_named(b"grpc-status").next().map(<[u8]>::to_vec);
    poll_fn(|cx| {
        loop {
            let ProbeResponse { body, .. } = &mut response;
            let step = up.poll_body(cx, READ_BYTES, |_, bytes| {
                if body.len() + bytes.len() > MAX_BODY_BYTES {
                    return Err(Failure::Refused);
                }
                body.extend_from_slice(bytes);
                Ok(())
            });
            match ready!(step) {
                Ok(BodyStep::End) => return Poll::Ready(Ok(())),
                Ok(_) => {}
                Err(Failure::Refused) => return Poll::Ready(Ok(())),
                Err(_) => return Poll::Ready(Err(ProbeError::Endpoint("its response was truncated"))),
            }
        }
    })
    .await?;
    if response.grpc_status.is_none() {
        let mut trailers = up.trailers().filter(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"));
        response.grpc_status = trailers.next().map(|(_, value)| value.to_vec());
    }
    Ok(response)
}

/// Writes the request head; returns the body of a gRPC call.
fn write_head(head: &mut Head, checked: &CheckedEndpoint) -> Option<Vec<u8>> {
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
            Some(grpc_message(service))
        }
        Probe::Tcp => None,
    }
}

/// A gRPC message with `HealthCheckRequest`, whose only field is the service.
fn grpc_message(service: &str) -> Vec<u8> {
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
