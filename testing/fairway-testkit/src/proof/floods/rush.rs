//! Attackers that do as much as their pace allows: endless bytes, connections, handshakes. Responses are discarded unread,
//! as a real attacker would do to save CPU.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::pace::Control;
use super::socket::{Heard, Sender, dial, discard, discard_buffer};

const BUFFER: usize = 256 * 1024;
/// Timeout of an attacker's step, so that it stops soon after it is told to.
const ATTACKER_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause when no connection can send or receive.
const IDLE_DELAY: Duration = Duration::from_micros(300);
/// How often it checks whether to stop while it waits for a response.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Does this with a new connection each time, which is reset.
pub(super) fn connect_repeatedly(
    work: &dyn Fn(&mut TcpStream) -> io::Result<()>,
    address: SocketAddr,
    control: &Control,
) {
    repeat_rounds(control, || work(&mut connect(address, control)?));
}

/// Sends the next request each time, on a kept connection once the previous response is complete.
pub(super) fn request_repeatedly(next: &dyn Fn() -> Vec<u8>, address: SocketAddr, control: &Control) {
    let mut buffered = None;
    repeat_rounds(control, || {
        let mut stream = buffered.take().map_or_else(|| connect(address, control), Ok)?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        stream.write_all(&next())?;
        read_answer(&mut stream, control)?;
        buffered = Some(stream);
        Ok(())
    });
}

fn repeat_rounds(control: &Control, mut round: impl FnMut() -> io::Result<()>) {
    let mut due = Instant::now();
    while !control.is_over() {
        if round().is_err() {
            std::thread::sleep(IDLE_DELAY);
        }
        control.wait_for_round(&mut due);
    }
}

fn connect(address: SocketAddr, control: &Control) -> io::Result<TcpStream> {
    control.count_opened();
    let stream = TcpStream::connect_timeout(&address, ATTACKER_TIMEOUT)?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ATTACKER_TIMEOUT))?;
    stream.set_write_timeout(Some(ATTACKER_TIMEOUT))?;
    Ok(stream)
}

/// Reads a head and a body with Content-Length, however long that takes.
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

/// The Content-Length of a head.
fn length(head: &str) -> usize {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    found.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Sends pieces in rotation on every connection and discards responses.
pub(super) fn stream(chunks: &[Vec<u8>], address: SocketAddr, connections: usize, control: &Control) {
    let mut open: Vec<Option<Sender>> = (0..connections).map(|_| None).collect();
    let mut room = discard_buffer(BUFFER);
    let mut due = Instant::now();
    while !control.is_over() {
        let mut moved = false;
        for slot in &mut open {
            if slot.is_none() {
                control.count_opened();
                *slot = dial(address, None).ok().map(Sender::new);
            }
            let Some(sender) = slot else { continue };
            let bytes = discard(&sender.stream, &mut room);
            let sent = sender.send(&chunks[sender.pieces_sent % chunks.len()]);
            moved |= bytes == Heard::Bytes || matches!(sent, Ok(true));
            if bytes == Heard::End || sent.is_err() {
                *slot = None;
            } else if matches!(sent, Ok(true)) {
                control.wait_for_round(&mut due);
            }
        }
        if !moved {
            std::thread::sleep(IDLE_DELAY);
        }
    }
}
