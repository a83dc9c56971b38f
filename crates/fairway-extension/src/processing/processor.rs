//! One stream: both directions, the messages of the service, and how the stream ends.

use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Head;
use fairway_model::Extension;
use prost::Message;

use super::direction::{Direction, DirectionStage, MAX_HELD_BYTES, Replacement};
use super::event::{Awaited, Event, ExchangeFacts, Side, StreamCounts, Trailers};
use super::failure::{Failure, ImmediateResponse, StopReason};
use super::head::HeadChange;
use super::message;
use super::outbox::{Outbox, Wait};
use super::phases::Override;
use super::prepared::PreparedExtension;
use super::rules::{self, ChangedPart};
use crate::frame::FrameReader;
use crate::generated::body_mutation::Mutation;
use crate::generated::common_response::ResponseStatus;
use crate::generated::processing_response::Response;
use crate::generated::value::Kind;
use crate::generated::{
    self, BodyResponse, HeadersResponse, Metadata, ProcessingMode, ProcessingRequest, ProcessingResponse,
    Struct, Value,
};

/// The maximum size of a message from a service, in bytes: the usual limit of gRPC implementations.
pub const MAX_MESSAGE_BYTES: u32 = 4 * 1024 * 1024;

/// The maximum timeout that a service may request, as a multiple of `message_timeout`.
const MAX_TIMEOUT_EXTENSION: u32 = 10;

/// Where an endpoint picker names endpoints in the dynamic metadata (Gateway API Inference Extension).
const PICKED_NAMESPACE: &str = "envoy.lb";
const PICKED_FIELD: &str = "x-gateway-destination-endpoint";

/// The field of the same namespace in which the picker learns which endpoint served the request.
const SERVED_FIELD: &str = "x-gateway-destination-endpoint-served";

/// The maximum length of a picker's endpoint list, in bytes.
const MAX_PICKED_BYTES: usize = 4 * 1024;

/// Whether the service takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessorState {
    Open,
    /// It is bypassed; everything is forwarded unchanged.
    Bypassed,
    Stopped,
}

/// One stream.
#[derive(Debug)]
pub struct Processor {
    state: ProcessorState,
    request: Direction,
    response: Direction,
    outbox: Outbox,
    frames: FrameReader,
    stop: Option<StopReason>,
    failure: Option<Failure>,
    picked: Option<Box<str>>,
    served_by: Option<SocketAddr>,
    received: u64,
    refused: u64,
}

impl Processor {
    /// A new stream. [`Processor::from_prepared`] avoids encoding the configuration again.
    #[must_use]
    pub fn new(extension: Arc<Extension>) -> Self {
        Self::from_prepared(Arc::new(PreparedExtension::new(extension)))
    }

    /// A new stream with a shared, encoded configuration.
    #[must_use]
    pub fn from_prepared(prepared: Arc<PreparedExtension>) -> Self {
        Processor {
            state: ProcessorState::Open,
            request: Direction::new(Side::Request, prepared.extension.request),
            response: Direction::new(Side::Response, prepared.extension.response),
            outbox: Outbox::new(prepared),
            frames: FrameReader::new(MAX_MESSAGE_BYTES),
            stop: None,
            failure: None,
            picked: None,
            served_by: None,
            received: 0,
            refused: 0,
        }
    }

    /// Handles the head of the request. With `has_body: false` it is also the end: [`Event::End`] follows without
    /// [`Processor::end`].
    pub fn request_head(&mut self, head: &Head, facts: &ExchangeFacts<'_>, has_body: bool) {
        if self.state == ProcessorState::Stopped {
            return;
        }
        if self.state == ProcessorState::Open {
            self.outbox.set_attributes(PreparedExtension::encode_attributes(facts.attributes));
        }
        let request_wait = self.request.phases.headers.then(|| {
            let write = |extra: &[&[u8]]| message::request_headers(head, facts, !has_body, extra);
            self.outbox.headers(Side::Request, write)
        });
        self.request.handle_head(has_body, request_wait);
        self.advance(Side::Request);
    }

