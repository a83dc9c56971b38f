//! Collects the ids of requests that backends with `--record` receive, in one register for all pods, deleted ones
//! included.
//!
//! Backends connect over TCP and send lines:
//!
//! * `b TOKEN NUMBER`, the first line, identifies the backend and numbers its next id, so that the collector can
//!   ignore ids that the backend sends again on a new connection.
//! * `i ID` is the id of a request that the backend received.
//! * `m COUNT` is the number of report requests that the backend has fulfilled.
//!
//! The collector requests a report with a single byte: the backend then sends all ids that it has received so far,
//! followed by `m COUNT` ([`Collector::wait_until_settled`]).

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::register::{ReceivedTotals, Register};

/// A running collector, until [`Collector::stop`].
pub struct Collector {
    address: SocketAddr,
    shared: Arc<CollectorShared>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct CollectorShared {
    state: Mutex<CollectorState>,
    /// Notified when a backend reports or disconnects.
    changed: Condvar,
}

#[derive(Default)]
struct CollectorState {
    register: Register,
    /// The number of the next new id from each backend, by token.
    next_numbers: HashMap<String, u64>,
    /// The connected backends, by the number of their connection.
    backends: HashMap<u64, Backend>,
    /// All connections so far.
    connection_count: u64,
}

struct Backend {
    /// The connection, for requesting reports.
    stream: TcpStream,
    requested_reports: u64,
    fulfilled_reports: u64,
}

impl Collector {
    /// Starts listening on an address; port 0 chooses a free port.
    ///
    /// # Errors
    /// The collector cannot listen on the address, or its thread cannot be started.
    pub fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("listen for ids on {address}"))?;
        let address = listener.local_addr().context("the address of the collector")?;
        let (shared, is_stopped) = (Arc::<CollectorShared>::default(), Arc::new(AtomicBool::new(false)));
        let (thread_shared, thread_is_stopped) = (shared.clone(), is_stopped.clone());
        std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || accept(&listener, &thread_shared, &thread_is_stopped))
            .context("start the collector")?;
        Ok(Self { address, shared, is_stopped })
    }

    /// The address that backends connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The totals of all requests that backends have reported so far.
    #[must_use]
    pub fn totals(&self) -> ReceivedTotals {
        self.shared.lock_state().register.totals()
    }

    /// The number of connected backends.
    #[must_use]
    pub fn backends(&self) -> usize {
        self.shared.lock_state().backends.len()
    }

    /// Requests a report from every backend and waits for all of them. A backend that disconnects meanwhile counts as
    /// settled, because it reports its last ids first; a backend that misses the deadline is not awaited again.
    ///
    /// # Errors
    /// A backend did not report in time, so that its last requests are unknown, or no backend has ever connected.
    pub fn wait_until_settled(&self, timeout: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.lock_state();
        anyhow::ensure!(
            state.connection_count > 0,
            "no backend has reached the collector at {}; is that an address that pods reach?",
            self.address
        );
        let awaited: Vec<_> =
            state.backends.iter_mut().map(|(number, backend)| (*number, backend.request_report())).collect();
        loop {
            let is_silent = |(number, awaited_count): &&(u64, u64)| {
                let backend = state.backends.get(number);
                backend.is_some_and(|backend| backend.fulfilled_reports < *awaited_count)
            };
            let silent: Vec<_> = awaited.iter().filter(is_silent).map(|(number, _)| *number).collect();
            if silent.is_empty() {
                return Ok(());
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                state.backends.retain(|number, _| !silent.contains(number));
                anyhow::bail!(
                    "backends did not tell within {} s which requests they were given last: {} of them",
                    timeout.as_secs(),
                    silent.len()
                );
            }
            let waited = self.shared.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Calls `read` with the register. The register stays locked meanwhile, so that no backend can report.
    pub fn with_register<T>(&self, read: impl FnOnce(&Register) -> T) -> T {
        read(&self.shared.lock_state().register)
    }

    /// Forgets the ids of finished streams.
    pub fn forget(&self) {
        self.shared.lock_state().register.forget();
    }

    /// Stops accepting backends; connected ones continue.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // A connection wakes the accepting thread. If connecting fails, the thread has already ended.
        _ = TcpStream::connect(self.address);
    }
}

impl CollectorShared {
    fn lock_state(&self) -> MutexGuard<'_, CollectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_connection(&self, stream: TcpStream) -> u64 {
        let mut state = self.lock_state();
        state.connection_count += 1;
        let number = state.connection_count;
        state.backends.insert(number, Backend { stream, requested_reports: 0, fulfilled_reports: 0 });
        number
    }

    fn remove_connection(&self, number: u64) {
        self.lock_state().backends.remove(&number);
        self.changed.notify_all();
    }

    fn record_fulfilled_reports(&self, number: u64, count: u64) {
        if let Some(backend) = self.lock_state().backends.get_mut(&number) {
            backend.fulfilled_reports = count;
        }
        self.changed.notify_all();
    }
}

