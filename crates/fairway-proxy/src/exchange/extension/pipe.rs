//! What stands between a client and its endpoint where a service sees both: towards the client it is the endpoint, towards the endpoint it
//! is the client, and what passes is what the service lets pass.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Channel, Failure, HeadRead, Reply, RequestPlan, Upstream};
use fairway_extension::processing::{self, Counts, Event, HeadChange, Processor, Side, Stop, Trailers};
use fairway_http::{BodySize, Head, HeadLimits};
use fairway_net::clock::{Deadline, Instant};

use crate::exchange::respond::Outcome;
use crate::exchange::subrequest::{Behind, Sink, Trailer};

/// The call to a service, while it is under way.
pub(super) type Stream = Pin<Box<dyn Future<Output = ()>>>;

/// Bytes of a body that wait behind the processor for whoever takes them.
const MAX_QUEUED_BYTES: usize = 64 * 1024;

/// How often everything is looked at again in one turn because something has moved.
const MAX_ROUNDS: u32 = 64;

/// Interim responses that are kept until they are sent.
const MAX_INTERIMS: usize = 8;

/// Whether no byte of a body follows its head.
pub(super) fn is_empty(body: BodySize) -> bool {
    matches!(body, BodySize::None | BodySize::Exact(0))
}

/// What both sides and the service work on.
pub(super) struct Shared {
    processor: Processor,
    to_endpoint: Passed,
    to_client: Passed,
    /// The head of the endpoint's response, and which body follows it.
    received: Option<(Head, BodySize)>,
    interims: Vec<Head>,
    /// Whether the endpoint's response broke off.
    is_cut: bool,
    stop: Option<Stop>,
    has_stopped: bool,
    /// Whether the request has a body: without one, its head is its end.
    has_request_body: bool,
    has_response_body: bool,
    /// Grows with everything that moves.
    moves: u64,
}

/// What the service has let pass in one direction.
#[derive(Default)]
struct Passed {
    head: Option<HeadChange>,
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    /// There are some once the body is whole.
    trailers: Option<Trailers>,
    is_read: bool,
}

impl Passed {
    fn take(&mut self, event: Event) {
        match event {
            Event::Head(change) => self.head = Some(change),
            Event::Body(piece) => {
                self.bytes += piece.len();
                self.pieces.push_back(piece);
            }
            Event::End(trailers) => self.trailers = Some(trailers),
        }
    }

    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }

    fn is_whole(&self) -> bool {
        self.trailers.is_some() && self.pieces.is_empty()
    }
}

impl Shared {
    pub(super) fn new(processor: Processor, has_request_body: bool) -> Self {
        Self {
            processor,
            has_request_body,
            has_response_body: false,
            to_endpoint: Passed::default(),
            to_client: Passed::default(),
            received: None,
            interims: Vec::new(),
            is_cut: false,
            stop: None,
            has_stopped: false,
            moves: 1,
        }
    }

    /// Whether the service gets nothing more.
    pub(super) fn is_finished(&self) -> bool {
        self.processor.is_finished()
    }

    /// The endpoints that the service picked in its metadata.
    pub(super) fn picked(&self) -> Option<&str> {
        self.processor.picked()
    }

    /// How the service has failed.
    pub(super) fn failure(&self) -> Option<processing::Failure> {
        self.processor.failure()
    }

