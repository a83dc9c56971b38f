//! The memory budget over real sockets. Alone in its process, because the memory of other tests would be counted too.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[allow(dead_code, reason = "shared with the wire tests, which use more of it")]
#[path = "wire/support.rs"]
mod support;

use std::sync::Mutex;
use std::time::Duration;

use fairway_proxy::{MemoryBudget, ReturnScope};
use fairway_testkit::{Backend, BackendResponse, Request, eventually};

use support::{HOST, Setup};

/// The threads that returned memory, and the kind of memory.
static RETURNED: Mutex<Vec<(String, ReturnScope)>> = Mutex::new(Vec::new());

fn note_returned(freed: ReturnScope) {
    let thread = std::thread::current().name().unwrap().to_owned();
    let mut returned = RETURNED.lock().unwrap();
    if !returned.contains(&(thread.clone(), freed)) {
        returned.push((thread, freed));
    }
}

fn has_returned(thread: &str, freed: ReturnScope) -> bool {
    RETURNED.lock().unwrap().contains(&(thread.to_owned(), freed))
}

#[tokio::test]
async fn above_the_memory_budget_requests_are_503_until_there_is_room_again() {
    const MIB: usize = 1 << 20;
    let budget = resident() + 96 * MIB as u64;
    let backend = Backend::http(|_| BackendResponse::ok(b"")).await;
    let setup = Setup::to(&[backend.address()])
        .options(|options| options.limits.memory = MemoryBudget::Bytes(budget))
        .options(|options| options.return_memory = note_returned);
    let proxy = setup.start();
    let mut client = proxy.client().await;
    assert_eq!(client.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);

    let limit = Duration::from_secs(30);
    eventually("memory that rested is returned", limit, || async {
        has_returned("fairway-memory", ReturnScope::Rested)
    })
    .await;
    assert!(!RETURNED.lock().unwrap().iter().any(|(_, freed)| *freed == ReturnScope::All), "there is room");

    let ballast = std::hint::black_box(vec![1_u8; 192 * MIB]);
    proxy.expect_metric("fairway_shedding_workers", 1).await;
    for thread in ["fairway-memory", "worker-0"] {
        let context = format!("{thread} returns all memory that nothing uses");
        eventually(&context, limit, || async { has_returned(thread, ReturnScope::All) }).await;
    }
    let response = client.exchange(&Request::get(HOST, "/")).await.unwrap();
    assert_eq!((response.status, response.header("Retry-After")), (503, Some("1")));
    assert_eq!(response.header("Connection"), Some("close"));
    let refused = proxy.client().await.read_response().await.unwrap();
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("1")));

    drop(ballast);
    proxy.expect_metric("fairway_shedding_workers", 0).await;
    assert_eq!(proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
