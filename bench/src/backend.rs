//! The backend of every measurement: one thread that answers each request with the same bytes. It costs as little CPU
//! as a server can, so that the proxy under test is what the machine spends its time on.
//!
//! Owns the answers. It has a port for each protocol. Of HTTP/1 it never parses more than the end of a head and the first bytes
//! of the path, of HTTP/2 no more than frames; it never looks at a body.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway_lab_traffic::backend::h2c::{Answer, Http2};

use crate::body::Body;
use crate::pinning::Idle;
use crate::readiness::{Readiness, Ready};

/// What the backend speaks. Each has a port; their tokens are the last ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Spoken {
    Http1,
    /// HTTP/2 without TLS, with prior knowledge.
    H2c,
    /// gRPC, over HTTP/2 without TLS.
    Grpc,
    /// Datagrams, each of which is sent back.
    Datagrams,
}

impl Spoken {
    /// Those with connections.
    const OF_CONNECTIONS: [Self; 3] = [Self::Http1, Self::H2c, Self::Grpc];

    fn token(self) -> usize {
        usize::MAX - self as usize
    }
}

const END_OF_HEAD: &[u8; 4] = b"\r\n\r\n";

struct Connection {
    stream: TcpStream,
    speech: Speech,
    is_full: bool,
}

enum Speech {
    Http1(Http1),
    Http2(Box<Http2>, Spoken),
}

#[derive(Default)]
struct Http1 {
    /// The head so far, when it came in more than one piece.
    head: Vec<u8>,
    /// The rest of an answer the socket had no room for, or that is held back.
    owed: Option<(Body, usize)>,
}

struct Answers {
    kilobyte: Vec<u8>,
    megabyte: Vec<u8>,
    http2: Answer,
    grpc: Answer,
    /// Whether requests wait for their answers.
    held: Held,
}

type Held = Arc<AtomicBool>;

pub(crate) struct Backend {
    readiness: Readiness,
    listeners: [TcpListener; 3],
    datagrams: UdpSocket,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    answers: Answers,
    /// Whether answers were held back when it last looked.
    was_held: bool,
    ready: Vec<Ready>,
    buffer: Vec<u8>,
}

/// Who gives the backend its turns.
#[derive(Clone)]
pub(crate) enum Backing {
    /// A thread of its own, which sleeps when there is nothing to do.
    Thread,
    /// The generator, between its own turns; neither ever sleeps.
    Generator(Arc<Mutex<Backend>>),
}

/// A backend that runs.
#[derive(Clone)]
pub(crate) struct Upstream {
    addresses: [SocketAddr; 4],
    pub(crate) backing: Backing,
    held: Held,
}

impl Upstream {
    /// Where this is spoken.
    pub(crate) fn address(&self, spoken: Spoken) -> SocketAddr {
        self.addresses[spoken as usize]
    }

    /// Answers no request until [`Upstream::release`].
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// Answers all requests that waited, and those to come.
    pub(crate) fn release(&self) -> anyhow::Result<()> {
        self.held.store(false, Ordering::Relaxed);
        // A connection wakes it.
        TcpStream::connect(self.addresses[0])?;
        Ok(())
    }
}

/// Listens on free loopback ports, for as long as the process lives.
pub(crate) fn start(idle: Idle) -> anyhow::Result<Upstream> {
    let bind = || TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    let listeners = [bind()?, bind()?, bind()?];
    let datagrams = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let [http1, h2c, grpc] = &listeners;
    let addresses = [http1.local_addr()?, h2c.local_addr()?, grpc.local_addr()?, datagrams.local_addr()?];
    let held = Held::default();
    let mut backend = Backend::new(listeners, datagrams, held.clone())?;
    if idle == Idle::Spin {
        let backing = Backing::Generator(Arc::new(Mutex::new(backend)));
        return Ok(Upstream { addresses, backing, held });
    }
    std::thread::Builder::new().name("backend".into()).spawn(move || {
        let ended: anyhow::Error = loop {
            if let Err(error) = backend.step(Duration::from_secs(60)) {
                break error;
            }
        };
        eprintln!("the backend has ended: {ended}");
    })?;
    Ok(Upstream { addresses, backing: Backing::Thread, held })
}

