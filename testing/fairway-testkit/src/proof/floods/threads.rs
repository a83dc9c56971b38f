//! Threads that attack, or ask as honest clients do: started together, read apart, ended together.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::held::{self, Holding};
use super::pace::Control;
use super::rush;
use super::usage::{cpu_of_thread, this_thread};

/// How much less urgent these threads are than the proxy and its other clients (`nice`). On machines of their own they
/// would take no CPU from either.
const NICENESS: i32 = 19;
/// Threads of attackers that go as fast as they may.
const THREADS: usize = 2;
/// One write. Larger ones make the other clients wait for longer, smaller ones cost the attacker more.
const PIECE: usize = 64 * 1024;

/// What is done with a new connection.
pub(super) type Round = dyn Fn(&mut TcpStream) -> io::Result<()> + Send + Sync;

/// What each thread of [`Threads`] does: with its share of the connections at a certain step, or as often as the pace allows.
#[derive(Clone)]
pub(super) enum Work {
    /// Holds connections.
    Hold(Holding),
    /// Sends these pieces over and over, on every connection, each in a write of its own.
    Stream(Arc<Vec<Vec<u8>>>),
    /// Sends the next request each time; on a kept connection it follows the whole answer to the one before.
    Ask(Arc<dyn Fn() -> Vec<u8> + Send + Sync>),
    /// Does this with a new connection and resets it.
    Once(Arc<Round>),
}

impl Work {
    /// These bytes over and over, on every connection.
    pub(super) fn stream(bytes: &[u8]) -> Self {
        Self::Stream(Arc::new(bytes.chunks(PIECE).map(<[u8]>::to_vec).collect()))
    }

    /// One of these requests after the other.
    pub(super) fn ask(requests: Vec<Vec<u8>>) -> Self {
        let next = AtomicUsize::new(0);
        Self::Ask(Arc::new(move || requests[next.fetch_add(1, Ordering::Relaxed) % requests.len()].clone()))
    }

    /// The time between two moments at which connections go on together; nothing where each goes on by itself.
    pub(super) fn step(&self) -> Option<Duration> {
        match self {
            Self::Hold(holding) => Some(holding.step),
            _ => None,
        }
    }

    /// The threads that `connections` need: whoever waits for an answer does nothing else.
    fn threads(&self, connections: usize) -> usize {
        match self {
            Self::Hold(_) => 1,
            Self::Ask(_) => connections.max(1),
            _ => THREADS.min(connections.max(1)),
        }
    }

    fn run(&self, address: SocketAddr, connections: usize, control: &Control) {
        match self {
            Self::Hold(holding) => held::hold(holding, address, connections, control),
            Self::Stream(pieces) => rush::stream(pieces, address, connections, control),
            Self::Ask(next) => rush::ask(&**next, address, control),
            Self::Once(work) => rush::once(&**work, address, control),
        }
    }
}

/// The running threads; they end with this value.
pub(super) struct Threads {
    pub(super) control: Arc<Control>,
    running: Vec<JoinHandle<()>>,
    /// Where the kernel says what each has used.
    folders: Vec<PathBuf>,
}

impl Threads {
    /// Starts threads that share `connections` to `address`.
    pub(super) fn start(work: &Work, address: SocketAddr, connections: usize) -> Self {
        let threads = work.threads(connections);
        let control = Arc::new(Control::new(threads));
        let (sender, receiver) = mpsc::channel();
        let start = |thread: usize| {
            let share = (connections + thread) / threads;
            let (work, control, sender) = (work.clone(), Arc::clone(&control), sender.clone());
            let body = move || {
                let _ = sender.send(this_thread());
                drop(sender);
                // Where that is not allowed they take what they get.
                _ = rustix::process::nice(NICENESS);
                work.run(address, share, &control);
            };
            std::thread::Builder::new().name(format!("client {thread}")).spawn(body).expect("a thread starts")
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        drop(sender);
        Self { control, running, folders: receiver.iter().collect() }
    }

    /// CPU time of the threads so far.
    pub(super) fn cpu(&self) -> Duration {
        self.folders.iter().map(|folder| cpu_of_thread(folder)).sum()
    }

    /// Ends the work and closes every connection; says whether no thread had panicked.
    pub(super) fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.control.end();
        // All are awaited, whatever became of the first.
        let ended: Vec<_> = self.running.drain(..).map(JoinHandle::join).collect();
        ended.iter().all(Result::is_ok)
    }
}

impl Drop for Threads {
    // A proof that is dropped in its middle leaves no thread behind.
    fn drop(&mut self) {
        self.end();
    }
}
