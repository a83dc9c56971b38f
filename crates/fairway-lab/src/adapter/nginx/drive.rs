//! nginx as a process: its start, reloads that are known to have happened, its end.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::UnixStream;

use crate::adapter::admin::{exchange, until};
use crate::adapter::desired::Desired;
use crate::adapter::files::{self, write};
use crate::adapter::frame::Frame;
use crate::adapter::process::Process;

use super::render::{CONFIGURATION, render};

/// NGINX Ingress Controller's `-nginx-reload-timeout`.
const RELOAD: Duration = Duration::from_secs(60);
/// How often it looks whether new workers serve.
const LOOK: Duration = Duration::from_millis(25);
/// NGINX Ingress Controller ends nginx with `nginx -s quit` at once, without a preStop hook; kubelet kills after the
/// grace period of the pod.
const QUIT: Duration = Duration::from_secs(600);

/// nginx.
pub struct Nginx {
    process: Process,
    frame: Frame,
    generation: u64,
}

/// The arguments that start nginx with the configuration of a frame.
#[must_use]
pub fn arguments(frame: &Frame) -> Vec<String> {
    let folder = frame.folder.display().to_string();
    ["-p", &folder, "-e", "stderr", "-c", &frame.file(CONFIGURATION)].map(str::to_owned).to_vec()
}

impl Nginx {
    /// Starts nginx and waits until it serves.
    ///
    /// # Errors
    /// It does not start, or does not take its configuration.
    pub async fn start(frame: Frame, desired: &Desired) -> anyhow::Result<Self> {
        store(&frame, desired, 1)?;
        let process = Process::start(Path::new("nginx"), &arguments(&frame))?;
        let nginx = Self { process, frame, generation: 1 };
        nginx.serving().await?;
        Ok(nginx)
    }

    /// Writes the configuration, reloads, and waits until workers with it serve.
    ///
    /// # Errors
    /// The configuration is refused, and nginx serves on with the one before.
    pub async fn apply(&mut self, desired: &Desired) -> anyhow::Result<()> {
        self.generation += 1;
        store(&self.frame, desired, self.generation)?;
        self.process.signal(Signal::HUP)?;
        self.serving().await
    }

    /// Lets workers finish what they have, and waits for that.
    ///
    /// # Errors
    /// It has ended before.
    pub async fn drain(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::QUIT)?;
        self.process.end_within(QUIT).await
    }

    /// The master process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn serving(&self) -> anyhow::Result<()> {
        let socket = self.frame.path("generation.sock");
        let wanted = self.generation.to_string();
        until(RELOAD, LOOK, async || generation(&socket).await.is_ok_and(|seen| seen == wanted))
            .await
            .context("nginx has not taken the configuration within a minute; its log says why")
    }
}

/// Writes the configuration.
///
/// # Errors
/// A file cannot be written.
pub fn store(frame: &Frame, desired: &Desired, generation: u64) -> anyhow::Result<()> {
    files::certificates(frame, desired)?;
    write(&frame.path(CONFIGURATION), &render(frame, desired, generation))
}

async fn generation(socket: &Path) -> std::io::Result<String> {
    let answer = exchange(UnixStream::connect(socket).await?, "GET / HTTP/1.0\r\n\r\n").await?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}
