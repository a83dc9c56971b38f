//! Kernel memory in this process's socket buffers: received data not read yet, and sent data not acknowledged yet. Slow
//! readers make a process hold memory there.
//!
//! The sockets are queried over netlink (sock_diag(7)), which needs no privileges. That costs about a microsecond per
//! socket, so `/proc/net/sockstat` is read first: it covers the whole machine, so it is never too low.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::file::KernelFile;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_NETLINK: i32 = 16;
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IPPROTO_TCP: u8 = 6;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`: dump all sockets.
const DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The attribute with the memory values: its bit in a request and its type in a response.
const INET_DIAG_SKMEMINFO: u16 = 7;
/// Every state (tcp_states.h) except listening sockets and those that no process owns.
const STATES: u32 = !((1 << 6) | (1 << 10) | (1 << 12));
/// Sizes of `struct nlmsghdr` and `struct inet_diag_msg`.
const HEADER: usize = 16;
const ENTRY: usize = 72;

/// A dump may take this fraction of one CPU's time: one part in this many.
const SHARE: u32 = 20;

/// Queries the kernel.
pub(super) struct SocketMemory {
    machine: KernelFile,
    page: u64,
    diagnosis: Option<Socket>,
    last: Option<Dump>,
}

/// The latest dump.
struct Dump {
    bytes: u64,
    /// When the next dump is allowed.
    next: Instant,
}

impl SocketMemory {
    /// `None` if the kernel does not report it.
    pub(super) fn open() -> Option<Self> {
        let machine = KernelFile::open(Path::new("/proc/net/sockstat"))?;
        let netlink = Protocol::from(NETLINK_SOCK_DIAG);
        let diagnosis = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, Some(netlink)).ok();
        let diagnosis = diagnosis.filter(|it| it.set_read_timeout(Some(Duration::from_secs(1))).is_ok());
        if diagnosis.is_none() {
            tracing::warn!(
                target: "fairway_proxy::memory::sockets",
                "the kernel does not report socket memory: it is not counted in the memory budget"
            );
        }
        Some(Self { machine, page: page_size(), diagnosis, last: None })
    }

    /// Memory of all sockets on the machine: never less than that of this process.
    pub(super) fn at_most(&self) -> u64 {
        let Some(text) = self.machine.read().filter(|_| self.diagnosis.is_some()) else { return 0 };
        let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
        let mut words = line.split_whitespace().skip_while(|word| *word != "mem").skip(1);
        words.next().and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * self.page
    }

    /// Memory of this process's sockets; an expensive result is reused for some time.
    pub(super) fn own_usage(&mut self, now: Instant) -> u64 {
        if let Some(last) = &self.last
            && now < last.next
        {
            return last.bytes;
        }
        let began = Instant::now();
        // If it cannot be measured it counts as zero: a guess could stop the proxy for no reason.
        let bytes = self.measure().unwrap_or(0);
        self.last = Some(Dump { bytes, next: now + began.elapsed() * SHARE });
        bytes
    }

    fn measure(&mut self) -> Option<u64> {
        let own = own_sockets()?;
        let diagnosis = self.diagnosis.as_mut()?;
        let mut bytes = 0;
        for family in [AF_INET, AF_INET6] {
            diagnosis.write_all(&request(family)).ok()?;
            read_all(diagnosis, |inode, memory| {
                if own.contains(&inode) {
                    bytes += memory;
                }
            })?;
        }
        Some(bytes)
    }
}

/// The inodes of this process's sockets: other processes may share its network namespace.
fn own_sockets() -> Option<HashSet<u32>> {
    let descriptors = fs::read_dir("/proc/self/fd").ok()?;
    let socket = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(descriptors.filter_map(Result::ok).filter_map(socket).collect())
}

/// `struct nlmsghdr`, then `struct inet_diag_req_v2`.
fn request(family: u8) -> [u8; HEADER + 56] {
    let mut bytes = [0; HEADER + 56];
    bytes[0..4].copy_from_slice(&(HEADER as u32 + 56).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    bytes[HEADER..HEADER + 3].copy_from_slice(&[family, IPPROTO_TCP, 1 << (INET_DIAG_SKMEMINFO - 1)]);
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}

/// Reads the complete answer to one request; calls `each` with the inode and memory of each socket.
fn read_all(from: &mut impl Read, mut each: impl FnMut(u32, u64)) -> Option<()> {
    let mut datagram = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut datagram).ok().filter(|count| *count > 0)?;
        let mut rest = &datagram[..count];
        while let Some(length) = u32_at(rest, 0).map(|length| length as usize) {
            let message = rest.get(..length).filter(|message| message.len() >= HEADER)?;
            match u16::from_ne_bytes([message[4], message[5]]) {
                NLMSG_DONE => return Some(()),
                NLMSG_ERROR => return None,
                _ => {
                    if let Some((inode, memory)) = entry(message) {
                        each(inode, memory);
                    }
                }
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// The inode of a socket and the bytes in its buffers.
fn entry(message: &[u8]) -> Option<(u32, u64)> {
    let inode = u32_at(message, HEADER + ENTRY - 4)?;
    let mut attributes = message.get(HEADER + ENTRY..)?;
    while let Some(head) = u32_at(attributes, 0) {
        let head = head.to_ne_bytes();
        let (length, kind) = (u16::from_ne_bytes([head[0], head[1]]), u16::from_ne_bytes([head[2], head[3]]));
        if kind == INET_DIAG_SKMEMINFO {
            // Received, reserved, queued to be sent, options, backlog (SK_MEMINFO_VARS).
            let figures = [0, 4, 5, 6, 7].map(|index| u32_at(attributes, 4 + 4 * index).unwrap_or(0));
            return Some((inode, figures.iter().map(|figure| u64::from(*figure)).sum()));
        }
        attributes = attributes.get(usize::from(length).max(4).next_multiple_of(4)..)?;
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// The page size, as the kernel reports it for the first mapping of this process.
fn page_size() -> u64 {
    let text =
        KernelFile::open(Path::new("/proc/self/smaps")).and_then(|maps| maps.read()).unwrap_or_default();
    super::file::field(&text, "KernelPageSize:").map_or(4096, |kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn unread_data_is_counted_until_the_socket_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        let mut sockets = SocketMemory::open().expect("the kernel reports it");
        let before = sockets.measure().expect("the kernel reports it");
        writer.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(count) = writer.write(&[0; 64 * 1024]) {
            written += count as u64;
        }
        let grown = sockets.measure().unwrap() - before;
        assert!(grown >= written, "{grown} bytes are held of {written} that were written");
        drop((writer, reader));
        // Other tests of this process have sockets too, but none holds as much.
        assert!(sockets.measure().unwrap() < before + written);
    }

    #[test]
    fn an_incomplete_reply_gives_no_figure() {
        let mut reads = 0;
        assert!(read_all(&mut &[20_u8, 0, 0, 0, 20, 0][..], |_, _| reads += 1).is_none());
        assert!(read_all(&mut &[][..], |_, _| reads += 1).is_none());
        assert_eq!(reads, 0);
    }
}
