//! The pipe between a client and its endpoint when a service sees both: the client's exchange sees it as the endpoint, the
//! endpoint's exchange as the client. It passes on what the service lets pass.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_connection::sides::{BodyStep, Channel, Failure, HeadRead, RequestPlan, ResponseMeta, Upstream};
use fairway_extension::processing::{
    self, Event, HeadChange, Processor, Side, StopReason, StreamCounts, Trailers,
};
use fairway_http::{BodySize, Head, HeadLimits};
use fairway_net::clock::{Deadline, Instant};

use crate::exchange::respond::ForwardOutcome;
use crate::exchange::subrequest::{Sink, SubrequestHandler, Trailer};

/// The call to a service, while it is in progress.
pub(super) type Stream = Pin<Box<dyn Future<Output = ()>>>;

/// Bytes of a body that the processor released and that were not read yet.
const MAX_QUEUED_BYTES: usize = 64 * 1024;

/// The maximum number of rounds per poll, while something progress.
const MAX_ROUNDS: u32 = 64;

/// Interim responses that wait to be sent.
const MAX_INTERIMS: usize = 8;

/// Whether the body has no bytes.
pub(super) fn is_empty(body: BodySize) -> bool {
    matches!(body, BodySize::None | BodySize::Exact(0))
}

/// The state that both sides and the service share.
pub(super) struct PipeState {
    processor: Processor,
    to_endpoint: Released,
    to_client: Released,
    /// The head of the endpoint's response, and the size of its body.
    received: Option<(Head, BodySize)>,
    interims: Vec<Head>,
    /// Whether the endpoint's response was truncated.
    is_truncated: bool,
    stop: Option<StopReason>,
    has_stopped: bool,
    /// Whether the request has a body; without one, the head ends it.
    has_request_body: bool,
    has_response_body: bool,
    /// Increases whenever something progress.
    progress: u64,
}

/// What the service has released in one direction.
#[derive(Default)]
struct Released {
    head: Option<HeadChange>,
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Set once the body is complete.
    trailers: Option<Trailers>,
    is_read: bool,
}

impl Released {
    fn add(&mut self, event: Event) {
        match event {
            Event::Head(change) => self.head = Some(change),
            Event::Body(piece) => {
                self.bytes += piece.len();
                self.chunks.push_back(piece);
            }
            Event::End(trailers) => self.trailers = Some(trailers),
        }
    }

    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= chunk.len();
        Some(chunk)
    }

    fn is_complete(&self) -> bool {
        self.trailers.is_some() && self.chunks.is_empty()
    }
}

impl PipeState {
    pub(super) fn new(processor: Processor, has_request_body: bool) -> Self {
        Self {
            processor,
            has_request_body,
            has_response_body: false,
            to_endpoint: Released::default(),
            to_client: Released::default(),
            received: None,
            interims: Vec::new(),
            is_truncated: false,
            stop: None,
            has_stopped: false,
            progress: 1,
        }
    }

    /// Whether nothing more is sent to the service.
    pub(super) fn is_finished(&self) -> bool {
        self.processor.is_finished()
    }

    /// The endpoints that the service picked in its metadata.
    pub(super) fn picked_endpoints(&self) -> Option<&str> {
        self.processor.picked_endpoints()
    }

    /// The failure of the service, if it has failed.
    pub(super) fn failure(&self) -> Option<processing::Failure> {
        self.processor.failure()
    }

    /// Whether the service has ended the exchange.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    pub(super) fn counts(&self) -> StreamCounts {
        self.processor.counts()
    }

    pub(super) fn take_message(&mut self) -> Option<Vec<u8>> {
        let message = self.processor.take_message()?;
        self.progress += 1;
        Some(message)
    }

    /// Whether there is room for messages of the service.
    pub(super) fn takes_from_service(&self) -> bool {
        self.processor.accepts()
    }

    pub(super) fn receive_from_service(&mut self, bytes: &[u8]) {
        self.processor.receive(bytes);
        self.progress += 1;
        self.collect_released();
    }

    pub(super) fn service_closed(&mut self, status: Option<u32>) {
        self.processor.closed(status);
        self.progress += 1;
        self.collect_released();
    }

    /// Sends nothing more to the service, so that its stream can end.
    pub(super) fn finish_service(&mut self) {
        if !self.processor.is_finished() {
            self.processor.closed(Some(0));
        }
    }

    /// Collects what the processor has released.
    fn collect_released(&mut self) {
        for (side, passed) in [(Side::Request, &mut self.to_endpoint), (Side::Response, &mut self.to_client)]
        {
            while passed.bytes < MAX_QUEUED_BYTES
                && let Some(event) = self.processor.next(side)
            {
                passed.add(event);
                self.progress += 1;
            }
        }
        if self.stop.is_none()
            && let Some(stop) = self.processor.take_stop()
        {
            self.has_stopped = true;
            self.stop = Some(stop);
            self.progress += 1;
        }
    }

    fn write(&mut self, side: Side, chunk: &[u8]) {
        self.processor.write_body(side, chunk);
        self.progress += 1;
        self.collect_released();
    }

    fn end(&mut self, side: Side, trailers: Trailers) {
        self.processor.end(side, trailers);
        self.progress += 1;
        self.collect_released();
    }
}

/// The client's side of the inner exchange.
pub(super) struct EndpointSide {
    shared: Rc<RefCell<PipeState>>,
    trailers: Trailers,
}

impl EndpointSide {
    pub(super) fn new(shared: Rc<RefCell<PipeState>>) -> Self {
        Self { shared, trailers: Trailers::new() }
    }
}

