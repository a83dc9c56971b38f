//! The QUIC endpoint at one socket of a worker, and the link between it and each of its connections.
//!
//! A datagram is delivered to its connection at once, or answered here; the task of the connection processes it
//! when woken. Connections send from their own tasks. Only datagrams the socket does not take wait, with their
//! connection, until the receiving task reports that there is room again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use fairway_net::yielding::go_on_later;
use quinn_proto::{
    Connection, ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming,
    ServerConfig, Transmit, VarInt,
};

use super::ids::has_short_header;
use super::keys::DatagramPath;
use super::socket::{ReceiveBuffers, SendResult, Socket};
use crate::listener::PortId;
use crate::metrics::{Quic, increment};

/// Datagrams queued for the task of one connection. Further ones are dropped, as by a full network.
const MAX_QUEUED_DATAGRAMS: usize = 256;

/// Send calls per connection and turn.
const MAX_SENDS_PER_TURN: usize = 8;

/// Closed connections kept to answer late datagrams. Late datagrams of others get a stateless reset.
const MAX_LINGERING: usize = 1024;

/// `H3_NO_ERROR` (RFC 9114 §8.1): the connection ends without an error.
const NO_ERROR: u32 = 0x100;

/// The endpoint at one socket.
pub(super) struct Endpoint {
    endpoint: RefCell<quinn_proto::Endpoint>,
    socket: Socket,
    /// By connection handle.
    inboxes: RefCell<Vec<Option<Inbox>>>,
    open_connections: Cell<usize>,
    /// Closed connections among the open ones.
    lingering_connections: Cell<usize>,
    /// Connections waiting until the socket takes datagrams.
    blocked: RefCell<Vec<ConnectionHandle>>,
    /// Waker of the receiving task.
    receiver: RefCell<Option<Waker>>,
    /// Buffer for output.
    output: RefCell<Vec<u8>>,
    counters: Rc<Quic>,
    is_closing: Cell<bool>,
}

/// Events queued for the task of a connection.
#[derive(Default)]
struct Inbox {
    events: VecDeque<ConnectionEvent>,
    task: Option<Waker>,
    is_blocked: bool,
}

