//! Attackers that do as much as their pace allows: bytes without end, connections, handshakes. Every socket call is as
//! cheap for the attacker as a real one would make it: answers are thrown away unread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::pace::Control;
use super::socket::{Heard, Sender, dial, discard, waste};

const BUFFER: usize = 256 * 1024;
/// How long an attacker waits for one thing: it ends soon after it is told to.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it rests when no connection takes or gives a byte.
const REST: Duration = Duration::from_micros(300);
/// How long it waits for an answer before it looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(100);

/// Does this with a new connection each time, which is reset.
pub(super) fn once(work: &dyn Fn(&mut TcpStream) -> io::Result<()>, address: SocketAddr, control: &Control) {
    again(control, || work(&mut connected(address, control)?));
}

/// Asks for the next thing each time, on a kept connection once the answer before is there as a whole.
pub(super) fn ask(next: &dyn Fn() -> Vec<u8>, address: SocketAddr, control: &Control) {
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

/// Sends pieces in a circle on every connection, and throws away what comes.
pub(super) fn stream(pieces: &[Vec<u8>], address: SocketAddr, connections: usize, control: &Control) {
    let mut open: Vec<Option<Sender>> = (0..connections).map(|_| None).collect();
    let mut room = waste(BUFFER);
    let mut due = Instant::now();
    while !control.is_over() {
        let mut moved = false;
        for slot in &mut open {
            if slot.is_none() {
                control.count_opened();
                *slot = dial(address, None).ok().map(Sender::new);
            }
            let Some(sender) = slot else { continue };
            let heard = discard(&sender.stream, &mut room);
            let sent = sender.send(&pieces[sender.piece % pieces.len()]);
            moved |= heard == Heard::Bytes || matches!(sent, Ok(true));
            if heard == Heard::End || sent.is_err() {
                *slot = None;
            } else if matches!(sent, Ok(true)) {
                control.rest(&mut due);
            }
        }
        if !moved {
            std::thread::sleep(REST);
        }
    }
}
