//! One stream: both directions, the service's messages, and how the stream ends.

use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Head;
use fairway_model::Extension;
use prost::Message;

use super::direction::{Direction, MAX_HELD, Replacement, Stage};
use super::event::{Awaited, Counts, Event, ExchangeFacts, Side, Trailers};
use super::failure::{Failure, ImmediateResponse, Stop};
use super::head::HeadChange;
use super::message;
use super::outbox::{Outbox, Wait};
use super::phases::Override;
use super::prepared::Prepared;
use super::rules::{self, Part};
use crate::frame::Frames;
use crate::generated::body_mutation::Mutation;
use crate::generated::common_response::ResponseStatus;
use crate::generated::processing_response::Response;
use crate::generated::value::Kind;
use crate::generated::{
    self, BodyResponse, HeadersResponse, Metadata, ProcessingMode, ProcessingRequest, ProcessingResponse,
    Struct, Value,
};

/// The longest message that a service may send, in bytes: the limit that implementations of gRPC have.
pub const MAX_MESSAGE: u32 = 4 * 1024 * 1024;

/// How many times `message_timeout` a service may ask for.
const MAX_EXTENSION: u32 = 10;

/// The namespace and the field of the dynamic metadata in which an endpoint picker names endpoints (Gateway API Inference Extension).
const PICKED_NAMESPACE: &str = "envoy.lb";
const PICKED: &str = "x-gateway-destination-endpoint";

/// The field of the same namespace in which the picker reads which endpoint served the request.
const SERVED: &str = "x-gateway-destination-endpoint-served";

/// The longest list of endpoints that a picker may name, in bytes.
const MAX_PICKED: usize = 4 * 1024;

/// Whether the service takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// It is left out; everything passes.
    Bypassed,
    Stopped,
}

/// One stream.
#[derive(Debug)]
pub struct Processor {
    state: State,
    request: Direction,
    response: Direction,
    outbox: Outbox,
    frames: Frames,
    stop: Option<Stop>,
    failure: Option<Failure>,
    picked: Option<Box<str>>,
    served_by: Option<SocketAddr>,
    received: u64,
    refused: u64,
}

impl Processor {
    /// A stream that nothing was sent on. [`Processor::from_prepared`] does not encode the configuration again.
    #[must_use]
    pub fn new(extension: Arc<Extension>) -> Self {
        Self::from_prepared(Arc::new(Prepared::new(extension)))
    }

    /// A stream that shares what was encoded.
    #[must_use]
    pub fn from_prepared(prepared: Arc<Prepared>) -> Self {
        Processor {
            state: State::Open,
            request: Direction::new(Side::Request, prepared.extension.request),
            response: Direction::new(Side::Response, prepared.extension.response),
            outbox: Outbox::new(prepared),
            frames: Frames::new(MAX_MESSAGE),
            stop: None,
            failure: None,
            picked: None,
            served_by: None,
            received: 0,
            refused: 0,
        }
    }

    /// Takes the head of the request. `has_body: false` is its end as well: [`Event::End`] follows without [`Processor::end`].
    pub fn request_head(&mut self, head: &Head, facts: &ExchangeFacts<'_>, has_body: bool) {
        if self.state == State::Stopped {
            return;
        }
        if self.state == State::Open {
            self.outbox.set_attributes(Prepared::attributes(facts.attributes));
        }
        let asked = self.request.phases.headers.then(|| {
            let write = |extra: &[&[u8]]| message::request_headers(head, facts, !has_body, extra);
            self.outbox.headers(Side::Request, write)
        });
        self.request.head(has_body, asked);
        self.advance(Side::Request);
    }

    /// The response whose head follows comes from this endpoint. An endpoint picker reads it in the dynamic metadata of the response's
    /// head; other services are not told.
    pub fn set_served_by(&mut self, endpoint: SocketAddr) {
        self.served_by = self.outbox.prepared.extension.picks_endpoint.then_some(endpoint);
    }

