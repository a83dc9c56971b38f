//! One client connection: a socket, TLS or not, and the answer that is awaited on it. Never decides when to send.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::answer::{After, Answer};
use super::failure::Failure;

enum Wire {
    Plain,
    Tls(Box<ClientConnection>),
}

enum State {
    Idle,
    Awaiting(Answer),
    /// The answer is complete and the server said it would close.
    Closing,
}

/// What a readable socket came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// A complete answer; the connection can be used again.
    Answered,
    /// A complete answer whose connection the server has closed or is about to close.
    AnsweredLast,
    /// The connection ended with nothing awaited on it.
    Over,
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    wire: Wire,
    state: State,
    pub(crate) sent: Instant,
}

impl Connection {
    pub(crate) fn open(
        to: SocketAddr,
        tls: Option<&Arc<rustls::ClientConfig>>,
        name: &ServerName<'static>,
    ) -> Result<Self, Failure> {
        let sent = Instant::now();
        let stream = TcpStream::connect(to).map_err(|error| Failure::of_connect(&error))?;
        stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|error| Failure::of_connect(&error))?;
        let wire = match tls {
            None => Wire::Plain,
            Some(config) => Wire::Tls(Box::new(
                ClientConnection::new(config.clone(), name.clone()).map_err(|_| Failure::Tls)?,
            )),
        };
        Ok(Self { stream, wire, state: State::Idle, sent })
    }

    /// Sends a request that fits the socket's buffer; on a new TLS connection it follows the handshake.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.state = State::Awaiting(Answer::awaited());
        match &mut self.wire {
            Wire::Plain => (&self.stream).write_all(request).map_err(|error| Failure::of_write(&error)),
            Wire::Tls(session) => {
                session.writer().write_all(request).map_err(|_| Failure::Tls)?;
                flush(session, &self.stream)
            }
        }
    }

    /// Reads once and says what that came to.
    pub(crate) fn read(&mut self, buffer: &mut [u8], expected: usize) -> Result<Step, Failure> {
        let read = match self.stream.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::More),
            Err(_) => return self.ended(Failure::Reset),
        };
        let Self { wire, state, stream, .. } = self;
        match wire {
            _ if read == 0 => self.ended_by_eof(),
            Wire::Plain => take(state, &buffer[..read], expected),
            Wire::Tls(session) => take_records(session, stream, state, (&buffer[..read], expected)),
        }
    }

    fn ended_by_eof(&self) -> Result<Step, Failure> {
        match &self.state {
            State::Awaiting(answer) => Err(answer.cut_short()),
            State::Idle | State::Closing => Ok(self.quiet_end()),
        }
    }

    fn ended(&self, failure: Failure) -> Result<Step, Failure> {
        match &self.state {
            State::Awaiting(_) => Err(failure),
            State::Idle | State::Closing => Ok(self.quiet_end()),
        }
    }

    fn quiet_end(&self) -> Step {
        if matches!(self.state, State::Closing) { Step::AnsweredLast } else { Step::Over }
    }
}

fn take(state: &mut State, bytes: &[u8], expected: usize) -> Result<Step, Failure> {
    let State::Awaiting(answer) = state else { return Err(Failure::Surplus) };
    match answer.take(bytes, expected)? {
        None => Ok(Step::More),
        Some(After::KeepAlive) => {
            *state = State::Idle;
            Ok(Step::Answered)
        }
        Some(After::Close) => {
            *state = State::Closing;
            Ok(Step::More)
        }
    }
}

/// Bytes off the wire through TLS. The records are read from memory, because rustls asks a socket for small pieces.
fn take_records(
    session: &mut ClientConnection,
    stream: &TcpStream,
    state: &mut State,
    (mut records, expected): (&[u8], usize),
) -> Result<Step, Failure> {
    let mut step = Step::More;
    while !records.is_empty() {
        session.read_tls(&mut records).map_err(|_| Failure::Tls)?;
        let seen = session.process_new_packets().map_err(|_| Failure::Tls)?;
        flush(session, stream)?;
        let mut reader = session.reader();
        while let Ok(bytes) = reader.fill_buf()
            && !bytes.is_empty()
        {
            let length = bytes.len();
            step = take(state, bytes, expected)?;
            reader.consume(length);
        }
        if seen.peer_has_closed() && matches!(state, State::Closing) {
            return Ok(Step::AnsweredLast);
        }
    }
    Ok(step)
}

fn flush(session: &mut ClientConnection, mut stream: &TcpStream) -> Result<(), Failure> {
    while session.wants_write() {
        session.write_tls(&mut stream).map_err(|error| Failure::of_write(&error))?;
    }
    Ok(())
}
