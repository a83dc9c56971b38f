//! The file descriptor budget (docs/limits.md, docs/design/0015-descriptor-budget.md).
//!
//! Part of the process's limit is reserved for everything but traffic; workers share the rest equally, and each counts
//! its own. A client connection is one descriptor, its exchange is the one to the endpoint, and idle endpoint
//! connections may use what is left: they are closed first.

use std::cell::Cell;
use std::fs;
use std::rc::Rc;

/// Descriptors not used by traffic: connections of the admin servers (64 each) and the webhook, API watches, files of
/// the source and the log, and what hedged connects may open briefly.
const RESERVED_DESCRIPTORS: usize = 256;
/// Per worker: its first addresses, its event queue, and some to refuse connections politely.
const RESERVED_PER_WORKER: usize = 8;
/// Addresses covered by a worker's reserve.
const RESERVED_ADDRESSES: usize = 4;
/// The default if the process does not know its limit.
const DEFAULT_SOFT_LIMIT: usize = 1024;

/// The descriptor budget of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorBudget {
    /// Descriptors that one worker may use for traffic.
    share: usize,
    /// Client connections that one worker accepts.
    pub connections: usize,
}

impl DescriptorBudget {
    /// Of `descriptors`, or of the soft limit of this process; `connections` overrides the number of client
    /// connections.
    pub fn new(descriptors: Option<usize>, workers: usize, connections: Option<usize>) -> Self {
        let workers = workers.max(1);
        let all = descriptors.unwrap_or_else(soft_limit);
        let reserve = (RESERVED_DESCRIPTORS + RESERVED_PER_WORKER * workers).min(all / 4 * 3);
        let share = ((all - reserve) / workers).max(2);
        // Clients that are mostly idle may have more than half, but their requests need descriptors, too.
        let limit = share - (share / 4).max(1);
        let connections = connections.map_or(share / 2, |wanted| (wanted / workers).min(limit)).max(1);
        Self { share, connections }
    }

    /// Addresses that may be listened on, with a socket per worker: a quarter of what traffic has.
    pub fn addresses(&self) -> usize {
        RESERVED_ADDRESSES + self.share / 4
    }
}

/// Read from procfs, so that no unsafe call to `getrlimit` is needed.
fn soft_limit() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)).map(str::parse::<usize>);
    match soft {
        Some(Ok(soft)) => soft,
        // Only `unlimited` does not parse: the kernel's own bound is far away.
        Some(Err(_)) => usize::MAX / 4,
        None => DEFAULT_SOFT_LIMIT,
    }
}

/// What a worker uses of its share.
pub struct WorkerDescriptors {
    budget: DescriptorBudget,
    clients: Rc<Cell<u64>>,
    exchanges: Cell<usize>,
    idle: Rc<Cell<usize>>,
    /// Addresses listened on beyond the reserved ones.
    addresses: Cell<usize>,
}

impl WorkerDescriptors {
    /// For the counters of open client connections and of idle endpoint connections.
    pub fn new(budget: DescriptorBudget, clients: Rc<Cell<u64>>, idle: Rc<Cell<usize>>) -> Self {
        Self { budget, clients, exchanges: Cell::new(0), idle, addresses: Cell::new(0) }
    }

    /// Maximum open client connections.
    #[inline]
    pub fn max_client_connections(&self) -> u64 {
        self.budget.connections as u64
    }

    /// Maximum open datagram sessions: anyone can start them under any address, so they never get all descriptors.
    pub fn max_datagram_sessions(&self) -> u64 {
        (self.budget.share / 2) as u64
    }

    /// Sets the number of addresses that the worker listens on.
    pub fn set_addresses(&self, addresses: usize) {
        self.addresses.set(addresses.saturating_sub(RESERVED_ADDRESSES));
    }

    /// Exchanges, from the first byte of a request to the last of its response.
    #[inline]
    pub fn exchanges(&self) -> usize {
        self.exchanges.get()
    }

    /// An exchange begins.
    #[inline]
    pub fn begin_exchange(&self) {
        self.exchanges.set(self.exchanges.get() + 1);
    }

    /// An exchange ends.
    #[inline]
    pub fn end(&self) {
        self.exchanges.set(self.exchanges.get().saturating_sub(1));
    }

    /// How many descriptors exceed the share, with `more` to be opened.
    #[inline]
    pub fn excess(&self, requested: usize) -> usize {
        let clients = usize::try_from(self.clients.get()).unwrap_or(usize::MAX);
        let others =
            self.exchanges.get().saturating_add(self.idle.get()).saturating_add(self.addresses.get());
        let used = clients.saturating_add(others);
        used.saturating_add(requested).saturating_sub(self.budget.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_endpoints_share_the_descriptors_outside_the_reserve() {
        for (all, workers, share, connections) in
            [(20_000, 2, 9_864, 4_932), (1_024, 2, 376, 188), (1_048_576, 4, 262_072, 131_036), (64, 2, 8, 4)]
        {
            let budget = DescriptorBudget::new(Some(all), workers, None);
            assert_eq!(budget, DescriptorBudget { share, connections }, "{all} {workers}");
        }
        for (wanted, connections) in [(500, 250), (5_000, 282)] {
            assert_eq!(
                DescriptorBudget::new(Some(1_024), 2, Some(wanted)).connections,
                connections,
                "{wanted}"
            );
        }
        assert_eq!(DescriptorBudget::new(Some(0), 8, None), DescriptorBudget { share: 2, connections: 1 });
    }

    #[test]
    fn addresses_beyond_the_reserve_use_the_share_of_traffic() {
        let budget = DescriptorBudget::new(Some(20_000), 2, None);
        assert_eq!(budget.addresses(), 2_470);
        assert_eq!(DescriptorBudget::new(Some(64), 2, None).addresses(), 6);
        let descriptors = WorkerDescriptors::new(budget, Rc::default(), Rc::default());
        descriptors.set_addresses(4);
        assert_eq!(descriptors.excess(budget.share), 0);
        descriptors.set_addresses(1_000);
        assert_eq!(descriptors.excess(budget.share), 996);
    }

    #[test]
    fn this_process_has_a_limit() {
        assert!(soft_limit() > 2);
    }
}
