//! One direction of a stream: what was received, what was sent to the service, what it must respond to, and what is forwarded.
//! Does not decode responses.
//!
//! ```text
//!  Idle ── head ──► HeadersAsked ── answer ──► Body ── end ──► TrailersAsked ── answer ──► Over
//!    └── head, which is not shown ───────────► Body ── end, trailers are not shown ──────► Over
//! ```

use std::collections::VecDeque;
use std::mem;

use fairway_model::{BodyMode, ProcessingPhases};

use super::event::{Event, Side, Trailers};
use super::failure::Failure;
use super::head::{BodyLength, HeadChange};
use super::outbox::{Outbox, Wait};
use super::phases::Override;
use crate::change::{HeaderAction, HeaderChange};

/// The maximum number of body bytes held per direction, in addition to `max_buffered_body`.
pub const MAX_HELD_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectionStage {
    /// No head yet.
    Idle,
    /// The head was sent to the service.
    AwaitingHeaders,
    /// Body and end pass through, sent to the service or not.
    Body,
    /// The trailers were sent to the service.
    AwaitingTrailers,
    /// The end was forwarded.
    Done,
}

/// The service's response to a body piece.
#[derive(Debug)]
pub(super) enum Replacement {
    /// Forward the piece unchanged.
    Unchanged,
    /// Forward these bytes instead.
    Bytes(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Direction {
    side: Side,
    pub(super) phases: ProcessingPhases,
    pub(super) stage: DirectionStage,
    /// The change of the head while it is held back.
    change: Option<HeadChange>,
    has_body: bool,
    /// Bytes that were received and neither sent to the service nor forwarded.
    input: Vec<u8>,
    /// The piece that the service must respond to.
    in_flight: Option<Vec<u8>>,
    /// Whether the piece in flight and everything before it is the whole body.
    is_whole: bool,
    /// The sender's end of message.
    ended: Option<Trailers>,
    /// Whether the end was sent to the service.
    is_end_shown: bool,
    /// Whether only the service has some bytes of the body, so that it cannot be bypassed.
    is_entrusted: bool,
    /// Whether the service has ended the body, but not sent its trailers yet.
    is_body_over: bool,
    wait: Option<Wait>,
    events: VecDeque<Event>,
    event_bytes: usize,
    pub(super) is_head_taken: bool,
}

impl Direction {
    pub(super) fn new(side: Side, phases: ProcessingPhases) -> Self {
        Direction {
            side,
            phases,
            stage: DirectionStage::Idle,
            change: None,
            has_body: false,
            input: Vec::new(),
            in_flight: None,
            is_whole: false,
            ended: None,
            is_end_shown: false,
            is_entrusted: false,
            is_body_over: false,
            wait: None,
            events: VecDeque::new(),
            event_bytes: 0,
            is_head_taken: false,
        }
    }

    /// Handles the head; `wait` is set if it was sent to the service.
    pub(super) fn handle_head(&mut self, has_body: bool, wait: Option<Wait>) {
        debug_assert!(self.stage == DirectionStage::Idle, "a message has one head");
        self.stage = if wait.is_some() { DirectionStage::AwaitingHeaders } else { DirectionStage::Body };
        self.wait = wait;
        self.change = Some(HeadChange::default());
        self.has_body = has_body;
        if !has_body {
            self.ended = Some(Trailers::new());
        }
    }

    pub(super) fn write(&mut self, chunk: &[u8]) {
        if self.stage == DirectionStage::Done || self.ended.is_some() {
            return;
        }
        if self.is_passing() {
            self.emit_body(chunk.to_vec());
            return;
        }
        self.input.extend_from_slice(chunk);
    }

    pub(super) fn end(&mut self, trailers: Trailers) {
        if self.stage != DirectionStage::Done && self.ended.is_none() {
            self.ended = Some(trailers);
        }
    }

    pub(super) fn room(&self, outbox: &Outbox) -> usize {
        let max_buffered = outbox.prepared.extension.max_buffered_body as usize;
        let in_flight = self.in_flight.as_ref().map_or(0, Vec::len);
        match self.mode() {
            // Further data is dropped.
            _ if self.stage == DirectionStage::Done => MAX_HELD_BYTES,
            _ if self.ended.is_some() => 0,
            BodyMode::FullDuplexStreamed => {
                MAX_HELD_BYTES.saturating_sub(self.input.len() + outbox.bytes(self.side))
            }
            BodyMode::Buffered | BodyMode::BufferedPartial if self.stage == DirectionStage::Body => {
                let buffered = self.input.len() + if self.in_flight.is_some() { max_buffered } else { 0 };
                (max_buffered + MAX_HELD_BYTES).saturating_sub(buffered)
            }
            _ => MAX_HELD_BYTES.saturating_sub(self.input.len() + in_flight + self.event_bytes),
        }
    }

    pub(super) fn next(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        match &event {
            Event::Head(_) => self.is_head_taken = true,
            Event::Body(piece) => self.event_bytes -= piece.len(),
            Event::End(_) => {}
        }
        Some(event)
    }

    /// The bytes that the service sent on its own and that wait for [`Direction::next`].
    pub(super) fn backlog(&self) -> usize {
        if self.mode() == BodyMode::FullDuplexStreamed { self.event_bytes } else { 0 }
    }

    /// The response that the service owes. In [`BodyMode::FullDuplexStreamed`] it may wait for the whole message, so there is no
    /// timeout while the sender can continue.
    pub(super) fn awaited(&self, outbox: &Outbox) -> Option<Wait> {
        let is_waiting_itself = self.mode() == BodyMode::FullDuplexStreamed
            && self.stage != DirectionStage::Done
            && self.ended.is_none()
            && self.room(outbox) > 0;
        self.wait.filter(|_| !is_waiting_itself)
    }

    pub(super) fn wait_mut(&mut self) -> Option<&mut Wait> {
        self.wait.as_mut()
    }

    /// Restarts the wait for the service.
    pub(super) fn restart_wait(&mut self, outbox: &mut Outbox) {
        if self.wait.is_some() {
            self.wait = Some(outbox.begin_wait());
        }
    }

    /// Whether nothing more will be sent to the service, and no response is due.
    pub(super) fn is_complete(&self) -> bool {
        match self.stage {
            DirectionStage::Idle => self.phases == ProcessingPhases::default(),
            DirectionStage::AwaitingHeaders | DirectionStage::AwaitingTrailers => false,
            DirectionStage::Body => self.mode() == BodyMode::None && !self.phases.trailers,
            DirectionStage::Done => true,
        }
    }

    /// Whether the rest of the message needs no processing, so that it can bypass this stream.
    pub(super) fn is_transparent(&self) -> bool {
        self.is_passing() && self.is_complete() && self.ended.is_none() && self.events.is_empty()
    }

    /// Whether pieces are forwarded as they arrive.
    fn is_passing(&self) -> bool {
        self.stage == DirectionStage::Body
            && self.change.is_none()
            && self.mode() == BodyMode::None
            && self.input.is_empty()
    }

    fn mode(&self) -> BodyMode {
        if self.has_body || self.stage == DirectionStage::Idle { self.phases.body } else { BodyMode::None }
    }

    fn has_trailers(&self) -> bool {
        self.ended.as_ref().is_some_and(|trailers| !trailers.is_empty())
    }

    /// Whether trailers will be sent to the service. With [`BodyMode::FullDuplexStreamed`] they are part of its responses.
    fn has_trailers_to_send(&self) -> bool {
        let is_shown = self.phases.trailers || self.mode() == BodyMode::FullDuplexStreamed;
        is_shown && self.has_trailers()
    }

    /// Sends and forwards everything that is possible now.
    pub(super) fn advance(&mut self, outbox: &mut Outbox) -> Result<(), Failure> {
        match (self.stage, self.mode()) {
            (DirectionStage::AwaitingHeaders, BodyMode::FullDuplexStreamed) => self.send_duplex(outbox),
            (DirectionStage::Body, BodyMode::FullDuplexStreamed) => {
                self.emit_head(BodyLength::Unknown);
                self.send_duplex(outbox);
            }
            (DirectionStage::Body, BodyMode::None) => {
                self.emit_head(BodyLength::Unchanged);
                let input = mem::take(&mut self.input);
                self.emit_body(input);
                self.finish(outbox);
            }
            (DirectionStage::Body, BodyMode::Streamed) => {
                self.emit_head(BodyLength::Unknown);
                self.send_streamed(outbox);
            }
            (DirectionStage::Body, BodyMode::Buffered) if self.in_flight.is_none() => {
                if self.input.len() > outbox.prepared.extension.max_buffered_body as usize {
                    return Err(Failure::TooLarge(self.side));
                }
                if self.ended.is_some() {
                    self.is_whole = true;
                    let buffered = mem::take(&mut self.input);
                    self.send_piece(buffered, outbox);
                }
            }
            (DirectionStage::Body, BodyMode::BufferedPartial) if self.in_flight.is_none() => {
                let max = outbox.prepared.extension.max_buffered_body as usize;
                if self.input.len() >= max || self.ended.is_some() {
                    let rest = self.input.split_off(max.min(self.input.len()));
                    self.is_whole = rest.is_empty() && self.ended.is_some();
                    let beginning = mem::replace(&mut self.input, rest);
                    self.send_piece(beginning, outbox);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends a piece that is forwarded after the response.
    fn send_piece(&mut self, chunk: Vec<u8>, outbox: &mut Outbox) {
        let is_end = self.ended.is_some() && self.input.is_empty() && !self.has_trailers_to_send();
        self.is_end_shown = is_end;
        self.wait = Some(outbox.body(self.side, &chunk, is_end));
        self.in_flight = Some(chunk);
    }

    fn send_streamed(&mut self, outbox: &mut Outbox) {
        if self.in_flight.is_some() {
            return;
        }
        let is_end_due = self.ended.is_some() && !self.is_end_shown && !self.has_trailers_to_send();
        if !self.input.is_empty() || is_end_due {
            let chunk = mem::take(&mut self.input);
            self.send_piece(chunk, outbox);
        } else {
            self.finish(outbox);
        }
    }

    /// Sends all pieces at once, without waiting for responses.
    fn send_duplex(&mut self, outbox: &mut Outbox) {
        if self.is_end_shown || (self.input.is_empty() && self.ended.is_none()) {
            return;
        }
        let has_trailers = self.has_trailers_to_send();
        let is_end = self.ended.is_some() && !has_trailers;
        if !self.input.is_empty() || is_end {
            let chunk = mem::take(&mut self.input);
            self.is_entrusted |= !chunk.is_empty();
            self.wait = Some(outbox.body(self.side, &chunk, is_end));
            self.is_end_shown = is_end;
        }
        if let Some(trailers) = self.ended.as_ref().filter(|_| has_trailers) {
            self.wait = Some(outbox.trailers(self.side, trailers));
            self.is_end_shown = true;
        }
    }

    /// Ends the message, if its sender has ended it and the whole body was forwarded.
    fn finish(&mut self, outbox: &mut Outbox) {
        if self.ended.is_none() {
            return;
        }
        if self.has_trailers_to_send() {
            let trailers = self.ended.as_ref().expect("it was looked at");
            self.wait = Some(outbox.trailers(self.side, trailers));
            self.stage = DirectionStage::AwaitingTrailers;
        } else {
            let trailers = self.ended.take().unwrap_or_default();
            self.emit_end(trailers);
        }
    }

    /// Changes the phases from the body on. Pieces that the service already got in full duplex mode are not affected.
    pub(super) fn override_from_body(&mut self, over: Override) {
        let body = self.phases.body;
        over.apply_from_body(&mut self.phases);
        if body == BodyMode::FullDuplexStreamed && (self.is_entrusted || self.is_end_shown) {
            self.phases.body = body;
        }
    }

    /// The service responded to the head with changes. `replaced` is a new body, with which the message ends.
    pub(super) fn handle_headers_response(&mut self, change: HeadChange, replaced: Option<Vec<u8>>) {
        debug_assert!(self.stage == DirectionStage::AwaitingHeaders);
        // Pieces of a full duplex body that were already sent still need a response.
        if replaced.is_some() || !(self.is_entrusted || self.is_end_shown) {
            self.wait = None;
        }
        self.merge(change);
        self.stage = DirectionStage::Body;
        if let Some(body) = replaced {
            self.input = Vec::new();
            self.emit_head(length_of(&body));
            self.emit_body(body);
            self.emit_end(Trailers::new());
        }
    }

    /// Whether a response to a piece is due.
    pub(super) fn is_body_response_due(&self) -> bool {
        self.stage == DirectionStage::Body && self.in_flight.is_some()
    }

    /// Whether the service sends its own pieces.
    pub(super) fn is_duplex(&self) -> bool {
        self.stage == DirectionStage::Body
            && self.mode() == BodyMode::FullDuplexStreamed
            && !self.is_body_over
    }

    /// Whether changes of the head may arrive with the body.
    pub(super) fn is_head_held(&self) -> bool {
        self.change.is_some()
    }

    /// The service responded to the piece in flight, with changes of a head that is still held back.
    pub(super) fn handle_body_response(&mut self, change: HeadChange, replacement: Replacement) {
        debug_assert!(self.is_body_response_due());
        self.wait = None;
        self.merge(change);
        let shown = self.in_flight.take().unwrap_or_default();
        let length = match &replacement {
            Replacement::Unchanged => BodyLength::Unchanged,
            // HTTP/1 cannot send trailers after a body of known length.
            Replacement::Bytes(body) if self.is_whole && !self.has_trailers() => length_of(body),
            Replacement::Bytes(_) => BodyLength::Unknown,
        };
        self.emit_head(length);
        self.emit_body(match replacement {
            Replacement::Unchanged => shown,
            Replacement::Bytes(body) => body,
        });
        if self.phases.body != BodyMode::Streamed {
            self.phases.body = BodyMode::None;
        }
    }

    /// The service sent its own piece.
    pub(super) fn handle_streamed_piece(
        &mut self,
        piece: Vec<u8>,
        is_end: bool,
        outbox: &mut Outbox,
    ) -> Result<(), Failure> {
        debug_assert!(self.is_duplex());
        if is_end && !self.is_end_shown {
            return Err(Failure::OutOfOrder);
        }
        self.is_entrusted = true;
        self.wait = Some(outbox.begin_wait());
        self.emit_body(piece);
        if is_end && self.has_trailers_to_send() {
            self.is_body_over = true;
        } else if is_end {
            self.wait = None;
            self.emit_end(Trailers::new());
        }
        Ok(())
    }

    /// Whether a response to the trailers is due.
    pub(super) fn is_trailers_response_due(&self) -> bool {
        let is_duplex = self.stage == DirectionStage::Body && self.mode() == BodyMode::FullDuplexStreamed;
        self.stage == DirectionStage::AwaitingTrailers
            || (is_duplex && self.is_end_shown && self.has_trailers_to_send())
    }

    /// The service responded to the trailers.
    pub(super) fn handle_trailers_response(&mut self, changes: &[HeaderChange]) {
        debug_assert!(self.is_trailers_response_due());
        self.wait = None;
        let mut trailers = self.ended.take().unwrap_or_default();
        changes.iter().for_each(|change| change_trailers(change, &mut trailers));
        self.emit_end(trailers);
    }

    /// Whether the service can be bypassed from here, because everything sent to it is still held.
    pub(super) fn is_recoverable(&self) -> bool {
        !self.is_entrusted || self.stage == DirectionStage::Done
    }

    /// Bypasses the service: held data is forwarded unchanged, and so is the rest.
    pub(super) fn bypass(&mut self, outbox: &mut Outbox) {
        debug_assert!(self.is_recoverable());
        self.wait = None;
        if let Some(mut shown) = self.in_flight.take() {
            shown.append(&mut self.input);
            self.input = shown;
        }
        self.phases = ProcessingPhases::default();
        if matches!(self.stage, DirectionStage::AwaitingHeaders | DirectionStage::AwaitingTrailers) {
            self.stage = DirectionStage::Body;
        }
        let passed = self.advance(outbox);
        debug_assert!(passed.is_ok(), "nothing is refused that nobody is shown");
    }

    /// Drops the held data.
    pub(super) fn clear(&mut self) {
        self.input = Vec::new();
        self.in_flight = None;
        self.events.clear();
        self.event_bytes = 0;
        self.wait = None;
    }

    /// The number of body bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.input.len() + self.in_flight.as_ref().map_or(0, Vec::len) + self.event_bytes
    }

    fn merge(&mut self, change: HeadChange) {
        let Some(held) = &mut self.change else { return };
        held.changes.extend(change.changes);
        held.path = change.path.or(held.path.take());
        held.method = change.method.or(held.method.take());
        held.status = change.status.or(held.status);
    }

    fn emit_head(&mut self, length: BodyLength) {
        if let Some(change) = self.change.take() {
            self.events.push_back(Event::Head(HeadChange { length, ..change }));
        }
    }

    fn emit_body(&mut self, chunk: Vec<u8>) {
        if !chunk.is_empty() {
            self.event_bytes += chunk.len();
            self.events.push_back(Event::Body(chunk));
        }
    }

    fn emit_end(&mut self, trailers: Trailers) {
        self.events.push_back(Event::End(trailers));
        self.stage = DirectionStage::Done;
    }
}

fn length_of(body: &[u8]) -> BodyLength {
    if body.is_empty() { BodyLength::None } else { BodyLength::Exact(body.len() as u64) }
}

fn change_trailers(change: &HeaderChange, trailers: &mut Trailers) {
    let name = change.name.as_bytes();
    let is_there = trailers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let is_added = match change.action {
        HeaderAction::Append | HeaderAction::Overwrite => true,
        HeaderAction::AddIfAbsent => !is_there,
        HeaderAction::OverwriteIfPresent => is_there,
        HeaderAction::Remove => false,
    };
    let is_replaced = match change.action {
        HeaderAction::Append | HeaderAction::AddIfAbsent => false,
        HeaderAction::Overwrite | HeaderAction::OverwriteIfPresent | HeaderAction::Remove => true,
    };
    if is_replaced {
        trailers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }
    if is_added {
        trailers.push((name.into(), change.value.clone()));
    }
}
