//! A client of HTTP/3 for tests in virtual time, over QUIC without sockets.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fairway_net::clock::Instant;
use fairway_testkit::Authority;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint,
    EndpointConfig, Event, ServerConfig, TransportConfig, VarInt,
};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::carrier::Carrier;
use super::http3::{Accepted, serve_over};
use super::http3_client::{Answer, Conversation, head, request};
use crate::listener::ListenerId;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::{Stage, endpoint};
use crate::worker::Open;

/// How long either side hears nothing before it takes the other for gone.
pub(super) const QUIC_IDLE: Duration = Duration::from_secs(100);

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 2], 443);

/// The network between a client and the task that serves it, with the endpoint of the latter.
struct Between {
    endpoint: Endpoint,
    /// Of the connection at that endpoint, while it is known there.
    handle: Option<ConnectionHandle>,
    events: VecDeque<ConnectionEvent>,
    task: Option<Waker>,
    to_client: VecDeque<BytesMut>,
    heard: Rc<Notify>,
    /// Where the client's datagrams come from.
    client: SocketAddr,
    /// Neither side hears the other.
    is_cut: bool,
    /// The client does not hear the server.
    is_deaf: bool,
}

impl Between {
    /// A datagram of the client; gives what connection begins with it.
    fn carry(&mut self, datagram: BytesMut) -> Option<Connection> {
        if self.is_cut {
            return None;
        }
        let (now, mut output) = (Instant::now().into_std(), Vec::new());
        match self.endpoint.handle(now, self.client, None, None, datagram, &mut output)? {
            DatagramEvent::ConnectionEvent(_, event) => {
                self.events.push_back(event);
                self.task.iter().for_each(Waker::wake_by_ref);
                None
            }
            DatagramEvent::NewConnection(incoming) => {
                let Ok((handle, quic)) = self.endpoint.accept(incoming, now, &mut output, None) else {
                    panic!("the server accepts everybody")
                };
                self.handle = Some(handle);
                Some(quic)
            }
            DatagramEvent::Response(_) => {
                self.to_client.push_back(BytesMut::from(&output[..]));
                None
            }
        }
    }

    fn exchange_events(&mut self, quic: &mut Connection) {
        while let Some(event) = quic.poll_endpoint_events() {
            let Some(handle) = self.handle else { return };
            if event.is_drained() {
                self.handle = None;
            }
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                quic.handle_event(answer);
            }
        }
    }

    /// What `quic` of the server has to say goes to the client.
    fn send(&mut self, quic: &mut Connection) {
        let mut output = Vec::new();
        while let Some(transmit) = quic.poll_transmit(Instant::now().into_std(), 1, &mut output) {
            assert_eq!(transmit.size, output.len());
            if !self.is_cut && !self.is_deaf {
                self.to_client.push_back(BytesMut::from(&output[..]));
            }
            output.clear();
            self.heard.notify_one();
        }
        self.exchange_events(quic);
    }
}

struct InMemory(Rc<RefCell<Between>>);

impl Carrier for InMemory {
    fn poll_input(&self, cx: &mut Context<'_>, quic: &mut Connection, _: std::time::Instant) {
        let mut between = self.0.borrow_mut();
        between.task = Some(cx.waker().clone());
        while let Some(event) = between.events.pop_front() {
            quic.handle_event(event);
        }
        between.exchange_events(quic);
    }

    fn poll_output(&self, _: &mut Context<'_>, quic: &mut Connection, _: std::time::Instant) {
        self.0.borrow_mut().send(quic);
    }

    fn may_linger(&self) -> bool {
        true
    }
}

/// A client.
pub(super) struct Browser {
    between: Rc<RefCell<Between>>,
    heard: Rc<Notify>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) quic: Connection,
    talk: Conversation,
}

/// How a client and its connection are set up.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    /// Bytes that the client takes of a response.
    pub(super) client: u32,
    /// Bytes that the server takes of a request.
    pub(super) server: u32,
}

impl Default for Windows {
    fn default() -> Self {
        Self { client: 1024 * 1024, server: 512 * 1024 }
    }
}

