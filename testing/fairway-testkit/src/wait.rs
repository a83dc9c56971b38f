//! Waits for conditions, always with a deadline, and picks unused ports.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// The default timeout in this crate before a test fails.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until `condition` gives true.
#[track_caller]
pub fn eventually<F, C>(expectation: &str, limit: Duration, condition: C) -> impl Future<Output = ()>
where
    C: FnMut() -> F,
    F: Future<Output = bool>,
{
    let caller = std::panic::Location::caller();
    async move {
        if !holds_within(limit, condition).await {
            panic!("not within {limit:?}: {expectation} ({caller})");
        }
    }
}

/// Whether `condition` gives true before `limit` passes.
pub(crate) async fn holds_within<F, C>(limit: Duration, mut condition: C) -> bool
where
    C: FnMut() -> F,
    F: Future<Output = bool>,
{
    let deadline = Instant::now() + limit;
    loop {
        match timeout_at(deadline, condition()).await {
            Ok(true) => return true,
            Ok(false) if Instant::now() < deadline => sleep(POLL_INTERVAL).await,
            Ok(false) | Err(_) => return false,
        }
    }
}

/// Below the range from which Linux assigns ports (`net.ipv4.ip_local_port_range`): no connection or other listener gets
/// one by chance while a test relies on it being free or closed.
const PORTS: Range<u16> = 10_000..32_768;

/// A TCP port of the loopback address that was free a moment ago, and another one each time until all of [`PORTS`] were given.
pub fn free_port() -> u16 {
    static PORTS_GIVEN: AtomicU32 = AtomicU32::new(0);
    let count = u32::try_from(PORTS.len()).expect("fewer than there are ports");
    // Concurrent programs start at different ports.
    let first = std::process::id().wrapping_mul(151);
    for _ in 0..count {
        let number = first.wrapping_add(PORTS_GIVEN.fetch_add(1, Ordering::Relaxed)) % count;
        let port = PORTS.start + u16::try_from(number).expect("fewer than there are ports");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("the loopback address has no free port in {PORTS:?}");
}

/// [`free_port`] with the loopback address in front.
pub fn free_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), free_port())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
    fn ports_are_not_given_twice_and_not_to_others() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 50);
        let others = (0..50).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect::<Vec<_>>();
        assert!(others.iter().all(|other| !PORTS.contains(&other.local_addr().unwrap().port())));
    }
}
