//! The access log: formatted on the worker, written by its own thread.
//!
//! A worker never waits for the log. Lines collect in a buffer that is handed over when full or once per tick;
//! when the writer falls behind, whole buffers are dropped and counted.

mod log_values;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fairway_model::{GeoFields, LogEscape, LogFormat, Settings, Word};
use fairway_net::output::OutputSender;
use fairway_routing::ValueTests;

use crate::buffers::Buffers;
use crate::log::{Forwarded, ProcessInfo, StreamLine, StreamUpstream, WallClock};
use crate::metrics::record::ExchangeRecord;
use crate::options::AccessLogFormat;

pub(crate) use log_values::LoggedPeer;

/// A buffer is handed over above this size.
const FLUSH_BYTES: usize = 32 * 1024;

/// The fields [`AccessLogFormat::NginxAddresses`] appends.
const ADDRESS_FIELDS: &str = " $the_real_ip $realip_remote_addr";

/// The access log of one worker.
pub(crate) struct AccessLog {
    format: AccessLogFormat,
    /// The format selected by the flag; unused for JSON.
    default_format: Arc<LogFormat>,
    /// Settings of the configuration.
    settings: RefCell<LogSettings>,
    output: OutputSender,
    lines: RefCell<Vec<u8>>,
    dropped: Cell<u64>,
    clock: RefCell<WallClock>,
    process: ProcessInfo,
}

/// Log settings of the configuration.
struct LogSettings {
    /// Whether the log is enabled.
    is_on: bool,
    /// Format of lines other than JSON.
    line_format: Arc<LogFormat>,
    /// Whether lines contain the sender's address.
    shows_sender: bool,
    /// Whether lines contain details that must be collected when a connection starts.
    logs_connections: bool,
    /// GeoIP fields used by lines.
    geo: GeoFields,
    /// Upstream response headers used by lines.
    upstream_headers: Box<[Box<str>]>,
    /// Request targets that are not logged.
    unlogged_targets: ValueTests,
}

/// Number of the last connection with collected details: the only state of the log that workers share, touched
/// once per connection.
static LAST_CONNECTION_NUMBER: AtomicU64 = AtomicU64::new(0);

impl AccessLog {
    pub(crate) fn new(format: AccessLogFormat, output: OutputSender) -> Self {
        let default_format = Arc::new(default_format(format));
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_on = true;
        Self {
            format,
            settings: RefCell::new(LogSettings::new(
                is_on,
                Arc::clone(&default_format),
                format,
                ValueTests::default(),
            )),
            default_format,
            output,
            lines: RefCell::new(Vec::new()),
            dropped: Cell::new(0),
            clock: RefCell::new(WallClock::default()),
            process: ProcessInfo { id: std::process::id(), hostname: hostname.trim().to_owned() },
        }
    }

    /// Applies the configuration; whether lines are JSON is up to the process.
    pub(crate) fn adopt(&self, settings: &Settings) {
        let is_on = settings.access_log != Some(fairway_model::AccessLog::Off);
        let words = settings.log_format.as_ref().unwrap_or(&self.default_format);
        let unlogged = ValueTests::compiled(&settings.unlogged_targets);
        *self.settings.borrow_mut() = LogSettings::new(is_on, Arc::clone(words), self.format, unlogged);
    }

    /// Writes the line of an exchange, unless its rule or target disables logging.
    pub(crate) fn write(&self, record: &ExchangeRecord<'_>, buffers: &Buffers, peer: LoggedPeer<'_>) {
        let settings = self.settings.borrow();
        if self.format == AccessLogFormat::Off || !settings.is_on {
            return;
        }
        if record.served_by.rule.is_some_and(|rule| rule.steps().unlogged) {
            return;
        }
        if !settings.unlogged_targets.is_empty() && settings.unlogged_targets.hold(buffers.request.target()) {
            return;
        }
        let mut clock = self.clock.borrow_mut();
        clock.set(SystemTime::now());
        let mut lines = self.lines.borrow_mut();
        let line = log_values::build_line(record, buffers, peer, &clock, &self.process);
        match self.format {
            AccessLogFormat::Nginx | AccessLogFormat::NginxAddresses => {
                line.write(&settings.line_format, &mut lines);
            }
            AccessLogFormat::Json => line.write_json(&mut lines),
            AccessLogFormat::Off => {}
        }
        if lines.len() >= FLUSH_BYTES {
            self.hand_over(&mut lines);
        }
    }

