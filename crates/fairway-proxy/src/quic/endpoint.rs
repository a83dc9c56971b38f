//! The QUIC endpoint at one socket of a worker, and the link between it and each of its connections.
//!
//! A datagram is given to the connection that it is for at once, or answered here; the task of the connection takes it when it is
//! woken. What a connection sends goes to the socket from its own task. Only what the socket does not take waits, with the
//! connection that it is from, until the task that receives says that there is room again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use fairway_net::turns::go_on_later;
use quinn_proto::{
    Connection, ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming,
    ServerConfig, Transmit, VarInt,
};

use super::ids::has_short_header;
use super::keys::Path;
use super::socket::{Buffers, Sent, Socket};
use crate::listener::PortId;
use crate::metrics::{Quic, count};

/// Datagrams that wait for the task of one connection. What comes beyond is dropped, as by a network that is full.
const MAX_WAITING: usize = 256;

/// Calls that send for one connection before others have their turn.
const SENDS_IN_A_TURN: usize = 8;

/// Connections that are closed and kept for what their clients still send. Those of others get a stateless reset.
const MAX_LINGERING: usize = 1024;

/// `H3_NO_ERROR` (RFC 9114 §8.1): the connection ends and nobody made a mistake.
const NO_ERROR: u32 = 0x100;

/// The endpoint at one socket.
pub(super) struct Endpoint {
    endpoint: RefCell<quinn_proto::Endpoint>,
    socket: Socket,
    /// By the handle of the connection.
    inboxes: RefCell<Vec<Option<Inbox>>>,
    open: Cell<usize>,
    /// Those of the open ones that are closed and still kept.
    lingering: Cell<usize>,
    /// Connections that wait until the socket takes datagrams again.
    blocked: RefCell<Vec<ConnectionHandle>>,
    /// The task that receives.
    receiver: RefCell<Option<Waker>>,
    /// What is about to be sent.
    output: RefCell<Vec<u8>>,
    counters: Rc<Quic>,
    is_cut: Cell<bool>,
}

/// What waits for the task of a connection.
#[derive(Default)]
struct Inbox {
    events: VecDeque<ConnectionEvent>,
    task: Option<Waker>,
    is_blocked: bool,
}

impl Endpoint {
    /// Nothing was received yet.
    pub(super) fn new(
        socket: Socket,
        endpoint: impl FnOnce(bool) -> quinn_proto::Endpoint,
        counters: Rc<Quic>,
    ) -> Self {
        let endpoint = RefCell::new(endpoint(socket.can_probe_mtu()));
        Self {
            endpoint,
            socket,
            inboxes: RefCell::default(),
            open: Cell::new(0),
            lingering: Cell::new(0),
            blocked: RefCell::default(),
            receiver: RefCell::default(),
            output: RefCell::default(),
            counters,
            is_cut: Cell::new(false),
        }
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    pub(super) fn counters(&self) -> &Quic {
        &self.counters
    }

    /// Closes all connections: the socket is to be given up.
    pub(super) fn cut(&self) {
        self.is_cut.set(true);
        self.inboxes
            .borrow()
            .iter()
            .flatten()
            .filter_map(|inbox| inbox.task.as_ref())
            .for_each(Waker::wake_by_ref);
    }

    /// Remembers the task that receives, and lets connections go on whose datagrams the socket takes again.
    pub(super) fn poll_unblock(&self, cx: &mut Context<'_>) {
        let known = self.receiver.borrow().as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !known {
            *self.receiver.borrow_mut() = Some(cx.waker().clone());
        }
        if self.blocked.borrow().is_empty() || self.socket.poll_writable(cx).is_pending() {
            return;
        }
        let mut inboxes = self.inboxes.borrow_mut();
        for handle in self.blocked.take() {
            let Some(inbox) = inboxes.get_mut(handle.0).and_then(Option::as_mut) else { continue };
            inbox.is_blocked = false;
            if let Some(task) = &inbox.task {
                task.wake_by_ref();
            }
        }
    }

    /// Receives once; gives each datagram to `take`, and says how many there were.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        take: impl FnMut(Path, BytesMut),
    ) -> Poll<usize> {
        self.socket.poll_receive(cx, buffers, take)
    }

