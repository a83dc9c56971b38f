//! Ctrl-C and SIGTERM end a run gracefully: everything that waits checks here and fails, and started processes are stopped
//! on the way out. Stops nothing itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Starts to listen for the signals.
pub(crate) fn watch() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            IS_INTERRUPTED.store(true, Ordering::Relaxed);
        });
    })?;
    Ok(())
}

/// Fails if the process has received a signal.
pub(crate) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!IS_INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// Polls `done` every few milliseconds; returns whether it became true within `limit`.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> anyhow::Result<bool> {
    let started = Instant::now();
    while started.elapsed() < limit {
        check()?;
        if done() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}
