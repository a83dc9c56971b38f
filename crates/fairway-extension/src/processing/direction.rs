//! One direction of a stream: what of a message was taken, what the service was shown and is asked about, and what goes on. Never
//! decodes an answer.
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

/// The most bytes of a body that are held in each direction, besides `max_buffered_body`.
pub const MAX_HELD: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No head yet.
    Idle,
    /// The service was shown the head.
    HeadersAsked,
    /// Body and end go by, shown or not.
    Body,
    /// The service was shown the trailers.
    TrailersAsked,
    /// The end went on.
    Over,
}

/// A service's piece of a body.
#[derive(Debug)]
pub(super) enum Replacement {
    /// What was shown goes on.
    Unchanged,
    /// This goes on.
    Bytes(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Direction {
    side: Side,
    pub(super) phases: ProcessingPhases,
    pub(super) stage: Stage,
    /// The change of the head while it is held.
    change: Option<HeadChange>,
    has_body: bool,
    /// Bytes that were taken and neither shown nor passed on.
    input: Vec<u8>,
    /// The piece that the service is asked about.
    in_flight: Option<Vec<u8>>,
    /// Whether the piece in flight and what went before it is the whole body.
    is_whole: bool,
    /// The sender's end.
    ended: Option<Trailers>,
    /// Whether the service was shown the end.
    is_end_shown: bool,
    /// Whether the service alone has bytes of the body, so that it cannot be left out.
    is_entrusted: bool,
    /// Whether the service's body ended, and its trailers did not come yet.
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
            stage: Stage::Idle,
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

    /// Takes the head; `asked` when it was shown.
    pub(super) fn head(&mut self, has_body: bool, asked: Option<Wait>) {
        debug_assert!(self.stage == Stage::Idle, "a message has one head");
        self.stage = if asked.is_some() { Stage::HeadersAsked } else { Stage::Body };
        self.wait = asked;
        self.change = Some(HeadChange::default());
        self.has_body = has_body;
        if !has_body {
            self.ended = Some(Trailers::new());
        }
    }

    pub(super) fn write(&mut self, piece: &[u8]) {
        if self.stage == Stage::Over || self.ended.is_some() {
            return;
        }
        if self.is_passing() {
            self.emit_body(piece.to_vec());
            return;
        }
        self.input.extend_from_slice(piece);
    }

    pub(super) fn end(&mut self, trailers: Trailers) {
        if self.stage != Stage::Over && self.ended.is_none() {
            self.ended = Some(trailers);
        }
    }

    pub(super) fn room(&self, outbox: &Outbox) -> usize {
        let max_buffered = outbox.prepared.extension.max_buffered_body as usize;
        let in_flight = self.in_flight.as_ref().map_or(0, Vec::len);
        match self.mode() {
            // What comes now is dropped.
            _ if self.stage == Stage::Over => MAX_HELD,
            _ if self.ended.is_some() => 0,
            BodyMode::FullDuplexStreamed => {
                MAX_HELD.saturating_sub(self.input.len() + outbox.bytes(self.side))
            }
            BodyMode::Buffered | BodyMode::BufferedPartial if self.stage == Stage::Body => {
                let taken = self.input.len() + if self.in_flight.is_some() { max_buffered } else { 0 };
                (max_buffered + MAX_HELD).saturating_sub(taken)
            }
            _ => MAX_HELD.saturating_sub(self.input.len() + in_flight + self.event_bytes),
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

    /// The bytes that a service sent of its own accord and that wait for [`Direction::next`].
    pub(super) fn backlog(&self) -> usize {
        if self.mode() == BodyMode::FullDuplexStreamed { self.event_bytes } else { 0 }
    }

    /// What the service is waited for. In [`BodyMode::FullDuplexStreamed`] it may wait for the whole message, so that nothing is
    /// awaited while the sender can go on.
    pub(super) fn awaited(&self, outbox: &Outbox) -> Option<Wait> {
        let is_waiting_itself = self.mode() == BodyMode::FullDuplexStreamed
            && self.stage != Stage::Over
            && self.ended.is_none()
            && self.room(outbox) > 0;
        self.wait.filter(|_| !is_waiting_itself)
    }

    pub(super) fn wait_mut(&mut self) -> Option<&mut Wait> {
        self.wait.as_mut()
    }

    /// Lets what the service is waited for begin anew.
    pub(super) fn renew_wait(&mut self, outbox: &mut Outbox) {
        if self.wait.is_some() {
            self.wait = Some(outbox.begin_wait());
        }
    }

    /// Whether nothing will be shown any more, and nothing is awaited.
    pub(super) fn is_complete(&self) -> bool {
        match self.stage {
            Stage::Idle => self.phases == ProcessingPhases::default(),
            Stage::HeadersAsked | Stage::TrailersAsked => false,
            Stage::Body => self.mode() == BodyMode::None && !self.phases.trailers,
            Stage::Over => true,
        }
    }

    /// Whether the rest goes by without being looked at, so that it need not go through here.
    pub(super) fn is_transparent(&self) -> bool {
        self.is_passing() && self.is_complete() && self.ended.is_none() && self.events.is_empty()
    }

    /// Whether pieces go on as they come.
    fn is_passing(&self) -> bool {
        self.stage == Stage::Body
            && self.change.is_none()
            && self.mode() == BodyMode::None
            && self.input.is_empty()
    }

    fn mode(&self) -> BodyMode {
        if self.has_body || self.stage == Stage::Idle { self.phases.body } else { BodyMode::None }
    }

    fn has_trailers(&self) -> bool {
        self.ended.as_ref().is_some_and(|trailers| !trailers.is_empty())
    }

    /// Whether the service will be shown trailers. With [`BodyMode::FullDuplexStreamed`] they are a part of what it answers.
    fn has_trailers_to_show(&self) -> bool {
        let is_shown = self.phases.trailers || self.mode() == BodyMode::FullDuplexStreamed;
        is_shown && self.has_trailers()
    }

    /// Shows and passes on what can be.
    pub(super) fn advance(&mut self, outbox: &mut Outbox) -> Result<(), Failure> {
        match (self.stage, self.mode()) {
            (Stage::HeadersAsked, BodyMode::FullDuplexStreamed) => self.show_duplex(outbox),
            (Stage::Body, BodyMode::FullDuplexStreamed) => {
                self.emit_head(BodyLength::Unknown);
                self.show_duplex(outbox);
            }
            (Stage::Body, BodyMode::None) => {
                self.emit_head(BodyLength::Unchanged);
                let input = mem::take(&mut self.input);
                self.emit_body(input);
                self.finish(outbox);
            }
            (Stage::Body, BodyMode::Streamed) => {
                self.emit_head(BodyLength::Unknown);
                self.show_streamed(outbox);
            }
            (Stage::Body, BodyMode::Buffered) if self.in_flight.is_none() => {
                if self.input.len() > outbox.prepared.extension.max_buffered_body as usize {
                    return Err(Failure::TooLarge(self.side));
                }
                if self.ended.is_some() {
                    self.is_whole = true;
                    let whole = mem::take(&mut self.input);
                    self.show(whole, outbox);
                }
            }
            (Stage::Body, BodyMode::BufferedPartial) if self.in_flight.is_none() => {
                let max = outbox.prepared.extension.max_buffered_body as usize;
                if self.input.len() >= max || self.ended.is_some() {
                    let rest = self.input.split_off(max.min(self.input.len()));
                    self.is_whole = rest.is_empty() && self.ended.is_some();
                    let beginning = mem::replace(&mut self.input, rest);
                    self.show(beginning, outbox);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows a piece that goes on once it is answered.
    fn show(&mut self, piece: Vec<u8>, outbox: &mut Outbox) {
        let is_end = self.ended.is_some() && self.input.is_empty() && !self.has_trailers_to_show();
        self.is_end_shown = is_end;
        self.wait = Some(outbox.body(self.side, &piece, is_end));
        self.in_flight = Some(piece);
    }

    fn show_streamed(&mut self, outbox: &mut Outbox) {
        if self.in_flight.is_some() {
            return;
        }
        let is_end_due = self.ended.is_some() && !self.is_end_shown && !self.has_trailers_to_show();
        if !self.input.is_empty() || is_end_due {
            let piece = mem::take(&mut self.input);
            self.show(piece, outbox);
        } else {
            self.finish(outbox);
        }
    }

    /// Shows all pieces at once, without waiting for the service's.
    fn show_duplex(&mut self, outbox: &mut Outbox) {
        if self.is_end_shown || (self.input.is_empty() && self.ended.is_none()) {
            return;
        }
        let has_trailers = self.has_trailers_to_show();
        let is_end = self.ended.is_some() && !has_trailers;
        if !self.input.is_empty() || is_end {
            let piece = mem::take(&mut self.input);
            self.is_entrusted |= !piece.is_empty();
            self.wait = Some(outbox.body(self.side, &piece, is_end));
            self.is_end_shown = is_end;
        }
        if let Some(trailers) = self.ended.as_ref().filter(|_| has_trailers) {
            self.wait = Some(outbox.trailers(self.side, trailers));
            self.is_end_shown = true;
        }
    }

    /// Ends the message, if its sender did and the body went on.
    fn finish(&mut self, outbox: &mut Outbox) {
        if self.ended.is_none() {
            return;
        }
        if self.has_trailers_to_show() {
            let trailers = self.ended.as_ref().expect("it was looked at");
            self.wait = Some(outbox.trailers(self.side, trailers));
            self.stage = Stage::TrailersAsked;
        } else {
            let trailers = self.ended.take().unwrap_or_default();
            self.emit_end(trailers);
        }
    }

    /// Changes the phases from the body on. Pieces that the service already has on its own terms stay so.
    pub(super) fn override_from_body(&mut self, over: Override) {
        let body = self.phases.body;
        over.apply_from_body(&mut self.phases);
        if body == BodyMode::FullDuplexStreamed && (self.is_entrusted || self.is_end_shown) {
            self.phases.body = body;
        }
    }

    /// The service answered the head with changes of it. `replaced` is a new body: the message ends with it.
    pub(super) fn answer_headers(&mut self, change: HeadChange, replaced: Option<Vec<u8>>) {
        debug_assert!(self.stage == Stage::HeadersAsked);
        // Pieces of a full duplex body that were shown already are still to be answered.
        if replaced.is_some() || !(self.is_entrusted || self.is_end_shown) {
            self.wait = None;
        }
        self.merge(change);
        self.stage = Stage::Body;
        if let Some(body) = replaced {
            self.input = Vec::new();
            self.emit_head(length_of(&body));
            self.emit_body(body);
            self.emit_end(Trailers::new());
        }
    }

    /// Whether an answer to a piece is due.
    pub(super) fn is_body_asked(&self) -> bool {
        self.stage == Stage::Body && self.in_flight.is_some()
    }

    /// Whether the service sends pieces of its own.
    pub(super) fn is_duplex(&self) -> bool {
        self.stage == Stage::Body && self.mode() == BodyMode::FullDuplexStreamed && !self.is_body_over
    }

    /// Whether changes of the head may come with the body.
    pub(super) fn is_head_held(&self) -> bool {
        self.change.is_some()
    }

    /// The service answered the piece in flight, with changes of a head that is still held.
    pub(super) fn answer_body(&mut self, change: HeadChange, replacement: Replacement) {
        debug_assert!(self.is_body_asked());
        self.wait = None;
        self.merge(change);
        let shown = self.in_flight.take().unwrap_or_default();
        let length = match &replacement {
            Replacement::Unchanged => BodyLength::Unchanged,
            // HTTP/1 has no place for trailers behind a body of a known length.
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

    /// The service sent a piece of its own.
    pub(super) fn stream(
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
        if is_end && self.has_trailers_to_show() {
            self.is_body_over = true;
        } else if is_end {
            self.wait = None;
            self.emit_end(Trailers::new());
        }
        Ok(())
    }

    /// Whether an answer to the trailers is due.
    pub(super) fn is_trailers_asked(&self) -> bool {
        let is_duplex = self.stage == Stage::Body && self.mode() == BodyMode::FullDuplexStreamed;
        self.stage == Stage::TrailersAsked || (is_duplex && self.is_end_shown && self.has_trailers_to_show())
    }

    /// The service answered the trailers.
    pub(super) fn answer_trailers(&mut self, changes: &[HeaderChange]) {
        debug_assert!(self.is_trailers_asked());
        self.wait = None;
        let mut trailers = self.ended.take().unwrap_or_default();
        changes.iter().for_each(|change| change_trailers(change, &mut trailers));
        self.emit_end(trailers);
    }

    /// Whether the service can be left out from here, as all that it was shown is still here.
    pub(super) fn is_recoverable(&self) -> bool {
        !self.is_entrusted || self.stage == Stage::Over
    }

    /// Leaves the service out: what is held goes on as it came, and so does the rest.
    pub(super) fn pass(&mut self, outbox: &mut Outbox) {
        debug_assert!(self.is_recoverable());
        self.wait = None;
        if let Some(mut shown) = self.in_flight.take() {
            shown.append(&mut self.input);
            self.input = shown;
        }
        self.phases = ProcessingPhases::default();
        if matches!(self.stage, Stage::HeadersAsked | Stage::TrailersAsked) {
            self.stage = Stage::Body;
        }
        let passed = self.advance(outbox);
        debug_assert!(passed.is_ok(), "nothing is refused that nobody is shown");
    }

    /// Forgets what is held.
    pub(super) fn clear(&mut self) {
        self.input = Vec::new();
        self.in_flight = None;
        self.events.clear();
        self.event_bytes = 0;
        self.wait = None;
    }

    /// The bytes of bodies that are held.
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

    fn emit_body(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.event_bytes += piece.len();
            self.events.push_back(Event::Body(piece));
        }
    }

    fn emit_end(&mut self, trailers: Trailers) {
        self.events.push_back(Event::End(trailers));
        self.stage = Stage::Over;
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
