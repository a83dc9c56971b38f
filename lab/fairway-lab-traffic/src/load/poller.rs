//! Waits for sockets: one epoll per thread, with a timerfd because epoll's own timeout counts in milliseconds and requests
//! are due in between. Tokens are opaque.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Events returned by one wait.
const MAX_EVENTS: usize = 512;
/// The longest sleep, so that stop orders and timeouts are noticed.
const MAX_SLEEP_NANOS: u64 = 20_000_000;
/// The token of the timer.
const TIMER: u64 = u64::MAX;

/// The readiness to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// Readable or closed.
    Read,
    /// Readable, writable or closed.
    ReadAndWrite,
}

/// What happened to a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketEvent {
    pub(super) token: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

/// An epoll instance and its timer.
pub(super) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    events: Box<[MaybeUninit<Event>]>,
    /// The timer has expired and must be reset, or every wait would return at once.
    is_due: bool,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        Ok(Self {
            epoll,
            timer,
            events: vec![MaybeUninit::uninit(); MAX_EVENTS].into_boxed_slice(),
            is_due: false,
        })
    }

    pub(super) fn add(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags(interest))?)
    }

    pub(super) fn change(&self, socket: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags(interest))?)
    }

    /// Waits for an event or `nanos`, at most 20 ms, and appends events to `happened`.
    pub(super) fn wait(&mut self, nanos: Option<u64>, happened: &mut Vec<SocketEvent>) -> io::Result<()> {
        let longest = match nanos {
            Some(0) => 0,
            Some(nanos) if nanos < MAX_SLEEP_NANOS => {
                self.set(nanos)?;
                MAX_SLEEP_NANOS
            }
            _ if self.is_due => {
                self.set(MAX_SLEEP_NANOS)?;
                MAX_SLEEP_NANOS
            }
            _ => MAX_SLEEP_NANOS,
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: longest as i64 };
        let events = match epoll::wait(&self.epoll, &mut self.events[..], Some(&timeout)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (flags, data) = (event.flags, event.data);
            if data.u64() == TIMER {
                self.is_due = true;
                continue;
            }
            happened.push(SocketEvent {
                token: data.u64(),
                readable: flags
                    .intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP),
                writable: flags.contains(EventFlags::OUT),
            });
        }
        Ok(())
    }

    /// Sets the timer; this also clears an unread expiry.
    fn set(&mut self, nanos: u64) -> io::Result<()> {
        self.is_due = false;
        let value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: never, it_value: value },
        )?;
        Ok(())
    }
}

fn flags(interest: Interest) -> EventFlags {
    match interest {
        Interest::Read => EventFlags::IN | EventFlags::RDHUP,
        Interest::ReadAndWrite => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
    }
}