    /// Takes a datagram: gives it to its connection, answers it, or says who wants to begin a connection.
    pub(super) fn take(&self, now: Instant, path: Path, datagram: BytesMut) -> Option<Incoming> {
        let has_short_header = has_short_header(&datagram);
        let mut output = self.output.borrow_mut();
        output.clear();
        let Path { remote, local, ecn } = path;
        let event = self.endpoint.borrow_mut().handle(now, remote, local, ecn, datagram, &mut output);
        match event? {
            DatagramEvent::NewConnection(incoming) => Some(incoming),
            DatagramEvent::ConnectionEvent(handle, event) => {
                self.deliver(handle, event);
                None
            }
            DatagramEvent::Response(transmit) => {
                // Whatever else is answered here has a long header (RFC 9000 §17.2).
                if has_short_header {
                    count(&self.counters.resets);
                }
                self.respond(&transmit, &output);
                None
            }
        }
    }

    /// Refuses a connection (`CONNECTION_REFUSED`).
    pub(super) fn refuse(&self, incoming: Incoming) {
        let mut output = self.output.borrow_mut();
        output.clear();
        let transmit = self.endpoint.borrow_mut().refuse(incoming, &mut output);
        self.respond(&transmit, &output);
    }

    /// Has a client show that it receives what is sent to its address (RFC 9000 §8.1.2). Nothing of it is remembered. One that has
    /// shown it is refused.
    pub(super) fn retry(&self, incoming: Incoming) {
        let mut output = self.output.borrow_mut();
        output.clear();
        let retried = self.endpoint.borrow_mut().retry(incoming, &mut output);
        match retried {
            Ok(transmit) => {
                count(&self.counters.retries);
                self.respond(&transmit, &output);
            }
            Err(validated) => {
                drop(output);
                self.refuse(validated.into_incoming());
            }
        }
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// The first packet of the client was no beginning, or its name is not served; it has been told.
    pub(super) fn accept(
        self: &Rc<Self>,
        incoming: Incoming,
        now: Instant,
        config: Arc<ServerConfig>,
    ) -> Result<(Link, Box<Connection>), ConnectionError> {
        let mut output = self.output.borrow_mut();
        output.clear();
        let accepted = self.endpoint.borrow_mut().accept(incoming, now, &mut output, Some(config));
        match accepted {
            Ok((handle, connection)) => {
                let mut inboxes = self.inboxes.borrow_mut();
                if inboxes.len() <= handle.0 {
                    inboxes.resize_with(handle.0 + 1, || None);
                }
                inboxes[handle.0] = Some(Inbox::default());
                self.open.set(self.open.get() + 1);
                let link = Link {
                    endpoint: Rc::clone(self),
                    handle,
                    unsent: RefCell::default(),
                    is_lingering: Cell::new(false),
                    is_over: Cell::new(false),
                };
                Ok((link, Box::new(connection)))
            }
            Err(error) => {
                if let Some(transmit) = &error.response {
                    self.respond(transmit, &output);
                }
                Err(error.cause)
            }
        }
    }

    fn deliver(&self, handle: ConnectionHandle, event: ConnectionEvent) {
        let mut inboxes = self.inboxes.borrow_mut();
        let Some(inbox) = inboxes.get_mut(handle.0).and_then(Option::as_mut) else { return };
        if inbox.events.len() >= MAX_WAITING {
            return count(&self.counters.dropped);
        }
        inbox.events.push_back(event);
        if let (1, Some(task)) = (inbox.events.len(), &inbox.task) {
            task.wake_by_ref();
        }
    }

    /// Sends at once or never: whoever is answered without a connection asks again.
    fn respond(&self, transmit: &Transmit, contents: &[u8]) {
        if self.socket.send(transmit, contents) != Sent::Taken {
            count(&self.counters.dropped);
        }
    }

    /// The task of this connection is woken when the socket takes datagrams again.
    fn wait_until_writable(&self, handle: ConnectionHandle) {
        let mut inboxes = self.inboxes.borrow_mut();
        let Some(inbox) = inboxes.get_mut(handle.0).and_then(Option::as_mut) else { return };
        if !std::mem::replace(&mut inbox.is_blocked, true) {
            self.blocked.borrow_mut().push(handle);
            self.wake_receiver();
        }
    }

    /// Forgets a connection.
    fn end(&self, handle: ConnectionHandle) {
        if let Some(inbox) = self.inboxes.borrow_mut().get_mut(handle.0) {
            *inbox = None;
        }
        self.blocked.borrow_mut().retain(|blocked| *blocked != handle);
        self.open.set(self.open.get() - 1);
        if self.open.get() == 0 {
            self.wake_receiver();
        }
    }

    fn wake_receiver(&self) {
        if let Some(receiver) = &*self.receiver.borrow() {
            receiver.wake_by_ref();
        }
    }
}

/// One connection's end at its endpoint. The endpoint forgets the connection when this is dropped: packets that still come for it get
/// a stateless reset.
pub(crate) struct Link {
    endpoint: Rc<Endpoint>,
    handle: ConnectionHandle,
    unsent: RefCell<Option<Unsent>>,
    /// Whether it is closed and kept.
    is_lingering: Cell<bool>,
    /// Whether the endpoint knows the connection no more.
    is_over: Cell<bool>,
}

/// A connection whose handshake is complete. Streams may have been opened already: nothing that QUIC says of them was taken.
pub(crate) struct Connecting {
    pub(crate) port: PortId,
    pub(crate) link: Link,
    pub(crate) quic: Box<Connection>,
}

/// Datagrams that the socket did not take.
struct Unsent {
    transmit: Transmit,
    contents: Vec<u8>,
}

impl Link {
    /// Takes what came for the connection since the last call into `quic`, and wakes the task when more comes. It may be closed
    /// then ([`Connection::is_closed`]), for one because its socket is to be given up.
    pub(crate) fn poll_input(&self, cx: &mut Context<'_>, quic: &mut Connection, now: Instant) {
        if self.endpoint.is_cut.get() && !quic.is_closed() {
            quic.close(now, VarInt::from_u32(NO_ERROR), Bytes::new());
        }
        let events = {
            let mut inboxes = self.endpoint.inboxes.borrow_mut();
            let inbox = inboxes.get_mut(self.handle.0).filter(|_| !self.is_over.get());
            let Some(inbox) = inbox.and_then(Option::as_mut) else { return };
            if !inbox.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                inbox.task = Some(cx.waker().clone());
            }
            std::mem::take(&mut inbox.events)
        };
        events.into_iter().for_each(|event| quic.handle_event(event));
        self.exchange_events(quic);
    }

