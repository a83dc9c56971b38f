//! Threads that attack, or ask as honest clients do: started together, read apart, ended together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::held::{self, Holding};
use super::pace::Pace;
use super::rush::{self, Rush};
use super::usage::{cpu_of_thread, this_thread};

/// What every member of a crew does.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Holds its share of the connections.
    Hold(Holding),
    /// Goes as fast as the pace allows.
    Rush(Rush),
}

/// What members are told while they work, and what they count.
pub(super) struct Orders {
    over: AtomicBool,
    opened: AtomicU64,
    /// How fast they may work.
    pub(super) pace: Pace,
}

impl Orders {
    /// Whether the work is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts `count` connections that were begun.
    pub(super) fn opened(&self, count: u64) {
        self.opened.fetch_add(count, Ordering::Relaxed);
    }
}

/// The running threads; they end with this value.
pub(super) struct Crew {
    orders: Arc<Orders>,
    members: Vec<JoinHandle<()>>,
    threads: Vec<PathBuf>,
}

impl Crew {
    /// Starts `members` threads that share `connections` to `address`.
    pub(super) fn start(work: &Work, address: SocketAddr, connections: usize, members: usize) -> Self {
        let members = members.clamp(1, connections.max(1));
        let pace = Pace::new(members);
        let orders = Arc::new(Orders { over: AtomicBool::new(false), opened: AtomicU64::new(0), pace });
        let (sender, receiver) = mpsc::channel();
        let start = |member: usize| {
            let share = (connections + member) / members;
            let (work, orders, sender) = (work.clone(), Arc::clone(&orders), sender.clone());
            let body = move || {
                let _ = sender.send(this_thread());
                drop(sender);
                match &work {
                    Work::Hold(holding) => held::hold(holding, address, share, &orders),
                    Work::Rush(rush) => rush::rush(rush, address, share, &orders),
                }
            };
            std::thread::Builder::new().name(format!("crew {member}")).spawn(body).expect("a thread starts")
        };
        let members: Vec<_> = (0..members).map(start).collect();
        drop(sender);
        Self { orders, members, threads: receiver.iter().collect() }
    }

    /// What members are told.
    pub(super) fn orders(&self) -> Arc<Orders> {
        Arc::clone(&self.orders)
    }

    /// CPU time of the members so far.
    pub(super) fn cpu(&self) -> Duration {
        self.threads.iter().map(|thread| cpu_of_thread(thread)).sum()
    }

    /// Connections begun so far.
    pub(super) fn opened(&self) -> u64 {
        self.orders.opened.load(Ordering::Relaxed)
    }

    /// Ends the work and closes every connection; says whether no member had panicked.
    pub(super) fn disband(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.orders.over.store(true, Ordering::Relaxed);
        // All are awaited, whatever became of the first.
        let ended: Vec<_> = self.members.drain(..).map(JoinHandle::join).collect();
        ended.iter().all(Result::is_ok)
    }
}

impl Drop for Crew {
    // A proof that is dropped in its middle leaves no thread behind.
    fn drop(&mut self) {
        self.end();
    }
}
