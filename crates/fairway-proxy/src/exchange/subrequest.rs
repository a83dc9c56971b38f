//! An exchange within an exchange: through the same pools, with the same attempts, for a client that is not on the network.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use fairway_connection::sides::{
    AnswerPlan, Arrival, BodyStep, Channel, Downstream, Failure, Persistence, Upgrade,
};
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Head};
use fairway_net::clock::Instant;
use fairway_routing::CompiledRule;

use super::environment::{ClientSide, Environment, Exchange, earlier, limit_of_rule};
use super::forward::forward;
use super::respond::Outcome;
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::metrics::record::Record;
use crate::network::Network;
use crate::peer::Peer;
use crate::request::body::RequestBody;
use crate::request::client::Client;
use crate::request::copy::CopyReader;
use crate::request::intake::Intake;

/// Checks a request that Fairway makes: it has no body, and waits for nothing.
pub(super) fn intake(buffers: &mut Buffers) -> Result<Intake, Fault> {
    intake_with(buffers, BodySize::None)
}

/// The same for a request with a body.
pub(super) fn intake_with(buffers: &mut Buffers, body: BodySize) -> Result<Intake, Fault> {
    let arrival = Arrival {
        head_bytes: 0,
        body: Ok(body),
        expects_continue: Ok(false),
        persistence: Persistence::Close,
        upgrade: Upgrade::None,
    };
    let mut intake = Intake::check(buffers, &arrival)?;
    // Whatever the client asked: Fairway itself makes no calls.
    intake.dialect = Dialect::None;
    Ok(intake)
}

/// Writes the head of a gRPC call that Fairway makes, and checks it.
pub(super) fn begin_call(question: &mut Buffers, authority: &str, path: &str) -> Result<Intake, Fault> {
    question.request.start_request(b"POST", path.as_bytes());
    question.request.append(b"Host", authority.as_bytes());
    question.request.append(b"Content-Type", b"application/grpc");
    let mut intake = intake_with(question, BodySize::Unknown)?;
    // A stream, in which nobody need have anything to say.
    intake.dialect = Dialect::Native;
    Ok(intake)
}

/// A request that Fairway makes, checked, and the rule that it is forwarded by.
pub(super) struct Question<'q> {
    pub(super) rule: &'q CompiledRule,
    pub(super) intake: Intake,
    /// For whom it is made.
    pub(super) client: Client,
    /// Its head, and room for the answer's.
    pub(super) buffers: &'q mut Buffers,
}

/// Forwards a question. The answer's head stands in its buffers then; its body was dropped.
///
/// # Errors
/// When no endpoint answered.
pub(super) async fn run<N: Network>(
    outer: &Environment<'_, N>,
    peer: Peer,
    question: Question<'_>,
    behind: &mut dyn Behind,
) -> Result<(), Fault> {
    let Environment { worker, adopted, .. } = *outer;
    let Question { rule, intake, client, buffers } = question;
    let mut client_side = ClientSide::new(Unseen::new(behind), peer);
    let mut record = Record::new(Instant::now(), 0);
    // It has no more time than what is left to whoever asks.
    let limit = earlier(outer.limit(), limit_of_rule(rule, record.began));
    let mut env = Environment::under(worker, adopted, rule, intake, client);
    env.set_limit(limit);
    env.is_for_fairway = true;
    buffers.body = RequestBody::announced(env.body_bounds(rule.rule().policy.max_body), client.trust);
    let mut exchange = Exchange { env, client_side: &mut client_side, buffers, record: &mut record };
    let outcome = forward(&mut exchange).await;
    match (outcome, record.fault) {
        (Outcome::Ended(_), None) => Ok(()),
        // A page would take the place of the answer, whose head stands in the buffers, or of a failure.
        (Outcome::Replaced(_, status, _), None) if buffers.answer.status() == status => Ok(()),
        (_, fault) => Err(fault.unwrap_or(Fault::Undecided)),
    }
}

/// A client that is not on the network: it takes every answer. One type whoever is behind it: all
/// of forwarding is compiled for each type of client.
pub(super) struct Unseen<'b> {
    behind: &'b mut dyn Behind,
    taken: u64,
}

impl<'b> Unseen<'b> {
    pub(super) fn new(behind: &'b mut dyn Behind) -> Self {
        Self { behind, taken: 0 }
    }
}

/// Who is behind an unseen client.
pub(super) trait Behind {
    /// As [`Channel::poll_body`].
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>>;

    /// Whether all of the body was read.
    fn is_read(&self) -> bool;

    /// The trailers of the request, once all of the body was read.
    fn trailers(&self) -> &[Trailer] {
        &[]
    }

    /// An interim response came.
    fn interim(&mut self, _: &Head) {}

    /// The response whose head follows comes from this endpoint.
    fn set_served_by(&mut self, _: SocketAddr) {}

    /// The head of the response came, and this body follows.
    fn head(&mut self, _: &Head, _: BodySize) {}

    /// As [`Channel::poll_room`].
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        Poll::Ready(Ok(usize::MAX))
    }

    /// Takes a part of the answer's body, or wants no more of it.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        _ = bytes;
        Ok(())
    }

    /// The response is whole; these are its trailers.
    fn end<'t>(&mut self, _: &mut dyn Iterator<Item = (&'t [u8], &'t [u8])>) {}

    /// The response breaks off.
    fn abort(&mut self) {}

    /// As [`Downstream::poll_gone`].
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The name and the value of a trailer.
pub(super) type Trailer = (Box<[u8]>, Box<[u8]>);

/// Takes pieces of a body.
pub(super) type Sink<'s> = dyn FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure> + 's;

/// Behind a question: the client that waits for the answer. It has no body.
pub(super) struct Asker<'c, D>(pub(super) &'c mut D);

impl<D: Downstream> Behind for Asker<'_, D> {
    fn poll_body(&mut self, _: &mut Context<'_>, _: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        Poll::Ready(Ok(BodyStep::End))
    }

    fn is_read(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_gone(cx)
    }
}

/// Behind a copy: nobody but the body of the request that is copied.
impl Behind for CopyReader {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        self.poll_read(cx, sink)
    }

    fn is_read(&self) -> bool {
        self.is_whole()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_broken(cx)
    }
}

impl Channel for Unseen<'_> {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, _: usize, mut sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        self.behind.poll_body(cx, &mut sink)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        self.behind.poll_room(cx)
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.taken += data.len() as u64;
        self.behind.receive(data)
    }

    fn finish<'a>(
        &mut self,
        mut trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Failure> {
        self.behind.end(&mut trailers);
        Ok(())
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.behind.trailers().iter().map(|(name, value)| (&**name, &**value))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        0
    }

    fn sent(&self) -> u64 {
        self.taken
    }

    fn open_tunnel(&mut self) {}

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }
}

impl Downstream for Unseen<'_> {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn send_interim(&mut self, interim: &Head) {
        self.behind.interim(interim);
    }

    fn set_served_by(&mut self, endpoint: SocketAddr) {
        self.behind.set_served_by(endpoint);
    }

    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence {
        self.behind.head(answer, plan.body);
        plan.persistence
    }

    fn unread(&self) -> Option<u64> {
        self.behind.is_read().then_some(0)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.behind.poll_gone(cx)
    }

    fn abort(&mut self) {
        self.behind.abort();
    }
}
