//! Caddy as a process: its start, configurations through its admin API, its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use tokio::net::TcpStream;

use super::render::{CONFIGURATION, render};
use crate::adapter::admin::exchange;
use crate::adapter::desired::DesiredState;
use crate::adapter::files::write;
use crate::adapter::frame::Frame;
use crate::adapter::notices::Notices;
use crate::adapter::process::Process;
use crate::adapter::stderr_lines::Words;

/// Caddy's default admin address, reachable only inside the pod. A Unix socket is not possible: version 2.6 removes it when
/// it rejects a configuration.
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2019);
/// Timeout for starting and for loading a configuration.
const CONFIGURATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Like Caddy's ingress controller: Caddy is stopped at once, without a preStop hook, and completes requests in flight; the
/// kubelet kills it after the pod's grace period.
const STOP_TIMEOUT: Duration = Duration::from_secs(600);

/// Caddy.
pub(crate) struct Caddy {
    process: Process,
    frame: Frame,
}

/// The arguments that start Caddy with the configuration of a frame.
fn arguments(frame: &Frame) -> Vec<String> {
    ["run", "--config", &frame.file(CONFIGURATION)].map(str::to_owned).to_vec()
}

/// The environment that Caddy is started with: its workers, and its folder, so that it leaves nothing in a home.
fn environment(frame: &Frame) -> Vec<(&'static str, String)> {
    let folder = frame.folder.display().to_string();
    let mut all = vec![("XDG_DATA_HOME", folder.clone()), ("XDG_CONFIG_HOME", folder)];
    all.extend(frame.workers.map(|workers| ("GOMAXPROCS", workers.to_string())));
    all
}

/// Writes the configuration that it is started with. Without an address it has no admin API.
///
/// # Errors
/// The file cannot be written.
fn store(frame: &Frame, desired: &DesiredState, admin: SocketAddr) -> anyhow::Result<()> {
    write(&frame.path(CONFIGURATION), &render(frame, desired, admin).to_string())
}

impl Caddy {
    /// Starts Caddy and waits until it serves.
    ///
    /// # Errors
    /// It does not start or rejects its configuration.
    pub(crate) async fn start(frame: Frame, desired: &DesiredState) -> anyhow::Result<Self> {
        store(&frame, desired, ADMIN)?;
        let mut command = Command::new("caddy");
        let notices = Notices::listen(&frame.folder)?;
        command.args(arguments(&frame)).envs(environment(&frame)).env(Notices::VARIABLE, notices.path());
        let mut process = Process::spawn(command.stderr(Stdio::piped()))?;
        let mut words = Words::from_stderr(process.stderr().context("Caddy has no standard error")?, &[])?;
        // Caddy notifies when its initial configuration is in use, and also if that failed and it has none.
        let ready = async {
            tokio::time::timeout(CONFIGURATION_TIMEOUT, notices.ready())
                .await
                .context("Caddy does not serve after a minute; its log says why")??;
            let apps = send_request("GET", "/config/apps", "").await.context("ask Caddy what it serves")?;
            let is_serving = is_ok(&apps) && !apps.trim_end().ends_with("null");
            anyhow::ensure!(is_serving, "Caddy serves nothing: {}", apps.trim());
            Ok(())
        };
        process.alive(&mut words, ready).await?;
        Ok(Self { process, frame })
    }

    /// Loads the complete configuration and waits until it is in use.
    ///
    /// # Errors
    /// The configuration is refused, and Caddy serves on with the one before.
    pub(crate) async fn apply(&mut self, desired: &DesiredState) -> anyhow::Result<()> {
        let configuration = render(&self.frame, desired, ADMIN).to_string();
        let response =
            tokio::time::timeout(CONFIGURATION_TIMEOUT, send_request("POST", "/load", &configuration))
                .await
                .context("Caddy has not taken the configuration within a minute; its log says why")?
                .with_context(|| format!("speak with the admin API of Caddy at {ADMIN}"))?;
        anyhow::ensure!(is_ok(&response), "Caddy refuses the configuration: {}", response.trim());
        Ok(())
    }

    /// Stops it gracefully and waits for the exit.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)?;
        self.process.end_within(STOP_TIMEOUT).await
    }

    /// Its process.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn is_ok(response: &str) -> bool {
    response.starts_with("HTTP/1.1 200 ")
}

/// An order to the admin API, which checks the Host.
async fn send_request(method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {ADMIN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    exchange(TcpStream::connect(ADMIN).await?, &text).await
}
