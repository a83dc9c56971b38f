//! nginx as a process: its start, reloads that are known to have happened, its end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::UnixStream;

use super::render::{CONFIGURATION, render};
use crate::adapter::admin::exchange;
use crate::adapter::desired::Desired;
use crate::adapter::files::{self, write};
use crate::adapter::frame::Frame;
use crate::adapter::process::Process;
use crate::adapter::words::Words;

/// NGINX Ingress Controller's `-nginx-reload-timeout`.
const RELOAD: Duration = Duration::from_secs(60);
/// What the master writes when it takes up a configuration, when a worker with it was started, and when it refuses one.
/// Workers of the configuration before go on accepting for 100 ms more: that is the master's own pause
/// (`ngx_master_process_cycle`), and the laboratory waits for nothing of it.
const TAKES_UP: &str = "reconfiguring";
const STARTED: &str = "start worker process ";
const REFUSED: &str = "[emerg]";
/// NGINX Ingress Controller ends nginx with `nginx -s quit` at once, without a preStop hook; kubelet kills after the
/// grace period of the pod.
const QUIT: Duration = Duration::from_secs(600);

/// nginx.
pub(crate) struct Nginx {
    process: Process,
    words: Words,
    frame: Frame,
    generation: u64,
}

/// The arguments that start nginx with the configuration of a frame.
fn arguments(frame: &Frame) -> Vec<String> {
    let folder = frame.folder.display().to_string();
    ["-p", &folder, "-e", "stderr", "-c", &frame.file(CONFIGURATION)].map(str::to_owned).to_vec()
}

impl Nginx {
    /// Starts nginx and waits until it serves.
    ///
    /// # Errors
    /// It does not start, or does not take its configuration.
    pub(crate) async fn start(frame: Frame, desired: &Desired) -> anyhow::Result<Self> {
        store(&frame, desired, 1)?;
        let mut command = Command::new("nginx");
        let mut process = Process::of(command.args(arguments(&frame)).stderr(Stdio::piped()))?;
        let stderr = process.stderr().context("nginx has no standard error")?;
        let mut words = Words::of(stderr, &[TAKES_UP, STARTED, REFUSED])?;
        within(words.until_or(STARTED, REFUSED)).await?;
        let socket = frame.path("generation.sock");
        let seen = within(async { Ok(generation(&socket).await?) }).await?;
        anyhow::ensure!(seen == "1", "nginx answers {seen:?} instead of its first configuration's number");
        Ok(Self { process, words, frame, generation: 1 })
    }

    /// Writes the configuration, reloads, and waits until a worker with it is there: its sockets are those of the workers
    /// before, so that it misses no connection.
    ///
    /// # Errors
    /// The configuration is refused, and nginx serves on with the one before.
    pub(crate) async fn apply(&mut self, desired: &Desired) -> anyhow::Result<()> {
        self.generation += 1;
        store(&self.frame, desired, self.generation)?;
        self.words.forget();
        self.process.signal(Signal::HUP)?;
        within(async {
            self.words.until(TAKES_UP).await?;
            self.words.until_or(STARTED, REFUSED).await
        })
        .await
    }

    /// Lets workers finish what they have, and waits for that.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::QUIT)?;
        self.process.end_within(QUIT).await
    }

    /// The master process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

async fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let done = tokio::time::timeout(RELOAD, work).await;
    done.context("nginx has not taken the configuration within a minute; its log says why")?
}

/// Writes the configuration.
///
/// # Errors
/// A file cannot be written.
fn store(frame: &Frame, desired: &Desired, generation: u64) -> anyhow::Result<()> {
    files::certificates(frame, desired)?;
    write(&frame.path(CONFIGURATION), &render(frame, desired, generation))
}

async fn generation(socket: &Path) -> std::io::Result<String> {
    let answer = exchange(UnixStream::connect(socket).await?, "GET / HTTP/1.0\r\n\r\n").await?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}
