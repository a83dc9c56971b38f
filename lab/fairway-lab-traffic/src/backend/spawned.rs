//! The backend as a process of its own, so that no generator shares a process with it: this program again. It ends with its
//! value, so that it does not outlive a run that is interrupted.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A running backend.
pub struct Spawned {
    addresses: Vec<SocketAddr>,
    child: Child,
}

impl Spawned {
    /// Starts `program` on this many free loopback ports, with additional arguments of `fairway-lab backend`, and waits
    /// until it listens.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(program: &Path, count: usize, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("backend").args(arguments);
        for _ in 0..count {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut backend = Self { addresses: Vec::new(), child: child.context("start the backend")? };
        let stderr = backend.child.stderr.take().context("the backend has no standard error")?;
        for line in BufReader::new(stderr).lines().take(count) {
            let line = line.context("wait for the backend")?;
            let address = line.strip_prefix("listening on ").and_then(|address| address.parse().ok());
            backend.addresses.push(address.with_context(|| format!("the backend did not start: {line}"))?);
        }
        anyhow::ensure!(backend.addresses.len() == count, "the backend did not start");
        Ok(backend)
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It may have ended by itself, by the same signal that interrupts the run.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "the backend cannot be ended");
        }
    }
}
