//! The backend behind all proxies of `capacity`. Never a part of what is measured.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Yard;

/// The backend of all proxies: this program, in a process of its own. It is ended when it is dropped, so that it does not
/// outlive a run that is interrupted.
pub(super) struct Backend {
    pub(super) addresses: Vec<SocketAddr>,
    child: Child,
}

impl Backend {
    pub(super) fn start(yard: &Yard<'_>, count: usize) -> anyhow::Result<Self> {
        let addresses: Vec<_> = (0..count.max(1)).map(|_| free()).collect::<Result<_, _>>()?;
        let mut command = Command::new(&yard.handover.workshop.laboratory);
        command.arg("backend").args(["--name", "backend"]).stdout(Stdio::null());
        for address in &addresses {
            command.arg("--listen").arg(address.to_string());
        }
        let child = command.spawn().context("start the backend")?;
        let backend = Self { addresses, child };
        backend.wait_for()?;
        Ok(backend)
    }

    fn wait_for(&self) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(10);
        for address in &self.addresses {
            while std::net::TcpStream::connect(address).is_err() {
                anyhow::ensure!(Instant::now() < end, "the backend does not listen on {address}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // It may have ended by itself, by the same signal that interrupts the run.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "the backend cannot be ended");
        }
    }
}

/// An address on loopback that is free now.
pub(super) fn free() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?)
}
