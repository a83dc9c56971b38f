//! The backend of every measurement: one thread that answers each request with the same bytes. It costs as little CPU
//! as a server can, so that the proxy under test is what the machine spends its time on.
//!
//! Owns the answers. Never parses more than the end of a head and the first bytes of the path; never sees a body,
//! because the generator sends none.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pinning::Idle;
use crate::readiness::{Readiness, Ready};

/// How much a path answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Body {
    Kilobyte,
    Megabyte,
}

impl Body {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Kilobyte => "/k",
            Self::Megabyte => "/m",
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Kilobyte => 1 << 10,
            Self::Megabyte => 1 << 20,
        }
    }

    fn answer(self) -> Vec<u8> {
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            self.bytes()
        )
        .into_bytes();
        answer.resize(answer.len() + self.bytes(), b'x');
        answer
    }
}

const LISTENER: usize = usize::MAX;
const END_OF_HEAD: &[u8; 4] = b"\r\n\r\n";

struct Connection {
    stream: TcpStream,
    /// The head so far, when it came in more than one piece.
    head: Vec<u8>,
    /// The rest of an answer the socket had no room for.
    owed: Option<(Body, usize)>,
}

pub(crate) struct Backend {
    readiness: Readiness,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    kilobyte: Vec<u8>,
    megabyte: Vec<u8>,
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
    pub(crate) address: SocketAddr,
    pub(crate) backing: Backing,
}

/// Listens on a free loopback port, for as long as the process lives.
pub(crate) fn start(idle: Idle) -> anyhow::Result<Upstream> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    if idle == Idle::Spin {
        let backing = Backing::Generator(Arc::new(Mutex::new(Backend::new(listener)?)));
        return Ok(Upstream { address, backing });
    }
    std::thread::Builder::new().name("backend".into()).spawn(move || {
        let ended = Backend::new(listener).and_then(|mut backend| {
            loop {
                backend.step(Duration::from_secs(60))?;
            }
        });
        ended.unwrap_or_else(|error: anyhow::Error| eprintln!("the backend has ended: {error}"));
    })?;
    Ok(Upstream { address, backing: Backing::Thread })
}

impl Backend {
    fn new(listener: TcpListener) -> anyhow::Result<Self> {
        listener.set_nonblocking(true)?;
        let readiness = Readiness::new()?;
        readiness.watch(&listener, LISTENER)?;
        Ok(Self {
            readiness,
            listener,
            connections: Vec::new(),
            free: Vec::new(),
            kilobyte: Body::Kilobyte.answer(),
            megabyte: Body::Megabyte.answer(),
            ready: Vec::new(),
            buffer: vec![0; 16 * 1024],
        })
    }

    /// Answers what is ready, after waiting for at most `limit`.
    pub(crate) fn step(&mut self, limit: Duration) -> anyhow::Result<()> {
        let (mut ready, mut buffer) = (std::mem::take(&mut self.ready), std::mem::take(&mut self.buffer));
        self.readiness.wait(limit, &mut ready)?;
        for event in &ready {
            if event.token == LISTENER {
                self.accept();
            } else if self.serve(*event, &mut buffer).is_none() {
                self.connections[event.token] = None;
                self.free.push(event.token);
            }
        }
        (self.ready, self.buffer) = (ready, buffer);
        Ok(())
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let token = self.free.pop().unwrap_or(self.connections.len());
            let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if set.is_err() || self.readiness.watch(&stream, token).is_err() {
                continue;
            }
            if token == self.connections.len() {
                self.connections.push(None);
            }
            self.connections[token] = Some(Connection { stream, head: Vec::new(), owed: None });
        }
    }

    /// `None` when the connection is over.
    fn serve(&mut self, event: Ready, buffer: &mut [u8]) -> Option<()> {
        let connection = self.connections.get_mut(event.token)?.as_mut()?;
        if !event.writable {
            let read = match connection.stream.read(buffer) {
                Ok(0) => return None,
                Ok(read) => read,
                Err(error) => return (error.kind() == ErrorKind::WouldBlock).then_some(()),
            };
            connection.owed = connection.asked(&buffer[..read]).map(|body| (body, 0));
        }
        let Some((body, sent)) = connection.owed else { return Some(()) };
        let answer = if body == Body::Kilobyte { &self.kilobyte } else { &self.megabyte };
        let sent = sent + write_some(&connection.stream, &answer[sent..])?;
        let unfinished = sent < answer.len();
        if unfinished != event.writable {
            self.readiness.await_room(&connection.stream, event.token, unfinished).ok()?;
        }
        connection.owed = unfinished.then_some((body, sent));
        Some(())
    }
}

impl Connection {
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
