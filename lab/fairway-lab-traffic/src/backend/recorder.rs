//! Sends ids to a collector in the background, so that requests do not wait: a write every 50 ms, and at once when the
//! collector asks. [`Collector`](super::Collector) documents the protocol.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;

/// Maximum number of bytes buffered for the collector; further ids count as lost.
const BACKLOG: usize = 32 * 1024 * 1024;
const EVERY: Duration = Duration::from_millis(50);
/// For a connection, and for a write.
const IO_TIMEOUT: Duration = Duration::from_secs(1);

/// Reports to a collector.
pub(super) struct Recorder {
    ids: Arc<Ids>,
    thread: JoinHandle<()>,
}

/// Ids to report.
#[derive(Default)]
pub(super) struct Ids {
    waiting: Mutex<Waiting>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    count: u64,
    lost: u64,
}

impl Recorder {
    /// Starts; the collector may start later.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let ids = Arc::<Ids>::default();
        let stored = ids.clone();
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || stored.report_until_end(address))
            .context("start the recorder")?;
        Ok(Self { ids, thread })
    }

    /// The buffer for ids.
    pub(super) fn ids(&self) -> Arc<Ids> {
        self.ids.clone()
    }

    /// Reports buffered ids and stops.
    pub(super) fn finish(self) {
        self.ids.is_over.store(true, Ordering::Release);
        if self.thread.join().is_err() {
            tracing::error!("the recorder panicked");
        }
        let lost = self.ids.waiting().lost;
        if lost > 0 {
            tracing::warn!("{lost} ids did not reach the collector");
        }
    }
}

impl Ids {
    /// Adds an id.
    pub(super) fn record_id(&self, id: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.lines.len() > BACKLOG {
            waiting.lost += 1;
            return;
        }
        waiting.lines.extend_from_slice(b"i ");
        waiting.lines.extend_from_slice(id);
        waiting.lines.push(b'\n');
        waiting.count += 1;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports ids until stopped.
    fn report_until_end(&self, address: SocketAddr) {
        // Identifies this backend to the collector after a reconnect.
        let token = fastrand::u64(..);
        let (mut told, mut wire, mut has_complained) = (0, None, false);
        loop {
            // Later ids are reported in the next round.
            let is_over = self.is_over.load(Ordering::Acquire);
            let (lines, count) = {
                let mut waiting = self.waiting();
                (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.count))
            };
            let open = wire.take().map_or_else(|| Wire::open(address, token, told), Ok);
            match open.and_then(|wire| wire.send_lines(&lines)) {
                Ok(open) => {
                    told += count;
                    wire = if is_over { None } else { open.listen() };
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_complained, true) {
                        tracing::warn!("the collector {address} cannot be told of ids: {error}; trying on");
                    }
                    let mut waiting = self.waiting();
                    let newer = std::mem::replace(&mut waiting.lines, lines);
                    waiting.lines.extend_from_slice(&newer);
                    waiting.count += count;
                }
            }
            if is_over {
                return;
            }
            if wire.is_none() {
                std::thread::sleep(EVERY);
            }
        }
    }
}

/// A connection to the collector.
struct Wire {
    stream: TcpStream,
    /// The number of requests of the collector, and of responses.
    requested: u64,
    heeded: u64,
}

impl Wire {
    fn open(address: SocketAddr, token: u64, reported: u64) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        stream.set_read_timeout(Some(EVERY))?;
        stream.write_all(format!("b {token:x} {reported}\n").as_bytes())?;
        Ok(Self { stream, requested: 0, heeded: 0 })
    }

    /// Writes ids and the number of answered requests.
    fn send_lines(mut self, lines: &[u8]) -> io::Result<Self> {
        self.stream.write_all(lines)?;
        if self.heeded < self.requested {
            self.stream.write_all(format!("m {}\n", self.requested).as_bytes())?;
            self.heeded = self.requested;
        }
        Ok(self)
    }

    /// Reads from the collector for a while; `None` when it is gone.
    fn listen(mut self) -> Option<Self> {
        match self.stream.read(&mut [0; 64]) {
            Ok(0) => return None,
            Ok(count) => self.requested += count as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return None,
        }
        Some(self)
    }
}
