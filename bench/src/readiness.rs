//! Epoll behind one small type, for the backend. Never decides what a token means.

use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// Events taken at a time.
const EVENTS: usize = 512;

/// What a socket is ready for.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    pub(crate) writable: bool,
}

pub(crate) struct Readiness {
    epoll: OwnedFd,
}

impl Readiness {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Level-triggered interest in reading.
    pub(crate) fn watch(&self, source: impl AsFd, token: usize) -> anyhow::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token as u64), EventFlags::IN)?)
    }

    /// Waits for room to write instead of bytes to read, or the reverse.
    pub(crate) fn await_room(&self, source: impl AsFd, token: usize, room: bool) -> anyhow::Result<()> {
        let interest = if room { EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token as u64), interest)?)
    }

    /// Fills `into` with what is ready, after at most `limit`. An interrupted wait is an empty one.
    pub(crate) fn wait(&self, limit: Duration, into: &mut Vec<Ready>) -> anyhow::Result<()> {
        into.clear();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let events = match epoll::wait(&self.epoll, &mut room[..], Some(&limit)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        into.extend(events.iter().map(|event| {
            // The fields of a packed structure are copied before they are looked at.
            let (flags, data) = (event.flags, event.data);
            Ready { token: data.u64() as usize, writable: flags.contains(EventFlags::OUT) }
        }));
        Ok(())
    }
}
