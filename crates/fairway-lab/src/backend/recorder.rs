//! Sends ids to a collector in the background, a write every 50 ms, so that requests do not wait for it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;

/// Bytes that wait for the collector at most; what comes then is counted as lost.
const BACKLOG: usize = 32 * 1024 * 1024;
const EVERY: Duration = Duration::from_millis(50);

/// Tells a collector.
#[derive(Clone)]
pub(super) struct Recorder {
    state: Arc<Mutex<Waiting>>,
    sender: Arc<Mutex<Sender>>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    lost: u64,
}

struct Sender {
    address: SocketAddr,
    collector: Option<TcpStream>,
    has_complained: bool,
}

impl Recorder {
    /// Begins; the collector may come later.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let sender = Sender { address, collector: None, has_complained: false };
        let recorder = Self { state: Arc::default(), sender: Arc::new(Mutex::new(sender)) };
        let background = recorder.clone();
        std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                loop {
                    std::thread::sleep(EVERY);
                    background.flush();
                }
            })
            .context("start the recorder")?;
        Ok(recorder)
    }

    /// An id to tell.
    pub(super) fn note(&self, pod: &str, id: &[u8]) {
        let mut waiting = lock(&self.state);
        if waiting.lines.len() > BACKLOG {
            waiting.lost += 1;
            return;
        }
        waiting.lines.extend_from_slice(pod.as_bytes());
        waiting.lines.push(b' ');
        waiting.lines.extend_from_slice(id);
        waiting.lines.push(b'\n');
    }

    /// Ids that the collector was not told.
    pub(super) fn lost(&self) -> u64 {
        lock(&self.state).lost
    }

    /// Tells now what waits; also before the process ends.
    pub(super) fn flush(&self) {
        let mut sender = lock(&self.sender);
        let lines = std::mem::take(&mut lock(&self.state).lines);
        if lines.is_empty() {
            return;
        }
        if let Err(error) = sender.send(&lines) {
            sender.collector = None;
            if !sender.has_complained {
                sender.has_complained = true;
                tracing::warn!("the collector {} cannot be told of ids: {error}; trying on", sender.address);
            }
            let mut waiting = lock(&self.state);
            let newer = std::mem::replace(&mut waiting.lines, lines);
            waiting.lines.extend_from_slice(&newer);
        }
    }
}

impl Sender {
    fn send(&mut self, lines: &[u8]) -> io::Result<()> {
        let collector = match &mut self.collector {
            Some(collector) => collector,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
                stream.set_write_timeout(Some(Duration::from_secs(1)))?;
                self.collector.insert(stream)
            }
        };
        collector.write_all(lines)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
