//! Where backends with `--record` tell their ids: one register over all pods, also those that are gone.
//!
//! Lines of TCP. A backend begins with `b TOKEN NUMBER`: who it is, and the number of the id that comes next, so that ids
//! that it tells again on a new connection are not taken for requests that came again. `i ID` is an id. A byte to a backend
//! asks it for all that it knows by then; `m COUNT` says that so many of these were heeded ([`Collector::settle`]).

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::register::{Register, Seen};

/// A running collector. It ends with [`Collector::stop`].
pub struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Shared {
    registered: Mutex<Registered>,
    changed: Condvar,
}

#[derive(Default)]
struct Registered {
    register: Register,
    /// By token: the number of the id that comes next.
    next: HashMap<String, u64>,
    /// Backends that are connected, by the number of their connection.
    backends: HashMap<u64, Backend>,
    connections: u64,
}

struct Backend {
    /// To ask it.
    stream: TcpStream,
    asked: u64,
    heeded: u64,
}

impl Collector {
    /// Listens on an address; port 0 is a free one.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("listen for ids on {address}"))?;
        let address = listener.local_addr().context("the address of the collector")?;
        let (shared, is_stopped) = (Arc::<Shared>::default(), Arc::new(AtomicBool::new(false)));
        let (noted, stopped) = (shared.clone(), is_stopped.clone());
        std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || accept(&listener, &noted, &stopped))
            .context("start the collector")?;
        Ok(Self { address, shared, is_stopped })
    }

    /// Where backends reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all backends saw until now, as far as they have told.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.registered().register.seen()
    }

    /// How many backends are connected.
    #[must_use]
    pub fn backends(&self) -> usize {
        self.shared.registered().backends.len()
    }

    /// Asks every backend for all that it saw until now and waits for it. A backend that ends meanwhile has told before;
    /// one that does not answer in time is not waited for again.
    ///
    /// # Errors
    /// Backends that did not answer: what they saw last is not known. No backend ever was here.
    pub fn settle(&self, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        let mut registered = self.shared.registered();
        anyhow::ensure!(
            registered.connections > 0,
            "no backend has reached the collector at {}; is that an address that pods reach?",
            self.address
        );
        let asked: Vec<_> =
            registered.backends.iter_mut().map(|(number, one)| (*number, one.ask())).collect();
        loop {
            let silent = |(number, wanted): &&(u64, u64)| {
                registered.backends.get(number).is_some_and(|one| one.heeded < *wanted)
            };
            let silent: Vec<_> = asked.iter().filter(silent).map(|(number, _)| *number).collect();
            if silent.is_empty() {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                registered.backends.retain(|number, _| !silent.contains(number));
                anyhow::bail!(
                    "backends did not tell within {} s which requests they were given last: {} of them",
                    patience.as_secs(),
                    silent.len()
                );
            }
            let waited = self.shared.changed.wait_timeout(registered, left);
            registered = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Looks into the register. Backends wait meanwhile.
    pub fn look<T>(&self, with: impl FnOnce(&Register) -> T) -> T {
        with(&self.shared.registered().register)
    }

    /// Forgets the ids of streams that are over.
    pub fn forget(&self) {
        self.shared.registered().register.forget();
    }

    /// Accepts no more backends; those that are connected may go on.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; when nobody listens any more it has ended already.
        _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, stream: TcpStream) -> u64 {
        let mut registered = self.registered();
        registered.connections += 1;
        let number = registered.connections;
        registered.backends.insert(number, Backend { stream, asked: 0, heeded: 0 });
        number
    }

    fn closed(&self, number: u64) {
        self.registered().backends.remove(&number);
        self.changed.notify_all();
    }

    fn heeded(&self, number: u64, count: u64) {
        if let Some(backend) = self.registered().backends.get_mut(&number) {
            backend.heeded = count;
        }
        self.changed.notify_all();
    }
}

