//! The backend of a cross-check: this program again, as a process of its own, so that no generator shares a process with
//! it. Ends with its value.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A running backend.
pub(super) struct Backend {
    child: Child,
    url: String,
}

impl Backend {
    /// Starts it on a free port, with answers that take `delay`, and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(delay: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let mut child = Command::new(program)
            .args(["backend", "--listen", "127.0.0.1:0", "--delay", delay])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start the backend")?;
        let mut line = String::new();
        let said = child.stderr.take().context("the backend has no standard error")?;
        BufReader::new(said).read_line(&mut line).context("wait for the backend")?;
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            child.kill().context("end a backend that does not listen")?;
            anyhow::bail!("the backend did not start: {}", line.trim());
        };
        Ok(Self { url: format!("http://{address}/"), child })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Ends it.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.child.kill().context("end the backend")?;
        self.child.wait().context("wait for the end of the backend")?;
        Ok(())
    }
}
