//! The life of an adapter: lists, the proxy's start, changes, the end.

use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::frame::Frame;
use super::probe::Readiness;
use super::proxy::{Kind, Proxy};
use super::watch::Watched;

/// What an adapter serves.
pub(super) struct Assignment {
    pub(super) kind: Kind,
    pub(super) class: String,
    pub(super) namespace: String,
    pub(super) frame: Frame,
}

/// Serves until SIGTERM.
pub(super) async fn serve(assignment: Assignment) -> anyhow::Result<ExitCode> {
    let Assignment { kind, class, namespace, frame } = assignment;
    let mut stop = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let readiness = Readiness::serve().await?;
    let mut watched = Watched::start(&namespace, &class).await?;
    let mut served = tokio::select! {
        first = watched.first() => first?,
        _ = stop.recv() => return Ok(ExitCode::SUCCESS),
    };
    let mut proxy = Proxy::start(kind, frame, &served).await?;
    readiness.set(true);
    tracing::info!(hosts = served.hosts.len(), "serving");
    let holdoff = proxy.holdoff();
    loop {
        tokio::select! {
            wanted = watched.next(holdoff) => {
                if wanted == served {
                    continue;
                }
                // What could not be applied is tried again with the next change, as controllers do.
                match proxy.apply(&wanted).await {
                    Ok(()) => served = wanted,
                    Err(error) => tracing::error!("the proxy serves on as it was: {error:#}"),
                }
            }
            end = proxy.ended() => anyhow::bail!("{end}, though nobody asked for that"),
            _ = stop.recv() => break,
        }
    }
    readiness.set(false);
    tracing::info!("draining");
    proxy.drain().await?;
    Ok(ExitCode::SUCCESS)
}
