//! The access log: formatted on the worker, written by a thread of its own.
//!
//! A worker never waits for the log. Lines gather in a buffer of the worker, which is handed over when it is full or
//! once a tick; when the writer is behind, whole buffers are dropped and counted.

#[cfg(test)]
mod tests;
mod words;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fairway_model::{Escape, GeoFields, LogFormat, Settings, Word};
use fairway_net::output::OutputSender;
use fairway_routing::ValueTests;

use crate::buffers::Buffers;
use crate::log::{Forwarded, Process, StreamLine, StreamUpstream, WallClock};
use crate::metrics::record::Record;
use crate::options::AccessLogFormat;

pub(crate) use words::Seen;

/// A buffer is handed over above this size.
const FULL: usize = 32 * 1024;

/// What [`AccessLogFormat::NginxAddresses`] has at the end.
const ADDRESSES: &str = " $the_real_ip $realip_remote_addr";

/// A worker's end of the log.
pub(crate) struct AccessLog {
    format: AccessLogFormat,
    /// The format of the flag in words; it is not used for JSON.
    built_in: Arc<LogFormat>,
    /// What the configuration wants.
    wanted: RefCell<Wanted>,
    to: OutputSender,
    lines: RefCell<Vec<u8>>,
    dropped: Cell<u64>,
    clock: RefCell<WallClock>,
    process: Process,
}

/// What the configuration wants.
struct Wanted {
    /// Whether the configuration lets the log be written.
    is_on: bool,
    /// How lines are written that are not JSON.
    words: Arc<LogFormat>,
    /// Whether lines show who sent the bytes.
    shows_sender: bool,
    /// Whether lines show what must be noted when a connection begins.
    notes_connections: bool,
    /// What lines have of databases of addresses.
    geo: GeoFields,
    /// Fields of endpoints' answers that lines have as they came.
    upstream_fields: Box<[Box<str>]>,
    /// Targets of requests that have no line.
    unlogged: ValueTests,
}

/// Numbers connections, as far as they are noted: workers share nothing else of the log, and this only once a connection.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

impl AccessLog {
    pub(crate) fn new(format: AccessLogFormat, to: OutputSender) -> Self {
        let built_in = Arc::new(built_in(format));
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_on = true;
        Self {
            format,
            wanted: RefCell::new(Wanted::new(is_on, Arc::clone(&built_in), format, ValueTests::default())),
            built_in,
            to,
            lines: RefCell::new(Vec::new()),
            dropped: Cell::new(0),
            clock: RefCell::new(WallClock::default()),
            process: Process { id: std::process::id(), hostname: hostname.trim().to_owned() },
        }
    }

    /// The configuration's word; whether the lines are JSON is the process's.
    pub(crate) fn adopt(&self, settings: &Settings) {
        let is_on = settings.access_log != Some(fairway_model::AccessLog::Off);
        let words = settings.log_format.as_ref().unwrap_or(&self.built_in);
        let unlogged = ValueTests::compiled(&settings.unlogged_targets);
        *self.wanted.borrow_mut() = Wanted::new(is_on, Arc::clone(words), self.format, unlogged);
    }

    /// Writes the line of an exchange, unless its rule or its target wants none.
    pub(crate) fn write(&self, record: &Record<'_>, buffers: &Buffers, seen: Seen<'_>) {
        let wanted = self.wanted.borrow();
        if self.format == AccessLogFormat::Off || !wanted.is_on {
            return;
        }
        if record.served_by.rule.is_some_and(|rule| rule.steps().unlogged) {
            return;
        }
        if !wanted.unlogged.is_empty() && wanted.unlogged.hold(buffers.request.target()) {
            return;
        }
        let mut clock = self.clock.borrow_mut();
        clock.set(SystemTime::now());
        let mut lines = self.lines.borrow_mut();
        let line = words::line(record, buffers, seen, &clock, &self.process);
        match self.format {
            AccessLogFormat::Nginx | AccessLogFormat::NginxAddresses => line.write(&wanted.words, &mut lines),
            AccessLogFormat::Json => line.write_json(&mut lines),
            AccessLogFormat::Off => {}
        }
        if lines.len() >= FULL {
            self.hand_over(&mut lines);
        }
    }