    /// Sets the endpoint whose response head follows. An endpoint picker gets it in the dynamic metadata of the response head;
    /// other services do not.
    pub fn set_served_by(&mut self, endpoint: SocketAddr) {
        self.served_by = self.outbox.prepared.extension.picks_endpoint.then_some(endpoint);
    }

    /// Handles the head of the response, but not of an interim one.
    pub fn response_head(&mut self, head: &Head, has_body: bool) {
        if self.state == ProcessorState::Stopped {
            return;
        }
        let served = self.served_by.map(served_metadata).unwrap_or_default();
        let response_wait = self.response.phases.headers.then(|| {
            let write = |extra: &[&[u8]]| match served.is_empty() {
                true => message::response_headers(head, !has_body, extra),
                false => message::response_headers(head, !has_body, &[extra, &[&served]].concat()),
            };
            self.outbox.headers(Side::Response, write)
        });
        self.response.handle_head(has_body, response_wait);
        self.advance(Side::Response);
    }

    /// Handles a piece of a body. Call only while `room(side) > 0`.
    pub fn write_body(&mut self, side: Side, chunk: &[u8]) {
        if self.state != ProcessorState::Stopped {
            self.direction(side).write(chunk);
            self.advance(side);
        }
    }

    /// Handles the end of a message with a body.
    pub fn end(&mut self, side: Side, trailers: Trailers) {
        if self.state != ProcessorState::Stopped {
            self.direction(side).end(trailers);
            self.advance(side);
        }
    }

    /// The number of bytes that may be written now: 0 after the end, and while received data waits for the service or for the
    /// receiver. While it is not 0, a piece of any length may be written; an excess is held as well.
    #[must_use]
    pub fn room(&self, side: Side) -> usize {
        match (self.state, side) {
            (ProcessorState::Stopped, _) => 0,
            (_, Side::Request) => self.request.room(&self.outbox),
            (_, Side::Response) => self.response.room(&self.outbox),
        }
    }

    /// Whether the rest of a body is forwarded unchanged without the service, so that it can bypass this stream. The sender then
    /// forwards trailers and end as well.
    #[must_use]
    pub fn is_transparent(&self, side: Side) -> bool {
        match side {
            Side::Request => self.request.is_transparent(),
            Side::Response => self.response.is_transparent(),
        }
    }

