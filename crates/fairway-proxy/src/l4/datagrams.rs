//! Datagrams of the clients of one socket, to endpoints and back. A session is a client's address and port with a connected
//! socket of its own towards its endpoint, so that answers of others never reach the client.
//!
//! ```text
//! client ─► socket of the listener ─► session ─► its socket ─► endpoint
//!        ◄─────────────────────────────────────◄ a task of the session
//! ```
//!
//! Every datagram is received into the worker's one buffer and sent from there; what a socket does not take at once is dropped, as
//! on any other hop of a network. Nothing is sent to whom sent nothing.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use fairway_net::clock::{Deadline, Instant};
use fairway_net::proxy_header::{Addresses, Carries, MOST_OF_V2, write_v2};
use fairway_net::turns::go_on_later;
use fairway_net::wire::Workspace;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::io::{Interest, ReadBuf};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use crate::l4::sessions::{Key, Sessions};

/// Room for the largest datagram (65,527 bytes over IPv6), and more, so that one that was cut would show.
const MOST: usize = 64 * 1024;

/// Room in front of a datagram for a header that goes with it.
const HEADROOM: usize = MOST_OF_V2;

/// Datagrams that one socket has in a turn.
const TURN: u32 = 32;

/// Endpoints that are tried for one datagram.
const TRIES: u32 = 3;

/// How often a socket that is left is looked at.
const LOOK: Duration = Duration::from_millis(500);

const ENOMEM: i32 = 12;
const EMSGSIZE: i32 = 90;
const ENOBUFS: i32 = 105;

/// Who decides where datagrams go, and counts them.
pub(crate) trait Forward: 'static {
    /// What a session has for as long as it lives: its endpoint, and its places in what is counted.
    type Held: 'static;

    /// A client without a session sent this.
    ///
    /// # Errors
    /// Why there is no session for it: the datagram is dropped.
    fn begin(&self, client: SocketAddr, datagram: &[u8]) -> Result<Beginning<Self::Held>, &'static str>;

    /// A session has begun.
    fn begun(&self, held: &Self::Held);

    /// Whether the endpoint of a session may have one more datagram; else the client gets another one.
    fn stays(&self, held: &Self::Held) -> bool;

    /// The first answer in a session, so long after its first datagram.
    fn answered(&self, held: &Self::Held, took: Duration);

    /// The endpoint cannot be reached. Gives the reason for which a datagram is dropped where no other one can be.
    fn unreachable(&self, held: &Self::Held, error: &io::Error) -> &'static str;

    /// A session is over.
    fn ended(&self, held: Self::Held, over: Over);

    /// How long a session stays in which nothing moves.
    fn idle(&self) -> Duration;

    /// Whether somebody else waits for the address of the socket, which only sessions that were there before still use.
    fn yields(&self) -> bool;

    /// What became of a datagram.
    fn note(&self, fate: Fate);
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It came from a client, with so many bytes.
    Received(usize),
    /// It went to a client, with so many bytes.
    Sent(usize),
    /// It went nowhere, for this reason.
    Dropped(&'static str),
}

/// How a session begins.
pub(crate) struct Beginning<H> {
    /// What it has.
    pub held: H,
    /// Where its datagrams go.
    pub endpoint: SocketAddr,
    /// What the endpoint is told of the client, in front of the first datagram.
    pub introduce: Option<Addresses>,
    /// Bytes at the beginning of the first datagram that are not for the endpoint.
    pub skip: usize,
    /// Datagrams that the endpoint sends for each one of the client, where that is known: the session is over when all of them
    /// have come.
    pub responses: Option<NonZeroU32>,
}

/// What is known of a session when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    /// Bytes of datagrams from the client.
    pub received: u64,
    /// Bytes of datagrams to the client.
    pub sent: u64,
    /// From its beginning to its end.
    pub took: Duration,
    /// Why.
    pub end: End,
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing moved for too long.
    Idle,
    /// Every datagram of the client has its answers.
    Answered,
    /// Its endpoint has left: the client's next datagram goes to another one.
    Left,
    /// Its endpoint cannot be reached: as above.
    Unreachable,
    /// The process stops, or the listener is gone, and it took too long to end.
    Drained,
}

impl End {
    /// In the words of metrics and logs.
    #[must_use]
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Answered => "answered",
            Self::Left => "endpoint_left",
            Self::Unreachable => "connect_failed",
            Self::Drained => "drained",
        }
    }
}

