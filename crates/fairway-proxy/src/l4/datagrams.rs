//! Forwards datagrams between the clients of one socket and endpoints. A session is a client's address and
//! port, with its own socket connected to its endpoint, so that responses of others never reach the client.
//!
//! ```text
//! client ─► socket of the listener ─► session ─► its socket ─► endpoint
//!        ◄─────────────────────────────────────◄ a task of the session
//! ```
//!
//! Every datagram is received into the worker's one buffer and sent from there; what a socket does not take at
//! once is dropped, as on any hop of a network. Nothing is sent to an address from which nothing came.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use fairway_net::clock::{Deadline, Instant};
use fairway_net::proxy_header::{Addresses, MOST_OF_V2, Payload, write_v2};
use fairway_net::wire::Workspace;
use fairway_net::yielding::go_on_later;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::io::{Interest, ReadBuf};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use crate::l4::sessions::{SessionKey, Sessions};

/// Room for the largest datagram (65,527 bytes over IPv6) and one byte more, so that truncation shows.
const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

/// Room before a datagram for a PROXY protocol header.
const HEADROOM: usize = MOST_OF_V2;

/// Datagrams per socket and turn.
const MAX_DATAGRAMS_PER_TURN: u32 = 32;

/// Endpoints tried for one datagram.
const MAX_ENDPOINT_TRIES: u32 = 3;

/// Interval at which a draining socket checks whether its address is wanted again.
const ADDRESS_POLL_INTERVAL: Duration = Duration::from_millis(500);

const ENOMEM: i32 = 12;
const EMSGSIZE: i32 = 90;
const ENOBUFS: i32 = 105;

/// Routes and counts the datagrams of a socket.
pub(crate) trait Forward: 'static {
    /// State of a session: its endpoint, and what counts it.
    type Route: 'static;

    /// Starts a session for a datagram of a client without one.
    ///
    /// # Errors
    /// The reason why the datagram is dropped.
    fn start_session(
        &self,
        client: SocketAddr,
        datagram: &[u8],
    ) -> Result<NewSession<Self::Route>, &'static str>;

    /// A session has started.
    fn session_started(&self, route: &Self::Route);

    /// Whether the session's endpoint may get one more datagram; otherwise the client gets another endpoint.
    fn is_still_valid(&self, route: &Self::Route) -> bool;

    /// The first response of a session, `elapsed` after its first datagram.
    fn first_response(&self, route: &Self::Route, elapsed: Duration);

    /// The endpoint is unreachable. Returns the drop reason to use if no other endpoint can be tried.
    fn endpoint_unreachable(&self, route: &Self::Route, error: &io::Error) -> &'static str;

    /// A session has ended.
    fn session_ended(&self, route: Self::Route, summary: SessionSummary);

    /// Idle timeout of sessions.
    fn idle_timeout(&self) -> Duration;

    /// Whether another listener needs the address of the socket, which only old sessions still use.
    fn must_release_address(&self) -> bool;

    /// Counts the outcome of a datagram.
    fn record(&self, outcome: DatagramOutcome);
}

/// The outcome of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramOutcome {
    /// Received from a client, with this many bytes.
    Received(usize),
    /// Sent to a client, with this many bytes.
    Sent(usize),
    /// Dropped, for this reason.
    Dropped(&'static str),
}

/// A session to be started.
pub(crate) struct NewSession<H> {
    /// State of the session.
    pub route: H,
    /// Its endpoint.
    pub endpoint: SocketAddr,
    /// PROXY protocol addresses to send before the first datagram.
    pub proxy_header: Option<Addresses>,
    /// Leading bytes of the first datagram that are not for the endpoint.
    pub skip: usize,
    /// Responses to each datagram of the client, if known: the session ends when all have arrived.
    pub responses: Option<NonZeroU32>,
}