    /// Writes the line of a connection of `listener`, or a session of datagrams, that was forwarded as it came.
    pub(crate) fn write_stream(&self, listener: &str, seen: &StreamSeen<'_>) {
        if self.format == AccessLogFormat::Off || !self.wanted.borrow().is_on {
            return;
        }
        let mut clock = self.clock.borrow_mut();
        clock.set(SystemTime::now());
        let &StreamSeen { forwarded, client, name, upstream, status, received, sent, took, reason } = seen;
        let line = StreamLine {
            forwarded,
            client,
            listener,
            name,
            upstream,
            status,
            received,
            sent,
            took,
            reason,
            clock: &clock,
        };
        let mut lines = self.lines.borrow_mut();
        match self.format {
            AccessLogFormat::Json => line.write_json(&mut lines),
            _ => line.write(&mut lines),
        }
        if lines.len() >= FULL {
            self.hand_over(&mut lines);
        }
    }

    /// Whether lines show who sent the bytes.
    pub(crate) fn shows_sender(&self) -> bool {
        self.wanted.borrow().shows_sender
    }

    /// The number of a connection that begins, where lines show what must be noted of it.
    pub(crate) fn next_connection(&self) -> Option<u64> {
        let notes = self.wanted.borrow().notes_connections;
        notes.then(|| CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// What lines have of databases of addresses.
    #[inline]
    pub(crate) fn geo_fields(&self) -> GeoFields {
        self.wanted.borrow().geo
    }

    /// Keeps what lines show of the answer of an endpoint, before anything of it is changed.
    #[inline]
    pub(crate) fn keep_received(&self, buffers: &mut Buffers) {
        let wanted = self.wanted.borrow();
        if !wanted.upstream_fields.is_empty() {
            keep(&wanted.upstream_fields, buffers);
        }
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

/// What is known of a connection that was forwarded as it came, when it is over: as [`StreamLine`] has it.
pub(crate) struct StreamSeen<'a> {
    pub(crate) forwarded: Forwarded,
    pub(crate) client: IpAddr,
    pub(crate) name: Option<&'a str>,
    pub(crate) upstream: Option<StreamUpstream>,
    pub(crate) status: u16,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) took: Duration,
    pub(crate) reason: Option<&'a str>,
}

impl Wanted {
    fn new(is_on: bool, words: Arc<LogFormat>, format: AccessLogFormat, unlogged: ValueTests) -> Self {
        let shows_sender = match format {
            AccessLogFormat::Json => true,
            AccessLogFormat::Nginx | AccessLogFormat::NginxAddresses => words.has(Word::Sender),
            AccessLogFormat::Off => false,
        };
        let in_words = matches!(format, AccessLogFormat::Nginx | AccessLogFormat::NginxAddresses);
        let is_written = in_words && is_on;
        let notes_connections = is_written && words.has_connection();
        let upstream_fields = match is_written {
            true => words.upstream_fields().into_iter().map(Into::into).collect(),
            false => [].into(),
        };
        let geo = if is_written { words.geo_fields() } else { GeoFields::NONE };
        Self { is_on, words, shows_sender, notes_connections, geo, upstream_fields, unlogged }
    }
}

#[cold]
fn keep(names: &[Box<str>], buffers: &mut Buffers) {
    let Buffers { answer, forms, .. } = buffers;
    let received = &mut forms.write().received;
    received.clear();
    for name in names {
        answer.all_named(name.as_bytes()).for_each(|value| received.append(name.as_bytes(), value));
    }
}

/// The words of the flag.
fn built_in(format: AccessLogFormat) -> LogFormat {
    let addresses = if format == AccessLogFormat::NginxAddresses { ADDRESSES } else { "" };
    let text = [LogFormat::BUILT_IN, addresses].concat();
    LogFormat::read(&text, Escape::Nginx).expect("a test reads both").format
}
