//! nginx as a process: its start, reloads that are known to have happened, its end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::UnixStream;

use super::render::{CONFIGURATION, render};
use crate::adapter::admin::exchange;
use crate::adapter::desired::DesiredState;
use crate::adapter::files::{self, write};
use crate::adapter::frame::Frame;
use crate::adapter::process::Process;
use crate::adapter::stderr_lines::Words;

/// NGINX Ingress Controller's `-nginx-reload-timeout`.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The master's log messages when it loads a configuration, has started a worker with it, or rejects it. Old workers accept
/// for another 100 ms: that is the master's own pause (`ngx_master_process_cycle`); the laboratory does not wait for it.
const TAKES_UP: &str = "reconfiguring";
const WORKER_STARTED_MESSAGE: &str = "start worker process ";
const REFUSED: &str = "[emerg]";
/// NGINX Ingress Controller ends nginx with `nginx -s quit` at once, without a preStop hook; kubelet kills after the
/// grace period of the pod.
const QUIT_TIMEOUT: Duration = Duration::from_secs(600);

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
    /// It does not start or rejects its configuration.
    pub(crate) async fn start(frame: Frame, desired: &DesiredState) -> anyhow::Result<Self> {
        store(&frame, desired, 1)?;
        let mut command = Command::new("nginx");
        let mut process = Process::spawn(command.args(arguments(&frame)).stderr(Stdio::piped()))?;
        let stderr = process.stderr().context("nginx has no standard error")?;
        let mut words = Words::from_stderr(stderr, &[TAKES_UP, WORKER_STARTED_MESSAGE, REFUSED])?;
        within(words.until_or(WORKER_STARTED_MESSAGE, REFUSED)).await?;
        let socket = frame.path("generation.sock");
        let first_generation = within(async { Ok(generation(&socket).await?) }).await?;
        anyhow::ensure!(
            first_generation == "1",
            "nginx answers {first_generation:?} instead of its first configuration's number"
        );
        Ok(Self { process, words, frame, generation: 1 })
    }

    /// Writes the configuration, reloads, and waits for a new worker. The new worker inherits the listening sockets, so no
    /// connection is missed.
    ///
    /// # Errors
    /// The configuration is refused, and nginx serves on with the one before.
    pub(crate) async fn apply(&mut self, desired: &DesiredState) -> anyhow::Result<()> {
        self.generation += 1;
        store(&self.frame, desired, self.generation)?;
        self.words.forget();
        self.process.signal(Signal::HUP)?;
        within(async {
            self.words.wait_for_line(TAKES_UP).await?;
            self.words.until_or(WORKER_STARTED_MESSAGE, REFUSED).await
        })
        .await
    }

    /// Lets workers complete their requests and waits for the exit.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::QUIT)?;
        self.process.end_within(QUIT_TIMEOUT).await
    }

    /// The master process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

async fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let done = tokio::time::timeout(RELOAD_TIMEOUT, work).await;
    done.context("nginx has not taken the configuration within a minute; its log says why")?
}

/// Writes the configuration.
///
/// # Errors
/// A file cannot be written.
fn store(frame: &Frame, desired: &DesiredState, generation: u64) -> anyhow::Result<()> {
    files::certificates(frame, desired)?;
    write(&frame.path(CONFIGURATION), &render(frame, desired, generation))
}

async fn generation(socket: &Path) -> std::io::Result<String> {
    let response = exchange(UnixStream::connect(socket).await?, "GET / HTTP/1.0\r\n\r\n").await?;
    Ok(response.rsplit("\r\n").next().unwrap_or_default().to_owned())
}
