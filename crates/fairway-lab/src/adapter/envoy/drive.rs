//! Envoy as a process: its start, files that change under it, its drain.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::Instant;

use crate::adapter::admin::{exchange, until};
use crate::adapter::desired::Desired;
use crate::adapter::files::write_changed;
use crate::adapter::frame::Frame;
use crate::adapter::process::Process;

use super::render::{BOOTSTRAP, render};

/// How long it may take until it serves.
const START: Duration = Duration::from_secs(60);
/// How often it is asked.
const LOOK: Duration = Duration::from_millis(50);
/// Envoy Gateway's `minDrainDuration`: for so long it goes on accepting, so that Services and load balancers notice.
const ACCEPTING: Duration = Duration::from_secs(10);
/// Envoy Gateway's `drainTimeout`.
const DRAIN: Duration = Duration::from_secs(60);
/// What it may take to end once nothing is open.
const END: Duration = Duration::from_secs(5);

/// How long a new cluster may take to be ready before routes use it.
const WARM: Duration = Duration::from_secs(2);

/// Envoy.
pub struct Envoy {
    process: Process,
    frame: Frame,
    /// The backends that it has been told of last.
    backends: Backends,
}

type Backends = BTreeMap<String, Vec<SocketAddr>>;

/// The arguments that start Envoy with the files of a frame.
#[must_use]
pub fn arguments(frame: &Frame) -> Vec<String> {
    let (seconds, bootstrap) = (DRAIN.as_secs().to_string(), frame.file(BOOTSTRAP));
    let mut words = vec!["--disable-hot-restart", "--log-level", "warn", "--drain-strategy", "immediate"];
    words.extend(["--drain-time-s", &seconds, "-c", &bootstrap]);
    let workers = frame.workers.map(|workers| workers.to_string());
    if let Some(workers) = &workers {
        words.extend(["--concurrency", workers]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Writes the files that changed.
///
/// # Errors
/// A file cannot be written.
pub fn store(frame: &Frame, desired: &Desired) -> anyhow::Result<()> {
    for (name, value) in render(frame, desired) {
        write_changed(&frame.path(&name), &value.to_string())?;
    }
    Ok(())
}

fn is_of_clusters(file: &str) -> bool {
    file.starts_with("endpoints-") || file == "clusters.json"
}

impl Envoy {
    /// Starts Envoy and waits until it serves.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(frame: Frame, desired: &Desired) -> anyhow::Result<Self> {
        store(&frame, desired)?;
        let process = Process::start(Path::new("envoy"), &arguments(&frame))?;
        let envoy = Self { process, frame, backends: desired.backends.clone() };
        until(START, LOOK, async || {
            envoy.ask("GET /ready").await.is_ok_and(|answer| answer.contains("LIVE"))
        })
        .await
        .context("Envoy does not serve after a minute; its log says why")?;
        Ok(envoy)
    }

    /// Writes the files that changed; Envoy reads them. As control planes do: a new cluster is there before a route goes
    /// to it, and one that no route needs any more stays until the next change.
    ///
    /// # Errors
    /// A file cannot be written.
    pub async fn apply(&mut self, desired: &Desired) -> anyhow::Result<()> {
        let mut whole = desired.clone();
        for (name, endpoints) in &self.backends {
            whole.backends.entry(name.clone()).or_insert_with(|| endpoints.clone());
        }
        let fresh: Vec<_> =
            desired.backends.keys().filter(|name| !self.backends.contains_key(*name)).collect();
        if !fresh.is_empty() {
            for (name, value) in
                render(&self.frame, &whole).into_iter().filter(|(name, _)| is_of_clusters(name))
            {
                write_changed(&self.frame.path(&name), &value.to_string())?;
            }
            self.warm(&fresh).await;
        }
        self.backends.clone_from(&desired.backends);
        store(&self.frame, &whole)
    }

    /// Waits until clusters are in use; one that has no endpoints may never be, and then the route is written all the same.
    async fn warm(&self, names: &[&String]) {
        let are_there = async || {
            let known = self.ask("GET /clusters").await.unwrap_or_default();
            names.iter().all(|name| known.contains(&format!("{name}::")))
        };
        // Too late is no error: the route answers 503 until the cluster is there, as Envoy does.
        _ = until(WARM, LOOK / 10, are_there).await;
    }

    /// Drains as Envoy Gateway's shutdown manager does: health checks fail, answers close connections, and when none is
    /// left, or the time is over, it ends.
    ///
    /// # Errors
    /// It has ended before.
    pub async fn drain(&mut self) -> anyhow::Result<()> {
        self.ask("POST /healthcheck/fail").await.context("tell Envoy to fail health checks")?;
        self.ask("POST /drain_listeners?graceful&skip_exit").await.context("tell Envoy to drain")?;
        let begun = Instant::now();
        tokio::time::sleep(ACCEPTING).await;
        while begun.elapsed() < DRAIN && self.open().await? > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.process.signal(Signal::TERM)?;
        self.process.end_within(END).await
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Connections that are open.
    async fn open(&self) -> anyhow::Result<u64> {
        let answer = self.ask("GET /stats?filter=^server.total_connections$").await?;
        let value = answer.lines().find_map(|line| line.strip_prefix("server.total_connections: "));
        value.and_then(|value| value.trim().parse().ok()).context("Envoy has no server.total_connections")
    }

    async fn ask(&self, request: &str) -> std::io::Result<String> {
        let text = format!("{request} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        exchange(UnixStream::connect(self.frame.path("admin.sock")).await?, &text).await
    }
}
