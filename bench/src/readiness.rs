//! Epoll behind one small type, for the backend and the load generator. Never decides what a token means.

use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// What a socket is ready for.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    pub(crate) writable: bool,
}

pub(crate) struct Readiness {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Readiness {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(512) })
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
    pub(crate) fn wait(&mut self, limit: Duration, into: &mut Vec<Ready>) -> anyhow::Result<()> {
        into.clear();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        into.extend(self.events.drain(..).map(|Event { flags, data, .. }| Ready {
            token: data.u64() as usize,
            writable: flags.contains(EventFlags::OUT),
        }));
        Ok(())
    }
}
