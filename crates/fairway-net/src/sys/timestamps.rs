//! Receive timestamps of datagrams (socket(7), `SO_TIMESTAMPNS`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Disables receive timestamps on this socket. They could take the space of other control messages, such as the ECN
/// bits of a datagram.
///
/// # Errors
/// The kernel does not support the option.
pub fn refuse_timestamps(socket: &impl AsFd) -> io::Result<()> {
    static OFF: libc::c_int = 0;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).expect("a few bytes");
    // SAFETY: the descriptor is open while the socket is borrowed; the kernel reads `length` bytes of the static, which
    // has as many.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const OFF).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