/// Summary of an ended session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionSummary {
    /// Bytes of datagrams from the client.
    pub received: u64,
    /// Bytes of datagrams to the client.
    pub sent: u64,
    /// Duration.
    pub duration: Duration,
    /// Reason of the end.
    pub end: SessionEnd,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// Idle timeout.
    Idle,
    /// All expected responses arrived.
    Answered,
    /// The endpoint was removed: the client's next datagram goes to another one.
    EndpointLeft,
    /// The endpoint is unreachable: as above.
    Unreachable,
    /// The process drains or the listener is gone, and the session exceeded the drain timeout.
    Drained,
}

impl SessionEnd {
    /// Label in metrics and logs.
    #[must_use]
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Answered => "answered",
            Self::EndpointLeft => "endpoint_left",
            Self::Unreachable => "connect_failed",
            Self::Drained => "drained",
        }
    }
}

/// Forwards the datagrams of one socket.
pub(crate) struct Datagrams<F: Forward> {
    forwarding: Rc<Forwarding<F>>,
    /// When the longest idle session times out.
    idle: Deadline,
}

struct Forwarding<F: Forward> {
    socket: UdpSocket,
    forward: F,
    workspace: Rc<Workspace>,
    sessions: RefCell<Sessions<Rc<Session<F::Route>>>>,
    /// Waker of the task that waits for the last session.
    drain_waker: RefCell<Option<Waker>>,
}

struct Session<H> {
    key: SessionKey,
    client: SockAddr,
    /// Connected to the endpoint.
    socket: UdpSocket,
    /// `None` once the session has ended.
    route: RefCell<Option<H>>,
    started_at: Instant,
    received: Cell<u64>,
    sent: Cell<u64>,
    /// Datagrams sent to the endpoint.
    requests: Cell<u64>,
    /// Datagrams from the endpoint.
    responses_received: Cell<u64>,
    /// Responses to each datagram of the client.
    responses_per_request: Option<NonZeroU32>,
    /// The task that relays responses.
    task: RefCell<Option<AbortHandle>>,
}

/// Why a socket did not take a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SendError {
    /// The datagram is dropped; the session continues.
    Dropped(&'static str),
    /// The other end is unreachable.
    Unreachable,
}

impl SendError {
    fn from_io(error: &io::Error) -> Self {
        match error.raw_os_error() {
            _ if error.kind() == io::ErrorKind::WouldBlock => Self::Dropped("no_buffer"),
            Some(ENOBUFS | ENOMEM) => Self::Dropped("no_buffer"),
            Some(EMSGSIZE) => Self::Dropped("too_large"),
            _ => Self::Unreachable,
        }
    }
}

impl<F: Forward> Datagrams<F> {
    /// Forwards the datagrams of `socket` through the worker's buffer.
    pub(crate) fn new(socket: UdpSocket, forward: F, workspace: &Rc<Workspace>) -> Self {
        let shared = Forwarding {
            socket,
            forward,
            workspace: Rc::clone(workspace),
            sessions: RefCell::default(),
            drain_waker: RefCell::default(),
        };
        Self { forwarding: Rc::new(shared), idle: Deadline::unset() }
    }

    /// Forwards datagrams. Never completes; may be dropped and called again.
    pub(crate) async fn serve(&mut self) {
        std::future::poll_fn(|cx| self.poll_once(cx)).await;
    }

    /// Forwards until no session is left, another listener needs the address, or `within` has passed; then ends
    /// the remaining sessions.
    pub(crate) async fn drain(mut self, within: Duration) {
        let (mut deadline, mut poll_interval) =
            (Deadline::unset(), tokio::time::interval(ADDRESS_POLL_INTERVAL));
        deadline.set_once(within);
        std::future::poll_fn(|cx| {
            *self.forwarding.drain_waker.borrow_mut() = Some(cx.waker().clone());
            let _ = self.poll_once(cx);
            while poll_interval.poll_tick(cx).is_ready() {
                if self.forwarding.forward.must_release_address() {
                    return Poll::Ready(());
                }
            }
            if self.forwarding.sessions.borrow().is_empty() {
                Poll::Ready(())
            } else {
                deadline.poll_passed(cx)
            }
        })
        .await;
        loop {
            let next = self.forwarding.sessions.borrow_mut().end_idle(Instant::now(), Duration::ZERO);
            let Some(session) = next else { return };
            self.forwarding.close_session(&session, SessionEnd::Drained);
        }
    }

