//! Asks a service over gRPC whether a request may pass (`envoy.service.auth.v3.Authorization/Check`). Only a valid decision
//! lets a request pass, unless the rule allows requests when the service fails.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::SystemTime;

use fairway_connection::sides::{BodyStep, Downstream, Failure};
use fairway_extension::authorization::{self, Allowed, CHECK_PATH, CheckedRequest, Decision, Denied};
use fairway_extension::change;
use fairway_extension::frame::FrameReader;
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Known};
use fairway_net::clock::Instant;
use fairway_routing::GrpcAuthCheck;

use super::auth_subrequest::AuthOutcome;
use super::environment::{ClientSide, Exchange};
use super::subrequest::{self, Sink, Subrequest, SubrequestHandler};
use super::transact::send_continue;
use crate::fault::Fault;
use crate::filter::{escaped_pem, start_own_response};
use crate::grpc::{dialect_of, status_of};
use crate::network::Network;
use crate::worker::BuffersLease;

/// The longest response of a service, in bytes.
const MAX_RESPONSE_BYTES: u32 = 1024 * 1024;

/// Asks the service. On [`AuthOutcome::Allowed`] its changes have been applied to the request; on [`AuthOutcome::Denied`] the
/// response is in the buffers.
pub(super) async fn check<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth_check: &GrpcAuthCheck,
) -> AuthOutcome {
    let body = match read_body_prefix(exchange, auth_check).await {
        Ok(body) => body,
        Err(fault) => return AuthOutcome::Failed(fault),
    };
    match call_service(exchange, auth_check, body).await {
        Ok(Decision::Allow(allowed)) => {
            exchange.env.worker.counters.count_authorization_check("allowed");
            allow(exchange, allowed)
        }
        Ok(Decision::Deny(denied)) => {
            exchange.env.worker.counters.count_authorization_check("denied");
            deny(exchange, &denied)
        }
        Err(Fault::ClientGone) => AuthOutcome::Failed(Fault::ClientGone),
        Err(_) if exchange.env.is_overdue() => AuthOutcome::Failed(exchange.env.overdue_fault()),
        Err(_) if auth_check.auth.failure_mode_allow => {
            exchange.env.worker.counters.count_authorization_check("failed_open");
            AuthOutcome::Allowed
        }
        Err(_) => {
            exchange.env.worker.counters.count_authorization_check("failed_closed");
            AuthOutcome::Failed(Fault::Undecided)
        }
    }
}

/// How much of the request body the check includes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IncludedBody {
    None,
    Whole,
    Partial,
}

/// Reads as much of the body as the check includes.
async fn read_body_prefix<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth_check: &GrpcAuthCheck,
) -> Result<IncludedBody, Fault> {
    let auth = &auth_check.auth;
    let max_bytes = auth.max_body as usize;
    if max_bytes == 0 || exchange.env.intake.body == BodySize::None || exchange.env.intake.dialect.is_web() {
        return Ok(IncludedBody::None);
    }
    let is_longer = |length| length > u64::from(auth.max_body);
    if !auth.allow_partial_body
        && matches!(exchange.env.intake.body, BodySize::Exact(length) if is_longer(length))
    {
        return Err(Fault::BodyTooLarge);
    }
    send_continue(exchange);
    let Exchange { env, client_side, buffers, .. } = exchange;
    let ClientSide { down, deadline, .. } = &mut **client_side;
    let idle_timeout = env.worker.options.limits.body_idle;
    let mut prefix = None;
    // One more byte tells a complete body from a longer one.
    let room = if auth.allow_partial_body { max_bytes } else { max_bytes + 1 };
    let read_result = poll_fn(|cx| {
        if down.queued() > 0 && matches!(down.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Err(Fault::ClientGone));
        }
        if let Poll::Ready(read) = buffers.body.poll_prefix(cx, down, &mut buffers.replay, room) {
            return Poll::Ready(read);
        }
        if prefix != Some(buffers.body.received()) {
            prefix = Some(buffers.body.received());
            env.arm(deadline, Instant::now(), idle_timeout);
        }
        deadline
            .poll_passed(cx)
            .map(|()| Err(if env.is_overdue() { env.overdue_fault() } else { Fault::ClientTimeout }))
    })
    .await?;
    match read_result {
        true => Ok(IncludedBody::Whole),
        false if auth.allow_partial_body => Ok(IncludedBody::Partial),
        false => Err(Fault::BodyTooLarge),
    }
}

