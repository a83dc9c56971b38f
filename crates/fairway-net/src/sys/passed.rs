//! Descriptors that the process was started with.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes ownership of the descriptors from number `first` on, once in the life of the process. Call it before anything
/// else in the process can open a descriptor with these numbers: whoever passes descriptors leaves none of these
/// numbers free.
///
/// # Errors
/// One of them is not open, or they were taken before.
pub(crate) fn take_passed(first: RawFd, count: u16) -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(io::Error::other("the descriptors were taken before"));
    }
    let mut sockets = Vec::new();
    for number in first..first + RawFd::from(count) {
        // SAFETY: the call takes only numbers; it fails if the descriptor is not open.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open. It was passed to the process as a whole and is taken once: nothing else owns
        // it.
        sockets.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(sockets)
}