    fn poll_once(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let has_more = self.forwarding.poll_receive(cx).is_ready();
        self.poll_idle(cx);
        if has_more {
            go_on_later(cx);
        }
        Poll::Pending
    }

    /// Ends idle sessions, and waits for the next to time out.
    fn poll_idle(&mut self, cx: &mut Context<'_>) {
        let shared = &*self.forwarding;
        loop {
            let Some(oldest) = shared.sessions.borrow().oldest() else { return };
            let idle = shared.forward.idle_timeout();
            self.idle.set(oldest, idle);
            if self.idle.poll_passed(cx).is_pending() {
                return;
            }
            let now = Instant::now();
            loop {
                let ended = shared.sessions.borrow_mut().end_idle(now, idle);
                let Some(session) = ended else { break };
                shared.close_session(&session, SessionEnd::Idle);
            }
        }
    }
}

impl<F: Forward> Forwarding<F> {
    /// Receives from clients. Ready if there may be more than one turn takes.
    fn poll_receive(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..MAX_DATAGRAMS_PER_TURN {
            let mut room = self.workspace.room();
            let mut into = ReadBuf::new(&mut room[HEADROOM..][..MAX_DATAGRAM_BYTES]);
            // An error of an earlier response is not the fault of this sender.
            let Ok(client) = ready!(self.socket.poll_recv_from(cx, &mut into)) else { continue };
            let length = into.filled().len();
            self.forward.record(DatagramOutcome::Received(length));
            match length < MAX_DATAGRAM_BYTES {
                true => self.forward_datagram(client, &mut room[..HEADROOM + length]),
                false => self.forward.record(DatagramOutcome::Dropped("too_large")),
            }
        }
        Poll::Ready(())
    }

    /// Forwards a client's datagram, which is in `room` behind the headroom.
    fn forward_datagram(self: &Rc<Self>, client: SocketAddr, room: &mut [u8]) {
        let known = self.sessions.borrow().find(&client).map(|(_, session)| Rc::clone(session));
        if let Some(session) = known {
            let is_valid =
                session.route.borrow().as_ref().is_some_and(|route| self.forward.is_still_valid(route));
            if !is_valid {
                self.end(&session, SessionEnd::EndpointLeft);
            } else if self.send_to_endpoint(&session, &room[HEADROOM..]) {
                return;
            }
        }
        self.start_session(client, room);
    }

    /// Sends a client's datagram to the endpoint. Returns false if that ended the session.
    fn send_to_endpoint(&self, session: &Session<F::Route>, datagram: &[u8]) -> bool {
        session.received.set(session.received.get() + datagram.len() as u64);
        match SockRef::from(&session.socket).send(datagram) {
            Ok(_) => {
                session.requests.set(session.requests.get() + 1);
                self.sessions.borrow_mut().touch(session.key, Instant::now());
            }
            Err(error) => match SendError::from_io(&error) {
                SendError::Dropped(reason) => self.forward.record(DatagramOutcome::Dropped(reason)),
                SendError::Unreachable => {
                    self.end_unreachable(session, &error);
                    return false;
                }
            },
        }
        true
    }

    /// Starts a session for a client without one.
    fn start_session(self: &Rc<Self>, client: SocketAddr, room: &mut [u8]) {
        let mut why = "";
        for _ in 0..MAX_ENDPOINT_TRIES {
            let new_session = match self.forward.start_session(client, &room[HEADROOM..]) {
                Ok(new_session) => new_session,
                Err(reason) => return self.forward.record(DatagramOutcome::Dropped(reason)),
            };
            let received = room.len() - HEADROOM;
            let first = HEADROOM + new_session.skip;
            let mut original = [0; MOST_OF_V2];
            original.copy_from_slice(&room[first - MOST_OF_V2..first]);
            let from = write_proxy_header(room, new_session.proxy_header, first);
            match connect(new_session.endpoint).and_then(|socket| send_first(socket, &room[from..])) {
                Ok(Ok(socket)) => {
                    let NewSession { route, responses, .. } = new_session;
                    return self.insert(client, socket, route, responses, received);
                }
                // The PROXY header is sent once: a session only starts with a datagram that was sent.
                Ok(Err(reason)) => return self.forward.record(DatagramOutcome::Dropped(reason)),
                Err(error) => why = self.forward.endpoint_unreachable(&new_session.route, &error),
            }
            // The next endpoint is picked for the original datagram.
            room[first - MOST_OF_V2..first].copy_from_slice(&original);
        }
        self.forward.record(DatagramOutcome::Dropped(why));
    }

