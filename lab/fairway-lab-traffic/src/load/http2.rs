//! An HTTP/2 connection using the `h2` crate without a runtime, driven from the thread's epoll loop: wakers set flags, and
//! [`Http2::pump`] polls the streams whose flag is set.

use std::cell::RefCell;
use std::future::Future;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use fairway_lab_measure::results::Class;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};

use super::pipe::{Handle, Pipe};
use super::response::Expected;
use super::thread_counts::{Exchange, RequestOutcome};
use super::transport::Transport;

/// Flow-control window of streams and connection, large enough never to hold back a 1 MB response.
const WINDOW: u32 = 4 * 1024 * 1024;

/// An open connection.
pub(super) struct Http2 {
    pub(super) pipe: Rc<RefCell<Pipe>>,
    connection: Connection<Handle, Bytes>,
    sender: SendRequest<Bytes>,
    streams: Vec<Stream>,
    raised: Arc<Flag>,
    waker: Waker,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The server accepts no more requests and completes those in flight.
    Leaving,
    Over,
}

struct Stream {
    exchange: Exchange,
    stage: Stage,
    raised: Arc<Flag>,
    waker: Waker,
}

enum Stage {
    Head(ResponseFuture),
    Body {
        status: u16,
        matched: bool,
        /// Bytes of the body so far; `None` once they differ from the expected body.
        received: Option<usize>,
        body: RecvStream,
    },
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    fn raised() -> (Arc<Self>, Waker) {
        let flag = Arc::new(Self(AtomicBool::new(true)));
        (flag.clone(), Waker::from(flag))
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Http2 {
    /// Sends the client preface on an open connection. `opening` holds bytes already received from the server.
    pub(super) fn new(transport: Transport, opening: &[u8]) -> Result<Self, String> {
        let pipe = Rc::new(RefCell::new(Pipe::new(transport, opening)));
        let (raised, waker) = Flag::raised();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW * 4).enable_push(false);
        let handshake = builder.handshake::<_, Bytes>(Handle(pipe.clone()));
        // The pipe buffers the whole preface, so one poll suffices.
        let polled = pin!(handshake).poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(Ok((sender, connection))) => {
                Ok(Self { pipe, connection, sender, streams: Vec::new(), raised, waker, state: State::Open })
            }
            Poll::Ready(Err(error)) => Err(error.to_string()),
            Poll::Pending => Err("the preface of HTTP/2 could not be sent".to_owned()),
        }
    }