/// Calls the service and reads its decision.
async fn call_service<N: Network, D: Downstream>(
    exchange: &mut Exchange<'_, '_, N, D>,
    auth_check: &GrpcAuthCheck,
    body: IncludedBody,
) -> Result<Decision, Fault> {
    let message = check_message(exchange, auth_check, body);
    let mut subrequest = exchange.env.worker.lend_buffers();
    let intake =
        subrequest::begin_grpc_call(&mut subrequest, &auth_check.auth.service.authority, CHECK_PATH)?;
    let Exchange { env, client_side, .. } = exchange;
    let peer = client_side.peer.clone();
    let mut call = UnaryCall {
        down: &mut client_side.down,
        message: Some(message),
        frames: FrameReader::new(MAX_RESPONSE_BYTES),
        messages: Vec::new(),
        status: None,
        is_broken: false,
    };
    let grpc_call =
        Subrequest { rule: &auth_check.rule, intake, client: env.client, buffers: &mut subrequest };
    let run = subrequest::run(env, peer, grpc_call, &mut call).await;
    if call.is_broken {
        return Err(Fault::Undecided);
    }
    run?;
    let UnaryCall { frames, messages, status, .. } = call;
    match &messages[..] {
        [message] if frames.is_between_messages() => {
            parse_decision(&subrequest, message, status).ok_or(Fault::Undecided)
        }
        _ => Err(Fault::Undecided),
    }
}

/// The decision in a response; `None` if it cannot be used.
fn parse_decision<N: Network>(
    subrequest: &BuffersLease<N>,
    message: &[u8],
    status: Option<u32>,
) -> Option<Decision> {
    if subrequest.response.status() != 200
        || status != Some(0)
        || dialect_of(&subrequest.response) != Dialect::Native
    {
        return None;
    }
    let decision = authorization::read_decision(message);
    if let Err(why) = &decision {
        tracing::debug!(%why, "the response of the authorization service cannot be used");
    }
    decision.ok()
}

/// Writes the `CheckRequest` message.
fn check_message<N: Network, D: Downstream>(
    exchange: &Exchange<'_, '_, N, D>,
    auth_check: &GrpcAuthCheck,
    body: IncludedBody,
) -> Vec<u8> {
    let Exchange { env, client_side, buffers, .. } = exchange;
    let peer = &client_side.peer;
    let shown =
        peer.proof().and_then(|proof| proof.certificate.as_ref()).filter(|shown| shown.verdict.is_ok());
    let certificate = shown.map(|shown| escaped_pem(&shown.der));
    let message_body = match body {
        IncludedBody::None => &[][..],
        _ => &buffers.replay[..buffers.replay.len().min(auth_check.auth.max_body as usize)],
    };
    let size = match env.intake.body {
        BodySize::None => Some(0),
        BodySize::Exact(length) => Some(length),
        BodySize::Unknown => (body == IncludedBody::Whole).then_some(message_body.len() as u64),
    };
    let checked = CheckedRequest {
        head: &buffers.request,
        sent: &auth_check.auth.sent,
        method: buffers.request.method_bytes(),
        path: env.intake.received(buffers),
        host: buffers.request.first(Known::Host).unwrap_or_default(),
        scheme: env.client.scheme.as_str(),
        protocol: protocol(env.intake.version),
        body: message_body,
        is_body_partial: body == IncludedBody::Partial,
        size,
        time: SystemTime::now(),
        id: "",
        source: env.client.address.map(|address| SocketAddr::new(address, 0)),
        // The local address is left out: it would cost a system call for each request.
        destination: Some(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), env.client.link_port)),
        server_name: peer.proof().map(|proof| &*proof.host),
        certificate: certificate.as_deref(),
        principal: shown.map(|shown| &*shown.subject),
    };
    authorization::check_request(&checked, &auth_check.auth.context)
}