impl Endpoint {
    /// An endpoint without connections.
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
            open_connections: Cell::new(0),
            lingering_connections: Cell::new(0),
            blocked: RefCell::default(),
            receiver: RefCell::default(),
            output: RefCell::default(),
            counters,
            is_closing: Cell::new(false),
        }
    }

    /// Open connections.
    pub(super) fn open_connections(&self) -> usize {
        self.open_connections.get()
    }

    pub(super) fn counters(&self) -> &Quic {
        &self.counters
    }

    /// Closes all connections because the socket is given up.
    pub(super) fn close_all(&self) {
        self.is_closing.set(true);
        self.inboxes
            .borrow()
            .iter()
            .flatten()
            .filter_map(|inbox| inbox.task.as_ref())
            .for_each(Waker::wake_by_ref);
    }

    /// Registers the receiving task, and wakes connections whose datagrams the socket takes again.
    pub(super) fn poll_wake_blocked(&self, cx: &mut Context<'_>) {
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

    /// Receives once, passes each datagram to `take`, and returns how many there were.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        take: impl FnMut(DatagramPath, BytesMut),
    ) -> Poll<usize> {
        self.socket.poll_receive(cx, buffers, take)
    }

    /// Processes a datagram: delivers it to its connection, answers it, or returns a new incoming connection.
    pub(super) fn receive(&self, now: Instant, path: DatagramPath, datagram: BytesMut) -> Option<Incoming> {
        let has_short_header = has_short_header(&datagram);
        let mut output = self.output.borrow_mut();
        output.clear();
        let DatagramPath { remote, local, ecn } = path;
        let event = self.endpoint.borrow_mut().handle(now, remote, local, ecn, datagram, &mut output);
        match event? {
            DatagramEvent::NewConnection(incoming) => Some(incoming),
            DatagramEvent::ConnectionEvent(handle, event) => {
                self.deliver(handle, event);
                None
            }
            DatagramEvent::Response(transmit) => {
                // Every other response here answers a long header (RFC 9000 §17.2).
                if has_short_header {
                    increment(&self.counters.resets);
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

    /// Makes a client validate its address with a Retry packet (RFC 9000 §8.1.2), without keeping state. A
    /// client that already did is refused.
    pub(super) fn retry(&self, incoming: Incoming) {
        let mut output = self.output.borrow_mut();
        output.clear();
        let retried = self.endpoint.borrow_mut().retry(incoming, &mut output);
        match retried {
            Ok(transmit) => {
                increment(&self.counters.retries);
                self.respond(&transmit, &output);
            }
            Err(validated) => {
                drop(output);
                self.refuse(validated.into_incoming());
            }
        }
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// The client's first packet was invalid, or its SNI is not served; the client has been told.
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
                self.open_connections.set(self.open_connections.get() + 1);
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
        if inbox.events.len() >= MAX_QUEUED_DATAGRAMS {
            return increment(&self.counters.dropped);
        }
        inbox.events.push_back(event);
        if let (1, Some(task)) = (inbox.events.len(), &inbox.task) {
            task.wake_by_ref();
        }
    }

    /// Sends once or drops: a client without a connection retries.
    fn respond(&self, transmit: &Transmit, contents: &[u8]) {
        if self.socket.send(transmit, contents) != SendResult::Taken {
            increment(&self.counters.dropped);
        }
    }

    /// Wakes the task of this connection when the socket takes datagrams again.
    fn wait_until_writable(&self, handle: ConnectionHandle) {
        let mut inboxes = self.inboxes.borrow_mut();
        let Some(inbox) = inboxes.get_mut(handle.0).and_then(Option::as_mut) else { return };
        if !std::mem::replace(&mut inbox.is_blocked, true) {
            self.blocked.borrow_mut().push(handle);
            self.wake_receiver();
        }
    }

    /// Removes a connection.
    fn forget(&self, handle: ConnectionHandle) {
        if let Some(inbox) = self.inboxes.borrow_mut().get_mut(handle.0) {
            *inbox = None;
        }
        self.blocked.borrow_mut().retain(|blocked| *blocked != handle);
        self.open_connections.set(self.open_connections.get() - 1);
        if self.open_connections.get() == 0 {
            self.wake_receiver();
        }
    }

    fn wake_receiver(&self) {
        if let Some(receiver) = &*self.receiver.borrow() {
            receiver.wake_by_ref();
        }
    }
}

/// The link of a connection to its endpoint. Dropping it removes the connection: late packets then get a
/// stateless reset.
pub(crate) struct Link {
    endpoint: Rc<Endpoint>,
    handle: ConnectionHandle,
    unsent: RefCell<Option<Unsent>>,
    /// Whether the connection is closed and kept.
    is_lingering: Cell<bool>,
    /// Whether the endpoint has removed the connection.
    is_over: Cell<bool>,
}

/// A connection whose handshake is complete. Streams may already be open: no stream event has been taken.
pub(crate) struct QuicConnection {
    pub(crate) port: PortId,
    pub(crate) link: Link,
    pub(crate) quic: Box<Connection>,
}

/// Datagrams the socket did not take.
struct Unsent {
    transmit: Transmit,
    contents: Vec<u8>,
}

impl Link {
    /// Passes received datagrams to `quic`, and wakes the task when more arrive. The connection may be closed
    /// afterwards ([`Connection::is_closed`]), for example because its socket is given up.
    pub(crate) fn poll_input(&self, cx: &mut Context<'_>, quic: &mut Connection, now: Instant) {
        if self.endpoint.is_closing.get() && !quic.is_closed() {
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
        self.exchange_endpoint_events(quic);
    }

    /// Sends pending output as far as the socket takes it. Returns whether anything was sent. The task is woken
    /// when the socket takes more and when other connections had their turn.
    pub(crate) fn poll_output(&self, cx: &mut Context<'_>, quic: &mut Connection, now: Instant) -> bool {
        let mut has_sent = false;
        if let Some(Unsent { transmit, contents }) = self.unsent.take()
            && !self.send(transmit, &contents, &mut has_sent)
        {
            return false;
        }
        let mut sends = 0;
        loop {
            if sends == MAX_SENDS_PER_TURN {
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
        self.exchange_endpoint_events(quic);
        has_sent
    }

    /// Sends datagrams, or keeps them if the socket does not take them; returns whether more may be sent.
    fn send(&self, transmit: Transmit, contents: &[u8], has_sent: &mut bool) -> bool {
        match self.endpoint.socket.send(&transmit, contents) {
            SendResult::Taken => *has_sent = true,
            SendResult::Dropped => {
                increment(&self.endpoint.counters.dropped);
                *has_sent = true;
            }
            SendResult::Blocked => {
                *self.unsent.borrow_mut() = Some(Unsent { transmit, contents: contents.to_vec() });
                self.endpoint.wait_until_writable(self.handle);
                return false;
            }
        }
        true
    }

    /// Exchanges events between connection and endpoint, such as requests for new ids.
    fn exchange_endpoint_events(&self, quic: &mut Connection) {
        while !self.is_over.get()
            && let Some(event) = quic.poll_endpoint_events()
        {
            let is_last = event.is_drained();
            let response = self.endpoint.endpoint.borrow_mut().handle_event(self.handle, event);
            if let Some(answer) = response {
                quic.handle_event(answer);
            }
            if is_last {
                self.detach();
            }
        }
    }

    /// Whether the closed connection may be kept: not if its socket is given up or too many are kept. Ask again
    /// whenever its task is woken.
    pub(crate) fn may_linger(&self) -> bool {
        let (lingering, is_new) = (&self.endpoint.lingering_connections, !self.is_lingering.get());
        if self.endpoint.is_closing.get() || is_new && lingering.get() >= MAX_LINGERING {
            return false;
        }
        if is_new {
            lingering.set(lingering.get() + 1);
            self.is_lingering.set(true);
        }
        true
    }

    fn detach(&self) {
        self.is_over.set(true);
        if self.is_lingering.get() {
            self.endpoint.lingering_connections.set(self.endpoint.lingering_connections.get() - 1);
        }
        self.endpoint.forget(self.handle);
    }
}

impl Drop for Link {
    /// A connection task can be dropped at any await; the endpoint learns of it here.
    fn drop(&mut self) {
        if !self.is_over.get() {
            let _ = self.endpoint.endpoint.borrow_mut().handle_event(self.handle, EndpointEvent::drained());
            self.detach();
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

    /// Links of connections that the endpoint has removed, except for the counts.
    fn test_links(endpoint: &Rc<Endpoint>) -> impl Iterator<Item = Link> {
        (0..).map(move |number| {
            endpoint.open_connections.set(endpoint.open_connections.get() + 1);
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
    async fn the_number_of_lingering_connections_is_limited() {
        let endpoint = endpoint().await;
        let mut links: Vec<_> = test_links(&endpoint).take(MAX_LINGERING + 1).collect();
        let last = links.pop().unwrap();
        assert!(links.iter().all(Link::may_linger) && !last.may_linger());
        assert!(links.iter().all(Link::may_linger), "those that are kept stay");
        links.pop();
        assert!(last.may_linger());
        endpoint.close_all();
        assert!(!last.may_linger() && !links[0].may_linger(), "the socket is to be given up");
        drop((links, last));
        assert_eq!((endpoint.lingering_connections.get(), endpoint.open_connections()), (0, 0));
    }
}