/// The datagrams of one socket.
pub(crate) struct Datagrams<F: Forward> {
    shared: Rc<Shared<F>>,
    /// When the session may end in which nothing has moved for the longest time.
    idle: Deadline,
}

struct Shared<F: Forward> {
    socket: UdpSocket,
    forward: F,
    workspace: Rc<Workspace>,
    sessions: RefCell<Sessions<Rc<Session<F::Held>>>>,
    /// Who waits for the end of the last session.
    waiting: RefCell<Option<Waker>>,
}

struct Session<H> {
    key: Key,
    client: SockAddr,
    /// Connected with the endpoint.
    socket: UdpSocket,
    /// Nothing once it is over.
    held: RefCell<Option<H>>,
    began: Instant,
    received: Cell<u64>,
    sent: Cell<u64>,
    /// Datagrams from the client that went to the endpoint.
    asked: Cell<u64>,
    /// Datagrams from the endpoint.
    answers: Cell<u64>,
    /// Those that it sends for each one from the client.
    responses: Option<NonZeroU32>,
    /// What receives the answers.
    task: RefCell<Option<AbortHandle>>,
}

/// What is wrong with a socket that did not take a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The datagram is dropped, and all else goes on.
    Dropped(&'static str),
    /// The other end cannot be reached.
    Unreachable,
}

impl Trouble {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            _ if error.kind() == io::ErrorKind::WouldBlock => Self::Dropped("no_buffer"),
            Some(ENOBUFS | ENOMEM) => Self::Dropped("no_buffer"),
            Some(EMSGSIZE) => Self::Dropped("too_large"),
            _ => Self::Unreachable,
        }
    }
}

impl<F: Forward> Datagrams<F> {
    /// Of a socket, through the buffer of its worker.
    pub(crate) fn new(socket: UdpSocket, forward: F, workspace: &Rc<Workspace>) -> Self {
        let shared = Shared {
            socket,
            forward,
            workspace: Rc::clone(workspace),
            sessions: RefCell::default(),
            waiting: RefCell::default(),
        };
        Self { shared: Rc::new(shared), idle: Deadline::unset() }
    }

    /// Forwards what can be forwarded. Never ready; may be dropped and begun again.
    pub(crate) async fn serve(&mut self) {
        std::future::poll_fn(|cx| self.poll_turn(cx)).await;
    }

    /// The same until no session is left, somebody else waits for the address, or `within` is over: then those that are left end.
    pub(crate) async fn leave(mut self, within: Duration) {
        let (mut over, mut look) = (Deadline::unset(), tokio::time::interval(LOOK));
        over.set_once(within);
        std::future::poll_fn(|cx| {
            *self.shared.waiting.borrow_mut() = Some(cx.waker().clone());
            let _ = self.poll_turn(cx);
            while look.poll_tick(cx).is_ready() {
                if self.shared.forward.yields() {
                    return Poll::Ready(());
                }
            }
            if self.shared.sessions.borrow().is_empty() { Poll::Ready(()) } else { over.poll_passed(cx) }
        })
        .await;
        loop {
            let next = self.shared.sessions.borrow_mut().end_idle(Instant::now(), Duration::ZERO);
            let Some(session) = next else { return };
            self.shared.over(&session, End::Drained);
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let more = self.shared.poll_receive(cx).is_ready();
        self.poll_idle(cx);
        if more {
            go_on_later(cx);
        }
        Poll::Pending
    }

    /// Ends the sessions in which nothing has moved for too long, and waits for the next one.
    fn poll_idle(&mut self, cx: &mut Context<'_>) {
        let shared = &*self.shared;
        loop {
            let Some(oldest) = shared.sessions.borrow().oldest() else { return };
            let idle = shared.forward.idle();
            self.idle.set(oldest, idle);
            if self.idle.poll_passed(cx).is_pending() {
                return;
            }
            let now = Instant::now();
            loop {
                let ended = shared.sessions.borrow_mut().end_idle(now, idle);
                let Some(session) = ended else { break };
                shared.over(&session, End::Idle);
            }
        }
    }
}

impl<F: Forward> Shared<F> {
    /// Receives from clients. Ready when there may be more than what one turn takes.
    fn poll_receive(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURN {
            let mut room = self.workspace.room();
            let mut into = ReadBuf::new(&mut room[HEADROOM..][..MOST]);
            // What is wrong with an answer that was sent before is nobody's fault who sends now.
            let Ok(client) = ready!(self.socket.poll_recv_from(cx, &mut into)) else { continue };
            let length = into.filled().len();
            self.forward.note(Fate::Received(length));
            match length < MOST {
                true => self.take(client, &mut room[..HEADROOM + length]),
                false => self.forward.note(Fate::Dropped("too_large")),
            }
        }
        Poll::Ready(())
    }

