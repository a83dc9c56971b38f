//! Kernel memory of TCP sockets, as shown by `ss -m`: sock_diag(7) over netlink. Read-only.

use std::io::{self, Read};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Which end of a connection has the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// The socket's own.
    Own(u16),
    /// The peer's port.
    Other(u16),
}

const IO_TIMEOUT: Duration = Duration::from_secs(2);
const READ_BUFFER_BYTES: usize = 256 * 1024;

// linux/socket.h, linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
const AF_NETLINK: i32 = 16;
const SOCK_RAW: i32 = 3;
const NETLINK_SOCK_DIAG: i32 = 4;
const MESSAGE_HEADER: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;
const WITH_MEMORY: u8 = 1 << (SKMEMINFO - 1);
const SKMEMINFO: u16 = 7;
const SOCKET_FIXED: usize = 72;
const RMEM_ALLOC: usize = 0;
const FWD_ALLOC: usize = 4;
const WMEM_QUEUED: usize = 5;

/// Bytes that the kernel holds for IPv4 TCP sockets with `port`: unread, unsent or unacknowledged, and reserved for both.
pub(super) fn socket_memory(port: Port) -> io::Result<u64> {
    let mut socket =
        Socket::new(Domain::from(AF_NETLINK), Type::from(SOCK_RAW), Some(Protocol::from(NETLINK_SOCK_DIAG)))?;
    socket.set_read_timeout(Some(IO_TIMEOUT))?;
    // Without an address it goes to the kernel.
    socket.send(&question(port))?;
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    let mut sum = 0;
    loop {
        let length = socket.read(&mut buffer)?;
        match add_up(&buffer[..length], &mut sum)? {
            Dump::More => {}
            Dump::Over => return Ok(sum),
        }
    }
}

/// A header, then `struct inet_diag_req_v2` with all states and one port.
fn question(port: Port) -> [u8; MESSAGE_HEADER + 56] {
    let mut bytes = [0; MESSAGE_HEADER + 56];
    bytes[0..4].copy_from_slice(&((MESSAGE_HEADER + 56) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes[16..19].copy_from_slice(&[AF_INET, IPPROTO_TCP, WITH_MEMORY]);
    bytes[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
    let (at, port) = match port {
        Port::Own(port) => (24, port),
        Port::Other(port) => (26, port),
    };
    bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
    bytes
}

enum Dump {
    More,
    Over,
}

fn add_up(mut messages: &[u8], sum: &mut u64) -> io::Result<Dump> {
    while let Some(length) = u32_at(messages, 0).map(|length| length as usize) {
        let message = messages.get(MESSAGE_HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
        match u16_at(messages, 4) {
            Some(DONE) => return Ok(Dump::Over),
            Some(ERROR) => return Err(io::Error::other("the kernel does not tell of its sockets")),
            _ => *sum += memory_of(message).unwrap_or(0),
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Dump::More)
}

/// The memory of one socket; `None` if it has none any more (TIME-WAIT).
fn memory_of(socket: &[u8]) -> Option<u64> {
    let mut attributes = socket.get(SOCKET_FIXED..)?;
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == SKMEMINFO {
            let parts = [RMEM_ALLOC, FWD_ALLOC, WMEM_QUEUED];
            return parts.iter().map(|part| u32_at(value, part * 4).map(u64::from)).sum();
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn unread_bytes_are_counted_at_the_end_that_holds_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // A kernel may be built without it; floods then report no figure.
        let Ok(before) = socket_memory(Port::Own(port)) else { return };
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _server = listener.accept().unwrap();
        client.write_all(&[0; 50_000]).unwrap();
        let after = socket_memory(Port::Own(port)).unwrap();
        assert!(after >= before + 50_000, "{before} {after}");
        assert!(socket_memory(Port::Other(port)).is_ok());
    }
}
