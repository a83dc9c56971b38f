//! HAProxy as a process: its start, the runtime API, reloads that are known to have happened, its end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::UnixStream;

use super::render::{CONFIGURATION, maps, render, server};
use super::slots::{Fit, SlotChange, Slots};
use crate::adapter::admin::exchange;
use crate::adapter::desired::DesiredState;
use crate::adapter::files::{self, write};
use crate::adapter::frame::Frame;
use crate::adapter::notices::Notices;
use crate::adapter::process::Process;
use crate::adapter::stderr_lines::Words;

/// The socket of the master, and that of the worker's runtime API.
const MASTER: &str = "master.sock";
const RUNTIME: &str = "runtime.sock";
/// Timeout for a new worker to serve.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// HAProxy's ingress controller lets it stop softly at once, without a preStop hook; kubelet kills after the grace period
/// of the pod.
const SOFT_STOP: Duration = Duration::from_secs(600);

/// HAProxy.
pub(crate) struct Haproxy {
    process: Process,
    words: Words,
    notices: Notices,
    frame: Frame,
    slots: Slots,
    generation: u64,
    /// The state being served; `None` after a failed change, so that the next change is a reload.
    served: Option<DesiredState>,
}

/// The arguments that start HAProxy, master and worker, with the configuration of a frame.
fn arguments(frame: &Frame) -> Vec<String> {
    let (configuration, master) = (frame.file(CONFIGURATION), frame.file(MASTER));
    ["-W", "-db", "-S", &master, "-f", &configuration].map(str::to_owned).to_vec()
}

/// Writes the configuration and its maps.
///
/// # Errors
/// A file cannot be written.
fn store(frame: &Frame, desired: &DesiredState, slots: &Slots, generation: u64) -> anyhow::Result<()> {
    files::certificates(frame, desired)?;
    for (name, text) in maps(desired) {
        write(&frame.path(name), &text)?;
    }
    write(&frame.path(CONFIGURATION), &render(frame, desired, slots, generation))
}

impl Haproxy {
    /// Starts HAProxy and waits until it serves.
    ///
    /// # Errors
    /// It does not start or rejects its configuration.
    pub(crate) async fn start(frame: Frame, desired: &DesiredState) -> anyhow::Result<Self> {
        let mut slots = Slots::default();
        slots.fit(&desired.backends);
        store(&frame, desired, &slots, 1)?;
        let notices = Notices::listen(&frame.folder)?;
        let mut command = Command::new("haproxy");
        // Master-worker mode in which the master notifies when a worker is ready.
        command.args(arguments(&frame).iter().map(|word| if word == "-W" { "-Ws" } else { word }));
        command.env(Notices::VARIABLE, notices.path()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut command)?;
        let mut words = Words::from_stderr(process.stderr().context("HAProxy has no standard error")?, &[])?;
        process.alive(&mut words, serving(&notices, &frame, 1)).await?;
        Ok(Self { process, words, notices, frame, slots, generation: 1, served: Some(desired.clone()) })
    }

    /// Updates endpoints through the runtime API if nothing else changed; reloads otherwise.
    ///
    /// # Errors
    /// HAProxy rejects the change; the served state is then unknown until the next change.
    pub(crate) async fn apply(&mut self, desired: &DesiredState) -> anyhow::Result<()> {
        let before = self.served.take();
        let same = before.is_some_and(|before| {
            before.hosts == desired.hosts && before.certificates == desired.certificates
        });
        match self.slots.fit(&desired.backends) {
            Fit::Changes(changes) if same => self.fill(&changes).await?,
            Fit::Changes(_) | Fit::Reload => self.reload(desired).await?,
        }
        self.served = Some(desired.clone());
        Ok(())
    }

    /// Lets workers complete their requests and waits for the exit.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::USR1)?;
        self.process.end_within(SOFT_STOP).await
    }

    /// The master process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    async fn reload(&mut self, desired: &DesiredState) -> anyhow::Result<()> {
        self.generation += 1;
        store(&self.frame, desired, &self.slots, self.generation)?;
        self.notices.forget();
        // A signal that comes while the master is still busy with the reload before is lost; an order on its socket is not.
        let response =
            send_command(&self.frame.path(MASTER), "reload").await.context("order HAProxy to reload")?;
        // From version 3 on the reply comes once that is done; before, it is immediate and empty.
        anyhow::ensure!(
            !response.contains("Success=0"),
            "HAProxy refuses the configuration: {}",
            response.trim()
        );
        let served = serving(&self.notices, &self.frame, self.generation);
        self.process.alive(&mut self.words, served).await
    }

    async fn fill(&self, changes: &[SlotChange]) -> anyhow::Result<()> {
        for SlotChange { backend, slot, endpoint } in changes {
            let name = format!("{backend}/{}", server(*slot));
            let Some(endpoint) = endpoint else {
                self.order(&format!("set server {name} state maint")).await?;
                continue;
            };
            self.order(&format!("set server {name} addr {} port {}", endpoint.ip(), endpoint.port())).await?;
            self.order(&format!("set server {name} state ready")).await?;
        }
        Ok(())
    }

    /// Sends a command that must not return an error. HAProxy responds to a new address with a description of the
    /// change.
    async fn order(&self, order: &str) -> anyhow::Result<()> {
        let response = send_command(&self.frame.path(RUNTIME), order).await.context("speak with HAProxy")?;
        let response = response.trim();
        let is_accepted = response.is_empty()
            || response.contains("changed from")
            || response.contains("no need to change");
        anyhow::ensure!(is_accepted, "HAProxy answers {response:?} to {order:?}");
        Ok(())
    }
}

/// Waits for a notification of the master and checks after each; one also follows a rejected configuration.
async fn serving(notices: &Notices, frame: &Frame, generation: u64) -> anyhow::Result<()> {
    let socket = frame.path(RUNTIME);
    let marker = format!("description: generation-{generation}");
    let served = async {
        loop {
            notices.ready().await?;
            let known = send_command(&socket, "show info").await.unwrap_or_default();
            if known.lines().any(|line| line.eq_ignore_ascii_case(&marker)) {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(RELOAD_TIMEOUT, served)
        .await
        .context("HAProxy has not taken the configuration within a minute; its log says why")?
}

async fn send_command(socket: &Path, order: &str) -> std::io::Result<String> {
    exchange(UnixStream::connect(socket).await?, &format!("{order}\n")).await
}
