//! What SIGTERM and SIGINT do.

use std::sync::Arc;
use std::thread;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use super::gate::Gate;
use super::notify;

/// The first SIGTERM or SIGINT drains, the second ends the process at once. Stands before anything is served, so that
/// whoever sees the process ready can end it politely.
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
        gate.leave();
        let Some(proxy) = gate.handle() else {
            tracing::info!("ended before anything was served");
            std::process::exit(0);
        };
        tracing::info!("draining; a second signal ends the process at once");
        proxy.drain();
        next().await;
        tracing::warn!("ended by a second signal");
        std::process::exit(1);
    };
    thread::Builder::new().name("fairway-signal".into()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}
