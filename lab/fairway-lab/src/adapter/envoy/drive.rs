//! Envoy as a process: its start, files that change under it, its drain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::render::{BOOTSTRAP, render};
use crate::adapter::admin::exchange;
use crate::adapter::desired::DesiredState;
use crate::adapter::files::write_changed;
use crate::adapter::frame::Frame;
use crate::adapter::process::Process;
use crate::adapter::stderr_lines::Words;

/// Timeout for starting.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Envoy's log messages when it serves, and when it has updated clusters.
const SERVING_MESSAGE: &str = "starting workers";
const CLUSTERS_UPDATED_MESSAGE: &str = "cds: added/updated";
/// Envoy Gateway's `minDrainDuration`: how long Envoy keeps accepting, so that Services and load balancers notice.
const MIN_DRAIN_DURATION: Duration = Duration::from_secs(10);
/// Envoy Gateway's `drainTimeout`.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for the exit once no connection is open.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for warming a new cluster before routes use it.
const CLUSTER_WARMING_TIMEOUT: Duration = Duration::from_secs(2);

/// Envoy.
pub(crate) struct Envoy {
    process: Process,
    words: Words,
    frame: Frame,
    clusters: Clusters,
}

type Backends = BTreeMap<String, Vec<SocketAddr>>;

/// Names of the clusters that Envoy has.
struct Clusters {
    /// The clusters of the latest desired state.
    wanted_backends: Backends,
    /// The clusters in its files: the current and the previous ones.
    known_clusters: BTreeSet<String>,
}

impl Clusters {
    fn from_desired(desired: &DesiredState) -> Self {
        Self {
            wanted_backends: desired.backends.clone(),
            known_clusters: desired.backends.keys().cloned().collect(),
        }
    }

    /// The next contents of its files, and whether they add a cluster. A cluster that was only no longer used is not new:
    /// Envoy still has it and logs nothing when it is used again.
    fn next(&mut self, desired: &DesiredState) -> (DesiredState, bool) {
        let mut current = desired.clone();
        for (name, endpoints) in &self.wanted_backends {
            current.backends.entry(name.clone()).or_insert_with(|| endpoints.clone());
        }
        let has_new = current.backends.keys().any(|name| !self.known_clusters.contains(name));
        self.wanted_backends.clone_from(&desired.backends);
        self.known_clusters = current.backends.keys().cloned().collect();
        (current, has_new)
    }
}

/// The arguments that start Envoy with the files of a frame.
fn arguments(frame: &Frame) -> Vec<String> {
    let (seconds, bootstrap) = (DRAIN_TIMEOUT.as_secs().to_string(), frame.file(BOOTSTRAP));
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
fn store(frame: &Frame, desired: &DesiredState) -> anyhow::Result<()> {
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
    pub(crate) async fn start(frame: Frame, desired: &DesiredState) -> anyhow::Result<Self> {
        store(&frame, desired)?;
        let mut command = Command::new("envoy");
        command.args(arguments(&frame)).args(["--component-log-level", "config:info,upstream:info"]);
        let mut process = Process::spawn(command.stderr(Stdio::piped()))?;
        let stderr = process.stderr().context("Envoy has no standard error")?;
        let mut words = Words::from_stderr(stderr, &[SERVING_MESSAGE, CLUSTERS_UPDATED_MESSAGE])?;
        tokio::time::timeout(START_TIMEOUT, words.wait_for_line(SERVING_MESSAGE))
            .await
            .context("Envoy does not serve after a minute; its log says why")??;
        let envoy = Self { process, words, frame, clusters: Clusters::from_desired(desired) };
        // The main thread responds once the workers are started, and then their sockets listen.
        let response = envoy.send_request("GET /ready").await.context("ask Envoy whether it is ready")?;
        anyhow::ensure!(response.contains("LIVE"), "Envoy is not ready: {}", response.trim());
        Ok(envoy)
    }

    /// Writes changed files for Envoy to read. Like control planes, it adds a new cluster before the routes to it, and
    /// keeps an unused cluster until the next change.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) async fn apply(&mut self, desired: &DesiredState) -> anyhow::Result<()> {
        let (whole, has_new) = self.clusters.next(desired);
        if has_new {
            self.words.forget();
            for (name, value) in
                render(&self.frame, &whole).into_iter().filter(|(name, _)| is_of_clusters(name))
            {
                write_changed(&self.frame.path(&name), &value.to_string())?;
            }
            // A timeout is not an error: the route returns 503 until the cluster is ready, as with Envoy.
            _ = tokio::time::timeout(
                CLUSTER_WARMING_TIMEOUT,
                self.words.wait_for_line(CLUSTERS_UPDATED_MESSAGE),
            )
            .await;
        }
        store(&self.frame, &whole)
    }

    /// Drains like Envoy Gateway's shutdown manager: health checks fail and responses close connections; Envoy exits once
    /// no connection is left, checked every second as that program does, or after the timeout.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.send_request("POST /healthcheck/fail").await.context("tell Envoy to fail health checks")?;
        self.send_request("POST /drain_listeners?graceful&skip_exit").await.context("tell Envoy to drain")?;
        let started = Instant::now();
        tokio::time::sleep(MIN_DRAIN_DURATION).await;
        while started.elapsed() < DRAIN_TIMEOUT && self.open().await? > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.process.signal(Signal::TERM)?;
        self.process.end_within(EXIT_TIMEOUT).await
    }

    /// Its process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Connections that are open.
    async fn open(&self) -> anyhow::Result<u64> {
        let response = self.send_request("GET /stats?filter=^server.total_connections$").await?;
        let value = response.lines().find_map(|line| line.strip_prefix("server.total_connections: "));
        value.and_then(|value| value.trim().parse().ok()).context("Envoy has no server.total_connections")
    }

    async fn send_request(&self, request: &str) -> std::io::Result<String> {
        let text = format!("{request} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        exchange(UnixStream::connect(self.frame.path("admin.sock")).await?, &text).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_envoy_still_has_is_not_waited_for() {
        let to = |name: &str| DesiredState {
            backends: Backends::from([(name.to_owned(), Vec::new())]),
            ..DesiredState::default()
        };
        let mut clusters = Clusters::from_desired(&to("a"));
        let mut next = |name: &str| {
            let (whole, has_new) = clusters.next(&to(name));
            (whole.backends.into_keys().collect::<Vec<_>>().join(" "), has_new)
        };
        assert_eq!(next("b"), ("a b".to_owned(), true));
        assert_eq!(next("a"), ("a b".to_owned(), false), "it was in the files all the time");
        assert_eq!(next("b"), ("a b".to_owned(), false));
        // A second change of the same kind: resources that no route needs were removed, and must work again when they
        // return.
        assert_eq!(next("b"), ("b".to_owned(), false));
        assert_eq!(next("a"), ("a b".to_owned(), true));
    }
}
