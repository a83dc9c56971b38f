//! Subrequests: exchanges that Fairway makes itself, through the same pools and with the same attempts, for a client that is
//! not on the network.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use fairway_connection::sides::{
    BodyStep, Channel, Downstream, Failure, Persistence, RequestMeta, ResponsePlan, Upgrade,
};
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Head};
use fairway_net::clock::Instant;
use fairway_routing::CompiledRule;

use super::environment::{ClientSide, Environment, Exchange, earlier, rule_deadline};
use super::forward::forward;
use super::respond::ForwardOutcome;
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::metrics::record::ExchangeRecord;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::client::Client;
use crate::request::copy::CopyReader;
use crate::request::validation::Intake;

/// Checks a request that Fairway makes, without a body.
pub(super) fn check(buffers: &mut Buffers) -> Result<Intake, Fault> {
    check_with_body(buffers, BodySize::None)
}

/// Checks a request that Fairway makes, with a body.
pub(super) fn check_with_body(buffers: &mut Buffers, body: BodySize) -> Result<Intake, Fault> {
    let arrival = RequestMeta {
        head_bytes: 0,
        body: Ok(body),
        expects_continue: Ok(false),
        persistence: Persistence::Close,
        upgrade: Upgrade::None,
    };
    let mut intake = Intake::check(buffers, &arrival)?;
    // Even if the client's request is a gRPC call, this one is not.
    intake.dialect = Dialect::None;
    Ok(intake)
}

/// Writes the head of a gRPC call that Fairway makes, and checks it.
pub(super) fn begin_grpc_call(
    subrequest: &mut Buffers,
    authority: &str,
    path: &str,
) -> Result<Intake, Fault> {
    subrequest.request.start_request(b"POST", path.as_bytes());
    subrequest.request.append(b"Host", authority.as_bytes());
    subrequest.request.append(b"Content-Type", b"application/grpc");
    let mut intake = check_with_body(subrequest, BodySize::Unknown)?;
    // A stream may be silent.
    intake.dialect = Dialect::Native;
    Ok(intake)
}

/// A checked request that Fairway makes, and the rule that forwards it.
pub(super) struct Subrequest<'q> {
    pub(super) rule: &'q CompiledRule,
    pub(super) intake: Intake,
    /// The client for which it is made.
    pub(super) client: Client,
    /// Its head, and room for the response head.
    pub(super) buffers: &'q mut Buffers,
}

/// Forwards a subrequest. Afterwards the response head is in its buffers.
///
/// # Errors
/// No endpoint responded.
pub(super) async fn run<N: Network>(
    outer: &Environment<'_, N>,
    peer: Peer,
    subrequest: Subrequest<'_>,
    handler: &mut dyn SubrequestHandler,
) -> Result<(), Fault> {
    let Environment { worker, adopted, .. } = *outer;
    let Subrequest { rule, intake, client, buffers } = subrequest;
    let mut client_side = ClientSide::new(SubrequestClient::new(handler), peer);
    let mut record = ExchangeRecord::new(Instant::now(), 0);
    // It has at most the time left to the exchange that makes it.
    let limit = earlier(outer.limit(), rule_deadline(rule, record.started_at));
    let mut env = Environment::for_rule(worker, adopted, rule, intake, client);
    env.set_deadline(limit);
    env.is_for_fairway = true;
    buffers.body = RequestBody::without_continue(env.body_bounds(rule.rule().policy.max_body), client.trust);
    let mut exchange = Exchange { env, client_side: &mut client_side, buffers, record: &mut record };
    let outcome = forward(&mut exchange).await;
    match (outcome, record.fault) {
        (ForwardOutcome::Ended(_), None) => Ok(()),
        // A page would replace the response, whose head is in the buffers, or a failure.
        (ForwardOutcome::Replaced(_, status, _), None) if buffers.response.status() == status => Ok(()),
        (_, fault) => Err(fault.unwrap_or(Fault::Undecided)),
    }
}

/// A client that is not on the network. One type for all handlers, because all of forwarding is compiled for each type of
/// client.
pub(super) struct SubrequestClient<'b> {
    handler: &'b mut dyn SubrequestHandler,
    bytes_taken: u64,
}

impl<'b> SubrequestClient<'b> {
    pub(super) fn new(handler: &'b mut dyn SubrequestHandler) -> Self {
        Self { handler, bytes_taken: 0 }
    }
}

/// Provides the request body of a subrequest and receives its response.
pub(super) trait SubrequestHandler {
    /// As [`Channel::poll_body`].
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>>;

    /// Whether the whole body was read.
    fn is_read(&self) -> bool;

    /// The trailers of the request, once the whole body was read.
    fn trailers(&self) -> &[Trailer] {
        &[]
    }

    /// Receives an interim response.
    fn interim(&mut self, _: &Head) {}

    /// Receives the address of the endpoint that responds, before the head.
    fn set_served_by(&mut self, _: SocketAddr) {}

    /// Receives the response head and the size of its body.
    fn head(&mut self, _: &Head, _: BodySize) {}

    /// As [`Channel::poll_room`].
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        Poll::Ready(Ok(usize::MAX))
    }

    /// Receives a part of the response body; an error stops it.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        _ = bytes;
        Ok(())
    }

    /// The response is complete; these are its trailers.
    fn end<'t>(&mut self, _: &mut dyn Iterator<Item = (&'t [u8], &'t [u8])>) {}

    /// The response is truncated.
    fn abort(&mut self) {}

    /// As [`Downstream::poll_client_gone`].
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The name and the value of a trailer.
pub(super) type Trailer = (Box<[u8]>, Box<[u8]>);

/// Receives pieces of a body.
pub(super) type Sink<'s> = dyn FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure> + 's;

/// A handler without a body that only watches the client that waits for the response.
pub(super) struct BodylessHandler<'c, D>(pub(super) &'c mut D);

impl<D: Downstream> SubrequestHandler for BodylessHandler<'_, D> {
    fn poll_body(&mut self, _: &mut Context<'_>, _: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        Poll::Ready(Ok(BodyStep::End))
    }

    fn is_read(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_client_gone(cx)
    }
}

/// A mirrored request reads its body from the copy.
impl SubrequestHandler for CopyReader {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        self.poll_read(cx, sink)
    }

    fn is_read(&self) -> bool {
        self.is_complete()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_broken(cx)
    }
}

impl Channel for SubrequestClient<'_> {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, _: usize, mut sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        self.handler.poll_body(cx, &mut sink)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        self.handler.poll_room(cx)
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.bytes_taken += data.len() as u64;
        self.handler.receive(data)
    }

    fn finish<'a>(
        &mut self,
        mut trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Failure> {
        self.handler.end(&mut trailers);
        Ok(())
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.handler.trailers().iter().map(|(name, value)| (&**name, &**value))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        0
    }

    fn sent(&self) -> u64 {
        self.bytes_taken
    }

    fn open_tunnel(&mut self) {}

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }
}

impl Downstream for SubrequestClient<'_> {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn send_interim(&mut self, interim: &Head) {
        self.handler.interim(interim);
    }

    fn set_served_by(&mut self, endpoint: SocketAddr) {
        self.handler.set_served_by(endpoint);
    }

    fn send_head(&mut self, response: &mut Head, plan: &ResponsePlan) -> Persistence {
        self.handler.head(response, plan.body);
        plan.persistence
    }

    fn unread_body(&self) -> Option<u64> {
        self.handler.is_read().then_some(0)
    }

    fn poll_client_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.handler.poll_gone(cx)
    }

    fn abort(&mut self) {
        self.handler.abort();
    }
}
