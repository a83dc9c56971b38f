//! Sends ids to a collector in the background, so that requests do not wait for it: a write every 50 ms, and at once when
//! the collector asks. [`Collector`](super::Collector) says in which words.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;

/// Bytes that wait for the collector at most; what comes then is counted as lost.
const BACKLOG: usize = 32 * 1024 * 1024;
const EVERY: Duration = Duration::from_millis(50);
/// For a connection, and for a write.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells a collector.
#[derive(Clone)]
pub(super) struct Recorder {
    waiting: Arc<Mutex<Waiting>>,
    sender: Arc<Mutex<Sender>>,
}

/// Ids that are to be reported.
#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    count: u64,
    lost: u64,
}

struct Sender {
    address: SocketAddr,
    /// By which the collector knows this backend again.
    token: u64,
    /// Ids that were reported.
    told: u64,
    state: State,
    has_complained: bool,
}

enum State {
    Unconnected,
    Connected(Wire),
    /// Nothing is reported any more.
    Over,
}

/// A connection to the collector.
#[derive(Clone)]
struct Wire {
    stream: Arc<TcpStream>,
    /// How often the collector has asked, and how often that was heeded.
    asked: u64,
    heeded: u64,
}

impl Recorder {
    /// Begins; the collector may come later.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let token = fastrand::u64(..);
        let sender = Sender { address, token, told: 0, state: State::Unconnected, has_complained: false };
        let recorder = Self { waiting: Arc::default(), sender: Arc::new(Mutex::new(sender)) };
        let background = recorder.clone();
        std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || while background.send_and_listen() {})
            .context("start the recorder")?;
        Ok(recorder)
    }

    /// An id to tell.
    pub(super) fn note(&self, id: &[u8]) {
        let mut waiting = lock(&self.waiting);
        if waiting.lines.len() > BACKLOG {
            waiting.lost += 1;
            return;
        }
        waiting.lines.extend_from_slice(b"i ");
        waiting.lines.extend_from_slice(id);
        waiting.lines.push(b'\n');
        waiting.count += 1;
    }

    /// Tells what waits, and nothing after it.
    pub(super) fn finish(&self) {
        self.flush();
        let lost = lock(&self.waiting).lost;
        if lost > 0 {
            tracing::warn!("{lost} ids did not reach the collector");
        }
        let before = std::mem::replace(&mut lock(&self.sender).state, State::Over);
        if let State::Connected(wire) = before {
            // A collector that is gone needs no end.
            _ = wire.stream.shutdown(Shutdown::Both);
        }
    }

    /// Tells what waits and listens to the collector for a while; false at the end.
    fn send_and_listen(&self) -> bool {
        self.flush();
        let wire = match &lock(&self.sender).state {
            State::Over => return false,
            State::Unconnected => None,
            State::Connected(wire) => Some(wire.clone()),
        };
        let Some(wire) = wire else {
            std::thread::sleep(EVERY);
            return true;
        };
        let mut questions = [0; 64];
        match (&*wire.stream).read(&mut questions) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(count) if count > 0 => lock(&self.sender).asked(count as u64),
            Ok(_) | Err(_) => lock(&self.sender).disconnect(),
        }
        true
    }

    fn flush(&self) {
        let mut sender = lock(&self.sender);
        if matches!(sender.state, State::Over) {
            return;
        }
        let (lines, count) = {
            let mut waiting = lock(&self.waiting);
            (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.count))
        };
        if let Err(error) = sender.send(&lines, count) {
            sender.disconnect();
            if !sender.has_complained {
                sender.has_complained = true;
                tracing::warn!("the collector {} cannot be told of ids: {error}; trying on", sender.address);
            }
            let mut waiting = lock(&self.waiting);
            let newer = std::mem::replace(&mut waiting.lines, lines);
            waiting.lines.extend_from_slice(&newer);
            waiting.count += count;
        }
    }
}

impl Sender {
    /// Tells ids, and that questions were heeded.
    fn send(&mut self, lines: &[u8], count: u64) -> io::Result<()> {
        let wire = match &mut self.state {
            State::Over => return Ok(()),
            State::Connected(wire) => wire,
            State::Unconnected => {
                self.state = State::Connected(Wire::open(self.address, self.token, self.told)?);
                return self.send(lines, count);
            }
        };
        let mut stream = &*wire.stream;
        stream.write_all(lines)?;
        self.told += count;
        if wire.heeded < wire.asked {
            stream.write_all(format!("m {}\n", wire.asked).as_bytes())?;
            wire.heeded = wire.asked;
        }
        Ok(())
    }

    fn asked(&mut self, count: u64) {
        if let State::Connected(wire) = &mut self.state {
            wire.asked += count;
        }
    }

    fn disconnect(&mut self) {
        if matches!(self.state, State::Connected(_)) {
            self.state = State::Unconnected;
        }
    }
}

impl Wire {
    fn open(address: SocketAddr, token: u64, told: u64) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(EVERY))?;
        (&stream).write_all(format!("b {token:x} {told}\n").as_bytes())?;
        Ok(Self { stream: Arc::new(stream), asked: 0, heeded: 0 })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