    /// Sends what the connection has to send, as far as the socket takes it. Says whether something left. The task is woken when the
    /// socket takes the rest, and when others had their turn.
    pub(crate) fn poll_output(&self, cx: &mut Context<'_>, quic: &mut Connection, now: Instant) -> bool {
        let mut has_sent = false;
        if let Some(Unsent { transmit, contents }) = self.unsent.take()
            && !self.send(transmit, &contents, &mut has_sent)
        {
            return false;
        }
        let mut sends = 0;
        loop {
            if sends == SENDS_IN_A_TURN {
                go_on_later(cx);
                break;
            }
            let mut output = self.endpoint.output.borrow_mut();
            output.clear();
            let max_segments = self.endpoint.socket.max_segments();
            let Some(transmit) = quic.poll_transmit(now, max_segments, &mut output) else { break };
            if !self.send(transmit, &output, &mut has_sent) {
                break;
            }
            sends += 1;
        }
        self.exchange_events(quic);
        has_sent
    }

    /// Sends, or keeps what the socket does not take; says whether more may be sent.
    fn send(&self, transmit: Transmit, contents: &[u8], has_sent: &mut bool) -> bool {
        match self.endpoint.socket.send(&transmit, contents) {
            Sent::Taken => *has_sent = true,
            Sent::Dropped => {
                count(&self.endpoint.counters.dropped);
                *has_sent = true;
            }
            Sent::Blocked => {
                *self.unsent.borrow_mut() = Some(Unsent { transmit, contents: contents.to_vec() });
                self.endpoint.wait_until_writable(self.handle);
                return false;
            }
        }
        true
    }

