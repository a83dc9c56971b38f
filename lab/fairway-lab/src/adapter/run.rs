//! The life of an adapter: lists, the proxy's start, changes, the end.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use crate::adapter::frame::Frame;
use crate::adapter::probe::Readiness;
use crate::adapter::proxy::{Kind, Proxy};
use crate::adapter::watch::WatchedObjects;

/// When a change that was refused is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Serves until SIGTERM. Changes that come while one is applied are one, and each else is applied as it comes: NGINX Ingress
/// Controller and Caddy's reload for each entry of their queues, one at a time; HAProxy's passes endpoints on as they come,
/// and lets routes wait for its sync period, 5 s by default, which is left out here.
pub(crate) async fn serve(
    kind: Kind,
    class: &str,
    namespace: &str,
    frame: Frame,
) -> anyhow::Result<ExitCode> {
    let mut stop = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let readiness = Readiness::serve().await?;
    let watched = WatchedObjects::start(namespace, class).await?;
    let mut served = tokio::select! {
        first = watched.first() => first?,
        _ = stop.recv() => return Ok(ExitCode::SUCCESS),
    };
    let mut proxy = Proxy::start(kind, frame, &served).await?;
    readiness.set(true);
    tracing::info!(hosts = served.hosts.len(), "serving");
    let mut failed = false;
    loop {
        let wanted = tokio::select! {
            wanted = watched.next() => wanted,
            () = tokio::time::sleep(RETRY_INTERVAL), if failed => watched.now(),
            end = proxy.wait_for_exit() => anyhow::bail!("{end}, which was not requested"),
            _ = stop.recv() => break,
        };
        if wanted == served {
            continue;
        }
        let applied = proxy.apply(&wanted).await;
        failed = applied.is_err();
        match applied {
            Ok(()) => served = wanted,
            Err(error) => tracing::error!("the proxy serves on as it was: {error:#}"),
        }
    }
    readiness.set(false);
    tracing::info!("draining");
    proxy.drain().await?;
    Ok(ExitCode::SUCCESS)
}