    /// Requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.streams.len()
    }

    /// Whether it can carry another request, with at most `limit` in flight.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        self.state == State::Open && self.streams.len() < limit.min(self.sender.current_max_send_streams())
    }

    /// Whether it is closed, or closes once its requests are complete.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over || (self.state == State::Leaving && self.streams.is_empty())
    }

    /// Sends a request. Returns false, with nothing sent, if the server accepts no more.
    pub(super) fn send(&mut self, request: http::Request<Bytes>, exchange: Exchange) -> bool {
        let mut context = Context::from_waker(&self.waker);
        if !matches!(self.sender.poll_ready(&mut context), Poll::Ready(Ok(()))) {
            self.state = State::Leaving;
            return false;
        }
        let (head, body) = request.into_parts();
        let head = http::Request::from_parts(head, ());
        let Ok((response, mut stream)) = self.sender.send_request(head, body.is_empty()) else {
            self.state = State::Leaving;
            return false;
        };
        if !body.is_empty() && stream.send_data(body, true).is_err() {
            // The stream's response reports the reason.
            stream.send_reset(Reason::CANCEL);
        }
        let (raised, waker) = Flag::raised();
        self.streams.push(Stream { exchange, stage: Stage::Head(response), raised, waker });
        true
    }

    /// Gives up the request with this number; returns its outcome.
    pub(super) fn give_up(&mut self, number: u64) -> Option<(Exchange, RequestOutcome)> {
        let place = self.streams.iter().position(|stream| stream.exchange.number == number)?;
        let stream = self.streams.swap_remove(place);
        let fate = match stream.stage {
            Stage::Head(_) => RequestOutcome::Failed(Class::HeadTimeout, "no head of an answer".to_owned()),
            Stage::Body { status, .. } => RequestOutcome::Failed(
                Class::BodyTimeout,
                format!("HTTP/2 {status}, and then not all of its body"),
            ),
        };
        Some((stream.exchange, fate))
    }

    /// Reads and writes until the socket would block; adds finished requests to `ended`.
    pub(super) fn pump(&mut self, expected: &Expected, ended: &mut Vec<(Exchange, RequestOutcome)>) {
        self.raised.0.store(true, Ordering::Relaxed);
        loop {
            let mut moved = self.raised.take() && self.poll_connection();
            let mut place = 0;
            while place < self.streams.len() {
                let stream = &mut self.streams[place];
                if !stream.raised.take() && self.state != State::Over {
                    place += 1;
                    continue;
                }
                match stream.poll(expected) {
                    Poll::Pending if self.state != State::Over => place += 1,
                    Poll::Pending => {
                        let text = "the connection ended".to_owned();
                        ended.push((
                            self.streams.swap_remove(place).exchange,
                            RequestOutcome::Failed(Class::ReadEof, text),
                        ));
                    }
                    Poll::Ready(fate) => {
                        moved = true;
                        ended.push((self.streams.swap_remove(place).exchange, fate));
                    }
                }
            }
            if !moved && !self.raised.0.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Returns true if a stream may have changed.
    fn poll_connection(&mut self) -> bool {
        if self.state == State::Over {
            return false;
        }
        let mut context = Context::from_waker(&self.waker);
        if Pin::new(&mut self.connection).poll(&mut context).is_ready() {
            self.state = State::Over;
            return true;
        }
        false
    }
}

impl Stream {
    fn poll(&mut self, expected: &Expected) -> Poll<RequestOutcome> {
        let mut context = Context::from_waker(&self.waker);
        if let Stage::Head(response) = &mut self.stage {
            let response = match Pin::new(response).poll(&mut context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(response)) => response,
                Poll::Ready(Err(error)) => return Poll::Ready(failure(&error, None)),
            };
            let matched = expected.header.as_ref().is_none_or(|(name, value)| {
                response.headers().get_all(name).iter().any(|found| found.as_bytes() == value.as_bytes())
            });
            let status = response.status().as_u16();
            self.stage = Stage::Body { status, matched, received: Some(0), body: response.into_body() };
        }
        let Stage::Body { status, matched, received, body } = &mut self.stage else { return Poll::Pending };
        loop {
            match body.poll_data(&mut context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => break,
                Poll::Ready(Some(Ok(piece))) => {
                    *received =
                        received.and_then(|received| expected.expect.matches_continuation(received, &piece));
                    // Fails only for a finished stream, which needs no window.
                    _ = body.flow_control().release_capacity(piece.len());
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(failure(&error, Some(*status))),
            }
        }
        let found = match &expected.expect.trailer {
            None => true,
            Some((name, value)) => match body.poll_trailers(&mut context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(trailers)) => trailers.is_some_and(|trailers| {
                    trailers.get(name.as_str()).is_some_and(|found| found.as_bytes() == value.as_bytes())
                }),
                Poll::Ready(Err(error)) => return Poll::Ready(failure(&error, Some(*status))),
            },
        };
        let is_whole = received.is_some_and(|received| expected.expect.is_complete(received));
        Poll::Ready(outcome_for(expected, *status, *matched, found, is_whole))
    }
}

/// The outcome of a complete response: the HTTP/1 checks, then trailers and body.
fn outcome_for(
    expected: &Expected,
    status: u16,
    matched: bool,
    found: bool,
    is_whole: bool,
) -> RequestOutcome {
    let line = || format!("HTTP/2 {status}");
    let wrong = match &expected.expect.trailer {
        Some((name, value)) if !found => format!("{}, without {name}: {value} in its trailers", line()),
        _ if !is_whole => format!("{}, with other content than expected", line()),
        _ => return expected.outcome_for(status, matched, line),
    };
    match expected.outcome_for(status, matched, line) {
        RequestOutcome::Answered { wrong: None } => {
            RequestOutcome::Answered { wrong: Some((Class::WrongRoute, wrong)) }
        }
        fate => fate,
    }
}

/// The outcome of a failed response, with its status if known.
fn failure(error: &h2::Error, status: Option<u16>) -> RequestOutcome {
    // The `h2` crate reports "broken pipe" when a connection ends without GOAWAY.
    let is_end = error
        .get_io()
        .is_some_and(|error| matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe));
    let (class, what) = match status {
        _ if error.is_library() => (Class::Malformed, error.to_string()),
        Some(_) if is_end => (Class::Truncated, "the end of the stream within its body".to_owned()),
        Some(_) => (Class::Truncated, error.to_string()),
        None if is_end => (Class::ReadEof, "the end of the stream instead of an answer".to_owned()),
        None => (Class::ReadReset, error.to_string()),
    };
    RequestOutcome::Failed(
        class,
        status.map_or_else(|| what.clone(), |status| format!("HTTP/2 {status}, and {what}")),
    )
}