    /// Whether the service has ended the exchange.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    pub(super) fn counts(&self) -> Counts {
        self.processor.counts()
    }

    pub(super) fn take_message(&mut self) -> Option<Vec<u8>> {
        let message = self.processor.take_message()?;
        self.moves += 1;
        Some(message)
    }

    /// Whether there is room for what the service may send.
    pub(super) fn takes_from_service(&self) -> bool {
        self.processor.accepts()
    }

    pub(super) fn receive_from_service(&mut self, bytes: &[u8]) {
        self.processor.receive(bytes);
        self.moves += 1;
        self.settle();
    }

    pub(super) fn service_closed(&mut self, status: Option<u32>) {
        self.processor.closed(status);
        self.moves += 1;
        self.settle();
    }

    /// The service is asked nothing more: its stream may end.
    pub(super) fn let_pass(&mut self) {
        if !self.processor.is_finished() {
            self.processor.closed(Some(0));
        }
    }

    /// Takes what the processor lets pass.
    fn settle(&mut self) {
        for (side, passed) in [(Side::Request, &mut self.to_endpoint), (Side::Response, &mut self.to_client)]
        {
            while passed.bytes < MAX_QUEUED_BYTES
                && let Some(event) = self.processor.next(side)
            {
                passed.take(event);
                self.moves += 1;
            }
        }
        if self.stop.is_none()
            && let Some(stop) = self.processor.take_stop()
        {
            self.has_stopped = true;
            self.stop = Some(stop);
            self.moves += 1;
        }
    }

    fn write(&mut self, side: Side, piece: &[u8]) {
        self.processor.write(side, piece);
        self.moves += 1;
        self.settle();
    }

    fn end(&mut self, side: Side, trailers: Trailers) {
        self.processor.end(side, trailers);
        self.moves += 1;
        self.settle();
    }
}

/// The exchange within, for which the pipe is the client.
pub(super) struct EndpointSide {
    shared: Rc<RefCell<Shared>>,
    trailers: Trailers,
}

impl EndpointSide {
    pub(super) fn new(shared: Rc<RefCell<Shared>>) -> Self {
        Self { shared, trailers: Trailers::new() }
    }
}

impl Behind for EndpointSide {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        let mut shared = self.shared.borrow_mut();
        if let Some(piece) = shared.to_endpoint.next_piece() {
            shared.moves += 1;
            shared.settle();
            drop(shared);
            return Poll::Ready(sink(cx, &piece).map(|()| BodyStep::More));
        }
        if let Some(trailers) = &shared.to_endpoint.trailers {
            self.trailers.clone_from(trailers);
            shared.to_endpoint.is_read = true;
            return Poll::Ready(Ok(BodyStep::End));
        }
        Poll::Pending
    }

    fn is_read(&self) -> bool {
        self.shared.borrow().to_endpoint.is_read
    }

    fn trailers(&self) -> &[Trailer] {
        &self.trailers
    }

    fn interim(&mut self, head: &Head) {
        let mut shared = self.shared.borrow_mut();
        // Fairway has said 100 itself, if it was to be said.
        if head.status() != 100 && shared.interims.len() < MAX_INTERIMS {
            shared.interims.push(head.clone());
            shared.moves += 1;
        }
    }

    fn set_served_by(&mut self, endpoint: SocketAddr) {
        self.shared.borrow_mut().processor.set_served_by(endpoint);
    }

    fn head(&mut self, head: &Head, body: BodySize) {
        let mut shared = self.shared.borrow_mut();
        shared.has_response_body = !is_empty(body);
        shared.processor.response_head(head, !is_empty(body));
        shared.received = Some((head.clone(), body));
        shared.moves += 1;
        shared.settle();
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let shared = self.shared.borrow();
        match shared.processor.room(Side::Response) {
            0 => Poll::Pending,
            _ if shared.to_client.bytes >= MAX_QUEUED_BYTES => Poll::Pending,
            room => Poll::Ready(Ok(room)),
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.shared.borrow_mut().write(Side::Response, bytes);
        Ok(())
    }

    fn end<'t>(&mut self, trailers: &mut dyn Iterator<Item = (&'t [u8], &'t [u8])>) {
        let mut shared = self.shared.borrow_mut();
        // A head without a body is the end of its message.
        if shared.has_response_body {
            let trailers = trailers.map(|(name, value)| (name.into(), value.into())).collect();
            shared.end(Side::Response, trailers);
        }
    }

    fn abort(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.is_cut = true;
        shared.moves += 1;
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        // The exchange around it looks after its client, and drops this one.
        Poll::Pending
    }
}