impl Backend {
    fn new(listeners: [TcpListener; 3], datagrams: UdpSocket, held: Held) -> anyhow::Result<Self> {
        let readiness = Readiness::new()?;
        for (listener, spoken) in listeners.iter().zip(Spoken::OF_CONNECTIONS) {
            listener.set_nonblocking(true)?;
            readiness.watch(listener, spoken.token())?;
        }
        datagrams.set_nonblocking(true)?;
        readiness.watch(&datagrams, Spoken::Datagrams.token())?;
        Ok(Self {
            readiness,
            listeners,
            datagrams,
            connections: Vec::new(),
            free: Vec::new(),
            answers: Answers {
                kilobyte: http1_answer(Body::Kilobyte),
                megabyte: http1_answer(Body::Megabyte),
                http2: Answer::of(Body::Kilobyte.bytes()),
                grpc: Answer::of_call(),
                held,
            },
            was_held: false,
            ready: Vec::new(),
            buffer: vec![0; 64 * 1024],
        })
    }

    /// Answers what is ready, after waiting for at most `limit`.
    pub(crate) fn step(&mut self, limit: Duration) -> anyhow::Result<()> {
        let (mut ready, mut buffer) = (std::mem::take(&mut self.ready), std::mem::take(&mut self.buffer));
        self.readiness.wait(limit, &mut ready)?;
        for event in &ready {
            let of_this = |spoken: &Spoken| spoken.token() == event.token;
            match Spoken::OF_CONNECTIONS.into_iter().find(of_this) {
                Some(spoken) => self.accept(spoken),
                None if of_this(&Spoken::Datagrams) => self.echo(&mut buffer),
                None => self.serve(*event, &mut buffer),
            }
        }
        if self.was_held && !self.answers.are_held() {
            for token in 0..self.connections.len() {
                self.serve(Ready { token, writable: true }, &mut buffer);
            }
        }
        self.was_held = self.answers.are_held();
        (self.ready, self.buffer) = (ready, buffer);
        Ok(())
    }

    /// Sends every datagram back that has come. What the socket does not take is lost, as anywhere else.
    fn echo(&self, buffer: &mut [u8]) {
        while let Ok((count, from)) = self.datagrams.recv_from(buffer) {
            _ = self.datagrams.send_to(&buffer[..count], from);
        }
    }

    fn accept(&mut self, spoken: Spoken) {
        while let Ok((stream, _)) = self.listeners[spoken as usize].accept() {
            let token = self.free.pop().unwrap_or(self.connections.len());
            let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if set.is_err() || self.readiness.watch(&stream, token).is_err() {
                continue;
            }
            if token == self.connections.len() {
                self.connections.push(None);
            }
            let speech = match spoken {
                Spoken::Http1 => Speech::Http1(Http1::default()),
                Spoken::H2c | Spoken::Grpc => Speech::Http2(Box::new(Http2::new()), spoken),
                Spoken::Datagrams => continue,
            };
            self.connections[token] = Some(Connection { stream, speech, is_full: false });
        }
    }

    fn serve(&mut self, event: Ready, buffer: &mut [u8]) {
        let Some(slot @ Some(_)) = self.connections.get_mut(event.token) else { return };
        let Some(connection) = slot else { return };
        if connection.serve(event.writable, buffer, &self.answers).is_none() {
            *slot = None;
            self.free.push(event.token);
            return;
        }
        let is_full = connection.has_more(&self.answers);
        if is_full != connection.is_full {
            connection.is_full = is_full;
            // A connection that cannot be watched any more is found when it ends.
            _ = self.readiness.await_room(&connection.stream, event.token, is_full);
        }
    }
}

impl Answers {
    fn are_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    fn http1(&self, body: Body) -> &[u8] {
        if body == Body::Megabyte { &self.megabyte } else { &self.kilobyte }
    }
}

impl Connection {
    /// Goes on after the socket moved. `None` when the connection is over.
    fn serve(&mut self, writable: bool, buffer: &mut [u8], answers: &Answers) -> Option<()> {
        let mut read = 0;
        if !writable {
            read = match self.stream.read(buffer) {
                Ok(0) => return None,
                Ok(read) => read,
                Err(error) => return (error.kind() == ErrorKind::WouldBlock).then_some(()),
            };
        }
        match &mut self.speech {
            Speech::Http1(http1) => {
                if read > 0 {
                    http1.owed = http1.asked(&buffer[..read]).map(|body| (body, 0));
                }
                let Some((body, sent)) = http1.owed.filter(|_| !answers.are_held()) else { return Some(()) };
                let answer = answers.http1(body);
                let sent = sent + write_some(&self.stream, &answer[sent..])?;
                http1.owed = (sent < answer.len()).then_some((body, sent));
            }
            Speech::Http2(http2, spoken) => {
                let answer = if *spoken == Spoken::Grpc { &answers.grpc } else { &answers.http2 };
                http2.take(&buffer[..read], answer, answers.are_held())?;
                let written = write_some(&self.stream, &http2.out)?;
                http2.out.drain(..written);
            }
        }
        Some(())
    }

