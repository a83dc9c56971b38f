//! The budget of file descriptors (docs/limits.md, docs/design/0015-descriptor-budget.md).
//!
//! A part of the process's limit is kept for everything but traffic; workers share the rest alike, and each counts its
//! own. A client's connection is one descriptor, its exchange is the one towards the endpoint, and idle connections to
//! endpoints may have what is left: they give way first.

use std::cell::Cell;
use std::fs;
use std::rc::Rc;

/// What is not traffic's: the admin servers' connections (64 each), the webhook's, watches of the API, the source's and
/// the log's files, and what hedged connects may have open for a moment.
const RESERVE: usize = 256;
/// Of each worker: its first addresses, its event queue and what is left to refuse politely.
const RESERVE_OF_A_WORKER: usize = 8;
/// Addresses that fit into what is reserved for a worker.
const RESERVED_ADDRESSES: usize = 4;
/// Where the process does not say its limit.
const USUAL: usize = 1024;

/// How the descriptors of the process are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Descriptors that one worker may use for traffic.
    share: usize,
    /// Connections of clients that one worker takes.
    pub connections: usize,
}

impl Budget {
    /// Of `descriptors`, or of the soft limit of this process; `connections` of clients may be said, too.
    pub fn new(descriptors: Option<usize>, workers: usize, connections: Option<usize>) -> Self {
        let workers = workers.max(1);
        let all = descriptors.unwrap_or_else(soft_limit);
        let reserve = (RESERVE + RESERVE_OF_A_WORKER * workers).min(all / 4 * 3);
        let share = ((all - reserve) / workers).max(2);
        // Clients that are mostly idle may have more than half, but what they ask for needs descriptors, too.
        let most = share - (share / 4).max(1);
        let connections = connections.map_or(share / 2, |wanted| (wanted / workers).min(most)).max(1);
        Self { share, connections }
    }

    /// Addresses that may be listened on, with a socket for each worker: a quarter of what traffic has.
    pub fn addresses(&self) -> usize {
        RESERVED_ADDRESSES + self.share / 4
    }
}

/// Read from the process itself, so that no unsafe call is needed for `getrlimit`.
fn soft_limit() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)).map(str::parse::<usize>);
    match soft {
        Some(Ok(soft)) => soft,
        // `unlimited` is what is left: the kernel's own bound is far away.
        Some(Err(_)) => usize::MAX / 4,
        None => USUAL,
    }
}

/// What a worker uses of its share.
pub struct Descriptors {
    budget: Budget,
    clients: Rc<Cell<u64>>,
    exchanges: Cell<usize>,
    idle: Rc<Cell<usize>>,
    /// Addresses that are listened on beyond those that are reserved.
    addresses: Cell<usize>,
}

impl Descriptors {
    /// Over the counts of open client connections and of idle connections to endpoints.
    pub fn new(budget: Budget, clients: Rc<Cell<u64>>, idle: Rc<Cell<usize>>) -> Self {
        Self { budget, clients, exchanges: Cell::new(0), idle, addresses: Cell::new(0) }
    }

    /// Connections of clients that may be open.
    #[inline]
    pub fn connections(&self) -> u64 {
        self.budget.connections as u64
    }

    /// Sessions of datagrams that may be open: anybody can begin them under any address, so they never take all there is.
    pub fn sessions(&self) -> u64 {
        (self.budget.share / 2) as u64
    }

    /// The worker listens on so many addresses now.
    pub fn listen_on(&self, addresses: usize) {
        self.addresses.set(addresses.saturating_sub(RESERVED_ADDRESSES));
    }

    /// Exchanges from the first byte of a request to the last of its answer.
    #[inline]
    pub fn exchanges(&self) -> usize {
        self.exchanges.get()
    }

    /// One begins.
    #[inline]
    pub fn begin(&self) {
        self.exchanges.set(self.exchanges.get() + 1);
    }

    /// One is over.
    #[inline]
    pub fn end(&self) {
        self.exchanges.set(self.exchanges.get().saturating_sub(1));
    }

    /// How many descriptors are used beyond the share, with `more` to come.
    #[inline]
    pub fn excess(&self, more: usize) -> usize {
        let clients = usize::try_from(self.clients.get()).unwrap_or(usize::MAX);
        let others =
            self.exchanges.get().saturating_add(self.idle.get()).saturating_add(self.addresses.get());
        let used = clients.saturating_add(others);
        used.saturating_add(more).saturating_sub(self.budget.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_endpoints_share_what_the_reserve_leaves() {
        for (all, workers, share, connections) in
            [(20_000, 2, 9_864, 4_932), (1_024, 2, 376, 188), (1_048_576, 4, 262_072, 131_036), (64, 2, 8, 4)]
        {
            let budget = Budget::new(Some(all), workers, None);
            assert_eq!(budget, Budget { share, connections }, "{all} {workers}");
        }
        for (wanted, connections) in [(500, 250), (5_000, 282)] {
            assert_eq!(Budget::new(Some(1_024), 2, Some(wanted)).connections, connections, "{wanted}");
        }
        assert_eq!(Budget::new(Some(0), 8, None), Budget { share: 2, connections: 1 });
    }

    #[test]
    fn addresses_beyond_the_reserved_ones_are_taken_from_the_share_of_traffic() {
        let budget = Budget::new(Some(20_000), 2, None);
        assert_eq!(budget.addresses(), 2_470);
        assert_eq!(Budget::new(Some(64), 2, None).addresses(), 6);
        let descriptors = Descriptors::new(budget, Rc::default(), Rc::default());
        descriptors.listen_on(4);
        assert_eq!(descriptors.excess(budget.share), 0);
        descriptors.listen_on(1_000);
        assert_eq!(descriptors.excess(budget.share), 996);
    }

    #[test]
    fn this_process_has_a_limit() {
        assert!(soft_limit() > 2);
    }
}