    /// Takes the head of the response, not of an interim one.
    pub fn response_head(&mut self, head: &Head, has_body: bool) {
        if self.state == State::Stopped {
            return;
        }
        let served = self.served_by.map(served_metadata).unwrap_or_default();
        let asked = self.response.phases.headers.then(|| {
            let write = |extra: &[&[u8]]| match served.is_empty() {
                true => message::response_headers(head, !has_body, extra),
                false => message::response_headers(head, !has_body, &[extra, &[&served]].concat()),
            };
            self.outbox.headers(Side::Response, write)
        });
        self.response.head(has_body, asked);
        self.advance(Side::Response);
    }

    /// Takes a piece of a body. Call only while `room(side) > 0`.
    pub fn write(&mut self, side: Side, piece: &[u8]) {
        if self.state != State::Stopped {
            self.direction(side).write(piece);
            self.advance(side);
        }
    }

    /// Takes the end of a message with a body.
    pub fn end(&mut self, side: Side, trailers: Trailers) {
        if self.state != State::Stopped {
            self.direction(side).end(trailers);
            self.advance(side);
        }
    }

    /// The bytes that may be written now: 0 while what was taken waits for the service or for the other side of the pipe, and after
    /// the end. A piece of any length may be written while it is not 0; one that is longer is held as well.
    #[must_use]
    pub fn room(&self, side: Side) -> usize {
        match (self.state, side) {
            (State::Stopped, _) => 0,
            (_, Side::Request) => self.request.room(&self.outbox),
            (_, Side::Response) => self.response.room(&self.outbox),
        }
    }

    /// Whether the rest of a body goes by unchanged and unseen, so that it need not be written here. Trailers and the end are then
    /// the sender's as well.
    #[must_use]
    pub fn is_transparent(&self, side: Side) -> bool {
        match side {
            Side::Request => self.request.is_transparent(),
            Side::Response => self.response.is_transparent(),
        }
    }