/// An exchange that runs within.
type Within<'a, 'p> = Pin<Box<dyn Future<Output = Outcome<'a>> + 'p>>;

/// The endpoint, as the exchange with the client sees it.
pub(super) struct Pipe<'a, 'p> {
    shared: Rc<RefCell<Shared>>,
    service: Option<Stream>,
    /// Whether the service was ever asked: before that there is no stream.
    is_asked: bool,
    within: Option<Within<'a, 'p>>,
    outcome: Option<Outcome<'a>>,
    /// When the service is late.
    deadline: Deadline,
    awaited: Option<u64>,
    wants_room: bool,
    has_begun_body: bool,
    response_body: BodySize,
    trailers: Trailers,
    sent: u64,
}

impl<'a, 'p> Pipe<'a, 'p> {
    pub(super) fn new(shared: Rc<RefCell<Shared>>, service: Stream) -> Self {
        Self {
            shared,
            service: Some(service),
            is_asked: false,
            within: None,
            outcome: None,
            deadline: Deadline::unset(),
            awaited: None,
            wants_room: false,
            has_begun_body: false,
            response_body: BodySize::None,
            trailers: Trailers::new(),
            sent: 0,
        }
    }

    /// Begins the exchange within.
    pub(super) fn begin(&mut self, within: Within<'a, 'p>) {
        self.within = Some(within);
    }

    /// The stream of the service, if it was asked and has not ended; the exchange within is given up.
    pub(super) fn into_service(self) -> Option<Stream> {
        self.service.filter(|_| self.is_asked)
    }

    /// Lets everything move that can.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        for _ in 0..MAX_ROUNDS {
            let before = self.moves();
            self.shared.borrow_mut().settle();
            self.poll_service(cx);
            if let Some(within) = &mut self.within
                && let Poll::Ready(outcome) = within.as_mut().poll(cx)
            {
                self.within = None;
                self.outcome = Some(outcome);
            }
            if self.moves() == before {
                if self.wants_room && self.room() > 0 {
                    self.wants_room = false;
                    cx.waker().wake_by_ref();
                }
                return;
            }
        }
        cx.waker().wake_by_ref();
    }

    fn poll_service(&mut self, cx: &mut Context<'_>) {
        let awaited = self.shared.borrow().processor.awaited();
        self.is_asked |= awaited.is_some();
        if !self.is_asked {
            return;
        }
        if let Some(service) = &mut self.service
            && service.as_mut().poll(cx).is_ready()
        {
            self.service = None;
        }
        match self.shared.borrow().processor.awaited() {
            None => self.awaited = None,
            Some(wait) if self.awaited == Some(wait.serial) => {}
            Some(wait) => {
                self.awaited = Some(wait.serial);
                self.deadline.set(Instant::now(), wait.timeout);
            }
        }
        if self.awaited.is_some() && self.deadline.poll_passed(cx).is_ready() {
            self.awaited = None;
            let mut shared = self.shared.borrow_mut();
            shared.processor.timed_out();
            shared.moves += 1;
            shared.settle();
        }
    }

    pub(super) fn moves(&self) -> u64 {
        self.shared.borrow().moves
    }

    pub(super) fn take_stop(&mut self) -> Option<Stop> {
        self.shared.borrow_mut().stop.take()
    }

    pub(super) fn take_request_head(&mut self) -> Option<HeadChange> {
        self.shared.borrow_mut().to_endpoint.head.take()
    }

    /// The head of the response as the endpoint sent it, and what the service changes.
    pub(super) fn take_response_head(&mut self) -> Option<((Head, BodySize), HeadChange)> {
        let mut shared = self.shared.borrow_mut();
        let change = shared.to_client.head.take()?;
        shared.received.take().map(|received| (received, change))
    }

    pub(super) fn take_interims(&mut self) -> Vec<Head> {
        std::mem::take(&mut self.shared.borrow_mut().interims)
    }

    /// How the exchange within ended, if it has no response.
    pub(super) fn take_outcome(&mut self) -> Option<Outcome<'a>> {
        self.outcome.take_if(|_| self.shared.borrow().received.is_none())
    }

    /// Whether the service has ended the exchange.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.borrow().has_stopped
    }

    pub(super) fn set_response_body(&mut self, body: BodySize) {
        self.response_body = body;
    }

    pub(super) fn response_body(&self) -> BodySize {
        self.response_body
    }

    /// Whether nothing goes on before the service has answered.
    pub(super) fn is_waiting_for_service(&self) -> bool {
        self.shared.borrow().processor.awaited().is_some()
    }

    /// Whether some of the request's body was read.
    pub(super) fn has_body(&self) -> bool {
        self.has_begun_body
    }

    /// Whether bytes of the request's body may come now.
    pub(super) fn wants_request_body(&self) -> bool {
        self.shared.borrow().has_request_body && self.room() > 0
    }

    /// Whether the body of the request begins now; once.
    pub(super) fn begins_body(&mut self) -> bool {
        !self.has_begun_body && self.room() > 0 && {
            self.has_begun_body = true;
            true
        }
    }

    fn room(&self) -> usize {
        let shared = self.shared.borrow();
        if !shared.has_request_body {
            return usize::MAX;
        }
        if shared.to_endpoint.bytes >= MAX_QUEUED_BYTES { 0 } else { shared.processor.room(Side::Request) }
    }
}