impl Backend {
    /// Asks it, and says which count of its answer will do.
    fn ask(&mut self) -> u64 {
        // One that is gone cannot be asked; the thread that reads from it finds its end and says so.
        if self.stream.write_all(b"?").is_ok() {
            self.asked += 1;
        }
        self.asked
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, is_stopped: &AtomicBool) {
    for backend in listener.incoming() {
        if is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(backend) = backend else { continue };
        let shared = shared.clone();
        let spawned = std::thread::Builder::new().name("ids".to_owned()).spawn(move || {
            if let Err(error) = attend(backend, &shared) {
                tracing::warn!("ids of a backend are lost: {error}");
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("ids of a backend are lost: {error}");
        }
    }
}

fn attend(backend: TcpStream, shared: &Shared) -> io::Result<()> {
    let number = shared.opened(backend.try_clone()?);
    let ended = read(backend, shared, number);
    shared.closed(number);
    ended
}

fn read(backend: TcpStream, shared: &Shared, number: u64) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 * 1024, backend);
    let mut line = Vec::new();
    let mut source = IdSource::default();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // A line without its end is of a backend that was killed while it wrote: half an id is none.
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(()) };
        match whole.split_at_checked(2) {
            Some((b"i ", id)) => source.note(&mut shared.registered(), id),
            Some((b"b ", words)) => source = IdSource::read(words).unwrap_or_default(),
            Some((b"m ", count)) => shared.heeded(number, decimal(count).unwrap_or_default()),
            _ => tracing::warn!(
                "a backend says {:?}, which is no line of ours",
                String::from_utf8_lossy(whole)
            ),
        }
    }
}

/// Who tells ids on a connection, and the number of its next one.
#[derive(Default)]
struct IdSource {
    token: String,
    next: u64,
}

impl IdSource {
    fn read(words: &[u8]) -> Option<Self> {
        let (token, next) = std::str::from_utf8(words).ok()?.split_once(' ')?;
        Some(Self { token: token.to_owned(), next: next.parse().ok()? })
    }

    fn note(&mut self, registered: &mut Registered, id: &[u8]) {
        let number = self.next;
        self.next += 1;
        match registered.next.get_mut(&self.token) {
            // Told before, on a connection that failed then.
            Some(next) if number < *next => return,
            Some(next) => *next = number + 1,
            None => _ = registered.next.insert(self.token.clone(), number + 1),
        }
        registered.register.note(id);
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Id;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn collector() -> Collector {
        Collector::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free")
    }

    fn connected(collector: &Collector, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while collector.backends() != count {
            assert!(Instant::now() < deadline, "waited for {count} backends");
            std::thread::yield_now();
        }
    }

    #[test]
    fn ids_that_are_told_again_on_a_new_connection_came_only_once() {
        let collector = collector();
        for text in ["b x 0\ni 1-0-1\ni 1-0-2\n", "b x 1\ni 1-0-2\ni 1-0-3\ni 1-0-3\n", "b y 0\ni 1-0-1\n"] {
            let mut stream = TcpStream::connect(collector.address()).expect("it listens");
            stream.write_all(text.as_bytes()).expect("it reads");
            connected(&collector, 1);
            drop(stream);
            connected(&collector, 0);
        }
        let times = |number| collector.look(|register| register.times(Id { run: 1, thread: 0, number }));
        assert_eq!([1, 2, 3, 4].map(times), [2, 1, 2, 0]);
        collector.stop();
    }

    #[test]
    fn a_backend_that_says_nothing_is_named_and_not_waited_for_again() {
        let collector = collector();
        let silent = TcpStream::connect(collector.address()).expect("it listens");
        connected(&collector, 1);
        let error = collector.settle(Duration::from_millis(20)).expect_err("it says nothing").to_string();
        assert!(error.ends_with("given last: 1 of them"), "{error}");
        collector.settle(PATIENCE).expect("nobody is left to wait for");
        drop(silent);
        collector.stop();
    }

    #[test]
    fn a_backend_that_ends_is_not_waited_for() {
        let collector = collector();
        let stream = TcpStream::connect(collector.address()).expect("it listens");
        connected(&collector, 1);
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| collector.settle(PATIENCE));
            drop(stream);
            settled.join().expect("it does not panic").expect("its end is an answer");
        });
        collector.stop();
    }
}