impl SubrequestHandler for EndpointSide {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        let mut shared = self.shared.borrow_mut();
        if let Some(piece) = shared.to_endpoint.next_piece() {
            shared.progress += 1;
            shared.collect_released();
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
        // Fairway has already sent its own 100, if the client waited for one.
        if head.status() != 100 && shared.interims.len() < MAX_INTERIMS {
            shared.interims.push(head.clone());
            shared.progress += 1;
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
        shared.progress += 1;
        shared.collect_released();
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
        // A head without a body already ended its message.
        if shared.has_response_body {
            let trailers = trailers.map(|(name, value)| (name.into(), value.into())).collect();
            shared.end(Side::Response, trailers);
        }
    }

    fn abort(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.is_truncated = true;
        shared.progress += 1;
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        // The outer exchange watches the client, and drops this one.
        Poll::Pending
    }
}

/// The inner exchange.
type InnerExchange<'a, 'p> = Pin<Box<dyn Future<Output = ForwardOutcome<'a>> + 'p>>;

/// The upstream of the exchange with the client.
pub(super) struct Pipe<'a, 'p> {
    shared: Rc<RefCell<PipeState>>,
    service: Option<Stream>,
    /// Whether anything was sent to the service: before that, its stream is not opened.
    is_started: bool,
    inner: Option<InnerExchange<'a, 'p>>,
    outcome: Option<ForwardOutcome<'a>>,
    /// The timeout for the service's next message.
    deadline: Deadline,
    awaited: Option<u64>,
    wants_room: bool,
    has_begun_body: bool,
    response_body: BodySize,
    trailers: Trailers,
    sent: u64,
}

impl<'a, 'p> Pipe<'a, 'p> {
    pub(super) fn new(shared: Rc<RefCell<PipeState>>, service: Stream) -> Self {
        Self {
            shared,
            service: Some(service),
            is_started: false,
            inner: None,
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

    /// Sets the inner exchange.
    pub(super) fn start_inner(&mut self, inner: InnerExchange<'a, 'p>) {
        self.inner = Some(inner);
    }

    /// Drops the inner exchange. Returns the stream of the service, if it was used and has not ended.
    pub(super) fn into_service(self) -> Option<Stream> {
        self.service.filter(|_| self.is_started)
    }

    /// Polls the service and the inner exchange until nothing progress.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        for _ in 0..MAX_ROUNDS {
            let before = self.progress();
            self.shared.borrow_mut().collect_released();
            self.poll_service(cx);
            if let Some(inner) = &mut self.inner
                && let Poll::Ready(outcome) = inner.as_mut().poll(cx)
            {
                self.inner = None;
                self.outcome = Some(outcome);
            }
            if self.progress() == before {
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
        self.is_started |= awaited.is_some();
        if !self.is_started {
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
            shared.progress += 1;
            shared.collect_released();
        }
    }

    pub(super) fn progress(&self) -> u64 {
        self.shared.borrow().progress
    }

    pub(super) fn take_stop(&mut self) -> Option<StopReason> {
        self.shared.borrow_mut().stop.take()
    }

    pub(super) fn take_request_head(&mut self) -> Option<HeadChange> {
        self.shared.borrow_mut().to_endpoint.head.take()
    }

    /// The response head as the endpoint sent it, and the service's changes.
    pub(super) fn take_response_head(&mut self) -> Option<((Head, BodySize), HeadChange)> {
        let mut shared = self.shared.borrow_mut();
        let change = shared.to_client.head.take()?;
        shared.received.take().map(|received| (received, change))
    }

    pub(super) fn take_interims(&mut self) -> Vec<Head> {
        std::mem::take(&mut self.shared.borrow_mut().interims)
    }

    /// The outcome of the inner exchange, if it has no response.
    pub(super) fn take_outcome(&mut self) -> Option<ForwardOutcome<'a>> {
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

    /// Whether the exchange waits for a message of the service.
    pub(super) fn is_waiting_for_service(&self) -> bool {
        self.shared.borrow().processor.awaited().is_some()
    }

    /// Whether reading of the request body has started.
    pub(super) fn has_body(&self) -> bool {
        self.has_begun_body
    }

    /// Whether the pipe has room for the request body.
    pub(super) fn wants_request_body(&self) -> bool {
        self.shared.borrow().has_request_body && self.room() > 0
    }

    /// Whether the request body starts now; true once.
    pub(super) fn starts_body(&mut self) -> bool {
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
            shared.progress += 1;
            shared.collect_released();
            drop(shared);
            return Poll::Ready(sink(cx, &piece).map(|()| BodyStep::More));
        }
        if shared.stop.is_some() {
            return Poll::Ready(Err(Failure::Closed));
        }
        if shared.to_client.is_complete() {
            if let Some(trailers) = &shared.to_client.trailers {
                self.trailers.clone_from(trailers);
            }
            return Poll::Ready(Ok(BodyStep::End));
        }
        if shared.is_truncated {
            return Poll::Ready(Err(Failure::Closed));
        }
        Poll::Pending
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        self.drive(cx);
        if self.shared.borrow().is_truncated || self.shared.borrow().stop.is_some() {
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
        // The pipe is not driven here: the data may be in the worker's buffer, which is borrowed.
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

    fn poll_response(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Head,
        _: &HeadLimits,
    ) -> Poll<HeadRead<ResponseMeta>> {
        // The head is taken together with the changes of the service, by `take_response_head`.
        Poll::Pending
    }

    fn received(&self) -> u64 {
        self.progress()
    }

    fn is_reusable(&self) -> bool {
        false
    }

    fn unacknowledged_for(&self) -> Option<Duration> {
        None
    }

    fn shorten_keepalive(&self) {}
}
