//! A QUIC client and server connected in memory. Time is virtual: a datagram takes a millisecond, and timers fire when
//! nothing is in transit. The client has no HTTP/3; it writes what a test says.

pub(crate) mod hex;
pub(crate) mod response;
pub(crate) mod serve;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fairway_http::Head;
use fairway_http3::{Config, Event, Server};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event as QuicEvent, ReadError, ServerConfig, StreamEvent, StreamId, TransportConfig,
    VarInt,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};

const LATENCY: Duration = Duration::from_millis(1);
/// Timers later than this do not fire, unless the test advances time.
const TIMER_HORIZON: Duration = Duration::from_millis(200);

static CRYPTO: LazyLock<(Arc<QuicServerConfig>, Arc<QuicClientConfig>)> = LazyLock::new(|| {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = [&rustls::version::TLS13];
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let mut server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = vec![b"h3".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h3".to_vec()];
    (
        Arc::new(QuicServerConfig::try_from(server).unwrap()),
        Arc::new(QuicClientConfig::try_from(client).unwrap()),
    )
});

/// Windows and limits of both sides.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    /// Bytes of each stream that the client accepts before it reads.
    pub(crate) client_window: u32,
    /// Unidirectional streams that the client lets the server open.
    pub(crate) client_streams: u32,
    /// Bytes of each stream that the server accepts.
    pub(crate) server_window: u32,
    /// Bytes that QUIC buffers for the server until the client has acknowledged them.
    pub(crate) send_window: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            config: Config::default(),
            client_window: 1 << 20,
            client_streams: 3,
            server_window: 64 * 1024,
            send_window: 10 << 20,
        }
    }
}

/// What the client received on a stream.
#[derive(Debug, Default, Clone)]
pub(crate) struct ReceivedStream {
    pub(crate) bytes: Vec<u8>,
    pub(crate) finished: bool,
    /// The code of RESET_STREAM.
    pub(crate) reset: Option<u64>,
    /// The code of STOP_SENDING.
    pub(crate) stopped: Option<u64>,
}

/// One end of the QUIC connection.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Datagrams in transit to it.
    inbound: VecDeque<(Instant, BytesMut)>,
    peer: SocketAddr,
}

/// Both ends.
pub(crate) struct Pair {
    client: End,
    served: End,
    pub(crate) server: Server,
    pub(crate) now: Instant,
    /// The server's events, with heads as text.
    pub(crate) events: Vec<Event>,
    pub(crate) heads: Vec<(StreamId, Vec<String>)>,
    received: HashMap<StreamId, ReceivedStream>,
    /// Why the client's connection ended.
    pub(crate) lost: Option<ConnectionError>,
    /// Whether the client reads.
    pub(crate) client_reads: bool,
}

impl Pair {
    pub(crate) fn new(config: Config) -> Self {
        Pair::with(&Setup { config, ..Setup::default() })
    }

    pub(crate) fn with(setup: &Setup) -> Self {
        let server_address: SocketAddr = "[::1]:443".parse().unwrap();
        let client_address: SocketAddr = "[::1]:50000".parse().unwrap();
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(setup.config.streams.into());
        transport.max_concurrent_uni_streams(8u32.into());
        transport.stream_receive_window(setup.server_window.into());
        transport.send_window(setup.send_window);
        transport.mtu_discovery_config(None);
        transport.max_idle_timeout(None);
        let mut server_config = ServerConfig::with_crypto(Arc::clone(&CRYPTO.0) as _);
        server_config.transport_config(Arc::new(transport));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_uni_streams(setup.client_streams.into());
        transport.stream_receive_window(setup.client_window.into());
        transport.mtu_discovery_config(None);
        transport.max_idle_timeout(None);
        let mut client_config = ClientConfig::new(Arc::clone(&CRYPTO.1) as _);
        client_config.transport_config(Arc::new(transport));
        let now = Instant::now();
        let end = Arc::new(EndpointConfig::default());
        let mut client = End::new(Endpoint::new(Arc::clone(&end), None, false, None), server_address);
        let served = End::new(Endpoint::new(end, Some(Arc::new(server_config)), false, None), client_address);
        client.connection =
            Some(client.endpoint.connect(now, client_config, server_address, "a.example").unwrap());
        let server = Server::new(setup.config);
        let mut pair = Pair {
            client,
            served,
            server,
            now,
            events: Vec::new(),
            heads: Vec::new(),
            received: HashMap::new(),
            lost: None,
            client_reads: true,
        };
        pair.drive();
        pair
    }

    /// The server and its QUIC connection.
    pub(crate) fn both_mut(&mut self) -> (&mut Server, &mut Connection) {
        let quic = &mut self.served.connection.as_mut().expect("the handshake is complete").1;
        (&mut self.server, quic)
    }

    pub(crate) fn peer(&mut self) -> &mut Connection {
        &mut self.client.connection.as_mut().expect("it was opened").1
    }

    pub(crate) fn open(&mut self, dir: Dir) -> StreamId {
        self.peer().streams().open(dir).expect("the server allows another stream")
    }

