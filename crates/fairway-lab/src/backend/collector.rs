//! Where backends with `--record` tell their ids: one ledger over all pods, also those that are gone. Lines of TCP,
//! `POD ID`; never answers.

use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::{Ledger, Seen};

/// Ids remembered: some hundred megabytes when full.
const BOUND: usize = 16_000_000;

/// A running collector. It ends with [`Collector::stop`].
pub struct Collector {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    is_stopped: Arc<AtomicBool>,
}

impl Collector {
    /// Listens on an address; port 0 is a free one.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("listen for ids on {address}"))?;
        let address = listener.local_addr().context("the address of the collector")?;
        let (ledger, is_stopped) = (Arc::new(Ledger::new(BOUND)), Arc::new(AtomicBool::new(false)));
        let (noted, stopped) = (ledger.clone(), is_stopped.clone());
        std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || accept(&listener, &noted, &stopped))
            .context("start the collector")?;
        Ok(Self { address, ledger, is_stopped })
    }

    /// Where backends reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all backends saw until now. Backends tell every 50 ms.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.ledger.seen()
    }

    /// Accepts no more backends; those that are connected may go on.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; when nobody listens any more it has ended already.
        _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, ledger: &Arc<Ledger>, is_stopped: &AtomicBool) {
    for backend in listener.incoming() {
        if is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(backend) = backend else { continue };
        let ledger = ledger.clone();
        let spawned = std::thread::Builder::new().name("ids".to_owned()).spawn(move || {
            if let Err(error) = read(backend, &ledger) {
                tracing::warn!("ids of a backend are lost: {error}");
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("ids of a backend are lost: {error}");
        }
    }
}

fn read(backend: TcpStream, ledger: &Ledger) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(64 * 1024, backend);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // A line without its end is of a backend that was killed while it wrote: half an id is none.
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(()) };
        if let Some(space) = whole.iter().position(|byte| *byte == b' ') {
            ledger.note(&whole[space + 1..]);
        }
    }
}
