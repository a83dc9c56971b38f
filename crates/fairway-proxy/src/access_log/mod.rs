//! The access log: formatted on the worker, written by a thread of its own.
//!
//! A worker never waits for the log. Lines gather in a buffer of the worker, which is handed over when it is full or
//! once a tick; when the writer is behind, whole buffers are dropped and counted.

mod json;
mod nginx;
#[cfg(test)]
mod tests;
mod words;
mod writer;

use std::cell::{Cell, RefCell};
use std::time::SystemTime;

use fairway_routing::Logging;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::buffers::Buffers;
use crate::options::AccessLogFormat;
use crate::peer::Peer;
use crate::record::Record;

pub(crate) use writer::{LogSender, LogThread};

/// A buffer is handed over above this size.
const FULL: usize = 32 * 1024;

/// A worker's end of the log.
pub(crate) struct AccessLog {
    format: AccessLogFormat,
    switched: Cell<Switch>,
    to: LogSender,
    lines: RefCell<Vec<u8>>,
    dropped: Cell<u64>,
    clock: RefCell<WallClock>,
}

/// Whether the configuration lets the log be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

/// The time as logs write it, formatted once a second.
struct WallClock {
    second: i64,
    nginx: String,
    iso: String,
}

impl AccessLog {
    pub(crate) fn new(format: AccessLogFormat, to: LogSender) -> Self {
        Self {
            format,
            switched: Cell::new(Switch::On),
            to,
            lines: RefCell::new(Vec::new()),
            dropped: Cell::new(0),
            clock: RefCell::new(WallClock { second: i64::MIN, nginx: String::new(), iso: String::new() }),
        }
    }

    /// The configuration's word; the format is the process's.
    pub(crate) fn switch(&self, to: Switch) {
        self.switched.set(to);
    }

    /// Writes the line of an exchange, unless its rule wants none.
    pub(crate) fn write(&self, record: &Record<'_>, buffers: &Buffers, peer: &Peer) {
        if self.format == AccessLogFormat::Off || self.switched.get() == Switch::Off {
            return;
        }
        if record.rule.is_some_and(|rule| rule.steps().log == Logging::Nothing) {
            return;
        }
        let mut clock = self.clock.borrow_mut();
        clock.update();
        let mut lines = self.lines.borrow_mut();
        match self.format {
            AccessLogFormat::Nginx => nginx::line(&mut lines, record, buffers, (peer, &clock.nginx)),
            AccessLogFormat::NginxAddresses => {
                nginx::line_with_addresses(&mut lines, record, buffers, (peer, &clock.nginx));
            }
            AccessLogFormat::Json => json::line(&mut lines, record, buffers, &clock.iso),
            AccessLogFormat::Off => {}
        }
        if lines.len() >= FULL {
            self.hand_over(&mut lines);
        }
    }

    /// Whether lines show who sent the bytes.
    pub(crate) fn shows_sender(&self) -> bool {
        matches!(self.format, AccessLogFormat::NginxAddresses | AccessLogFormat::Json)
    }

    /// Hands over what has gathered.
    pub(crate) fn flush(&self) {
        let mut lines = self.lines.borrow_mut();
        if !lines.is_empty() {
            self.hand_over(&mut lines);
        }
    }

    /// Lines that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    fn hand_over(&self, lines: &mut Vec<u8>) {
        let full = std::mem::replace(lines, Vec::with_capacity(FULL + FULL / 8));
        if let Err(refused) = self.to.send(full) {
            let count = memchr::memchr_iter(b'\n', &refused).count() as u64;
            self.dropped.set(self.dropped.get() + count);
        }
    }
}

impl WallClock {
    fn update(&mut self) {
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
        if now.as_second() == self.second {
            return;
        }
        self.second = now.as_second();
        let utc = now.to_zoned(TimeZone::UTC);
        self.nginx = utc.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
        self.iso = utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
}