fn transport(window: u32) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(QUIC_IDLE.try_into().unwrap()))
        .max_concurrent_bidi_streams(VarInt::from_u32(128))
        .max_concurrent_uni_streams(VarInt::from_u32(16))
        .stream_receive_window(VarInt::from_u32(window))
        .send_window(1024 * 1024);
    Arc::new(transport)
}

fn endpoints(windows: Windows) -> (Endpoint, Endpoint, ClientConfig) {
    let authority = Authority::new("stage");
    let tls = authority.leaf(&["stage.invalid"]).server_config(&["h3"]);
    let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    server.transport_config(transport(windows.server));
    let mut tls = authority.client_config();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    client.transport_config(transport(windows.client));
    let config = Arc::new(EndpointConfig::default());
    let served = Endpoint::new(Arc::clone(&config), Some(Arc::new(server)), false, Some([1; 32]));
    (served, Endpoint::new(config, None, false, Some([2; 32])), client)
}

impl Browser {
    pub(super) fn new(stage: &Stage) -> Self {
        Self::with(stage, Windows::default())
    }

    /// With its connection served in a task of its own.
    pub(super) fn with(stage: &Stage, windows: Windows) -> Self {
        let (browser, serving) = Self::unserved(stage, windows);
        tokio::task::spawn_local(serving);
        browser
    }

    /// After the handshake, with what must run to serve the connection.
    pub(super) fn unserved(stage: &Stage, windows: Windows) -> (Self, impl Future<Output = ()> + use<>) {
        let (served, mut own, config) = endpoints(windows);
        let heard = Rc::new(Notify::new());
        let between = Between {
            endpoint: served,
            handle: None,
            events: VecDeque::new(),
            task: None,
            to_client: VecDeque::new(),
            heard: Rc::clone(&heard),
            client: endpoint(9999),
            is_cut: false,
            is_deaf: false,
        };
        let server = SocketAddr::from(SERVER);
        let (handle, quic) = own.connect(Instant::now().into_std(), config, server, "stage.invalid").unwrap();
        let mut browser = Self {
            between: Rc::new(RefCell::new(between)),
            heard,
            endpoint: own,
            handle,
            quic,
            talk: Conversation::new(),
        };
        let quic = browser.shake_hands();
        Conversation::greet(&mut browser.quic);
        let listener = ListenerId { slot: 0, generation: 1 };
        let client = endpoint(9999).ip();
        let peer = Peer { listener, scheme: Scheme::Https, client, sender: Sender::Client, facts: None };
        let carrier = InMemory(Rc::clone(&browser.between));
        let serving =
            serve_over(Open::new(&stage.worker), peer, Box::new(quic), carrier, Accepted::default());
        (browser, serving)
    }

    /// Gives the server's connection once both are ready.
    fn shake_hands(&mut self) -> Connection {
        let mut server: Option<Connection> = None;
        for _ in 0..20 {
            if let Some(begun) = self.pump() {
                server = Some(begun);
            }
            let Some(quic) = &mut server else { continue };
            let mut between = self.between.borrow_mut();
            while let Some(event) = between.events.pop_front() {
                quic.handle_event(event);
            }
            between.send(quic);
            while let Some(event) = quic.poll() {
                if let Event::Connected = event {
                    drop(between);
                    return server.unwrap();
                }
            }
        }
        panic!("no handshake: {:?}", self.talk.lost)
    }

    /// Neither side hears the other from now on.
    pub(super) fn cut(&mut self) {
        self.between.borrow_mut().is_cut = true;
    }

    /// Whether the client hears nothing of the server from now on.
    pub(super) fn be_deaf(&mut self, is_deaf: bool) {
        self.between.borrow_mut().is_deaf = is_deaf;
    }

    /// What the client sends comes from this address from now on.
    pub(super) fn move_to(&mut self, address: SocketAddr) {
        self.between.borrow_mut().client = address;
    }

