//! Attackers that do as much as their pace allows: bytes without end, connections, handshakes. Every socket call is as
//! cheap for the attacker as a real one would make it: answers are thrown away unread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection};
use rustls_pki_types::ServerName;
use socket2::SockRef;

use super::control::Control;
use super::socket::{Heard, Waste, dial, discard, waste};

/// What is done as often as possible. A round is one connection, one handshake, one request or one write.
#[derive(Clone)]
pub(super) enum Rush {
    /// These pieces over and over, on every connection, each in a write of its own.
    Stream(Arc<Vec<Vec<u8>>>),
    /// The next request each time; on a kept connection it follows the whole answer to the one before.
    Ask(Arc<dyn Fn() -> Vec<u8> + Send + Sync>),
    /// Connections that are reset at once.
    Connections,
    /// This ClientHello, the first bytes of the answer, a reset.
    Hello(Arc<Vec<u8>>),
    /// Full handshakes with this host.
    Handshakes(Arc<ClientConfig>, ServerName<'static>),
}

/// One write. Larger ones make the other clients wait for longer, smaller ones cost the attacker more.
const PIECE: usize = 64 * 1024;
const BUFFER: usize = 256 * 1024;
/// How long an attacker waits for one thing: it ends soon after it is told to.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it rests when no connection takes or gives a byte.
const REST: Duration = Duration::from_micros(300);
/// How long it waits for an answer before it looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(100);

impl Rush {
    /// These bytes over and over, on every connection.
    pub(super) fn stream(bytes: &[u8]) -> Self {
        Self::Stream(Arc::new(bytes.chunks(PIECE).map(<[u8]>::to_vec).collect()))
    }

    /// One of these requests after the other.
    pub(super) fn ask(requests: Vec<Vec<u8>>) -> Self {
        let next = AtomicUsize::new(0);
        Self::Ask(Arc::new(move || requests[next.fetch_add(1, Ordering::Relaxed) % requests.len()].clone()))
    }
}

/// Goes on until it is told to end.
pub(super) fn rush(rush: &Rush, address: SocketAddr, connections: usize, control: &Control) {
    match rush {
        Rush::Stream(pieces) => stream(pieces, address, connections, control),
        Rush::Connections => again(control, || connected(address, control).map(drop)),
        Rush::Hello(hello) => again(control, || {
            let mut stream = connected(address, control)?;
            stream.write_all(hello)?;
            stream.read(&mut [0; 16 * 1024]).map(drop)
        }),
        Rush::Handshakes(config, host) => again(control, || {
            let mut stream = connected(address, control)?;
            let session = ClientConnection::new(Arc::clone(config), host.clone());
            let mut session = session.map_err(io::Error::other)?;
            while session.is_handshaking() {
                session.complete_io(&mut stream)?;
            }
            Ok(())
        }),
        Rush::Ask(next) => {
            let mut kept = None;
            again(control, || {
                let mut stream = kept.take().map_or_else(|| connected(address, control), Ok)?;
                stream.set_read_timeout(Some(GLANCE))?;
                stream.write_all(&next())?;
                read_answer(&mut stream, control)?;
                kept = Some(stream);
                Ok(())
            });
        }
    }
}

fn again(control: &Control, mut round: impl FnMut() -> io::Result<()>) {
    let mut due = Instant::now();
    while !control.is_over() {
        if round().is_err() {
            std::thread::sleep(REST);
        }
        control.rest(&mut due);
    }
}

fn connected(address: SocketAddr, control: &Control) -> io::Result<TcpStream> {
    control.count_opened();
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads a head and the body whose length it says, however long the answer takes.
fn read_answer(stream: &mut TcpStream, control: &Control) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    let (mut had, mut wanted) = (0, None);
    while wanted.is_none_or(|wanted| had < wanted) {
        match stream.read(&mut buffer[had..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => had += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock && !control.is_over() => continue,
            Err(error) => return Err(error),
        }
        if wanted.is_none() {
            let end = buffer[..had].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            wanted = end.map(|end| end + 4 + length(&String::from_utf8_lossy(&buffer[..end])));
        }
    }
    Ok(())
}

/// What a head says of the length of its body.
fn length(head: &str) -> usize {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    found.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

fn stream(pieces: &[Vec<u8>], address: SocketAddr, connections: usize, control: &Control) {
    let mut open: Vec<Option<Streaming>> = (0..connections).map(|_| None).collect();
    let mut room = waste(BUFFER);
    let mut due = Instant::now();
    while !control.is_over() {
        let mut moved = false;
        for slot in &mut open {
            if slot.is_none() {
                control.count_opened();
                *slot = dial(address, None).ok().map(|stream| Streaming { stream, piece: 0, taken: 0 });
            }
            match slot.as_mut().map(|connection| connection.step(pieces, &mut room)) {
                Some(Progress::Wrote) => {
                    moved = true;
                    control.rest(&mut due);
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
    fn the_next_request_follows_the_whole_answer_or_a_new_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, control) = (listener.local_addr().unwrap(), Control::new(1));
        let work = Rush::ask(vec![b"one".to_vec(), b"two".to_vec()]);
        let came = |server: &mut TcpStream| {
            let mut request = [0; 3];
            server.read_exact(&mut request).map(|()| request)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| rush(&work, address, 1, &control));
            let (mut server, _) = listener.accept().unwrap();
            assert_eq!(&came(&mut server).unwrap(), b"one");
            server.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nno").unwrap();
            server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            assert_eq!(
                came(&mut server).unwrap_err().kind(),
                ErrorKind::WouldBlock,
                "the answer is not whole"
            );
            server.set_read_timeout(None).unwrap();
            server.write_all(b"no").unwrap();
            assert_eq!(&came(&mut server).unwrap(), b"two");
            assert_eq!(control.opened(), 1, "the connection is kept");
            drop(server);
            let (mut server, _) = listener.accept().unwrap();
            assert_eq!(&came(&mut server).unwrap(), b"one");
            control.end();
        });
        assert_eq!(control.opened(), 2);
    }
}
