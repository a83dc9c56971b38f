//! The process at the other end of a Unix socket (unix(7), `SO_PEERCRED`).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// A process, as it was when it connected or started to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerProcess {
    /// 0 if it is in another PID namespace, for which rustix has no value.
    pub(crate) id: i32,
    pub(crate) user: u32,
}

/// The process at the other end of a connected socket.
///
/// # Errors
/// The socket is not connected, or not a Unix socket.
pub(crate) fn peer_process(socket: &impl AsFd) -> io::Result<PeerProcess> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).expect("a few bytes");
    let size = length;
    // SAFETY: the descriptor is open while the socket is borrowed; `peer` has room for `length` bytes, of which the
    // kernel writes at most that many, and any bytes are a valid `ucred`: it has only integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match result {
        // For a TCP socket, the kernel reports no process.
        0 if length == size && peer.uid != u32::MAX => Ok(PeerProcess { id: peer.pid, user: peer.uid }),
        0 => Err(io::ErrorKind::InvalidInput.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_kernel_identifies_the_peer_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(peer_process(&one).unwrap(), PeerProcess { id: own_pid, user });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(peer_process(&listener).is_err());
    }
}
