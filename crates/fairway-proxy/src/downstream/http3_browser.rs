//! An HTTP/3 client for tests in virtual time, over QUIC without sockets.

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

use super::datagram_transport::Carrier;
use super::http3::{AcceptInfo, serve_with_carrier};
use super::http3_client::{Http3Conversation, Http3Response, pseudo_headers, request_stream_id};
use crate::listener::ListenerId;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::{TestWorker, endpoint};
use crate::worker::OpenConnection;

/// Idle timeout of both sides.
pub(super) const QUIC_IDLE: Duration = Duration::from_secs(100);

const SERVER_ADDRESS: ([u8; 4], u16) = ([192, 0, 2, 2], 443);

/// The network between a client and its server task, with the server's endpoint.
struct MemoryNetwork {
    endpoint: Endpoint,
    /// Handle of the connection at that endpoint, while known there.
    handle: Option<ConnectionHandle>,
    events: VecDeque<ConnectionEvent>,
    task: Option<Waker>,
    to_client: VecDeque<BytesMut>,
    received: Rc<Notify>,
    /// Source address of the client's datagrams.
    client: SocketAddr,
    /// Drops datagrams in both directions.
    is_cut: bool,
    /// Drops datagrams to the client.
    is_deaf: bool,
}

impl MemoryNetwork {
    /// Delivers a client datagram; returns a connection it opens.
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
            if let Some(response) = self.endpoint.handle_event(handle, event) {
                quic.handle_event(response);
            }
        }
    }

    /// Delivers the server's output to the client.
    fn send(&mut self, quic: &mut Connection) {
        let mut output = Vec::new();
        while let Some(transmit) = quic.poll_transmit(Instant::now().into_std(), 1, &mut output) {
            assert_eq!(transmit.size, output.len());
            if !self.is_cut && !self.is_deaf {
                self.to_client.push_back(BytesMut::from(&output[..]));
            }
            output.clear();
            self.received.notify_one();
        }
        self.exchange_events(quic);
    }
}

struct MemoryCarrier(Rc<RefCell<MemoryNetwork>>);

impl Carrier for MemoryCarrier {
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
pub(super) struct Http3TestClient {
    between: Rc<RefCell<MemoryNetwork>>,
    received: Rc<Notify>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) quic: Connection,
    talk: Http3Conversation,
}

/// Flow control windows of a client and its connection.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    /// Receive window of the client.
    pub(super) client: u32,
    /// Receive window of the server.
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

impl Http3TestClient {
    pub(super) fn new(stage: &TestWorker) -> Self {
        Self::with_windows(stage, Windows::default())
    }

    /// Serves the connection in its own task.
    pub(super) fn with_windows(stage: &TestWorker, windows: Windows) -> Self {
        let (browser, serving) = Self::unserved_client(stage, windows);
        tokio::task::spawn_local(serving);
        browser
    }

    /// A client after its handshake, and the future that serves it.
    pub(super) fn unserved_client(
        stage: &TestWorker,
        windows: Windows,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (served, mut own, config) = endpoints(windows);
        let arrival = Rc::new(Notify::new());
        let between = MemoryNetwork {
            endpoint: served,
            handle: None,
            events: VecDeque::new(),
            task: None,
            to_client: VecDeque::new(),
            received: Rc::clone(&arrival),
            client: endpoint(9999),
            is_cut: false,
            is_deaf: false,
        };
        let server = SocketAddr::from(SERVER_ADDRESS);
        let (handle, quic) = own.connect(Instant::now().into_std(), config, server, "stage.invalid").unwrap();
        let mut browser = Self {
            between: Rc::new(RefCell::new(between)),
            received: arrival,
            endpoint: own,
            handle,
            quic,
            talk: Http3Conversation::new(),
        };
        let quic = browser.complete_handshake();
        Http3Conversation::open_control_stream(&mut browser.quic);
        let listener = ListenerId { slot: 0, generation: 1 };
        let client = endpoint(9999).ip();
        let peer = Peer { listener, scheme: Scheme::Https, client, sender: Sender::Client, details: None };
        let carrier = MemoryCarrier(Rc::clone(&browser.between));
        let serving = serve_with_carrier(
            OpenConnection::new(&stage.worker),
            peer,
            Box::new(quic),
            carrier,
            AcceptInfo::default(),
        );
        (browser, serving)
    }

    /// Returns the server's connection once both are ready.
    fn complete_handshake(&mut self) -> Connection {
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
        panic!("no handshake: {:?}", self.talk.connection_error)
    }