    /// Whether bytes of the service may be received now: `false` while many of its own pieces wait for [`Processor::next`].
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.request.backlog() < MAX_HELD && self.response.backlog() < MAX_HELD
    }

    /// Takes bytes of the service, in any split.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.state != State::Open {
            return;
        }
        let mut frames = mem::replace(&mut self.frames, Frames::new(0));
        let fed = frames.feed(bytes, |message| {
            self.message(message);
            self.state == State::Open
        });
        if fed.is_err() {
            self.fail(Failure::Malformed);
        }
        if self.state == State::Open {
            self.frames = frames;
        }
    }

    /// The service ended the stream with this `grpc-status`; `None` when it broke off, could not be reached, or is not gRPC. With
    /// status 0 it is content: everything passes from here.
    pub fn closed(&mut self, status: Option<u32>) {
        if self.state != State::Open || self.is_finished() {
            return;
        }
        match status {
            None => self.fail(Failure::Unreachable),
            Some(0) if !self.frames.is_between_messages() => self.fail(Failure::Malformed),
            Some(0) if self.is_recoverable() => self.bypass(),
            Some(status) => self.fail(Failure::Status(status)),
        }
    }

    /// The service is late: what [`Processor::awaited`] says did not come in time.
    pub fn timed_out(&mut self) {
        if self.awaited().is_some() {
            self.fail(Failure::Timeout);
        }
    }

    /// The next message for the service, framed. Take it only when it can be sent: what is not taken counts as held.
    pub fn take_message(&mut self) -> Option<Vec<u8>> {
        self.outbox.take()
    }

    /// Nothing more will be sent, and nothing is awaited: the stream may be half-closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_complete = self.request.is_complete() && self.response.is_complete();
        self.state != State::Open || (is_complete && self.outbox.is_empty())
    }

    /// The next thing that goes on in a direction.
    pub fn next(&mut self, side: Side) -> Option<Event> {
        let accepted = self.accepts();
        let event = self.direction(side).next();
        if !accepted && self.accepts() {
            // The service could not be heard meanwhile.
            self.request.renew_wait(&mut self.outbox);
            self.response.renew_wait(&mut self.outbox);
        }
        event
    }

    /// Why the exchange must end now; once. After it, nothing goes on and nothing is taken.
    pub fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take()
    }

    /// What the service is waited for; `None` while nothing is. Where both directions wait, it is the wait that began first.
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        if !self.accepts() {
            return None;
        }
        let waits = [self.request.awaited(&self.outbox), self.response.awaited(&self.outbox)];
        let first = waits.into_iter().flatten().min_by_key(|wait| wait.serial)?;
        Some(Awaited { serial: first.serial, timeout: first.timeout })
    }

    /// Whether the service is no longer asked, because it failed and may be left out, or ended the stream: everything passes.
    #[must_use]
    pub fn is_bypassed(&self) -> bool {
        self.state == State::Bypassed
    }

    /// The failure that stopped the exchange, or after which the service was left out.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The endpoints that an endpoint picker chose: `x-gateway-destination-endpoint` of the dynamic metadata.
    #[must_use]
    pub fn picked(&self) -> Option<&str> {
        self.picked.as_deref()
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { sent: self.outbox.sent, received: self.received, refused: self.refused }
    }

    /// The bytes that are held, in both directions and of the service.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let outbox = self.outbox.bytes(Side::Request) + self.outbox.bytes(Side::Response);
        self.request.held_bytes() + self.response.held_bytes() + outbox + self.frames.held_bytes()
    }

    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Request => &mut self.request,
            Side::Response => &mut self.response,
        }
    }

    fn advance(&mut self, side: Side) {
        let advanced = match side {
            Side::Request => self.request.advance(&mut self.outbox),
            Side::Response => self.response.advance(&mut self.outbox),
        };
        if let Err(failure) = advanced {
            self.fail(failure);
        }
    }

    fn message(&mut self, message: &[u8]) {
        self.received += 1;
        let Ok(response) = ProcessingResponse::decode(message) else {
            return self.fail(Failure::Malformed);
        };
        if let Err(failure) = self.answer(response) {
            self.fail(failure);
        }
    }

    fn answer(&mut self, response: ProcessingResponse) -> Result<(), Failure> {
        if let Some(picked) = response.dynamic_metadata.as_ref().and_then(find_picked) {
            self.picked = Some(picked.into());
        }
        // Whatever else such a message says is ignored.
        if let Some(timeout) = response.override_message_timeout {
            self.extend(timeout);
            return Ok(());
        }
        let mode = response.mode_override;
        match response.response.ok_or(Failure::OutOfOrder)? {
            Response::RequestHeaders(answer) => self.answer_headers(Side::Request, answer, mode),
            Response::ResponseHeaders(answer) => self.answer_headers(Side::Response, answer, mode),
            Response::RequestBody(answer) => self.answer_body(Side::Request, answer),
            Response::ResponseBody(answer) => self.answer_body(Side::Response, answer),
            Response::RequestTrailers(answer) => self.answer_trailers(Side::Request, answer.header_mutation),
            Response::ResponseTrailers(answer) => {
                self.answer_trailers(Side::Response, answer.header_mutation)
            }
            Response::ImmediateResponse(response) => self.answer_immediately(response),
        }
    }

    /// Gives the wait that began first another timeout, once.
    fn extend(&mut self, timeout: generated::Duration) {
        let most = self.extension().message_timeout.saturating_mul(MAX_EXTENSION);
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(timeout.seconds), u32::try_from(timeout.nanos)) else {
            return;
        };
        let timeout = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()));
        if timeout < Duration::from_millis(1) || timeout > most {
            return;
        }
        let begun = self.outbox.begin_wait();
        let waits = [&mut self.request, &mut self.response].into_iter().filter_map(Direction::wait_mut);
        let first = waits.filter(|wait| !wait.is_extended).min_by_key(|wait| wait.serial);
        if let Some(wait) = first {
            *wait = Wait { timeout, is_extended: true, ..begun };
        }
    }

    fn answer_headers(
        &mut self,
        side: Side,
        answer: HeadersResponse,
        mode: Option<ProcessingMode>,
    ) -> Result<(), Failure> {
        if self.direction(side).stage != Stage::HeadersAsked {
            return Err(Failure::OutOfOrder);
        }
        let answer = answer.response.unwrap_or_default();
        let status = ResponseStatus::try_from(answer.status).map_err(|_| Failure::Malformed)?;
        let part = if side == Side::Request { Part::RequestHead } else { Part::ResponseHead };
        let change = self.read(answer.header_mutation, part)?;
        let mutation = answer.body_mutation.and_then(|body| body.mutation);
        let replaced = match (status, mutation) {
            (ResponseStatus::Continue, None) => None,
            (ResponseStatus::ContinueAndReplace, Some(Mutation::Body(body))) => Some(body),
            (ResponseStatus::ContinueAndReplace, None | Some(Mutation::ClearBody(_))) => Some(Vec::new()),
            // A body that was never asked about cannot be changed, only replaced.
            (ResponseStatus::Continue, Some(_))
            | (ResponseStatus::ContinueAndReplace, Some(Mutation::StreamedResponse(_))) => {
                return Err(Failure::Malformed);
            }
        };
        if let Some(mode) = mode.filter(|_| self.extension().allow_mode_override && replaced.is_none()) {
            self.override_phases(side, &mode);
        }
        self.direction(side).answer_headers(change, replaced);
        self.advance(side);
        Ok(())
    }

    /// Changes the phases that are still ahead when the head of `side` is answered.
    fn override_phases(&mut self, side: Side, mode: &ProcessingMode) {
        let request = Override {
            headers: mode.request_header_mode,
            body: mode.request_body_mode,
            trailers: mode.request_trailer_mode,
        };
        let response = Override {
            headers: mode.response_header_mode,
            body: mode.response_body_mode,
            trailers: mode.response_trailer_mode,
        };
        match side {
            Side::Request => {
                self.request.override_from_body(request);
                if self.response.stage == Stage::Idle {
                    response.apply(&mut self.response.phases);
                }
            }
            Side::Response => self.response.override_from_body(response),
        }
    }

    fn answer_body(&mut self, side: Side, answer: BodyResponse) -> Result<(), Failure> {
        let answer = answer.response.unwrap_or_default();
        let mutation = answer.body_mutation.and_then(|body| body.mutation);
        if self.direction(side).is_duplex() {
            let Some(Mutation::StreamedResponse(piece)) = mutation else { return Err(Failure::Malformed) };
            return match side {
                Side::Request => self.request.stream(piece.body, piece.end_of_stream, &mut self.outbox),
                Side::Response => self.response.stream(piece.body, piece.end_of_stream, &mut self.outbox),
            };
        }
        if !self.direction(side).is_body_asked() {
            return Err(Failure::OutOfOrder);
        }
        ResponseStatus::try_from(answer.status).map_err(|_| Failure::Malformed)?;
        // "header mutations will only take effect if the current processing mode for the body is BUFFERED": while the head is here.
        let change = match (self.direction(side).is_head_held(), side) {
            (false, _) => HeadChange::default(),
            (true, Side::Request) => self.read(answer.header_mutation, Part::RequestHead)?,
            (true, Side::Response) => self.read(answer.header_mutation, Part::ResponseHead)?,
        };
        let replacement = match mutation {
            None | Some(Mutation::ClearBody(false)) => Replacement::Unchanged,
            Some(Mutation::Body(body)) => Replacement::Bytes(body),
            Some(Mutation::ClearBody(true)) => Replacement::Bytes(Vec::new()),
            Some(Mutation::StreamedResponse(_)) => return Err(Failure::Malformed),
        };
        self.direction(side).answer_body(change, replacement);
        self.advance(side);
        Ok(())
    }

    fn answer_trailers(
        &mut self,
        side: Side,
        mutation: Option<generated::HeaderMutation>,
    ) -> Result<(), Failure> {
        if !self.direction(side).is_trailers_asked() {
            return Err(Failure::OutOfOrder);
        }
        let change = self.read(mutation, Part::Trailers)?;
        self.direction(side).answer_trailers(change.headers());
        Ok(())
    }

    fn answer_immediately(&mut self, response: generated::ImmediateResponse) -> Result<(), Failure> {
        if self.response.is_head_taken {
            return Err(Failure::OutOfOrder);
        }
        // Without a status it is Envoy's default.
        let status = match response.status.map_or(0, |status| status.code) {
            0 => 200,
            code @ 200..=599 => code as u16,
            _ => return Err(Failure::Malformed),
        };
        let headers = self.read(response.headers, Part::Immediate)?.changes;
        let grpc_status = response.grpc_status.map(|grpc| grpc.status);
        self.stop(Stop::Immediate(ImmediateResponse { status, headers, body: response.body, grpc_status }));
        Ok(())
    }

    fn extension(&self) -> &Extension {
        &self.outbox.prepared.extension
    }

    fn read(
        &mut self,
        mutation: Option<generated::HeaderMutation>,
        part: Part,
    ) -> Result<HeadChange, Failure> {
        let rules = &self.outbox.prepared.extension.mutation_rules;
        rules::read(mutation, rules, part, &mut self.refused)
    }

    fn is_recoverable(&self) -> bool {
        self.request.is_recoverable() && self.response.is_recoverable()
    }

    fn fail(&mut self, failure: Failure) {
        if self.state != State::Open {
            return;
        }
        self.failure = Some(failure);
        let is_of_the_service = !matches!(failure, Failure::TooLarge(_));
        if is_of_the_service && self.extension().failure_mode_allow && self.is_recoverable() {
            self.bypass();
        } else {
            self.stop(Stop::Failed(failure));
        }
    }

    fn bypass(&mut self) {
        self.state = State::Bypassed;
        self.frames = Frames::new(0);
        self.outbox.clear();
        self.request.pass(&mut self.outbox);
        self.response.pass(&mut self.outbox);
    }

    fn stop(&mut self, stop: Stop) {
        self.state = State::Stopped;
        self.stop = Some(stop);
        self.frames = Frames::new(0);
        self.outbox.clear();
        self.request.clear();
        self.response.clear();
    }
}

/// The endpoint that served a request as `metadata_context` of a message. Protobuf merges it with other namespaces that the message
/// has already.
fn served_metadata(endpoint: SocketAddr) -> Vec<u8> {
    let text = Value { kind: Some(Kind::StringValue(endpoint.to_string())) };
    let fields = Struct { fields: [(SERVED.to_owned(), text)].into() };
    let filter_metadata = [(PICKED_NAMESPACE.to_owned(), fields)].into();
    let metadata_context = Some(Metadata { filter_metadata });
    ProcessingRequest { metadata_context, ..ProcessingRequest::default() }.encode_to_vec()
}

/// The endpoints in the namespace of load balancing, or as a plain field.
fn find_picked(metadata: &Struct) -> Option<&str> {
    let namespace = metadata.fields.get(PICKED_NAMESPACE).and_then(|value| match &value.kind {
        Some(Kind::StructValue(fields)) => Some(fields),
        _ => None,
    });
    [namespace, Some(metadata)].into_iter().flatten().find_map(|fields| {
        match fields.fields.get(PICKED)?.kind.as_ref()? {
            Kind::StringValue(text) => Some(text.as_str()).filter(|text| text.len() <= MAX_PICKED),
            _ => None,
        }
    })
}