/// The version of HTTP as `envoy.service.auth.v3.AttributeContext.HttpRequest.protocol` writes it.
pub(super) fn protocol(version: fairway_http::Version) -> &'static str {
    match version {
        fairway_http::Version::Http10 => "HTTP/1.0",
        fairway_http::Version::Http11 => "HTTP/1.1",
        fairway_http::Version::Http2 => "HTTP/2",
        fairway_http::Version::Http3 => "HTTP/3",
    }
}

fn allow<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, allowed: Allowed) -> AuthOutcome {
    let Exchange { env, buffers, .. } = exchange;
    for name in &allowed.remove {
        buffers.request.remove(name.as_bytes());
    }
    change::apply(&allowed.headers, &mut buffers.request);
    if !allowed.set_query.is_empty() || !allowed.remove_query.is_empty() {
        let target = env.intake.forwarded(buffers).to_vec();
        buffers.extras.write().target = with_query(&target, &allowed);
    }
    if !allowed.response_headers.is_empty() {
        buffers.extras.write().auth_response_changes.extend(allowed.response_headers);
    }
    AuthOutcome::Allowed
}

/// The target with the query parameters that the service set or removed. Names are compared as written.
fn with_query(target: &[u8], allowed: &Allowed) -> Vec<u8> {
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    let Allowed { set_query, remove_query, .. } = allowed;
    let goes = |pair: &&[u8]| {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        let is = |other: &str| other.as_bytes() == name;
        remove_query.iter().any(|other| is(other)) || set_query.iter().any(|(other, _)| is(other))
    };
    let mut changed = path.to_vec();
    let mut between = b'?';
    for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty() && !goes(pair)) {
        changed.push(between);
        changed.extend_from_slice(pair);
        between = b'&';
    }
    for (name, value) in set_query {
        changed.push(between);
        for part in form_urlencoded::byte_serialize(name.as_bytes()) {
            changed.extend_from_slice(part.as_bytes());
        }
        changed.push(b'=');
        for part in form_urlencoded::byte_serialize(value.as_bytes()) {
            changed.extend_from_slice(part.as_bytes());
        }
        between = b'&';
    }
    changed
}

fn deny<N: Network, D>(exchange: &mut Exchange<'_, '_, N, D>, denied: &Denied) -> AuthOutcome {
    let Exchange { buffers, record, .. } = exchange;
    record.fault = Some(Fault::Denied(denied.status));
    start_own_response(buffers, denied.status, Some(Fault::Denied(denied.status).label()));
    buffers.text.clear();
    buffers.text.extend_from_slice(&denied.body);
    if denied.body.is_empty() {
        buffers.response.remove_known(Known::ContentType);
    }
    change::apply(&denied.headers, &mut buffers.response);
    AuthOutcome::Denied(denied.status)
}

/// A gRPC call with one message in each direction.
struct UnaryCall<'c, D> {
    down: &'c mut D,
    message: Option<Vec<u8>>,
    frames: FrameReader,
    messages: Vec<Vec<u8>>,
    status: Option<u32>,
    /// Whether the response is invalid; the rest of it is not read.
    is_broken: bool,
}

impl<D: Downstream> SubrequestHandler for UnaryCall<'_, D> {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        Poll::Ready(match self.message.take() {
            Some(message) => sink(cx, &message).map(|()| BodyStep::More),
            None => Ok(BodyStep::End),
        })
    }

    fn is_read(&self) -> bool {
        self.message.is_none()
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Self { frames, messages, .. } = self;
        let take = |message: &[u8]| {
            messages.push(message.to_vec());
            messages.len() < 2
        };
        let fed = frames.feed(bytes, take);
        self.is_broken |= fed.is_err();
        fed.map_err(|_| Failure::Refused)
    }

    fn end<'t>(&mut self, trailers: &mut dyn Iterator<Item = (&'t [u8], &'t [u8])>) {
        self.status = status_of(trailers);
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.down.poll_client_gone(cx)
    }
}