    /// Forwards what a client sent; it stands in `room` behind the headroom.
    fn take(self: &Rc<Self>, client: SocketAddr, room: &mut [u8]) {
        let known = self.sessions.borrow().find(&client).map(|(_, session)| Rc::clone(session));
        if let Some(session) = known {
            let stays = session.held.borrow().as_ref().is_some_and(|held| self.forward.stays(held));
            if !stays {
                self.end(&session, End::Left);
            } else if self.pass(&session, &room[HEADROOM..]) {
                return;
            }
        }
        self.begin(client, room);
    }

    /// Sends a datagram of a session on. False where the session is over because of it.
    fn pass(&self, session: &Session<F::Held>, datagram: &[u8]) -> bool {
        session.received.set(session.received.get() + datagram.len() as u64);
        match SockRef::from(&session.socket).send(datagram) {
            Ok(_) => {
                session.asked.set(session.asked.get() + 1);
                self.sessions.borrow_mut().touch(session.key, Instant::now());
            }
            Err(error) => match Trouble::of(&error) {
                Trouble::Dropped(reason) => self.forward.note(Fate::Dropped(reason)),
                Trouble::Unreachable => {
                    self.fail(session, &error);
                    return false;
                }
            },
        }
        true
    }

    /// Begins a session for a client that has none.
    fn begin(self: &Rc<Self>, client: SocketAddr, room: &mut [u8]) {
        let mut why = "";
        for _ in 0..TRIES {
            let beginning = match self.forward.begin(client, &room[HEADROOM..]) {
                Ok(beginning) => beginning,
                Err(reason) => return self.forward.note(Fate::Dropped(reason)),
            };
            let received = room.len() - HEADROOM;
            let first = HEADROOM + beginning.skip;
            let mut covered = [0; MOST_OF_V2];
            covered.copy_from_slice(&room[first - MOST_OF_V2..first]);
            let from = introduce(room, beginning.introduce, first);
            match connect(beginning.endpoint).and_then(|socket| send_first(socket, &room[from..])) {
                Ok(Ok(socket)) => {
                    let Beginning { held, responses, .. } = beginning;
                    return self.insert(client, socket, held, responses, received);
                }
                // What it says of the client is said once: a session begins with a datagram that went out.
                Ok(Err(reason)) => return self.forward.note(Fate::Dropped(reason)),
                Err(error) => why = self.forward.unreachable(&beginning.held, &error),
            }
            // The next endpoint is chosen for the datagram as it came.
            room[first - MOST_OF_V2..first].copy_from_slice(&covered);
        }
        self.forward.note(Fate::Dropped(why));
    }

    fn insert(
        self: &Rc<Self>,
        client: SocketAddr,
        socket: UdpSocket,
        held: F::Held,
        responses: Option<NonZeroU32>,
        received: usize,
    ) {
        self.forward.begun(&held);
        let began = Instant::now();
        let make = |key| {
            Rc::new(Session {
                key,
                client: client.into(),
                socket,
                held: RefCell::new(Some(held)),
                began,
                received: Cell::new(received as u64),
                sent: Cell::new(0),
                asked: Cell::new(1),
                answers: Cell::new(0),
                responses,
                task: RefCell::new(None),
            })
        };
        let mut sessions = self.sessions.borrow_mut();
        if sessions.begin(client, began, make).is_ok()
            && let Some((_, session)) = sessions.find(&client)
        {
            let task = tokio::task::spawn_local(answer(Rc::clone(self), Rc::clone(session)));
            *session.task.borrow_mut() = Some(task.abort_handle());
        }
    }

    /// The endpoint of a session cannot be reached.
    fn fail(&self, session: &Session<F::Held>, error: &io::Error) {
        if let Some(held) = &*session.held.borrow() {
            self.forward.unreachable(held, error);
        }
        self.end(session, End::Unreachable);
    }

    fn end(&self, session: &Session<F::Held>, end: End) {
        let ended = self.sessions.borrow_mut().end(session.key);
        if let Some(session) = ended {
            self.over(&session, end);
        }
    }

