//! A timer that a poller can wait for, exact to microseconds: epoll and tokio count their time-outs in milliseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timerfd on the monotonic clock; readable from the moment that it expires until it is set or cleared.
pub(crate) struct Timer(OwnedFd);

impl Timer {
    /// One that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Lets it expire in so many nanoseconds, at least one; that also takes back an expiry that nobody read.
    pub(crate) fn set(&self, nanos: u64) -> io::Result<()> {
        let nanos = nanos.max(1);
        let value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Takes back an expiry, if there was one.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match rustix::io::read(&self.0, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