    /// Whether the socket has no room for what is to be written.
    fn has_more(&self, answers: &Answers) -> bool {
        match &self.speech {
            Speech::Http1(http1) => http1.owed.is_some() && !answers.are_held(),
            Speech::Http2(http2, _) => !http2.out.is_empty(),
        }
    }
}

impl Http1 {
    /// What the request asks for, once its head is complete.
    fn asked(&mut self, bytes: &[u8]) -> Option<Body> {
        let whole = if self.head.is_empty() {
            bytes
        } else {
            self.head.extend_from_slice(bytes);
            self.head.as_slice()
        };
        if !whole.ends_with(END_OF_HEAD) {
            if self.head.is_empty() {
                self.head.extend_from_slice(bytes);
            }
            return None;
        }
        let body = if whole.starts_with(b"GET /m") { Body::Megabyte } else { Body::Kilobyte };
        self.head.clear();
        Some(body)
    }
}

/// The bytes of an answer with HTTP/1.
fn http1_answer(body: Body) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        body.bytes()
    )
    .into_bytes();
    answer.resize(answer.len() + body.bytes(), b'x');
    answer
}

fn write_some(mut to: &TcpStream, bytes: &[u8]) -> Option<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Ask, Generator, Tally, has_fields, send};
    use crate::scenario::{Load, named};

    /// A short load as that of the scenario called `name`, straight to the backend.
    fn asked(name: &str) -> Tally {
        let upstream = start(Idle::Sleep).unwrap();
        send(&ask(name, &upstream), Duration::from_millis(100)).unwrap()
    }

    fn ask(name: &str, upstream: &Upstream) -> Ask {
        let mut scenario = named(&[name.to_owned()]).unwrap()[0];
        scenario.tls = false;
        Ask { address: upstream.address(scenario.upstream), scenario, backing: upstream.backing.clone() }
    }

    #[test]
    fn every_protocol_is_answered_in_full() {
        for name in [
            "http-1k-50",
            "h2c-upstream-1k-10x100",
            "grpc-10x10",
            "tcp-connections",
            "udp-50",
            "udp-sessions",
        ] {
            let tally = asked(name);
            assert_eq!(tally.failed(), 0, "{name}: {:?}", tally.errors);
            assert!(tally.requests > 100, "{name}: {}", tally.requests);
        }
    }

    #[test]
    fn an_answer_that_lacks_a_field_is_told_from_one_that_has_all() {
        let upstream = start(Idle::Sleep).unwrap();
        let mut ask = ask("edits-1k-50", &upstream);
        (ask.scenario.load, ask.scenario.connections) = (Load::Idle, 1);
        let has = |fields: &[(&str, &str)]| has_fields(&ask, fields, Duration::from_secs(5)).unwrap();
        let (server, kind) = (("server", "bench"), ("Content-Type", "application/octet-stream"));
        assert!(has(&[]) && has(&[server, kind]));
        assert!(!has(&[server, ("X-One", "one")]) && !has(&[kind, ("Server", "other")]));
    }

    #[test]
    fn answers_that_are_held_back_come_when_they_are_released() {
        for name in ["waiting-streams-h2c", "http-1k-200"] {
            let upstream = start(Idle::Sleep).unwrap();
            let mut ask = ask(name, &upstream);
            ask.scenario.load = Load::Waiting;
            let streams = ask.scenario.connections * ask.scenario.downstream.streams();
            let mut generator = Generator::open(&ask, Duration::from_secs(60)).unwrap();
            upstream.hold();
            assert!(generator.send_and_wait_for(streams as u64).unwrap(), "{name}");
            upstream.release().unwrap();
            generator.finish().unwrap();
            let tally = generator.end().unwrap();
            assert_eq!((tally.requests, tally.failed()), (streams as u64, 0), "{name}: {:?}", tally.errors);
        }
    }

    #[test]
    fn connections_of_http_2_that_are_used_once_stay_open() {
        let upstream = start(Idle::Sleep).unwrap();
        let mut ask = ask("idle-memory-h2", &upstream);
        ask.scenario.upstream = Spoken::H2c;
        ask.scenario.connections = 20;
        let tally =
            send(&Ask { address: upstream.address(ask.scenario.upstream), ..ask }, Duration::from_secs(20));
        let tally = tally.unwrap();
        assert_eq!((tally.requests, tally.open, tally.failed()), (20, 20, 0));
    }
}