    /// A session was taken out.
    fn over(&self, session: &Session<F::Held>, end: End) {
        if let Some(task) = session.task.borrow_mut().take() {
            task.abort();
        }
        let Some(held) = session.held.borrow_mut().take() else { return };
        let (received, sent) = (session.received.get(), session.sent.get());
        self.forward.ended(held, Over { received, sent, took: session.began.elapsed(), end });
        if let Some(waiting) = &*self.waiting.borrow() {
            waiting.wake_by_ref();
        }
    }
}

/// What a session waits for. That an endpoint refuses is an error without anything to read, and would not wake who waits to read.
const ANSWERS: Interest = Interest::READABLE.add(Interest::ERROR);

/// Sends the answers of a session to its client until all have come or its endpoint cannot be reached.
async fn answer<F: Forward>(shared: Rc<Shared<F>>, session: Rc<Session<F::Held>>) {
    loop {
        match session.next_answers(&shared).await {
            Ok(Answers::All) => return shared.end(&session, End::Answered),
            Ok(Answers::More) => later().await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return shared.fail(&session, &error),
        }
    }
}

/// Lets others of the worker have their turn.
async fn later() {
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

/// What of a session's answers has come.
enum Answers {
    /// All that there will be.
    All,
    /// A turn's, and there may be more.
    More,
}

impl<H: 'static> Session<H> {
    /// Waits until something has come, and passes it on.
    ///
    /// # Errors
    /// As [`Session::pass_answers`].
    async fn next_answers<F: Forward<Held = H>>(&self, shared: &Shared<F>) -> io::Result<Answers> {
        // One reason at a time: asked for both, tokio never takes back that the socket was ready for either.
        let why = match self.socket.ready(ANSWERS).await?.is_error() {
            true => Interest::ERROR,
            false => Interest::READABLE,
        };
        self.pass_answers(shared, why)
    }

    /// Passes on what has come, at most a turn's. `why` is the one thing for which the socket is ready.
    ///
    /// # Errors
    /// `WouldBlock` when nothing more is there; else the endpoint cannot be reached.
    fn pass_answers<F: Forward<Held = H>>(&self, shared: &Shared<F>, why: Interest) -> io::Result<Answers> {
        for _ in 0..TURN {
            let mut room = shared.workspace.room();
            let receive = || (&*SockRef::from(&self.socket)).read(&mut room[..MOST]);
            let count = self.socket.try_io(why, receive)?;
            self.pass_back(&room[..count], shared);
            if self.is_answered() {
                return Ok(Answers::All);
            }
        }
        Ok(Answers::More)
    }

    /// Whether all answers have come.
    fn is_answered(&self) -> bool {
        self.responses.is_some_and(|each| self.answers.get() >= self.asked.get() * u64::from(each.get()))
    }

    fn pass_back<F: Forward<Held = H>>(&self, datagram: &[u8], shared: &Shared<F>) {
        let sent = match datagram.len() < MOST {
            true => SockRef::from(&shared.socket).send_to(datagram, &self.client).map_err(|error| {
                match Trouble::of(&error) {
                    Trouble::Dropped(reason) => reason,
                    Trouble::Unreachable => "client_unreachable",
                }
            }),
            false => Err("too_large"),
        };
        if self.answers.replace(self.answers.get() + 1) == 0
            && let Some(held) = &*self.held.borrow()
        {
            shared.forward.answered(held, self.began.elapsed());
        }
        self.sent.set(self.sent.get() + datagram.len() as u64);
        shared.forward.note(sent.map_or_else(Fate::Dropped, Fate::Sent));
        shared.sessions.borrow_mut().touch(self.key, Instant::now());
    }
}

/// Puts a header in front of what begins at `from`. Gives where it begins.
fn introduce(room: &mut [u8], addresses: Option<Addresses>, from: usize) -> usize {
    let Some(addresses) = addresses else { return from };
    let mut written = [0; MOST_OF_V2];
    let header = write_v2(addresses, Carries::Datagrams, &mut written);
    room[from - header.len()..from].copy_from_slice(header);
    from - header.len()
}

/// Sends the first datagram of a session; gives the reason where it was dropped here.
///
/// # Errors
/// When the endpoint cannot be reached.
fn send_first(socket: UdpSocket, datagram: &[u8]) -> io::Result<Result<UdpSocket, &'static str>> {
    let sent = SockRef::from(&socket).send(datagram);
    match sent {
        Ok(_) => Ok(Ok(socket)),
        Err(error) => match Trouble::of(&error) {
            Trouble::Dropped(reason) => Ok(Err(reason)),
            Trouble::Unreachable => Err(error),
        },
    }
}

/// A socket that receives from this address alone.
fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.connect(&to.into())?;
    UdpSocket::from_std(socket.into())
}

/// The address from which this machine sends to `client`: where a socket receives at all addresses, that of its answers.
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