impl Backend {
    /// Requests a report; returns how many reports must then be fulfilled.
    fn request_report(&mut self) -> u64 {
        // If the backend has disconnected, the thread that reads from it removes it.
        if self.stream.write_all(b"?").is_ok() {
            self.requested_reports += 1;
        }
        self.requested_reports
    }
}

fn accept(listener: &TcpListener, shared: &Arc<CollectorShared>, is_stopped: &AtomicBool) {
    for backend in listener.incoming() {
        if is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(backend) = backend else { continue };
        let shared = shared.clone();
        let spawned = std::thread::Builder::new().name("ids".to_owned()).spawn(move || {
            if let Err(error) = receive_reports(backend, &shared) {
                tracing::warn!("ids of a backend are lost: {error}");
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("ids of a backend are lost: {error}");
        }
    }
}

fn receive_reports(backend: TcpStream, shared: &CollectorShared) -> io::Result<()> {
    let number = shared.add_connection(backend.try_clone()?);
    let result = read_lines(backend, shared, number);
    shared.remove_connection(number);
    result
}

fn read_lines(backend: TcpStream, shared: &CollectorShared, number: u64) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 * 1024, backend);
    let mut line = Vec::new();
    let mut source = IdSource::default();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // The last line is incomplete if its backend was killed while writing.
        let Some(complete) = line.strip_suffix(b"\n") else { return Ok(()) };
        match complete.split_at_checked(2) {
            Some((b"i ", id)) => source.record_id(&mut shared.lock_state(), id),
            Some((b"b ", start)) => source = IdSource::parse(start).unwrap_or_default(),
            Some((b"m ", count)) => {
                shared.record_fulfilled_reports(number, parse_decimal(count).unwrap_or_default());
            }
            _ => tracing::warn!("a backend sent an invalid line: {:?}", String::from_utf8_lossy(complete)),
        }
    }
}

/// The token of the backend on a connection, and the number of the next id on it.
#[derive(Default)]
struct IdSource {
    token: String,
    next_number: u64,
}

impl IdSource {
    fn parse(start: &[u8]) -> Option<Self> {
        let (token, number) = std::str::from_utf8(start).ok()?.split_once(' ')?;
        Some(Self { token: token.to_owned(), next_number: number.parse().ok()? })
    }

    fn record_id(&mut self, state: &mut CollectorState, id: &[u8]) {
        let number = self.next_number;
        self.next_number += 1;
        match state.next_numbers.get_mut(&self.token) {
            // The backend has already sent this id on an earlier connection, which failed.
            Some(next) if number < *next => return,
            Some(next) => *next = number + 1,
            None => _ = state.next_numbers.insert(self.token.clone(), number + 1),
        }
        state.register.record_id(id);
    }
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Id;

    const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

    fn collector() -> Collector {
        Collector::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free")
    }

    fn wait_for_backends(collector: &Collector, count: usize) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while collector.backends() != count {
            assert!(Instant::now() < deadline, "expected {count} connected backends");
            std::thread::yield_now();
        }
    }

    #[test]
    fn ids_sent_again_on_a_new_connection_count_once() {
        let collector = collector();
        for lines in ["b x 0\ni 1-0-1\ni 1-0-2\n", "b x 1\ni 1-0-2\ni 1-0-3\ni 1-0-3\n", "b y 0\ni 1-0-1\n"] {
            let mut stream = TcpStream::connect(collector.address()).expect("the collector listens");
            stream.write_all(lines.as_bytes()).expect("the collector reads");
            wait_for_backends(&collector, 1);
            drop(stream);
            wait_for_backends(&collector, 0);
        }
        let times =
            |number| collector.with_register(|register| register.times(Id { run: 1, thread: 0, number }));
        assert_eq!([1, 2, 3, 4].map(times), [2, 1, 2, 0]);
        collector.stop();
    }

    #[test]
    fn a_silent_backend_is_counted_and_not_awaited_again() {
        let collector = collector();
        let silent = TcpStream::connect(collector.address()).expect("the collector listens");
        wait_for_backends(&collector, 1);
        let error = collector
            .wait_until_settled(Duration::from_millis(20))
            .expect_err("the backend is silent")
            .to_string();
        assert!(error.ends_with("given last: 1 of them"), "{error}");
        collector.wait_until_settled(WAIT_TIMEOUT).expect("no backend is left to wait for");
        drop(silent);
        collector.stop();
    }

    #[test]
    fn a_backend_that_disconnects_is_not_awaited() {
        let collector = collector();
        let stream = TcpStream::connect(collector.address()).expect("the collector listens");
        wait_for_backends(&collector, 1);
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| collector.wait_until_settled(WAIT_TIMEOUT));
            drop(stream);
            settled
                .join()
                .expect("the wait does not panic")
                .expect("a disconnected backend counts as settled");
        });
        collector.stop();
    }
}