    /// What the connection has to say to its endpoint, such as that it needs ids, and the answers.
    fn exchange_events(&self, quic: &mut Connection) {
        while !self.is_over.get()
            && let Some(event) = quic.poll_endpoint_events()
        {
            let is_last = event.is_drained();
            let answer = self.endpoint.endpoint.borrow_mut().handle_event(self.handle, event);
            if let Some(answer) = answer {
                quic.handle_event(answer);
            }
            if is_last {
                self.end();
            }
        }
    }

    /// Whether the connection, which is closed, may be kept: not where its socket is to be given up, nor where many are kept already.
    /// To be asked again whenever its task is woken.
    pub(crate) fn may_linger(&self) -> bool {
        let (lingering, is_new) = (&self.endpoint.lingering, !self.is_lingering.get());
        if self.endpoint.is_cut.get() || is_new && lingering.get() >= MAX_LINGERING {
            return false;
        }
        if is_new {
            lingering.set(lingering.get() + 1);
            self.is_lingering.set(true);
        }
        true
    }

    fn end(&self) {
        self.is_over.set(true);
        if self.is_lingering.get() {
            self.endpoint.lingering.set(self.endpoint.lingering.get() - 1);
        }
        self.endpoint.end(self.handle);
    }
}

impl Drop for Link {
    /// Whoever ends the task of a connection drops it where it waits, so that the endpoint hears of it here.
    fn drop(&mut self) {
        if !self.is_over.get() {
            let _ = self.endpoint.endpoint.borrow_mut().handle_event(self.handle, EndpointEvent::drained());
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::EndpointConfig;
    use tokio::net::UdpSocket;

    use super::*;

    async fn endpoint() -> Rc<Endpoint> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let config = Arc::new(EndpointConfig::default());
        let endpoint = |_| quinn_proto::Endpoint::new(config, None, false, Some([1; 32]));
        Rc::new(Endpoint::new(Socket::new(socket).unwrap(), endpoint, Rc::default()))
    }

    /// Of a connection that the endpoint has forgotten, but for what is counted.
    fn links(endpoint: &Rc<Endpoint>) -> impl Iterator<Item = Link> {
        (0..).map(move |number| {
            endpoint.open.set(endpoint.open.get() + 1);
            Link {
                endpoint: Rc::clone(endpoint),
                handle: ConnectionHandle(number),
                unsent: RefCell::default(),
                is_lingering: Cell::new(false),
                is_over: Cell::new(false),
            }
        })
    }

    #[tokio::test]
    async fn connections_that_are_closed_are_kept_up_to_a_number() {
        let endpoint = endpoint().await;
        let mut links: Vec<_> = links(&endpoint).take(MAX_LINGERING + 1).collect();
        let last = links.pop().unwrap();
        assert!(links.iter().all(Link::may_linger) && !last.may_linger());
        assert!(links.iter().all(Link::may_linger), "those that are kept stay");
        links.pop();
        assert!(last.may_linger());
        endpoint.cut();
        assert!(!last.may_linger() && !links[0].may_linger(), "the socket is to be given up");
        drop((links, last));
        assert_eq!((endpoint.lingering.get(), endpoint.open()), (0, 0));
    }
}