    /// Writes the line of a forwarded connection or datagram session of `listener`.
    pub(crate) fn write_stream(&self, listener: &str, entry: &StreamLogEntry<'_>) {
        if self.format == AccessLogFormat::Off || !self.settings.borrow().is_on {
            return;
        }
        let mut clock = self.clock.borrow_mut();
        clock.set(SystemTime::now());
        let &StreamLogEntry { forwarded, client, name, upstream, status, received, sent, duration, reason } =
            entry;
        let line = StreamLine {
            forwarded,
            client,
            listener,
            name,
            upstream,
            status,
            received,
            sent,
            duration,
            reason,
            clock: &clock,
        };
        let mut lines = self.lines.borrow_mut();
        match self.format {
            AccessLogFormat::Json => line.write_json(&mut lines),
            _ => line.write(&mut lines),
        }
        if lines.len() >= FLUSH_BYTES {
            self.hand_over(&mut lines);
        }
    }

    /// Whether lines contain the sender's address.
    pub(crate) fn logs_sender(&self) -> bool {
        self.settings.borrow().shows_sender
    }

    /// The number of a new connection, if its details are needed.
    pub(crate) fn next_connection(&self) -> Option<u64> {
        let notes = self.settings.borrow().logs_connections;
        notes.then(|| LAST_CONNECTION_NUMBER.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// GeoIP fields used by lines.
    #[inline]
    pub(crate) fn geo_fields(&self) -> GeoFields {
        self.settings.borrow().geo
    }

    /// Keeps the upstream response headers used by lines, before anything is changed.
    #[inline]
    pub(crate) fn keep_received(&self, buffers: &mut Buffers) {
        let settings = self.settings.borrow();
        if !settings.upstream_headers.is_empty() {
            keep_received_headers(&settings.upstream_headers, buffers);
        }
    }

    /// Hands over buffered lines.
    pub(crate) fn flush(&self) {
        let mut lines = self.lines.borrow_mut();
        if !lines.is_empty() {
            self.hand_over(&mut lines);
        }
    }

    /// Lines dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    fn hand_over(&self, lines: &mut Vec<u8>) {
        let full = std::mem::replace(lines, Vec::with_capacity(FLUSH_BYTES + FLUSH_BYTES / 8));
        if let Err(refused) = self.output.send(full) {
            let count = memchr::memchr_iter(b'\n', &refused).count() as u64;
            self.dropped.set(self.dropped.get() + count);
        }
    }
}

/// A finished forwarded connection, as in [`StreamLine`].
pub(crate) struct StreamLogEntry<'a> {
    pub(crate) forwarded: Forwarded,
    pub(crate) client: IpAddr,
    pub(crate) name: Option<&'a str>,
    pub(crate) upstream: Option<StreamUpstream>,
    pub(crate) status: u16,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) duration: Duration,
    pub(crate) reason: Option<&'a str>,
}

impl LogSettings {
    fn new(
        is_on: bool,
        line_format: Arc<LogFormat>,
        format: AccessLogFormat,
        unlogged_targets: ValueTests,
    ) -> Self {
        let shows_sender = match format {
            AccessLogFormat::Json => true,
            AccessLogFormat::Nginx | AccessLogFormat::NginxAddresses => line_format.has(Word::Sender),
            AccessLogFormat::Off => false,
        };
        let in_words = matches!(format, AccessLogFormat::Nginx | AccessLogFormat::NginxAddresses);
        let is_written = in_words && is_on;
        let logs_connections = is_written && line_format.uses_connection_values();
        let upstream_headers = match is_written {
            true => line_format.upstream_headers().into_iter().map(Into::into).collect(),
            false => [].into(),
        };
        let geo = if is_written { line_format.geo_fields() } else { GeoFields::NONE };
        Self { is_on, line_format, shows_sender, logs_connections, geo, upstream_headers, unlogged_targets }
    }
}

#[cold]
fn keep_received_headers(names: &[Box<str>], buffers: &mut Buffers) {
    let Buffers { response, extras: forms, .. } = buffers;
    let received = &mut forms.write().received;
    received.clear();
    for name in names {
        response.all_named(name.as_bytes()).for_each(|value| received.append(name.as_bytes(), value));
    }
}

/// The format selected by the flag.
fn default_format(format: AccessLogFormat) -> LogFormat {
    let addresses = if format == AccessLogFormat::NginxAddresses { ADDRESS_FIELDS } else { "" };
    let text = [LogFormat::BUILT_IN, addresses].concat();
    LogFormat::read(&text, LogEscape::Nginx).expect("a test reads both").format
}