impl Channel for Pipe<'_, '_> {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, _: usize, mut sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        self.drive(cx);
        let mut shared = self.shared.borrow_mut();
        if let Some(piece) = shared.to_client.next_piece() {
            shared.moves += 1;
            shared.settle();
            drop(shared);
            return Poll::Ready(sink(cx, &piece).map(|()| BodyStep::More));
        }
        if shared.stop.is_some() {
            return Poll::Ready(Err(Failure::Closed));
        }
        if shared.to_client.is_whole() {
            if let Some(trailers) = &shared.to_client.trailers {
                self.trailers.clone_from(trailers);
            }
            return Poll::Ready(Ok(BodyStep::End));
        }
        if shared.is_cut {
            return Poll::Ready(Err(Failure::Closed));
        }
        Poll::Pending
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        self.drive(cx);
        if self.shared.borrow().is_cut || self.shared.borrow().stop.is_some() {
            return Poll::Ready(Err(Failure::Closed));
        }
        match self.room() {
            0 => {
                self.wants_room = true;
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        // What it sets in motion moves when the pipe is looked at again: the buffer of the worker that the data may stand in is lent.
        if !data.is_empty() {
            self.sent += data.len() as u64;
            self.shared.borrow_mut().write(Side::Request, data);
        }
        Ok(())
    }

    fn finish<'t>(&mut self, trailers: impl Iterator<Item = (&'t [u8], &'t [u8])>) -> Result<(), Failure> {
        let mut shared = self.shared.borrow_mut();
        if shared.has_request_body {
            let trailers = trailers.map(|(name, value)| (name.into(), value.into())).collect();
            shared.end(Side::Request, trailers);
        }
        Ok(())
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().map(|(name, value)| (&**name, &**value))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.drive(cx);
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        0
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn open_tunnel(&mut self) {}

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }
}

impl Upstream for Pipe<'_, '_> {
    fn send_request(&mut self, _: &Head, _: &RequestPlan<'_>) {}

    fn poll_answer(&mut self, _: &mut Context<'_>, _: &mut Head, _: &HeadLimits) -> Poll<HeadRead<Reply>> {
        // Its head is taken with the changes of the service, by whoever has a place for both.
        Poll::Pending
    }

    fn received(&self) -> u64 {
        self.moves()
    }

    fn is_reusable(&self) -> bool {
        false
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        None
    }

    fn watch_closely(&self) {}
}
