//! Threads that attack, or ask as honest clients do: started together, read apart, ended together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::control::Control;
use super::held::{self, Holding};
use super::rush::{self, Rush};
use super::usage::{cpu_of_thread, this_thread};

/// How much less urgent these threads are than the proxy and its other clients (`nice`). On machines of their own they
/// would take no CPU from either.
const NICENESS: i32 = 19;
/// Threads of attackers that go as fast as they may.
const THREADS: usize = 2;

/// What each thread of [`Threads`] does.
#[derive(Clone)]
pub(super) enum Work {
    /// Holds its share of the connections.
    Hold(Holding),
    /// Goes as fast as the pace allows.
    Rush(Rush),
}

impl Work {
    /// The time between two moments at which connections go on together; nothing where each goes on by itself.
    pub(super) fn step(&self) -> Option<Duration> {
        match self {
            Self::Hold(holding) => Some(holding.step),
            Self::Rush(_) => None,
        }
    }

    /// The threads that `connections` need: whoever waits for an answer does nothing else.
    fn threads(&self, connections: usize) -> usize {
        match self {
            Self::Hold(_) => 1,
            Self::Rush(Rush::Ask(_)) => connections.max(1),
            Self::Rush(_) => THREADS.min(connections.max(1)),
        }
    }
}

/// The running threads; they end with this value.
pub(super) struct Threads {
    control: Arc<Control>,
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
                match &work {
                    Work::Hold(holding) => held::hold(holding, address, share, &control),
                    Work::Rush(rush) => rush::rush(rush, address, share, &control),
                }
            };
            std::thread::Builder::new().name(format!("client {thread}")).spawn(body).expect("a thread starts")
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        drop(sender);
        Self { control, running, folders: receiver.iter().collect() }
    }

    /// What threads share.
    pub(super) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// CPU time of the threads so far.
    pub(super) fn cpu(&self) -> Duration {
        self.folders.iter().map(|folder| cpu_of_thread(folder)).sum()
    }

    /// Connections begun so far.
    pub(super) fn opened(&self) -> u64 {
        self.control.opened()
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
