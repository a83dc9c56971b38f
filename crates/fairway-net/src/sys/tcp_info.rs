//! The kernel's state of a TCP connection (tcp(7), `TCP_INFO`).

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// A peer with a closed window is probed repeatedly; the first probe may still be in flight.
const ON_ITS_WAY: u8 = 1;

/// If the peer has not acknowledged sent segments, or does not even confirm that its window is closed: how long nothing
/// was received from it. If the state cannot be read, everything counts as acknowledged: then only the kernel's
/// timeouts detect that the peer is gone.
pub(crate) fn owes_acknowledgement(socket: BorrowedFd<'_>) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).expect("a few hundred bytes");
    // SAFETY: the descriptor is open while it is borrowed; `info` has room for `length` bytes, of which the kernel
    // writes at most that many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: all bytes were zeroed before, which is a valid `tcp_info`: it has only integers.
    let info = unsafe { info.assume_init() };
    let owes = result == 0 && (info.tcpi_unacked > 0 || info.tcpi_probes > ON_ITS_WAY);
    owes.then(|| Duration::from_millis(u64::from(info.tcpi_last_ack_recv)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use socket2::{SockFilter, SockRef};

    use super::*;

    /// Drops every arriving segment before TCP sees it.
    const DROP_ALL: [SockFilter; 1] = [SockFilter::new(6, 0, 0, 0)];

    #[test]
    fn acknowledged_data_is_not_awaited_and_other_data_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        ours.write_all(b"a").unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        // A response acknowledges the request.
        theirs.write_all(b"b").unwrap();
        ours.read_exact(&mut [0]).unwrap();
        assert_eq!(owes_acknowledgement(ours.as_fd()), None);
        SockRef::from(&theirs).attach_filter(&DROP_ALL).unwrap();
        ours.write_all(b"c").unwrap();
        assert!(owes_acknowledgement(ours.as_fd()).is_some());
    }
}