    /// Writes as much as the server's window allows.
    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        self.peer().send_stream(id).write(bytes).unwrap_or(0)
    }

    pub(crate) fn finish(&mut self, id: StreamId) {
        self.peer().send_stream(id).finish().unwrap();
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u32) {
        self.peer().send_stream(id).reset(VarInt::from_u32(code)).unwrap();
    }

    pub(crate) fn stop(&mut self, id: StreamId, code: u32) {
        self.peer().recv_stream(id).stop(VarInt::from_u32(code)).unwrap();
    }

    /// A request stream with these bytes, which end it.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.open(Dir::Bi);
        assert_eq!(self.write(id, bytes), bytes.len());
        self.finish(id);
        id
    }

    /// The client's control stream with SETTINGS.
    pub(crate) fn open_control_stream(&mut self) -> StreamId {
        let id = self.open(Dir::Uni);
        self.write(id, &[0, 4, 0]);
        self.drive();
        id
    }

    /// What the client received on a stream.
    pub(crate) fn received(&self, id: StreamId) -> ReceivedStream {
        self.received.get(&id).cloned().unwrap_or_default()
    }

    /// What the client received on the server's unidirectional streams, in order.
    pub(crate) fn received_unidirectional(&self, index: u64) -> Vec<u8> {
        self.received(StreamId::new(quinn_proto::Side::Server, Dir::Uni, index)).bytes
    }

    /// The code and reason with which the server closed the connection.
    pub(crate) fn closed(&self) -> Option<(u64, String)> {
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => {
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                Some((close.error_code.into_inner(), reason))
            }
            None => None,
            Some(other) => panic!("{other}"),
        }
    }

    /// Processes the server's events.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Lets time pass.
    pub(crate) fn advance_time(&mut self, time: Duration) {
        self.now += time;
        self.drive();
    }

    /// Delivers datagrams and fires timers until nothing more happens.
    pub(crate) fn drive(&mut self) {
        self.drive_with(Pair::poll_server);
    }

    /// The same with another owner of the server's connection.
    pub(crate) fn drive_with(&mut self, mut serve: impl FnMut(&mut Pair)) {
        for _ in 0..100_000 {
            // One by one, to observe the order in which the server sends.
            self.client.receive(self.now, 1);
            self.served.receive(self.now, usize::MAX);
            self.poll_client();
            serve(self);
            let sent = self.client.send(self.now);
            self.served.inbound.extend(sent.into_iter().map(|bytes| (self.now + LATENCY, bytes)));
            let sent = self.served.send(self.now);
            self.client.inbound.extend(sent.into_iter().map(|bytes| (self.now + LATENCY, bytes)));
            let arrivals = [&self.client, &self.served].into_iter().filter_map(|end| end.inbound.front());
            if let Some(next) = arrivals.map(|(at, _)| *at).min() {
                self.now = self.now.max(next);
                continue;
            }
            let due = [&mut self.client, &mut self.served].into_iter().filter_map(End::timeout).min();
            match due {
                Some(due) if due <= self.now + TIMER_HORIZON => self.now = self.now.max(due),
                _ => return,
            }
        }
        panic!("the ends never rest");
    }

    fn poll_server(&mut self) {
        let Some((_, quic)) = &mut self.served.connection else { return };
        let mut head = Head::new();
        while let Some(event) = self.server.poll(self.now, quic, &mut head) {
            if let Event::Head { stream, .. } = event {
                self.heads.push((stream, text(&head)));
            }
            self.events.push(event);
        }
    }

    fn poll_client(&mut self) {
        let Some((_, quic)) = &mut self.client.connection else { return };
        let mut readable = Vec::new();
        while let Some(event) = quic.poll() {
            match event {
                QuicEvent::Stream(StreamEvent::Readable { id }) => readable.push(id),
                QuicEvent::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.received.entry(id).or_default().stopped = Some(error_code.into_inner());
                }
                QuicEvent::ConnectionLost { reason } => self.lost = Some(reason),
                _ => {}
            }
        }
        while let Some(id) = quic.streams().accept(Dir::Uni) {
            readable.push(id);
        }
        if self.client_reads {
            readable.extend(self.received.keys());
            for id in readable {
                read(quic, id, self.received.entry(id).or_default());
            }
        } else {
            for id in readable {
                self.received.entry(id).or_default();
            }
        }
    }
}

/// A head as its start line and fields.
pub(crate) fn text(head: &Head) -> Vec<String> {
    let mut lines = Vec::new();
    if !head.method_bytes().is_empty() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        lines.push(format!("{} {}", text(head.method_bytes()), text(head.target())));
    }
    lines.extend(head.fields().map(|field| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}: {}", text(field.name), text(field.value))
    }));
    lines
}

fn read(quic: &mut Connection, id: StreamId, received: &mut ReceivedStream) {
    let is_own = id.dir() == Dir::Uni && id.initiator() == quinn_proto::Side::Client;
    if is_own || received.finished || received.reset.is_some() {
        return;
    }
    let mut stream = quic.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return };
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => received.bytes.extend_from_slice(&chunk.bytes),
            Ok(None) => {
                received.finished = true;
                break;
            }
            Err(ReadError::Blocked) => break,
            Err(ReadError::Reset(code)) => {
                received.reset = Some(code.into_inner());
                break;
            }
        }
    }
    let _ = chunks.finalize();
}

impl End {
    fn new(endpoint: Endpoint, peer: SocketAddr) -> Self {
        End { endpoint, connection: None, inbound: VecDeque::new(), peer }
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    /// Processes received datagrams, up to this many, and due timers.
    fn receive(&mut self, now: Instant, max_datagrams: usize) {
        let mut response = Vec::new();
        for _ in 0..max_datagrams {
            let Some((_, bytes)) = self.inbound.pop_front_if(|(at, _)| *at <= now) else { break };
            match self.endpoint.handle(now, self.peer, None, None, bytes, &mut response) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let accepted = self.endpoint.accept(incoming, now, &mut response, None);
                    self.connection = Some(accepted.map_err(|error| error.cause).unwrap());
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut self.connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// Its pending output.
    fn send(&mut self, now: Instant) -> Vec<BytesMut> {
        let mut sent = Vec::new();
        let Some((handle, connection)) = &mut self.connection else { return sent };
        let mut bytes = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut bytes) {
            sent.push(BytesMut::from(&bytes[..transmit.size]));
            bytes.clear();
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        sent
    }
}
