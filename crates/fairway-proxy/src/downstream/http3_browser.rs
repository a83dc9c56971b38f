//! A client of HTTP/3 for tests in virtual time: QUIC without sockets, and frames that are written and read here, so that no
//! error of the codec can hide behind its own mirror image.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fairway_http2::hpack::huffman;
use fairway_net::clock::Instant;
use fairway_testkit::Authority;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, ReadError, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
    WriteError,
};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::http3::{Carrier, serve_over};
use crate::listener::ListenerId;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::{Stage, endpoint};
use crate::worker::Open;

/// How long either side hears nothing before it takes the other for gone.
pub(super) const QUIC_IDLE: Duration = Duration::from_secs(100);

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 2], 443);

/// Frames and streams (RFC 9114 §7.2, §6.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
const GOAWAY: u64 = 7;
const CONTROL: u64 = 0;

/// What came of a request.
#[derive(Default)]
pub(super) struct Answer {
    /// 0 before its final head.
    pub(super) status: u64,
    pub(super) fields: Vec<(String, String)>,
    pub(super) interim: Vec<u64>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Vec<(String, String)>,
    pub(super) is_whole: bool,
    pub(super) reset: Option<u64>,
    /// Whether the server wants no more of the request, and its code.
    pub(super) stopped: Option<u64>,
    input: Vec<u8>,
    /// Bytes of a DATA frame that are still to come.
    data_left: u64,
    /// What QUIC did not take yet, and whether the end follows.
    output: VecDeque<u8>,
    ends: bool,
}

impl Answer {
    pub(super) fn is_over(&self) -> bool {
        self.is_whole || self.reset.is_some()
    }

    /// What the client gave QUIC no room for.
    pub(super) fn unsent(&self) -> usize {
        self.output.len()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            if self.data_left > 0 {
                let count = self.input.len().min(self.data_left as usize);
                self.body.extend(self.input.drain(..count));
                self.data_left -= count as u64;
                if self.data_left > 0 {
                    return;
                }
            }
            let Some((kind, payload, used)) = frame(&self.input) else { return };
            if kind == DATA {
                self.data_left = payload;
                self.input.drain(..used);
                continue;
            }
            let end = used + payload as usize;
            if self.input.len() < end {
                return;
            }
            if kind == HEADERS {
                let fields = decode(&self.input[used..end]);
                self.take_fields(fields);
            }
            self.input.drain(..end);
        }
    }

    fn take_fields(&mut self, fields: Vec<(String, String)>) {
        match fields.iter().find(|(name, _)| name == ":status") {
            None => self.trailers = fields,
            Some((_, status)) => match status.parse().unwrap() {
                interim @ 100..=199 => self.interim.push(interim),
                status => (self.status, self.fields) = (status, fields),
            },
        }
    }
}

/// The network between a client and the task that serves it, with the endpoint of the latter.
struct Between {
    endpoint: Endpoint,
    /// Of the connection at that endpoint, while it is known there.
    handle: Option<ConnectionHandle>,
    events: VecDeque<ConnectionEvent>,
    task: Option<Waker>,
    to_client: VecDeque<BytesMut>,
    heard: Rc<Notify>,
    /// Neither side hears the other.
    is_cut: bool,
}

impl Between {
    /// A datagram of the client; gives what connection begins with it.
    fn carry(&mut self, datagram: BytesMut) -> Option<Connection> {
        if self.is_cut {
            return None;
        }
        let (now, mut output) = (Instant::now().into_std(), Vec::new());
        let client = endpoint(9999);
        match self.endpoint.handle(now, client, None, None, datagram, &mut output)? {
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
            if !self.is_cut {
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
}

/// A client.
pub(super) struct Browser {
    between: Rc<RefCell<Between>>,
    heard: Rc<Notify>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) quic: Connection,
    /// By the number of the stream.
    pub(super) answers: BTreeMap<u64, Answer>,
    /// By the number of the stream, what came on those that the server opened.
    unidirectional: BTreeMap<u64, (StreamId, Vec<u8>)>,
    /// The ids of the server's GOAWAY frames.
    pub(super) goes_away: Vec<u64>,
    /// Whether responses are read.
    pub(super) consumes: bool,
    /// Why the connection is over.
    pub(super) lost: Option<ConnectionError>,
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
            is_cut: false,
        };
        let server = SocketAddr::from(SERVER);
        let (handle, quic) = own.connect(Instant::now().into_std(), config, server, "stage.invalid").unwrap();
        let mut browser = Self {
            between: Rc::new(RefCell::new(between)),
            heard,
            endpoint: own,
            handle,
            quic,
            answers: BTreeMap::new(),
            unidirectional: BTreeMap::new(),
            goes_away: Vec::new(),
            consumes: true,
            lost: None,
        };
        let quic = browser.shake_hands();
        let control = browser.quic.streams().open(Dir::Uni).unwrap();
        // The control stream begins with SETTINGS (RFC 9114 §6.2.1).
        assert_eq!(browser.quic.send_stream(control).write(&[0, 4, 0]), Ok(3));
        let listener = ListenerId { slot: 0, generation: 1 };
        let client = endpoint(9999).ip();
        let peer = Peer { listener, scheme: Scheme::Https, client, sender: Sender::Client, facts: None };
        let carrier = InMemory(Rc::clone(&browser.between));
        let serving = serve_over(Open::new(&stage.worker), peer, Box::new(quic), carrier, None);
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
        panic!("no handshake: {:?}", self.lost)
    }