    /// Whether bytes from the service may be received now: `false` while many of its own pieces wait for [`Processor::next`].
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.request.backlog() < MAX_HELD_BYTES && self.response.backlog() < MAX_HELD_BYTES
    }

    /// Handles bytes from the service, in any split.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.state != ProcessorState::Open {
            return;
        }
        let mut frames = mem::replace(&mut self.frames, FrameReader::new(0));
        let fed = frames.feed(bytes, |message| {
            self.handle_message(message);
            self.state == ProcessorState::Open
        });
        if fed.is_err() {
            self.handle_failure(Failure::Malformed);
        }
        if self.state == ProcessorState::Open {
            self.frames = frames;
        }
    }

    /// The service ended the stream with this `grpc-status`; `None` if the stream failed, the service is unreachable, or does not
    /// speak gRPC. With status 0, everything is forwarded unchanged from here.
    pub fn closed(&mut self, status: Option<u32>) {
        if self.state != ProcessorState::Open || self.is_finished() {
            return;
        }
        match status {
            None => self.handle_failure(Failure::Unreachable),
            Some(0) if !self.frames.is_between_messages() => self.handle_failure(Failure::Malformed),
            Some(0) if self.is_recoverable() => self.bypass(),
            Some(status) => self.handle_failure(Failure::Status(status)),
        }
    }

    /// The service is late: the response announced by [`Processor::awaited`] did not arrive in time.
    pub fn timed_out(&mut self) {
        if self.awaited().is_some() {
            self.handle_failure(Failure::Timeout);
        }
    }

    /// The next framed message for the service. Take it only when it can be sent: until then it counts as held.
    pub fn take_message(&mut self) -> Option<Vec<u8>> {
        self.outbox.take()
    }

    /// Whether nothing more will be sent, and no response is due: the stream may be half-closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_complete = self.request.is_complete() && self.response.is_complete();
        self.state != ProcessorState::Open || (is_complete && self.outbox.is_empty())
    }

    /// The next data to forward in a direction.
    pub fn next(&mut self, side: Side) -> Option<Event> {
        let accepted = self.accepts();
        let event = self.direction(side).next();
        if !accepted && self.accepts() {
            // Data from the service could not be received meanwhile.
            self.request.restart_wait(&mut self.outbox);
            self.response.restart_wait(&mut self.outbox);
        }
        event
    }

    /// Why the exchange must end now; returned once. Afterwards nothing is forwarded or accepted.
    pub fn take_stop(&mut self) -> Option<StopReason> {
        self.stop.take()
    }

    /// The response that is due; `None` if there is none. If both directions wait, the one that has waited longer.
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        if !self.accepts() {
            return None;
        }
        let waits = [self.request.awaited(&self.outbox), self.response.awaited(&self.outbox)];
        let first = waits.into_iter().flatten().min_by_key(|wait| wait.serial)?;
        Some(Awaited { serial: first.serial, timeout: first.timeout })
    }

    /// Whether the service is bypassed, because it failed and may be, or ended the stream.
    #[must_use]
    pub fn is_bypassed(&self) -> bool {
        self.state == ProcessorState::Bypassed
    }

    /// The failure that stopped the exchange or caused the bypass.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The endpoints chosen by an endpoint picker: `x-gateway-destination-endpoint` of the dynamic metadata.
    #[must_use]
    pub fn picked_endpoints(&self) -> Option<&str> {
        self.picked.as_deref()
    }

    /// The counters so far.
    #[must_use]
    pub fn counts(&self) -> StreamCounts {
        StreamCounts { sent: self.outbox.sent, received: self.received, refused: self.refused }
    }

    /// The number of bytes held, in both directions and of the service.
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
            self.handle_failure(failure);
        }
    }

    fn handle_message(&mut self, message: &[u8]) {
        self.received += 1;
        let Ok(response) = ProcessingResponse::decode(message) else {
            return self.handle_failure(Failure::Malformed);
        };
        if let Err(failure) = self.handle_response(response) {
            self.handle_failure(failure);
        }
    }

    fn handle_response(&mut self, response: ProcessingResponse) -> Result<(), Failure> {
        if let Some(picked) = response.dynamic_metadata.as_ref().and_then(find_picked) {
            self.picked = Some(picked.into());
        }
        // Other fields of such a message are ignored.
        if let Some(timeout) = response.override_message_timeout {
            self.extend_timeout(timeout);
            return Ok(());
        }
        let mode = response.mode_override;
        match response.response.ok_or(Failure::OutOfOrder)? {
            Response::RequestHeaders(answer) => self.handle_headers_response(Side::Request, answer, mode),
            Response::ResponseHeaders(answer) => self.handle_headers_response(Side::Response, answer, mode),
            Response::RequestBody(answer) => self.handle_body_response(Side::Request, answer),
            Response::ResponseBody(answer) => self.handle_body_response(Side::Response, answer),
            Response::RequestTrailers(answer) => {
                self.handle_trailers_response(Side::Request, answer.header_mutation)
            }
            Response::ResponseTrailers(answer) => {
                self.handle_trailers_response(Side::Response, answer.header_mutation)
            }
            Response::ImmediateResponse(response) => self.handle_immediate_response(response),
        }
    }

    /// Extends the longest wait, once.
    fn extend_timeout(&mut self, timeout: generated::Duration) {
        let limit = self.extension().message_timeout.saturating_mul(MAX_TIMEOUT_EXTENSION);
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(timeout.seconds), u32::try_from(timeout.nanos)) else {
            return;
        };
        let timeout = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()));
        if timeout < Duration::from_millis(1) || timeout > limit {
            return;
        }
        let started = self.outbox.begin_wait();
        let waits = [&mut self.request, &mut self.response].into_iter().filter_map(Direction::wait_mut);
        let first = waits.filter(|wait| !wait.is_extended).min_by_key(|wait| wait.serial);
        if let Some(wait) = first {
            *wait = Wait { timeout, is_extended: true, ..started };
        }
    }

    fn handle_headers_response(
        &mut self,
        side: Side,
        answer: HeadersResponse,
        mode: Option<ProcessingMode>,
    ) -> Result<(), Failure> {
        if self.direction(side).stage != DirectionStage::AwaitingHeaders {
            return Err(Failure::OutOfOrder);
        }
        let response = answer.response.unwrap_or_default();
        let status = ResponseStatus::try_from(response.status).map_err(|_| Failure::Malformed)?;
        let part = if side == Side::Request { ChangedPart::RequestHead } else { ChangedPart::ResponseHead };
        let change = self.read_changes(response.header_mutation, part)?;
        let mutation = response.body_mutation.and_then(|body| body.mutation);
        let replaced = match (status, mutation) {
            (ResponseStatus::Continue, None) => None,
            (ResponseStatus::ContinueAndReplace, Some(Mutation::Body(body))) => Some(body),
            (ResponseStatus::ContinueAndReplace, None | Some(Mutation::ClearBody(_))) => Some(Vec::new()),
            // A body that was not sent to the service can only be replaced, not changed.
            (ResponseStatus::Continue, Some(_))
            | (ResponseStatus::ContinueAndReplace, Some(Mutation::StreamedResponse(_))) => {
                return Err(Failure::Malformed);
            }
        };
        if let Some(mode) = mode.filter(|_| self.extension().allow_mode_override && replaced.is_none()) {
            self.override_phases(side, &mode);
        }
        self.direction(side).handle_headers_response(change, replaced);
        self.advance(side);
        Ok(())
    }

    /// Overrides the phases that follow the head of `side`.
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
                if self.response.stage == DirectionStage::Idle {
                    response.apply(&mut self.response.phases);
                }
            }
            Side::Response => self.response.override_from_body(response),
        }
    }

    fn handle_body_response(&mut self, side: Side, response: BodyResponse) -> Result<(), Failure> {
        let response = response.response.unwrap_or_default();
        let mutation = response.body_mutation.and_then(|body| body.mutation);
        if self.direction(side).is_duplex() {
            let Some(Mutation::StreamedResponse(piece)) = mutation else { return Err(Failure::Malformed) };
            return match side {
                Side::Request => {
                    self.request.handle_streamed_piece(piece.body, piece.end_of_stream, &mut self.outbox)
                }
                Side::Response => {
                    self.response.handle_streamed_piece(piece.body, piece.end_of_stream, &mut self.outbox)
                }
            };
        }
        if !self.direction(side).is_body_response_due() {
            return Err(Failure::OutOfOrder);
        }
        ResponseStatus::try_from(response.status).map_err(|_| Failure::Malformed)?;
        // "header mutations will only take effect if the current processing mode for the body is BUFFERED": while the head is
        // held back.
        let change = match (self.direction(side).is_head_held(), side) {
            (false, _) => HeadChange::default(),
            (true, Side::Request) => self.read_changes(response.header_mutation, ChangedPart::RequestHead)?,
            (true, Side::Response) => {
                self.read_changes(response.header_mutation, ChangedPart::ResponseHead)?
            }
        };
        let replacement = match mutation {
            None | Some(Mutation::ClearBody(false)) => Replacement::Unchanged,
            Some(Mutation::Body(body)) => Replacement::Bytes(body),
            Some(Mutation::ClearBody(true)) => Replacement::Bytes(Vec::new()),
            Some(Mutation::StreamedResponse(_)) => return Err(Failure::Malformed),
        };
        self.direction(side).handle_body_response(change, replacement);
        self.advance(side);
        Ok(())
    }

    fn handle_trailers_response(
        &mut self,
        side: Side,
        mutation: Option<generated::HeaderMutation>,
    ) -> Result<(), Failure> {
        if !self.direction(side).is_trailers_response_due() {
            return Err(Failure::OutOfOrder);
        }
        let change = self.read_changes(mutation, ChangedPart::Trailers)?;
        self.direction(side).handle_trailers_response(change.headers());
        Ok(())
    }

    fn handle_immediate_response(&mut self, response: generated::ImmediateResponse) -> Result<(), Failure> {
        if self.response.is_head_taken {
            return Err(Failure::OutOfOrder);
        }
        // Without a status, Envoy's default applies.
        let status = match response.status.map_or(0, |status| status.code) {
            0 => 200,
            code @ 200..=599 => code as u16,
            _ => return Err(Failure::Malformed),
        };
        let headers = self.read_changes(response.headers, ChangedPart::Immediate)?.changes;
        let grpc_status = response.grpc_status.map(|grpc| grpc.status);
        self.stop(StopReason::Immediate(ImmediateResponse {
            status,
            headers,
            body: response.body,
            grpc_status,
        }));
        Ok(())
    }

    fn extension(&self) -> &Extension {
        &self.outbox.prepared.extension
    }

    fn read_changes(
        &mut self,
        mutation: Option<generated::HeaderMutation>,
        part: ChangedPart,
    ) -> Result<HeadChange, Failure> {
        let rules = &self.outbox.prepared.extension.mutation_rules;
        rules::read_changes(mutation, rules, part, &mut self.refused)
    }

    fn is_recoverable(&self) -> bool {
        self.request.is_recoverable() && self.response.is_recoverable()
    }

    fn handle_failure(&mut self, failure: Failure) {
        if self.state != ProcessorState::Open {
            return;
        }
        self.failure = Some(failure);
        let is_of_the_service = !matches!(failure, Failure::TooLarge(_));
        if is_of_the_service && self.extension().failure_mode_allow && self.is_recoverable() {
            self.bypass();
        } else {
            self.stop(StopReason::Failed(failure));
        }
    }

    fn bypass(&mut self) {
        self.state = ProcessorState::Bypassed;
        self.frames = FrameReader::new(0);
        self.outbox.clear();
        self.request.bypass(&mut self.outbox);
        self.response.bypass(&mut self.outbox);
    }

    fn stop(&mut self, stop: StopReason) {
        self.state = ProcessorState::Stopped;
        self.stop = Some(stop);
        self.frames = FrameReader::new(0);
        self.outbox.clear();
        self.request.clear();
        self.response.clear();
    }
}