    /// Takes what came, and sends what there is; gives what connection began at the server.
    pub(super) fn pump(&mut self) -> Option<Connection> {
        let now = Instant::now().into_std();
        let datagrams = std::mem::take(&mut self.between.borrow_mut().to_client);
        for datagram in datagrams {
            let mut output = Vec::new();
            let from = SocketAddr::from(SERVER);
            match self.endpoint.handle(now, from, None, None, datagram, &mut output) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => self.quic.handle_event(event),
                Some(_) => panic!("nobody connects to a client"),
                None => {}
            }
        }
        if self.quic.poll_timeout().is_some_and(|at| at <= now) {
            self.quic.handle_timeout(now);
        }
        self.take_events();
        let mut begun = None;
        let mut output = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(now, 1, &mut output) {
            assert_eq!(transmit.size, output.len());
            begun = self.between.borrow_mut().carry(BytesMut::from(&output[..])).or(begun);
            output.clear();
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(answer);
            }
        }
        begun
    }

    fn take_events(&mut self) {
        while let Some(event) = self.quic.poll() {
            self.talk.handle(event, &mut self.quic);
        }
        self.talk.go_on(&mut self.quic);
    }

    /// Asks with these fields besides the pseudo fields; `ends` says whether that is all of the request.
    pub(super) fn ask(&mut self, pseudo: &[(&str, &str)], fields: &[(&str, &str)], ends: bool) -> u64 {
        self.talk.ask(&mut self.quic, pseudo, fields, ends)
    }

    pub(super) fn get(&mut self, path: &str) -> u64 {
        self.ask(&head("GET", path), &[], true)
    }

    /// A request whose body follows with [`Conversation::send`].
    pub(super) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> u64 {
        self.ask(&head("POST", path), fields, false)
    }

    /// A request whose fields are this block.
    pub(super) fn ask_with_block(&mut self, block: &[u8]) -> u64 {
        self.talk.ask_with_block(&mut self.quic, block, true)
    }

    /// These bytes on a stream of a request that says nothing else.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> u64 {
        self.talk.send_raw(&mut self.quic, bytes)
    }

    /// H3_REQUEST_CANCELLED in both directions (RFC 9114 §4.1.1).
    pub(super) fn cancel(&mut self, number: u64) {
        self.talk.cancel(&mut self.quic, number);
    }

    /// Closes the connection without an error.
    pub(super) fn close(&mut self) {
        self.quic.close(Instant::now().into_std(), VarInt::from_u32(0x100), Bytes::new());
        self.pump();
    }

    /// Sends and hears until the server has reset a response, of which nothing was read.
    pub(super) async fn reset_unread(&mut self, number: u64) -> u64 {
        let id = request(number);
        let mut code = None;
        while code.is_none() {
            self.go_on_for(Duration::from_secs(1)).await;
            assert!(self.talk.lost.is_none(), "the connection ended: {:?}", self.talk.lost);
            code = self.quic.recv_stream(id).received_reset().unwrap();
        }
        code.unwrap().into_inner()
    }

    /// Sends and hears until `is_done`; panics after an hour of virtual time.
    pub(super) async fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let heard = Rc::clone(&self.heard);
        let done = async {
            loop {
                self.pump();
                if is_done(self) {
                    return;
                }
                match self.quic.poll_timeout() {
                    None => heard.notified().await,
                    Some(at) => {
                        tokio::select! {
                            () = heard.notified() => {}
                            () = sleep_until(Instant::from_std(at)) => {}
                        }
                    }
                }
            }
        };
        let is_in_time = timeout(Duration::from_secs(3600), done).await.is_ok();
        assert!(is_in_time, "an hour without: {what}; the connection: {:?}", self.talk.lost);
    }

    /// Sends and hears for so long.
    pub(super) async fn go_on_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        _ = timeout(time, self.until("the end of that time", |_| Instant::now() > until)).await;
    }

    pub(super) async fn answered(&mut self, number: u64) -> &Answer {
        self.until("an answer", |browser| browser.answers[&number].is_over()).await;
        &self.talk.answers[&number]
    }

    /// Waits for the end of the connection; gives the code that the server closed it with.
    pub(super) async fn closed(&mut self) -> u64 {
        self.until("the end", |browser| browser.lost.is_some()).await;
        match &self.talk.lost {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code.into_inner(),
            other => panic!("not closed by the server: {other:?}"),
        }
    }
}

impl Deref for Browser {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.talk
    }
}

impl DerefMut for Browser {
    fn deref_mut(&mut self) -> &mut Conversation {
        &mut self.talk
    }
}
