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
use crate::adapter::desired::Desired;
use crate::adapter::files::write_changed;
use crate::adapter::frame::Frame;
use crate::adapter::process::Process;
use crate::adapter::words::Words;

/// How long it may take until it serves.
const START: Duration = Duration::from_secs(60);
/// What Envoy writes when it serves, and when it has taken clusters.
const SERVES: &str = "starting workers";
const TAKEN: &str = "cds: added/updated";
/// Envoy Gateway's `minDrainDuration`: for so long it goes on accepting, so that Services and load balancers notice.
const ACCEPTING: Duration = Duration::from_secs(10);
/// Envoy Gateway's `drainTimeout`.
const DRAIN: Duration = Duration::from_secs(60);
/// What it may take to end once nothing is open.
const END: Duration = Duration::from_secs(5);

/// How long a new cluster may take to be ready before routes use it.
const WARM: Duration = Duration::from_secs(2);

/// Envoy.
pub(crate) struct Envoy {
    process: Process,
    words: Words,
    frame: Frame,
    clusters: Clusters,
}

type Backends = BTreeMap<String, Vec<SocketAddr>>;

/// Which clusters Envoy has.
struct Clusters {
    /// Those that were asked for last.
    wanted: Backends,
    /// Those in its files: these, and the ones that were asked for before.
    known: BTreeSet<String>,
}

impl Clusters {
    fn of(desired: &Desired) -> Self {
        Self { wanted: desired.backends.clone(), known: desired.backends.keys().cloned().collect() }
    }

    /// What its files say next, and whether a cluster is new in them. One that is only not asked for any more is not: Envoy
    /// has it still, and says nothing when it is asked for again.
    fn next(&mut self, desired: &Desired) -> (Desired, bool) {
        let mut whole = desired.clone();
        for (name, endpoints) in &self.wanted {
            whole.backends.entry(name.clone()).or_insert_with(|| endpoints.clone());
        }
        let has_new = whole.backends.keys().any(|name| !self.known.contains(name));
        self.wanted.clone_from(&desired.backends);
        self.known = whole.backends.keys().cloned().collect();
        (whole, has_new)
    }
}

/// The arguments that start Envoy with the files of a frame.
fn arguments(frame: &Frame) -> Vec<String> {
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
fn store(frame: &Frame, desired: &Desired) -> anyhow::Result<()> {
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
    pub(crate) async fn start(frame: Frame, desired: &Desired) -> anyhow::Result<Self> {
        store(&frame, desired)?;
        let mut command = Command::new("envoy");
        command.args(arguments(&frame)).args(["--component-log-level", "config:info,upstream:info"]);
        let mut process = Process::of(command.stderr(Stdio::piped()))?;
        let stderr = process.stderr().context("Envoy has no standard error")?;
        let mut words = Words::of(stderr, &[SERVES, TAKEN])?;
        tokio::time::timeout(START, words.until(SERVES))
            .await
            .context("Envoy does not serve after a minute; its log says why")??;
        let envoy = Self { process, words, frame, clusters: Clusters::of(desired) };
        // Its main thread answers once it has started the workers, and then their sockets listen.
        let answer = envoy.ask("GET /ready").await.context("ask Envoy whether it is ready")?;
        anyhow::ensure!(answer.contains("LIVE"), "Envoy is not ready: {}", answer.trim());
        Ok(envoy)
    }

    /// Writes the files that changed; Envoy reads them. As control planes do: a new cluster is there before a route goes
    /// to it, and one that no route needs any more stays until the next change.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) async fn apply(&mut self, desired: &Desired) -> anyhow::Result<()> {
        let (whole, has_new) = self.clusters.next(desired);
        if has_new {
            self.words.forget();
            for (name, value) in
                render(&self.frame, &whole).into_iter().filter(|(name, _)| is_of_clusters(name))
            {
                write_changed(&self.frame.path(&name), &value.to_string())?;
            }
            // Too late is no error: the route answers 503 until the cluster is there, as Envoy does.
            _ = tokio::time::timeout(WARM, self.words.until(TAKEN)).await;
        }
        store(&self.frame, &whole)
    }

    /// Drains as Envoy Gateway's shutdown manager does: health checks fail, answers close connections, and when none is
    /// left, for which that program, too, looks every second, or the time is over, it ends.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
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
    pub(crate) fn process(&mut self) -> &mut Process {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_envoy_still_has_is_not_waited_for() {
        let to = |name: &str| Desired {
            backends: Backends::from([(name.to_owned(), Vec::new())]),
            ..Desired::default()
        };
        let mut clusters = Clusters::of(&to("a"));
        let mut next = |name: &str| {
            let (whole, has_new) = clusters.next(&to(name));
            (whole.backends.into_keys().collect::<Vec<_>>().join(" "), has_new)
        };
        assert_eq!(next("b"), ("a b".to_owned(), true));
        assert_eq!(next("a"), ("a b".to_owned(), false), "it was in the files all the time");
        assert_eq!(next("b"), ("a b".to_owned(), false));
        // Another change of the same: what no route needs is gone then, and new when it comes back.
        assert_eq!(next("b"), ("b".to_owned(), false));
        assert_eq!(next("a"), ("a b".to_owned(), true));
    }
}
