//! Threads that attack, or ask as honest clients do: started together, read apart, ended together.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::held_connections::{self, Holding};
use super::pace::Control;
use super::rush;
use super::usage::{cpu_of_thread, this_thread};

/// The `nice` value of these threads, below the proxy and its other clients. On separate machines they would take no CPU
/// from either.
const NICENESS: i32 = 19;
/// Threads of attackers that go as fast as they may.
const THREADS: usize = 2;
/// Bytes per write. Larger writes make other clients wait longer; smaller ones cost the attacker more.
const WRITE_BYTES: usize = 64 * 1024;

/// The work on a new connection.
pub(super) type Round = dyn Fn(&mut TcpStream) -> io::Result<()> + Send + Sync;

/// The work of each thread of [`Threads`]: with its share of the connections at a fixed step, or as often as the pace
/// allows.
#[derive(Clone)]
pub(super) enum Work {
    /// Holds connections.
    Hold(Holding),
    /// Sends these pieces repeatedly on every connection, each in a separate write.
    Stream(Arc<Vec<Vec<u8>>>),
    /// Sends the next request each time, on a kept connection after the complete previous response.
    Ask(Arc<dyn Fn() -> Vec<u8> + Send + Sync>),
    /// Does this with a new connection and resets it.
    Once(Arc<Round>),
}

impl Work {
    /// These bytes over and over, on every connection.
    pub(super) fn stream(bytes: &[u8]) -> Self {
        Self::Stream(Arc::new(bytes.chunks(WRITE_BYTES).map(<[u8]>::to_vec).collect()))
    }

    /// These requests in rotation.
    pub(super) fn ask_each(requests: Vec<Vec<u8>>) -> Self {
        let next = AtomicUsize::new(0);
        Self::Ask(Arc::new(move || requests[next.fetch_add(1, Ordering::Relaxed) % requests.len()].clone()))
    }

    /// The interval at which connections continue together; `None` if each continues by itself.
    pub(super) fn step(&self) -> Option<Duration> {
        match self {
            Self::Hold(holding) => Some(holding.step),
            _ => None,
        }
    }

    /// The number of threads for `connections`: a thread that waits for a response does nothing else.
    fn threads(&self, connections: usize) -> usize {
        match self {
            Self::Hold(_) => 1,
            Self::Ask(_) => connections.max(1),
            _ => THREADS.min(connections.max(1)),
        }
    }

    fn run(&self, address: SocketAddr, connections: usize, control: &Control) {
        match self {
            Self::Hold(holding) => held_connections::hold(holding, address, connections, control),
            Self::Stream(pieces) => rush::stream(pieces, address, connections, control),
            Self::Ask(next) => rush::request_repeatedly(&**next, address, control),
            Self::Once(work) => rush::connect_repeatedly(&**work, address, control),
        }
    }
}

/// The running threads; they end with this value.
pub(super) struct Threads {
    pub(super) control: Arc<Control>,
    running: Vec<JoinHandle<()>>,
    /// The kernel's CPU statistics of each thread.
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
                // Without permission they keep the default.
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

    /// Stops the work and closes every connection; returns whether no thread panicked.
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