/// The endpoint that served a request, as `metadata_context` of a message. Protobuf merges it with the namespaces already in the
/// message.
fn served_metadata(endpoint: SocketAddr) -> Vec<u8> {
    let text = Value { kind: Some(Kind::StringValue(endpoint.to_string())) };
    let fields = Struct { fields: [(SERVED_FIELD.to_owned(), text)].into() };
    let filter_metadata = [(PICKED_NAMESPACE.to_owned(), fields)].into();
    let metadata_context = Some(Metadata { filter_metadata });
    ProcessingRequest { metadata_context, ..ProcessingRequest::default() }.encode_to_vec()
}

/// The endpoints in the load-balancing namespace, or as a plain field.
fn find_picked(metadata: &Struct) -> Option<&str> {
    let namespace = metadata.fields.get(PICKED_NAMESPACE).and_then(|value| match &value.kind {
        Some(Kind::StructValue(fields)) => Some(fields),
        _ => None,
    });
    [namespace, Some(metadata)].into_iter().flatten().find_map(|fields| {
        match fields.fields.get(PICKED_FIELD)?.kind.as_ref()? {
            Kind::StringValue(text) => Some(text.as_str()).filter(|text| text.len() <= MAX_PICKED_BYTES),
            _ => None,
        }
    })
}
