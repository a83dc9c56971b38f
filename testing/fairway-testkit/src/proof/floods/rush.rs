//! Attackers that do as much as their pace allows: bytes without end, connections, handshakes. Every socket call is as
//! cheap for the attacker as a real one would make it: answers are thrown away unread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{ClientConfig, ClientConnection};
use rustls_pki_types::ServerName;
use socket2::SockRef;

use super::control::Control;
use super::passwords::Guesses;
use super::socket::{Heard, Waste, dial, discard, waste};

/// What is done as often as possible. A round is one connection, one handshake, one request or one write.
#[derive(Clone, Debug)]
pub(super) enum Rush {
    /// These pieces over and over, on every connection, each in a write of its own.
    Stream(Arc<Vec<Vec<u8>>>),
    /// One of these requests after the other, on kept connections; the first bytes of each answer are awaited.
    Ask(Arc<Vec<Vec<u8>>>),
    /// Wrong passwords on kept connections; on each of them the next one follows the answer to the one before.
    Guess(Arc<Guesses>),
    /// Connections that are reset at once.
    Connections,
    /// This ClientHello, the first bytes of the answer, a reset.
    Hello(Arc<Vec<u8>>),
    /// Full handshakes with this host.
    Handshakes(Arc<ClientConfig>, ServerName<'static>),
    /// This request and its whole answer, whose body has this length, on kept connections.
    Requests(Arc<Vec<u8>>, usize),
}

/// One write. Larger ones make the other clients wait for longer, smaller ones cost the attacker more.
const PIECE: usize = 64 * 1024;
const BUFFER: usize = 256 * 1024;
/// How long an attacker waits for one thing: it ends soon after it is told to.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it rests when no connection takes or gives a byte.
const REST: Duration = Duration::from_micros(300);
/// How long it waits for the next answer before it looks whether it is to end.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

impl Rush {
    /// These bytes over and over, on every connection.
    pub(super) fn stream(bytes: &[u8]) -> Self {
        Self::Stream(Arc::new(bytes.chunks(PIECE).map(<[u8]>::to_vec).collect()))
    }
}

/// Goes on until it is told to end.
pub(super) fn rush(rush: &Rush, address: SocketAddr, connections: usize, control: &Control) {
    match rush {
        Rush::Stream(pieces) => stream(pieces, address, connections, control),
        Rush::Guess(guesses) => guess(guesses, address, connections, control),
        Rush::Connections => again(control, || connected(address, control).map(drop)),
        Rush::Hello(hello) => again(control, || {
            let mut stream = connected(address, control)?;
            stream.write_all(hello)?;
            stream.read(&mut [0; 16 * 1024]).map(drop)
        }),
        Rush::Handshakes(config, host) => again(control, || {
            let mut stream = connected(address, control)?;
            let session = ClientConnection::new(Arc::clone(config), host.clone());
            let mut session = session.map_err(std::io::Error::other)?;
            while session.is_handshaking() {
                session.complete_io(&mut stream)?;
            }
            Ok(())
        }),
        Rush::Ask(requests) => {
            let (mut kept, mut next) = (None, requests.iter().cycle());
            again(control, || {
                let mut stream = kept.take().map_or_else(|| connected(address, control), Ok)?;
                stream.write_all(next.next().expect("there are requests"))?;
                if stream.read(&mut [0; 16 * 1024])? > 0 {
                    kept = Some(stream);
                }
                Ok(())
            });
        }
        Rush::Requests(request, length) => {
            let mut kept = None;
            again(control, || {
                let mut stream = kept.take().map_or_else(|| connected(address, control), Ok)?;
                stream.write_all(request)?;
                read_answer(&mut stream, *length)?;
                kept = Some(stream);
                Ok(())
            });
        }
    }
}

fn again(control: &Control, mut round: impl FnMut() -> std::io::Result<()>) {
    let mut due = Instant::now();
    while !control.is_over() {
        if round().is_err() {
            std::thread::sleep(REST);
        }
        control.pace.rest(&mut due, 1);
    }
}

fn connected(address: SocketAddr, control: &Control) -> std::io::Result<TcpStream> {
    control.count_opened(1);
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads a head and a body of `length` bytes.
fn read_answer(stream: &mut TcpStream, length: usize) -> std::io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    let (mut had, mut wanted) = (0, None);
    while wanted.is_none_or(|wanted| had < wanted) {
        let read = stream.read(&mut buffer[had..])?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        had += read;
        if wanted.is_none() {
            let end = buffer[..had].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            wanted = end.map(|end| end + 4 + length);
        }
    }
    Ok(())
}

/// Keeps a request with a wrong password under way on every connection.
fn guess(guesses: &Guesses, address: SocketAddr, connections: usize, control: &Control) {
    let mut open: Vec<Option<TcpStream>> = (0..connections).map(|_| None).collect();
    let mut room = waste(BUFFER);
    let mut due = Instant::now();
    while !control.is_over() {
        for place in due_places(&open) {
            if control.is_over() {
                return;
            }
            let kept = open[place].take().filter(|stream| is_answered(stream, &mut room));
            open[place] = ask_next(kept, guesses, address, control).ok();
            if open[place].is_none() {
                std::thread::sleep(REST);
            }
            control.pace.rest(&mut due, 1);
        }
    }
}

/// Which connections can have their next request: those with news, and those that do not exist. Waits a moment for news
/// when all connections exist.
fn due_places(open: &[Option<TcpStream>]) -> Vec<usize> {
    let closed: Vec<_> = (0..open.len()).filter(|place| open[*place].is_none()).collect();
    if !closed.is_empty() {
        return closed;
    }
    let mut sockets: Vec<_> =
        open.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    match poll(&mut sockets, Some(&GLANCE)) {
        Ok(_) => (0..sockets.len()).filter(|place| !sockets[*place].revents().is_empty()).collect(),
        // A signal interrupted it.
        Err(_) => Vec::new(),
    }
}

/// Throws the answer away; `false` when the connection has ended.
fn is_answered(stream: &TcpStream, room: &mut Waste) -> bool {
    loop {
        match discard(stream, room) {
            Heard::Bytes => {}
            Heard::Silence => return true,
            Heard::End => return false,
        }
    }
}

fn ask_next(
    kept: Option<TcpStream>,
    guesses: &Guesses,
    address: SocketAddr,
    control: &Control,
) -> std::io::Result<TcpStream> {
    let mut stream = kept.map_or_else(|| connected(address, control), Ok)?;
    stream.write_all(&guesses.another().bytes())?;
    Ok(stream)
}

fn stream(pieces: &[Vec<u8>], address: SocketAddr, connections: usize, control: &Control) {
    let mut open: Vec<Option<Streaming>> = (0..connections).map(|_| None).collect();
    let mut room = waste(BUFFER);
    let mut due = Instant::now();
    while !control.is_over() {
        let mut moved = false;
        for slot in &mut open {
            if slot.is_none() {
                control.count_opened(1);
                *slot = dial(address, None).ok().map(|stream| Streaming { stream, piece: 0, taken: 0 });
            }
            match slot.as_mut().map(|connection| connection.step(pieces, &mut room)) {
                Some(Progress::Wrote) => {
                    moved = true;
                    control.pace.rest(&mut due, 1);
                }
                Some(Progress::Read) => moved = true,
                Some(Progress::Stuck) => {}
                Some(Progress::Ended) | None => *slot = None,
            }
        }
        if !moved {
            std::thread::sleep(REST);
        }
    }
}

/// A connection and where it is in the bytes that it sends in a circle.
struct Streaming {
    stream: TcpStream,
    /// The index of the piece.
    piece: usize,
    /// How much of it was taken.
    taken: usize,
}

enum Progress {
    Wrote,
    Read,
    Stuck,
    Ended,
}

impl Streaming {
    fn step(&mut self, pieces: &[Vec<u8>], room: &mut Waste) -> Progress {
        let mut step = Progress::Stuck;
        match discard(&self.stream, room) {
            Heard::End => return Progress::Ended,
            Heard::Bytes => step = Progress::Read,
            Heard::Silence => {}
        }
        match (&self.stream).write(&pieces[self.piece][self.taken..]) {
            Ok(length) => {
                self.taken += length;
                if self.taken == pieces[self.piece].len() {
                    self.piece = (self.piece + 1) % pieces.len();
                    self.taken = 0;
                }
                Progress::Wrote
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => step,
            Err(_) => Progress::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_next_guess_follows_the_answer_or_a_new_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (guesses, control, mut room) = (Guesses::default(), Control::new(1), waste(BUFFER));
        let mut buffer = [0; 4 * 1024];

        assert_eq!(due_places(&[None, None]), [0, 1], "none exists");
        let client = ask_next(None, &guesses, address, &control).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(server.read(&mut buffer).unwrap() > 0);
        let open = [Some(client)];
        assert_eq!(due_places(&open), [0; 0], "the answer is awaited");
        server.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert!((0..1_000).any(|_| due_places(&open) == [0]), "the answer has come");

        let [client] = open;
        let kept = client.filter(|stream| is_answered(stream, &mut room));
        assert!(kept.is_some());
        let client = ask_next(kept, &guesses, address, &control).unwrap();
        assert!(server.read(&mut buffer).unwrap() > 0);
        assert_eq!(control.opened(), 1, "the connection is kept");

        drop(server);
        let open = [Some(client)];
        assert!((0..1_000).any(|_| due_places(&open) == [0]), "the connection has ended");
        let [client] = open;
        let kept = client.filter(|stream| is_answered(stream, &mut room));
        assert!(kept.is_none());
        let _client = ask_next(kept, &guesses, address, &control).unwrap();
        assert!(listener.accept().is_ok());
        assert_eq!(control.opened(), 2);
    }
}
