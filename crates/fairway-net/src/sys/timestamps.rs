//! What the kernel says of the time at which datagrams came (socket(7), `SO_TIMESTAMPNS`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The kernel says no longer when a datagram came to this socket. Other messages of the kernel about a datagram, such as its ECN bits,
/// may find no room beside it.
///
/// # Errors
/// Where the kernel does not know the option.
pub fn refuse_timestamps(socket: &impl AsFd) -> io::Result<()> {
    static OFF: libc::c_int = 0;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).expect("a few bytes");
    // SAFETY: the descriptor is open for as long as the socket is borrowed; the kernel reads `length` bytes of `OFF`, which has
    // as many.
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
