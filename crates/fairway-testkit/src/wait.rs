//! Waiting for conditions, and ports nobody else uses. Never waits without a deadline.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// How long anything in this crate waits before a test counts as failed, unless it says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long lies between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until `condition` gives true.
///
/// # Panics
///
/// With `what` when `limit` passes first, also when one look at the condition takes that long.
#[track_caller]
pub fn eventually<F, C>(what: &str, limit: Duration, condition: C) -> impl Future<Output = ()>
where
    C: FnMut() -> F,
    F: Future<Output = bool>,
{
    let caller = std::panic::Location::caller();
    async move {
        if !holds_within(limit, condition).await {
            panic!("not within {limit:?}: {what} ({caller})");
        }
    }
}

/// Whether `condition` gives true before `limit` passes.
pub async fn holds_within<F, C>(limit: Duration, mut condition: C) -> bool
where
    C: FnMut() -> F,
    F: Future<Output = bool>,
{
    let deadline = Instant::now() + limit;
    loop {
        match timeout_at(deadline, condition()).await {
            Ok(true) => return true,
            Ok(false) if Instant::now() < deadline => sleep(PAUSE).await,
            Ok(false) | Err(_) => return false,
        }
    }
}

/// A TCP port of the loopback address that was free a moment ago, never the same twice in a process.
///
/// # Panics
///
/// When the machine has no free port.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().expect("no holder of this lock panics");
    // Probes are kept until one is new, so that the kernel cannot offer the same port again.
    let mut probes = Vec::new();
    loop {
        let probe =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the loopback address has a free port");
        let port = probe.local_addr().expect("a bound socket has an address").port();
        if given.insert(port) {
            return port;
        }
        probes.push(probe);
    }
}

/// [`free_port`] with the loopback address in front.
#[must_use]
pub fn free_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), free_port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_becomes_true_is_awaited() {
        let mut looks = 0;
        eventually("the third look", PATIENCE, || {
            looks += 1;
            let done = looks == 3;
            async move { done }
        })
        .await;
        assert_eq!(looks, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "the impossible")]
    async fn a_condition_that_stays_false_names_itself() {
        eventually("the impossible", Duration::from_millis(10), || async { false }).await;
    }

    #[tokio::test]
    async fn a_look_that_hangs_does_not_outlive_the_deadline() {
        assert!(!holds_within(Duration::from_millis(10), std::future::pending::<bool>).await);
    }

    #[test]
    fn ports_are_not_given_twice() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 50);
    }
}