    /// Neither side hears the other from now on.
    pub(super) fn cut(&mut self) {
        self.between.borrow_mut().is_cut = true;
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
            match event {
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.quic.streams().accept(Dir::Uni) {
                        self.unidirectional.insert(id.index(), (id, Vec::new()));
                    }
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let answer = self.answers.get_mut(&id.index()).unwrap();
                    answer.stopped = Some(error_code.into_inner());
                    answer.output.clear();
                }
                _ => {}
            }
        }
        if self.lost.is_some() {
            return;
        }
        for (id, input) in self.unidirectional.values_mut() {
            _ = read(&mut self.quic, *id, |bytes| input.extend_from_slice(bytes));
            self.goes_away.extend(goaways(input));
        }
        for (number, answer) in &mut self.answers {
            let id = request(*number);
            write(&mut self.quic, id, answer);
            if !self.consumes || answer.is_over() {
                continue;
            }
            match read(&mut self.quic, id, |bytes| answer.take(bytes)) {
                Read::More => {}
                Read::End => answer.is_whole = true,
                Read::Reset(code) => answer.reset = Some(code),
            }
        }
    }

    /// Asks with these fields besides the pseudo fields; `ends` says whether that is all of the request.
    pub(super) fn ask(&mut self, pseudo: &[(&str, &str)], fields: &[(&str, &str)], ends: bool) -> u64 {
        let id = self.quic.streams().open(Dir::Bi).expect("the server takes one more");
        let mut block = vec![0, 0];
        for (name, value) in pseudo.iter().chain(fields) {
            encode(name, value, &mut block);
        }
        let mut answer = Answer { ends, ..Answer::default() };
        put_frame(HEADERS, &block, &mut answer.output);
        self.answers.insert(id.index(), answer);
        id.index()
    }

    pub(super) fn get(&mut self, path: &str) -> u64 {
        self.ask(&head("GET", path), &[], true)
    }

    /// A request whose body follows with [`Browser::send`].
    pub(super) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> u64 {
        self.ask(&head("POST", path), fields, false)
    }

    /// A piece of a body.
    pub(super) fn send(&mut self, number: u64, data: &[u8], ends: bool) {
        let answer = self.answers.get_mut(&number).unwrap();
        if !data.is_empty() {
            put_frame(DATA, data, &mut answer.output);
        }
        answer.ends = ends;
    }

    /// Trailers, and the end.
    pub(super) fn send_trailers(&mut self, number: u64, fields: &[(&str, &str)]) {
        let mut block = vec![0, 0];
        fields.iter().for_each(|(name, value)| encode(name, value, &mut block));
        let answer = self.answers.get_mut(&number).unwrap();
        put_frame(HEADERS, &block, &mut answer.output);
        answer.ends = true;
    }

    /// These bytes on a stream of a request that says nothing else.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> u64 {
        let id = self.quic.streams().open(Dir::Bi).expect("the server takes one more");
        let output = bytes.iter().copied().collect();
        self.answers.insert(id.index(), Answer { output, ..Answer::default() });
        id.index()
    }

    /// H3_REQUEST_CANCELLED in both directions (RFC 9114 §4.1.1).
    pub(super) fn cancel(&mut self, number: u64) {
        let (id, code) = (request(number), VarInt::from_u32(0x10c));
        // The request may have ended, which leaves nothing to reset.
        _ = self.quic.send_stream(id).reset(code);
        self.quic.recv_stream(id).stop(code).unwrap();
        self.answers.get_mut(&number).unwrap().reset = Some(0x10c);
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
            assert!(self.lost.is_none(), "the connection ended: {:?}", self.lost);
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
        assert!(is_in_time, "an hour without: {what}; the connection: {:?}", self.lost);
    }

    /// Sends and hears for so long.
    pub(super) async fn go_on_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        _ = timeout(time, self.until("the end of that time", |_| Instant::now() > until)).await;
    }

    pub(super) async fn answered(&mut self, number: u64) -> &Answer {
        self.until("an answer", |browser| browser.answers[&number].is_over()).await;
        &self.answers[&number]
    }

    /// Waits for the end of the connection; gives the code that the server closed it with.
    pub(super) async fn closed(&mut self) -> u64 {
        self.until("the end", |browser| browser.lost.is_some()).await;
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code.into_inner(),
            other => panic!("not closed by the server: {other:?}"),
        }
    }
}

/// The pseudo fields of a request.
pub(super) fn head<'t>(method: &'t str, path: &'t str) -> [(&'static str, &'t str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)]
}

fn request(number: u64) -> StreamId {
    StreamId::new(quinn_proto::Side::Client, Dir::Bi, number)
}