    /// Drops all datagrams from now on.
    pub(super) fn disconnect(&mut self) {
        self.between.borrow_mut().is_cut = true;
    }

    /// Whether to drop datagrams to the client.
    pub(super) fn set_deaf(&mut self, is_deaf: bool) {
        self.between.borrow_mut().is_deaf = is_deaf;
    }

    /// Changes the client's source address.
    pub(super) fn move_to(&mut self, address: SocketAddr) {
        self.between.borrow_mut().client = address;
    }

    /// Processes input and sends output; returns a connection opened at the server.
    pub(super) fn pump(&mut self) -> Option<Connection> {
        let now = Instant::now().into_std();
        let datagrams = std::mem::take(&mut self.between.borrow_mut().to_client);
        for datagram in datagrams {
            let mut output = Vec::new();
            let from = SocketAddr::from(SERVER_ADDRESS);
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
        let mut started = None;
        let mut output = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(now, 1, &mut output) {
            assert_eq!(transmit.size, output.len());
            started = self.between.borrow_mut().carry(BytesMut::from(&output[..])).or(started);
            output.clear();
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(response) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(response);
            }
        }
        started
    }

    fn take_events(&mut self) {
        while let Some(event) = self.quic.poll() {
            self.talk.handle(event, &mut self.quic);
        }
        self.talk.exchange_data(&mut self.quic);
    }

    /// Sends a request with these headers besides the pseudo-headers; `ends` says whether it is complete.
    pub(super) fn request(&mut self, pseudo: &[(&str, &str)], fields: &[(&str, &str)], ends: bool) -> u64 {
        self.talk.request(&mut self.quic, pseudo, fields, ends)
    }

    pub(super) fn get(&mut self, path: &str) -> u64 {
        self.request(&pseudo_headers("GET", path), &[], true)
    }

    /// Sends a request whose body follows with [`Http3Conversation::send`].
    pub(super) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> u64 {
        self.request(&pseudo_headers("POST", path), fields, false)
    }

    /// Sends a request with this header block.
    pub(super) fn request_with_block(&mut self, block: &[u8]) -> u64 {
        self.talk.request_with_block(&mut self.quic, block, true)
    }

    /// Sends raw bytes on a request stream.
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

    /// Runs until the server has reset a response, without reading it.
    pub(super) async fn reset_unread(&mut self, number: u64) -> u64 {
        let id = request_stream_id(number);
        let mut code = None;
        while code.is_none() {
            self.run_for(Duration::from_secs(1)).await;
            assert!(
                self.talk.connection_error.is_none(),
                "the connection ended: {:?}",
                self.talk.connection_error
            );
            code = self.quic.recv_stream(id).received_reset().unwrap();
        }
        code.unwrap().into_inner()
    }

    /// Runs until `is_done`; panics after an hour of virtual time.
    pub(super) async fn run_until(&mut self, expectation: &str, is_done: impl Fn(&Self) -> bool) {
        let received = Rc::clone(&self.received);
        let done = async {
            loop {
                self.pump();
                if is_done(self) {
                    return;
                }
                match self.quic.poll_timeout() {
                    None => received.notified().await,
                    Some(at) => {
                        tokio::select! {
                            () = received.notified() => {}
                            () = sleep_until(Instant::from_std(at)) => {}
                        }
                    }
                }
            }
        };
        let is_in_time = timeout(Duration::from_secs(3600), done).await.is_ok();
        assert!(
            is_in_time,
            "an hour without: {expectation}; the connection: {:?}",
            self.talk.connection_error
        );
    }

    /// Runs for this long.
    pub(super) async fn run_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        _ = timeout(time, self.run_until("the end of that time", |_| Instant::now() > until)).await;
    }

    pub(super) async fn response(&mut self, number: u64) -> &Http3Response {
        self.run_until("a response", |browser| browser.responses[&number].is_finished()).await;
        &self.talk.responses[&number]
    }

    /// Waits for the end of the connection; returns the server's close code.
    pub(super) async fn closed(&mut self) -> u64 {
        self.run_until("the end", |browser| browser.connection_error.is_some()).await;
        match &self.talk.connection_error {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code.into_inner(),
            other => panic!("not closed by the server: {other:?}"),
        }
    }
}

impl Deref for Http3TestClient {
    type Target = Http3Conversation;

    fn deref(&self) -> &Http3Conversation {
        &self.talk
    }
}

impl DerefMut for Http3TestClient {
    fn deref_mut(&mut self) -> &mut Http3Conversation {
        &mut self.talk
    }
}
