//! Handles SIGTERM and SIGINT.

use std::sync::Arc;
use std::thread;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use super::gate::Gate;
use super::notify;

/// The first SIGTERM or SIGINT starts draining, the second ends the process at once. Installed before traffic is served, so that a
/// ready process always drains.
pub(super) fn stop_on_signals(gate: Arc<Gate>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let wait = async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        notify::stopping();
        gate.start_leaving();
        let Some(proxy) = gate.handle() else {
            tracing::info!("stopped before traffic was served");
            std::process::exit(0);
        };
        tracing::info!("draining; a second signal ends the process at once");
        proxy.drain();
        next().await;
        tracing::warn!("stopped by a second signal");
        std::process::exit(1);
    };
    thread::Builder::new().name("fairway-signal".into()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}