enum Read {
    More,
    End,
    Reset(u64),
}

fn read(quic: &mut Connection, id: StreamId, mut take: impl FnMut(&[u8])) -> Read {
    let mut stream = quic.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Read::More };
    let read = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => take(&chunk.bytes),
            Ok(None) => break Read::End,
            Err(ReadError::Blocked) => break Read::More,
            Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
        }
    };
    let _ = chunks.finalize();
    read
}

/// Gives QUIC what it takes of a request.
fn write(quic: &mut Connection, id: StreamId, answer: &mut Answer) {
    let mut stream = quic.send_stream(id);
    while !answer.output.is_empty() {
        match stream.write(answer.output.make_contiguous()) {
            Ok(count) => drop(answer.output.drain(..count)),
            Err(WriteError::Blocked) => return,
            Err(_) => return answer.output.clear(),
        }
    }
    if std::mem::take(&mut answer.ends) {
        // The server may have stopped it meanwhile.
        _ = stream.finish();
    }
}

/// The ids of the GOAWAY frames that are whole in the input of a stream, which are taken out of it.
fn goaways(input: &mut Vec<u8>) -> Vec<u64> {
    let mut ids = Vec::new();
    if input.first() != Some(&(CONTROL as u8)) {
        return ids;
    }
    while let Some((kind, payload, used)) = frame(&input[1..]) {
        let (begin, end) = (1 + used, 1 + used + payload as usize);
        if input.len() < end {
            break;
        }
        if kind == GOAWAY {
            ids.push(varint(&input[begin..end]).unwrap().0);
        }
        input.drain(1..end);
    }
    ids
}

/// Type and length of a frame, and the bytes of both.
fn frame(input: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, first) = varint(input)?;
    let (length, second) = varint(&input[first..])?;
    Some((kind, length, first + second))
}

/// A number (RFC 9000 §16), and its length.
fn varint(input: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (input.first()? >> 6);
    let bytes = input.get(..length)?;
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some((number & (u64::MAX >> (64 - 8 * length + 2)), length))
}

fn put_varint(number: u64, out: &mut VecDeque<u8>) {
    match number {
        0..64 => out.push_back(number as u8),
        64..16384 => out.extend((number as u16 | 0x4000).to_be_bytes()),
        _ => out.extend((number as u32 | 0x8000_0000).to_be_bytes()),
    }
}

fn put_frame(kind: u64, payload: &[u8], out: &mut VecDeque<u8>) {
    put_varint(kind, out);
    put_varint(payload.len() as u64, out);
    out.extend(payload);
}

/// A literal field line with a literal name (RFC 9204 §4.5.6).
fn encode(name: &str, value: &str, out: &mut Vec<u8>) {
    integer(0x20, 3, name.len(), out);
    out.extend_from_slice(name.as_bytes());
    integer(0, 7, value.len(), out);
    out.extend_from_slice(value.as_bytes());
}

/// A number behind a pattern in the first byte (RFC 7541 §5.1).
fn integer(pattern: u8, bits: u32, number: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if number < most {
        return out.push(pattern | number as u8);
    }
    out.push(pattern | most as u8);
    let mut rest = number - most;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// The lines of a block of fields that has no dynamic table.
fn decode(block: &[u8]) -> Vec<(String, String)> {
    let mut rest = block;
    assert_eq!((number(8, &mut rest), number(7, &mut rest)), (0, 0), "no dynamic table was offered");
    let mut fields = Vec::new();
    while let Some(&first) = rest.first() {
        let field = match first {
            0xc0.. => fixed(number(6, &mut rest)),
            0x50..0x60 | 0x70..0x80 => {
                let (name, _) = fixed(number(4, &mut rest));
                (name, string(7, &mut rest))
            }
            0x20..0x40 => (string(3, &mut rest), string(7, &mut rest)),
            _ => panic!("a line of the dynamic table"),
        };
        fields.push(field);
    }
    fields
}

/// What the static table (RFC 9204, appendix A) has of statuses; others are named by their index.
fn fixed(index: usize) -> (String, String) {
    let status = match index {
        24..=28 => [103, 200, 304, 404, 503][index - 24],
        63..=71 => [100, 204, 206, 302, 400, 403, 421, 425, 500][index - 63],
        _ => return (format!("#{index}"), String::new()),
    };
    (":status".to_owned(), status.to_string())
}

fn number(bits: u32, rest: &mut &[u8]) -> usize {
    let most = (1 << bits) - 1;
    let mut value = usize::from(rest[0]) & most;
    *rest = &rest[1..];
    if value == most {
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            value += usize::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
    }
    value
}

fn string(bits: u32, rest: &mut &[u8]) -> String {
    let is_huffman = rest[0] >> bits & 1 == 1;
    let length = number(bits, rest);
    let (text, behind) = rest.split_at(length);
    *rest = behind;
    let mut decoded = text.to_vec();
    if is_huffman {
        decoded.clear();
        huffman::decode(text, &mut decoded).unwrap();
    }
    String::from_utf8(decoded).unwrap()
}