    fn insert(
        self: &Rc<Self>,
        client: SocketAddr,
        socket: UdpSocket,
        route: F::Route,
        responses_per_request: Option<NonZeroU32>,
        received: usize,
    ) {
        self.forward.session_started(&route);
        let started_at = Instant::now();
        let make = |key| {
            Rc::new(Session {
                key,
                client: client.into(),
                socket,
                route: RefCell::new(Some(route)),
                started_at,
                received: Cell::new(received as u64),
                sent: Cell::new(0),
                requests: Cell::new(1),
                responses_received: Cell::new(0),
                responses_per_request,
                task: RefCell::new(None),
            })
        };
        let mut sessions = self.sessions.borrow_mut();
        if sessions.start(client, started_at, make).is_ok()
            && let Some((_, session)) = sessions.find(&client)
        {
            let task = tokio::task::spawn_local(relay_responses(Rc::clone(self), Rc::clone(session)));
            *session.task.borrow_mut() = Some(task.abort_handle());
        }
    }

    /// Ends a session whose endpoint is unreachable.
    fn end_unreachable(&self, session: &Session<F::Route>, error: &io::Error) {
        if let Some(route) = &*session.route.borrow() {
            self.forward.endpoint_unreachable(route, error);
        }
        self.end(session, SessionEnd::Unreachable);
    }

    fn end(&self, session: &Session<F::Route>, end: SessionEnd) {
        let ended = self.sessions.borrow_mut().end(session.key);
        if let Some(session) = ended {
            self.close_session(&session, end);
        }
    }

    /// Finishes a session that was removed from the table.
    fn close_session(&self, session: &Session<F::Route>, end: SessionEnd) {
        if let Some(task) = session.task.borrow_mut().take() {
            task.abort();
        }
        let Some(route) = session.route.borrow_mut().take() else { return };
        let (received, sent) = (session.received.get(), session.sent.get());
        self.forward.session_ended(
            route,
            SessionSummary { received, sent, duration: session.started_at.elapsed(), end },
        );
        if let Some(waiting) = &*self.drain_waker.borrow() {
            waiting.wake_by_ref();
        }
    }
}

/// Readiness a session waits for. A refusing endpoint is an error without data, which would not wake a task
/// that waits to read.
const RESPONSE_INTEREST: Interest = Interest::READABLE.add(Interest::ERROR);

/// Relays responses to the client until all have arrived or the endpoint is unreachable.
async fn relay_responses<F: Forward>(shared: Rc<Forwarding<F>>, session: Rc<Session<F::Route>>) {
    loop {
        match session.next_responses(&shared).await {
            Ok(ReceivedResponses::All) => return shared.end(&session, SessionEnd::Answered),
            Ok(ReceivedResponses::More) => yield_turn().await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return shared.end_unreachable(&session, &error),
        }
    }
}

/// Yields to other tasks of the worker.
async fn yield_turn() {
    let mut was_later = false;
    std::future::poll_fn(|cx| match std::mem::replace(&mut was_later, true) {
        true => Poll::Ready(()),
        false => {
            go_on_later(cx);
            Poll::Pending
        }
    })
    .await;
}

/// Progress of a session's responses.
enum ReceivedResponses {
    /// All expected responses.
    All,
    /// One turn's; there may be more.
    More,
}

