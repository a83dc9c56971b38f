//! Receives readiness notifications (sd_notify(3)): HAProxy and Caddy send `READY=1` to a socket once a configuration is in
//! use, so polling is not needed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::net::UnixDatagram;

/// The socket that a proxy sends notices to.
pub(crate) struct Notices {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Notices {
    /// The variable that names the socket.
    pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

    /// Listens in a folder.
    pub(crate) fn listen(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("notify.sock");
        // A socket left by an earlier adapter.
        _ = std::fs::remove_file(&path);
        let socket =
            UnixDatagram::bind(&path).with_context(|| format!("listen for notices at {}", path.display()))?;
        Ok(Self { socket, path })
    }

    /// The socket for notifications.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Discards earlier notifications.
    pub(crate) fn forget(&self) {
        while self.socket.try_recv(&mut [0; 4096]).is_ok() {}
    }

    /// Waits for `READY=1`.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        let mut text = [0; 4096];
        loop {
            let length = self.socket.recv(&mut text).await.context("receive a notice of the proxy")?;
            if text[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readiness_after_the_query_counts() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let notices = Notices::listen(folder.path()).unwrap();
            let proxy = UnixDatagram::unbound().unwrap();
            let say = async |text: &str| proxy.send_to(text.as_bytes(), notices.path()).await.unwrap();
            say("READY=1\nMAINPID=1").await;
            notices.socket.readable().await.unwrap();
            notices.forget();
            say("RELOADING=1\nSTATUS=NOTREADY=1").await;
            let mut waiting = Box::pin(notices.ready());
            assert!(futures_util::poll!(&mut waiting).is_pending());
            say("STATUS=Ready.\nREADY=1\n").await;
            waiting.await.unwrap();
        });
    }
}