impl<H: 'static> Session<H> {
    /// Waits for responses and relays them.
    ///
    /// # Errors
    /// As [`Session::relay_available_responses`].
    async fn next_responses<F: Forward<Route = H>>(
        &self,
        shared: &Forwarding<F>,
    ) -> io::Result<ReceivedResponses> {
        // Wait for one interest at a time: asked for both, tokio never clears readiness of either.
        let interest = match self.socket.ready(RESPONSE_INTEREST).await?.is_error() {
            true => Interest::ERROR,
            false => Interest::READABLE,
        };
        self.relay_available_responses(shared, interest)
    }

    /// Relays available responses, at most one turn's. `interest` is what the socket is ready for.
    ///
    /// # Errors
    /// `WouldBlock` if nothing more is available; otherwise the endpoint is unreachable.
    fn relay_available_responses<F: Forward<Route = H>>(
        &self,
        shared: &Forwarding<F>,
        why: Interest,
    ) -> io::Result<ReceivedResponses> {
        for _ in 0..MAX_DATAGRAMS_PER_TURN {
            let mut room = shared.workspace.room();
            let receive = || (&*SockRef::from(&self.socket)).read(&mut room[..MAX_DATAGRAM_BYTES]);
            let count = self.socket.try_io(why, receive)?;
            self.send_to_client(&room[..count], shared);
            if self.has_all_responses() {
                return Ok(ReceivedResponses::All);
            }
        }
        Ok(ReceivedResponses::More)
    }

    /// Whether all expected responses have arrived.
    fn has_all_responses(&self) -> bool {
        self.responses_per_request
            .is_some_and(|each| self.responses_received.get() >= self.requests.get() * u64::from(each.get()))
    }

    fn send_to_client<F: Forward<Route = H>>(&self, datagram: &[u8], shared: &Forwarding<F>) {
        let sent = match datagram.len() < MAX_DATAGRAM_BYTES {
            true => SockRef::from(&shared.socket).send_to(datagram, &self.client).map_err(|error| {
                match SendError::from_io(&error) {
                    SendError::Dropped(reason) => reason,
                    SendError::Unreachable => "client_unreachable",
                }
            }),
            false => Err("too_large"),
        };
        if self.responses_received.replace(self.responses_received.get() + 1) == 0
            && let Some(route) = &*self.route.borrow()
        {
            shared.forward.first_response(route, self.started_at.elapsed());
        }
        self.sent.set(self.sent.get() + datagram.len() as u64);
        shared.forward.record(sent.map_or_else(DatagramOutcome::Dropped, DatagramOutcome::Sent));
        shared.sessions.borrow_mut().touch(self.key, Instant::now());
    }
}

/// Writes a PROXY protocol header before offset `from`; returns its start.
fn write_proxy_header(room: &mut [u8], addresses: Option<Addresses>, from: usize) -> usize {
    let Some(addresses) = addresses else { return from };
    let mut written = [0; MOST_OF_V2];
    let header = write_v2(addresses, Payload::Datagrams, &mut written);
    room[from - header.len()..from].copy_from_slice(header);
    from - header.len()
}

/// Sends the first datagram of a session; returns the reason if it was dropped locally.
///
/// # Errors
/// The endpoint is unreachable.
fn send_first(socket: UdpSocket, datagram: &[u8]) -> io::Result<Result<UdpSocket, &'static str>> {
    let sent = SockRef::from(&socket).send(datagram);
    match sent {
        Ok(_) => Ok(Ok(socket)),
        Err(error) => match SendError::from_io(&error) {
            SendError::Dropped(reason) => Ok(Err(reason)),
            SendError::Unreachable => Err(error),
        },
    }
}

/// A socket that receives only from this address.
fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.connect(&to.into())?;
    UdpSocket::from_std(socket.into())
}

/// The local address from which responses to `client` are sent, for a socket bound to all addresses.
#[must_use]
pub(crate) fn source_towards(client: SocketAddr) -> Option<SocketAddr> {
    let any: SocketAddr = match client {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(client).ok()?;
    socket.local_addr().ok()
}

#[cfg(test)]
mod tests;
